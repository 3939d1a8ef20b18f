//! From a mechanism to the program of every step.
//!
//! A program is a pure function of mechanism, step, series and memory choice: it depends neither on the type of the
//! numbers nor on what ran before. Under both memory choices the same floating-point operations make a number; they
//! differ in what is looked up and what is computed again.

mod banded;
mod blt;
mod estimates;
mod inputs;
mod paths;
mod rows;

use super::blocks::Response;
use super::program::Op;
use super::scheme::Scheme;
use super::{Memory, Series};
use evertally::mechanism::{Streaming, names_that_stream};
use evertally::noise::Node;
use evertally::{Error, Result};

/// Levels of nodes are below: the rest of the names belongs to the tails of the normal variables.
const LEVELS: u32 = 128;

/// The programs of one mechanism, step by step.
pub(super) trait Schedule: Send + Sync {
    /// Appends the program of `step` (1 ..= T). The one before was of the step before, or this one follows
    /// [`rebuild`](Self::rebuild) of the step before, or it is the first.
    fn program(&mut self, step: u64, ops: &mut Vec<Op>);

    /// Appends the program that fills the buffers as they are after `step` (0 ..= T), and stands there. It takes the
    /// [kept](Self::kept) buffers as given if `given`; returns false where it cannot do without.
    fn rebuild(&mut self, step: u64, given: bool, ops: &mut Vec<Op>) -> bool;

    /// How many of the first buffers a saved state holds.
    fn kept(&self) -> usize;

    /// The program of a step in parts, where all that it writes follows from one vector. It stands in the place of
    /// [`program`](Self::program), and gives the same bits.
    fn apart(&self, _step: u64) -> Option<Apart> {
        None
    }

    /// What the rows of noise are that [`Op::Row`] loads, if it does.
    fn response(&self) -> Option<&Response> {
        None
    }
}

/// See [`Schedule::apart`]: the vector is in the accumulator after the first part, and before each of the others.
pub(super) struct Apart {
    /// Makes the vector, and writes nothing.
    pub(super) vector: Vec<Op>,
    /// Makes the noise of the vector, and writes nothing.
    pub(super) given: Vec<Op>,
    /// Writes to the buffers.
    pub(super) owed: Vec<Op>,
}

/// What all schedules need to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) horizon: u64,
    pub(super) sigma: f64,
    pub(super) series: Series,
    pub(super) memory: Memory,
}

impl Frame {
    fn draw(&self, node: Node, weight: f64) -> Op {
        debug_assert!(node.level < LEVELS);
        Op::Draw { node, scale: self.sigma * weight }
    }

    /// The node of a step of a mechanism without levels.
    fn innovation(&self, step: u64, weight: f64) -> Op {
        self.draw(Node { level: 0, index: step - 1 }, weight)
    }

    fn keeps(&self) -> bool {
        self.memory == Memory::Keep
    }

    /// Whether running sums are given out.
    fn sums(&self) -> bool {
        self.series == Series::RunningSums
    }
}

/// The schedule of a scheme.
///
/// # Errors
/// If its mechanism does not stream, or its nodes have no names here.
pub(super) fn schedule(scheme: &Scheme, memory: Memory) -> Result<Box<dyn Schedule>> {
    let mechanism = &scheme.mechanism;
    let frame = Frame { horizon: mechanism.horizon(), sigma: scheme.sigma, series: scheme.series, memory };
    Ok(match mechanism.streaming() {
        Some(Streaming::Paths(walk)) => {
            let mut levels = 0;
            walk.visit(frame.horizon, &mut |node, _| levels = levels.max(node.level));
            if levels >= LEVELS {
                return Err(Error::invalid(format!("`{}` has too many levels for vectors", mechanism.name())));
            }
            Box::new(paths::Paths::new(frame, walk))
        }
        Some(Streaming::Inputs) => Box::new(inputs::Inputs(frame)),
        Some(Streaming::Estimates) => Box::new(estimates::Estimates(frame)),
        Some(Streaming::Buffers(steps)) => Box::new(blt::Buffers { frame, steps }),
        Some(Streaming::Outputs(past)) => Box::new(banded::Outputs { frame, past, scales: None }),
        Some(Streaming::Bands(bands)) => {
            Box::new(banded::Outputs { frame, past: bands.past, scales: Some(bands.scales) })
        }
        Some(Streaming::Innovations(weights)) => Box::new(banded::Innovations { frame, weights }),
        Some(Streaming::Convolution(steps)) => Box::new(rows::Rows::new(&frame, steps)),
        None => {
            return Err(Error::invalid(format!(
                "`{}` cannot be drawn for vectors step by step; take one of {}",
                mechanism.name(),
                names_that_stream()
            )));
        }
    })
}
