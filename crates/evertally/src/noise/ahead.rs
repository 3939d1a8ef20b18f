//! The bits of noise variables that will be requested soon, computed many at a time.
//!
//! The first keystream blocks of different nodes are computed side by side, in a fraction of the time of computing them
//! one by one. The caller predicts the next nodes; a wrong prediction costs time but does not change any bit.

use evertally_kernels::{InstructionSet, first_blocks};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{KeyedNoise, Node, NodeBits};

/// Blocks that are computed side by side.
const LANES: usize = 16;

/// Nodes, and the first blocks of their bits.
pub(crate) struct NodeBlockCache {
    instructions: InstructionSet,
    nodes: [Node; Self::NODES],
    blocks: [[[u8; 64]; LANES]; Self::NODES / LANES],
    /// The number of nodes, and how many of them were requested.
    count: usize,
    used: usize,
}

impl NodeBlockCache {
    /// Maximum number of nodes at once.
    pub(crate) const NODES: usize = 4 * LANES;

    pub(crate) fn new() -> Self {
        let nodes = [Node { level: 0, index: 0 }; Self::NODES];
        Self {
            instructions: InstructionSet::best(),
            nodes,
            blocks: [[[0; 64]; LANES]; Self::NODES / LANES],
            count: 0,
            used: 0,
        }
    }

    /// Whether every predicted node has been requested.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.used == self.count
    }

    /// Computes the blocks of the nodes that `foretell` writes and counts.
    pub(crate) fn fill(&mut self, noise: &KeyedNoise, foretell: impl FnOnce(&mut [Node; Self::NODES]) -> usize) {
        (self.count, self.used) = (foretell(&mut self.nodes), 0);
        let (groups, _) = self.nodes.as_chunks::<LANES>();
        for (nodes, blocks) in groups.iter().zip(&mut self.blocks).take(self.count.div_ceil(LANES)) {
            let mut names = [(0, 0); LANES];
            names.iter_mut().zip(nodes).for_each(|(name, node)| *name = (node.level, node.index));
            *blocks = first_blocks(self.instructions, noise.words(), &names);
        }
    }

    /// The bits of a node: the same whether it was predicted or not.
    #[inline]
    pub(crate) fn bits<'a>(&mut self, noise: &'a KeyedNoise, node: Node) -> NodeBits<'a> {
        if self.used < self.count && self.nodes[self.used] == node {
            self.used += 1;
            let place = self.used - 1;
            return noise.bits_from(node, self.blocks[place / LANES][place % LANES]);
        }
        self.used = self.count; // the prediction was wrong, or is used up
        noise.bits(node)
    }
}

impl Drop for NodeBlockCache {
    /// The blocks hold the noise of unpublished steps.
    fn drop(&mut self) {
        self.blocks.zeroize();
    }
}

impl ZeroizeOnDrop for NodeBlockCache {}

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
            ahead.fill(&noise, |nodes| {
                nodes.iter_mut().zip(start..).for_each(|(place, i)| *place = node(i));
                count
            });
            for i in asked {
                let (mut got, mut want) = (ahead.bits(&noise, node(*i)), noise.bits(node(*i)));
                assert!((0..30).all(|_| got.next_u64() == want.next_u64()), "{i} of {count} from {start}");
            }
            ahead.is_exhausted()
        };
        assert!(hold(0, NodeBlockCache::NODES, &(0..64).collect::<Vec<_>>()));
        assert!(!hold(7, 20, &[7, 8]) && hold(7, 3, &[7, 8, 9, 10]) && hold(100, 20, &[100, 102, 101]));
        assert!(hold(5, 0, &[5]));
    }
}
