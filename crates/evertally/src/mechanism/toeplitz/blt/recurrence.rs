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

use crate::mechanism::MAX_BUFFERS;
use crate::mechanism::name::buffers::Buffers;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::state_space::segments::Segment;
use crate::mechanism::toeplitz::memory::{from_bytes, to_bytes};
use crate::mechanism::{Cursor, replay};
use crate::noise::Node;
use crate::number::wide::Wide;
use crate::{Error, Result};
use std::sync::Arc;

/// Bits below the units of `v`.
const GUARD: u32 = 64;
/// Bits of the running sum below those of the release: floors of up to 2^12 segments are negligible there.
const SUM_BITS: u32 = 16;

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
    step: u64,
    /// Index of the segment of the last step.
    segment: usize,
    /// `B` and `B'`.
    buffers: [(Wide, Wide); MAX_BUFFERS],
    /// `Σ w` over the steps of this segment.
    run: Wide,
    /// `Σ w / (2^b W)` over the earlier segments, in units of `2^-(FRACTION_BITS + SUM_BITS)` of the grid.
    settled: i128,
    /// The noise part of the last release.
    last: i128,
}

impl BltCursor {
    pub(super) fn new(constants: Arc<Constants>) -> Self {
        let buffers = [(Wide::default(), Wide::default()); MAX_BUFFERS];
        Self { constants, step: 0, segment: 0, buffers, run: Wide::default(), settled: 0, last: 0 }
    }

    /// `Σ w / (2^b W)` over the steps of this segment.
    fn unsettled(&self) -> i128 {
        let weight = i128::from(self.constants.segments[self.segment].weight);
        // fits: the data are below 2^(b + 14 + 64), and noise below 2^80 is at most multiplied by T ≤ 2^40, where
        // `bits` grows with T; minus b + 40 bits, this is below 2^123. (In a part of 2^44 steps with b = 18 noise below
        // 2^76 leaves 2^126; larger noise, of 2^16 scales, is not drawn in the age of the universe.)
        let sum = self.run.shifted_down(GUARD - FRACTION_BITS - SUM_BITS).shifted_down(self.constants.bits).low();
        if weight == 1 { sum } else { sum.div_euclid(weight) }
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
        self.step
    }

    /// The noise of a stream of zeros. `O(d)`.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.advance_with(0, 0, draw)
    }

    /// `O(d)`.
    fn advance_with(&mut self, total: i64, closed: i64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let noise = draw(Node { level: 0, index: self.step });
        self.step += 1;
        if self.step > self.constants.segments[self.segment].last {
            self.settled += self.unsettled();
            (self.run, self.segment) = (Wide::default(), self.segment + 1);
        }
        let weight = self.constants.segments[self.segment].weight;
        let protected = self.protected(i128::from(total) * i128::from(weight));
        let solved = self.solved(protected.plus(Wide::from(noise)));
        self.run = self.run.plus(solved);
        let sum = self.settled + self.unsettled();
        let release = (sum + (1 << (SUM_BITS - 1))) >> SUM_BITS;
        self.last = release - (i128::from(closed) << FRACTION_BITS);
        self.last
    }

    /// Replays a stream of zeros, step by step: `O(d · step)`.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        replay(self, step, |own| Self::new(own.constants.clone()), draw);
        self.last
    }

    /// Buffers, sums and the last noise: `64 d + 64` bytes.
    fn memory(&self) -> Option<Vec<u8>> {
        let mut bytes = to_bytes(&self.buffers[..self.constants.fractions.len()], self.run);
        bytes.extend(self.settled.to_le_bytes());
        bytes.extend(self.last.to_le_bytes());
        Some(bytes)
    }

    fn recall(&mut self, step: u64, memory: &[u8]) -> Result<i128> {
        let segment = self.constants.segments.partition_point(|segment| segment.last < step);
        let mut fresh = Self { step, segment, ..Self::new(self.constants.clone()) };
        let buffers = &mut fresh.buffers[..self.constants.fractions.len()];
        let known = from_bytes(memory, buffers, 32).filter(|_| segment < self.constants.segments.len());
        let (run, sums) = known.ok_or_else(|| Error::state("the saved state belongs to another mechanism"))?;
        fresh.run = run;
        let number = |bytes: &[u8]| i128::from_le_bytes(bytes.try_into().expect("16 bytes"));
        (fresh.settled, fresh.last) = (number(&sums[..16]), number(&sums[16..]));
        *self = fresh;
        Ok(self.last)
    }
}
