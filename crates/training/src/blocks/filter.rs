//! The spectra of a response's parts.

use super::Response;
use evertally::{Error, Result};
use evertally_kernels::transform::{ComplexFactor, LaneTransform};
use evertally_kernels::{InstructionSet, Real};

/// The response, cut into parts and transformed: shared by all workers. `4 n` words for `n` coefficients.
pub(crate) struct ResponseFilter<F> {
    pub(super) transform: LaneTransform<F>,
    horizon: u64,
    /// Spectrum `i` carries the innovations of a block to the noise `i` blocks later.
    spectra: Vec<Vec<ComplexFactor<F>>>,
    /// One for each step, if steps are scaled.
    pub(super) scales: Option<Vec<F>>,
}

/// Larger numbers are refused: sums of a million times these are finite in every type.
const MAX_COEFFICIENT: f64 = 1e29;
/// Shortest block.
const MIN_BLOCK: usize = 32;
/// Longest block: a transform of 4096 points is 512 KiB, and has to stay in a processor's second cache.
const MAX_BLOCK: usize = 2048;

/// Steps of a block for a response of `n` coefficients: about `2 √n`, which decides all rounding and hence the bytes.
///
/// A step costs `n / B` products with kept spectra and `O(log B)` operations of transforms; a worker holds at least one
/// block of noise.
pub(super) fn block_steps(coefficients: usize) -> usize {
    let root = (coefficients as f64).sqrt(); // sqrt is exact to the last bit on every machine
    ((2.0 * root) as usize).next_power_of_two().clamp(MIN_BLOCK, MAX_BLOCK)
}

impl<F: Real> ResponseFilter<F> {
    /// `O(n log n)` time.
    ///
    /// # Errors
    /// If a coefficient times a scale is more than 10^29, or not a number.
    pub(crate) fn new(response: &Response, instructions: InstructionSet) -> Result<Self> {
        let scales = response.scales().unwrap_or_default();
        let scale = scales.iter().fold(1.0, |max: f64, d| max.max(d.abs()));
        let small = |x: &f64| x.abs() * scale <= MAX_COEFFICIENT; // false for NaN
        if !(response.series().iter().all(small) && scales.iter().all(|d| d.is_finite())) {
            return Err(Error::invalid(
                "the noise is too large for this type of float; request less noise or scale the data",
            ));
        }
        let series = response.series();
        let block = block_steps(series.len());
        let blocks = response.horizon().div_ceil(block as u64);
        // fits: the horizon is at most 2^62, and there are no more parts than coefficients in memory and one.
        let parts = ((series.len() + block - 2) / block + 1).min(usize::try_from(blocks).unwrap_or(usize::MAX));
        Ok(Self {
            transform: LaneTransform::new(2 * block),
            horizon: response.horizon(),
            spectra: spectra(series, block, parts, instructions),
            scales: response.scales().map(|scales| scales.iter().map(|d| F::of(*d)).collect()),
        })
    }

    /// Steps of a block.
    pub(super) fn block(&self) -> usize {
        self.transform.points() / 2
    }

    /// Blocks of the horizon, the last one cut.
    pub(super) fn blocks(&self) -> u64 {
        self.horizon.div_ceil(self.block() as u64)
    }

    /// Steps.
    pub(super) fn horizon(&self) -> u64 {
        self.horizon
    }

    /// The number of blocks that an innovation reaches.
    pub(super) fn parts(&self) -> usize {
        self.spectra.len()
    }

    pub(super) fn spectrum(&self, part: usize) -> &[ComplexFactor<F>] {
        &self.spectra[part]
    }
}

/// The spectra of the parts, divided by the length of the transform, so that its inverse needs no division.
///
/// Innovation `l` of a block reaches the noise `p` of the `i`-th block after it through coefficient `i B + p - l`, and
/// `p - l` runs over `(-B, B)`: on a circle of `2 B` places every difference has its own.
fn spectra<F: Real>(
    series: &[f64],
    block: usize,
    parts: usize,
    instructions: InstructionSet,
) -> Vec<Vec<ComplexFactor<F>>> {
    let points = 2 * block;
    let transform = LaneTransform::<f64>::new(points);
    let lanes = f64::LANES;
    let coefficient = |part: usize, place: usize| {
        let ahead = if place < block { Some(part * block + place) } else { (part * block + place).checked_sub(points) };
        let heard = place != block;
        ahead.filter(|_| heard).and_then(|index| series.get(index)).copied().unwrap_or(0.0)
    };
    let mut spectra = Vec::with_capacity(parts);
    let mut data = vec![0.0; transform.numbers()];
    for first in (0..parts).step_by(lanes) {
        let together = lanes.min(parts - first);
        for (place, point) in data.chunks_exact_mut(2 * lanes).enumerate() {
            point.fill(0.0);
            (0..together).for_each(|l| point[l] = coefficient(first + l, place));
        }
        transform.forward(instructions, &mut data);
        let scaled = |x: f64| F::of(x / points as f64);
        spectra.extend((0..together).map(|l| {
            data.chunks_exact(2 * lanes).map(|point| [scaled(point[l]), scaled(point[lanes + l])]).collect::<Vec<_>>()
        }));
    }
    spectra
}
