//! The exact release: protected integers from the data, and the release from them alone.
//!
//! Numbers are fixed-point with 64 fractional bits in 256-bit integers. With `v_t = W_t x_t`, `W = 2^14 w`, and `2^b`
//! noise steps to one unit of `v`, a step computes
//!
//! ```text
//! n_t = 2^b v_t + ⌊2^b Σ B_i⌋,      B_i ← ⌊θ_i B_i⌋ + γ_i v_t          the only part that sees data
//! y_t = n_t + z_t                                                     the protected integers
//! u_t = y_t - Σ B'_i,               B'_i ← ⌊θ_i B'_i⌋ + ⌊γ_i u_t⌋      R⁻¹ y
//! release = Σ_{s≤t} u_s / (2^b W_s), to the nearest 2^-8 of the grid
//! ```
//!
//! `γ_i v_t` is a multiple of `2^-64`. Everything computed after `y` is a function of `y`: its rounding costs no
//! privacy.
//!
//! **The cost of rounding `n`.** Let `β_i` be the exact buffer and `r_i = 2^64 (β_i - B_i)`. Each step
//! `r_i ← θ_i r_i + (something in [0, 1))`, so `0 ≤ r_i < 1/(1-θ_i)`, and with the last floor
//! `n_t = 2^b (R x)_t - e_t`,
//!
//! ```text
//! 0 ≤ e_t < E = 1 + 2^(b-64) Σ 1/(1-θ_i),
//! ```
//!
//! for all data: over `T` steps the vectors `n` of two streams differ by less than `E √T` more, in L2 norm, than the
//! matrix says.
//!
//! **Sizes.** `|x_t| < 2^64`, `W ≤ 2^14`, `T ≤ 2^44`, `γ < 1` and `1/(1-θ) < 2^46` give `B < 2^122` and, in units of
//! `2^-64`, below `2^186`. `L` has entries below `2^14` (a weight is at least 1), so with draws below `2^80`, sums of
//! `u` and `B'` stay below `2^138` noise steps plus the data, which are below `2^(b+122)`: below `2^210` with the
//! fractional bits.

use super::filter::GrowingFilter;
use crate::Result;
use crate::mechanism::endless::grids::{NOISE_BITS, WEIGHT_BITS};
use crate::mechanism::toeplitz::settled::{GUARD, SettledSum};
use crate::mechanism::{Cursor, replay};
use crate::noise::Node;
use crate::number::wide::Wide;
use std::sync::Arc;

/// `b`: noise steps to one unit of `v`.
const BITS: u32 = NOISE_BITS - WEIGHT_BITS;

/// The cursor of a growing filter. It has seen the data, and its memory contains them.
#[derive(Clone, Debug)]
pub(super) struct GrowingCursor {
    filter: Arc<GrowingFilter>,
    /// `B` and `B'`.
    buffers: Vec<(Wide, Wide)>,
    /// `Σ u / (2^b W)`. (Data below 2^(64+14) and noise below 2^(80-b+58), plus 24 bits, are below 2^127.)
    sum: SettledSum,
}

impl GrowingCursor {
    pub(super) fn new(filter: Arc<GrowingFilter>) -> Self {
        let buffers = vec![(Wide::default(), Wide::default()); filter.gaps.len()];
        Self { filter, buffers, sum: SettledSum::new(BITS) }
    }
}

impl Cursor for GrowingCursor {
    fn step(&self) -> u64 {
        self.sum.step()
    }

    /// The noise of a stream of zeros. `O(d)`.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.advance_with(0, 0, draw)
    }

    /// `O(d)`.
    fn advance_with(&mut self, total: i64, closed: i64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let noise = draw(Node { level: 0, index: self.sum.step() });
        let stage = self.sum.begin(&self.filter.stages);
        let value = i128::from(total) * i128::from(stage.weight);
        let data = Wide::shifted_up(Wide::from(value));
        let echo = self.buffers.iter().fold(Wide::default(), |sum, (buffer, _)| sum.plus(*buffer));
        // fits: value < 2^78, b = 18
        let protected = Wide::from(value << BITS).plus(echo.shifted_down(GUARD - BITS));
        let noisy = Wide::shifted_up(protected.plus(Wide::from(noise)));
        let solved = self.buffers.iter().fold(noisy, |rest, (_, buffer)| rest.minus(*buffer));
        for ((buffer, noisy), (gap, gain)) in self.buffers.iter_mut().zip(self.filter.gaps.iter().zip(&stage.gains)) {
            let decay = gap.wrapping_neg(); // 2^64 θ, as 0 < gap
            *buffer = buffer.times_fraction(decay).plus(data.times_fraction(*gain));
            *noisy = noisy.times_fraction(decay).plus(solved.times_fraction(*gain));
        }
        self.sum.release(solved, stage.weight, closed)
    }

    /// Replays a stream of zeros, step by step: `O(d · step)`.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        replay(self, step, |own| Self::new(own.filter.clone()), draw);
        self.sum.last()
    }

    /// Buffers, sums and the last noise: `64 d + 64` bytes.
    fn memory(&self) -> Option<Vec<u8>> {
        Some(self.sum.memory(&self.buffers))
    }

    fn recall(&mut self, step: u64, memory: &[u8]) -> Result<i128> {
        let mut buffers = vec![(Wide::default(), Wide::default()); self.buffers.len()];
        self.sum = SettledSum::recall(BITS, (step, &self.filter.stages), memory, &mut buffers)?;
        self.buffers = buffers;
        Ok(self.sum.last())
    }
}
