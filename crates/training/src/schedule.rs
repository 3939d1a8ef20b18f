//! From a mechanism to the program of every step.
//!
//! A program is a pure function of mechanism, step, series and memory choice: it depends neither on the type of the
//! numbers nor on earlier programs. Under both memory choices the same floating-point operations compute a number;
//! the choices differ in which values are looked up and which are computed again.

mod banded;
mod blt;
mod estimates;
mod inputs;
mod paths;
mod rows;
mod triangular;

use super::blocks::Response;
use super::program::Op;
use super::scheme::Scheme;
use super::{Memory, Series};
use evertally::mechanism::{Streaming, streaming_names};
use evertally::noise::Node;
use evertally::{Error, Result};

/// Levels of nodes are below this bound: the other names belong to the tails of the normal variables.
const LEVELS: u32 = 128;

/// The programs of one mechanism, step by step.
pub(super) trait Schedule: Send + Sync {
    /// Appends the program of `step` (1 ..= T). The previous call was for the previous step, or was
    /// [`rebuild`](Self::rebuild) of it, or this is the first step.
    fn program(&mut self, step: u64, ops: &mut Vec<Op>);

    /// Appends the program that fills the buffers as they are after `step` (0 ..= T), and moves there. If `given`,
    /// it expects the [kept](Self::kept) buffers to be filled; returns false if it needs them but they are not
    /// given.
    fn rebuild(&mut self, step: u64, given: bool, ops: &mut Vec<Op>) -> bool;

    /// The number of leading buffers that a saved state holds.
    fn kept(&self) -> usize;

    /// The program of a step in parts, if all of its writes follow from one vector. Use it instead of
    /// [`program`](Self::program); the bits are the same.
    fn split_program(&self, _step: u64) -> Option<SplitProgram> {
        None
    }

    /// The response that makes the rows of noise that [`Op::Row`] loads, if any.
    fn response(&self) -> Option<&Response> {
        None
    }
}

/// See [`Schedule::split_program`]: the vector is in the accumulator after the first part, and before each of the
/// others.
pub(super) struct SplitProgram {
    /// Makes the vector, and writes nothing.
    pub(super) vector: Vec<Op>,
    /// Makes the noise of the vector, and writes nothing.
    pub(super) noise: Vec<Op>,
    /// Writes to the buffers.
    pub(super) writes: Vec<Op>,
}

/// The data that all schedules need.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScheduleData {
    pub(super) horizon: u64,
    pub(super) sigma: f64,
    pub(super) series: Series,
    pub(super) memory: Memory,
}

impl ScheduleData {
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

    /// Whether running sums are returned.
    fn sums(&self) -> bool {
        self.series == Series::RunningSums
    }
}

/// The schedule of a scheme.
///
/// # Errors
/// If its mechanism does not stream, or has too many levels of nodes.
pub(super) fn schedule(scheme: &Scheme, memory: Memory) -> Result<Box<dyn Schedule>> {
    let mechanism = &scheme.mechanism;
    let frame = ScheduleData { horizon: mechanism.horizon(), sigma: scheme.sigma, series: scheme.series, memory };
    Ok(match mechanism.streaming() {
        Some(Streaming::Paths(walk)) => {
            let mut levels = 0;
            walk.visit(frame.horizon, &mut |node, _| levels = levels.max(node.level));
            if levels >= LEVELS {
                return Err(Error::invalid(format!("`{}` has too many levels for vectors", mechanism.name())));
            }
            Box::new(paths::PathsSchedule::new(frame, walk))
        }
        Some(Streaming::Inputs) => Box::new(inputs::Inputs(frame)),
        Some(Streaming::Estimates) => Box::new(estimates::Estimates(frame)),
        Some(Streaming::Buffers(steps)) => Box::new(blt::BltSchedule { frame, steps }),
        Some(Streaming::Outputs(past)) => Box::new(banded::Outputs { frame, past, scales: None }),
        Some(Streaming::Bands(bands)) => {
            Box::new(banded::Outputs { frame, past: bands.past, scales: Some(bands.scales) })
        }
        Some(Streaming::Triangular(steps)) => Box::new(triangular::Triangular { frame, steps }),
        Some(Streaming::Innovations(weights)) => Box::new(banded::Innovations { frame, weights }),
        Some(Streaming::Convolution(steps)) => Box::new(rows::RowsSchedule::new(&frame, steps)),
        None => {
            return Err(Error::invalid(format!(
                "`{}` cannot be drawn for vectors step by step; use one of {}",
                mechanism.name(),
                streaming_names()
            )));
        }
    })
}
