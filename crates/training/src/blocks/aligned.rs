//! Memory that begins at a line.

use evertally_kernels::Real;

/// Zeros to begin with, aligned to 64 bytes where the allocator lets it: that is faster, and changes nothing else.
pub(super) struct Aligned<F> {
    numbers: Vec<F>,
    start: usize,
    length: usize,
}

impl<F: Real> Aligned<F> {
    pub(super) fn new(length: usize) -> Self {
        let numbers = vec![F::default(); length + F::LANES];
        let start = numbers.as_ptr().align_offset(64).min(F::LANES);
        Self { numbers, start, length }
    }

    pub(super) fn as_slice(&self) -> &[F] {
        &self.numbers[self.start..][..self.length]
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [F] {
        &mut self.numbers[self.start..][..self.length]
    }
}
