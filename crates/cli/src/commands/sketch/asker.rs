//! Queries the counts as steps close, and collects the answers.

use anyhow::Result;
use evertally_publish::session::{Session, Tally};

/// Queries the counts as steps close.
pub(super) trait Asker<T: Tally> {
    /// Answers the queries of all closed steps that are due.
    fn take_due(&mut self, session: &mut Session<T>) -> Result<()>;

    /// The answers.
    fn found(self) -> Found;
}

/// The answers to all queries.
pub(super) struct Found {
    /// The texts of the items, by index.
    pub(super) names: Vec<Vec<String>>,
    pub(super) given: Vec<Answer>,
    pub(super) off: Off,
    /// Without a list: the count from which a key is listed with the declared confidence.
    pub(super) surely: Option<f64>,
}

/// The answer to a query of an item, given by its index in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) item: usize,
    pub(super) step: u64,
    pub(super) value: f64,
    /// From noise and collisions.
    pub(super) std_error: f64,
    pub(super) lower: f64,
    pub(super) upper: f64,
}

/// The error of answers for items that were not selected by their estimates, computed from released cells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Off {
    pub(super) std_error: f64,
    /// The part of it that collisions add to the noise.
    pub(super) collisions: f64,
    pub(super) half_width: f64,
}
