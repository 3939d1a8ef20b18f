//! The least noise, and the least ε, that are certified.

use super::bets::{Bet, Weights};
use super::coins::Coins;
use super::paths::{Block, LANES, Paths, in_parts};
use super::removed::Tuples;
use super::shifted::Shifted;
use super::{KEPT, RandomAllocation, SHARE};
use evertally::privacy::{Delta, Epsilon, conversions};
use evertally::{Error, Result};

/// Paths by which a point is sought.
const PILOTS: u64 = 1 << 11;
/// The same for a first look, and where mechanisms are compared.
const FEW_PILOTS: u64 = 1 << 9;
/// Numbers of all paths that are kept.
const MOST_KEPT: u64 = 1 << 23;
/// Where there are several rounds, weights are drawn in so many parts.
const PARTS: u64 = 16;
/// How close such a comparison is, relatively.
const ROUGH: f64 = 0.01;
/// Fewest and most paths of a test.
const TESTED: (f64, f64) = (2048.0, 32_768.0);
/// Tuples that are tried have so many more bins than those with the least bound.
const LONGER: [usize; 4] = [0, 1, 2, 4];
/// By so much a bound of δ may exceed what it bounds, if that many paths are enough: that is some 0.2 % of the noise.
const EXCESS: f64 = 0.05;
/// A bound that is so close to what is wanted is not brought closer.
const NEAR: f64 = 0.9;
/// How close a point is sought, relatively.
const CLOSE: f64 = 1e-3;
/// Tests of points that follow on each other.
const TESTS: u32 = 12;

/// A search for one number: a noise, or ε, of which more is more private.
struct Search<'a> {
    allocation: &'a RandomAllocation,
    delta: f64,
    seed: [u8; 32],
    kept: Vec<Block>,
    pilots: u64,
    /// By how many bins tuples are longer than those with the least bound; any of these.
    longer: Vec<usize>,
}

/// What is looked at.
#[derive(Clone, Copy)]
struct Point {
    noise: f64,
    epsilon: f64,
}

/// How a point is tested.
struct Test {
    /// Bins of a tuple, and of these more than have the least bound.
    bins: usize,
    more: usize,
    count: u64,
    bet: Bet,
    /// About the bound that will come out, with room for the error of the pilot.
    expected: f64,
}

impl<'a> Search<'a> {
    fn new(allocation: &'a RandomAllocation, delta: Delta, pilots: u64, longer: &[usize]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(allocation.bins as u64).to_le_bytes());
        for value in &*allocation.gram {
            hasher.update(&value.to_bits().to_le_bytes());
        }
        if allocation.rounds > 1 {
            hasher.update(&allocation.rounds.to_le_bytes());
        }
        let seed = hasher.finalize().into();
        let coins = Coins::new("pilot", &seed, &[]);
        let fit = MOST_KEPT / allocation.rounds / allocation.bins as u64;
        let pilots = pilots.min(fit / LANES as u64 * LANES as u64).max(FEW_PILOTS);
        let kept = Paths::fresh(&allocation.factor, coins).keep(pilots * allocation.rounds);
        Self { allocation, delta: delta.get(), seed, kept, pilots, longer: longer.to_vec() }
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
        let room = tuples.longest() - tightest;
        let attempts = in_parts(self.longer.len() as u64, |attempt| {
            let more = self.longer[attempt as usize].min(room);
            let bins = tightest + more;
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
            Test { bins, more, count, bet, expected }
        });
        attempts.into_iter().min_by(|a, b| a.expected.total_cmp(&b.expected)).expect("the tightest is one")
    }

    /// Whether a point is likely to be enough.
    fn seems_enough(&self, point: Point) -> bool {
        // Where the noise is so small that numbers leave their range, nothing is certified.
        let Some(tuples) = Tuples::new(self.allocation, point.noise) else { return false };
        self.test(&tuples, point).expected <= self.wanted()
    }

    /// A bound of δ at a point, by coins of its own.
    fn certified(&self, point: Point) -> f64 {
        let coins = |purpose: &str, part: u64| {
            let numbers = [point.noise, point.epsilon, self.delta, part as f64];
            Coins::new(purpose, &self.seed, if part == 0 { &numbers[..3] } else { &numbers })
        };
        let paths = |purpose: &'static str, part| Paths::fresh(&self.allocation.factor, coins(purpose, part));
        let Some(tuples) = Tuples::new(self.allocation, point.noise) else { return 1.0 };
        let test = self.test(&tuples, point);
        let parts = if self.allocation.rounds == 1 { 1 } else { PARTS };
        let weights = in_parts(parts, |part| {
            let (mut paths, mut lots) = (paths("removed", part), coins("tuples", part));
            tuples.weights(test.bins, point.epsilon, test.count.div_ceil(parts), &mut paths, &mut lots)
        });
        let weights = Weights::all(weights);
        let removed = weights.upper(test.bet, tuples.bound(test.bins, point.epsilon));
        if removed > self.wanted() {
            return removed;
        }
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

    /// The least number that seems to be enough, about, from one that is.
    fn likely_below(&self, enough: f64, at: &impl Fn(f64) -> Point) -> f64 {
        let mut low = enough * 0.8;
        while low > enough * 1e-6 && self.seems_enough(at(low)) {
            low *= 0.8;
        }
        self.likely(enough, low, ROUGH, at)
    }

    /// The same from a number near it, more closely.
    fn likely_near(&self, rough: f64, enough: f64, at: &impl Fn(f64) -> Point) -> f64 {
        let (mut high, mut low) = ((1.0 + 2.0 * ROUGH) * rough, (1.0 - 2.0 * ROUGH) * rough);
        while high < enough && !self.seems_enough(at(high)) {
            (low, high) = (high, high * (1.0 + 2.0 * ROUGH));
        }
        while low > 0.5 * rough && self.seems_enough(at(low)) {
            (low, high) = (low * (1.0 - 2.0 * ROUGH), low);
        }
        if high < enough { self.likely(high, low, CLOSE, at) } else { enough }
    }

    /// From about the least number that is enough: one that is certified, or `enough`.
    fn certified_near(&self, number: f64, enough: f64, at: &impl Fn(f64) -> Point) -> f64 {
        // δ falls by the tenth power of the noise or more, mostly: steps that follow from bounds are a little too long
        // upwards, and too short downwards. Where that is not enough, it falls more slowly, and steps grow.
        let step = |bound: f64, power: f64| (libm::log(bound / self.wanted()) / power).clamp(-0.2, 0.2);
        let (mut number, mut best) = (number, None);
        for test in 0..TESTS {
            if number >= enough {
                break;
            }
            let bound = self.certified(at(number));
            match (bound <= self.wanted(), best) {
                (true, None) if bound < NEAR * self.wanted() => {
                    best = Some(number);
                    number *= 1.0 + step(bound, 24.0);
                }
                (true, _) => return number,
                (false, Some(best)) => return best,
                (false, None) => number *= 1.002 + step(bound, 12.0 / f64::from(1 + test)),
            }
        }
        best.unwrap_or(enough)
    }
}

/// A number that is certified, not much above the least, from one that is enough without looking.
fn least(allocation: &RandomAllocation, delta: Delta, enough: f64, at: &impl Fn(f64) -> Point) -> f64 {
    let rough = first_look(allocation, delta, enough, at);
    let mut search = Search::new(allocation, delta, PILOTS, &LONGER);
    if let Some(tuples) = Tuples::new(allocation, at(rough).noise) {
        search.longer = vec![search.test(&tuples, at(rough)).more];
    }
    search.certified_near(search.likely_near(rough, enough, at), enough, at)
}

fn first_look(allocation: &RandomAllocation, delta: Delta, enough: f64, at: &impl Fn(f64) -> Point) -> f64 {
    Search::new(allocation, delta, FEW_PILOTS, &[1]).likely_below(enough, at)
}

pub(super) fn noise(allocation: &RandomAllocation, epsilon: Epsilon, delta: Delta) -> Result<f64> {
    let enough = allocation.noise_if_known(epsilon, delta);
    if !(1e-6..=1e6).contains(&enough) {
        return Err(Error::invalid("no noise multiplier in range meets this epsilon and delta"));
    }
    if allocation.bins == 1 {
        return Ok(enough);
    }
    Ok(least(allocation, delta, enough, &|noise: f64| Point { noise, epsilon: epsilon.get() }))
}

pub(super) fn likely_noise(allocation: &RandomAllocation, epsilon: Epsilon, delta: Delta) -> f64 {
    let enough = allocation.noise_if_known(epsilon, delta);
    if allocation.bins == 1 {
        return enough;
    }
    first_look(allocation, delta, enough, &|noise: f64| Point { noise, epsilon: epsilon.get() })
}

pub(super) fn epsilon(allocation: &RandomAllocation, noise: f64, delta: Delta) -> Result<f64> {
    if !(1e-6..=1e6).contains(&noise) {
        return Err(Error::invalid(format!("a noise multiplier must lie between 1e-6 and 1e6, got {noise}")));
    }
    let enough = conversions::epsilon_of_gaussian(allocation.moved_if_known() / noise, delta);
    if allocation.bins == 1 || !(1e-9..=1e4).contains(&enough) {
        return Ok(enough);
    }
    Ok(least(allocation, delta, enough, &|epsilon: f64| Point { noise, epsilon }))
}
