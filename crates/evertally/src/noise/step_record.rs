//! Records of the steps of noise that were issued, and of the data they were issued for.
//!
//! A [`NoiseRecord`](super::NoiseRecord) knows which objects issue noise. One that also knows their steps allows more,
//! and refuses more: an object may be created a second time, or restored from an old state, and its steps are issued
//! again for the same data, but never for other data.

use crate::Result;
use evertally_kernels::FloatSlice;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The data that the noise of a step is added to.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum StepData<'a> {
    /// Nothing identifies them. The step is issued once, and never again.
    Unknown,
    /// A running sum in multiples of the grid.
    Sum(i64),
    /// The elements of a vector.
    Vector {
        /// The numbers.
        numbers: FloatSlice<'a>,
        /// The number of threads that may read them; 0: one per processor.
        threads: usize,
    },
}

/// Steps that an object is about to issue, all for the same data.
#[derive(Clone, Debug)]
pub struct StepClaim<'a> {
    /// The steps.
    pub steps: RangeInclusive<u64>,
    /// The data.
    pub data: StepData<'a>,
    /// The step of the saved state that the object was restored from, 0 for a new object. Steps up to this one may have
    /// been issued where this record cannot see it.
    pub resumed_from: u64,
}

/// A record of the steps of one object's noise: recorded steps are issued again only for the same data.
pub trait StepRecord: Send + Sync {
    /// Records that these steps are issued, as durably as the record is, or returns an error. Called before any of the
    /// noise is issued.
    ///
    /// # Errors
    /// [`ErrorKind::NoiseIssued`](crate::ErrorKind::NoiseIssued) if a step may have been issued for other data; others
    /// if the record cannot be read or written.
    fn claim(&self, claim: &StepClaim<'_>) -> Result<()>;
}

/// Claims the steps of one object in the record of its key, if that records steps.
#[derive(Clone, Default)]
pub struct StepGuard {
    record: Option<Arc<dyn StepRecord>>,
    resumed_from: u64,
}

impl StepGuard {
    pub(super) fn new(record: Option<Arc<dyn StepRecord>>) -> Self {
        Self { record, resumed_from: 0 }
    }

    /// The guard of an object that was restored from a state after this step.
    #[must_use]
    pub fn resumed_from(self, step: u64) -> Self {
        Self { resumed_from: step, ..self }
    }

    /// Claims steps that are about to be issued for some data.
    ///
    /// # Errors
    /// As [`StepRecord::claim`]. Nothing is recorded then, and nothing may be issued.
    pub fn claim(&self, steps: RangeInclusive<u64>, data: StepData<'_>) -> Result<()> {
        let Some(record) = &self.record else { return Ok(()) };
        record.claim(&StepClaim { steps, data, resumed_from: self.resumed_from })
    }
}
