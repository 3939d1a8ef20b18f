//! A tile: coordinates that are computed together, and their noise of one pass.

use super::aligned::Aligned;
use super::draw::Draw;
use super::filter::ResponseFilter;
use evertally_kernels::transform::multiply_add;
use evertally_kernels::{InstructionSet, Real};
use std::ops::Range;

/// Coordinates of a group: they share a transform, the first half as real parts, the second as imaginary parts.
pub(super) const fn group<F: Real>() -> usize {
    2 * F::LANES
}

/// Coordinates of a whole tile: as many as ciphers produce at once.
pub(super) const fn width<F: Real>() -> usize {
    8 * group::<F>()
}

/// Spectra of innovations that are added to a sum together.
const TOGETHER: usize = 8;
/// Points of a stretch: 16 KiB.
const STRETCH: usize = 128;

/// Neighbouring coordinates, whole groups of them.
pub(super) struct Tile<F> {
    first: u64,
    width: usize,
    /// Row after row, the noise of the steps of a pass.
    rows: Aligned<F>,
}

/// A thread's scratch memory for any tile.
pub(super) struct Scratch<F> {
    draws: Aligned<F>,
    /// By group and block of a batch.
    spectra: Aligned<F>,
    /// By group and block of the pass.
    sums: Aligned<F>,
}

impl<F: Real> Scratch<F> {
    pub(super) fn new(filter: &ResponseFilter<F>, blocks: usize) -> Self {
        let series = 8 * filter.transform.numbers();
        Self {
            draws: Aligned::new(filter.block() * width::<F>()),
            spectra: Aligned::new(TOGETHER * series),
            sums: Aligned::new(blocks * series),
        }
    }
}

impl<F: Real> Tile<F> {
    /// `first` and `width` are multiples of a [group](group).
    pub(super) fn new(first: u64, width: usize, steps: usize) -> Self {
        Self { first, width, rows: Aligned::new(steps * width) }
    }

    pub(super) fn coordinates(&self) -> Range<u64> {
        self.first..self.first + self.width as u64
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(self.rows.as_slice())
    }

    pub(super) fn row(&self, row: usize) -> &[F] {
        &self.rows.as_slice()[row * self.width..][..self.width]
    }

    /// Computes the noise of some neighbouring blocks.
    pub(super) fn compute(
        &mut self,
        filter: &ResponseFilter<F>,
        blocks: Range<u64>,
        draw: &Draw<F>,
        instructions: InstructionSet,
        scratch: &mut Scratch<F>,
    ) {
        let steps = filter.block();
        let count = (blocks.end - blocks.start) as usize;
        let numbers = filter.transform.numbers();
        let groups = self.width / group::<F>();
        scratch.sums.as_mut_slice()[..groups * count * numbers].fill(F::default());
        let mut heard = blocks.start.saturating_sub(filter.parts() as u64 - 1)..blocks.end;
        while !heard.is_empty() {
            let batch = heard.start..blocks.end.min(heard.start + TOGETHER as u64);
            heard.start = batch.end;
            for (slot, block) in batch.clone().enumerate() {
                self.draw_block(filter, block, draw, scratch);
                self.transform_draws(filter, slot, instructions, scratch);
            }
            self.add_batch(filter, batch, &blocks, instructions, scratch);
        }
        for (series, sums) in scratch.sums.as_mut_slice().chunks_exact_mut(numbers).take(groups * count).enumerate() {
            let (g, block) = (series / count, series % count);
            let rows = &mut self.rows.as_mut_slice()[block * steps * self.width + g * group::<F>()..];
            filter.transform.inverse_half(instructions, sums, rows, self.width);
        }
        self.scale(filter, blocks.start * steps as u64, instructions);
    }

    /// Innovations of the steps of a block; there are none beyond the horizon.
    fn draw_block(&self, filter: &ResponseFilter<F>, block: u64, draw: &Draw<F>, scratch: &mut Scratch<F>) {
        let start = block * filter.block() as u64;
        let rows = scratch.draws.as_mut_slice().chunks_exact_mut(self.width).take(filter.block());
        for (step, row) in (start..).zip(rows) {
            if step < filter.horizon() {
                draw(step, self.first, row);
            } else {
                row.fill(F::default());
            }
        }
    }

    fn transform_draws(
        &self,
        filter: &ResponseFilter<F>,
        slot: usize,
        instructions: InstructionSet,
        scratch: &mut Scratch<F>,
    ) {
        let numbers = filter.transform.numbers();
        for g in 0..self.width / group::<F>() {
            let spectrum = &mut scratch.spectra.as_mut_slice()[(g * TOGETHER + slot) * numbers..][..numbers];
            filter.transform.forward_padded(
                instructions,
                &scratch.draws.as_slice()[g * group::<F>()..],
                self.width,
                spectrum,
            );
        }
    }

    /// Adds the contributions of a batch's innovations to the noise of the `blocks`, block after block.
    ///
    /// Works on one stretch of the spectra at a time, so that those of a batch stay in the second-level cache while
    /// all sums are updated.
    fn add_batch(
        &self,
        filter: &ResponseFilter<F>,
        batch: Range<u64>,
        blocks: &Range<u64>,
        instructions: InstructionSet,
        scratch: &mut Scratch<F>,
    ) {
        let numbers = filter.transform.numbers();
        let count = (blocks.end - blocks.start) as usize;
        let sums = scratch.sums.as_mut_slice().chunks_exact_mut(count * numbers);
        let spectra = scratch.spectra.as_slice().chunks_exact(TOGETHER * numbers);
        for (sums, spectra) in sums.zip(spectra).take(self.width / group::<F>()) {
            for start in (0..filter.transform.points()).step_by(STRETCH) {
                let stretch = start..filter.transform.points().min(start + STRETCH);
                let lines = stretch.start * group::<F>()..stretch.end * group::<F>();
                for (block, sums) in blocks.clone().zip(sums.chunks_exact_mut(numbers)) {
                    let first = batch.start.max((block + 1).saturating_sub(filter.parts() as u64));
                    let mut stretches = [[].as_slice(); TOGETHER];
                    let mut factors = [[].as_slice(); TOGETHER];
                    let mut together = 0;
                    for source in first..batch.end.min(block + 1) {
                        let spectrum = &spectra[(source - batch.start) as usize * numbers..][..numbers];
                        stretches[together] = &spectrum[lines.clone()];
                        factors[together] = &filter.spectrum((block - source) as usize)[stretch.clone()];
                        together += 1;
                    }
                    multiply_add(instructions, &mut sums[lines.clone()], &stretches[..together], &factors[..together]);
                }
            }
        }
    }

    /// Scales the rows, if steps are scaled. `start` is the step of the first row; rows beyond the horizon are
    /// skipped.
    fn scale(&mut self, filter: &ResponseFilter<F>, start: u64, instructions: InstructionSet) {
        let Some(scales) = &filter.scales else { return };
        for (row, scale) in self.rows.as_mut_slice().chunks_exact_mut(self.width).zip(&scales[start as usize..]) {
            F::scale(instructions, row, *scale);
        }
    }
}
