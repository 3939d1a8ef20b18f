//! How far an example moves the rows, by the step of the epoch that it is allocated to: the Gram matrix that
//! [`RandomAllocation`] needs, for any mechanism with a row of `R` for every step.
//!
//! All of these stream by a Toeplitz matrix with scaled columns, `R_tj = c_(t-j) d_j` (negative entries count as
//! positive). Step `i` of the epochs moves row `t` by `m_i(t) = Σ_e |R_(t, i+eb)|`, over the steps `i + e b ≤ t`.
//!
//! Independent noise needs no matrix: step `i` moves as many rows by 1 as there are steps `i + e b ≤ T`.

use super::SamplingGuarantee;
use crate::random_allocation::{DisjointAllocation, MAX_BINS, RandomAllocation, in_parts};
use evertally::mechanism::{BandSteps, BufferSteps, Convolution, Mechanism, Streaming};
use evertally::{Error, Result};

/// Longest horizon for any mechanism.
const MAX_STEPS: u64 = 1 << 16;
/// The most pairs of overlapping columns: some seconds.
const MAX_PAIRS: u64 = MAX_STEPS * MAX_STEPS;
/// Number of distances of columns that are summed at once.
const SCANNED: usize = 4;
/// Longest horizon for which columns are listed.
const MAX_LISTED_STEPS: u64 = 1 << 20;

/// `c_0, c_1, …` up to the last that is not 0, and `d_1, d_2, …` if they are not all 1.
pub(super) struct Columns {
    pub(super) coefficients: Vec<f64>,
    pub(super) scales: Option<Vec<f64>>,
}

impl Columns {
    /// From a mechanism with a feasible horizon; `None` if it has no row of `R` for every step.
    ///
    /// # Errors
    /// If the horizon is too long, or an epoch has too many steps, or more than the horizon.
    pub(super) fn new(mechanism: &dyn Mechanism, steps_per_epoch: u64) -> Result<Option<Self>> {
        let horizon = mechanism.horizon();
        check_epoch(horizon, steps_per_epoch)?;
        RandomAllocation::check(steps_per_epoch)?;
        let Some(streaming) = mechanism.streaming() else { return Ok(None) };
        let reach = match &streaming {
            Streaming::Inputs => 1,
            Streaming::Outputs(past) | Streaming::Bands(BandSteps { past, .. }) => past.len() as u64 + 1,
            _ => horizon,
        };
        if horizon > MAX_LISTED_STEPS || horizon.saturating_mul(reach) > MAX_PAIRS {
            return Err(Error::invalid(format!(
                "random allocation with `{}` is accounted for up to {MAX_STEPS} steps, got {horizon}: use fewer bands, \
                 or independent noise",
                mechanism.name().brief()
            )));
        }
        Ok(Self::of(&streaming, horizon as usize))
    }

    /// From the way the noise streams.
    fn of(streaming: &Streaming, horizon: usize) -> Option<Self> {
        let banded = |past: &[f64]| std::iter::once(1.0).chain(past.iter().copied()).take(horizon).collect();
        let inverted = |values: &[f64]| values.iter().map(|value| 1.0 / value).collect();
        Some(match streaming {
            Streaming::Inputs => Self { coefficients: vec![1.0], scales: None },
            Streaming::Outputs(past) => Self { coefficients: banded(past), scales: None },
            Streaming::Bands(BandSteps { past, scales, .. }) => {
                Self { coefficients: banded(past), scales: Some(inverted(scales)) }
            }
            Streaming::Buffers(steps) => Self {
                coefficients: response(steps, horizon),
                scales: Some((1..=horizon as u64).map(|step| 1.0 / steps.scale(step)).collect()),
            },
            Streaming::Innovations(weights) => Self { coefficients: reciprocal(weights, horizon), scales: None },
            Streaming::Convolution(Convolution { increments, scales, .. }) => Self {
                coefficients: reciprocal(increments, horizon),
                scales: scales.as_ref().map(|scales| inverted(scales)),
            },
            Streaming::Paths(_) | Streaming::Estimates | Streaming::Triangular(_) => return None,
        })
    }

    /// The inner products of how far the steps of an epoch move the rows, row after row.
    fn products(&self, horizon: usize, steps_per_epoch: usize) -> Vec<f64> {
        let wide = steps_per_epoch;
        let scales = self.scales.clone().unwrap_or_else(|| vec![1.0; horizon]);
        let diagonals = in_parts(wide as u64 / 2 + 1, |apart| self.diagonal(&scales, wide, apart as usize));
        let mut gram = vec![0.0; wide * wide];
        for (apart, diagonal) in diagonals.into_iter().enumerate() {
            for (i, product) in diagonal.into_iter().enumerate() {
                let j = (i + apart) % wide;
                (gram[i * wide + j], gram[j * wide + i]) = (product, product);
            }
        }
        gram
    }

    /// The inner products of all steps `i` and `i + apart` of an epoch of this many steps, modulo that number, with one
    /// scale for each step: distance by distance of the columns, as those of two columns depend on it, on the scales
    /// and on the number of rows that follow.
    fn diagonal(&self, scales: &[f64], wide: usize, apart: usize) -> Vec<f64> {
        let (coefficients, horizon) = (&self.coefficients, scales.len());
        let (mut diagonal, mut by_place) = (vec![0.0; wide], vec![0.0; wide]);
        let is_here = |distance: &usize| distance % wide == apart || (distance + apart).is_multiple_of(wide);
        let distances: Vec<usize> = (0..coefficients.len().min(horizon)).filter(is_here).collect();
        for distances in distances.chunks(SCANNED) {
            for (distance, sums) in distances.iter().copied().zip(running_products(coefficients, distances)) {
                set_by_place(&sums, scales, distance, &mut by_place);
                for (i, own) in by_place.iter().enumerate() {
                    // The later column is `apart` steps of an epoch after the earlier one, or before it, or both.
                    if distance % wide == apart {
                        diagonal[i] += own;
                    }
                    if distance > 0 && (distance + apart).is_multiple_of(wide) {
                        diagonal[(i + wide - apart) % wide] += own;
                    }
                }
            }
        }
        diagonal
    }
}

/// The running sums of the products of a later column and the one before it at each of these distances, over as many
/// rows as follow. Several distances at once take little more time than one.
fn running_products(coefficients: &[f64], distances: &[usize]) -> Vec<Vec<f64>> {
    let lengths: Vec<usize> = distances.iter().map(|distance| coefficients.len() - distance).collect();
    let shared = if distances.len() == SCANNED { lengths[SCANNED - 1] } else { 0 };
    let mut all: Vec<Vec<f64>> = lengths.iter().map(|length| vec![0.0; length + 1]).collect();
    let mut last = [0.0; SCANNED];
    if let [one, two, three, four] = &mut all[..] {
        let earlier = |lane: usize| &coefficients[distances[lane]..][..shared];
        let sums = one[1..].iter_mut().zip(&mut two[1..]).zip(&mut three[1..]).zip(&mut four[1..]);
        let products = earlier(0).iter().zip(earlier(1)).zip(earlier(2)).zip(earlier(3)).zip(coefficients);
        for ((((one, two), three), four), ((((a, b), c), d), later)) in sums.zip(products) {
            for (sum, earlier) in last.iter_mut().zip([a, b, c, d]) {
                *sum += (later * earlier).abs();
            }
            [*one, *two, *three, *four] = last;
        }
    }
    for ((sums, distance), mut sum) in all.iter_mut().zip(distances).zip(last) {
        let rest = coefficients[shared..].iter().zip(&coefficients[distance + shared..]);
        for (own, (later, earlier)) in sums[shared + 1..].iter_mut().zip(rest) {
            sum += (later * earlier).abs();
            *own = sum;
        }
    }
    all
}

/// Overwrites, for every place of an epoch, the sum of the inner products of its columns with those at a distance.
fn set_by_place(sums: &[f64], scales: &[f64], distance: usize, by_place: &mut [f64]) {
    let (rows, all, wide) = (scales.len() - distance, sums.len() - 1, by_place.len());
    by_place.fill(0.0);
    for first in (0..rows).step_by(wide) {
        let pairs = by_place.iter_mut().zip(scales[first..rows].iter().zip(&scales[first + distance..]));
        if all >= rows {
            let sums = sums[..=rows - first].iter().rev();
            for ((own, (earlier, later)), sum) in pairs.zip(sums) {
                *own += sum * earlier.abs() * later.abs();
            }
        } else {
            for ((own, (earlier, later)), column) in pairs.zip(first..) {
                *own += sums[(rows - column).min(all)] * earlier.abs() * later.abs();
            }
        }
    }
}

/// Refuses a run that ends before every example has taken part.
fn check_epoch(horizon: u64, steps_per_epoch: u64) -> Result<()> {
    if steps_per_epoch > horizon {
        return Err(Error::invalid(format!(
            "with {steps_per_epoch} steps per epoch and {horizon} steps in all, some examples would never take part: \
             plan at least one epoch"
        )));
    }
    Ok(())
}

/// The guarantee of independent noise with more steps per epoch than a table may have: allocated once, or in rounds.
/// `None` for other noise, or fewer steps.
pub(super) fn of_independent_noise(
    mechanism: &dyn Mechanism,
    steps_per_epoch: u64,
    rounds: Option<u64>,
) -> Result<Option<SamplingGuarantee>> {
    let horizon = mechanism.horizon();
    let is_listed = steps_per_epoch <= MAX_BINS && horizon <= MAX_LISTED_STEPS;
    if is_listed || !matches!(mechanism.streaming(), Some(Streaming::Inputs)) {
        return Ok(None);
    }
    check_epoch(horizon, steps_per_epoch)?;
    let (epochs, longer) = (horizon / steps_per_epoch, horizon % steps_per_epoch);
    let own = match rounds {
        Some(rounds) => DisjointAllocation::new(&[(1.0, steps_per_epoch)], rounds),
        None if longer == 0 => DisjointAllocation::new(&[(epochs as f64, steps_per_epoch)], 1),
        None => {
            let kinds = [(epochs as f64 + 1.0, longer), (epochs as f64, steps_per_epoch - longer)];
            DisjointAllocation::new(&kinds, 1)
        }
    };
    Ok(Some(SamplingGuarantee::Disjoint(own?)))
}

/// `c_0 = 1`, `c_j = Σ ω_i θ_i^(j-1)`.
fn response(steps: &BufferSteps, horizon: usize) -> Vec<f64> {
    let mut powers = vec![1.0; steps.gaps.len()];
    let mut coefficients = vec![1.0];
    for _ in 1..horizon {
        coefficients.push(steps.echoes.iter().zip(&powers).map(|(echo, power)| echo * power).sum());
        for (power, gap) in powers.iter_mut().zip(&steps.gaps) {
            *power *= 1.0 - gap;
        }
    }
    coefficients
}

/// The first coefficients of one over a series.
fn reciprocal(series: &[f64], horizon: usize) -> Vec<f64> {
    let mut inverse = vec![1.0 / series[0]];
    for at in 1..horizon {
        let reach = series.len().min(at + 1);
        let sum: f64 = (1..reach).map(|back| series[back] * inverse[at - back]).sum();
        inverse.push(-sum / series[0]);
    }
    inverse
}

/// The guarantee of a mechanism, for noise of standard deviation 1 and vectors of norm 1. `O(T r)` if a row reads `r`
/// steps, and the cube of the steps of an epoch.
///
/// # Errors
/// If it has no row of `R` for every step, or the horizon is too long.
pub(super) fn guarantee(mechanism: &dyn Mechanism, steps_per_epoch: u64) -> Result<SamplingGuarantee> {
    match of_independent_noise(mechanism, steps_per_epoch, None)? {
        Some(own) => Ok(own),
        None => table(mechanism, steps_per_epoch).map(SamplingGuarantee::Allocation),
    }
}

/// The same from a table of the steps of an epoch.
fn table(mechanism: &dyn Mechanism, steps_per_epoch: u64) -> Result<RandomAllocation> {
    let (name, horizon) = (mechanism.name(), mechanism.horizon());
    let Some(columns) = Columns::new(mechanism, steps_per_epoch)? else {
        return Err(Error::invalid(format!(
            "`{}` adds up noise in more than one row per step, and this library has no bound on its amplification by \
             random allocation; use {}, or plan without sampling",
            name.brief(),
            super::banded_names(horizon.min(64))
        )));
    };
    let wide = steps_per_epoch as usize; // fits: at most the horizon
    RandomAllocation::new(wide, columns.products(horizon as usize, wide))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally::mechanism::{Criterion, MechanismName, Objective, Participation};

    /// The table compared with the columns of the dense twin, for every way of streaming.
    #[test]
    fn a_step_of_the_epoch_moves_the_sum_of_its_columns() {
        let participation = Participation::new(4, 10).unwrap();
        let names = [
            "input",
            "epoch-bands(bands=7)",
            "banded-sqrt(bands=12)",
            "banded-inverse-sqrt(bands=5)",
            "blt(buffers=2)",
            "normalized-blt(buffers=3)",
            "sqrt",
            "normalized-sqrt",
        ];
        for name in names {
            let criterion = Criterion::from_vectors(Objective::Mean, participation);
            let mechanism = name.parse::<MechanismName>().unwrap().build(37, &criterion).unwrap();
            let right = mechanism.dense().r;
            let moved =
                |first: usize, row: usize| (first..37).step_by(10).map(|j| right.row(row)[j].abs()).sum::<f64>();
            let found = table(&*mechanism, 10).unwrap();
            for i in 0..10 {
                for j in 0..10 {
                    let twin: f64 = (0..37).map(|row| moved(i, row) * moved(j, row)).sum();
                    let own = found.product(i, j);
                    // `R` of the square roots is taken before it is rounded to 14 bits or more.
                    assert!((own / twin.max(1e-300) - 1.0).abs() < 2e-3 || twin == own, "{name}: {own} {twin}");
                }
            }
            // To anyone who knows the allocation, the largest of them matters: that of fixed epochs.
            let fixed = mechanism.participation_squared(participation);
            let largest = (0..10).map(|i| found.product(i, i)).fold(0.0, f64::max);
            assert!(largest <= fixed * 1.001, "{name}: {largest} {fixed}");
        }
        let tree = "binary".parse::<MechanismName>().unwrap();
        let tree = tree.build(37, &Criterion::from_vectors(Objective::Max, participation)).unwrap();
        let refused = guarantee(&*tree, 10).unwrap_err().to_string();
        assert!(refused.contains("plan without sampling") && refused.contains("`epoch-bands(bands=37)`"), "{refused}");
    }
}
