//! The law of a sum, and the mean excess at a large ε, on a geometric grid.
//!
//! A sum far above its mean has one large `Y`, whose law has a tail that falls slowly: a tilt that would make it large
//! compared with the rounding errors of a transform would make the window too long. Here laws of sums are computed
//! term by term instead, so that every mass has a small relative error.
//!
//! **Dilation of sums.** The points are 0 and `x_k = a r^k`, and the sum of `x_i` and `x_j`, `i ≥ j`, lies in a cell
//! that depends on `i - j` only: `x_i + x_j = x_i (1 + r^(j-i))`. It is moved to both ends of this cell such that its
//! mean stays. As for a single `Y`, this makes `E φ` of the whole sum no smaller, for every convex `φ`; all masses are
//! those under `Q`, and `φ(s) = (s - b e^ε)₊`. There is no last point, and the law of `n` bins follows from about
//! `2 log₂ n` sums of two.
//!
//! **Rounding.** The parts of a sum that go to both ends have an error of some units over `ln r`, and both are raised
//! by more. Products and sums of positive numbers have small relative errors. An error of the points is that of the
//! threshold. The constants below cover these errors.

use super::dilated::dilated;
use super::kinds::{Coarseness, EqualBins, UNIT};
use evertally::number::special::normal_cdf;

/// The logarithm of the smallest point above 0, or a lower one if mass at 0 matters: a dilation to it adds less than a
/// hundredth to the variance of a `Y`.
const LOWEST: f64 = -5.0;
/// The relative growth of δ that a grid allows, over that of a coarseness.
const LOOSER: f64 = 4.0;
/// The largest step of the logarithms of points, and the maximum number of points between those of one `Y`.
const MAX_STEP: f64 = 0.2;
const MAX_POINTS: f64 = 4096.0;
/// A bound of the relative errors of the points.
pub(super) const OF_POINTS: f64 = 1e-12;
/// Products that underflow add less.
pub(super) const UNDERFLOW: f64 = 1e-150;

/// The law of a sum of likelihood ratios on a grid.
#[derive(Clone, Default)]
struct GridLaw {
    /// The mass at 0.
    zero: f64,
    /// The masses at `x_0, x_1, …`.
    masses: Vec<f64>,
}

/// The shares of a sum of two points that go to the ends of its cell.
struct CellShares {
    /// The lower end, in steps from the larger point.
    cells: usize,
    lower: f64,
    upper: f64,
}

/// The points `e^(lowest + k h)`, and the cells of sums by the distance of their terms.
struct GeometricGrid {
    lowest: f64,
    step: f64,
    shares: Vec<CellShares>,
}

/// The law of the sum of all bins: upper bounds of the masses at 0 and at points above it.
pub(super) struct GeometricLaw {
    pub(super) zero: f64,
    /// Places in increasing order, right to [`OF_POINTS`], and masses.
    pub(super) points: Vec<(f64, f64)>,
    /// The mean of `M` that the limits cut.
    pub(super) beyond: f64,
}

/// A bound of `E (M - e^ε)₊`, for bins of these kinds with their limits. `O(n² log b)` for `n` points.
pub(super) fn removed(kinds: &[(EqualBins, f64)], threshold: f64, coarseness: Coarseness) -> f64 {
    let law = law(kinds, LOWEST, step_for(kinds, threshold, coarseness));
    let bins: f64 = kinds.iter().map(|(kind, _)| kind.count as f64).sum();
    let threshold = threshold * (1.0 - OF_POINTS);
    let mean = law.points.iter().map(|(place, mass)| mass * (place - threshold).max(0.0)).sum::<f64>();
    (mean / bins + law.beyond + UNDERFLOW).clamp(f64::MIN_POSITIVE, 1.0)
}

/// The law of the sum, on a grid with this smallest logarithm and this step. `O(n² log b)` for `n` points.
pub(super) fn law(kinds: &[(EqualBins, f64)], lowest: f64, step: f64) -> GeometricLaw {
    let bins: f64 = kinds.iter().map(|(kind, _)| kind.count as f64).sum();
    let mut grid = GeometricGrid { lowest, step, shares: vec![] };
    let (mut all, mut beyond, mut sums) = (None, 0.0, 0.0);
    for (kind, limit) in kinds {
        let one = dilated(kind.square, &grid.points_to(*limit));
        beyond += kind.count as f64 * one.beyond;
        let law = grid.power(GridLaw { zero: one.masses[0], masses: one.masses[1..].to_vec() }, kind.count);
        sums += 2.0 * libm::log2(kind.count as f64) + 1.0;
        all = Some(match all {
            None => law,
            Some(others) => grid.sum(&others, &law),
        });
    }
    let GridLaw { zero, masses } = all.unwrap_or_default();
    let rounding = 1.0 + UNIT * (8.0 * masses.len() as f64 * sums + 64.0);
    let point = |(k, mass): (usize, &f64)| (grid.point(k), mass * rounding);
    let points = masses.iter().enumerate().map(point).collect();
    GeometricLaw { zero: zero * rounding, points, beyond: beyond / bins * rounding }
}

/// A step whose dilations make δ of one round grow by about the share that is allowed, for a threshold of the sum: the
/// tail of a `Y` falls by the power `λ` of the threshold.
fn step_for(kinds: &[(EqualBins, f64)], threshold: f64, coarseness: Coarseness) -> f64 {
    let square = kinds.iter().map(|(kind, _)| kind.square).fold(0.0, f64::max);
    let power = libm::log(threshold) / square + 0.5;
    step_for_power(kinds, power, LOOSER * coarseness.of_delta).max(longest(kinds, LOWEST) / MAX_POINTS)
}

/// A step whose dilations add about this share to a divergence that falls by the power `λ`: a variance `v` more of the
/// logarithm of a `Y` multiplies its tail by `e^(λ² v/2)`, and every sum adds `h²/6`.
pub(super) fn step_for_power(kinds: &[(EqualBins, f64)], power: f64, share: f64) -> f64 {
    let bins: f64 = kinds.iter().map(|(kind, _)| kind.count as f64).sum();
    let dilations = 1.0 + 1.5 * libm::log2(bins);
    ((12.0 * share / dilations).sqrt() / power).min(MAX_STEP)
}

/// The smallest logarithm with which a sum has next to no mass at 0: few bins may all be below a higher one.
pub(super) fn lowest_for(kinds: &[(EqualBins, f64)], negligible: f64) -> f64 {
    let log_zero = |lowest: f64| -> f64 {
        let log_of = |kind: &EqualBins| libm::log(normal_cdf(lowest / kind.square.sqrt() + kind.square.sqrt() / 2.0));
        kinds.iter().map(|(kind, _)| kind.count as f64 * log_of(kind)).sum()
    };
    let mut lowest = LOWEST;
    while log_zero(lowest) > libm::log(negligible) {
        lowest -= 1.0;
    }
    lowest
}

/// The number of points of a `Y`, and about the number of multiplications of all sums.
pub(super) fn cost(kinds: &[(EqualBins, f64)], lowest: f64, step: f64) -> (f64, f64) {
    let bins: f64 = kinds.iter().map(|(kind, _)| kind.count as f64).sum();
    let points = longest(kinds, lowest) / step;
    (points, points * points * (1.0 + 2.0 * libm::log2(bins)))
}

/// The step with which all sums take this many multiplications.
pub(super) fn step_for_cost(kinds: &[(EqualBins, f64)], lowest: f64, multiplications: f64) -> f64 {
    (cost(kinds, lowest, 1.0).1 / multiplications).sqrt() * (1.0 + 1e-9)
}

/// The distance of the logarithms of the first point and the largest limit.
fn longest(kinds: &[(EqualBins, f64)], lowest: f64) -> f64 {
    libm::log(kinds.iter().map(|(_, limit)| *limit).fold(1.0, f64::max)) - lowest
}

impl GeometricGrid {
    fn point(&self, k: usize) -> f64 {
        libm::exp(self.lowest + k as f64 * self.step)
    }

    /// 0 and the points up to the first one that is not below a limit.
    fn points_to(&self, limit: f64) -> Vec<f64> {
        let mut points = vec![0.0, self.point(0)];
        while points[points.len() - 1] < limit {
            points.push(self.point(points.len() - 1));
        }
        points
    }

    /// The cell of the sum of two points this many steps apart.
    fn cell(&self, distance: usize) -> CellShares {
        let ratio = 1.0 + libm::exp(-(distance as f64) * self.step);
        let cells = (libm::log(ratio) / self.step).floor();
        let low = libm::exp(cells * self.step);
        let upper = (ratio / low - 1.0) / libm::expm1(self.step);
        let slack = 64.0 * UNIT / self.step;
        CellShares {
            cells: cells as usize, // at most ln 2 over the step
            lower: (1.0 - upper + slack).max(0.0),
            upper: (upper + slack).max(0.0),
        }
    }

    /// The law of the sum of two independent variables.
    fn sum(&mut self, one: &GridLaw, other: &GridLaw) -> GridLaw {
        let (long, short) = if one.masses.len() < other.masses.len() { (other, one) } else { (one, other) };
        while self.shares.len() < long.masses.len() {
            let next = self.cell(self.shares.len());
            self.shares.push(next);
        }
        // A sum is at most twice the larger point.
        let mut masses = vec![0.0; long.masses.len() + self.shares[0].cells + 1];
        for (law, zero) in [(long, short.zero), (short, long.zero)] {
            for (sum, mass) in masses.iter_mut().zip(&law.masses) {
                *sum += zero * mass;
            }
        }
        for (distance, shares) in self.shares[..long.masses.len()].iter().enumerate() {
            let sums = &mut masses[distance + shares.cells..];
            shares.add(sums, &long.masses[distance..], &short.masses);
            if distance > 0 && distance < short.masses.len() {
                shares.add(sums, &short.masses[distance..], &long.masses);
            }
        }
        masses.truncate(masses.iter().rposition(|mass| *mass > 0.0).map_or(0, |last| last + 1));
        GridLaw { zero: one.zero * other.zero, masses }
    }

    /// The law of the sum of this many independent variables, at least 1.
    fn power(&mut self, one: GridLaw, count: u64) -> GridLaw {
        let (mut power, mut rest, mut all) = (one, count, None);
        loop {
            if rest & 1 == 1 {
                all = Some(match all {
                    None => power.clone(),
                    Some(others) => self.sum(&others, &power),
                });
            }
            rest >>= 1;
            match all {
                Some(all) if rest == 0 => return all,
                _ => power = self.sum(&power, &power),
            }
        }
    }
}

impl CellShares {
    /// Adds the products of these masses, in order, to the sums.
    fn add(&self, sums: &mut [f64], larger: &[f64], smaller: &[f64]) {
        let mut carried = 0.0;
        let mut last = 0;
        for ((sum, a), b) in sums.iter_mut().zip(larger).zip(smaller) {
            let mass = a * b;
            *sum += self.lower * mass + carried;
            carried = self.upper * mass;
            last += 1;
        }
        sums[last] += carried;
    }
}
