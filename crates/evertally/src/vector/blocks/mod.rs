//! Noise that depends on all innovations before it, block after block of steps.
mod aligned;
mod filter;
mod response;
mod tile;

pub use filter::Filter;
pub use response::Response;

use crate::{Error, Result};
use evertally_kernels::Path;
use evertally_kernels::transform::Real;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use tile::{Scratch, Tile};

/// Fills a slice with the innovations of one node (the number of its step, from 0) of the coordinates from one on. Must be a
/// pure function of node and coordinate.
pub type Draw<'a, F> = dyn Fn(u64, u64, &mut [F]) + Sync + 'a;

/// The noise of a range of coordinates, for the steps of one pass.
pub struct Blocks<F> {
    filter: Arc<Filter<F>>,
    range: Range<u64>,
    path: Path,
    /// Blocks of a pass.
    pass: u64,
    tiles: Vec<Tile<F>>,
    /// The pass whose noise the tiles hold.
    held: Option<u64>,
}

impl<F: Real> Blocks<F> {
    /// For the coordinates of `range`, `at_once` steps at a time: rounded down to whole blocks, at least one, at most all.
    pub fn new(filter: Arc<Filter<F>>, range: Range<u64>, at_once: u64, path: Path) -> Result<Self> {
        if range.is_empty() {
            return Err(Error::invalid("the range of coordinates is empty; it must hold at least one"));
        }
        let pass = (at_once / filter.block() as u64).clamp(1, filter.blocks());
        let steps = pass * filter.block() as u64;
        let (group, width) = (tile::group::<F>() as u64, tile::width::<F>() as u64);
        let aligned = range.start / group * group..range.end.next_multiple_of(group);
        let mut tiles = Vec::new();
        let mut first = aligned.start;
        while first < aligned.end {
            let end = aligned.end.min((first / width + 1) * width);
            tiles.push(Tile::new(first, (end - first) as usize, steps as usize, &filter));
            first = end;
        }
        Ok(Self { filter, range, path, pass, tiles, held: None })
    }

    /// Steps computed at once.
    pub fn at_once(&self) -> u64 {
        self.pass * self.filter.block() as u64
    }

    /// Makes the noise of `step` available.
    pub fn prepare(&mut self, step: u64, draw: &Draw<F>, threads: usize) -> Result<()> {
        if step >= self.filter.horizon() {
            return Err(Error::invalid("beyond the horizon"));
        }
        let pass = step / self.at_once();
        if self.held == Some(pass) {
            return Ok(());
        }
        if self.filter.running {
            let next = self.held.map_or(0, |held| held + 1);
            if next > pass || next == 0 {
                self.tiles.iter_mut().for_each(Tile::restart);
            }
            let first = if next > pass { 0 } else { next };
            (first..pass).for_each(|pass| self.compute(pass, draw, threads));
        }
        self.compute(pass, draw, threads);
        Ok(())
    }

    fn compute(&mut self, pass: u64, draw: &Draw<F>, threads: usize) {
        let blocks = pass * self.pass..self.filter.blocks().min((pass + 1) * self.pass);
        let (filter, path) = (&self.filter, self.path);
        let threads = threads.clamp(1, self.tiles.len());
        let queue = Mutex::new(self.tiles.iter_mut());
        let next = || queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
        let work = || {
            let mut scratch = Scratch::new(filter, (blocks.end - blocks.start) as usize);
            while let Some(tile) = next() {
                tile.compute(filter, blocks.clone(), draw, path, &mut scratch);
            }
        };
        std::thread::scope(|scope| {
            (1..threads).for_each(|_| _ = scope.spawn(work));
            work();
        });
        self.held = Some(pass);
    }

    /// The row of a step in pieces.
    pub fn pieces(&self, step: u64) -> impl Iterator<Item = (u64, &[F])> {
        let row = (step % self.at_once()) as usize;
        self.tiles.iter().map(move |tile| {
            let all = tile.coordinates();
            let wanted = all.start.max(self.range.start)..all.end.min(self.range.end);
            let inside = (wanted.start - all.start) as usize..(wanted.end - all.start) as usize;
            (wanted.start, &tile.row(row)[inside])
        })
    }

    /// Adds.
    pub fn add_row(&self, step: u64, sums: &mut [F]) {
        let mut rest = sums;
        for (_, piece) in self.pieces(step) {
            let (now, later) = rest.split_at_mut(piece.len());
            now.iter_mut().zip(piece).for_each(|(sum, x)| *sum = *sum + *x);
            rest = later;
        }
    }
}

#[cfg(test)]
mod tests;
