//! The case of an added example; see the header of `privacy/allocated.rs`.

use super::RandomAllocation;
use super::bets::{Bet, Weights};
use super::chances::{quantile, share_at_most};
use super::paths::{LANES, Paths};
use super::rounds::Law;
use evertally::number::special::normal_cdf;

/// Numbers of paths: of the pilot before bets are placed, and the minimum and maximum of a test.
const PILOTS: u64 = 1 << 11;
const LEAST: u64 = 1 << 13;
const MOST: u64 = 1 << 18;
/// Paths that are counted for the bound by a line.
const COUNTED: u64 = 1 << 16;
/// Up to this many rounds the laws are convolved. With more rounds the sum is so nearly normal that a line
/// approximates it.
const MOST_CONVOLVED: u64 = 64;
/// Share of the paths below the first point of the line.
const FIRST: f64 = 0.004;

/// An allocation under a noise, relative to the mean of its bins.
pub(super) struct Shifted<'a> {
    allocation: &'a RandomAllocation,
    noise: f64,
    /// `(1/b) Σ_j G_ij`.
    means: Vec<f64>,
    /// `v`, of all rounds.
    variance: f64,
    /// `ḡ`, of all rounds.
    square: f64,
}

impl<'a> Shifted<'a> {
    pub(super) fn new(allocation: &'a RandomAllocation, noise: f64) -> Self {
        let (bins, unit) = (allocation.bins, noise * noise);
        let mean = |row: &[f64]| row.iter().sum::<f64>() / bins as f64 / unit;
        let means: Vec<f64> = allocation.gram.chunks(bins).map(mean).collect();
        let rounds = allocation.rounds as f64;
        let variance = rounds * (means.iter().sum::<f64>() / bins as f64);
        let square = rounds * (allocation.gram.iter().step_by(bins + 1).sum::<f64>() / bins as f64 / unit);
        Self { allocation, noise, means, variance, square }
    }

    /// A bound of δ that holds except with probability `e^-surprise`, and is precise enough to decide whether it is
    /// below `wanted`; `paths(purpose, part)` gives new paths.
    pub(super) fn delta(
        &self,
        epsilon: f64,
        wanted: f64,
        surprise: f64,
        paths: impl Fn(&'static str, u64) -> Paths<'a> + Sync,
    ) -> f64 {
        let beyond = epsilon - self.square / 2.0;
        let bound = libm::exp(-beyond * beyond / (2.0 * self.variance)) * (1.0 + super::ROUNDING);
        if beyond > 0.0 && bound <= wanted {
            return bound;
        }
        let count = ((4.0 * bound * surprise / wanted) as u64).max(LEAST); // casts saturate
        let by_line = match self.allocation.rounds {
            _ if beyond > 0.0 && count <= COUNTED => 1.0,
            rounds @ 2..=MOST_CONVOLVED => Law::seen(self, rounds, surprise, &paths)
                .map_or_else(|| self.by_line(epsilon, surprise, &paths), |law| law.delta(rounds, epsilon)),
            _ => self.by_line(epsilon, surprise, &paths),
        };
        if by_line <= wanted || beyond <= 0.0 || count > MOST {
            return by_line;
        }
        let shift = beyond / self.variance;
        let pilot = self.weights(epsilon, shift, PILOTS, &mut paths("added, pilot", 0));
        // Unseen weights may exist.
        let mean = pilot.mean().max(wanted / 16.0);
        let variance = pilot.relative_variance().max(bound / mean / 4.0);
        let bet = Bet::new(count, bound, (mean, variance), surprise);
        self.weights(epsilon, shift, count, &mut paths("added", 0)).upper(bet, bound).min(by_line)
    }

    /// `ln M` and `ū` of at least this many paths whose noise is shifted by this multiple of the mean of the bins.
    fn look(&self, shift: f64, count: u64, paths: &mut Paths, mut visit: impl FnMut(f64, f64)) {
        let mut seen = [(0.0, 0.0); LANES];
        paths.visit_rounds(count, self.allocation.rounds, |round, block| {
            if round == 0 {
                seen = [(0.0, 0.0); LANES];
            }
            self.add_round(shift, block, &mut seen);
            if round + 1 == self.allocation.rounds {
                seen.iter().for_each(|(log_ratio, middle)| visit(*log_ratio, *middle));
            }
        });
    }

    /// The number of bins in a round.
    pub(super) fn bins(&self) -> u64 {
        self.allocation.bins as u64
    }

    /// `ln M_e` of at least this many single rounds.
    pub(super) fn look_at_rounds(&self, count: u64, paths: &mut Paths, mut visit: impl FnMut(f64)) {
        paths.visit(count, |block| {
            let mut seen = [(0.0, 0.0); LANES];
            self.add_round(0.0, block, &mut seen);
            seen.iter().for_each(|(log_ratio, _)| visit(*log_ratio));
        });
    }

    /// Adds a round to `ln M` and `ū` of every lane.
    fn add_round(&self, shift: f64, block: &[[f64; LANES]], seen: &mut [(f64, f64); LANES]) {
        let bins = self.allocation.bins;
        let (mut ratios, mut middles) = ([0.0; LANES], [0.0; LANES]);
        let half = 0.5 / (self.noise * self.noise);
        for (bin, values) in block.iter().enumerate() {
            let moved = shift * self.means[bin];
            let below = half * self.allocation.gram[bin * (bins + 1)];
            for lane in 0..LANES {
                let value = values[lane] / self.noise - moved;
                middles[lane] += value;
                ratios[lane] += libm::exp(value - below);
            }
        }
        for (lane, (log_ratio, middle)) in seen.iter_mut().enumerate() {
            *log_ratio += libm::log(ratios[lane] / bins as f64);
            *middle += middles[lane] / bins as f64;
        }
    }

    fn weights(&self, epsilon: f64, shift: f64, count: u64, paths: &mut Paths) -> Weights {
        let mut weights = Weights::default();
        self.look(shift, count, paths, |log_ratio, middle| {
            let below = epsilon + log_ratio;
            let likelihood = shift * middle + shift * shift * self.variance / 2.0;
            weights.push(if below < 0.0 { -libm::expm1(below) * libm::exp(likelihood) } else { 0.0 });
        });
        weights
    }

    /// By the line through two points of a concave function.
    pub(super) fn by_line(&self, epsilon: f64, surprise: f64, paths: &impl Fn(&'static str, u64) -> Paths<'a>) -> f64 {
        let mut seen = vec![];
        self.look(0.0, PILOTS, &mut paths("added, points", 0), |log_ratio, _| seen.push(log_ratio));
        seen.sort_by(f64::total_cmp);
        let (first, second) = (seen[(FIRST * seen.len() as f64) as usize], seen[seen.len() / 2]);
        let (mut below_first, mut above_second, mut count) = (0u64, 0u64, 0u64);
        self.look(0.0, COUNTED, &mut paths("added, line", 0), |log_ratio, _| {
            count += 1;
            below_first += u64::from(log_ratio <= first);
            above_second += u64::from(log_ratio > second);
        });
        if second <= first {
            return 1.0;
        }
        // Two counts share the failure probability.
        let surprise = surprise + std::f64::consts::LN_2;
        let low = quantile(share_at_most(below_first, count, surprise));
        let high = quantile(1.0 - share_at_most(above_second, count, surprise));
        let slope = (high - low) / (second - first);
        if first < -epsilon || slope <= 0.0 {
            return 1.0;
        }
        let line = |at: f64| normal_cdf(low + (at - first) * slope);
        // ∫ e^-w Q(ln M ≤ -ε - w) dw by rectangles of falling height.
        const FINENESS: f64 = 32.0;
        let rectangle = |at: u32| {
            let (from, to) = (f64::from(at) / FINENESS, f64::from(at + 1) / FINENESS);
            line(-epsilon - from) * (libm::exp(-from) - libm::exp(-to))
        };
        (0..1600).map(rectangle).sum::<f64>() + libm::exp(-50.0)
    }
}
