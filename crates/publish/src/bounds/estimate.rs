//! Estimates, from released histograms, the events that bounds drop.

use super::Candidates;
use evertally::number::power;
use evertally::plan::Plan;
use evertally_declare::error::Result;

/// The probability that some empty cell at the far end is taken for an occupied one, over all cells.
const FALSE_POSITIVE_RATE: f64 = 0.05;

/// Noisy counts of persons, by the number of events that each bound per step drops, and by their total number of
/// events.
#[doc(alias = "Estimate")]
#[derive(Clone, Debug)]
pub struct ContributionEstimate {
    candidates: Candidates,
    /// By histogram.
    counts: Vec<Vec<f64>>,
    /// Standard error of a count.
    std_error: f64,
    /// The smallest count that stands out of the noise.
    least_seen: f64,
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
        Ok(Self { candidates, counts, std_error: plan.std_error(1), least_seen: stands_out })
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

    /// Cells with fewer persons are lost in the noise.
    pub fn least_seen(&self) -> f64 {
        self.least_seen
    }

    /// The sum of `of` over all persons of a histogram; each cell uses the mean over its numbers.
    fn sum(&self, histogram: usize, of: impl Fn(f64) -> f64) -> EstimatedNumber {
        let edges = &self.candidates.edges;
        let (mut total, mut variance) = (0.0, 0.0);
        for (cell, count) in self.counts[histogram].iter().enumerate().filter(|(_, count)| **count != 0.0) {
            let first = if cell == 0 { 1 } else { edges[cell - 1] + 1 };
            // Persons beyond the last edge are counted at the smallest number of their cell.
            let last = edges.get(cell).copied().unwrap_or(first);
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
