//! The bound by patterns over more steps than the weights of single patterns can be searched for.
//!
//! The steps are divided into blocks of `f = N/D`, and the best weights are found for a coarse unit, with a step for
//! each block. From a coarse pattern with the blocks `i_1, i_2, …` and signs follow `N` patterns of the unit, one for
//! every `j < N`: `c` events `b` steps apart, beginning in step `⌊(i_l N + j) / D⌋`, for every `l`. If the coarse unit
//! has `⌊k/c⌋` events at least `D` blocks apart and `N = c b`, these are patterns of the unit: at most `k` events, at
//! least `b` apart; those beyond the horizon are left out. Each of them gets the `N`-th part of the weight, and the
//! [bound](super::patterns) is computed for all steps.
//!
//! Compared with separate weights for all patterns the bound loses a few percent.

use super::nuclear::nuclear_norm;
use super::patterns::{BestWeights, Directions, MAX_STEPS};
use crate::Result;
use crate::mechanism::{Objective, Participation, SearchWatch};

/// Longest horizon.
const MAX_LIFTED_STEPS: u64 = 1024;

/// A proven lower bound of `√(s² V)` for any factorization of the prefix sums over `horizon` steps: `s` is its
/// sensitivity to a unit that adds vectors of norm 1 and any direction to the steps of a participation, and `V` the
/// mean of `‖L_t‖²`, or their maximum. `None` above 1024 steps. A few tenths of a second up to 512 steps, a second or
/// less for 1024.
///
/// Up to 64 steps with the best weights of all patterns; beyond that, of patterns that follow from those of 64 blocks
/// of steps.
///
/// ```
/// use evertally::mechanism::{Objective, Participation};
/// use evertally::plan::vector_lower_bound;
/// let unit = Participation::new(4, 4)?;
/// let bound = vector_lower_bound(16, unit, Objective::Mean).unwrap();
/// assert!(bound > 3.69 && bound < 13.6773f64.sqrt()); // a factorization reaches 13.6773
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn vector_lower_bound(horizon: u64, participation: Participation, objective: Objective) -> Option<f64> {
    bound(horizon, participation, (objective, SearchWatch::NONE), Directions::Any).expect("nothing cancels it")
}

/// The same for one direction or any.
///
/// # Errors
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the search.
pub(super) fn bound(
    horizon: u64,
    participation: Participation,
    aim: (Objective, SearchWatch<'_>),
    directions: Directions,
) -> Result<Option<f64>> {
    if horizon <= MAX_STEPS {
        return Ok(Some(BestWeights::find(horizon as usize, participation, aim, directions)?.bound));
    }
    if horizon > MAX_LIFTED_STEPS {
        return Ok(None);
    }
    let lift = Lift::new(horizon as usize, participation, MAX_STEPS as usize);
    lift.bound(aim, directions)
}

/// How the patterns of a unit follow from coarse ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lift {
    steps: usize,
    separation: usize,
    /// `c`.
    together: usize,
    /// `N` and `D`.
    block: (usize, usize),
    /// The number of events of the coarse unit.
    events: usize,
}

impl Lift {
    /// With at most this many blocks.
    pub(super) fn new(steps: usize, runs: Participation, blocks: usize) -> Self {
        // fits: within the horizon
        let (most, separation) = (runs.within(steps as u64) as usize, runs.separation().min(steps as u64) as usize);
        let least = steps.div_ceil(blocks);
        let lift = |together: usize, block: (usize, usize)| Self {
            steps,
            separation,
            together,
            block,
            events: most / together,
        };
        if separation >= least {
            return lift(1, (separation, separation / least));
        }
        let together = least.div_ceil(separation);
        if most < 2 * together {
            return lift(most, (least, 1));
        }
        // The number that leaves out the fewest events.
        let left_out = |together: &usize| most % together;
        let together = (together..2 * together).min_by_key(left_out).unwrap_or(together);
        lift(together, (together * separation, 1))
    }

    fn blocks(&self) -> usize {
        (self.steps * self.block.1).div_ceil(self.block.0)
    }

    /// The first step of a block in the pattern with the number `j`.
    fn step(&self, block: usize, j: usize) -> usize {
        (block * self.block.0 + j) / self.block.1
    }

    /// The bound by the best weights of the coarse unit. `O(T³)`.
    pub(super) fn bound(&self, aim: (Objective, SearchWatch<'_>), directions: Directions) -> Result<Option<f64>> {
        let Ok(unit) = Participation::new(self.events as u64, self.block.1 as u64) else { return Ok(None) };
        let best = BestWeights::find(self.blocks(), unit, aim, directions)?;
        let rows = match aim.0 {
            Objective::Mean => vec![1.0 / self.steps as f64; self.steps],
            Objective::Max => self.row_weights(&best.rows),
        };
        Ok(Some(nuclear_norm(self.mean(&best.mean), &rows)))
    }

    /// The weights of the steps from those of the blocks.
    fn row_weights(&self, coarse: &[f64]) -> Vec<f64> {
        let mut rows = vec![0.0; self.steps];
        for (block, weight) in coarse.iter().enumerate() {
            for j in 0..self.block.0 {
                if let Some(row) = rows.get_mut(self.step(block, j)) {
                    *row += weight;
                }
            }
        }
        let total: f64 = rows.iter().sum();
        rows.iter_mut().for_each(|row| *row /= total);
        rows
    }

    /// The mean of `uuᵀ` from that of the coarse patterns, row after row.
    fn mean(&self, coarse: &[f64]) -> Vec<f64> {
        let (steps, blocks) = (self.steps, self.blocks());
        let mut mean = vec![0.0; steps * steps];
        for j in 0..self.block.0 {
            let events = |block: usize| {
                let first = self.step(block, j);
                (first..steps).step_by(self.separation).take(self.together)
            };
            for (place, weight) in coarse.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                for s in events(place / blocks) {
                    events(place % blocks).for_each(|t| mean[s * steps + t] += weight);
                }
            }
        }
        mean.iter_mut().for_each(|entry| *entry /= self.block.0 as f64);
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{Criterion, DenseRuns, Mechanism, MechanismName};
    use nalgebra::DMatrix;

    fn unit(most: u64, separation: u64) -> Participation {
        Participation::new(most, separation).unwrap()
    }

    /// The mean of `uuᵀ` over lifted patterns, each of which is one of the unit, and its nuclear norm by another
    /// library.
    #[test]
    fn the_norm_is_that_of_patterns_of_the_unit() {
        for (steps, most, separation) in
            [(90usize, 4, 20), (80, 5, 7), (100, 7, 3), (70, 6, 1), (75, 2, 1), (77, 90, 1)]
        {
            let lift = Lift::new(steps, unit(most, separation), 16);
            let (blocks, count) = (lift.blocks(), lift.block.0);
            let coarse: Vec<Vec<usize>> = (0..blocks)
                .map(|first| (first..blocks).step_by(lift.block.1 + first % 2).take(lift.events).collect())
                .collect();
            let share = 1.0 / (coarse.len() * count) as f64;
            let (mut small, mut mean) = (vec![0.0; blocks * blocks], DMatrix::zeros(steps, steps));
            for (number, pattern) in coarse.iter().enumerate() {
                let sign = |place: usize| if (number + place).is_multiple_of(3) { -1.0 } else { 1.0 };
                for (a, i) in pattern.iter().enumerate() {
                    for (b, l) in pattern.iter().enumerate() {
                        small[i * blocks + l] += sign(a) * sign(b) / coarse.len() as f64;
                    }
                }
                for j in 0..count {
                    let of_block = |(place, i): (usize, &usize)| {
                        let first = (i * lift.block.0 + j) / lift.block.1;
                        (0..lift.together).map(move |q| (first + q * lift.separation, sign(place)))
                    };
                    let events: Vec<(usize, f64)> = pattern.iter().enumerate().flat_map(of_block).collect();
                    assert!(events.len() as u64 <= most, "{steps} {most} {separation}: {events:?}");
                    let apart = events.windows(2).all(|pair| pair[1].0 >= pair[0].0 + separation as usize);
                    assert!(apart, "{steps} {most} {separation}: {events:?}");
                    let mut u = nalgebra::DVector::zeros(steps);
                    events.into_iter().filter(|(t, _)| *t < steps).for_each(|(t, sign)| u[t] = sign);
                    mean += share * &u * u.transpose();
                }
            }
            let rows: Vec<f64> = (1..=steps).map(|t| t as f64).collect();
            let rows: Vec<f64> = rows.iter().map(|row| row / rows.iter().sum::<f64>()).collect();
            let found = nuclear_norm(lift.mean(&small), &rows);
            let sums = DMatrix::from_fn(steps, steps, |t, s| if s <= t { rows[t].sqrt() } else { 0.0 });
            let squares = (&sums * mean * sums.transpose()).symmetric_eigenvalues();
            let want: f64 = squares.iter().map(|value| value.max(0.0).sqrt()).sum();
            assert!(found <= want * (1.0 + 1e-9) && found > 0.999 * want, "{steps} {most}: {found} {want}");
        }
    }

    /// No mechanism is below the bound, and optima are near.
    #[test]
    fn optima_are_near_the_bound() {
        for (steps, runs) in [(96, unit(4, 24)), (90, unit(3, 17))] {
            let optimum = DenseRuns::solve(steps, runs, Objective::Mean).unwrap();
            let mean = (Objective::Mean, SearchWatch::NONE);
            let reached = optimum.participation_squared(runs) * optimum.mean_row_norm_squared();
            let bound = Lift::new(steps as usize, runs, 32).bound(mean, Directions::Any).unwrap().unwrap().powi(2);
            assert!(reached > bound && reached < 1.06 * bound, "{steps} {runs:?}: {reached} {bound}");
        }
        let (steps, runs) = (200, unit(10, 1));
        let criterion = Criterion::from_vectors(Objective::Max, runs);
        let max = (Objective::Max, SearchWatch::NONE);
        let bound = Lift::new(steps, runs, 32).bound(max, Directions::One).unwrap().unwrap().powi(2);
        let blt = "normalized-blt".parse::<MechanismName>().unwrap().build(steps as u64, &criterion).unwrap();
        let reached = criterion.figure(&*blt);
        assert!(reached > bound && reached < 1.3 * bound, "{reached} {bound}");
    }
}
