//! The bits of noise variables that will be requested soon, computed many at a time.
//!
//! The first keystream blocks of different nodes are computed side by side, in a fraction of the time of computing them
//! one by one. The caller predicts the next nodes; a wrong prediction costs time but does not change any bit.

use evertally_kernels::{FirstBlocks, InstructionSet};

use super::{KeyedNoise, Node, NodeBits};

/// Blocks that are computed side by side.
const LANES: usize = 16;

/// Nodes that will be requested soon, and the first blocks of some of them.
pub(crate) struct NodeBlockCache {
    instructions: InstructionSet,
    nodes: [Node; Self::NODES],
    /// Those of the 16 nodes that are requested now: noise of unpublished steps, overwritten when dropped.
    blocks: FirstBlocks,
    /// The number of nodes, and how many of them were requested.
    count: usize,
    used: usize,
}

impl NodeBlockCache {
    /// Maximum number of nodes at once. The nodes of a step that are beyond it are computed one by one, so there are
    /// many more than in a step.
    pub(crate) const NODES: usize = 16 * LANES;

    pub(crate) fn new() -> Self {
        let nodes = [Node { level: 0, index: 0 }; Self::NODES];
        Self { instructions: InstructionSet::best(), nodes, blocks: FirstBlocks::default(), count: 0, used: 0 }
    }

    /// Whether every predicted node has been requested.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.used == self.count
    }

    /// Continues with the nodes that `foretell` writes and counts.
    pub(crate) fn fill(&mut self, foretell: impl FnOnce(&mut [Node; Self::NODES]) -> usize) {
        (self.count, self.used) = (foretell(&mut self.nodes), 0);
    }

    /// The bits of a node: the same whether it was predicted or not.
    #[inline]
    pub(crate) fn bits<'a>(&mut self, noise: &'a KeyedNoise, node: Node) -> NodeBits<'a> {
        if self.used < self.count && self.nodes[self.used] == node {
            let lane = self.used % LANES;
            if lane == 0 {
                self.compute(noise);
            }
            self.used += 1;
            return noise.bits_from(node, self.blocks.block(lane));
        }
        self.used = self.count; // the prediction was wrong, or is used up
        noise.bits(node)
    }

    /// Computes the blocks of the next 16 nodes.
    fn compute(&mut self, noise: &KeyedNoise) {
        // Nodes after the last predicted one are old: their blocks are not read.
        let nodes = &self.nodes[self.used..self.used + LANES];
        let mut names = [(0, 0); LANES];
        names.iter_mut().zip(nodes).for_each(|(name, node)| *name = (node.level, node.index));
        self.blocks.compute(self.instructions, noise.words(), &names);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Purpose, RandomBits, SecretKey, TestSeed};

    /// Correct, wrong and missing predictions, and draws that go beyond the first block.
    #[test]
    fn bits_do_not_depend_on_what_was_foretold() {
        let key = SecretKey::insecure_from_test_seed(TestSeed(3));
        let noise = KeyedNoise::unrecorded(&key, &"ahead".parse().unwrap(), &[1; 32], Purpose::Total);
        let node = |i: u64| Node { level: i as u32 % 5, index: i << 33 | i };
        let mut ahead = NodeBlockCache::new();
        let mut hold = |start: u64, count: usize, asked: &[u64]| {
            ahead.fill(|nodes| {
                nodes.iter_mut().zip(start..).for_each(|(place, i)| *place = node(i));
                count
            });
            for i in asked {
                let (mut got, mut want) = (ahead.bits(&noise, node(*i)), noise.bits(node(*i)));
                assert!((0..30).all(|_| got.next_u64() == want.next_u64()), "{i} of {count} from {start}");
            }
            ahead.is_exhausted()
        };
        assert!(hold(0, NodeBlockCache::NODES, &(0..NodeBlockCache::NODES as u64).collect::<Vec<_>>()));
        assert!(!hold(7, 20, &[7, 8]) && hold(7, 3, &[7, 8, 9, 10]) && hold(100, 20, &[100, 102, 101]));
        assert!(hold(5, 0, &[5]));
    }
}
