//! The case of an added example: the law of one round, or of all, bounded step by step, and its convolution; see the
//! header of `random_allocation.rs`.

use super::chances::{quantile, share_at_most};
use super::paths::{Paths, in_parts};
use super::shifted::Shifted;
use super::smoothed::Smoothed;
use evertally::number::special::normal_cdf;

/// Values of the pilot before points are chosen.
const PILOTS: u64 = 1 << 13;
/// Minimum and maximum number of counted rounds of several, and the number of bins that they have together in between.
/// A first attempt takes an eighth of the time of a precise one, and suffices if added examples are not the worse case.
pub(super) const FIRST_ATTEMPT: RoundCounts =
    RoundCounts { rounds: (1 << 15, 1 << 18), bins: 1 << 24, purpose: "added, first attempt" };
pub(super) const PRECISE: RoundCounts = RoundCounts { rounds: (1 << 18, 1 << 20), bins: 1 << 27, purpose: "added" };
/// Counted paths if they are not composed.
const COUNTED_PATHS: u64 = 1 << 16;
/// Number of parts.
const PARTS: u64 = 32;
/// Share of the rounds below the first point.
const FIRST: f64 = 0.002;
/// Points of a standard deviation of one round, over the root of the number of rounds: the first over that number, and
/// at least the second. A sum is then underestimated by up to a thirtieth of its own standard deviation.
const FINENESS: (f64, f64) = (256.0, 16.0);
/// Number of evenly chosen points that have lines through them.
const ANCHORS: usize = 24;
/// Maximum number of points, above the first and below. Larger values count as the last point.
const MAX_POINTS: usize = 1 << 12;
/// The same above the first, in standard deviations, if rounds are not composed.
const MAX_DEVIATIONS: f64 = 7.0;
/// The approximate probability below all points.
const NEGLECTED: f64 = 1e-18;

/// How many rounds are counted, with which coins.
#[derive(Clone, Copy)]
pub(super) struct RoundCounts {
    rounds: (u64, u64),
    bins: u64,
    purpose: &'static str,
}

/// The values that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Summands {
    /// `ln M'_e` of a round, one of this number of rounds.
    Round(u64),
    /// `ln M'` of all rounds together.
    Whole,
}

impl Summands {
    /// The number of independent values that add up to `ln M'`.
    fn times(self) -> u64 {
        match self {
            Self::Round(rounds) => rounds,
            Self::Whole => 1,
        }
    }

    /// At least this many values.
    fn visit(self, shifted: &Shifted, count: u64, paths: &mut Paths, mut visit: impl FnMut(f64)) {
        match self {
            Self::Round(_) => shifted.look_at_rounds(count, paths, visit),
            Self::Whole => shifted.visit_paths(0.0, count, paths, |log_ratio, _| visit(log_ratio)),
        }
    }
}

/// Upper bounds of the probabilities that a value is at most `first + k step`.
pub(super) struct Law {
    times: u64,
    first: f64,
    step: f64,
    at_most: Vec<f64>,
}

impl Law {
    /// Bounds that hold together except with probability `e^-surprise`; `None` if the values hardly vary.
    pub(super) fn seen<'a>(
        shifted: &Shifted,
        (kind, counts): (Summands, RoundCounts),
        surprise: f64,
        paths: &(impl Fn(&'static str, u64) -> Paths<'a> + Sync),
    ) -> Option<Self> {
        let mut pilot = vec![];
        kind.visit(shifted, PILOTS, &mut paths("added, points", 0), |log_ratio| pilot.push(log_ratio));
        pilot.sort_by(f64::total_cmp);
        let mean = pilot.iter().sum::<f64>() / pilot.len() as f64;
        let variance = pilot.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / pilot.len() as f64;
        let first = pilot[(FIRST * pilot.len() as f64) as usize];
        let times = kind.times() as f64;
        let fineness = (FINENESS.0 / times).max(FINENESS.1) * times.sqrt();
        let step = variance.sqrt() / fineness;
        let most = if times > 1.0 { MAX_POINTS as f64 } else { MAX_DEVIATIONS * fineness };
        let points = ((pilot[pilot.len() - 1] - first) / step).ceil().min(most);
        if points.is_nan() || points < 2.0 {
            return None;
        }
        let points = points as usize + 1;
        let counted = match kind {
            Summands::Round(rounds) if rounds > 1 => {
                (counts.bins / shifted.allocation.bins as u64).clamp(counts.rounds.0, counts.rounds.1)
            }
            _ => COUNTED_PATHS,
        };
        // The counts below each point and above the previous one, and beyond the last.
        let below = in_parts(PARTS, |part| {
            let mut below = vec![0u64; points + 1];
            kind.visit(shifted, counted.div_ceil(PARTS), &mut paths(counts.purpose, part), |log_ratio| {
                below[((log_ratio - first) / step).ceil().clamp(0.0, points as f64) as usize] += 1;
            });
            below
        });
        let below: Vec<u64> = (0..=points).map(|k| below.iter().map(|part| part[k]).sum()).collect();
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
        Self::along_lines(kind.times(), (first, step), &upper, &anchors)
    }

    /// `Φ⁻¹` of the probability is concave: left of two points it is below the line through them. Takes upper
    /// bounds of it, and for some points the place, an upper and a lower bound.
    fn along_lines(times: u64, (first, step): (f64, f64), upper: &[f64], anchors: &[(f64, f64, f64)]) -> Option<Self> {
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
            times,
            first: first - tail.len() as f64 * step,
            step,
            at_most: tail.iter().rev().copied().chain(counted).collect(),
        })
    }

    /// A bound of `E h(ε + ln M')`. Every value counts as the point below it, which is smaller, and `h` falls.
    pub(super) fn delta(&self, smoothed: Smoothed) -> f64 {
        // Between two points as much mass as the bounds allow, and the rest above the last.
        let (mut masses, mut last) = (vec![], 0.0);
        for at_most in &self.at_most {
            masses.push((at_most - last).max(0.0));
            last = at_most.max(last);
        }
        masses.push(1.0 - last);
        let sums = power(&masses, self.times);
        // Mass below the first point may be arbitrarily small in value, so it counts in full.
        let times = self.times as f64;
        let unknown = masses[0] * times;
        let value = |k: usize| times * (self.first - self.step) + k as f64 * self.step;
        let shown = sums.iter().enumerate().map(|(k, mass)| mass * smoothed.at(smoothed.epsilon + value(k)));
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

#[cfg(test)]
mod tests {
    use super::super::RandomAllocation;
    use super::super::coins::Coins;
    use super::*;
    use evertally::privacy::gaussian;

    /// Two bins with disjoint rows: without the common move, `M'` of a round is a hyperbolic cosine of one normal
    /// variable, and `ln M'` of the rounds is a convolution. The law of all rounds counts the same.
    #[test]
    fn laws_of_rounds_add_up() {
        for (rounds, epsilon, most) in [(1, 0.5, 1.3), (4, 0.5, 1.2), (16, 1.0, 1.5), (64, 0.2, 1.2)] {
            let square = 1.0 / rounds as f64;
            let bins = RandomAllocation::new(2, vec![square, 0.0, 0.0, square]).unwrap().in_rounds(rounds).unwrap();
            let shifted = Shifted::new(&bins, 1.0);
            let smoothed = shifted.smoothed(epsilon);
            assert!((smoothed.moved - 0.5f64.sqrt()).abs() < 1e-6);
            let spread = (square / 2.0).sqrt();
            let (step, cells) = (spread * spread / 50.0, 600);
            let least = -square / 4.0;
            let at_most = |k: usize| {
                let place = libm::acosh(libm::exp((k as f64 + 0.5) * step)) / spread;
                2.0 * normal_cdf(place) - 1.0
            };
            let masses: Vec<f64> = (0..cells).map(|k| at_most(k) - if k > 0 { at_most(k - 1) } else { 0.0 }).collect();
            let sum = power(&masses, rounds).into_iter().enumerate();
            let value = |k: usize| epsilon + rounds as f64 * least + k as f64 * step;
            let truth: f64 = sum.map(|(k, mass)| mass * gaussian::delta(smoothed.moved, value(k))).sum();
            let paths = |purpose: &'static str, part: u64| {
                Paths::fresh(&bins.factor, Coins::new(purpose, &[6; 32], &[part as f64]))
            };
            for kind in [Summands::Round(rounds), Summands::Whole] {
                let bound = Law::seen(&shifted, (kind, PRECISE), 30.0, &paths).unwrap().delta(smoothed) / truth;
                assert!((1.0 - 1e-3..most).contains(&bound), "{rounds}, {kind:?}: {bound} {truth:e}");
            }
        }
    }
}
