//! Searches that take minutes.

use super::{Mechanism, MechanismName, Objective};
use crate::Result;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A search that takes minutes, so that a program keeps its results: they are bytes, which are read back in a moment.
#[derive(Clone, Copy, Debug)]
pub struct LongSearch {
    /// The longest horizon.
    pub longest: u64,
    /// The variance that a name minimises; `None` if it leaves this open.
    pub objective: fn(MechanismName) -> Option<Objective>,
    /// Searches over a horizon. The last argument receives the completed share of the work, 0 to 1, and may cancel the
    /// search, which then fails with [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    pub run: fn(u64, Objective, &mut dyn FnMut(f64) -> ControlFlow<()>) -> Result<SearchedMechanism>,
    /// The mechanism of these bytes. Its guarantee follows from them, not from their writer.
    pub read: fn(&[u8]) -> Result<Arc<dyn Mechanism>>,
}

/// The result of a search.
#[derive(Clone, Debug)]
pub struct SearchedMechanism {
    /// The mechanism.
    pub mechanism: Arc<dyn Mechanism>,
    /// The same as bytes.
    pub bytes: Vec<u8>,
}
