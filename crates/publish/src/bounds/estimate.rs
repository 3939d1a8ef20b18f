//! Estimates, from released histograms, the events that bounds drop.

use super::Candidates;
use evertally::number::power;
use evertally::plan::Plan;
use evertally_declare::error::Result;

/// The probability that some empty cell at the far end is taken for an occupied one, over all cells.
const FALSE_POSITIVE_RATE: f64 = 0.05;
/// Confidence of intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Noisy counts of persons, by the number of events that each bound per step drops, and by their total number of
/// events.
#[doc(alias = "Estimate")]
#[derive(Clone, Debug)]
pub struct ContributionEstimate {
    candidates: Candidates,
    /// By histogram: as released.
    released: Vec<Vec<f64>>,
    /// By histogram: 0 after the last count that stands out.
    counts: Vec<Vec<f64>>,
    /// Standard error of a count.
    std_error: f64,
    /// The smallest count that stands out of the noise.
    least_seen: f64,
    plan: Plan,
}

/// An estimated number of persons or events.
#[doc(alias = "Figure")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimatedNumber {
    /// The estimate.
    pub value: f64,
    /// Its standard error, from the noise.
    pub std_error: f64,
}

/// An interval for a number, with [`CONFIDENCE`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberInterval {
    /// Its lower end.
    pub lower: f64,
    /// Its upper end.
    pub upper: f64,
}

impl ContributionEstimate {
    /// From released counts, one histogram after the other.
    ///
    /// Few persons have very many events; most cells at the far end are empty. The noise of a single person there
    /// weighs as much as thousands of other persons. So all cells after the last one that stands out of the noise are
    /// taken as empty.
    pub(super) fn new(candidates: Candidates, noisy: &[f64], plan: &Plan) -> Result<Self> {
        let cells = candidates.cells();
        // One-sided, for each cell.
        let confidence = 1.0 - 2.0 * FALSE_POSITIVE_RATE / noisy.len().max(2) as f64;
        let stands_out = plan.intervals(confidence)?.half_width(1) as f64;
        let cut = |histogram: &[f64]| {
            let last = histogram.iter().rposition(|count| *count >= stands_out).map_or(0, |place| place + 1);
            histogram.iter().enumerate().map(|(cell, count)| if cell < last { *count } else { 0.0 }).collect()
        };
        let counts = noisy.chunks(cells).map(cut).collect();
        let released = noisy.chunks(cells).map(<[f64]>::to_vec).collect();
        let std_error = plan.std_error(1);
        Ok(Self { candidates, released, counts, std_error, least_seen: stands_out, plan: plan.clone() })
    }

    /// The candidate bounds.
    pub fn candidates(&self) -> &Candidates {
        &self.candidates
    }

    /// The released counts of persons, by histogram and cell.
    pub fn counts(&self) -> &[Vec<f64>] {
        &self.counts
    }

    /// Standard error of each count.
    pub fn count_std_error(&self) -> f64 {
        self.std_error
    }

    /// The estimated number of persons.
    pub fn persons(&self) -> EstimatedNumber {
        self.sum(self.counts.len() - 1, |_| 1.0)
    }

    /// The estimated number of events.
    pub fn events(&self) -> EstimatedNumber {
        self.sum(self.counts.len() - 1, |events| events)
    }

    /// The most events that are dropped in a stretch `looks` times as long as the observed one, under the bound per
    /// step at this index and this total bound. Everyone is assumed to continue at the same rate.
    pub fn left_out(&self, per_step: usize, in_all: f64, looks: f64) -> EstimatedNumber {
        let all = self.counts.len() - 1;
        let beyond = self.sum(all, |events| (looks * events - in_all).max(0.0));
        let in_steps = if per_step == all { self.sum(all, |_| 0.0) } else { self.sum(per_step, |lost| looks * lost) };
        let value = beyond.value.max(0.0) + in_steps.value.max(0.0);
        EstimatedNumber { value, std_error: libm::hypot(beyond.std_error, in_steps.std_error) }
    }

    /// An interval for the number of persons.
    pub fn persons_interval(&self) -> NumberInterval {
        self.interval(self.counts.len() - 1, 0.5 * (1.0 - CONFIDENCE), |_| 1.0)
    }

    /// An interval for the number of events; it holds if nobody has more than [`Candidates::largest`].
    pub fn events_interval(&self) -> NumberInterval {
        self.interval(self.counts.len() - 1, 0.5 * (1.0 - CONFIDENCE), |events| events as f64)
    }

    /// Whether more people than the noise explains have more events than [`Candidates::largest`]. Then no lower end of
    /// a share, and no upper end of a number of events, can be stated.
    pub fn is_largest_exceeded(&self) -> bool {
        self.released.last().and_then(|histogram| histogram.last()).is_some_and(|beyond| *beyond >= self.least_seen)
    }

    /// An interval for the share of events that the bounds of [`left_out`](Self::left_out) keep, in 0 to 1; it holds
    /// if nobody has more than [`Candidates::largest`] events.
    ///
    /// Let a person have n events in the stretch, k = min(n, bound) and d = n − k, and let the bound per step drop l of
    /// them. Both bounds together drop between max(d, l) and d + l. With sums over persons in capitals, the share is
    /// between (K − L)/(K + D) and the smaller of K/(K + D) and 1 − L/(K + D). Each sum is replaced by the end of a
    /// one-sided interval; each of the six misses with a sixth of the probability that [`CONFIDENCE`] allows.
    pub fn share_interval(&self, per_step: usize, in_all: f64, looks: f64) -> NumberInterval {
        let all = self.counts.len() - 1;
        let level = (1.0 - CONFIDENCE) / 6.0;
        let kept = self.interval(all, level, |events| (looks * events as f64).min(in_all));
        let dropped = self.interval(all, level, |events| (looks * events as f64 - in_all).max(0.0));
        let lost = match per_step == all {
            true => NumberInterval { lower: 0.0, upper: 0.0 },
            false => self.interval(per_step, level, |events| looks * events as f64),
        };
        let share = |part: f64, whole: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 1.0 };
        let is_open = kept.lower == 0.0 || self.is_largest_exceeded();
        let lower = if is_open { 0.0 } else { share(kept.lower - lost.upper, kept.lower + dropped.upper) };
        let without_steps = share(kept.upper, kept.upper + dropped.lower);
        let in_steps = if lost.lower > 0.0 { share(lost.lower, kept.upper + dropped.upper) } else { 0.0 };
        let upper = without_steps.min(1.0 - in_steps);
        NumberInterval { lower: lower.min(upper), upper }
    }

    /// An interval for the sum of `of`, which increases, over all persons of a histogram. Each of its ends misses with
    /// probability `level`.
    fn interval(&self, histogram: usize, level: f64, of: impl Fn(u64) -> f64) -> NumberInterval {
        NumberInterval { lower: self.lower(histogram, level, &of), upper: self.upper(histogram, level, &of) }
    }

    /// The upper end of a one-sided interval for the sum of `of`, which increases, over all persons of a histogram. It
    /// is exceeded with probability `level`.
    fn upper(&self, histogram: usize, level: f64, of: impl Fn(u64) -> f64) -> f64 {
        if self.is_largest_exceeded() {
            return f64::INFINITY;
        }
        let released = &self.released[histogram];
        let weights = (0..released.len() - 1).map(|cell| of(self.candidates.range(cell).1));
        let (mut total, mut squares) = (0.0, 0.0);
        weights.zip(released).for_each(|(weight, count)| {
            total += weight * count;
            squares += weight * weight;
        });
        (total + self.quantile(level) * squares.sqrt()).max(0.0)
    }

    /// The lower end, like [`upper`](Self::upper). The far cells, whose noise hides everything else, may be omitted:
    /// the best of all beginnings of the histogram, each with its part of `level`.
    fn lower(&self, histogram: usize, level: f64, of: impl Fn(u64) -> f64) -> f64 {
        let released = &self.released[histogram];
        let quantile = self.quantile(level / released.len() as f64);
        let (mut total, mut squares, mut best) = (0.0, 0.0, 0.0f64);
        for (cell, count) in released.iter().enumerate() {
            let weight = of(self.candidates.range(cell).0);
            total += weight * count;
            squares += weight * weight;
            best = best.max(total - quantile * squares.sqrt());
        }
        best
    }

    /// The noise that a sum of counts, with weights whose squares sum to 1, exceeds with at most this probability. At
    /// the levels used here (2.5 % and less) a single Laplace variable has a heavier tail than any such sum.
    fn quantile(&self, level: f64) -> f64 {
        self.plan.intervals(1.0 - 2.0 * level).expect("a confidence in (0, 1)").half_width(1) as f64
    }

    /// Cells with fewer persons are lost in the noise.
    pub fn least_seen(&self) -> f64 {
        self.least_seen
    }

    /// The sum of `of` over all persons of a histogram; each cell uses the mean over its numbers.
    fn sum(&self, histogram: usize, of: impl Fn(f64) -> f64) -> EstimatedNumber {
        let (mut total, mut variance) = (0.0, 0.0);
        for (cell, count) in self.counts[histogram].iter().enumerate().filter(|(_, count)| **count != 0.0) {
            let (first, last) = self.candidates.range(cell);
            let mean = mean_over(first, last, &of);
            total += count * mean;
            variance += power(self.std_error * mean, 2);
        }
        EstimatedNumber { value: total, std_error: variance.sqrt() }
    }
}

/// The mean over whole numbers; if there are more than 64, over 64 evenly spread ones.
fn mean_over(first: u64, last: u64, of: impl Fn(f64) -> f64) -> f64 {
    let (numbers, looked) = (last - first + 1, (last - first + 1).min(64));
    let at = |place: u64| first as f64 + (place as f64 + 0.5) * numbers as f64 / looked as f64 - 0.5;
    (0..looked).map(|place| of(at(place))).sum::<f64>() / looked as f64
}
