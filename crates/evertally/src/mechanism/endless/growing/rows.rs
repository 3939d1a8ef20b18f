//! Errors of releases: the covariance of the buffers and of the release, from stage to stage.
//!
//! The state `h` before a step holds the buffers `B'` and the noise `N` of the release. A step with the noise `z`
//! changes it to `(1 - Q) h + g z`, where `Q` has the rows `1-θ_i` of the buffer itself plus `γ_i` of all buffers, and
//! `D = 1/w` of all buffers for `N`; `g = (γ, D)`. Over `2n` steps
//!
//! ```text
//! Q_2n = 2 Q_n - Q_n²,    C_2n = (1 - Q_n) C_n (1 - Q_n)ᵀ + C_n,
//! ```
//!
//! `C` being the covariance of the noise of these steps: powers of two are computed once, and every number of steps is
//! a sum of them. `Q_n` starts small and is never the difference of numbers near 1, so slow buffers lose no digits.

use super::filter::GrowingFilter;
use crate::Result;
use crate::mechanism::SearchWatch;
use std::sync::OnceLock;

/// StagePower up to this one are looked at one by one for the largest and the mean norm.
const SINGLE_STEPS: u64 = 1 << 10;
/// Beyond, the steps that are looked at differ by one part in this many.
const FINENESS: u64 = 64;

/// A square matrix, row by row.
#[derive(Clone, Debug)]
struct StateMatrix {
    size: usize,
    entries: Vec<f64>,
}

impl StateMatrix {
    fn zeros(size: usize) -> Self {
        Self { size, entries: vec![0.0; size * size] }
    }

    fn row(&self, i: usize) -> &[f64] {
        &self.entries[i * self.size..(i + 1) * self.size]
    }

    fn times(&self, other: &Self) -> Self {
        let mut product = Self::zeros(self.size);
        for (left, into) in self.entries.chunks(self.size).zip(product.entries.chunks_mut(self.size)) {
            for (factor, row) in left.iter().zip(other.entries.chunks(self.size)) {
                into.iter_mut().zip(row).for_each(|(sum, entry)| *sum += factor * entry);
            }
        }
        product
    }

    fn transposed(&self) -> Self {
        let mut other = Self::zeros(self.size);
        for i in 0..self.size {
            for (j, entry) in self.row(i).iter().enumerate() {
                other.entries[j * self.size + i] = *entry;
            }
        }
        other
    }

    fn combined(&self, other: &Self, by: impl Fn(f64, f64) -> f64) -> Self {
        let entries = self.entries.iter().zip(&other.entries).map(|(a, b)| by(*a, *b)).collect();
        Self { size: self.size, entries }
    }

    fn of_column(&self, column: &[f64]) -> Vec<f64> {
        self.entries.chunks(self.size).map(|row| dot(row, column)).collect()
    }

    fn of_row(&self, row: &[f64]) -> Vec<f64> {
        let mut product = vec![0.0; self.size];
        for (factor, entries) in row.iter().zip(self.entries.chunks(self.size)) {
            product.iter_mut().zip(entries).for_each(|(sum, entry)| *sum += factor * entry);
        }
        product
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The effect of a number of steps with the same gains: `Q` and `C`.
#[derive(Clone, Debug)]
struct StagePower {
    lost: StateMatrix,
    noise: StateMatrix,
}

impl StagePower {
    fn doubled(&self) -> Self {
        let lost = self.lost.combined(&self.lost.times(&self.lost), |once, twice| 2.0 * once - twice);
        Self { lost, noise: self.after(&self.noise) }
    }

    /// The covariance after these steps, if it was `before`.
    fn after(&self, before: &StateMatrix) -> StateMatrix {
        let kept = before.combined(&self.lost.times(before), |all, lost| all - lost);
        let both = kept.combined(&kept.times(&self.lost.transposed()), |all, lost| all - lost);
        both.combined(&self.noise, |kept, new| kept + new)
    }

    fn column_after(&self, column: &[f64]) -> Vec<f64> {
        column.iter().zip(self.lost.of_column(column)).map(|(all, lost)| all - lost).collect()
    }

    fn row_before(&self, row: &[f64]) -> Vec<f64> {
        row.iter().zip(self.lost.of_row(row)).map(|(all, lost)| all - lost).collect()
    }
}

/// A stage, and the covariance before its first step.
#[derive(Debug)]
struct StageRows {
    before: u64,
    last: u64,
    once: StagePower,
    start: StateMatrix,
    /// For every power of two up to the length.
    powers: OnceLock<Vec<StagePower>>,
}

impl StageRows {
    fn computed_powers(&self) -> Vec<StagePower> {
        let mut powers = vec![self.once.clone()];
        let mut length = (self.last - self.before) >> 1;
        while length > 0 {
            powers.push(powers[powers.len() - 1].doubled());
            length >>= 1;
        }
        powers
    }

    /// The powers of two that add up to a number of steps of the stage.
    fn parts(&self, steps: u64) -> impl DoubleEndedIterator<Item = &StagePower> {
        let powers = self.powers.get_or_init(|| self.computed_powers());
        powers.iter().enumerate().filter(move |(power, _)| steps >> power & 1 == 1).map(|(_, part)| part)
    }

    /// The covariances of the state and the release, both after this number of steps.
    fn covariances(&self, steps: u64) -> Vec<f64> {
        let size = self.start.size;
        let mut row = vec![0.0; size];
        row[size - 1] = 1.0;
        let mut rows = vec![];
        for part in self.parts(steps).rev() {
            rows.push(row.clone());
            row = part.row_before(&row);
        }
        let mut column = self.start.of_column(&row);
        for (part, row) in self.parts(steps).zip(rows.iter().rev()) {
            column = part.column_after(&column);
            column.iter_mut().zip(part.noise.of_column(row)).for_each(|(sum, new)| *sum += new);
        }
        column
    }
}

/// `⟨L_s, L_t⟩` of all steps. A step takes `O(d² log T)`; the powers of a stage, a tenth of a megabyte, are computed
/// when one of its steps is first asked for.
#[derive(Debug)]
pub(super) struct GrowingRows {
    stages: Vec<StageRows>,
}

impl GrowingRows {
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the computation.
    pub(super) fn new(filter: &GrowingFilter, watch: SearchWatch<'_>) -> Result<Self> {
        let count = filter.q.len();
        let mut start = StateMatrix::zeros(count + 1);
        let mut stages = Vec::with_capacity(filter.stages.len());
        for stage in &filter.stages {
            watch.check()?;
            let gains = stage.gains();
            let scale = 1.0 / GrowingFilter::weight(stage);
            let impulse: Vec<f64> = gains.iter().copied().chain([scale]).collect();
            let (mut lost, mut noise) = (StateMatrix::zeros(count + 1), StateMatrix::zeros(count + 1));
            for (i, factor) in impulse.iter().enumerate() {
                for (j, other) in impulse.iter().enumerate() {
                    let own = if i == j { filter.q.get(i).copied().unwrap_or(0.0) } else { 0.0 };
                    lost.entries[i * (count + 1) + j] = if j < count { factor + own } else { 0.0 };
                    noise.entries[i * (count + 1) + j] = factor * other;
                }
            }
            let (before, last) = (stage.before, stage.last);
            let next = StageRows { before, last, once: StagePower { lost, noise }, start, powers: OnceLock::new() };
            let length = last - before;
            let powers = next.computed_powers();
            let parts = powers.iter().enumerate().filter(|(power, _)| length >> power & 1 == 1);
            start = parts.fold(next.start.clone(), |before, (_, part)| part.after(&before));
            stages.push(next);
        }
        Ok(Self { stages })
    }

    /// Of steps `s ≤ t`, from 1.
    pub(super) fn product(&self, earlier: u64, later: u64) -> f64 {
        let place = |step: u64| self.stages.partition_point(|stage| stage.last < step);
        let (first, end) = (place(earlier), place(later));
        let mut column = self.stages[first].covariances(earlier - self.stages[first].before);
        let mut step = earlier;
        for stage in &self.stages[first..=end] {
            let until = stage.last.min(later);
            for part in stage.parts(until - step) {
                column = part.column_after(&column);
            }
            step = until;
        }
        column[column.len() - 1]
    }

    /// The largest and the mean `‖L_s‖²` up to a step: of all steps up to 2^10, and beyond by steps that are a
    /// sixty-fourth apart and the trapezoidal rule, as norms change slowly.
    pub(super) fn norms_through(&self, steps: u64) -> (f64, f64) {
        let (mut step, mut norm) = (1, self.product(1, 1));
        let (mut largest, mut sum) = (norm, norm);
        while step < steps {
            let next = if step < SINGLE_STEPS { step + 1 } else { (step + step / FINENESS).min(steps) };
            let (after, length) = (self.product(next, next), (next - step) as f64);
            // Of the steps after `step`, up to `next`.
            sum += length * 0.5 * (norm + after) + 0.5 * (after - norm);
            largest = largest.max(after);
            (step, norm) = (next, after);
        }
        (largest, sum / steps as f64)
    }
}
