//! The blocks of a tree that two steps have in common, where a node sums a block of consecutive steps.
//!
//! `G_st` is the number of nodes that hold both steps, one a level at most. A block that holds `s` and `t` holds all steps
//! between them, so `G_st` does not grow as the two move apart: what [`chain`](super::chain) asks for, for single steps and
//! for blocks of them (no pair of a step up to `s` with one from `t ≥ s` on has more than `G_st`).

use super::chain::{self, Columns};
use crate::mechanism::Participation;

/// Levels of blocks of `base^level` steps.
pub(in crate::mechanism) struct SharedBlocks {
    pub(in crate::mechanism) horizon: u64,
    pub(in crate::mechanism) base: u64,
    pub(in crate::mechanism) levels: u32,
    /// The number among `base` blocks, from 0, of the one that nothing reads.
    pub(in crate::mechanism) unread: Option<u64>,
    /// Whether only blocks that end by the horizon are read.
    pub(in crate::mechanism) complete: bool,
}

impl SharedBlocks {
    /// An upper bound of the squared sensitivity to a unit that takes part in several steps.
    pub(in crate::mechanism) fn squared(&self, participation: Participation) -> f64 {
        chain::of_steps(self, participation, chain::FEW, 0)
    }

    /// How many blocks hold both steps, counted from 0.
    fn product(&self, earlier: u64, later: u64) -> f64 {
        let (mut own, mut other, mut width) = (earlier, later, 1u64);
        let mut count = 0;
        for _ in 0..self.levels {
            let read = self.unread.is_none_or(|unread| own % self.base != unread);
            let whole = !self.complete || own < self.horizon / width;
            count += u32::from(own == other && read && whole);
            (own, other, width) = (own / self.base, other / self.base, width.saturating_mul(self.base));
        }
        f64::from(count)
    }
}

impl Columns for SharedBlocks {
    fn steps(&self) -> usize {
        usize::try_from(self.horizon).unwrap_or(usize::MAX)
    }

    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        for (t, into) in into.iter_mut().enumerate().skip(distance) {
            *into = self.product((t - distance) as u64, t as u64);
        }
    }

    fn between(&self, distance: usize, earlier: (usize, usize), later: (usize, usize)) -> f64 {
        let last = earlier.1.min(later.1.saturating_sub(distance));
        match distance {
            // No step is so far before these.
            1.. if last == 0 => 0.0,
            1.. if last < later.0 => self.product(last as u64 - 1, later.0 as u64 - 1),
            // In one block there may be a step at either of them.
            _ => f64::from(self.levels),
        }
    }
}
