//! Runs a program on the coordinates of a worker, piece by piece.
//!
//! Pieces end at multiples of [`PIECE`] coordinates, counted globally, so that keystreams are filled in whole groups;
//! but an element never depends on the piece it is in.

use super::blocks::Blocks;
use super::buffer::Buffer;
use super::program::{Op, REGISTERS};
use evertally::mechanism::MAX_BUFFERS;
use evertally::noise::Node;
use evertally::number::threads::{helpful, share};
use evertally_kernels::{BlockName, InstructionSet, Normals, Real};
use smallvec::SmallVec;
use std::ops::Range;

/// Coordinates that are processed at once: accumulator, registers and normal variables stay in the fastest cache.
pub(super) const PIECE: usize = 1024;

/// The use of the accumulator at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Emit {
    /// It replaces the contents of the caller's slice.
    Set,
    /// It is added to the caller's slice.
    Add,
}

/// A program, and whether its writes are kept. If not, its accumulator is the same and the buffers stay unchanged: no
/// program reads a buffer that it has written to.
#[derive(Clone, Copy)]
pub(super) struct ProgramPass<'a> {
    pub(super) ops: &'a [Op],
    pub(super) writes: bool,
}

/// The vectors of a range of coordinates.
struct Lane<'a, F> {
    /// The first coordinate.
    first: u64,
    len: usize,
    buffers: Vec<&'a mut [F]>,
    /// The caller's slice, if the program has an output.
    out: Option<&'a mut [F]>,
}

impl<F> Lane<'_, F> {
    /// Splits off the first `len` coordinates.
    fn split(self, len: usize) -> (Self, Self) {
        let (near, far) = self.buffers.into_iter().map(|buffer| buffer.split_at_mut(len)).unzip();
        let (out, rest) = self.out.map(|out| out.split_at_mut(len)).unzip();
        let end = Self { first: self.first + len as u64, len: self.len - len, buffers: far, out: rest };
        (Self { first: self.first, len, buffers: near, out }, end)
    }

    /// Splits into `lanes` lanes of similar length at multiples of [`PIECE`].
    fn cut(self, count: usize) -> Vec<Self> {
        let mut lanes = Vec::with_capacity(count);
        let mut rest = self;
        for left in (2..=count).rev() {
            let middle = rest.len / left;
            let end = middle + until_boundary(rest.first + middle as u64);
            let whole = rest.len;
            let (near, far) = rest.split(end.min(whole));
            lanes.push(near);
            rest = far;
        }
        lanes.push(rest);
        lanes
    }
}

/// Coordinates up to the next multiple of [`PIECE`]; 0 at one.
fn until_boundary(coordinate: u64) -> usize {
    (coordinate.next_multiple_of(PIECE as u64) - coordinate) as usize
}

/// The sources of a program's noise.
pub(super) struct Sources<'a, F> {
    pub(super) normals: &'a Normals,
    /// For [`Op::Row`].
    pub(super) rows: Option<&'a Blocks<F>>,
}

/// Runs programs, one after another on each piece, over the `len` coordinates from `first` on. The output is the
/// accumulator of the last program.
pub(super) fn run<F: Real>(
    passes: &[ProgramPass<'_>],
    sources: &Sources<'_, F>,
    threads: usize,
    (first, len): (u64, usize),
    buffers: &mut [Buffer<F>],
    out: Option<(&mut [F], Emit)>,
) {
    let emit = out.as_ref().map_or(Emit::Set, |(_, emit)| *emit);
    let buffers = buffers.iter_mut().map(|buffer| &mut buffer[..]).collect();
    let lane = Lane { first, len, buffers, out: out.map(|(out, _)| out) };
    let threads = helpful(threads, len);
    share(threads, lane.cut(threads).into_iter(), |lanes| {
        let mut worker = Worker::new(sources);
        lanes.for_each(|lane| worker.run(passes, lane, emit));
    });
}

/// The working memory of one thread.
struct Worker<'a, F> {
    sources: &'a Sources<'a, F>,
    instructions: InstructionSet,
    acc: Vec<F>,
    drawn: Vec<F>,
    registers: [Vec<F>; REGISTERS],
    /// Copies of pieces of buffers that must not change.
    copies: Vec<F>,
}

impl<'a, F: Real> Worker<'a, F> {
    fn new(sources: &'a Sources<'a, F>) -> Self {
        let vector = || vec![F::default(); PIECE];
        Self {
            sources,
            instructions: sources.normals.instructions(),
            acc: vector(),
            drawn: vector(),
            registers: std::array::from_fn(|_| vector()),
            copies: vec![],
        }
    }

    fn run(&mut self, passes: &[ProgramPass<'_>], mut lane: Lane<'_, F>, emit: Emit) {
        let mut own = std::mem::take(&mut self.acc);
        let mut done = 0;
        while done < lane.len {
            let first = lane.first + done as u64;
            let len = (until_boundary(first + 1) + 1).min(lane.len - done);
            let place = done..done + len;
            let mut out = lane.out.as_deref_mut().map(|out| &mut out[place.clone()]);
            // What replaces the caller's numbers is summed in their place.
            let acc = match &mut out {
                Some(out) if emit == Emit::Set => out,
                _ => &mut own[..len],
            };
            for ProgramPass { ops, writes } in passes {
                for op in self.begin(ops, first, acc) {
                    match writes {
                        true => self.apply(op, first, acc, place.clone(), &mut lane.buffers),
                        false => self.apply_without_writing(op, first, acc, place.clone(), &mut lane.buffers),
                    }
                }
            }
            if let (Some(out), Emit::Add) = (out, emit) {
                F::add(self.instructions, out, &own[..len]);
            }
            done += len;
        }
        self.acc = own;
    }

    /// The accumulator before all operations, or after the first if that is quicker; returns the others.
    fn begin<'b>(&self, ops: &'b [Op], first: u64, acc: &mut [F]) -> &'b [Op] {
        match ops {
            [Op::Load(_), ..] => ops,
            [Op::Draw { node, scale }, others @ ..] => {
                F::draw(self.sources.normals, name(*node), first, acc);
                F::begin_sum(self.instructions, acc, F::of(*scale));
                others
            }
            _ => {
                acc.fill(F::default());
                ops
            }
        }
    }

    /// One operation on one piece: the coordinates from `first` on, which begin at `place` in the buffers.
    fn apply(&mut self, op: &Op, first: u64, acc: &mut [F], place: Range<usize>, buffers: &mut [&mut [F]]) {
        let (instructions, len) = (self.instructions, place.len());
        match op {
            Op::Clear => acc.fill(F::default()),
            Op::Row(step) => self.sources.rows.expect("rows for a program of rows").copy_row(*step, first, acc),
            Op::Load(slot) => acc.copy_from_slice(&buffers[*slot][place]),
            Op::Add { slot, weight } => F::add_scaled(instructions, acc, F::of(*weight), &buffers[*slot][place]),
            Op::Draw { node, scale } => {
                let drawn = &mut self.drawn[..len];
                F::draw(self.sources.normals, name(*node), first, drawn);
                F::add_scaled(instructions, acc, F::of(*scale), drawn);
            }
            Op::DrawThrough { steps, scale } => {
                let (drawn, scale) = (&mut self.drawn[..len], F::of(*scale));
                for index in 0..*steps {
                    F::draw(self.sources.normals, name(Node { level: 0, index }), first, drawn);
                    F::add_scaled(instructions, acc, scale, drawn);
                }
            }
            Op::Scale(factor) => F::scale(instructions, acc, F::of(*factor)),
            Op::Store(slot) => buffers[*slot][place].copy_from_slice(acc),
            Op::Accumulate(slot) => F::accumulate(instructions, &mut buffers[*slot][place], acc),
            Op::Difference(slot) => F::difference(instructions, &mut buffers[*slot][place], acc),
            Op::Save(register) => self.registers[*register][..len].copy_from_slice(acc),
            Op::Restore(register) => acc.copy_from_slice(&self.registers[*register][..len]),
            Op::Subtract(register) => F::subtract(instructions, acc, &self.registers[*register][..len]),
            Op::UndoBuffers { steps, factor } => {
                let rounded = |values: &[f64]| values.iter().map(|v| F::of(*v)).collect::<SmallVec<[F; MAX_BUFFERS]>>();
                let (gaps, echoes) = (rounded(&steps.gaps), rounded(&steps.echoes));
                let pieces = buffers[..gaps.len()].iter_mut().map(|buffer| &mut buffer[place.clone()]);
                let mut pieces: SmallVec<[&mut [F]; MAX_BUFFERS]> = pieces.collect();
                F::undo_buffers(instructions, acc, &mut pieces, &gaps, &echoes, F::of(*factor));
            }
        }
    }

    /// The same effect on the accumulator and the registers, bit for bit.
    fn apply_without_writing(
        &mut self,
        op: &Op,
        first: u64,
        acc: &mut [F],
        place: Range<usize>,
        buffers: &mut [&mut [F]],
    ) {
        match op {
            Op::Store(_) => {}
            Op::Accumulate(slot) => F::add(self.instructions, acc, &buffers[*slot][place]),
            Op::Difference(slot) => F::subtract(self.instructions, acc, &buffers[*slot][place]),
            Op::UndoBuffers { steps, .. } => {
                let len = place.len();
                let mut copies = std::mem::take(&mut self.copies);
                copies.clear();
                buffers[..steps.gaps.len()].iter().for_each(|buffer| copies.extend_from_slice(&buffer[place.clone()]));
                let mut pieces: Vec<&mut [F]> = copies.chunks_mut(len).collect();
                self.apply(op, first, acc, 0..len, &mut pieces);
                drop(pieces);
                self.copies = copies;
            }
            op => self.apply(op, first, acc, place, buffers),
        }
    }
}

/// The name of a node in the keystream.
pub(super) fn name(node: Node) -> BlockName {
    // fits: schedules refuse levels from 128 on.
    BlockName { level: node.level as u8, index: node.index }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_end_at_boundaries() {
        for (first, len, count) in [(0u64, 5000usize, 2usize), (1000, 9999, 3), (1023, 4097, 4), (7, 1_000_000, 5)] {
            let mut out = vec![0.0f32; len];
            let lane = Lane { first, len, buffers: vec![], out: Some(&mut out) };
            let lanes = lane.cut(count);
            assert_eq!(lanes.len(), count);
            assert_eq!(lanes.iter().map(|lane| lane.len).sum::<usize>(), len);
            let mut next = first;
            for lane in lanes {
                assert!(lane.first == next && lane.out.is_some_and(|out| out.len() == lane.len));
                next += lane.len as u64;
                assert!(next % PIECE as u64 == 0 || next == first + len as u64);
            }
        }
    }
}
