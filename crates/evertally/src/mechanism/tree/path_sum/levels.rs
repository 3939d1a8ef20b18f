//! The search for the best level weights.
//!
//! The value `Σ λ_l² · s²` of the best real weights is flat around its minimum, and the divisors of 10080 between 16
//! and 160 lie close enough to come within one part in 10³ of it, while their least common multiple stays small.
//! Weights of the middle levels hardly differ: only the lowest and the highest levels of a tree of at most 2^12 leaves
//! with the same leading bits of the horizon are searched one by one, and a higher tree repeats the middle.

use super::{Levels, height, trie};

/// The number that all searched weights divide.
const MULTIPLE: u16 = 10080;
/// Levels at the bottom and at the top with individual weights.
const LOWEST: usize = 6;
const HIGHEST: usize = 5;
/// Height of the tree that is searched.
const SEARCHED: u32 = 12;

/// The best weights found for a horizon, by coordinate descent from three starts. Deterministic.
pub(super) fn best(horizon: u64) -> Levels {
    let cut = height(horizon).saturating_sub(SEARCHED);
    let search = LevelSearch::new(((horizon - 1) >> cut) + 1);
    let (_, mut weights) = search
        .starts()
        .map(|start| search.descend(start))
        .into_iter()
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("three starts");
    if cut > 0 {
        weights.splice(LOWEST..LOWEST, vec![weights[LOWEST]; cut as usize]);
    }
    Levels::new(&weights).expect("at most 63 weights from 1 on")
}

struct LevelSearch {
    horizon: u64,
    divisors: Vec<u16>,
    /// The coordinate of every level, leaves first.
    coordinates: Vec<usize>,
}

impl LevelSearch {
    fn new(horizon: u64) -> Self {
        let levels = height(horizon) as usize + 1;
        let coordinate = |level: usize| match levels - 1 - level {
            from_top if from_top < HIGHEST && levels > LOWEST + HIGHEST => LOWEST + HIGHEST - from_top,
            _ if levels > LOWEST + HIGHEST => level.min(LOWEST),
            _ => level,
        };
        let divisors = (16..=160).filter(|d| MULTIPLE.is_multiple_of(*d)).collect();
        Self { horizon, divisors, coordinates: (0..levels).map(coordinate).collect() }
    }

    /// Indices of divisors: the pattern of long horizons, in several sizes.
    fn starts(&self) -> [Vec<usize>; 3] {
        let count = self.coordinates.iter().max().map_or(0, |c| c + 1);
        [50.0, 60.0, 80.0].map(|size| {
            let place = |weight: f64| self.divisors.partition_point(|d| f64::from(*d) < weight * size);
            let mut pattern = vec![place(1.0); count];
            for (at, weight) in [(0, 1.6), (1, 0.56), (2, 1.12), (3, 0.88)].into_iter().filter(|(at, _)| *at < count) {
                pattern[at] = place(weight);
            }
            for (from_top, weight) in [(1, 1.2), (2, 0.7)].into_iter().filter(|(from_top, _)| from_top + 4 < count) {
                pattern[count - from_top] = place(weight);
            }
            pattern
        })
    }

    fn weights(&self, places: &[usize]) -> Vec<u16> {
        self.coordinates.iter().map(|c| self.divisors[places[*c]]).collect()
    }

    fn figure(&self, places: &[usize]) -> f64 {
        let weights = self.weights(places);
        let variance: f64 = weights.iter().map(|w| f64::from(*w) * f64::from(*w)).sum();
        variance * trie(self.horizon, &weights).sensitivity_squared()
    }

    /// Moves one coordinate at a time by one or two divisors as long as that improves the result.
    fn descend(&self, mut places: Vec<usize>) -> (f64, Vec<u16>) {
        let mut best = self.figure(&places);
        loop {
            let before = best;
            for at in 0..places.len() {
                for change in [1, -1, 2, -2] {
                    let place = places[at].saturating_add_signed(change).min(self.divisors.len() - 1);
                    let kept = std::mem::replace(&mut places[at], place);
                    let figure = if place == kept { best } else { self.figure(&places) };
                    if figure < best {
                        best = figure;
                    } else {
                        places[at] = kept;
                    }
                }
            }
            if best >= before {
                return (best, self.weights(&places));
            }
        }
    }
}
