//! The same releases, bit for bit, in memory that grows with the logarithm of the horizon.
//!
//! Solving passes over all pieces forwards and then backwards, so a piece needs values from both ends. Only a few
//! states of the forward and of the backward pass are kept. The pieces between two of them are recomputed, with the
//! same noise, once they are reached. A stretch of pieces is cut into parts: one forward pass computes the states
//! before all parts; one backward pass, which includes a forward pass inside every part, computes the states after
//! them. Every level of nested parts costs some more draws per step.

use super::cursor::{Covered, RunningEstimates, estimate, in_grid_units};
use super::normal::{Front, HatElimination, NormalRow, backward, forward, line};
use super::shape::{HatShape, LinearPiece, SLOTS};
use crate::mechanism::{Cursor, replay};
use crate::noise::Node;
use std::ops::Range;
use std::sync::Arc;

/// Parts that a stretch is cut into, and maximum number of pieces that are solved at once.
const PARTS: usize = 64;
/// Words of a state.
const WORDS: u64 = (SLOTS * SLOTS + 3 * SLOTS + 4) as u64;

/// The state at the start of a piece, from all pieces before it.
#[derive(Clone)]
struct Before {
    front: Front,
    carried: NormalRow,
    covered: Covered,
}

/// Pieces, with the states before and after them; the state after is the solution for the open hats.
struct PieceRange {
    pieces: Range<usize>,
    before: Before,
    behind: NormalRow,
}

/// A cursor that computes one release after the other.
pub(super) struct CheckpointedCursor {
    shape: Arc<HatShape>,
    parts: usize,
    step: u64,
    /// The remaining stretches, the next one last.
    stretches: Vec<PieceRange>,
    /// The lines of the remaining pieces of the present stretch, the next one last.
    lines: Vec<(usize, (f64, f64))>,
    /// The present piece, its line, and how many of its steps are released.
    present: Option<(LinearPiece, (f64, f64), u64)>,
    running: RunningEstimates,
}

impl Before {
    /// Before the first piece.
    fn new() -> Self {
        Self { front: Front::new(), carried: [0.0; SLOTS], covered: Covered::default() }
    }

    /// Moves along a piece, and passes on the hats that end with it, with their part of the solution so far.
    fn pass(
        &mut self,
        shape: &HatShape,
        index: usize,
        draw: &mut dyn FnMut(Node) -> i128,
        mut solved: impl FnMut(HatElimination, f64),
    ) {
        let (mut columns, carried) = (self.front.pass(shape, index), &mut self.carried);
        let found = |discrepancy| {
            let column = columns.next().expect("a column for every hat that ends");
            let solution = forward(&column, in_grid_units(discrepancy), carried);
            solved(column, solution);
        };
        self.covered.pass(shape, index, draw, |_| {}, found);
    }
}

/// Maximum number of pieces of a part.
fn part_length(pieces: usize, parts: usize) -> usize {
    pieces.div_ceil(parts)
}

impl CheckpointedCursor {
    pub(super) fn new(shape: Arc<HatShape>) -> Self {
        Self::with_parts(shape, PARTS)
    }

    pub(super) fn with_parts(shape: Arc<HatShape>, parts: usize) -> Self {
        let whole = PieceRange { pieces: 0..shape.pieces(), before: Before::new(), behind: [0.0; SLOTS] };
        let (stretches, running) = (vec![whole], RunningEstimates::default());
        Self { shape, parts, step: 0, stretches, lines: vec![], present: None, running }
    }

    /// The states before all parts of a stretch.
    fn cut(
        &self,
        pieces: Range<usize>,
        before: &Before,
        draw: &mut dyn FnMut(Node) -> i128,
    ) -> Vec<(Range<usize>, Before)> {
        let length = part_length(pieces.len(), self.parts);
        let mut now = before.clone();
        let mut parts = vec![];
        for start in pieces.clone().step_by(length) {
            let part = start..pieces.end.min(start + length);
            parts.push((part.clone(), now.clone()));
            if part.end < pieces.end {
                part.for_each(|index| now.pass(&self.shape, index, draw, |_, _| {}));
            }
        }
        parts
    }

    /// The backward pass over a few pieces; reports the open hats after each piece, the last piece first.
    fn back(
        &self,
        pieces: Range<usize>,
        before: &Before,
        mut open: NormalRow,
        draw: &mut dyn FnMut(Node) -> i128,
        mut passed: impl FnMut(usize, &NormalRow),
    ) -> NormalRow {
        let mut now = before.clone();
        let mut closed: Vec<Vec<(HatElimination, f64)>> = vec![];
        for index in pieces.clone() {
            let mut here = vec![];
            now.pass(&self.shape, index, draw, |column, solution| here.push((column, solution)));
            closed.push(here);
        }
        for (index, closed) in pieces.zip(closed).rev() {
            for (column, solution) in closed.iter().rev() {
                backward(column, *solution, &mut open);
            }
            passed(index, &open);
        }
        open
    }

    /// The open hats before a stretch.
    fn solve_backwards(&self, stretch: &PieceRange, draw: &mut dyn FnMut(Node) -> i128) -> NormalRow {
        let PieceRange { pieces, before, behind } = stretch;
        if pieces.len() <= self.parts {
            return self.back(pieces.clone(), before, *behind, draw, |_, _| {});
        }
        let parts = self.cut(pieces.clone(), before, draw);
        parts.into_iter().rev().fold(*behind, |behind, (pieces, before)| {
            self.solve_backwards(&PieceRange { pieces, before, behind }, draw)
        })
    }

    /// Replaces a stretch by its parts, with the states after them.
    fn split(&mut self, stretch: PieceRange, draw: &mut dyn FnMut(Node) -> i128) {
        let mut behind = stretch.behind;
        for (pieces, before) in self.cut(stretch.pieces, &stretch.before, draw).into_iter().rev() {
            let part = PieceRange { pieces, before, behind };
            if part.pieces.start > 0 {
                behind = self.solve_backwards(&part, draw);
            }
            self.stretches.push(part);
        }
    }

    /// The next piece and its line.
    fn next_piece(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> (LinearPiece, (f64, f64)) {
        while self.lines.is_empty() {
            let stretch = self.stretches.pop().expect("the step is within the horizon");
            if stretch.pieces.len() > self.parts {
                self.split(stretch, draw);
                continue;
            }
            let mut lines = vec![];
            self.back(stretch.pieces, &stretch.before, stretch.behind, draw, |index, open| {
                lines.push((index, line(&self.shape.piece(index), open)));
            });
            self.lines = lines;
        }
        let (index, line) = self.lines.pop().expect("it is not empty");
        (self.shape.piece(index), line)
    }
}

impl Cursor for CheckpointedCursor {
    fn step(&self) -> u64 {
        self.step
    }

    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        let known = self.present.take().filter(|(piece, _, released)| *released < piece.length);
        let (piece, line, k) = known.unwrap_or_else(|| {
            let (piece, line) = self.next_piece(draw);
            (piece, line, 0)
        });
        let noise = self.running.release(&piece, k, line, estimate(&piece, k, draw));
        (self.present, self.step) = (Some((piece, line, k + 1)), self.step + 1);
        noise
    }

    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        // One step earlier, so that the release itself is computed again.
        replay(self, step.saturating_sub(1), |now| Self::with_parts(now.shape.clone(), now.parts), draw);
        if step == 0 { 0 } else { self.advance(draw) }
    }
}

/// Draws per step, and words of memory, for this many pieces.
pub(super) fn cost(pieces: u64) -> (f64, u64) {
    let parts = PARTS as u64;
    let (mut draws, mut depth, mut length) = (2.0, 1, pieces); // the last solution, and the release
    while length > parts {
        // A forward pass, then a backward pass with a forward pass on every nested level.
        let mut within = length.div_ceil(parts);
        draws += 2.0;
        while within > parts {
            within = within.div_ceil(parts);
            draws += 1.0;
        }
        length = length.div_ceil(parts);
        depth += 1;
    }
    (draws, depth * parts * WORDS)
}
