//! The errors of a count sketch's estimates, estimated from its own cells.
//!
//! **One row.** If an item has the count `f`, its cell, multiplied by its sign, holds `f + C + Z`: the counts of the
//! other items there with random signs, and noise. A cell chosen independently of the hash functions, such as the first
//! of a row, holds `C + Z` with the same law, whatever the counts are. So no model of the counts is needed, and heavy
//! tails (one cell in many holds a heavy item) are measured as they are. (The cell may hold the item itself, with
//! probability `1/w`; that can only make intervals wider.) The law is symmetric, because the signs are. So from `m`
//! such cells, of which `k` exceed `x` in absolute value, an upper tail of a row is
//!
//! ```text
//! p(x) = (k + 1) / (2 (m + 1)),
//! ```
//!
//! where the item's own cell counts as one more, unknown cell. Above the largest cell, `p` is assumed to fall like
//! `1/x²`, the slowest decay that a finite second moment allows.
//!
//! **The median** `M` of `r` independent rows is above `x` with probability `T(x) = Σ_{j>r/2} C(r,j) p^j (1-p)^(r-j)`.
//! All of this is computed from released cells and costs no budget.
//!
//! **Chosen items.** The largest of many estimates are too large. An item is listed because its estimate `m` is at
//! least `τ`, which the other items determine: the largest unlisted estimate, or a given threshold. Given that, an
//! error above `x` has probability `T(x)/T(τ-f)`, and an error below `-q` has at most its former probability. With the
//! half-width `q` at confidence `1-α`, the counts `f ≤ m + q` with
//!
//! ```text
//! T(m - f) ≥ α T(τ - f) - max(0, T(τ - f) - 1 + α/2)
//! ```
//!
//! contain the true count with probability `1-α` given that the item is listed, or more by at most `α/2` if `τ` is near
//! (Zhong, Prentice 2008; Weinstein, Fithian, Benjamini 2013). Items far above `τ` have the interval `m ± q`. Just
//! above it this lower end may be far below the likely counts. So a tenth of `α` is spent on a second lower end,
//! `m - c` with `T(c) = (α/10) R/n` for `R` listed of `n` (Benjamini, Yekutieli 2005), and the larger of both is used:
//! on average, at most a share `α` of the listed intervals misses.

use super::median::{MAX_EXACT_TERMS, laplace_tail, median_tail, row_confidence, terms};
use crate::number::power;
use crate::number::special::normal_cdf;
use crate::plan::NoiseKind;
use crate::stream::LazyPlan;
use crate::{Error, Result};

/// The law of the errors of a [`CountSketch`](super::CountSketch)'s estimates at a step, due to noise and collisions,
/// as far as released cells show them: see [`Answers`](super::Answers).
///
/// ```
/// use evertally::sketch::ErrorLaw;
/// // Cells of 3 rows of which one in a hundred holds a heavy item.
/// let cells = (0..10_000).map(|i| if i % 100 == 0 { 500.0 } else { f64::from(i % 41 - 20) });
/// let law = ErrorLaw::from_cells(cells, 3);
/// assert!(law.half_width(0.95)? < 20.0); // two of three rows are rarely off by more
/// assert_eq!(law.half_width(0.9999)?, 500.0);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorLaw {
    row: RowErrorLaw,
    rows: u32,
}

/// The symmetric law of a row's errors.
#[derive(Clone, Debug, PartialEq)]
enum RowErrorLaw {
    /// Measured from cells: their absolute values, ascending; not empty.
    Cells(Vec<f64>),
    /// Noise alone, of this standard deviation: normal, or a sum of this many Laplace variables.
    Noise { deviation: f64, laplace: Option<u64> },
}

/// How the items of a list were chosen by their estimates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// An item is listed if its estimate is at least this: a given threshold, or the largest unlisted estimate.
    pub least: f64,
    /// The number of listed items.
    pub listed: usize,
    /// The number of candidates.
    pub of: usize,
}

/// Intervals of items that were chosen by their estimates.
#[derive(Clone, Copy, Debug)]
pub struct ChosenIntervals<'a> {
    law: &'a ErrorLaw,
    least: f64,
    /// The allowed probability of a miss, given the choice.
    missed: f64,
    half_width: f64,
    /// The largest distance of a lower end below its estimate.
    most: f64,
}

/// The share of the allowed miss probability that bounds lower ends.
const BOUND_SHARE: f64 = 0.1;
/// Bisections that find an end: to 2^-40 of the width of the search interval.
const BISECTIONS: u32 = 40;

impl ErrorLaw {
    /// The law of the median of `rows` rows, given cells of a table that were not chosen by looking up an item (any
    /// signs, at least one).
    ///
    /// # Panics
    /// If there are no cells.
    pub fn from_cells(cells: impl IntoIterator<Item = f64>, rows: u32) -> Self {
        let mut sizes: Vec<f64> = cells.into_iter().map(f64::abs).collect();
        assert!(!sizes.is_empty(), "a law needs at least one cell");
        sizes.sort_unstable_by(f64::total_cmp);
        Self { row: RowErrorLaw::Cells(sizes), rows }
    }

    /// The law of noise alone at a step of a plan, without collisions.
    pub(super) fn from_noise(plan: &LazyPlan, step: u64) -> Self {
        let laplace = match plan.plan().noise_kind() {
            NoiseKind::Gaussian => None,
            NoiseKind::Laplace => {
                Some(terms(&plan.plan().mechanism().row_law(step))).filter(|terms| *terms <= MAX_EXACT_TERMS)
            }
        };
        Self { row: RowErrorLaw::Noise { deviation: plan.std_error(step), laplace }, rows: 1 }
    }

    /// The probability that an estimate is above the count by more than `x`.
    pub fn tail(&self, x: f64) -> f64 {
        let row = self.row_tail(x.abs());
        median_tail(self.rows, if x < 0.0 { 1.0 - row } else { row })
    }

    /// The probability that a row's error exceeds a size, which is not below 0.
    fn row_tail(&self, size: f64) -> f64 {
        match &self.row {
            RowErrorLaw::Cells(sizes) => {
                let above = sizes.len() - sizes.partition_point(|cell| *cell <= size);
                let tail = 0.5 * (above + 1) as f64 / (sizes.len() + 1) as f64;
                let greatest = sizes[sizes.len() - 1];
                if size > greatest { tail * power(greatest / size, 2) } else { tail }
            }
            RowErrorLaw::Noise { deviation, laplace: None } => normal_cdf(-size / deviation),
            RowErrorLaw::Noise { deviation, laplace: Some(terms) } => {
                laplace_tail(*terms, size / deviation * (2.0 * *terms as f64).sqrt())
            }
        }
    }

    /// Half the width of the interval that contains an item's count with this confidence (strictly between 0 and 1),
    /// for an item that was not chosen by its estimate.
    ///
    /// # Errors
    /// If the confidence is out of range.
    pub fn half_width(&self, confidence: f64) -> Result<f64> {
        if !(confidence > 0.0 && confidence < 1.0) {
            return Err(Error::invalid(format!("the confidence must be strictly between 0 and 1, got {confidence}")));
        }
        Ok(self.end(1.0 - row_confidence(self.rows, confidence)))
    }

    /// The smallest size that at most a share `outside` of a row's errors exceeds.
    fn end(&self, outside: f64) -> f64 {
        match &self.row {
            RowErrorLaw::Cells(sizes) => {
                let all = (sizes.len() + 1) as f64;
                let above = libm::floor(outside * all * (1.0 + 1e-12)) - 1.0;
                if above < 0.0 {
                    return sizes[sizes.len() - 1] / (outside * all).sqrt();
                }
                // fits: at most the number of cells.
                sizes[sizes.len().saturating_sub(1 + above as usize)]
            }
            RowErrorLaw::Noise { deviation, .. } => {
                let (mut below, mut end) = (0.0, *deviation);
                while 2.0 * self.row_tail(end) > outside && end < 1e3 * deviation {
                    (below, end) = (end, 2.0 * end);
                }
                for _ in 0..BISECTIONS {
                    let middle = 0.5 * (below + end);
                    if 2.0 * self.row_tail(middle) > outside { below = middle } else { end = middle }
                }
                end
            }
        }
    }

    /// Root mean square error of an estimate, as far as the cells show it.
    pub fn std_error(&self) -> f64 {
        let sizes = match &self.row {
            RowErrorLaw::Cells(sizes) => sizes,
            RowErrorLaw::Noise { deviation, .. } => return *deviation,
        };
        // E M² = 4 ∫ x T(x) dx, and T is constant between adjacent cells.
        let (mut sum, mut from) = (0.0, 0.0);
        for (below, &size) in sizes.iter().enumerate() {
            if size > from {
                let row = 0.5 * (sizes.len() - below + 1) as f64 / (sizes.len() + 1) as f64;
                sum += 2.0 * median_tail(self.rows, row) * (size * size - from * from);
                from = size;
            }
        }
        sum.sqrt()
    }

    /// Intervals at this confidence for items chosen by their estimates: on average, a share of at least the confidence
    /// of a list's intervals contain their counts, and not much more. The nearer an estimate is to the smallest listed
    /// one, the further its lower end is below it.
    ///
    /// # Errors
    /// If the confidence is out of range.
    pub fn chosen(&self, confidence: f64, choice: Choice) -> Result<ChosenIntervals<'_>> {
        let half_width = self.half_width(confidence)?;
        let (missed, bound) = ((1.0 - confidence) * (1.0 - BOUND_SHARE), (1.0 - confidence) * BOUND_SHARE);
        let share = bound * choice.listed.clamp(1, choice.of.max(1)) as f64 / choice.of.max(1) as f64;
        // One side: half of the miss probability of a two-sided interval.
        let most = self.end(1.0 - row_confidence(self.rows, 1.0 - 2.0 * share));
        let half_width = self.half_width(1.0 - missed)?.max(half_width);
        Ok(ChosenIntervals { law: self, least: choice.least, missed, half_width, most: most.max(half_width) })
    }
}

impl ChosenIntervals<'_> {
    /// Lower and upper end for the count of an item with this estimate, which is not below the smallest listed one.
    pub fn of(&self, estimate: f64) -> (f64, f64) {
        let upper = estimate + self.half_width;
        // Far above the smallest listed estimate, the choice has no effect.
        if estimate - self.half_width - self.most >= self.least {
            return (estimate - self.half_width, upper);
        }
        let (mut out, mut held) = (estimate - self.most, estimate);
        if self.holds(estimate, out) {
            return (out, upper);
        }
        for _ in 0..BISECTIONS {
            let middle = 0.5 * (out + held);
            if self.holds(estimate, middle) { held = middle } else { out = middle }
        }
        (out, upper)
    }

    /// Whether the estimate is consistent with a count.
    fn holds(&self, estimate: f64, count: f64) -> bool {
        let listed = self.law.tail(self.least - count);
        self.law.tail(estimate - count) >= self.missed * listed - (listed - 1.0 + 0.5 * self.missed).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five rows of a law of seven points, by enumeration: tails of the median, its mean square and its intervals.
    #[test]
    fn the_law_of_the_median_is_that_of_all_outcomes() {
        // Enough cells of each size that one more does not matter.
        let law = [(0.0, 40), (1.0, 30), (4.0, 20), (9.0, 10)];
        let cells = law.iter().flat_map(|(size, share)| std::iter::repeat_n(*size, share * 20_000));
        let read = ErrorLaw::from_cells(cells, 5);
        let signed: Vec<(f64, f64)> = law
            .iter()
            .flat_map(|(size, share)| {
                [(*size, 0.005 * f64::from(*share as u32)), (-size, 0.005 * f64::from(*share as u32))]
            })
            .collect();
        let mut outcomes: Vec<(f64, f64)> = vec![];
        let places = signed.len();
        for all in 0..places.pow(5) {
            let (mut rows, mut rest, mut probability) = ([0.0; 5], all, 1.0);
            for row in &mut rows {
                let (value, p) = signed[rest % places];
                (*row, probability) = (value, probability * p);
                rest /= places;
            }
            rows.sort_by(f64::total_cmp);
            outcomes.push((rows[2], probability));
        }
        let probability = |holds: &dyn Fn(f64) -> bool| -> f64 {
            outcomes.iter().filter(|(median, _)| holds(*median)).map(|(_, p)| p).sum()
        };
        for x in [0.0, 0.5, 1.0, 3.0, 4.0, 8.0] {
            let tail = probability(&|median| median > x);
            assert!((read.tail(x) / tail - 1.0).abs() < 1e-4, "{x}: {} is not {tail}", read.tail(x));
        }
        for x in [-0.5, -3.0] {
            let tail = probability(&|median| median > x);
            assert!((read.tail(x) - tail).abs() < 1e-5, "{x}: {} is not {tail}", read.tail(x));
        }
        let square: f64 = outcomes.iter().map(|(median, p)| median * median * p).sum();
        assert!((read.std_error() / square.sqrt() - 1.0).abs() < 1e-4);
        for confidence in [0.3, 0.6, 0.9, 0.97, 0.99] {
            let half = read.half_width(confidence).unwrap();
            assert!(probability(&|median| median.abs() <= half) >= confidence, "{confidence}: {half}");
            assert!(half == 0.0 || probability(&|median| median.abs() < half) < confidence, "{confidence}: {half}");
        }
    }

    /// The ends of chosen intervals are where the two sides of the condition meet, which this test finds by counting
    /// down from the estimate; far above the smallest listed estimate they are those of other items.
    #[test]
    fn chosen_intervals_end_where_the_condition_does() {
        let cells = (1..=4000).map(|i| (f64::from(i) / 4001.0).tan());
        let law = ErrorLaw::from_cells(cells, 3);
        let choice = Choice { least: 3.0, listed: 10, of: 1000 };
        let chosen = law.chosen(0.95, choice).unwrap();
        let half = law.half_width(1.0 - 0.045).unwrap();
        let farthest = law.end(1.0 - row_confidence(3, 1.0 - 2.0 * 0.005 * 0.01));
        assert!(law.tail(farthest) <= 0.005 * 0.01 * 1.001 && law.tail(0.99 * farthest) > 0.005 * 0.01);
        let mut lowest = f64::NEG_INFINITY;
        for estimate in [3.0, 3.1, 3.5, 4.0, 6.0] {
            let (lower, upper) = chosen.of(estimate);
            assert_eq!(upper, estimate + half);
            let holds = |count: f64| {
                let listed = law.tail(3.0 - count);
                law.tail(estimate - count) >= 0.045 * listed - (listed - 0.9775).max(0.0)
            };
            let grid = (0..400_000).map(|i| estimate - f64::from(i) * 1e-4).take_while(|count| holds(*count));
            let counted = grid.last().unwrap().max(estimate - farthest);
            // Tails have steps, whose width is the distance of adjacent cells there.
            let spacing = (1.0 + (estimate - lower).powi(2)) / 4000.0;
            assert!((lower - counted).abs() < 3.0 * spacing, "{estimate}: {lower} is not {counted}");
            assert!(lower >= lowest - 3.0 * spacing, "lower ends rise with estimates");
            lowest = lower;
        }
        let (lower, upper) = chosen.of(3.0 + 2.0 * farthest + half);
        assert!((upper - lower - 2.0 * half).abs() < 1e-9);
        assert!(law.chosen(1.0, choice).is_err() && law.half_width(0.0).is_err());
    }

    /// Noise alone: the normal law by its table, and Laplace noise by its formula.
    #[test]
    fn laws_of_noise_are_known_ones() {
        let law = |laplace| ErrorLaw { row: RowErrorLaw::Noise { deviation: 2.0, laplace }, rows: 1 };
        for (confidence, half) in [(0.95, 3.919_928), (0.997_300_2, 6.0), (0.999_999_426_7, 10.0)] {
            assert!((law(None).half_width(confidence).unwrap() - half).abs() < 1e-5, "{confidence}");
        }
        // P(|Z| > x) = exp(-x √2 / deviation).
        let laplace = law(Some(1)).half_width(0.95).unwrap();
        assert!((laplace - 20f64.ln() * 2f64.sqrt()).abs() < 1e-9 && law(Some(1)).std_error() == 2.0, "{laplace}");
        assert!((law(Some(1)).tail(-laplace) - 0.975).abs() < 1e-9);
    }

    /// Beyond the largest cell the tail continues, and so do half-widths.
    #[test]
    fn tails_do_not_end_with_the_cells() {
        let law = ErrorLaw::from_cells([-2.0, 1.0, 0.5], 1);
        assert_eq!((law.tail(2.0), law.tail(4.0), law.tail(-4.0)), (0.125, 0.03125, 1.0 - 0.03125));
        assert_eq!((law.half_width(0.75).unwrap(), law.half_width(1.0 - 1.0 / 16.0).unwrap()), (2.0, 4.0));
    }
}
