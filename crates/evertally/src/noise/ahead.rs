//! The values of noise variables that will be requested soon, drawn many at a time.
//!
//! The first keystream blocks of different nodes are computed side by side, in a fraction of the time of computing them
//! one by one, and most values follow from the first numbers of a block. The caller predicts the next nodes; a wrong
//! prediction costs time but does not change any value.

use evertally_kernels::{FirstBlocks, InstructionSet};
use zeroize::Zeroize;

use super::{DiscreteLaplace, DiscreteLaw, KeyedNoise, Node, RandomBits};

/// Blocks that are computed side by side.
const LANES: usize = 16;

/// Nodes that will be requested soon, and the values of some of them.
pub(crate) struct NodeDrawCache {
    law: DiscreteLaw,
    instructions: InstructionSet,
    nodes: [Node; Self::NODES],
    /// Of the 16 nodes that are requested now: noise of unpublished steps, overwritten when dropped.
    blocks: FirstBlocks,
    values: [i128; LANES],
    /// The number of nodes, and how many of them were requested.
    count: usize,
    used: usize,
}

impl NodeDrawCache {
    /// Maximum number of nodes at once.
    pub(crate) const NODES: usize = 16 * LANES;

    pub(crate) fn new(law: DiscreteLaw) -> Self {
        Self {
            law,
            instructions: InstructionSet::best(),
            nodes: [Node { level: 0, index: 0 }; Self::NODES],
            blocks: FirstBlocks::default(),
            values: [0; LANES],
            count: 0,
            used: 0,
        }
    }

    /// Whether every predicted node has been requested.
    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.used == self.count
    }

    /// Continues with the nodes that `foretell` writes and counts.
    pub(crate) fn fill(&mut self, foretell: impl FnOnce(&mut [Node; Self::NODES]) -> usize) {
        (self.count, self.used) = (foretell(&mut self.nodes), 0);
    }

    /// The value of a node: the same whether it was predicted or not. Every call is for the same noise.
    #[inline]
    pub(crate) fn draw(&mut self, noise: &KeyedNoise, node: Node) -> i128 {
        if self.used < self.count && self.nodes[self.used] == node {
            let lane = self.used % LANES;
            if lane == 0 {
                self.draw_next(noise);
            }
            self.used += 1;
            return self.values[lane];
        }
        self.used = self.count; // the prediction was wrong, or is used up
        self.law.sample(&mut noise.bits(node))
    }

    /// Draws the values of the next 16 nodes.
    #[inline(never)]
    fn draw_next(&mut self, noise: &KeyedNoise) {
        // Nodes after the last predicted one are old: their values are not read.
        let nodes = &self.nodes[self.used..self.used + LANES];
        let mut names = [(0, 0); LANES];
        names.iter_mut().zip(nodes).for_each(|(name, node)| *name = (node.level, node.index));
        self.blocks.compute(self.instructions, noise.words(), &names);
        let (blocks, values) = (&self.blocks, self.values.iter_mut().zip(nodes).enumerate());
        match &self.law {
            DiscreteLaw::Laplace(law) => {
                values.for_each(|(lane, (value, node))| *value = laplace(law, noise, *node, blocks, lane));
            }
            DiscreteLaw::Gaussian(law) => values.for_each(|(lane, (value, node))| {
                *value = law.sample(&mut noise.bits_from(*node, blocks.block(lane)));
            }),
        }
    }
}

/// The value of a node whose first block is in this lane.
#[inline]
fn laplace(law: &DiscreteLaplace, noise: &KeyedNoise, node: Node, blocks: &FirstBlocks, lane: usize) -> i128 {
    law.sample_ordered(blocks.descents(lane), |place| blocks.half_word(lane, place)).unwrap_or_else(|rejected| {
        let mut bits = noise.bits_from(node, blocks.block(lane));
        bits.skip(rejected);
        law.sample(&mut bits)
    })
}

impl Drop for NodeDrawCache {
    fn drop(&mut self) {
        self.values.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{DiscreteGaussian, Purpose, SecretKey, TestSeed};
    use crate::number::Ratio;

    fn noise() -> KeyedNoise {
        let key = SecretKey::insecure_from_test_seed(TestSeed(3));
        KeyedNoise::unrecorded(&key, &"ahead".parse().unwrap(), &[1; 32], Purpose::Total)
    }

    /// Few or many `-0`, one digit or two, with and without a division, and scales that need big integers.
    fn laws() -> Vec<DiscreteLaw> {
        let scales = [(1, 9), (5, 2), (6, 1), (1 << 16, 1), ((1 << 16) + 1, 1), (1 << 50, 3), (u64::MAX.into(), 7)];
        let laplace = |(p, q): (u128, u128)| DiscreteLaplace::new(Ratio::new(p, q).unwrap()).unwrap().into();
        let gaussian = DiscreteGaussian::new(Ratio::new(200, 1).unwrap()).unwrap().into();
        scales.into_iter().chain([(1 << 90, 1)]).map(laplace).chain([gaussian]).collect()
    }

    /// Correct, wrong and missing predictions.
    #[test]
    fn values_do_not_depend_on_what_was_foretold() {
        let noise = noise();
        let node = |i: u64| Node { level: i as u32 % 5, index: i << 33 | i };
        for law in laws() {
            let mut ahead = NodeDrawCache::new(law);
            let mut hold = |start: u64, count: usize, asked: &[u64]| {
                ahead.fill(|nodes| {
                    nodes.iter_mut().zip(start..).for_each(|(place, i)| *place = node(i));
                    count
                });
                for i in asked {
                    let want = law.sample(&mut noise.bits(node(*i)));
                    assert_eq!(ahead.draw(&noise, node(*i)), want, "{law}: {i} of {count} from {start}");
                }
                ahead.is_exhausted()
            };
            assert!(hold(0, NodeDrawCache::NODES, &(0..NodeDrawCache::NODES as u64).collect::<Vec<_>>()));
            assert!(!hold(7, 20, &[7, 8]) && hold(7, 3, &[7, 8, 9, 10]) && hold(100, 20, &[100, 102, 101]));
            assert!(hold(5, 0, &[5]));
        }
    }

    /// Enough draws for equal neighbours, long runs, and fractions that need more digits.
    #[test]
    fn rare_values_are_those_of_single_draws() {
        let noise = noise();
        for law in laws() {
            let mut ahead = NodeDrawCache::new(law);
            for first in (0..40_000).step_by(NodeDrawCache::NODES) {
                let node = |i: usize| Node { level: 9, index: first + i as u64 };
                ahead.fill(|nodes| {
                    nodes.iter_mut().enumerate().for_each(|(i, place)| *place = node(i));
                    NodeDrawCache::NODES
                });
                for node in (0..NodeDrawCache::NODES).map(node) {
                    assert_eq!(ahead.draw(&noise, node), law.sample(&mut noise.bits(node)), "{law}, {node:?}");
                }
            }
        }
    }
}
