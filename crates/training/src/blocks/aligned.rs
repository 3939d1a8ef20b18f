//! Memory that begins at a cache line.

use evertally_kernels::Real;

/// Zero-initialized, aligned to 64 bytes if the allocator allows it: that is faster, and changes nothing else.
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
