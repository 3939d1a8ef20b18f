//! The release, from the protected integers alone.
//!
//! In units of `2^-24` of the grid let `e` be the noise part of the release inside the epoch, `o = ⌊2^24 z / g⌋` that
//! of the epoch's total by its own node, whose protected integer is `g` times the total plus `z`, and `m` the mix. When
//! an epoch is over, `e + ⌊m (o - e)⌋` is added to the base; a release is base and `e`, to the nearest `2^-8`. The
//! exact sum is a whole number, so each of these is the same function of estimates that are computed from protected
//! integers, less that sum.
//!
//! **Sizes.** Noise is below 2^80 and `g ≥ 2^18`, so `o < 2^86`; releases inside are below 2^100 (see the cursor of a
//! BLT; of a tree at most 2^9 nodes are added), and there are 16 epochs.

use super::epoch::{self, Epoch};
use super::grids::GUARD;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::{Cursor, replay};
use crate::noise::Node;
use crate::{Error, Result};
use std::sync::Arc;

/// More steps than any step of trees has nodes: a few hundred for every epoch.
const LONG_GAP: u64 = 1 << 13;

/// A cursor through the epochs. It has seen the data, and its memory contains them.
pub(super) struct EpochCursor {
    epochs: Arc<[Epoch]>,
    step: u64,
    place: usize,
    inner: Box<dyn Cursor>,
    /// The exact sum before this epoch.
    closed_before: i64,
    /// The noise of the earlier totals, in units of `2^-24`.
    base: i128,
    /// The noise of the last release inside, likewise.
    inside: i128,
}

impl EpochCursor {
    pub(super) fn new(epochs: Arc<[Epoch]>) -> Self {
        let inner = epochs[0].inner.mechanism().cursor();
        Self { epochs, step: 0, place: 0, inner, closed_before: 0, base: 0, inside: 0 }
    }

    /// Moves to the next epoch, whose steps begin with this exact sum.
    fn turn(&mut self, closed: i64, draw: &mut dyn FnMut(Node) -> i128) {
        let epoch = &self.epochs[self.place];
        self.base += if epoch.has_own() {
            let own = (draw(epoch::own(self.place)) << (FRACTION_BITS + GUARD)).div_euclid(epoch.own_steps());
            epoch.mixed(self.inside, own)
        } else {
            self.inside
        };
        self.place += 1;
        self.inner = self.epochs[self.place].inner.mechanism().cursor();
        self.closed_before = closed;
    }

    /// Whether no noise depends on the data, unlike that of filters.
    fn is_free_of_data(&self) -> bool {
        self.epochs[0].inner_noise(0).is_some()
    }

    /// Moves to a step if no noise depends on the data.
    fn leap(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) {
        *self = Self::new(self.epochs.clone());
        loop {
            let (place, epoch) = (self.place, &self.epochs[self.place]);
            self.step = step.min(epoch.last);
            let value = self.inner.seek(self.step - epoch.before, &mut |node| draw(epoch::inside(place, node)));
            self.inside = epoch.inner_noise(value).expect("no filter");
            if self.step == step {
                return;
            }
            self.turn(0, draw);
        }
    }

    /// The noise of the last release.
    fn noise(&self) -> i128 {
        (self.base + self.inside + (1 << (GUARD - 1))) >> GUARD
    }
}

impl Cursor for EpochCursor {
    fn step(&self) -> u64 {
        self.step
    }

    /// The noise of a stream of zeros. `O(d)`.
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.advance_with(0, 0, draw)
    }

    /// `O(d)`.
    fn advance_with(&mut self, total: i64, closed: i64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        if self.step == self.epochs[self.place].last {
            self.turn(closed - total, draw); // fits: the exact sum of the step before
        }
        self.step += 1;
        let place = self.place;
        // The sum inside an epoch may exceed 64 bits, so the release is requested, and the sum is subtracted here.
        let value = self.inner.advance_with(total, 0, &mut |node| draw(epoch::inside(place, node)));
        self.inside = self.epochs[place].inner_noise(value).unwrap_or_else(|| {
            let sum = i128::from(closed) - i128::from(self.closed_before);
            (value - (sum << FRACTION_BITS)) << GUARD
        });
        self.noise()
    }

    /// With trees inside from the first epoch on, if the gap has more steps than a path has nodes.
    fn can_seek_forward(&self, step: u64) -> bool {
        self.epochs[0].is_tree() && step > self.step + LONG_GAP
    }

    /// With trees inside, `O(K k log T)` for `K` epochs; with hats, the draws of all epochs that have begun; otherwise
    /// a stream of zeros, replayed step by step.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        if self.is_free_of_data() {
            self.leap(step, draw);
        } else {
            replay(self, step, |own| Self::new(own.epochs.clone()), draw);
        }
        if step == 0 { 0 } else { self.noise() }
    }

    /// Three numbers and the memory of the mechanism inside: below two kilobytes. With trees or hats inside there is
    /// none: their noise does not depend on the data.
    fn memory(&self) -> Option<Vec<u8>> {
        if self.is_free_of_data() {
            return None;
        }
        let mut bytes = self.closed_before.to_le_bytes().to_vec();
        bytes.extend(self.base.to_le_bytes());
        bytes.extend(self.inside.to_le_bytes());
        bytes.extend(self.inner.memory().unwrap_or_default());
        Some(bytes)
    }

    fn recall(&mut self, step: u64, memory: &[u8]) -> Result<i128> {
        let foreign = || Error::state("the saved state belongs to another mechanism");
        let (numbers, inner) = memory.split_at_checked(40).ok_or_else(foreign)?;
        let place = self.epochs.partition_point(|epoch| epoch.last < step);
        let epoch = self.epochs.get(place).ok_or_else(foreign)?;
        let mut fresh = Self { step, place, inner: epoch.inner.mechanism().cursor(), ..Self::new(self.epochs.clone()) };
        fresh.inner.recall(step - epoch.before, inner)?;
        let number = |at: usize| i128::from_le_bytes(numbers[at..at + 16].try_into().expect("16 bytes"));
        fresh.closed_before = i64::from_le_bytes(numbers[..8].try_into().expect("8 bytes"));
        (fresh.base, fresh.inside) = (number(8), number(24));
        *self = fresh;
        Ok(if step == 0 { 0 } else { self.noise() })
    }
}
