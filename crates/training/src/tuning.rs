//! Settings that change only the speed of drawing noise.

use super::InstructionSet;

/// How a [`VectorNoise`](super::VectorNoise) works. No choice changes a byte of the noise.
///
/// ```
/// use evertally_training::{Memory, Tuning};
/// let frugal = Tuning { memory: Memory::Recompute, threads: 1, ..Tuning::default() };
/// assert_eq!(Tuning::default().memory, Memory::Keep);
/// # let _ = frugal;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Maximum number of threads that draw at once; 0 for as many as processors. Short vectors use fewer.
    pub threads: usize,
    /// Whether partial sums are kept.
    pub memory: Memory,
    /// The instructions to use.
    pub instructions: InstructionSet,
}

impl Default for Tuning {
    /// All processors, all memory, the best instructions.
    fn default() -> Self {
        Self { threads: 0, memory: Memory::Keep, instructions: InstructionSet::best() }
    }
}

/// The vectors kept between steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Memory {
    /// Keeps vectors that later steps can use: about one draw a step, and up to `log T` vectors for trees. `sqrt` and
    /// `normalized-sqrt` compute up to 16 blocks of steps at once, each of about `2 √T` and at least 32, as long as
    /// their noise takes at most 1 GiB.
    Keep,
    /// Keeps as little as possible: trees draw the whole path of every step and keep nothing, `input` draws every step
    /// so far, and `banded-inverse-sqrt` all innovations of its bands; `sqrt` and `normalized-sqrt` compute one block
    /// at a time. Mechanisms whose noise cannot be drawn again from the key keep the vectors that they need.
    Recompute,
}
