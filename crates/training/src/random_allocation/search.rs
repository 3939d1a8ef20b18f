//! The search for the smallest certified noise and ε.

use super::bets::{Bet, DrawnWeights};
use super::coins::Coins;
use super::disjoint::{self, Coarseness, DisjointBins};
use super::paths::{Block, LANES, Paths, in_parts, kept};
use super::removed::Tuples;
use super::shifted::Shifted;
use super::{KEPT, RandomAllocation, SHARE};
use crate::noise_search::SecantSearch;
use evertally::privacy::{Delta, Epsilon, conversions, gaussian};
use evertally::{Error, Result};

/// Paths for the search for a point.
const PILOTS: u64 = 1 << 11;
/// The same for a first estimate, and for comparing mechanisms.
const ROUGH_PILOTS: u64 = 1 << 9;
/// Maximum number of values of all kept paths.
const MAX_KEPT_VALUES: u64 = 1 << 23;
/// Weights are drawn in this many parts, those of pilots too.
const PARTS: u64 = 16;
/// The relative precision of such a comparison.
const ROUGH_TOLERANCE: f64 = 0.01;
/// Minimum number of paths of a test, and the maximum for a small excess and for a moderate one.
const TESTED: (f64, f64, f64) = (2048.0, 32_768.0, 262_144.0);
/// The number of bins that the most paths may have together, in all rounds, for a moderate excess and for a small one.
const MAX_TESTED_BINS: (f64, f64) = (33_554_432.0, 134_217_728.0);
/// Numbers of bins that tuples are tried with, beyond that with the smallest bound.
const EXTRA_BINS: [usize; 4] = [0, 1, 2, 4];
/// The relative excess that a bound of δ may have if that many paths suffice: 0.2 to 0.4 % of the
/// noise, and four times that.
const EXCESS: (f64, f64) = (0.05, 0.2);
/// A bound this close to the target is not improved.
const NEAR: f64 = 0.9;
/// The relative precision of the search for a point.
const CLOSE: f64 = 1e-3;
/// About how fast the logarithm of δ falls with that of the noise.
const USUAL_SLOPE: f64 = -16.0;
/// The largest logarithm of a ratio of δ to its limit that a search distinguishes, and of noises that it visits.
const MAX_EXCESS: f64 = 20.0;
const MAX_LOG_RANGE: f64 = 14.0;
/// Maximum number of successive tests of points.
const TESTS: u32 = 12;

/// A search for one number: a noise, or ε, larger values of which are easier to certify.
struct AllocationSearch<'a> {
    allocation: &'a RandomAllocation,
    delta: f64,
    seed: [u8; 32],
    kept: Vec<Block>,
    pilots: u64,
    /// The number of bins by which tuples are longer than those with the smallest bound; any of these.
    longer: Vec<usize>,
}

/// The paths of the search.
#[derive(Clone, Copy)]
struct SearchPoint {
    noise: f64,
    epsilon: f64,
}

/// Bounds of δ at a point.
struct Certified {
    removed: f64,
    /// `None` if that of a removed example is above the limit.
    added: Option<f64>,
}

/// The test of a point.
struct Test {
    /// Bins of a tuple, and how many of these are beyond the number with the smallest bound.
    bins: usize,
    more: usize,
    count: u64,
    bet: Bet,
    /// An estimate of the resulting bound, with room for the error of the pilot.
    expected: f64,
}

impl<'a> AllocationSearch<'a> {
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
        let fit = MAX_KEPT_VALUES / allocation.rounds / allocation.bins as u64;
        let pilots = pilots.min(fit / LANES as u64 * LANES as u64).max(ROUGH_PILOTS);
        let coins = || Coins::new("pilot", &seed, &[]);
        let kept = kept(&allocation.factor, coins, pilots * allocation.rounds);
        Self { allocation, delta: delta.get(), seed, kept, pilots, longer: longer.to_vec() }
    }

    /// The limit of a bound.
    fn wanted(&self) -> f64 {
        self.delta * KEPT
    }

    fn surprise(&self) -> f64 {
        -libm::log(self.delta * SHARE)
    }

    /// The number of paths for weights of this mean and relative variance, below a bound.
    fn count(&self, (mean, variance): (f64, f64), bound: f64) -> u64 {
        let (of_bound, of_spread) = (self.surprise() * bound / (0.9 * mean), (2.0 * self.surprise() * variance).sqrt());
        // The root of the number at which the sum of both errors, `of_bound/n + of_spread/√n`, is the excess.
        let root =
            |excess: f64| (of_spread + (of_spread * of_spread + 4.0 * excess * of_bound).sqrt()) / (2.0 * excess);
        let paths = |excess: f64| root(excess) * root(excess);
        let bins = (self.allocation.rounds * self.allocation.bins as u64) as f64;
        let most = (MAX_TESTED_BINS.0 / bins).min(TESTED.2);
        paths(EXCESS.0).min(TESTED.1).min(MAX_TESTED_BINS.1 / bins).max(paths(EXCESS.1).min(most)).max(TESTED.0) as u64
    }

    /// The best test of a point. Tuples longer than those with the smallest bound may have less spread.
    fn test(&self, tuples: &Tuples, point: SearchPoint) -> Test {
        let tightest = tuples.tightest(point.epsilon);
        let room = tuples.longest() - tightest;
        let lengths: Vec<(usize, usize)> = self.longer.iter().map(|more| (tightest + room.min(*more), *more)).collect();
        let mut drawn = in_parts(PARTS * lengths.len() as u64, |task| {
            self.pilot_weights(tuples, lengths[(task / PARTS) as usize].0, point.epsilon, task % PARTS)
        })
        .into_iter();
        let attempts = lengths.iter().map(|(bins, more)| {
            let weights = DrawnWeights::all(drawn.by_ref().take(PARTS as usize).collect());
            self.attempt(&weights, tuples.bound(*bins, point.epsilon), (*bins, room.min(*more)))
        });
        attempts.min_by(|a, b| a.expected.total_cmp(&b.expected)).expect("the tightest is one")
    }

    /// A part of the weights of all kept paths, for tuples of this many bins. All parts together have the coins of one
    /// stream.
    fn pilot_weights(&self, tuples: &Tuples, bins: usize, epsilon: f64, part: u64) -> DrawnWeights {
        let rounds = self.allocation.rounds;
        let groups = self.kept.len() as u64 / rounds;
        let (first, end) = (part * groups / PARTS, (part + 1) * groups / PARTS);
        // fits: fewer than there are kept blocks
        let own = &self.kept[(first * rounds) as usize..(end * rounds) as usize];
        let used = first * rounds * Tuples::coins_of_block(bins);
        let mut tuple_coins = Coins::new("pilot's tuples", &self.seed, &[]).without_first(used);
        tuples.weights(bins, epsilon, (end - first) * LANES as u64, &mut Paths::Kept(own), &mut tuple_coins)
    }

    /// The test that weights of a pilot suggest.
    fn attempt(&self, weights: &DrawnWeights, bound: f64, (bins, more): (usize, usize)) -> Test {
        let (law, error) = if weights.positive.is_empty() {
            // No weight was seen, but some may exist.
            let mean = (self.wanted() / 8.0).min(bound);
            ((mean, bound / mean), 0.0)
        } else {
            let variance = weights.relative_variance();
            ((weights.mean(), variance), 2.0 * (variance / self.pilots as f64).sqrt())
        };
        let count = self.count(law, bound);
        let bet = Bet::new(count, bound, law, self.surprise());
        let expected = law.0 * (1.0 + bet.excess(count, law) + error);
        Test { bins, more, count, bet, expected }
    }

    /// Bounds of δ at a point, by separate coins: of a removed example, and if that is below the limit, of an added
    /// one. The bound of a removed example may be known from a smaller number: δ falls with the noise and with ε.
    fn certified(&self, point: SearchPoint, known: Option<f64>) -> Certified {
        let coins = |purpose: &str, part: u64| {
            let numbers = [point.noise, point.epsilon, self.delta, part as f64];
            Coins::new(purpose, &self.seed, if part == 0 { &numbers[..3] } else { &numbers })
        };
        let paths = |purpose: &'static str, part| Paths::fresh(&self.allocation.factor, coins(purpose, part));
        let removed = known.unwrap_or_else(|| self.certified_removed(point, &coins, &paths));
        if removed > self.wanted() {
            return Certified { removed, added: None };
        }
        let shifted = Shifted::new(self.allocation, point.noise);
        let added = shifted.delta(point.epsilon, self.wanted(), self.surprise(), paths);
        Certified { removed, added: Some(added) }
    }

    /// A bound of δ at a point for a removed example.
    fn certified_removed(
        &self,
        point: SearchPoint,
        coins: &(impl Fn(&str, u64) -> Coins + Sync),
        paths: &(impl Fn(&'static str, u64) -> Paths<'a> + Sync),
    ) -> f64 {
        let Some(tuples) = Tuples::new(self.allocation, point.noise) else { return 1.0 };
        let test = self.test(&tuples, point);
        let weights = in_parts(PARTS, |part| {
            let (mut paths, mut tuple_coins) = (paths("removed", part), coins("tuples", part));
            tuples.weights(test.bins, point.epsilon, test.count.div_ceil(PARTS), &mut paths, &mut tuple_coins)
        });
        let weights = DrawnWeights::all(weights);
        weights.upper(test.bet, tuples.bound(test.bins, point.epsilon))
    }

    /// By how much δ seems to be above the limit, as a logarithm.
    fn likely_excess(&self, point: SearchPoint) -> f64 {
        // If the noise is so small that numbers overflow, nothing is certified.
        let Some(tuples) = Tuples::new(self.allocation, point.noise) else { return MAX_EXCESS };
        let excess = libm::log(self.test(&tuples, point).expected / self.wanted());
        excess.clamp(-MAX_EXCESS, MAX_EXCESS)
    }

    /// Approximately the smallest number that seems to suffice, from a nearby one; `enough` suffices.
    fn likely_near(&self, guess: f64, enough: f64, close: f64, at: &impl Fn(f64) -> SearchPoint) -> f64 {
        let mut search = SecantSearch::new(|log| self.likely_excess(at(libm::exp(log))), close);
        let most = libm::log(enough);
        let found = search.least(libm::log(guess), USUAL_SLOPE, (most - MAX_LOG_RANGE, most));
        found.map_or(enough, libm::exp).min(enough)
    }

    /// A certified number, from an estimate of the smallest one, or `enough`.
    fn certified_near(&self, number: f64, enough: f64, at: &impl Fn(f64) -> SearchPoint) -> f64 {
        // δ falls by the tenth power of the noise or more, mostly: steps that follow from bounds are a little too long
        // upwards, and too short downwards. If that is not enough, it falls more slowly, and steps grow.
        let step = |bound: f64, power: f64| (libm::log(bound / self.wanted()) / power).clamp(-0.2, 0.2);
        let (mut number, mut best, mut removed) = (number, None, None);
        for test in 0..TESTS {
            if number >= enough {
                break;
            }
            let certified = self.certified(at(number), removed);
            // Larger numbers need no other.
            removed = Some(certified.removed).filter(|bound| *bound <= self.wanted());
            let bound = certified.added.map_or(certified.removed, |added| added.max(certified.removed));
            match (bound <= self.wanted(), best) {
                (true, None) if bound < NEAR * self.wanted() => {
                    (best, removed) = (Some(number), None);
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

/// A certified number, not far above the minimum, starting from one that is known to suffice.
fn least(allocation: &RandomAllocation, delta: Delta, enough: f64, at: &impl Fn(f64) -> SearchPoint) -> f64 {
    let first = first_look(allocation, delta, enough, at);
    let mut search = AllocationSearch::new(allocation, delta, PILOTS, &EXTRA_BINS);
    if let Some(tuples) = Tuples::new(allocation, at(first).noise) {
        search.longer = vec![search.test(&tuples, at(first)).more];
    }
    search.certified_near(search.likely_near(first, enough, CLOSE, at), enough, at)
}

fn first_look(allocation: &RandomAllocation, delta: Delta, enough: f64, at: &impl Fn(f64) -> SearchPoint) -> f64 {
    let guess = rough(allocation, delta, enough, at);
    AllocationSearch::new(allocation, delta, ROUGH_PILOTS, &[1]).likely_near(guess, enough, ROUGH_TOLERANCE, at)
}

pub(super) fn noise(allocation: &RandomAllocation, epsilon: Epsilon, delta: Delta) -> Result<f64> {
    let enough = allocation.noise_if_known(epsilon, delta);
    if !(1e-6..=1e6).contains(&enough) {
        return Err(Error::invalid("no noise multiplier in range meets this epsilon and delta"));
    }
    if allocation.bins == 1 {
        return Ok(enough);
    }
    if let Some(bins) = DisjointBins::of(allocation).filter(|bins| bins.is_exact_at(epsilon.get())) {
        return Ok(disjoint::noise(&bins, (epsilon.get(), delta.get()), enough, Coarseness::FINE));
    }
    Ok(least(allocation, delta, enough, &|noise: f64| SearchPoint { noise, epsilon: epsilon.get() }))
}

pub(super) fn likely_noise(allocation: &RandomAllocation, epsilon: Epsilon, delta: Delta) -> f64 {
    let enough = allocation.noise_if_known(epsilon, delta);
    if allocation.bins == 1 {
        return enough;
    }
    if let Some(bins) = DisjointBins::of(allocation).filter(|bins| bins.is_exact_at(epsilon.get())) {
        return disjoint::noise(&bins, (epsilon.get(), delta.get()), enough, Coarseness::ROUGH);
    }
    first_look(allocation, delta, enough, &|noise: f64| SearchPoint { noise, epsilon: epsilon.get() })
}

/// About the ratio of the bounds of weights to δ.
const BOUND_RATIO: f64 = 300.0;

/// An estimate without draws, for a first comparison of mechanisms: the number at which the smallest bound of the
/// weights, which is about that of Rényi's divergence, is a typical multiple of δ, and a Gaussian mechanism whose
/// likelihood ratio has the same variance meets δ. The first is about right for few rounds, and the second for many.
fn rough(allocation: &RandomAllocation, delta: Delta, enough: f64, at: &impl Fn(f64) -> SearchPoint) -> f64 {
    let suffices = |number: f64| {
        let SearchPoint { noise, epsilon } = at(number);
        let Some(tuples) = Tuples::new(allocation, noise) else { return false };
        let bound = tuples.bound(tuples.tightest(epsilon), epsilon);
        let moved = (allocation.rounds as f64 * tuples.log_second_moment()).sqrt();
        bound <= BOUND_RATIO * delta.get() && gaussian::delta(moved, epsilon) <= delta.get()
    };
    let (mut low, mut high) = (enough * 0.7, enough);
    while low > enough * 1e-3 && suffices(low) {
        (low, high) = (low * 0.7, low);
    }
    while high - low > 0.003 * high {
        let middle = (high * low).sqrt();
        if suffices(middle) { high = middle } else { low = middle }
    }
    high
}

pub(super) fn rough_noise(allocation: &RandomAllocation, epsilon: Epsilon, delta: Delta) -> f64 {
    let enough = allocation.noise_if_known(epsilon, delta);
    if allocation.bins == 1 || DisjointBins::of(allocation).is_some() {
        return likely_noise(allocation, epsilon, delta);
    }
    rough(allocation, delta, enough, &|noise: f64| SearchPoint { noise, epsilon: epsilon.get() })
}

pub(super) fn epsilon(allocation: &RandomAllocation, noise: f64, delta: Delta) -> Result<f64> {
    if !(1e-6..=1e6).contains(&noise) {
        return Err(Error::invalid(format!("a noise multiplier must lie between 1e-6 and 1e6, got {noise}")));
    }
    let enough = conversions::epsilon_of_gaussian(allocation.moved_if_known() / noise, delta);
    if allocation.bins == 1 || !(1e-9..=1e4).contains(&enough) {
        return Ok(enough);
    }
    if let Some(found) =
        DisjointBins::of(allocation).and_then(|bins| disjoint::epsilon(&bins, noise, delta.get(), enough))
    {
        return Ok(found);
    }
    Ok(least(allocation, delta, enough, &|epsilon: f64| SearchPoint { noise, epsilon }))
}
