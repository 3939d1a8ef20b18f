//! The computation of a step, as a list of operations on whole vectors.
//!
//! An operation works on an accumulator, registers and buffers; all of them are vectors with an element for every
//! coordinate. A program is run on one piece of coordinates after the other, with accumulator and registers in the
//! cache, so a step touches each buffer and the caller's slice once. The only numbers in programs are weights: the
//! same program runs in `f32`, in `f64`, or on linear forms of the nodes, which the tests use to verify it.

use evertally::mechanism::BufferSteps;
use evertally::noise::Node;
use std::sync::Arc;

/// The number of a buffer.
pub(super) type Slot = usize;

/// Number of registers.
pub(super) const REGISTERS: usize = 2;

/// One operation. The accumulator `acc` is 0 when a program begins.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// `acc = 0`
    Clear,
    /// `acc =` the noise of a step (from 0), one of those computed at once: see [`blocks`](super::blocks)
    Row(u64),
    /// `acc = buffer`
    Load(Slot),
    /// `acc += weight · buffer`
    Add {
        /// The buffer.
        slot: Slot,
        /// Its weight.
        weight: f64,
    },
    /// `acc += scale · z(node)`
    Draw {
        /// The noise variable.
        node: Node,
        /// Its weight, with the σ of the noise.
        scale: f64,
    },
    /// `acc += scale · z(node)` for the node of one step after the other, of mechanisms without levels
    DrawThrough {
        /// How many steps.
        steps: u64,
        /// The weight of all of them, with the σ of the noise.
        scale: f64,
    },
    /// `acc *= factor`
    Scale(f64),
    /// `buffer = acc`
    Store(Slot),
    /// `buffer += acc`, then `acc = buffer`
    Accumulate(Slot),
    /// `buffer = acc`, and `acc -= ` the buffer's old value
    Difference(Slot),
    /// `register = acc`
    Save(usize),
    /// `acc = register`
    Restore(usize),
    /// `acc -= register`
    Subtract(usize),
    /// One step of a BLT's inverse, with its buffers in the first slots: see [`BufferSteps`].
    UndoBuffers {
        /// The recurrence.
        steps: Arc<BufferSteps>,
        /// The factor of the result.
        factor: f64,
    },
}

impl Op {
    /// The number of buffers that this operation needs.
    pub(super) fn buffers(&self) -> usize {
        match self {
            Self::Load(slot)
            | Self::Add { slot, .. }
            | Self::Store(slot)
            | Self::Accumulate(slot)
            | Self::Difference(slot) => slot + 1,
            Self::UndoBuffers { steps, .. } => steps.gaps.len(),
            Self::Clear
            | Self::Row(_)
            | Self::Draw { .. }
            | Self::DrawThrough { .. }
            | Self::Scale(_)
            | Self::Save(_)
            | Self::Restore(_)
            | Self::Subtract(_) => 0,
        }
    }
}
