//! Bands and weights of epochs with little error: descent on the error itself.
//!
//! Variables are the coefficients `c_1 … c_(bands-1)` and the logarithms of the epochs' weights `w_2, w_3, …`
//! (`c_0 = w_1 = 1`). The search minimises `log S + log V`: `S` is the sum of the `k` largest weights, `V` the mean of
//! the variances of the steps, or a power mean that approaches the largest from round to round. A release is a linear
//! recursion over the increments ([`Recursion`]), so variances and their slopes take one pass forwards and one
//! backwards over every column of the inverse. `O(T²)` per evaluation; over [many](MANY) steps a column is dropped once
//! the inverse has faded, and from there only its energy is followed: `O(T · bands)`, times about ten.
//!
//! **Long horizons.** Relative to those of the square root, the coefficients depend on the share of the bands, hardly
//! on their number, and so do the weights. So the search takes every few steps as one, and its result is the start of a
//! few steps of the descent over all steps; over very long horizons it is the result.

use crate::mechanism::{Objective, Participation, Recursion, SearchWatch};
use crate::number::descent::minimise;

/// Maximum number of distinct weights: if there are many epochs, consecutive ones share a weight. A smooth curve loses
/// little in this many pieces, and their sums are computed quickly.
pub(super) const MAX_WEIGHTS: usize = 24;
/// Columns that are processed side by side.
const LANES: usize = 8;
/// Exponents by which the maximum is softened, one descent after the other.
const POWERS: [f64; 3] = [30.0, 120.0, 480.0];
const MAX_STEPS: usize = 60;
/// The same for few bands over horizons above this, where they lose little.
const MANY_FEW_BANDS: usize = 1 << 11;
const MAX_STEPS_FEW_BANDS: usize = 20;
/// Up to this horizon, descents begin with fewer bands, too.
const FEW: usize = 32;
/// Horizons above this are long: the tail of the inverse, or of a momentum, is cut off once it is below [`NEGLIGIBLE`].
const MANY: usize = 1 << 10;
/// Horizons above this are searched in blocks of steps first, if as many blocks as these are left, and as many bands.
const MIN_BLOCKS: usize = 1 << 9;
const MIN_BLOCK_BANDS: usize = 8;
/// The number of steps of the descent that follows, up to the second horizon; none above.
const LAST_STEPS: usize = 8;
const MAX_LAST_HORIZON: usize = 1 << 12;
const NEGLIGIBLE: f64 = 1e-9;
const MIN_GAIN: f64 = 1e-6;

/// The search problem.
pub(super) struct EpochBandsProblem<'a> {
    pub(super) bands: usize,
    /// The number of steps of an epoch, and the number of epochs in which an example takes part.
    pub(super) runs: Participation,
    pub(super) objective: Objective,
    /// How much more a heavy epoch costs than a light one, see [`EpochBandsProblem::cost`].
    pub(super) sharpness: f64,
    pub(super) of: &'a Recursion,
    pub(super) watch: SearchWatch<'a>,
}

/// Coefficients `c`, and the weights of epochs.
pub(super) struct EpochBandsSolution {
    pub(super) coefficients: Vec<f64>,
    weights: Vec<f64>,
    epochs: usize,
    /// Steps of an epoch.
    epoch: usize,
}

impl EpochBandsSolution {
    /// The index of the weight of a step, from 0.
    fn place(&self, step: usize) -> usize {
        // fits: an epoch is one of at most 2^14
        step / self.epoch * self.weights.len() / self.epochs
    }

    /// The weight of a step's column.
    pub(super) fn weight(&self, step: usize) -> f64 {
        self.weights[self.place(step)]
    }
}

impl EpochBandsProblem<'_> {
    fn horizon(&self) -> usize {
        self.of.steps.len()
    }

    pub(super) fn search(&self) -> EpochBandsSolution {
        self.taken_apart(&self.point_with_fewer_bands())
    }

    /// Over few steps, descents also begin with the result for one band less: more bands are never worse.
    fn point_with_fewer_bands(&self) -> Vec<f64> {
        let own = self.best_point();
        if self.bands == 1 || self.horizon() > FEW {
            return own;
        }
        let mut other = EpochBandsProblem { bands: self.bands - 1, ..*self }.point_with_fewer_bands();
        other.insert(self.bands - 2, 0.0);
        let power = if self.objective == Objective::Max { POWERS.last().copied() } else { None };
        self.descend(&mut other, MAX_STEPS, power);
        if self.evaluate(&other, power).0 < self.evaluate(&own, power).0 { other } else { own }
    }

    /// Coefficients, then logarithms of weights, both without the first.
    fn best_point(&self) -> Vec<f64> {
        let rounds: &[Option<f64>] = match self.objective {
            Objective::Mean => &[None],
            Objective::Max => &POWERS.map(Some),
        };
        let (mut point, rounds, steps) = match self.point_of_blocks() {
            Some(point) if self.horizon() > MAX_LAST_HORIZON => return point,
            Some(point) => (point, &rounds[rounds.len() - 1..], LAST_STEPS),
            None => {
                let mut point = first_coefficients(self.bands)[1..].to_vec();
                point.resize(self.bands - 1 + self.weights() - 1, 0.0);
                (point, rounds, if self.horizon() > MANY_FEW_BANDS { MAX_STEPS_FEW_BANDS } else { MAX_STEPS })
            }
        };
        for power in rounds {
            self.descend(&mut point, steps, *power);
        }
        point
    }

    fn descend(&self, point: &mut Vec<f64>, steps: usize, power: Option<f64>) {
        minimise(point, steps, MIN_GAIN, &mut |point| self.watch.evaluate(|| self.evaluate(point, power)));
    }

    /// The result of a search that takes a number of steps as one; `None` over a short horizon, or with few bands.
    fn point_of_blocks(&self) -> Option<Vec<f64>> {
        let (horizon, apart) = (self.horizon(), self.runs.separation());
        let fits = |block: &usize| horizon / block >= MIN_BLOCKS && self.bands / block >= MIN_BLOCK_BANDS;
        let block = (1..14).map(|bits| 1usize << bits).take_while(fits).last()?;
        let of_block = |steps: &[(f64, f64)]| {
            let kept = steps.iter().map(|(kept, _)| kept).product();
            (kept, steps.iter().map(|(_, rate)| rate).sum::<f64>() / steps.len() as f64)
        };
        let of = Recursion {
            momentum: libm::pow(self.of.momentum, block as f64),
            steps: self.of.steps.chunks(block).map(of_block).collect(),
        };
        let runs = Participation::new(self.runs.most(), apart.div_ceil(block as u64)).ok()?;
        let blocks = EpochBandsProblem { bands: self.bands.div_ceil(block), runs, of: &of, ..*self };
        let found = blocks.best_point();
        let (of_blocks, first) = (first_coefficients(blocks.bands), first_coefficients(self.bands));
        // Relative to the square root, between the blocks on either side.
        let ratio = |j: usize| if j == 0 { 1.0 } else { found[j - 1] / of_blocks[j] };
        let at = |j: usize| {
            let (place, part) = ((j / block).min(blocks.bands - 1), (j % block) as f64 / block as f64);
            let next = ratio((place + 1).min(blocks.bands - 1));
            first[j] * (ratio(place) + part * (next - ratio(place)))
        };
        let mut point: Vec<f64> = (1..self.bands).map(at).collect();
        point.extend(&found[blocks.bands - 1..]);
        // Rounding may have lost an epoch at the end, which has the weight of the last one.
        let last = point.last().copied().filter(|_| point.len() >= self.bands).unwrap_or(0.0);
        point.resize(self.bands - 1 + self.weights() - 1, last);
        Some(point)
    }

    /// The number of different weights.
    fn weights(&self) -> usize {
        self.epochs().min(MAX_WEIGHTS)
    }

    fn epoch(&self) -> usize {
        usize::try_from(self.runs.separation()).unwrap_or(usize::MAX)
    }

    fn epochs(&self) -> usize {
        self.horizon().div_ceil(self.epoch())
    }

    fn taken_apart(&self, point: &[f64]) -> EpochBandsSolution {
        let (coefficients, logarithms) = point.split_at(self.bands - 1);
        let coefficients = std::iter::once(1.0).chain(coefficients.iter().copied()).collect();
        let weights = std::iter::once(1.0).chain(logarithms.iter().map(|l| libm::exp(*l))).collect();
        EpochBandsSolution { coefficients, weights, epochs: self.epochs(), epoch: self.epoch() }
    }

    /// `log S + log V` and its slopes.
    fn evaluate(&self, point: &[f64], power: Option<f64>) -> (f64, Vec<f64>) {
        let found = self.taken_apart(point);
        let (coefficients, horizon) = (&found.coefficients, self.horizon());
        let squares = squares_of_columns(coefficients, horizon);
        let scales: Vec<f64> = squares.iter().zip(0..).map(|(n, t)| (n / found.weight(t)).sqrt()).collect();
        let inverse = reciprocal(coefficients, horizon);
        let variances = variances(self.of, &scales, &inverse);
        let (value, shares) = mean_of(&variances, power);
        let (cost, of_cost) = self.cost(&found);
        if !(value.is_finite() && cost.is_finite()) {
            return (f64::INFINITY, vec![0.0; point.len()]);
        }
        let Slopes { scales: by_scale, inverse: by_inverse } = slopes(self.of, &scales, &inverse, &shares);
        let mut by_coefficient = through_reciprocal(coefficients, &inverse, by_inverse);
        let mut by_weight = vec![0.0; found.weights.len()];
        let mut by_square = vec![0.0; self.bands];
        for (t, (slope, scale)) in by_scale.iter().zip(&scales).enumerate() {
            // scale² = square / weight
            by_square[(horizon - 1 - t).min(self.bands - 1)] += 0.5 * slope * scale / squares[t];
            by_weight[found.place(t)] -= 0.5 * slope * scale;
        }
        let mut rest = 0.0;
        for (j, coefficient) in coefficients.iter().enumerate().rev() {
            rest += by_square[j];
            by_coefficient[j] += 2.0 * coefficient * rest;
        }
        let by_coefficient = by_coefficient[1..].iter().map(|slope| slope / value);
        let by_weight = by_weight.iter().zip(&of_cost).skip(1).map(|(slope, of_cost)| slope / value + of_cost);
        (cost + libm::log(value), by_coefficient.chain(by_weight).collect())
    }

    /// `log S`, and its slopes by the logarithms of the weights. `S` is the sum of the `k` largest weights of epochs.
    ///
    /// If examples are sampled, a step costs in proportion to `exp(κ w) - 1`, `κ` the squared sensitivity over the
    /// noise variance (its second moment; higher ones are steeper still). Then `S = (w̄/κ) log mean exp(κ w/w̄)`, with
    /// the mean `w̄`, replaces the sum, which for small `κ` is the mean. It only guides the choice of weights: the
    /// guarantee is accounted for the chosen weights exactly.
    fn cost(&self, found: &EpochBandsSolution) -> (f64, Vec<f64>) {
        let mut of_epochs: Vec<(f64, usize)> = (0..found.epochs)
            .map(|e| found.place(e.saturating_mul(found.epoch)))
            .map(|p| (found.weights[p], p))
            .collect();
        let mut slopes = vec![0.0; found.weights.len()];
        if self.sharpness > 0.0 {
            let (count, sharpness) = (of_epochs.len() as f64, self.sharpness);
            let mean = of_epochs.iter().map(|(w, _)| w).sum::<f64>() / count;
            let raised: Vec<f64> = of_epochs.iter().map(|(w, _)| libm::exp(sharpness * (w / mean - 1.0))).collect();
            let total = raised.iter().sum::<f64>() / count;
            // log mean exp(κ w/w̄), and its mean slope
            let logarithm = sharpness + libm::log(total);
            let tilt = raised.iter().zip(&of_epochs).map(|(r, (w, _))| r * w / mean).sum::<f64>() / (count * total);
            for (r, (w, place)) in raised.iter().zip(&of_epochs) {
                let own = sharpness * (r / total - tilt) / logarithm;
                slopes[*place] += (1.0 + own) * w / mean / count;
            }
            return (libm::log(mean / sharpness * logarithm), slopes);
        }
        of_epochs.sort_by(|a, b| b.0.total_cmp(&a.0));
        of_epochs.truncate(usize::try_from(self.runs.most()).unwrap_or(usize::MAX));
        let sum: f64 = of_epochs.iter().map(|(w, _)| w).sum();
        of_epochs.iter().for_each(|(w, place)| slopes[*place] += w / sum);
        (libm::log(sum), slopes)
    }
}

/// The first coefficients of the square root of the prefix sums.
fn first_coefficients(bands: usize) -> Vec<f64> {
    let next = |f: &mut f64, j: usize| {
        *f *= if j == 0 { 1.0 } else { (2 * j - 1) as f64 / (2 * j) as f64 };
        Some(*f)
    };
    (0..bands).scan(1.0, next).collect()
}

/// `Σ c_i²` over the coefficients that column `t` has room for.
fn squares_of_columns(coefficients: &[f64], horizon: usize) -> Vec<f64> {
    let mut sums: Vec<f64> = coefficients.to_vec();
    let mut sum = 0.0;
    for c in &mut sums {
        sum += *c * *c;
        *c = sum;
    }
    (0..horizon).map(|t| sums[(horizon - 1 - t).min(sums.len() - 1)]).collect()
}

/// The first `length` coefficients of `1 / Σ c_j x^j`, `c_0 = 1`.
pub(super) fn reciprocal(c: &[f64], length: usize) -> Vec<f64> {
    crate::mechanism::toeplitz::square_root::reciprocal(c, length)
}

/// From slopes by the reciprocal to those by the coefficients, by the transposed recursion.
fn through_reciprocal(coefficients: &[f64], inverse: &[f64], mut by_inverse: Vec<f64>) -> Vec<f64> {
    for t in (0..by_inverse.len()).rev() {
        let slope = by_inverse[t];
        for (i, c) in coefficients.iter().enumerate().skip(1).take(t) {
            by_inverse[t - i] -= c * slope;
        }
    }
    let of = |i: usize| -by_inverse[i..].iter().zip(inverse).map(|(slope, r)| slope * r).sum::<f64>();
    (0..coefficients.len()).map(of).collect()
}

/// The mean, or the power mean over the largest, with its slopes by every variance.
fn mean_of(variances: &[f64], power: Option<f64>) -> (f64, Vec<f64>) {
    let count = variances.len() as f64;
    let Some(power) = power else {
        return (variances.iter().sum::<f64>() / count, vec![1.0 / count; variances.len()]);
    };
    let largest = variances.iter().copied().fold(0.0, f64::max);
    let raised: Vec<f64> = variances.iter().map(|v| libm::pow(v / largest, power)).collect();
    let mean = raised.iter().sum::<f64>() / count;
    let root = libm::pow(mean, 1.0 / power);
    let slopes = raised.iter().zip(variances).map(|(r, v)| root / mean * r * largest / v / count).collect();
    (largest * root, slopes)
}

/// Rows of the inverse for [`LANES`] columns side by side: entry `i` of lane `a` is coefficient `i + a - LANES + 1`.
fn padded(inverse: &[f64]) -> Vec<f64> {
    let mut padded = vec![0.0; LANES - 1];
    padded.extend_from_slice(inverse);
    padded.resize(inverse.len() + 2 * LANES, 0.0);
    padded
}

/// After how many steps a column is dropped: after all, or once the rest of the inverse and the momentum are
/// negligible.
fn reach(of: &Recursion, inverse: &[f64]) -> usize {
    if inverse.len() <= MANY {
        return inverse.len();
    }
    let mut rest = 0.0;
    let is_left = |r: &&f64| {
        rest += r.abs();
        rest < NEGLIGIBLE
    };
    let kept = inverse.len() - inverse.iter().rev().take_while(is_left).count();
    let fading = if of.momentum > 0.0 { (libm::log(NEGLIGIBLE) / libm::log(of.momentum)).ceil() } else { 0.0 };
    // Casts saturate.
    kept.saturating_add(fading as usize).next_multiple_of(LANES)
}

/// The columns from `first` on: `u_t` for every step from there to before `end`, in lanes (the last column first).
fn follow(
    of: &Recursion,
    scales: &[f64],
    padded: &[f64],
    (first, end): (usize, usize),
    mut see: impl FnMut(usize, &[f64; LANES]),
) {
    let (mut momentum, mut sum) = ([0.0; LANES], [0.0; LANES]);
    for (ago, t) in (first..end).enumerate() {
        let (kept, rate) = of.steps[t];
        let inverse: &[f64; LANES] = padded[ago..ago + LANES].try_into().expect("one entry per lane");
        for a in 0..LANES {
            momentum[a] = of.momentum * momentum[a] + scales[t] * inverse[a];
            sum[a] = kept * sum[a] + rate * momentum[a];
        }
        see(t, &sum);
    }
}

/// The variance, after every step, of the loop's output for the increments `scale_t Σ_j r_j z_(t-j)`.
pub(super) fn variances(of: &Recursion, scales: &[f64], inverse: &[f64]) -> Vec<f64> {
    let (horizon, padded, reach) = (scales.len(), padded(inverse), reach(of, inverse));
    let mut variances = vec![0.0; horizon];
    // The energy of the columns that were dropped before a step.
    let mut left = vec![0.0; horizon + 1];
    for first in (0..horizon).step_by(LANES) {
        let (end, mut energy) = ((first + reach).min(horizon), 0.0);
        follow(of, scales, &padded, (first, end), |t, sum| {
            energy = sum.iter().map(|u| u * u).sum::<f64>();
            variances[t] += energy;
        });
        left[end] += energy;
    }
    let mut all = 0.0;
    for (t, variance) in variances.iter_mut().enumerate().skip(reach) {
        let (kept, _) = of.steps[t];
        all = kept * kept * (all + left[t]);
        *variance += all;
    }
    variances
}

/// Slopes of `Σ share_t variance_t`.
struct Slopes {
    scales: Vec<f64>,
    inverse: Vec<f64>,
}

fn slopes(of: &Recursion, scales: &[f64], inverse: &[f64], shares: &[f64]) -> Slopes {
    let (horizon, padded, reach) = (scales.len(), padded(inverse), reach(of, inverse));
    let (mut by_scale, mut by_inverse) = (vec![0.0; horizon], vec![0.0; padded.len()]);
    // Slopes by the energy that was dropped before a step; none at the end.
    let mut by_energy = vec![0.0; horizon + 1];
    for t in (reach..horizon).rev() {
        let (kept, _) = of.steps[t];
        by_energy[t] = kept * kept * (shares[t] + by_energy[t + 1]);
    }
    let mut sums: Vec<[f64; LANES]> = Vec::with_capacity(reach);
    for first in (0..horizon).step_by(LANES) {
        sums.clear();
        let end = (first + reach).min(horizon);
        follow(of, scales, &padded, (first, end), |_, sum| sums.push(*sum));
        let last = sums.last().copied().unwrap_or_default();
        let (mut by_momentum, mut by_sum) = ([0.0; LANES], last.map(|u| 2.0 * u * by_energy[end]));
        let mut kept_after = 1.0;
        for (ago, t) in (first..end).enumerate().rev() {
            let (kept, rate) = of.steps[t];
            let inverse: &[f64; LANES] = padded[ago..ago + LANES].try_into().expect("one entry per lane");
            let slopes = &mut by_inverse[ago..ago + LANES];
            let mut own = 0.0;
            for a in 0..LANES {
                by_sum[a] = 2.0 * shares[t] * sums[ago][a] + kept_after * by_sum[a];
                by_momentum[a] = rate * by_sum[a] + of.momentum * by_momentum[a];
                own += by_momentum[a] * inverse[a];
                slopes[a] += scales[t] * by_momentum[a];
            }
            by_scale[t] += own;
            kept_after = kept;
        }
    }
    Slopes { scales: by_scale, inverse: by_inverse[LANES - 1..LANES - 1 + horizon].to_vec() }
}

#[cfg(test)]
mod tests;
