//! The frozen filter: integers that define `R` exactly, and its column norms.
//!
//! From the last column to the first, as in [`factor`](crate::mechanism::optimum::dense::factor), but each step with
//! the frozen numbers of those after it: `y_k` is the remainder of the column of `X` after subtracting them, so that
//! roundings do not add up, and `1ᵀ(Q_k + y_k y_kᵀ)1` is the squared norm of column `k` of the frozen matrix itself.
//! Negative outputs (there are none in practice) are frozen to 0: no entry of `R` is negative.
//!
//! **Column norms, rounded up.** Only positive numbers are added and multiplied, and frozen ones are exact in `f64`. A
//! norm has gone through at most 4 roundings per step and 300 at the end, each of at most `2^-53`: it is off by at most
//! `(4T + 300) 2^-53` of itself and a little more; twice that is added.

use super::super::weights::{Ladder, Weights};
use crate::mechanism::{ColumnNorms, MatrixDigest, Objective};
use crate::{Error, Result};

/// Bits of a decay: `φ = decay / 2^32`.
const DECAY_BITS: u32 = 32;
/// Bits of an output: `y = output / 2^30`.
pub(super) const OUTPUT_BITS: u32 = 30;
/// Minimum `R_kk`, in units of `2^-30`: `2^-6`.
const MIN_DIAGONAL: u64 = 1 << 24;

/// One state at one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Number {
    /// `2^32 Φ_(k-1)`, the decay from the step before; 0 at the first.
    pub(super) decay: u32,
    /// `2^30 y_k`.
    pub(super) output: u32,
}

impl Number {
    pub(super) fn decay(self) -> f64 {
        f64::from(self.decay) * const { 1.0 / (1u64 << DECAY_BITS) as f64 }
    }

    pub(super) fn output(self) -> f64 {
        f64::from(self.output) * const { 1.0 / (1u64 << OUTPUT_BITS) as f64 }
    }
}

/// `n` numbers per step, one step after the other.
#[derive(Debug)]
pub(super) struct Frozen {
    states: usize,
    numbers: Vec<Number>,
}

impl Frozen {
    /// The factor of `X`, scaled so that its largest column norm is about 1, with the column norms of the frozen
    /// matrix. `O(T n²)`.
    ///
    /// # Errors
    /// If a diagonal entry is too small or too large to be frozen.
    pub(super) fn new(weights: &Weights) -> Result<(Self, ColumnNorms)> {
        let (steps, states) = (weights.rows.len(), weights.poles.len());
        let ladder = Ladder::new(&weights.rows, &weights.columns, &weights.poles);
        let scale = weights.diagonal.iter().copied().fold(0.0, f64::max);
        let mut frozen = Self { states, numbers: vec![Number::default(); steps * states] };
        let mut columns = FrozenColumns::new(states);
        let mut fits = true;
        ladder.each_diagonal(|k, entries| {
            let numbers = &mut frozen.numbers[k * states..(k + 1) * states];
            let mut total = 0.0;
            for ((left, entry), row) in columns.left.iter_mut().zip(entries).zip(columns.products.chunks_exact(states))
            {
                *left = entry / scale - row.iter().sum::<f64>();
                total += *left;
            }
            let unit = f64::from(1 << OUTPUT_BITS) / total.sqrt();
            for (number, left) in numbers.iter_mut().zip(&columns.left) {
                // saturates, and NaN becomes 0: the check below sees both
                number.output = (left * unit).round() as u32;
            }
            if k > 0 {
                for (number, ratio) in numbers.iter_mut().zip(ladder.ratios_of(k - 1)) {
                    // saturates at the largest fraction
                    number.decay = (ratio * (1u64 << DECAY_BITS) as f64).round() as u32;
                }
            }
            let diagonal: u64 = numbers.iter().map(|number| u64::from(number.output)).sum();
            fits &= (MIN_DIAGONAL..1 << 32).contains(&diagonal);
            columns.add(numbers);
        });
        if !fits {
            return Err(Error::invalid("the optimal filter is not well conditioned at this horizon; use more states"));
        }
        let norms = columns.norms(steps);
        Ok((frozen, norms))
    }

    /// The filter of the first steps, with its column norms: every column ends earlier. `O(t n²)`.
    pub(super) fn through(&self, steps: usize) -> (Self, ColumnNorms) {
        let first = Self { states: self.states, numbers: self.numbers[..steps * self.states].to_vec() };
        let mut columns = FrozenColumns::new(self.states);
        first.each_step().rev().for_each(|numbers| columns.add(numbers));
        let norms = columns.norms(steps);
        (first, norms)
    }

    pub(super) fn states(&self) -> usize {
        self.states
    }

    /// `T`.
    pub(super) fn steps(&self) -> usize {
        self.numbers.len() / self.states
    }

    /// The numbers of a step, from 0.
    #[inline]
    pub(super) fn of_step(&self, step: usize) -> &[Number] {
        &self.numbers[step * self.states..(step + 1) * self.states]
    }

    /// All steps in order.
    pub(super) fn each_step(&self) -> impl DoubleEndedIterator<Item = &[Number]> + ExactSizeIterator {
        self.numbers.chunks_exact(self.states)
    }

    /// Row `step` of `R`, from 0. `O(step · n)`.
    pub(super) fn row(&self, step: usize) -> Vec<f64> {
        let mut state: Vec<f64> = self.of_step(step).iter().map(|number| number.output()).collect();
        let mut row = vec![0.0; step + 1];
        for i in (0..=step).rev() {
            row[i] = state.iter().sum();
            state.iter_mut().zip(self.of_step(i)).for_each(|(q, number)| *q *= number.decay());
        }
        row
    }

    /// A hash of all numbers.
    pub(super) fn digest(&self, objective: Objective) -> MatrixDigest {
        let mut hasher = blake3::Hasher::new_derive_key("evertally 1 optimal filter");
        hasher.update(&(self.steps() as u64).to_le_bytes());
        hasher.update(&[(objective == Objective::Mean).into(), self.states as u8]);
        let mut bytes = Vec::with_capacity(8 * self.states);
        for step in self.each_step() {
            bytes.clear();
            step.iter().for_each(|Number { decay, output }| {
                bytes.extend(decay.to_le_bytes());
                bytes.extend(output.to_le_bytes());
            });
            hasher.update(&bytes);
        }
        MatrixDigest::new(&hasher.finalize())
    }
}

/// The columns from the last to the first.
struct FrozenColumns {
    /// `h_k - Q_k 1`.
    left: Vec<f64>,
    /// `Q`, and the same for the sums of the entries.
    products: Vec<f64>,
    sums: Vec<f64>,
    largest: ColumnNorms,
}

impl FrozenColumns {
    fn new(states: usize) -> Self {
        Self {
            left: vec![0.0; states],
            products: vec![0.0; states * states],
            sums: vec![0.0; states],
            largest: ColumnNorms { l1: 0.0, l2_squared: 0.0 },
        }
    }

    /// The largest norms of this many columns, rounded up.
    fn norms(&self, steps: usize) -> ColumnNorms {
        let up = 1.0 + (4 * steps + 300) as f64 * f64::EPSILON;
        let ColumnNorms { l1, l2_squared } = self.largest;
        ColumnNorms { l1: l1 * up, l2_squared: l2_squared * up }
    }

    /// The norms of a column, and `Q` of the column before it.
    fn add(&mut self, numbers: &[Number]) {
        let (mut l1, mut l2_squared) = (0.0, 0.0);
        // `left` is unused from here on.
        self.left.iter_mut().zip(numbers).for_each(|(y, number)| *y = number.output());
        for (i, number) in numbers.iter().enumerate() {
            let (y, decay) = (number.output(), number.decay());
            self.sums[i] += y;
            l1 += self.sums[i];
            self.sums[i] *= decay;
            let row = &mut self.products[i * numbers.len()..(i + 1) * numbers.len()];
            for ((q, z), other) in row.iter_mut().zip(&self.left).zip(numbers) {
                *q += y * z;
                l2_squared += *q;
                *q *= decay * other.decay();
            }
        }
        self.largest.l1 = self.largest.l1.max(l1);
        self.largest.l2_squared = self.largest.l2_squared.max(l2_squared);
    }
}
