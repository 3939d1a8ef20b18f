//! The case of an added example; see the header of `privacy/allocated.rs`.

use super::bets::{Bet, DrawnWeights};
use super::chances::{quantile, share_at_most};
use super::paths::Paths;
use super::rounds::Law;
use super::shifted::Shifted;
use evertally::number::special::normal_cdf;

/// Numbers of paths: of the pilot before bets are placed, and the minimum and maximum of a test.
const PILOTS: u64 = 1 << 11;
const MIN_TEST_PATHS: u64 = 1 << 13;
const MAX_TEST_PATHS: u64 = 1 << 18;
/// Paths that are counted for the bound by a line.
const COUNTED: u64 = 1 << 16;
/// Up to this many rounds the laws are convolved. With more rounds the sum is so nearly normal that a line
/// approximates it.
const MAX_CONVOLVED_ROUNDS: u64 = 64;
/// Share of the paths below the first point of the line.
const FIRST: f64 = 0.004;

impl<'a> Shifted<'a> {
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
        let count = ((4.0 * bound * surprise / wanted) as u64).max(MIN_TEST_PATHS); // casts saturate
        let by_line = match self.allocation.rounds {
            _ if beyond > 0.0 && count <= COUNTED => 1.0,
            rounds @ 2..=MAX_CONVOLVED_ROUNDS => Law::seen(self, rounds, surprise, &paths)
                .map_or_else(|| self.by_line(epsilon, surprise, &paths), |law| law.delta(rounds, epsilon)),
            _ => self.by_line(epsilon, surprise, &paths),
        };
        if by_line <= wanted || beyond <= 0.0 || count > MAX_TEST_PATHS {
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

    fn weights(&self, epsilon: f64, shift: f64, count: u64, paths: &mut Paths) -> DrawnWeights {
        let mut weights = DrawnWeights::default();
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
