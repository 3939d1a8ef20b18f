//! The least noise, and the least ε, that are certified.

use super::added::Shifted;
use super::bets::Bet;
use super::coins::Coins;
use super::paths::{Block, Paths};
use super::removed::Tuples;
use super::{KEPT, RandomAllocation, SHARE};
use crate::privacy::{Delta, Epsilon, conversions};
use crate::{Error, Result};

/// Paths by which a point is sought.
const PILOTS: u64 = 1 << 11;
/// The same where only mechanisms are compared.
const FEW_PILOTS: u64 = 1 << 9;
/// Fewest and most paths of a test.
const TESTED: (f64, f64) = (2048.0, 65_536.0);
/// Tuples that are tried have so many more bins than those with the least bound.
const LONGER: [usize; 4] = [0, 1, 2, 4];
/// By so much a bound of δ may exceed what it bounds, if that many paths are enough: that is some 0.2 % of the noise.
const EXCESS: f64 = 0.05;
/// A bound that is so close to what is wanted is not brought closer.
const NEAR: f64 = 0.93;
/// How close a point is sought, relatively.
const CLOSE: f64 = 1e-3;
/// Tests of points that follow on each other.
const TESTS: u32 = 8;

/// A search for one number: a noise, or ε, of which more is more private.
struct Search<'a> {
    allocation: &'a RandomAllocation,
    delta: f64,
    seed: [u8; 32],
    kept: Vec<Block>,
    pilots: u64,
}

/// What is looked at.
#[derive(Clone, Copy)]
struct Point {
    noise: f64,
    epsilon: f64,
}

/// How a point is tested.
struct Test {
    /// Bins of a tuple.
    bins: usize,
    count: u64,
    bet: Bet,
    /// About the bound that will come out, with room for the error of the pilot.
    expected: f64,
}

impl<'a> Search<'a> {
    fn new(allocation: &'a RandomAllocation, delta: Delta, pilots: u64) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(allocation.bins as u64).to_le_bytes());
        for value in &*allocation.gram {
            hasher.update(&value.to_bits().to_le_bytes());
        }
        let seed = hasher.finalize().into();
        let coins = Coins::new("pilot", &seed, &[]);
        let kept = Paths::fresh(&allocation.factor, coins).keep(pilots);
        Self { allocation, delta: delta.get(), seed, kept, pilots }
    }

    /// What a bound must not exceed.
    fn wanted(&self) -> f64 {
        self.delta * KEPT
    }

    fn surprise(&self) -> f64 {
        -libm::log(self.delta * SHARE)
    }

    /// How a point is tested best. Longer tuples than those with the least bound may spread less.
    fn test(&self, tuples: &Tuples, point: Point) -> Test {
        let tightest = tuples.tightest(point.epsilon);
        let longer = LONGER.iter().map(|more| tightest + more).filter(|bins| *bins <= tuples.longest());
        let attempts = longer.map(|bins| {
            let mut lots = Coins::new("pilot's tuples", &self.seed, &[]);
            let weights = tuples.weights(bins, point.epsilon, self.pilots, &mut Paths::Kept(&self.kept), &mut lots);
            let bound = tuples.bound(bins, point.epsilon);
            let (law, error) = if weights.positive.is_empty() {
                // Nothing was seen, and may be there.
                let mean = (self.wanted() / 8.0).min(bound);
                ((mean, bound / mean), 0.0)
            } else {
                let variance = weights.relative_variance();
                ((weights.mean(), variance), 2.0 * (variance / self.pilots as f64).sqrt())
            };
            let paths = 2.0 * self.surprise() * law.1 / (EXCESS * EXCESS);
            let count = paths.clamp(TESTED.0, TESTED.1) as u64;
            let bet = Bet::new(count, bound, law, self.surprise());
            let expected = law.0 * (1.0 + bet.excess(count, law) + error);
            Test { bins, count, bet, expected }
        });
        attempts.min_by(|a, b| a.expected.total_cmp(&b.expected)).expect("the tightest is one")
    }

    /// Whether a point is likely to be enough.
    fn seems_enough(&self, point: Point) -> bool {
        // Where the noise is so small that numbers leave their range, nothing is certified.
        let Some(tuples) = Tuples::new(self.allocation, point.noise) else { return false };
        self.test(&tuples, point).expected <= self.wanted()
    }

    /// A bound of δ at a point, by coins of its own.
    fn certified(&self, point: Point) -> f64 {
        let numbers = [point.noise, point.epsilon, self.delta];
        let paths =
            |purpose: &'static str| Paths::fresh(&self.allocation.factor, Coins::new(purpose, &self.seed, &numbers));
        let Some(tuples) = Tuples::new(self.allocation, point.noise) else { return 1.0 };
        let test = self.test(&tuples, point);
        let mut lots = Coins::new("tuples", &self.seed, &numbers);
        let weights = tuples.weights(test.bins, point.epsilon, test.count, &mut paths("removed"), &mut lots);
        let removed = weights.upper(test.bet, tuples.bound(test.bins, point.epsilon));
        let shifted = Shifted::new(self.allocation, point.noise);
        removed.max(shifted.delta(point.epsilon, self.wanted(), self.surprise(), paths))
    }

    /// Between a number that is enough and one that is not: one that seems to be.
    fn likely(&self, enough: f64, too_little: f64, close: f64, at: &impl Fn(f64) -> Point) -> f64 {
        let (mut high, mut low) = (enough, too_little);
        while high - low > close * high {
            let middle = (high * low).sqrt();
            if self.seems_enough(at(middle)) { high = middle } else { low = middle }
        }
        high
    }

    /// From a number that is enough and one that is not: one that is certified, or the first.
    fn least(&self, enough: f64, too_little: f64, at: impl Fn(f64) -> Point) -> f64 {
        let high = self.likely(enough, too_little, CLOSE, &at);
        // δ falls by the tenth power of the noise or more: steps that follow from bounds are a little too long upwards, and
        // too short downwards.
        let step = |bound: f64, power: f64| (libm::log(bound / self.wanted()) / power).clamp(-0.2, 0.2);
        let (mut number, mut best) = (high, None);
        for _ in 0..TESTS {
            if number >= enough {
                break;
            }
            let bound = self.certified(at(number));
            match (bound <= self.wanted(), best) {
                (true, None) if bound < NEAR * self.wanted() => {
                    best = Some(number);
                    number *= 1.0 + step(bound, 16.0);
                }
                (true, _) => return number,
                (false, Some(best)) => return best,
                (false, None) => number *= 1.002 + step(bound, 12.0),
            }
        }
        best.unwrap_or(enough)
    }

    /// Down from a number that is enough to one that does not seem to be.
    fn too_little(&self, enough: f64, at: impl Fn(f64) -> Point) -> f64 {
        let mut number = enough * 0.8;
        while number > enough * 1e-6 {
            if !self.seems_enough(at(number)) {
                break;
            }
            number *= 0.8;
        }
        number
    }
}

pub(super) fn noise(allocation: &RandomAllocation, epsilon: Epsilon, delta: Delta) -> Result<f64> {
    let enough = allocation.noise_if_known(epsilon, delta);
    if !(1e-6..=1e6).contains(&enough) {
        return Err(Error::invalid("no noise multiplier in range meets this epsilon and delta"));
    }
    if allocation.bins == 1 {
        return Ok(enough);
    }
    let search = Search::new(allocation, delta, PILOTS);
    let at = |noise: f64| Point { noise, epsilon: epsilon.get() };
    Ok(search.least(enough, search.too_little(enough, at), at))
}

pub(super) fn likely_noise(allocation: &RandomAllocation, epsilon: Epsilon, delta: Delta) -> f64 {
    let enough = allocation.noise_if_known(epsilon, delta);
    if allocation.bins == 1 {
        return enough;
    }
    let search = Search::new(allocation, delta, FEW_PILOTS);
    let at = |noise: f64| Point { noise, epsilon: epsilon.get() };
    search.likely(enough, search.too_little(enough, at), 10.0 * CLOSE, &at)
}

pub(super) fn epsilon(allocation: &RandomAllocation, noise: f64, delta: Delta) -> Result<f64> {
    if !(1e-6..=1e6).contains(&noise) {
        return Err(Error::invalid(format!("a noise multiplier must lie between 1e-6 and 1e6, got {noise}")));
    }
    let enough = conversions::epsilon_of_gaussian(allocation.largest().sqrt() / noise, delta);
    if allocation.bins == 1 || !(1e-9..=1e4).contains(&enough) {
        return Ok(enough);
    }
    let search = Search::new(allocation, delta, PILOTS);
    let at = |epsilon: f64| Point { noise, epsilon };
    Ok(search.least(enough, search.too_little(enough, at), at))
}
