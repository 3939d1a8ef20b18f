//! Noise that depends on all innovations before it, in blocks of steps.
//!
//! The noise of the square roots is `u_t = Σ_{j ≤ t} c_{t-j} z_j` in every coordinate: a convolution that is as long as
//! the stream. Innovations are functions of a key, so they can be drawn at any time and in any order; only noise has to
//! be kept, and only until its step is released.
//!
//! **Blocks.** Steps are cut into blocks of `B ≈ 2 √n` for `n` coefficients ([`ResponseFilter`]): 64 for `n = 2^10`,
//! 256 for `2^14`, 2048 for `2^20`. Innovation `l` of block `k` reaches the noise `p` of block `m` through
//! `c_{(m-k)B + p - l}`, and `p - l` lies in `(-B, B)`. So with transforms `F` of `2B` points, on which all these
//! differences are apart,
//!
//! `(noise of block m) = first half of F⁻¹ Σ_{k ≤ m} (spectrum of part m - k) · F(innovations of block k, then zeros)`,
//!
//! summed in the order of `k` (the overlap-save method with a uniformly partitioned filter). Neighbouring coordinates
//! are lanes of one transform, and two of them, half a [group](tile::group) apart, are its real and its imaginary part.
//!
//! **Same bytes.** Only this formula, in this order, determines the rounding. A number depends on its step, on its
//! coordinate and on the coordinate that shares the transform, whichever worker computes it: groups are aligned to the
//! numbers of coordinates, and a worker that owns one coordinate of a group computes the group. Instruction sets,
//! threads, ranges and the number of steps per pass change nothing, so any worker can resume a stream at any step.
//!
//! **Time and memory.** A pass computes `q` blocks at once, 1 to [`MAX_BLOCKS`], and draws all former innovations
//! again. It holds `q B` words per coordinate. Each coordinate and step costs one product per earlier block (`n / 2B`
//! on average, 0.08 ns each for `f32` with AVX-512), one inverse transform (0.4 ns), and `n / 2qB` times a drawing and
//! a transform (0.8 ns). In total that is, for `T = 2^14`, about 8 ns with 4096 words and 40 ns with 256; in `f64`, 35
//! ns with 4096 (`cargo bench --bench vector`). All work of a pass is done at its first step, which waits for it. In
//! addition, a thread needs 2 KiB per step of a pass and 17 KiB per step of a block, whatever the number of
//! coordinates.
//!
//! **Precision.** The error relative to the norm of the noise is about `10^-7` in `f32` and `10^-15` in `f64`.

mod aligned;
mod draw;
mod filter;
mod response;
mod tile;

pub(super) use filter::ResponseFilter;
pub(super) use response::Response;

use super::Memory;
use draw::Draw;
use evertally::number::threads::share;
use evertally::{Error, Result};
use evertally_kernels::{InstructionSet, Real};
use std::ops::Range;
use std::sync::Arc;
use tile::{Scratch, Tile};

/// More blocks at once are slower, because their sums leave the cache.
const MAX_BLOCKS: u64 = 16;
/// Bytes that a pass may hold, except for its first block, if vectors are [kept](Memory::Keep).
const MAX_BYTES: u64 = 1 << 30;

/// The number of steps to compute at once for this number of coordinates: see [`Memory`].
pub(super) fn at_once<F>(memory: Memory, coordinates: u64) -> u64 {
    match memory {
        Memory::Keep => MAX_BYTES / size_of::<F>() as u64 / coordinates,
        Memory::Recompute => 0,
    }
}

/// Bytes of the noise of a pass for a response and this many coordinates, if vectors are kept.
pub(super) fn pass_bytes<F: Real>(response: &Response, coordinates: u64) -> u64 {
    let block = filter::block_steps(response.series().len()) as u64;
    let blocks = response.horizon().div_ceil(block).min(MAX_BLOCKS);
    let pass = (at_once::<F>(Memory::Keep, coordinates) / block).clamp(1, blocks);
    (pass * block * size_of::<F>() as u64).saturating_mul(coordinates)
}

/// The noise of a range of coordinates, and of the steps of a pass.
pub(super) struct Blocks<F> {
    filter: Arc<ResponseFilter<F>>,
    range: Range<u64>,
    instructions: InstructionSet,
    /// Blocks of a pass.
    pass: u64,
    tiles: Vec<Tile<F>>,
    /// The pass whose noise the tiles hold.
    held: Option<u64>,
}

impl<F: Real> Blocks<F> {
    /// For the coordinates of the non-empty `range`, `at_once` steps at a time: rounded down to whole blocks, 1 to
    /// [`MAX_BLOCKS`] of them. It holds that many numbers per coordinate.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub(super) fn new(
        filter: Arc<ResponseFilter<F>>,
        range: Range<u64>,
        at_once: u64,
        instructions: InstructionSet,
    ) -> Result<Self> {
        let block = filter.block() as u64;
        let pass = (at_once / block).clamp(1, filter.blocks().min(MAX_BLOCKS));
        let steps = pass * block; // at most 16 · 2048
        check_memory::<F>(&range, steps, block)?;
        let (group, width) = (tile::group::<F>() as u64, tile::width::<F>() as u64);
        let aligned = range.start / group * group..range.end.next_multiple_of(group);
        let mut tiles = Vec::new();
        let mut first = aligned.start;
        while first < aligned.end {
            let end = aligned.end.min((first / width + 1) * width);
            tiles.push(Tile::new(first, (end - first) as usize, steps as usize));
            first = end;
        }
        Ok(Self { filter, range, instructions, pass, tiles, held: None })
    }

    /// Steps computed at once.
    pub(super) fn at_once(&self) -> u64 {
        self.pass * self.filter.block() as u64
    }

    /// Bytes of the noise of a pass.
    pub(super) fn memory_bytes(&self) -> usize {
        self.tiles.iter().map(Tile::memory_bytes).sum()
    }

    /// Makes the noise of a step (from 0) available. If it is already held this costs nothing; otherwise its pass is
    /// computed.
    ///
    /// # Panics
    /// In debug builds, if the step lies beyond the horizon.
    pub(super) fn prepare(&mut self, step: u64, draw: &Draw<F>, threads: usize) {
        debug_assert!(step < self.filter.horizon(), "there is no step {step}");
        let pass = step / self.at_once();
        if self.held != Some(pass) {
            self.compute(pass, draw, threads);
        }
    }

    fn compute(&mut self, pass: u64, draw: &Draw<F>, threads: usize) {
        let blocks = pass * self.pass..self.filter.blocks().min((pass + 1) * self.pass);
        let (filter, instructions) = (&self.filter, self.instructions);
        let threads = threads.clamp(1, self.tiles.len());
        self.held = None; // in case a draw panics
        share(threads, self.tiles.iter_mut(), |tiles| {
            let mut scratch = Scratch::new(filter, (blocks.end - blocks.start) as usize);
            tiles.for_each(|tile| tile.compute(filter, blocks.clone(), draw, instructions, &mut scratch));
        });
        self.held = Some(pass);
    }

    /// The noise of a prepared step in some of the coordinates: pieces that follow each other.
    ///
    /// # Panics
    /// In debug builds, if the step was not the last prepared or one of its pass, or coordinates are outside the range.
    fn pieces(&self, step: u64, coordinates: Range<u64>) -> impl Iterator<Item = &[F]> {
        debug_assert_eq!(self.held, Some(step / self.at_once()), "step {step} is not prepared");
        debug_assert!(self.range.start <= coordinates.start && coordinates.end <= self.range.end, "{coordinates:?}");
        let row = (step % self.at_once()) as usize;
        let first = self.tiles.partition_point(|tile| tile.coordinates().end <= coordinates.start);
        let last = self.tiles.partition_point(|tile| tile.coordinates().start < coordinates.end);
        self.tiles[first..last.max(first)].iter().map(move |tile| {
            let all = tile.coordinates();
            let wanted = all.start.max(coordinates.start)..all.end.min(coordinates.end);
            let inside = (wanted.start - all.start) as usize..(wanted.end - all.start) as usize;
            &tile.row(row)[inside]
        })
    }

    /// Copies the noise of a prepared step in the coordinates from `first` on.
    ///
    /// # Panics
    /// As [`pieces`](Self::pieces) does.
    pub(super) fn copy_row(&self, step: u64, first: u64, out: &mut [F]) {
        let mut rest = out;
        for piece in self.pieces(step, first..first + rest.len() as u64) {
            let (now, later) = rest.split_at_mut(piece.len());
            now.copy_from_slice(piece);
            rest = later;
        }
    }
}

/// Refuses sizes that the system has no memory for. (Requested in one piece, because the system would grant many small
/// ones first.)
fn check_memory<F>(range: &Range<u64>, steps: u64, least: u64) -> Result<()> {
    let coordinates = range.end - range.start;
    let words = coordinates.checked_mul(steps).and_then(|words| usize::try_from(words).ok());
    let mut probe = Vec::<F>::new();
    let granted = words.is_some_and(|words| probe.try_reserve_exact(words).is_ok());
    std::hint::black_box(&probe); // otherwise the compiler may omit the allocation
    if granted {
        return Ok(());
    }
    let bytes = |steps: u64| steps * size_of::<F>() as u64;
    Err(Error::invalid(format!(
        "there is no memory for {} bytes of noise in each of {coordinates} coordinates; hold fewer steps at once ({} \
         bytes at least), split the coordinates among workers, or use a mechanism with short memory, such as a BLT",
        bytes(steps),
        bytes(least)
    )))
}

#[cfg(test)]
mod tests;
