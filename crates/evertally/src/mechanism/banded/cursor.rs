//! Computes releases from noisy sums of the last steps, without end: the memory is as many words as there are bands.
//!
//! The protected integers are `y_t = Σ_j R̃_j x_(t-j) + z_t`, `R̃_0 = 2^b`. They are solved for the step totals in
//! units of `2^-G`,
//!
//! ```text
//! v_t = ⌊(2^G y_t - Σ_{j≥1} R̃_j v_(t-j) + 2^(b-1)) / 2^b⌋,
//! ```
//!
//! and the release is a function of `v` alone: the sum of a window, or `s_t = ⌊Λ s_(t-1) / 2^30⌋ + v_t` for a decay,
//! rounded. So a release is a function of `y`, regardless of the rounding: post-processing.
//!
//! **Only the noise has to be solved for.** Rounding down commutes with whole numbers, so that if `v'` solves for the
//! noise alone, `v_t = v'_t + 2^G x_t` exactly, by induction: the numerator for `y` is that for `z` plus `2^b 2^G x_t`.
//! Only a decay has to see the data.
//!
//! **Bounds.** `|z| < 2^80`, and `Σ |(R⁻¹)_j| < 2^10` (checked when a factorization is built), so that
//! `|v'| < 2^(80+32+10)` even for `b = 0`. The sums `V` of `v'` are kept modulo 2^128: differences over the bands, or
//! over a window, are sums that fit.

use super::pieces::Pieces;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::workload::DECAY_BITS;
use crate::mechanism::{Cursor, Workload, replay};
use crate::noise::Node;
use crate::{Error, Result};
use std::sync::Arc;

/// Bits below the data's grid.
const GUARD: u32 = 32;

/// The units of a published workload if noise is on each step: the grid itself, if everything is whole.
pub(in crate::mechanism) fn fraction_bits(pieces: &Pieces, workload: Workload) -> u32 {
    if is_whole(pieces, workload) { 0 } else { FRACTION_BITS }
}

fn is_whole(pieces: &Pieces, workload: Workload) -> bool {
    pieces.bits == 0 && !matches!(workload, Workload::Decay(_))
}

pub(in crate::mechanism) struct WorkloadCursor {
    pieces: Arc<Pieces>,
    workload: Workload,
    step: u64,
    /// `V_t` of the last steps, `t` at index `t` modulo the length; 0 before the first.
    sums: Vec<u128>,
    /// `s_t` of a decay; it includes the data.
    faded: i128,
    last: i128,
}

impl WorkloadCursor {
    pub(in crate::mechanism) fn new(pieces: Arc<Pieces>, workload: Workload) -> Self {
        let reach = if let Workload::Window(width) = workload { width } else { 1 };
        // fits: factorizations have at most 2^20 bands, windows at most as many
        let length = (pieces.bands().max(reach) + 1).next_power_of_two() as usize;
        Self { pieces, workload, step: 0, sums: vec![0; length], faded: 0, last: 0 }
    }

    fn guard(&self) -> u32 {
        if is_whole(&self.pieces, self.workload) { 0 } else { GUARD }
    }

    /// `V` this many steps before the open one.
    #[inline]
    fn sum_before(&self, lag: u64) -> u128 {
        self.sums[(self.step.wrapping_sub(lag) as usize) & (self.sums.len() - 1)]
    }

    /// Solves for the next step.
    fn solved(&mut self, z: i128) -> i128 {
        self.step += 1;
        let mut past = 0u128;
        for (from, to, value) in self.pieces.after_first() {
            let sum = self.sum_before(from).wrapping_sub(self.sum_before(to));
            past = past.wrapping_add(sum.wrapping_mul(i128::from(value) as u128));
        }
        let half = if self.pieces.bits == 0 { 0 } else { 1i128 << (self.pieces.bits - 1) };
        let solved = ((z << self.guard()) - past as i128 + half) >> self.pieces.bits;
        let place = self.step as usize & (self.sums.len() - 1);
        self.sums[place] = self.sum_before(1).wrapping_add(solved as u128);
        solved
    }

    /// The published value, minus the exact sum of a window; `total` is that of the open step.
    fn published(&mut self, solved: i128, total: i64) -> i128 {
        let guard = self.guard();
        let exact = match self.workload {
            Workload::Window(width) => self.sum_before(0).wrapping_sub(self.sum_before(width)) as i128,
            Workload::Sum => self.sum_before(0) as i128,
            Workload::Increments => solved,
            Workload::Decay(half_life) => {
                let factor = i128::from(Workload::decay_factor(half_life));
                let (whole, part) = (self.faded >> DECAY_BITS, self.faded & ((1 << DECAY_BITS) - 1));
                self.faded = whole * factor + ((part * factor) >> DECAY_BITS) + solved + (i128::from(total) << guard);
                self.faded
            }
        };
        if guard == 0 { exact } else { (exact + (1 << (guard - FRACTION_BITS - 1))) >> (guard - FRACTION_BITS) }
    }

    /// How many past sums are kept.
    fn kept(&self) -> u64 {
        self.sums.len() as u64 - 1
    }
}

impl Cursor for WorkloadCursor {
    fn step(&self) -> u64 {
        self.step
    }

    /// `O(pieces)`.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.advance_with(0, 0, draw)
    }

    fn advance_with(&mut self, total: i64, _closed: i64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let noise = draw(Node { level: 0, index: self.step });
        let solved = self.solved(noise);
        self.last = self.published(solved, total);
        self.last
    }

    /// Replays a stream of zeros step by step: `O(pieces · step)`. If noise is on each step, and whole, only the steps
    /// of the window are replayed: sums that begin there are equivalent.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        if self.guard() == 0 {
            // Always rebuilt, as for all with random access: `draw` may be that of another sum.
            let read = self.workload.reach(step);
            *self = Self { step: step - read, ..Self::new(self.pieces.clone(), self.workload) };
        }
        replay(self, step, |own| Self::new(own.pieces.clone(), own.workload), draw);
        self.last
    }

    /// The sums of the last steps, and the decaying sum: 16 bytes per band.
    fn memory(&self) -> Option<Vec<u8>> {
        let lags = (0..self.kept()).rev();
        let mut bytes: Vec<u8> = lags.flat_map(|lag| self.sum_before(lag).to_le_bytes()).collect();
        bytes.extend(self.faded.to_le_bytes());
        bytes.extend(self.last.to_le_bytes());
        Some(bytes)
    }

    fn recall(&mut self, step: u64, memory: &[u8]) -> Result<i128> {
        let mut fresh = Self { step, ..Self::new(self.pieces.clone(), self.workload) };
        let (words, rest) = memory.as_chunks::<16>();
        if words.len() as u64 != fresh.kept() + 2 || !rest.is_empty() {
            return Err(Error::state("the saved state belongs to another mechanism"));
        }
        let kept = fresh.kept();
        for (lag, word) in (0..kept).rev().zip(words) {
            let place = step.wrapping_sub(lag) as usize & (fresh.sums.len() - 1);
            fresh.sums[place] = u128::from_le_bytes(*word);
        }
        let number = |place: u64| i128::from_le_bytes(words[place as usize]);
        (fresh.faded, fresh.last) = (number(kept), number(kept + 1));
        *self = fresh;
        Ok(self.last)
    }
}
