//! The case of an added example; see the header of `random_allocation.rs`.

use super::bets::{Bet, DrawnWeights};
use super::paths::Paths;
use super::rounds::{FIRST_ATTEMPT, Law, PRECISE, RoundCounts, Summands};
use super::shifted::Shifted;

/// Numbers of paths: of the pilot before bets are placed, and the minimum and maximum of a test.
const PILOTS: u64 = 1 << 11;
const MIN_TEST_PATHS: u64 = 1 << 13;
const MAX_TEST_PATHS: u64 = 1 << 18;
/// Up to this many weights are cheaper than a law.
const FEW_WEIGHTS: u64 = 1 << 16;
/// Up to this many rounds the laws are convolved. With more rounds the sum is so nearly normal that lines approximate
/// it.
const MAX_CONVOLVED_ROUNDS: u64 = 64;

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
        let shift = beyond / self.variance;
        let bound = if beyond > 0.0 { self.bound_of_weights(epsilon, shift) } else { 1.0 };
        let count = ((4.0 * bound * surprise / wanted) as u64).max(MIN_TEST_PATHS); // casts saturate
        let by_law =
            if beyond > 0.0 && count <= FEW_WEIGHTS { 1.0 } else { self.by_laws(epsilon, wanted, surprise, &paths) };
        if by_law <= wanted || beyond <= 0.0 || count > MAX_TEST_PATHS {
            return by_law;
        }
        let pilot = self.weights(epsilon, shift, PILOTS, &mut paths("added, pilot", 0));
        // Unseen weights may exist.
        let mean = pilot.mean().max(wanted / 16.0);
        let variance = pilot.relative_variance().max(bound / mean / 4.0);
        let bet = Bet::new(count, bound, (mean, variance), surprise);
        self.weights(epsilon, shift, count, &mut paths("added", 0)).upper(bet, bound).min(by_law)
    }

    /// A bound of the weights of paths with this shift.
    fn bound_of_weights(&self, epsilon: f64, shift: f64) -> f64 {
        let (square, variance) = (self.square - self.common, self.variance - self.common);
        let likelihood = shift * square / 2.0 + shift * shift * variance.max(0.0) / 2.0;
        self.smoothed(epsilon).peak(shift) * libm::exp(likelihood)
    }

    fn weights(&self, epsilon: f64, shift: f64, count: u64, paths: &mut Paths) -> DrawnWeights {
        let mut weights = DrawnWeights::default();
        let smoothed = self.smoothed(epsilon);
        let variance = (self.variance - self.common).max(0.0);
        self.visit_paths(shift, count, paths, |log_ratio, middle| {
            let likelihood = shift * middle + shift * shift * variance / 2.0;
            weights.push(smoothed.at(epsilon + log_ratio) * libm::exp(likelihood));
        });
        weights
    }

    /// By laws, up to the first that suffices.
    fn by_laws(
        &self,
        epsilon: f64,
        wanted: f64,
        surprise: f64,
        paths: &(impl Fn(&'static str, u64) -> Paths<'a> + Sync),
    ) -> f64 {
        // Each attempt is one of the thousand tests whose failure δ has room for.
        let bound = match self.summands() {
            Summands::Round(2..) => self.by_law(FIRST_ATTEMPT, epsilon, surprise, paths),
            _ => 1.0,
        };
        if bound <= wanted { bound } else { self.by_law(PRECISE, epsilon, surprise, paths) }
    }

    fn summands(&self) -> Summands {
        match self.allocation.rounds {
            rounds @ ..=MAX_CONVOLVED_ROUNDS => Summands::Round(rounds),
            _ => Summands::Whole,
        }
    }

    /// By the law of one round, or of all, whose distribution function lies below lines.
    pub(super) fn by_law(
        &self,
        counts: RoundCounts,
        epsilon: f64,
        surprise: f64,
        paths: &(impl Fn(&'static str, u64) -> Paths<'a> + Sync),
    ) -> f64 {
        let law = Law::seen(self, (self.summands(), counts), surprise, paths);
        law.map_or(1.0, |law| law.delta(self.smoothed(epsilon)))
    }
}
