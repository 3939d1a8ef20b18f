//! Solves the integer system `R̃ w = z` step by step, for a lower triangular `R̃`, and releases the rounded running sum
//! of `w`, correctly rounded.
//!
//! `R̃_tj = F_tj W_j`, and the products `v_j = W_j w_j` are kept in fixed point with `GUARD` bits below the grid, each
//! rounded once: `Σ_{j≤t} F_tj v_j = z_t`. An error of one unit per step gives at most 8 units per step in the running
//! sum, or `8 · 2^e` with an [excess](FilterRows::Toeplitz) of `e` bits:
//!
//! * Toeplitz `F_tj = F_{t-j}`: the inverse of the matrix with coefficients `F_j / F_0` has absolute coefficients
//!   summing to less than 3 (below 2 before rounding; checked in tests), so there are at most 3 units in any `v`, at
//!   most `3 · 2^14 / W_j < 7` in a term of the running sum, and with that term's own rounding at most `8 t` in all;
//! * Toeplitz with an inverse that fades slowly (few bands): its absolute coefficients sum to at most `3 · 2^e`, and
//!   with `W_j ≥ 2^14` there are at most `3 · 2^e + 1` units in a term;
//! * any other matrix: the running sum is off by `A F⁻¹ D δ` with the diagonal `D` of `F` and errors `δ` of at most one
//!   unit, so row `t` of `A F⁻¹ D` may have an L1 norm of `8 t`; the constructor of the matrix checks that.
//!
//! The running sum is rounded as [`rounding`](crate::mechanism::rounding) says. If the working precision does not
//! decide, it is computed again with more, in big integers.

pub(in crate::mechanism) mod frame;
mod kernel;
mod past;
mod rows;

pub(in crate::mechanism) use rows::{FilterRows, packed};

use crate::mechanism::Cursor;
use crate::mechanism::rounding::{FRACTION_BITS, RoundingOffset, rounded};
use crate::noise::Node;
use num_bigint::BigInt;
use past::FilterHistory;
use std::sync::Arc;

/// Bits of the column weights `W` of the normalized factorization.
pub(in crate::mechanism) const WEIGHT_BITS: u32 = 14;
/// Initial fixed-point bits below the grid, fewer if the reach is smaller: enough that one rounding in 2^40 needs more.
const GUARD: u32 = 72;

/// The cursor of a factorization with a lower triangular `R`.
pub(in crate::mechanism) struct TriangularCursor {
    rows: FilterRows,
    /// `W_j`; `None` = all 1.
    weights: Option<Arc<[u32]>>,
    guard: u32,
    noise: Vec<i128>,
    /// `v_j` in units of `2^-guard`.
    solved: FilterHistory,
    /// `Σ v_j / W_j` in units of `2^-guard`, or of `2^-(guard + WEIGHT_BITS)` if there are weights.
    sum: i128,
}

impl TriangularCursor {
    pub(in crate::mechanism) fn new(rows: FilterRows, weights: Option<Arc<[u32]>>) -> Self {
        let guard = GUARD - (rows::REACH - rows.reach());
        Self::with_guard(rows, weights, guard)
    }

    pub(in crate::mechanism) fn with_guard(rows: FilterRows, weights: Option<Arc<[u32]>>, guard: u32) -> Self {
        Self { solved: FilterHistory::new(rows.clone()), rows, weights, guard, noise: vec![], sum: 0 }
    }

    /// Clears all steps.
    fn reset(&mut self, guard: u32) {
        *self = Self::with_guard(self.rows.clone(), self.weights.take(), guard);
    }

    /// One output unit is this many bits above the units of the sum.
    fn output_shift(&self, guard: u32) -> u32 {
        guard - FRACTION_BITS + self.weights.as_ref().map_or(0, |_| WEIGHT_BITS)
    }

    /// Maximum error of the running sum, in units.
    fn slack(&self) -> i128 {
        self.rows.slack() * self.noise.len() as i128 + 1
    }

    fn rounded(&self) -> i128 {
        // fits: shift ≤ GUARD + WEIGHT_BITS < 120
        rounded(self.sum, self.slack(), self.output_shift(self.guard)).unwrap_or_else(|| self.rounded_precisely())
    }

    /// Solves for one more step.
    fn push(&mut self, z: i128) {
        let diagonal = i128::from(self.rows.diagonal(self.noise.len()));
        let v = ((z << self.guard) - self.solved.sum() + diagonal / 2).div_euclid(diagonal);
        self.sum += match &self.weights {
            None => v,
            Some(weights) => (v << WEIGHT_BITS).div_euclid(weights[self.noise.len()].into()),
        };
        self.noise.push(z);
        self.solved.push(v);
    }

    /// Starts over with fewer guard bits; the releases do not depend on them.
    #[cold]
    fn lower_guard(&mut self, guard: u32) {
        let noise = std::mem::take(&mut self.noise);
        self.reset(guard);
        noise.into_iter().for_each(|z| self.push(z));
    }

    /// The same in big integers, with increasing numbers of guard bits.
    #[cold]
    fn rounded_precisely(&self) -> i128 {
        let mut guard = 192u32;
        loop {
            let rounding = RoundingOffset::new(self.slack().into(), self.output_shift(guard));
            match rounding.rounded(&self.sum_with(guard)) {
                Some(release) => return release,
                None => guard *= 2,
            }
        }
    }

    /// The running sum with this many guard bits.
    fn sum_with(&self, guard: u32) -> BigInt {
        let (mut solved, mut sum): (Vec<BigInt>, BigInt) = (Vec::new(), BigInt::ZERO);
        for (t, z) in self.noise.iter().enumerate() {
            let known: BigInt = self.rows.before(t).iter().rev().zip(solved.iter().rev()).map(|(f, v)| v * f).sum();
            let v = ((BigInt::from(*z) << guard) - known) / self.rows.diagonal(t);
            sum += match &self.weights {
                None => v.clone(),
                Some(weights) => (&v << WEIGHT_BITS) / BigInt::from(weights[t]),
            };
            solved.push(v);
        }
        sum
    }
}

impl Cursor for TriangularCursor {
    fn step(&self) -> u64 {
        self.noise.len() as u64
    }

    /// `O(log² T)` amortized for Toeplitz matrices, `O(step)` for others.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let z = draw(Node { level: 0, index: self.step() });
        let bits = i128::BITS - z.unsigned_abs().leading_zeros();
        if bits + self.guard > self.rows.reach() {
            let guard = self.rows.reach().checked_sub(bits).filter(|guard| *guard > FRACTION_BITS);
            self.lower_guard(guard.expect("noise is within 2^14 of the largest scale of a plan"));
        }
        self.push(z);
        self.rounded()
    }

    /// Step by step: each step depends on all before it.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        if step < self.step() {
            self.reset(self.guard);
        }
        while self.step() < step {
            self.advance(draw);
        }
        if step == 0 { 0 } else { self.rounded() }
    }
}

#[cfg(test)]
pub(in crate::mechanism) mod tests;
