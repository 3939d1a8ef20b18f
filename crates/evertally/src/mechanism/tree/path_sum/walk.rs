//! The paths of a path-sum tree: one stretch per level, from the root down.

use crate::mechanism::Levels;
use crate::mechanism::walk::Walk;
use crate::noise::Node;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct LevelWalk {
    /// Sums of the squared weights, from the root: `lengths[d]` of the first `d` levels.
    lengths: Vec<u64>,
    depth: u32,
    weights: Levels,
}

impl LevelWalk {
    /// From the weights of the levels.
    pub(super) fn new(weights: Levels) -> Self {
        let mut lengths = vec![0];
        for weight in weights.as_slice().iter().rev() {
            // fits: at most 63 squares below 2^32.
            lengths.push(lengths[lengths.len() - 1] + u64::from(*weight).pow(2));
        }
        Self { lengths, depth: weights.as_slice().len() as u32, weights }
    }
}

impl Walk for LevelWalk {
    fn visit(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        for (level, weight) in self.weights.as_slice().iter().enumerate().rev() {
            visit(Node { level: level as u32, index: (step - 1) >> level }, f64::from(*weight));
        }
    }

    fn depth(&self, _step: u64) -> u32 {
        self.depth
    }

    /// The levels above the highest bit in which the numbers of the leaves differ.
    fn shared(&self, earlier: u64, later: u64) -> u32 {
        let apart = u64::BITS - ((earlier - 1) ^ (later - 1)).leading_zeros();
        self.depth.saturating_sub(apart)
    }

    fn length(&self, depth: u32) -> u64 {
        self.lengths[depth as usize]
    }

    fn is_uniform(&self) -> bool {
        self.lengths[self.depth as usize] == u64::from(self.depth)
    }
}
