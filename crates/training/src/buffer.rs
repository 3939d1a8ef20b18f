//! The vectors that are kept between steps.

use evertally_kernels::Real;
use std::ops::{Deref, DerefMut};

/// Large allocations all begin at the same offset in a page, and a processor that compares the lower bits of
/// addresses first mistakes the same element of two vectors for one address. So every buffer begins this many
/// elements later than the previous one: 9 cache lines for `f32`, which wraps around after 64 buffers.
const STAGGER: usize = 144;
/// Buffers until it wraps around.
const PERIOD: usize = 64;

/// One vector.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffer<F> {
    values: Vec<F>,
    skipped: usize,
}

impl<F: Real> Buffer<F> {
    /// Zeros for the buffer with this number. Memory is committed as it is written.
    pub(super) fn zeros(slot: usize, len: usize) -> Self {
        let skipped = slot % PERIOD * STAGGER;
        Self { values: vec![F::default(); skipped + len], skipped }
    }
}

impl<F> Deref for Buffer<F> {
    type Target = [F];

    fn deref(&self) -> &[F] {
        &self.values[self.skipped..]
    }
}

impl<F> DerefMut for Buffer<F> {
    fn deref_mut(&mut self) -> &mut [F] {
        &mut self.values[self.skipped..]
    }
}
