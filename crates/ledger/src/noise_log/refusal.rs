//! Refusals to issue noise again.

use std::fmt;
use std::ops::Range;

/// A step whose noise is not issued, because it may have been issued for other data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepRefusal {
    /// The step.
    pub step: u64,
    /// The last step that was issued.
    pub last: u64,
    /// The reason.
    pub reason: RefusalReason,
}

/// Why a step is not issued again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// It was issued for other data.
    OtherData,
    /// It was issued, and nothing shows that it was for the same data.
    UnknownData,
    /// It was issued for these coordinates, which overlap.
    Overlap(Range<u64>),
    /// The parent process of this fork may issue it.
    Forked,
}

impl fmt::Display for StepRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, last, reason } = self;
        match reason {
            RefusalReason::OtherData => write!(
                f,
                "step {step} was issued for other data; with the same noise, the two releases would show their exact \
                 difference. Use the same data again, continue from the last state (step {last}), or give another name \
                 (its budget then adds to the budget already spent)"
            ),
            RefusalReason::UnknownData => write!(
                f,
                "step {step} was issued already, and nothing shows that it was for the same data. Continue from the \
                 last state (step {last}), or give another name (its budget then adds to the budget already spent)"
            ),
            RefusalReason::Overlap(part) => write!(
                f,
                "step {step} was issued for the coordinates {} to {}, which overlap with these. Give workers ranges \
                 that do not overlap, and keep them for the whole run",
                part.start,
                part.end - 1
            ),
            RefusalReason::Forked => write!(
                f,
                "the name was used by the parent process of this fork, and neither process knows what the other \
                 issues. Use another name here, or load the key from its file: then all processes know"
            ),
        }
    }
}

impl std::error::Error for StepRefusal {}
