//! Sources of events: brokers, databases and object stores, followed so that each event is counted once.
//!
//! A [`Source`] consists of partitions, which are read in order. A [`SourcePosition`] is a place between two rows of a
//! partition, as text that only its source understands: an offset of Kafka, an id of Redis, the names of objects. The
//! service stores the position of a partition together with the rows before it, in one commit, and accepts a batch only
//! if it begins at the stored position. Therefore neither a crash on either side, nor a lost answer, nor a second
//! feeder can count a row twice or lose one, and a feeder keeps no state.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod address;
mod aside;
mod dial;
mod encoding;
mod files;
mod following;
mod http;
mod kafka;
mod log_pause;
mod mqtt;
mod nats;
mod objects;
mod opening;
mod postgres;
mod redis_streams;
mod remote_write;
mod rows;
mod run;
mod sink;
mod stdin;
mod target;
mod time;
mod tls;
mod warning;

pub use address::{Address, Query};
pub use aside::{asides, remove_old_asides};
pub use dial::check_password_file;
pub use files::{FileOptions, open_files};
pub use following::{FollowOptions, Observer, Sent, blocking, follow};
pub use http::{Remote, RemoteTls, Token, http_agent, is_this_machine};
pub use log_pause::LogPause;
pub use opening::{SCHEMES, SINK_SCHEMES, open, open_sink};
pub use remote_write::Samples;
pub use rows::{Origins, RowWriter, Rows};
pub use run::run;
pub use sink::{Sink, SinkContent, SinkMemory};
pub use stdin::open_stdin;
pub use target::{BatchAnswer, FeedTarget, RefusedRow, SendError};
pub use tokio_util::sync::CancellationToken;
pub use warning::SourceWarning;

use async_trait::async_trait;
use evertally_declare::error::{PipelineError, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A place in a partition, between two rows, as text of at most [`MAX_POSITION_BYTES`] bytes.
pub type SourcePosition = String;

/// The most bytes of a position.
pub const MAX_POSITION_BYTES: usize = 4096;

/// What a source needs besides its URL.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// A file with the password of the user in the URL, or with a token, if there is no user.
    pub password_file: Option<PathBuf>,
    /// A file with the certificate of the authority of the other side, if that is not a public one.
    pub authority: Option<PathBuf>,
    /// A file with the certificate of this side and its chain, and one with its private key, for a server that knows
    /// its clients by them.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Whether rows get what the source knows about them, in further fields: `_time`, `_key`, `_topic`.
    pub with_metadata: bool,
}

/// The most that a batch may contain.
#[derive(Clone, Copy, Debug)]
pub struct BatchLimits {
    /// Rows.
    pub rows: usize,
    /// Bytes. A single row that has more is a separate batch.
    pub bytes: usize,
    /// How long to wait for a first row.
    pub wait: Duration,
}

/// Rows of one partition.
#[derive(Clone, Debug)]
pub struct SourceBatch {
    /// The partition.
    pub partition: String,
    /// The position before them; `None` at the beginning of the partition.
    pub after: Option<SourcePosition>,
    /// The position after them.
    pub position: SourcePosition,
    /// The rows. There may be none, if everything up to the position is to be passed over.
    pub rows: Rows,
}

/// Why a source gives no batch.
#[derive(Debug)]
pub enum SourceError {
    /// It cannot be reached, or is not ready: the same call may succeed later.
    Away(String),
    /// It will not succeed until somebody changes something.
    Fault(PipelineError),
}

/// What a source gives.
pub(crate) type SourceOutcome<T> = std::result::Result<T, SourceError>;

impl From<PipelineError> for SourceError {
    fn from(error: PipelineError) -> Self {
        Self::Fault(error)
    }
}

/// A source of events.
///
/// The caller asks for the [partitions](Self::partitions), [seeks](Self::seek) each to the position that the service
/// has, and then takes batches. It seeks again when the service has another position than expected, and after
/// [`SourceError::Away`] it seeks in every partition before it takes the next batch.
#[async_trait]
pub trait Source: Send {
    /// Its name for messages, without passwords.
    fn shown(&self) -> String;

    /// A partition for messages.
    fn place(&self, partition: &str) -> String {
        match partition {
            "" => self.shown(),
            partition => format!("{}, partition {partition}", self.shown()),
        }
    }

    /// The name of its data, under which the service keeps its positions: it depends on the data, not on where the
    /// feeder runs.
    fn identity(&self) -> String;

    /// The names of its present partitions; `""` if it has only one. New ones may be added at any time, so this is
    /// called again every few seconds.
    async fn partitions(&mut self) -> Result<Vec<String>, SourceError>;

    /// Learns all positions that the service has, also of partitions that do not exist any more.
    fn remember(&mut self, _positions: &BTreeMap<String, SourcePosition>) {}

    /// Continues a partition after a position, or from its beginning.
    async fn seek(&mut self, partition: &str, position: Option<&str>) -> Result<(), SourceError>;

    /// The next batch of any partition that was sought; `None` if no row arrived in time. The batch after it continues
    /// at its position, whether or not that was [accepted](Self::accepted) yet. Dropping the future loses no row.
    async fn next(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>, SourceError>;

    /// Everything before the position is durable at the service, so the source may forget it.
    async fn accepted(&mut self, _partition: &str, _position: &str) -> Result<(), SourceError> {
        Ok(())
    }

    /// How long no row arrives until there is nothing new; `None` if only the end says so.
    fn idle_time(&self) -> Option<Duration> {
        Some(Duration::from_secs(5))
    }

    /// Whether nothing will ever follow.
    fn has_ended(&self) -> bool {
        false
    }

    /// The rows that were not taken because more may be written to them, with the remedy.
    ///
    /// # Errors
    /// If it does not exist.
    fn unfinished(&mut self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// The files that it reads or writes, so that no output replaces them.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Messages about the source that its operator should read, such as rows that it deleted before they were read.
    fn warnings(&mut self) -> Vec<SourceWarning> {
        Vec::new()
    }
}
