//! The exact release: protected integers from the data, and the release from them alone.
//!
//! Numbers are fixed-point with 64 fractional bits in 256-bit integers. With `2^b` noise steps to one unit of data, `φ`
//! and `y` the frozen fractions of the step and `R = Σ y_i` its diagonal entry, a step computes
//!
//! ```text
//! S_i ← ⌊φ_i S_i⌋ + x_t,      n_t = ⌊2^b · 4 Σ ⌊y_i S_i / 4⌋⌋                    the only part that sees data
//! y_t = n_t + z_t                                                             the protected integers
//! S'_i ← ⌊φ_i S'_i⌋,          w_t = ⌊(y_t - 4 Σ ⌊y_i S'_i / 4⌋) / R⌋,   S'_i ← S'_i + w_t     R⁻¹ y
//! release = Σ_{s≤t} w_s / 2^b, to the nearest 2^-8 of the grid
//! ```
//!
//! where the inner floors keep 64 fractional bits. Everything computed after `y` is a function of `y`: its rounding
//! costs no privacy.
//!
//! **The cost of rounding `n`.** Let `r_i` be the shortfall of `S_i` from the exact state, in units of `2^-64`. Each
//! step `r_i ← φ_i r_i + (something in [0, 1))`, so `0 ≤ r_i ≤ m_i` with `m_i ← φ_i m_i + 1`. The four-fold sum falls
//! short by `Σ y_i r_i` and less than four units per state, and the last floor takes something in `[0, 1)` noise steps.
//! So `n_t = 2^b (R x)_t - e_t` with
//!
//! ```text
//! 0 ≤ e_t < E = 1 + 2^(b-64) (4n + max_t Σ y_i m_i),
//! ```
//!
//! for all data, and for two streams `|n_t(x) - n_t(x') - 2^b (R (x - x'))_t| < E`. Over `T` steps the vectors `n`
//! differ by less than `E √T` more, in L2 norm, than the matrix says ([`truncation_bound`]).
//!
//! **The cost of the other roundings.** A unit of `2^-64` noise steps that is added to all `S'` at step `s` moves
//! release `t` by `Σ_k L_tk R_ks`, one added to `y_s` by `L_ts`, and one added to `w_s` moves `S'` and the release by
//! one. Over `T` steps that is below `T (3 ‖L_t‖ s2 + 1) + 4n √T ‖L_t‖` units: less than `2^-30` noise steps for
//! `T ≤ 2^20`, where releases are rounded to `2^(b-8)` of them.
//!
//! **Sizes.** `|x_t| ≤ 2^63` and `T ≤ 2^20` give `S < 2^147`, in units of `2^-64`, and `n < 2^26 · 2^85`. The part of
//! `S'`, `w` and the sum that comes from the data is `2^b` times as large: below `2^174`. For draws below `2^127` the
//! part that comes from noise is below `2^191 √(T V)` (Cauchy-Schwarz) with the largest variance `V` of
//! [`figures`](super::figures), which the constructor limits to `2^20`: below `2^211`, and the dividend of `w` below
//! `2^244`.

use super::frozen::{Frozen, Number, OUTPUT_BITS};
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::toeplitz::memory::{from_bytes, to_bytes};
use crate::mechanism::{Cursor, replay};
use crate::noise::Node;
use crate::number::wide::Wide;
use crate::{Error, Result};
use std::sync::Arc;

/// Most states a filter may have.
pub(super) const MAX_STATES: usize = 16;

/// Bits below the units.
const GUARD: u32 = 64;
/// Outputs are taken in quarters, as fractions of `2^32`.
const QUARTERS: u32 = 32 - OUTPUT_BITS;
/// Bits of the running sum below those of the release.
const SUM_BITS: u32 = 16;

/// `E` of the [module](self) for `2^bits` noise steps to a unit of data. `O(T n)`.
pub(super) fn truncation_bound(frozen: &Frozen, bits: u32) -> f64 {
    let mut short = vec![0.0; frozen.states()];
    let mut most = 0.0f64;
    for numbers in frozen.each_step() {
        let mut sum = 0.0;
        for (m, number) in short.iter_mut().zip(numbers) {
            *m = *m * number.decay() + 1.0;
            sum += *m * number.output();
        }
        most = most.max(sum);
    }
    // Positive terms only; 10⁻⁹ is far above the rounding of 2^20 steps.
    let units = f64::from(1 << QUARTERS) * frozen.states() as f64 + most;
    1.0 + libm::exp2(f64::from(bits) - f64::from(GUARD)) * units * (1.0 + 1e-9)
}

/// The cursor of an optimal filter. It has seen the data, and its memory contains them.
#[derive(Clone, Debug)]
pub(super) struct FilterCursor {
    frozen: Arc<Frozen>,
    /// `b`.
    bits: u32,
    step: u64,
    /// `S` and `S'`.
    states: [(Wide, Wide); MAX_STATES],
    /// `Σ w`.
    sum: Wide,
    /// The noise part of the last release.
    last: i128,
}

/// `(φ, y / 4)` as multiples of `2^-64`.
fn fractions(number: &Number) -> (u64, u64) {
    (u64::from(number.decay) << 32, u64::from(number.output) << 32)
}

impl FilterCursor {
    pub(super) fn new(frozen: Arc<Frozen>, bits: u32) -> Self {
        let states = [(Wide::default(), Wide::default()); MAX_STATES];
        Self { frozen, bits, step: 0, states, sum: Wide::default(), last: 0 }
    }

    /// `n_t` of step `t` (from 0) and its data, in noise steps: the value that noise must protect.
    #[inline]
    pub(super) fn protected(&mut self, step: usize, value: i64) -> Wide {
        let data = Wide::shifted_up(Wide::from(i128::from(value)));
        let mut output = Wide::default();
        for ((state, _), number) in self.states.iter_mut().zip(self.frozen.of_step(step)) {
            let (decay, quarter) = fractions(number);
            *state = state.times_fraction(decay).plus(data);
            output = output.plus(state.times_fraction(quarter));
        }
        output.shifted_down(GUARD - QUARTERS - self.bits)
    }

    /// `w_t` of `y_t`, in units of `2^-64` noise steps.
    #[inline]
    fn solved(&mut self, step: usize, noisy: Wide) -> Wide {
        let numbers = self.frozen.of_step(step);
        let mut left = Wide::shifted_up(noisy).shifted_down(QUARTERS);
        let mut diagonal = 0;
        for ((_, state), number) in self.states.iter_mut().zip(numbers) {
            let (decay, quarter) = fractions(number);
            *state = state.times_fraction(decay);
            left = left.minus(state.times_fraction(quarter));
            diagonal += number.output; // fits: checked when it was frozen
        }
        let solved = left.shared_out(diagonal);
        self.states.iter_mut().take(numbers.len()).for_each(|(_, state)| *state = state.plus(solved));
        solved
    }
}

impl Cursor for FilterCursor {
    fn step(&self) -> u64 {
        self.step
    }

    /// The noise of a stream of zeros. `O(n)`.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.advance_with(0, 0, draw)
    }

    /// `O(n)`.
    fn advance_with(&mut self, total: i64, closed: i64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let noise = draw(Node { level: 0, index: self.step });
        let step = self.step as usize;
        self.step += 1;
        let protected = self.protected(step, total);
        let solved = self.solved(step, protected.plus(Wide::from(noise)));
        self.sum = self.sum.plus(solved);
        // fits: the data are below 2^(63 + 24), and noise below 2^100 is at most multiplied by √(T V) ≤ 2^20: with 24
        // fractional bits and b fewer, below 2^128 as b ≥ 16
        let sum = self.sum.shifted_down(GUARD - FRACTION_BITS - SUM_BITS).shifted_down(self.bits).low();
        self.last = ((sum + (1 << (SUM_BITS - 1))) >> SUM_BITS) - (i128::from(closed) << FRACTION_BITS);
        self.last
    }

    /// Replays a stream of zeros, step by step: `O(n · step)`.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        replay(self, step, |own| Self::new(own.frozen.clone(), own.bits), draw);
        self.last
    }

    /// States, the sum and the last noise: `64 n + 48` bytes.
    fn memory(&self) -> Option<Vec<u8>> {
        let mut bytes = to_bytes(&self.states[..self.frozen.states()], self.sum);
        bytes.extend(self.last.to_le_bytes());
        Some(bytes)
    }

    fn recall(&mut self, step: u64, memory: &[u8]) -> Result<i128> {
        let mut fresh = Self { step, ..Self::new(self.frozen.clone(), self.bits) };
        let states = &mut fresh.states[..self.frozen.states()];
        let known = from_bytes(memory, states, 16).filter(|_| step <= self.frozen.steps() as u64);
        let (sum, last) = known.ok_or_else(|| Error::state("the saved state belongs to another mechanism"))?;
        fresh.sum = sum;
        fresh.last = i128::from_le_bytes(last.try_into().expect("16 bytes"));
        *self = fresh;
        Ok(self.last)
    }
}
