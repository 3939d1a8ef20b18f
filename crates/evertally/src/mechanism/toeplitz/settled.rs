//! The running sum of the cursors that solve `C W x = y` with one integer weight `W` for each of many stages of steps.
//!
//! The solutions `w_s`, in units of `2^-64` noise steps, are added up within a stage, and divided by `2^b W` once: when
//! the next stage begins, or for a release. So a stage is rounded once, however many steps it has.

use super::memory::{from_bytes, to_bytes};
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::state_space::segments::Segment;
use crate::number::wide::Wide;
use crate::{Error, Result};

/// Bits of a solution below the noise steps.
pub(in crate::mechanism) const GUARD: u32 = 64;
/// Bits of the running sum below those of the release: floors of up to 2^12 stages are negligible there.
const SUM_BITS: u32 = 16;
/// Bytes of a saved sum without the solutions of the current stage.
const SAVED: usize = 32;

/// Something that is constant on consecutive steps, with an integer weight.
pub(in crate::mechanism) trait WeightedStage {
    /// Its last step, from 1, and its weight.
    fn segment(&self) -> Segment;
}

impl WeightedStage for Segment {
    fn segment(&self) -> Segment {
        *self
    }
}

/// `Σ_s w_s / (2^b W_s)`, and the step up to which it is known.
///
/// A caller calls [`begin`](Self::begin) and then [`release`](Self::release) for every step.
#[derive(Clone, Debug)]
pub(in crate::mechanism) struct SettledSum {
    /// `b`.
    bits: u32,
    step: u64,
    /// Index of the stage of the last step.
    stage: usize,
    /// `Σ w` over the steps of this stage.
    run: Wide,
    /// The sum over the earlier stages, in units of `2^-(FRACTION_BITS + SUM_BITS)` of the grid.
    settled: i128,
    /// The noise part of the last release.
    last: i128,
}

impl SettledSum {
    /// Before the first step, with `2^bits` noise steps to one unit of weighted data.
    pub(in crate::mechanism) fn new(bits: u32) -> Self {
        Self { bits, step: 0, stage: 0, run: Wide::default(), settled: 0, last: 0 }
    }

    /// The number of steps so far.
    pub(in crate::mechanism) fn step(&self) -> u64 {
        self.step
    }

    /// The noise part of the last release.
    pub(in crate::mechanism) fn last(&self) -> i128 {
        self.last
    }

    /// The sum over the steps of this stage, in the units of `settled`.
    ///
    /// Fits: in both callers the data are below `2^(64+14)` weighted units, and noise is below `2^126 / 2^24` of them
    /// unless a draw exceeds 2^16 scales, which does not happen in the age of the universe.
    fn unsettled(&self, weight: u32) -> i128 {
        let sum = self.run.shifted_down(GUARD - FRACTION_BITS - SUM_BITS).shifted_down(self.bits).low();
        if weight == 1 { sum } else { sum.div_euclid(i128::from(weight)) }
    }

    /// Begins the next step, and returns its stage. At most the last step of the last stage.
    pub(in crate::mechanism) fn begin<'a, S: WeightedStage>(&mut self, stages: &'a [S]) -> &'a S {
        self.step += 1;
        let segment = stages[self.stage].segment();
        if self.step > segment.last {
            self.settled += self.unsettled(segment.weight);
            (self.run, self.stage) = (Wide::default(), self.stage + 1);
        }
        &stages[self.stage]
    }

    /// Adds the solution of the step that began, and returns the noise part of its release: the sum, rounded to
    /// `2^-FRACTION_BITS` of the grid, less the data's closed steps.
    pub(in crate::mechanism) fn release(&mut self, solved: Wide, weight: u32, closed: i64) -> i128 {
        self.run = self.run.plus(solved);
        let sum = self.settled + self.unsettled(weight);
        let release = (sum + (1 << (SUM_BITS - 1))) >> SUM_BITS;
        self.last = release - (i128::from(closed) << FRACTION_BITS);
        self.last
    }

    /// With the states of a cursor, of data and of protected integers: `64 d + 64` bytes.
    pub(in crate::mechanism) fn memory(&self, states: &[(Wide, Wide)]) -> Vec<u8> {
        let mut bytes = to_bytes(states, self.run);
        bytes.extend(self.settled.to_le_bytes());
        bytes.extend(self.last.to_le_bytes());
        bytes
    }

    /// From [`memory`](Self::memory) after a step, with as many states.
    ///
    /// # Errors
    /// If the memory has another length, or no stage has the step.
    pub(in crate::mechanism) fn recall<S: WeightedStage>(
        bits: u32,
        (step, stages): (u64, &[S]),
        memory: &[u8],
        states: &mut [(Wide, Wide)],
    ) -> Result<Self> {
        let stage = stages.partition_point(|stage| stage.segment().last < step);
        let known = from_bytes(memory, states, SAVED).filter(|_| stage < stages.len());
        let (run, sums) = known.ok_or_else(|| Error::state("the saved state belongs to another mechanism"))?;
        let number = |bytes: &[u8]| i128::from_le_bytes(bytes.try_into().expect("16 bytes"));
        Ok(Self { bits, step, stage, run, settled: number(&sums[..16]), last: number(&sums[16..]) })
    }
}
