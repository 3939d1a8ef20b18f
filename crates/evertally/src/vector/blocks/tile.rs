//! A tile: the coordinates that are computed together, and their noise of one pass.

use super::aligned::Aligned;
use super::{Draw, Filter};
use evertally_kernels::Path;
use evertally_kernels::transform::{Real, multiply_add};
use std::ops::Range;

/// Coordinates of a group: they share a transform, the first half as real parts, the second as imaginary parts.
pub(super) const fn group<F: Real>() -> usize {
    2 * F::LANES
}

/// Coordinates of a whole tile: as many as ciphers give at once.
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
    /// The running sum before the pass, where sums run.
    total: Vec<F>,
}

/// What a thread needs to work on any tile.
pub(super) struct Scratch<F> {
    draws: Aligned<F>,
    /// By group and block of a batch.
    spectra: Aligned<F>,
    /// By group and block of the pass.
    sums: Aligned<F>,
}

impl<F: Real> Scratch<F> {
    pub(super) fn new(filter: &Filter<F>, blocks: usize) -> Self {
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
    pub(super) fn new(first: u64, width: usize, steps: usize, filter: &Filter<F>) -> Self {
        let total = if filter.running { vec![F::ZERO; width] } else { Vec::new() };
        Self { first, width, rows: Aligned::new(steps * width), total }
    }

    pub(super) fn coordinates(&self) -> Range<u64> {
        self.first..self.first + self.width as u64
    }

    pub(super) fn row(&self, row: usize) -> &[F] {
        &self.rows.as_slice()[row * self.width..][..self.width]
    }

    /// Forgets the running sum.
    pub(super) fn restart(&mut self) {
        self.total.fill(F::ZERO);
    }

    /// Computes the noise of some neighbouring blocks. Where sums run, those before them must have been the last.
    pub(super) fn compute(
        &mut self,
        filter: &Filter<F>,
        blocks: Range<u64>,
        draw: &Draw<F>,
        path: Path,
        scratch: &mut Scratch<F>,
    ) {
        let steps = filter.block();
        let count = (blocks.end - blocks.start) as usize;
        let numbers = filter.transform.numbers();
        let groups = self.width / group::<F>();
        scratch.sums.as_mut_slice()[..groups * count * numbers].fill(F::ZERO);
        let mut heard = blocks.start.saturating_sub(filter.parts() as u64 - 1)..blocks.end;
        while !heard.is_empty() {
            let batch = heard.start..blocks.end.min(heard.start + TOGETHER as u64);
            heard.start = batch.end;
            for (slot, block) in batch.clone().enumerate() {
                self.draw_block(filter, block, draw, scratch);
                self.transform_draws(filter, slot, path, scratch);
            }
            self.add_batch(filter, batch, &blocks, path, scratch);
        }
        for (series, sums) in scratch.sums.as_mut_slice().chunks_exact_mut(numbers).take(groups * count).enumerate() {
            let (g, block) = (series / count, series % count);
            let rows = &mut self.rows.as_mut_slice()[block * steps * self.width + g * group::<F>()..];
            filter.transform.inverse_half(path, sums, rows, self.width);
        }
        self.scale(filter, blocks.start * steps as u64, count * steps);
    }

    /// Innovations of the steps of a block; there are none beyond the horizon.
    fn draw_block(&self, filter: &Filter<F>, block: u64, draw: &Draw<F>, scratch: &mut Scratch<F>) {
        let start = block * filter.block() as u64;
        let rows = scratch.draws.as_mut_slice().chunks_exact_mut(self.width).take(filter.block());
        for (step, row) in (start..).zip(rows) {
            if step < filter.horizon() {
                draw(step, self.first, row);
            } else {
                row.fill(F::ZERO);
            }
        }
    }

    fn transform_draws(&self, filter: &Filter<F>, slot: usize, path: Path, scratch: &mut Scratch<F>) {
        let numbers = filter.transform.numbers();
        for g in 0..self.width / group::<F>() {
            let spectrum = &mut scratch.spectra.as_mut_slice()[(g * TOGETHER + slot) * numbers..][..numbers];
            filter.transform.forward_padded(path, &scratch.draws.as_slice()[g * group::<F>()..], self.width, spectrum);
        }
    }

    /// Adds what the noise of the `blocks` hears of the innovations of a batch, block after block.
    ///
    /// Stretch after stretch of the spectra, so that those of a batch stay in the second cache while sum after sum passes by.
    fn add_batch(
        &self,
        filter: &Filter<F>,
        batch: Range<u64>,
        blocks: &Range<u64>,
        path: Path,
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
                    multiply_add(path, &mut sums[lines.clone()], &stretches[..together], &factors[..together]);
                }
            }
        }
    }

    /// Scales the rows and makes them running sums, where that is asked for. `start` is the number of the first.
    fn scale(&mut self, filter: &Filter<F>, start: u64, rows: usize) {
        let Some(scales) = &filter.scales else { return };
        let steps = scales[start as usize..].iter().take(rows);
        for (row, scale) in self.rows.as_mut_slice().chunks_exact_mut(self.width).zip(steps) {
            row.iter_mut().for_each(|x| *x = *x * *scale);
            for (x, total) in row.iter_mut().zip(&mut self.total) {
                *total = *total + *x;
                *x = *total;
            }
        }
    }
}
