//! Copies of public streams: what readers may know, as stored records, for machines that have neither key nor events.
//!
//! The rows of each publication are in the hash chain of its stream, so that a copy is checked before it is shown.

use super::computing::next_head;
use super::info::{StreamInfo, StreamProgress, StreamState};
use super::live::first_head;
use super::rows::step_of;
use super::service::Service;
use crate::store::{CLOSED, ClosedRecord, NAMES, ROWS, StreamRecord, from_bytes, stored, to_bytes};
use evertally_declare::error::{Result, failure, usage};
use evertally_declare::follows::Follows;
use evertally_declare::groups::Joined;
use evertally_declare::records::Records;
use evertally_declare::steps::Instant;
use evertally_ledger::ledger::LedgerFacts;
use serde::{Deserialize, Serialize};

/// About the most bytes of rows in a copy; the rest is in the next one.
const MAX_COPY_BYTES: usize = 4 << 20;

/// A part of a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StreamCopy {
    /// The version of the program that wrote it: the layout of records may differ between versions.
    pub(super) version: String,
    pub(super) number: u32,
    pub(super) facts: StreamFacts,
    /// The names of lines that do not depend on events, after those that the receiver has.
    pub(super) names: Vec<Vec<String>>,
    pub(super) publications: Vec<PublicationCopy>,
    pub(super) progress: ProgressCopy,
}

/// The facts about a stream that its publications do not change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StreamFacts {
    pub(super) record: StreamRecord,
    pub(super) follows: Option<Follows>,
    pub(super) plan: String,
    /// The groups that had joined when it was planned, as JSON.
    joined: String,
    pub(super) key_id: String,
    pub(super) ledger: LedgerFacts,
    pub(super) plan_digest: [u8; 32],
}

/// How far a stream is, for its readers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ProgressCopy {
    pub(super) publications: u64,
    pub(super) head: [u8; 32],
    state: StateCopy,
    closes_at: Option<i64>,
    shows_at: Option<i64>,
}

/// The state of a stream, without its reasons: they are for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum StateCopy {
    Open,
    Ended,
    Retired,
    Recovering,
    Failed,
}

/// The stored rows of a publication.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PublicationCopy {
    pub(super) publication: u64,
    pub(super) step: u64,
    pub(super) head: [u8; 32],
    pub(super) lines: u32,
    /// The names that were discovered with it.
    pub(super) names: Vec<(u32, Vec<String>)>,
    pub(super) blocks: Vec<(u32, Vec<u8>)>,
}

impl StreamFacts {
    pub(super) fn records(&self) -> Result<CopiedRecords> {
        let joined = serde_json::from_str(&self.joined).map_err(failure)?;
        Ok(CopiedRecords { plan: self.plan.clone(), joined })
    }
}

/// The record of a stream, as its ledger has it.
pub(super) struct CopiedRecords {
    plan: String,
    joined: Vec<Joined>,
}

impl Records for CopiedRecords {
    fn plan_text(&self, _: &evertally::noise::StreamName) -> Option<&str> {
        Some(&self.plan)
    }

    fn joined(&self, _: &evertally::noise::StreamName) -> &[Joined] {
        &self.joined
    }

    fn follows(&self, _: &evertally::noise::StreamName) -> Option<&Follows> {
        None
    }

    fn last_published(&self, _: &evertally::noise::StreamName) -> u64 {
        0
    }
}

impl ProgressCopy {
    fn new(progress: &StreamProgress) -> Self {
        let state = match progress.state {
            StreamState::Open => StateCopy::Open,
            StreamState::Ended => StateCopy::Ended,
            StreamState::Retired => StateCopy::Retired,
            StreamState::Recovering(_) => StateCopy::Recovering,
            StreamState::Failed(_) => StateCopy::Failed,
        };
        Self {
            publications: progress.publications,
            head: progress.head,
            state,
            closes_at: progress.closes_at.map(Instant::micros),
            shows_at: progress.shows_at.map(Instant::micros),
        }
    }

    /// The progress of a copy that has reached a publication; until all are there, the stream is open.
    pub(super) fn reached(&self, publications: u64, head: [u8; 32]) -> Self {
        match publications == self.publications {
            true => self.clone(),
            false => Self { publications, head, state: StateCopy::Open, closes_at: None, shows_at: None },
        }
    }

    /// The progress of a copy with these publications, the last of which closed `step`.
    pub(super) fn progress(&self, step: u64) -> StreamProgress {
        let state = match self.state {
            StateCopy::Open => StreamState::Open,
            StateCopy::Ended => StreamState::Ended,
            StateCopy::Retired => StreamState::Retired,
            StateCopy::Recovering => StreamState::Recovering(step),
            StateCopy::Failed => StreamState::Failed(String::new()),
        };
        StreamProgress {
            closed: step,
            publications: self.publications,
            head: self.head,
            state,
            closes_at: self.closes_at.map(Instant::from_micros),
            shows_at: self.shows_at.map(Instant::from_micros),
        }
    }
}

impl StreamCopy {
    /// From the bytes of an answer.
    ///
    /// # Errors
    /// If another version of the program has written it, or it is damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        // The version comes first, so that it can be read whatever follows.
        let version = postcard::take_from_bytes::<String>(bytes).map(|(version, _)| version).unwrap_or_default();
        if version != env!("CARGO_PKG_VERSION") {
            return Err(usage(format!(
                "the service at the other end has version {version:?}, and this program {}: run the same version",
                env!("CARGO_PKG_VERSION")
            )));
        }
        postcard::from_bytes(bytes).map_err(|_| usage("the copy of a stream is damaged"))
    }

    /// As the body of an answer.
    ///
    /// # Errors
    /// None in practice.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        to_bytes(self)
    }

    /// The name of the stream.
    pub fn name(&self) -> &str {
        &self.facts.record.name
    }

    /// Checks that its publications continue a chain with this number of them, and this digest.
    ///
    /// # Errors
    /// If they do not: then they are not those of the same stream.
    pub(super) fn check(&self, known: u64, head: Option<[u8; 32]>) -> Result<()> {
        let (mut last, mut head) = (known, head.unwrap_or_else(|| first_head(self.name())));
        for own in &self.publications {
            let expected = next_head(&head, own.step, &own.names, &own.blocks);
            if own.publication != last + 1 || own.head != expected {
                return Err(usage(format!(
                    "publication {} of stream `{}` does not continue those that were shown here: the other end is not \
                     the same service, or an old copy of its folder was used. The shown publications stay",
                    own.publication,
                    self.name()
                )));
            }
            (last, head) = (own.publication, own.head);
        }
        Ok(())
    }
}

impl Service {
    /// The part of a stream after a publication, for a reader that has the first `names` names of its lines.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn copy_of(&self, info: &StreamInfo, after: u64, names: usize) -> Result<StreamCopy> {
        let progress = info.progress();
        let facts = StreamFacts {
            record: info.record(),
            follows: info.stream.follows.clone(),
            plan: info.plan.clone(),
            joined: serde_json::to_string(&*info.joined()).map_err(failure)?,
            key_id: info.reporting().key_id().to_owned(),
            ledger: info.reporting().ledger().clone(),
            plan_digest: info.stream.plan_digest(),
        };
        let is_discovered = info.stream.plan.threshold().is_some();
        let names = match is_discovered {
            true => Vec::new(),
            false => info.names(usize::MAX).iter().skip(names).map(|line| line.to_vec()).collect(),
        };
        let looking = self.store.look()?;
        let (rows, closed) = (looking.open_table(ROWS).map_err(stored)?, looking.open_table(CLOSED).map_err(stored)?);
        let stored_names = looking.open_table(NAMES).map_err(stored)?;
        let record_of = |publication: u64| -> Result<(u64, ClosedRecord)> {
            let step = step_of(info, &progress, publication);
            let bytes = closed.get((info.number, step)).map_err(stored)?;
            let bytes = bytes.ok_or_else(|| failure(format!("the record of publication {publication} is missing")))?;
            Ok((step, from_bytes(bytes.value(), "a closed step")?))
        };
        let (mut publications, mut bytes) = (Vec::new(), 0);
        let mut lines =
            if after == 0 || !is_discovered { 0 } else { record_of(after.min(progress.publications))?.1.lines };
        for publication in after.saturating_add(1)..=progress.publications {
            let (step, record) = record_of(publication)?;
            let mut own = PublicationCopy {
                publication,
                step,
                head: record.head,
                lines: record.lines,
                names: Vec::new(),
                blocks: Vec::new(),
            };
            let range = (info.number, publication, 0)..=(info.number, publication, u32::MAX);
            for entry in rows.range(range).map_err(stored)? {
                let (key, block) = entry.map_err(stored)?;
                own.blocks.push((key.value().2, block.value().to_vec()));
                bytes += block.value().len();
            }
            if is_discovered && record.lines > lines {
                for entry in stored_names.range((info.number, lines)..(info.number, record.lines)).map_err(stored)? {
                    let (key, name) = entry.map_err(stored)?;
                    own.names.push((key.value().1, from_bytes(name.value(), "the names of a stream")?));
                }
                lines = record.lines;
            }
            publications.push(own);
            bytes += 128;
            if bytes >= MAX_COPY_BYTES {
                break;
            }
        }
        let (version, number) = (env!("CARGO_PKG_VERSION").to_owned(), info.number);
        Ok(StreamCopy { version, number, facts, names, publications, progress: ProgressCopy::new(&progress) })
    }
}
