//! The exact release: protected integers from the data, and the release from them alone.
//!
//! Numbers are fixed-point with 64 fractional bits in 256-bit integers. With `v_t = W_t x_t` and `2^b` noise steps to
//! one unit of `v`, a step computes
//!
//! ```text
//! n_t = 2^b v_t + ⌊2^b Σ ⌊ω_i B_i⌋⌋,     B_i ← ⌊θ_i B_i⌋ + v_t           the only part that sees data
//! y_t = n_t + z_t                                                       the protected integers
//! w_t = y_t - Σ ⌊ω_i B'_i⌋,              B'_i ← ⌊θ_i B'_i⌋ + w_t          C⁻¹ y
//! release = Σ_{s≤t} w_s / (2^b W_s),     to the nearest 2^-8 of the grid
//! ```
//!
//! where the inner floors keep 64 fractional bits. Everything computed after `y` is a function of `y`: its rounding
//! costs no privacy.
//!
//! **The cost of rounding `n`.** Let `β_i` be the exact buffer and `r_i = 2^64 (β_i - B_i)`. Each step
//! `r_i ← θ_i r_i + (something in [0, 1))`, so `0 ≤ r_i < 1/(1-θ_i)`. The sum `Σ ⌊ω_i B_i⌋` falls short of `Σ ω_i β_i`
//! by `Σ ω_i r_i` and less than one unit per buffer: by something in `[0, d + Σ ω_i/(1-θ_i))` units of `2^-64`; and the
//! last floor takes something in `[0, 1)` noise steps. So `n_t = 2^b (C W x)_t - e_t` with
//!
//! ```text
//! 0 ≤ e_t < E = 1 + 2^(b-64) (d + Σ ω_i / (1-θ_i)),
//! ```
//!
//! for all data, and for two streams `|n_t(x) - n_t(x') - 2^b (C W (x - x'))_t| < E`. Over `T` steps the vectors `n`
//! differ by less than `E √T` more, in L2 norm, than the matrix says ([`rounding_slack`]).
//!
//! **Sizes.** `|x_t| < 2^64`, `W ≤ 2^14`, `T ≤ 2^44` (above `2^40` in parts of longer mechanisms only), `θ < 1` and
//! `Σ ω_i < 1` give `B < 2^122` and, in units of `2^-64`, below `2^186`; `n < 2^b · 2^123`. Draws are below `2^127`,
//! the absolute sum of the coefficients of `C⁻¹` is below 2, so that `w < 2^128 + 2^b · 2^78 + 4` and `B' < 2^44 w`:
//! below `2^238` with the fractional bits. The sum of
//! the data inside a segment is below `2^64`.

use crate::Result;
use crate::mechanism::MAX_BUFFERS;
use crate::mechanism::name::buffers::Buffers;
use crate::mechanism::state_space::segments::Segment;
use crate::mechanism::toeplitz::settled::{GUARD, SettledSum};
use crate::mechanism::{Cursor, replay};
use crate::noise::Node;
use crate::number::wide::Wide;
use std::sync::Arc;

/// `E` of the [module](self), for `2^bits` noise steps to one unit of `v` and `Σ ω_i / (1 - θ_i)`.
pub(super) fn rounding_slack(bits: u32, buffers: usize, echo_sum: f64) -> f64 {
    1.0 + libm::exp2(f64::from(bits) - f64::from(GUARD)) * (buffers as f64 + echo_sum)
}

/// The constants of a cursor.
#[derive(Debug)]
pub(super) struct Constants {
    /// `(θ, ω)` as multiples of `2^-64`.
    fractions: Vec<(u64, u64)>,
    segments: Vec<Segment>,
    /// `b`.
    bits: u32,
}

impl Constants {
    pub(super) fn new(buffers: &Buffers, segments: Vec<Segment>, bits: u32) -> Self {
        // From multiples of 2^-62, below 1.
        let pairs = buffers.decays().iter().zip(buffers.echoes());
        Self { fractions: pairs.map(|(decay, echo)| (decay << 2, echo << 2)).collect(), segments, bits }
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

/// The cursor of a BLT. It has seen the data, and its memory contains them.
#[derive(Clone, Debug)]
pub(super) struct BltCursor {
    constants: Arc<Constants>,
    /// `B` and `B'`.
    buffers: [(Wide, Wide); MAX_BUFFERS],
    /// `Σ w / (2^b W)`. (Noise below 2^80 is at most multiplied by T ≤ 2^40, where `bits` grows with T. In a part of
    /// 2^44 steps with b = 18 noise below 2^76 leaves 2^126.)
    sum: SettledSum,
}

impl BltCursor {
    pub(super) fn new(constants: Arc<Constants>) -> Self {
        let sum = SettledSum::new(constants.bits);
        Self { constants, buffers: [(Wide::default(), Wide::default()); MAX_BUFFERS], sum }
    }

    /// `n_t` of the value `v_t`, in noise steps: the value that noise must protect.
    #[inline]
    pub(super) fn protected(&mut self, value: i128) -> Wide {
        let bits = self.constants.bits;
        let data = Wide::shifted_up(Wide::from(value));
        let mut echo = Wide::default();
        for ((buffer, _), (decay, loudness)) in self.buffers.iter_mut().zip(&self.constants.fractions) {
            echo = echo.plus(buffer.times_fraction(*loudness));
            *buffer = buffer.times_fraction(*decay).plus(data);
        }
        // fits: value < 2^78, b ≤ 36
        Wide::from(value << bits).plus(echo.shifted_down(GUARD - bits))
    }

    /// `w_t` of `y_t`, in units of `2^-64` noise steps.
    #[inline]
    fn solved(&mut self, noisy: Wide) -> Wide {
        let mut solved = Wide::shifted_up(noisy);
        let mut decayed = [Wide::default(); MAX_BUFFERS];
        for (((_, buffer), (decay, loudness)), decayed) in
            self.buffers.iter().zip(&self.constants.fractions).zip(&mut decayed)
        {
            solved = solved.minus(buffer.times_fraction(*loudness));
            *decayed = buffer.times_fraction(*decay);
        }
        for ((_, buffer), decayed) in self.buffers.iter_mut().zip(decayed).take(self.constants.fractions.len()) {
            *buffer = decayed.plus(solved);
        }
        solved
    }
}

impl Cursor for BltCursor {
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
        let weight = self.sum.begin(&self.constants.segments).weight;
        let protected = self.protected(i128::from(total) * i128::from(weight));
        let solved = self.solved(protected.plus(Wide::from(noise)));
        self.sum.release(solved, weight, closed)
    }

    /// Replays a stream of zeros, step by step: `O(d · step)`.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        replay(self, step, |own| Self::new(own.constants.clone()), draw);
        self.sum.last()
    }

    /// Buffers, sums and the last noise: `64 d + 64` bytes.
    fn memory(&self) -> Option<Vec<u8>> {
        Some(self.sum.memory(&self.buffers[..self.constants.fractions.len()]))
    }

    fn recall(&mut self, step: u64, memory: &[u8]) -> Result<i128> {
        let mut buffers = [(Wide::default(), Wide::default()); MAX_BUFFERS];
        let own = &mut buffers[..self.constants.fractions.len()];
        self.sum = SettledSum::recall(self.constants.bits, (step, &self.constants.segments), memory, own)?;
        self.buffers = buffers;
        Ok(self.sum.last())
    }
}
