//! Queries the counts as steps close, and collects the answers.

use anyhow::Result;
use evertally_publish::session::{Accumulator, Session};

/// Queries the counts as steps close.
pub(super) trait Querier<T: Accumulator> {
    /// Answers the queries of all closed steps that are due.
    fn answer_due(&mut self, session: &mut Session<T>) -> Result<()>;

    /// The answers.
    fn found(self) -> QueryResults;
}

/// The answers to all queries.
pub(super) struct QueryResults {
    /// The texts of the items, by index.
    pub(super) names: Vec<Vec<String>>,
    pub(super) given: Vec<ItemAnswer>,
    pub(super) off: AnswerError,
    /// Without a list: the count from which a key is listed with the declared confidence.
    pub(super) surely: Option<f64>,
}

/// The answer to a query of an item, given by its index in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemAnswer {
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
pub(super) struct AnswerError {
    pub(super) std_error: f64,
    /// The part of it that collisions add to the noise.
    pub(super) collisions: f64,
    pub(super) half_width: f64,
}
