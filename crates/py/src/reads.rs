//! Claims of reads, whose noise depends on all earlier reads of the object.

use crate::key::PySecretKey;
use crate::watch::{Class, Watch};
use evertally::noise::{GuardedKey, NoiseClaim, NoiseRecord, StepClaim, StepRecord, StreamName};
use evertally::stream::LazyPlan;
use evertally::{Error, ErrorKind};
use evertally_ledger::noise_log::{StepSpan, UNKNOWN};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, MutexGuard};

/// Watches the reads of a vector or sketch, which claims them before it draws their noise.
///
/// The first read of a call is logged before its noise is drawn: every other object in the same state would log it,
/// too, and is refused. The further reads of the call are logged together at its end.
pub(crate) struct ReadWatch {
    watch: Watch,
    call: Mutex<Call>,
}

/// What the running call has claimed.
#[derive(Default)]
struct Call {
    /// The reads that are logged, or will be at the end of the call.
    reads: Option<StepSpan>,
    /// The number of logged reads.
    logged: u64,
    resumed_from: u64,
    /// Why the first read was refused.
    refusal: Option<PyErr>,
}

impl ReadWatch {
    /// Watches the reads of an object.
    pub(crate) fn new(class: Class, key: &PySecretKey, name: &StreamName, plan: &LazyPlan) -> Arc<Self> {
        let purpose = format!("reads {}", plan.sampling());
        let watch = Watch::new(class, key, name, &plan.plan().digest(), purpose.as_bytes());
        Arc::new(Self { watch, call: Mutex::default() })
    }

    /// The key for the object's noise.
    pub(crate) fn key(self: &Arc<Self>) -> GuardedKey {
        GuardedKey::new(Arc::clone(self.watch.secret()), ReadRecord(Arc::clone(self)))
    }

    /// Makes reads. One call at a time: the caller holds the object's lock.
    pub(crate) fn reading<T>(&self, py: Python<'_>, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
        *self.call() = Call::default();
        let done = work();
        let call = std::mem::take(&mut *self.call());
        if let Some(refusal) = call.refusal {
            return Err(refusal);
        }
        if let Some(reads) = call.reads {
            let rest = StepSpan { first: reads.first + call.logged, ..reads }; // fits: at most `last` + 1
            if rest.first <= rest.last {
                self.watch.give_since(py, &[rest], call.resumed_from)?;
            }
        }
        done
    }

    fn call(&self) -> MutexGuard<'_, Call> {
        self.call.lock().expect("no holder panics")
    }
}

impl StepRecord for ReadWatch {
    fn claim(&self, claim: &StepClaim<'_>) -> evertally::Result<()> {
        let (first, last) = (*claim.steps.start(), *claim.steps.end());
        if let Some(reads) = &mut self.call().reads {
            reads.last = last;
            return Ok(());
        }
        let span = StepSpan { first, last, mark: UNKNOWN };
        match Python::attach(|py| self.watch.give_since(py, &[span], claim.resumed_from)) {
            Ok(()) => {
                let logged = last - first + 1; // fits: reads are numbered from 1
                *self.call() = Call { reads: Some(span), logged, resumed_from: claim.resumed_from, refusal: None };
                Ok(())
            }
            Err(refusal) => {
                self.call().refusal = Some(refusal);
                Err(Error::new(ErrorKind::NoiseIssued, "the read is refused"))
            }
        }
    }
}

/// The record of the object's key.
struct ReadRecord(Arc<ReadWatch>);

impl NoiseRecord for ReadRecord {
    /// Called for keys that anyone can compute alone: reads under other keys are claimed one by one.
    fn claim(&self, _: &NoiseClaim<'_>) -> evertally::Result<()> {
        Ok(())
    }

    fn steps(&self, _: &NoiseClaim<'_>) -> evertally::Result<Option<Arc<dyn StepRecord>>> {
        let is_watched = self.0.watch.marker().is_some();
        Ok(is_watched.then(|| Arc::clone(&self.0) as Arc<dyn StepRecord>))
    }
}
