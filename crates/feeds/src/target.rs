//! Where batches go: a stream of a service.

use super::{SourceBatch, SourcePosition};
use async_trait::async_trait;
use evertally_declare::error::PipelineError;
use serde::Deserialize;
use std::collections::BTreeMap;

/// A stream that accepts batches.
#[async_trait]
pub trait FeedTarget: Send + Sync {
    /// Its name for messages.
    fn shown(&self) -> String;

    /// The positions of the partitions of a source up to which rows were accepted.
    async fn positions(&self, source: &str) -> Result<BTreeMap<String, SourcePosition>, SendError>;

    /// Sends a batch with this body.
    async fn send(&self, source: &str, batch: &SourceBatch, body: Vec<u8>) -> Result<BatchAnswer, SendError>;
}

/// The answer to a batch.
#[derive(Debug)]
pub enum BatchAnswer {
    /// Its rows, of this number, are durable: now, or since before.
    Accepted(u64),
    /// The stream has another position: rows after that one are expected.
    Elsewhere(Option<SourcePosition>),
    /// Some rows cannot be accepted, so none were.
    BadRows(Vec<RefusedRow>),
    /// Rows belong to a part of the stream that is not open yet, so none were accepted.
    NotOpen {
        /// When it opens, in words.
        why: String,
        /// The first such row, as in [`RefusedRow`], if the rows before it can be accepted now.
        before_row: Option<u64>,
    },
}

/// Why there is no answer.
#[derive(Debug)]
pub enum SendError {
    /// The same may succeed later.
    Away(String),
    /// It will not succeed until somebody changes something.
    Refused(PipelineError),
}

/// A row that is not accepted.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct RefusedRow {
    /// The line of the body, or the row of a table, from 1.
    #[serde(default)]
    pub row: Option<u64>,
    /// The column.
    #[serde(default)]
    pub field: Option<String>,
    /// The problem.
    pub problem: String,
    /// The remedy.
    #[serde(default)]
    pub remedy: Option<String>,
}
