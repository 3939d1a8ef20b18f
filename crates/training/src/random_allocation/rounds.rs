//! The case of an added example in several rounds: the law of one round, bounded step by step, and its convolution;
//! see the header of `privacy/allocated.rs`.

use super::chances::{quantile, share_at_most};
use super::paths::{Paths, in_parts};
use super::shifted::Shifted;
use evertally::number::special::normal_cdf;

/// Rounds of the pilot before points are chosen.
const PILOTS: u64 = 1 << 13;
/// Minimum and maximum number of counted rounds: in between, as many as together have this number of bins.
const COUNTED: (u64, u64) = (1 << 18, 1 << 20);
const COUNTED_BINS: u64 = 1 << 27;
/// Number of parts.
const PARTS: u64 = 32;
/// Share of the rounds below the first point.
const FIRST: f64 = 0.002;
/// Points of a standard deviation of one round, over the root of the number of rounds: the first over that number, and
/// at least the second. A sum is then underestimated by up to a thirtieth of its own standard deviation.
const FINENESS: (f64, f64) = (256.0, 16.0);
/// Number of evenly chosen points that have lines through them.
const ANCHORS: usize = 24;
/// Maximum number of points, above the first and below.
const MAX_POINTS: usize = 1 << 12;
/// The approximate probability below all points.
const NEGLECTED: f64 = 1e-18;

/// Upper bounds of the probabilities that `ln M` of one round is at most `first + k step`.
pub(super) struct Law {
    first: f64,
    step: f64,
    at_most: Vec<f64>,
}

impl Law {
    /// Bounds that hold together except with probability `e^-surprise`; `None` if a round moves hardly anything.
    pub(super) fn seen<'a>(
        shifted: &Shifted,
        rounds: u64,
        surprise: f64,
        paths: &(impl Fn(&'static str, u64) -> Paths<'a> + Sync),
    ) -> Option<Self> {
        let mut pilot = vec![];
        shifted.look_at_rounds(PILOTS, &mut paths("added, points of a round", 0), |log_ratio| pilot.push(log_ratio));
        pilot.sort_by(f64::total_cmp);
        let mean = pilot.iter().sum::<f64>() / pilot.len() as f64;
        let variance = pilot.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / pilot.len() as f64;
        let first = pilot[(FIRST * pilot.len() as f64) as usize];
        let rounds = rounds as f64;
        let step = variance.sqrt() / ((FINENESS.0 / rounds).max(FINENESS.1) * rounds.sqrt());
        let points = ((pilot[pilot.len() - 1] - first) / step).ceil();
        if !(2.0..MAX_POINTS as f64).contains(&points) {
            return None;
        }
        let points = points as usize + 1;
        // The counts below each point and above the previous one, and beyond the last.
        let counted = (COUNTED_BINS / shifted.bins()).clamp(COUNTED.0, COUNTED.1);
        let counts = in_parts(PARTS, |part| {
            let mut below = vec![0u64; points + 1];
            shifted.look_at_rounds(counted.div_ceil(PARTS), &mut paths("added, a round", part), |log_ratio| {
                below[((log_ratio - first) / step).ceil().clamp(0.0, points as f64) as usize] += 1;
            });
            below
        });
        let below: Vec<u64> = (0..=points).map(|k| counts.iter().map(|part| part[k]).sum()).collect();
        let count = below.iter().sum();
        let cumulated = below[..points].iter().scan(0, |sum, own| {
            *sum += own;
            Some(*sum)
        });
        // The two counts of every point share the failure probability.
        let surprise = surprise + libm::log(2.0 * points as f64);
        let (mut upper, mut lower) = (vec![], vec![]);
        for seen in cumulated {
            upper.push(quantile(share_at_most(seen, count, surprise)));
            lower.push(quantile(1.0 - share_at_most(count - seen, count, surprise)));
        }
        let anchors: Vec<(f64, f64, f64)> =
            (0..points).step_by(points.div_ceil(ANCHORS)).map(|k| (k as f64, upper[k], lower[k])).collect();
        Self::along_lines(first, step, &upper, &anchors)
    }

    /// `Φ⁻¹` of the probability is concave: left of two points it is below the line through them. Takes upper
    /// bounds of it, and for some points the place, an upper and a lower bound.
    fn along_lines(first: f64, step: f64, upper: &[f64], anchors: &[(f64, f64, f64)]) -> Option<Self> {
        let by_lines = |place: f64| {
            let right = anchors.iter().zip(1..).skip_while(|(anchor, _)| anchor.0 <= place);
            let lines = right.flat_map(|((at, high, _), next)| {
                anchors[next..].iter().map(move |(other, _, low)| high - (low - high) / (other - at) * (at - place))
            });
            lines.fold(f64::INFINITY, f64::min)
        };
        let tail: Vec<f64> = (1..=MAX_POINTS)
            .map(|k| normal_cdf(by_lines(-(k as f64))))
            .take_while(|chance| *chance > NEGLECTED)
            .collect();
        if tail.len() == MAX_POINTS {
            return None;
        }
        let counted = upper.iter().enumerate().map(|(k, own)| normal_cdf(own.min(by_lines(k as f64))));
        Some(Self {
            first: first - tail.len() as f64 * step,
            step,
            at_most: tail.iter().rev().copied().chain(counted).collect(),
        })
    }

    /// A bound of `E (1 - e^ε M)₊`, `M` the product of this many independent rounds, at least 1. Every value counts
    /// as the point below it, which is smaller, and `(1 - e^ε M)₊` falls with it.
    pub(super) fn delta(&self, rounds: u64, epsilon: f64) -> f64 {
        // Between two points as much mass as the bounds allow, and the rest above the last.
        let (mut masses, mut last) = (vec![], 0.0);
        for at_most in &self.at_most {
            masses.push((at_most - last).max(0.0));
            last = at_most.max(last);
        }
        masses.push(1.0 - last);
        let sums = power(&masses, rounds);
        // Mass below the first point may be arbitrarily small in value, so it counts in full.
        let unknown = masses[0] * rounds as f64;
        let value = |k: usize| rounds as f64 * (self.first - self.step) + k as f64 * self.step;
        let shown = sums.iter().enumerate().map(|(k, mass)| mass * -libm::expm1((epsilon + value(k)).min(0.0)));
        (shown.sum::<f64>() + unknown) * (1.0 + super::ROUNDING)
    }
}

/// The law of the sum of this many values, at least 1, using only products of positive numbers.
fn power(law: &[f64], count: u64) -> Vec<f64> {
    let (mut done, mut base, mut left): (Option<Vec<f64>>, _, _) = (None, law.to_vec(), count);
    loop {
        if left % 2 == 1 {
            done = Some(done.map_or_else(|| base.clone(), |done| convolved(&done, &base)));
        }
        left /= 2;
        match done {
            Some(done) if left == 0 => return done,
            _ => base = convolved(&base, &base),
        }
    }
}

fn convolved(one: &[f64], other: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; one.len() + other.len() - 1];
    for (at, mass) in one.iter().enumerate() {
        for (sum, own) in sums[at..].iter_mut().zip(other) {
            *sum += mass * own;
        }
    }
    sums
}
