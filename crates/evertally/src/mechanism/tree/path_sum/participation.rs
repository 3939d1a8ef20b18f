//! The sensitivity of a path-sum tree to a unit that takes part in several steps.
//!
//! Fewer releases reveal less, so let `T = 2^h`. There `G_is = a_iᵀ C⁻¹ a_s` is a sum over the blocks that hold both
//! steps: with `m_j(i) = min(r_j, 2^j - r_j)` and `r`, `e_j` as in [`super`],
//!
//! ```text
//! G_is = Σ_{j ≥ 1, one block of 2^j} m_j(i) m_j(s) / (2^j e_j) + r(i) r(s) / (2^h e_{h+1}) ≥ 0,
//! ```
//!
//! because the Haar coefficients of `a_i` are 0 outside the blocks around `i`. A pattern of `k` steps has
//! `Σ_i G_ii ≤ k s²`, and of the pairs of different steps, in a block with `c` of them,
//! `Σ_{i≠s} m(i) m(s) ≤ (1 - 1/c) (Σ m)²`. There `m` is a tent of height `2^(j-1)` and slope 1, and the distances of
//! `c` steps, `b` apart, from its top add up to at least `b ⌊c²/4⌋`:
//!
//! ```text
//! Σ_{i≠s} m(i) m(s) ≤ F(c) = (1 - 1/c) (c 2^(j-1) - b ⌊c²/4⌋)²,
//! ```
//!
//! at most `k · max F(c)/c` on the level, and at most `max F(c)` for each of its blocks. At the root `r ≤ 2^h`, and the
//! steps are `b` apart: `Σ r ≤ k 2^h - b k(k-1)/2`.

use super::{height, trie};
use crate::mechanism::Participation;
use crate::mechanism::accounting::participation::rounded_up;
use crate::mechanism::accounting::trie_pairs::{Alpha, Rung, Trie};

/// What the blocks of every level reveal.
pub(super) struct LevelBlocks {
    horizon: u64,
    /// For every level, leaves first: its variance, `α` of a complete block and of the last one.
    levels: Vec<(f64, Alpha, Alpha)>,
}

impl LevelBlocks {
    /// For these weights, leaves first.
    pub(super) fn new(horizon: u64, weights: &[u16]) -> Self {
        let variance = |level: u32| weights.get(level as usize).map_or(0.0, |w| f64::from(*w) * f64::from(*w));
        let mut levels = vec![(variance(0), Alpha::Bare, Alpha::Bare)];
        for level in 1..=height(horizon) {
            let (below, complete, last) = levels[level as usize - 1];
            let (complete, last) = (complete.under(below), last.under(below));
            // The last block has two halves if the last one of the level below has an odd number.
            let cut = if (horizon - 1) >> (level - 1) & 1 == 1 { complete.beside(last) } else { last };
            levels.push((variance(level), complete.beside(complete), cut));
        }
        Self { horizon, levels }
    }
}

impl Trie for LevelBlocks {
    fn leaf(&self, step: u64) -> u128 {
        (step - 1).into()
    }

    fn climb(&self, step: u64, rungs: &mut Vec<Rung>) {
        rungs.clear();
        rungs.extend((0..).zip(&self.levels).map(|(level, (variance, complete, cut))| {
            let (own, last) = ((step - 1) >> level, (self.horizon - 1) >> level);
            let of = |number: u64| if number < last { *complete } else { *cut };
            let is_left = own & 1 == 0 && own < last;
            let later = if is_left { of(own + 1).under(*variance) } else { Alpha::Empty };
            Rung { inside: of(own), variance: *variance, later }
        }));
    }
}

/// Up to this many steps in a block, every number of them is evaluated.
const COUNTED: u64 = 1 << 12;

/// An upper bound for these weights, leaves first.
pub(super) fn squared(horizon: u64, weights: &[u16], participation: Participation) -> f64 {
    // The highest blocks may be longer than the horizon.
    let participation = participation.over(horizon);
    let (height, times) = (height(horizon), participation.most() as f64);
    let mut sum = times * trie(1 << height, weights).sensitivity_squared();
    let variance = |level: u32| weights.get(level as usize).map_or(0.0, |w| f64::from(*w) * f64::from(*w));
    // e_j
    let mut inside = 0.0;
    for level in 1..=height {
        let size = libm::exp2(f64::from(level));
        inside += size / 2.0 * variance(level - 1);
        let (each, block) = pairs(1 << level, participation.within(horizon.min(1 << level)), participation);
        let blocks = libm::ceil(horizon as f64 / size);
        sum += (times * each).min(blocks * block) / (size * inside);
    }
    let (whole, separation) = (libm::exp2(f64::from(height)), participation.separation() as f64);
    let distances = if times > 1.0 { separation * times * (times - 1.0) / 2.0 } else { 0.0 };
    let rest = times * whole - distances;
    sum += (1.0 - 1.0 / times) * rest * rest / (whole * (inside + whole * variance(height)));
    rounded_up(sum, 1024)
}

/// `max F(c)/c` and `max F(c)` for blocks of `size` steps, `most` of them of the pattern.
fn pairs(size: u64, most: u64, participation: Participation) -> (f64, f64) {
    let (half, separation) = (size as f64 / 2.0, participation.separation() as f64);
    let of = |count: u64| {
        let (c, distances) = (count as f64, libm::floor((count as f64) * (count as f64) / 4.0));
        let sum = c * half - separation * distances;
        (1.0 - 1.0 / c) * sum * sum
    };
    if most <= COUNTED {
        let all = (2..=most).map(|c| (of(c) / c as f64, of(c)));
        return all.fold((0.0, 0.0), |best: (f64, f64), next| (best.0.max(next.0), best.1.max(next.1)));
    }
    // With y = c b/size the sum is at most c · half (1 - y/2) + b/4; y (1 - y/2)² is at most 8/27, and y (1 - y/2) at
    // most 1/2. As c is above 2^12 when this is used, b/4 is less than 2^-12 of the sum.
    let full = size as f64 / separation * half;
    let head_room = 1.0 + 4.0 / COUNTED as f64;
    (8.0 / 27.0 * full * half * head_room, 0.25 * full * full * head_room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::PathSum;
    use crate::mechanism::accounting::trie_pairs::tests::{
        long_horizons_are_close, products_are_those_of_dense_algebra,
    };

    #[test]
    fn pairs_of_blocks() {
        for horizon in [1, 2, 3, 8, 13, 32, 57] {
            for tree in [PathSum::uniform(horizon, true), PathSum::uniform(horizon, false), PathSum::best(horizon)] {
                let tree = tree.unwrap();
                products_are_those_of_dense_algebra(&LevelBlocks::new(horizon, tree.weights.as_slice()), &tree);
            }
        }
        for horizon in [1 << 20, 700_001] {
            let best = PathSum::best(horizon).unwrap();
            long_horizons_are_close(&LevelBlocks::new(horizon, best.weights.as_slice()), &best);
        }
    }

    /// The bound for very many steps in a block is above the counted value, and near it.
    #[test]
    fn many_steps_in_a_block() {
        for (size, separation) in [(1u64 << 14, 1), (1 << 14, 2), (1 << 16, 3), (1 << 16, 5)] {
            let participation = Participation::new(u64::MAX, separation).unwrap();
            let most = participation.within(size);
            assert!(most > COUNTED, "another branch");
            let (each, block) = pairs(size, most, participation);
            let (mut largest_each, mut largest) = (0.0f64, 0.0f64);
            for count in 2..=most {
                let distances = separation as f64 * ((count / 2) * (count - count / 2)) as f64;
                let sum = count as f64 * size as f64 / 2.0 - distances;
                let ordered = (1.0 - 1.0 / count as f64) * sum * sum;
                (largest_each, largest) = (largest_each.max(ordered / count as f64), largest.max(ordered));
            }
            assert!(each >= largest_each && each < 1.01 * largest_each, "{size} {separation}: {each} {largest_each}");
            assert!(block >= largest && block < 1.01 * largest, "{size} {separation}: {block} {largest}");
        }
    }
}
