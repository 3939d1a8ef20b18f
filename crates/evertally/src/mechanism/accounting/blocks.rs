//! The tree blocks that two steps share, for nodes that sum a block of consecutive steps.
//!
//! `G_st` is the number of nodes that contain both steps, at most one per level. A block that contains `s` and `t`
//! contains all steps between them, so `G_st` does not grow as the two move apart. [`chain`](super::chain) requires
//! this.

use super::chain::{self, ColumnProducts};
use crate::mechanism::Participation;

/// Levels of blocks of `base^level` steps.
pub(in crate::mechanism) struct SharedBlocks {
    pub(in crate::mechanism) horizon: u64,
    pub(in crate::mechanism) base: u64,
    pub(in crate::mechanism) levels: u32,
    /// The index (from 0), among `base` sibling blocks, of the block that nothing reads.
    pub(in crate::mechanism) unread: Option<u64>,
    /// Whether only blocks that end by the horizon are read.
    pub(in crate::mechanism) complete: bool,
}

impl SharedBlocks {
    /// An upper bound of the squared sensitivity to a unit that takes part in several steps; infinite if they are too
    /// many, because a search tries dozens of trees.
    pub(in crate::mechanism) fn squared(&self, participation: Participation) -> f64 {
        if participation.within(self.horizon).saturating_mul(self.horizon) > chain::MAX_VECTOR_ADDITIONS {
            return f64::INFINITY;
        }
        chain::of_steps(self, participation, chain::MAX_VECTOR_ADDITIONS, 0)
    }

    /// How many blocks contain both steps, counted from 0.
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

impl ColumnProducts for SharedBlocks {
    fn steps(&self) -> usize {
        usize::try_from(self.horizon).unwrap_or(usize::MAX)
    }

    fn inner_products(&self, distance: usize, into: &mut [f64]) {
        for (t, into) in into.iter_mut().enumerate().skip(distance) {
            *into = self.product((t - distance) as u64, t as u64);
        }
    }

    /// Never called: these bounds go step by step.
    fn between(&self, _distance: usize, _earlier: (usize, usize), _later: (usize, usize)) -> f64 {
        f64::from(self.levels)
    }
}
