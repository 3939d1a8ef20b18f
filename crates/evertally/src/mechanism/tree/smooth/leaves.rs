//! The leaves of a smooth tree as a trie: numbers with a fixed count of one bits, and an edge of variance 1 for each
//! one bit.

use super::Binomials;
use crate::mechanism::accounting::trie_pairs::{Alpha, Rung, Trie};
use std::cell::RefCell;
use std::collections::HashMap;

/// Leaves of rank `1 ..= last`.
pub(super) struct Leaves<'a> {
    last: u128,
    height: u32,
    ones: u32,
    binomials: &'a Binomials,
    /// `α` of all numbers of a width with this many ones.
    complete: Vec<Vec<Alpha>>,
    /// The same for the numbers between two ranks, if some are missing.
    cut: RefCell<HashMap<(u32, u32, u128, u128), Alpha>>,
}

/// Numbers of a width with this many ones, by their first and last rank; a last rank of `None` includes all.
#[derive(Clone, Copy)]
struct RankRange {
    width: u32,
    ones: u32,
    first: u128,
    last: Option<u128>,
}

impl<'a> Leaves<'a> {
    pub(super) fn new(horizon: u64, height: u32, ones: u32, binomials: &'a Binomials) -> Self {
        let mut complete: Vec<Vec<Alpha>> = vec![vec![Alpha::Empty; ones as usize + 1]];
        complete[0][0] = Alpha::Bare;
        for width in 1..=height as usize {
            let below = &complete[width - 1];
            let of = |count: usize| {
                let right = if count > 0 { below[count - 1].under(1.0) } else { Alpha::Empty };
                below[count].beside(right)
            };
            let row = (0..=ones as usize).map(of).collect();
            complete.push(row);
        }
        Self { last: horizon.into(), height, ones, binomials, complete, cut: RefCell::default() }
    }

    /// All numbers if the first rank is 0 and the last is the largest.
    fn range(&self, width: u32, ones: u32, first: u128, last: Option<u128>) -> RankRange {
        let leaves = self.binomials.choose(width, ones);
        RankRange { width, ones, first, last: last.filter(|last| *last < leaves) }
    }

    /// Numbers with a leading 0, which come first, and those with a leading 1.
    fn halves(&self, range: RankRange) -> (RankRange, Option<RankRange>) {
        let RankRange { width, ones, first, last } = range;
        let left = self.binomials.choose(width - 1, ones);
        let zero = self.range(width - 1, ones, first, last);
        let reaches = ones > 0 && last.is_none_or(|last| last >= left);
        let one =
            reaches.then(|| self.range(width - 1, ones - 1, first.saturating_sub(left), last.map(|last| last - left)));
        (zero, one)
    }

    fn alpha(&self, range: RankRange) -> Alpha {
        let RankRange { width, ones, first, last } = range;
        let leaves = self.binomials.choose(width, ones);
        let end = last.map_or(leaves, |last| last + 1);
        if first >= end.min(leaves) {
            return Alpha::Empty;
        }
        if first == 0 && end >= leaves {
            return self.complete[width as usize][ones as usize];
        }
        let key = (width, ones, first, end);
        if let Some(known) = self.cut.borrow().get(&key) {
            return *known;
        }
        let (zero, one) = self.halves(range);
        let both = self.alpha(zero).beside(one.map_or(Alpha::Empty, |one| self.alpha(one).under(1.0)));
        self.cut.borrow_mut().insert(key, both);
        both
    }
}

impl Trie for Leaves<'_> {
    fn leaf(&self, step: u64) -> u128 {
        let mut leaf = 0;
        self.binomials.unrank(step, self.height, self.ones, |position, _, _| leaf |= 1 << position);
        leaf
    }

    fn climb(&self, step: u64, rungs: &mut Vec<Rung>) {
        rungs.clear();
        let mut here = self.range(self.height, self.ones, 1, Some(self.last));
        let mut rank = u128::from(step);
        while here.width > 0 {
            let left = self.binomials.choose(here.width - 1, here.ones);
            let (zero, one) = self.halves(here);
            let (next, variance, later) = if rank < left {
                let later = one.map_or(Alpha::Empty, |one| self.alpha(one).under(1.0));
                (zero, 0.0, later)
            } else {
                rank -= left;
                (one.expect("the rank is there"), 1.0, Alpha::Empty)
            };
            rungs.push(Rung { inside: self.alpha(next), variance, later });
            here = next;
        }
        rungs.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::accounting::trie_pairs::tests::{
        long_horizons_are_close, products_are_those_of_dense_algebra,
    };
    use crate::mechanism::{Criterion, NoiseKind, Objective, Smooth};

    #[test]
    fn pairs_of_leaves() {
        for (horizon, height, zeros) in [(1, 2, 1), (5, 4, 2), (19, 6, 3), (40, 9, 5), (9, 10, 9), (60, 12, 3)] {
            let smooth = Smooth::new(horizon, height, zeros).unwrap();
            let leaves = Leaves::new(horizon, height, height - zeros, &smooth.binomials);
            products_are_those_of_dense_algebra(&leaves, &smooth);
        }
        let best = Smooth::best(1 << 20, &Criterion::new(NoiseKind::Gaussian, Objective::Max).exact()).unwrap();
        let leaves = Leaves::new(1 << 20, best.height, best.ones(), &best.binomials);
        long_horizons_are_close(&leaves, &best);
    }
}
