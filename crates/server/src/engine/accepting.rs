//! Accepting batches: durable before they are acknowledged, each completely or not at all.

use super::chunk::Chunk;
use super::core::Core;
use super::decoding::Share;
use super::identity::{BatchBytes, BatchId, ResolvedId};
use super::info::{Counts, StreamInfo, StreamState};
use super::live::{LAST_BATCH, waits};
use super::opening::next_name;
use super::positions::positions_of;
use super::prepare::{MAX_NAMED_ROWS, PreparedBatch, late_rows};
use super::refusal::Refusal;
use super::row_ids::{NewIds, to_stored};
use crate::store::{BATCHES, BatchRecord, ClosedBy, EVENTS, IDS, LATE, LateRecord, from_bytes, stored, to_bytes};
use evertally_declare::error::{Result, failure};
use evertally_declare::steps::Instant;
use evertally_declare::stream::Late;
use redb::{ReadableTable, WriteTransaction};
use std::collections::BTreeMap;
use std::io::ErrorKind::StorageFull;
use std::io::Read;
use std::sync::Arc;

/// The receipt of an accepted batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its id: chosen by the client, or the digest of its bytes.
    pub batch: String,
    /// The number of its rows.
    pub rows: u64,
    /// How many of them were not counted, because rows with their ids had been counted in the same step.
    pub duplicates: u64,
    /// The step that was open: late rows are those of earlier steps.
    pub open_step: u64,
    /// The keyed digest of the declared columns of its rows.
    pub digest: [u8; 32],
    /// Whether it had been accepted before.
    pub repeated: bool,
}

impl Receipt {
    fn new(id: &ResolvedId, record: &BatchRecord, repeated: bool) -> Self {
        let batch = match id {
            ResolvedId::Text(id) => id.clone(),
            ResolvedId::Source(range) => range.shown(),
        };
        let BatchRecord { digest, rows, duplicates, open_step, .. } = *record;
        Self { batch, rows, duplicates, open_step, digest, repeated }
    }
}

/// The id of a batch that is known by its bytes: it differs from part to part.
///
/// # Errors
/// If the bytes cannot be read.
pub(crate) fn content_id(info: &StreamInfo, bytes: Box<dyn Read + Send>) -> Result<String> {
    let digest = BatchBytes::with_id(bytes, &BatchId::Content, &info.digest_key).finish()?;
    match BatchId::Content.resolve(digest) {
        ResolvedId::Text(id) => Ok(id),
        ResolvedId::Source(range) => Ok(range.shown()),
    }
}

/// A batch in its turn, to be counted once it is durable.
struct Accepted {
    number: u32,
    batch: u64,
    chunks: BTreeMap<u64, Chunk>,
    /// The ids of rows that are set aside, and the step with which they are remembered.
    aside: (u64, Chunk),
    late: u64,
    /// Its share of the memory for all batches.
    _memory: Share,
}

/// What the batches of one commit add to their streams.
struct NewInCommit {
    /// The number of the last batch of each stream.
    batches: BTreeMap<u32, u64>,
    ids: NewIds,
}

impl Core {
    /// The positions in a source, by partition, up to which its rows were accepted, by any part of the stream.
    ///
    /// # Errors
    /// If there is no such stream, or the store cannot be read.
    pub fn positions(&self, name: &str, source: &str) -> Result<BTreeMap<String, String>, Refusal> {
        let parts = self.directory.parts_with_positions(name);
        if parts.is_empty() {
            return Err(Refusal::NoStream);
        }
        let keepers: Vec<_> = parts.iter().map(|part| part.position_keeper()).collect();
        Ok(positions_of(&self.store.look()?, &keepers, source)?)
    }

    /// Whether a witness has seen the stream that continues another: it was open before this folder was restored.
    pub(crate) fn was_continued(&self, name: &str) -> bool {
        let next = self.find(name).and_then(|info| next_name(&info).ok());
        next.is_some_and(|next| self.witnessed.streams.contains_key(next.as_str()))
    }

    /// Accepts batches in this order, with one commit for all of them. Each gets its own answer.
    pub fn accept(&mut self, batches: Vec<(Arc<StreamInfo>, PreparedBatch)>) -> Vec<Result<Receipt, Refusal>> {
        let (mut accepted, mut answers) = (Vec::new(), Vec::new());
        let now = self.clock.now().micros();
        let (store, count) = (self.store.clone(), batches.len());
        let written = store.change(|writing| {
            let mut new = NewInCommit { batches: BTreeMap::new(), ids: NewIds::default() };
            for (info, prepared) in batches {
                let counts = Arc::clone(&info);
                answers.push(match self.admit(writing, &info, prepared, now, &mut new) {
                    Ok((receipt, Some(batch))) => {
                        accepted.push(batch);
                        Ok(receipt)
                    }
                    Ok((receipt, None)) => Ok(receipt),
                    // Part of it may be written, so this commit is abandoned.
                    Err(Refusal::Other(error)) => return Err(error),
                    Err(refusal) => {
                        Counts::add(&counts.counts.refused, 1);
                        Err(refusal)
                    }
                });
            }
            if accepted.is_empty() { Err(failure(NOTHING_TO_WRITE)) } else { Ok(()) }
        });
        match written {
            Err(error) if answers.len() < count || !accepted.is_empty() => {
                let (why, is_full) = (error.to_string(), error.io().is_some_and(|io| io.kind() == StorageFull));
                let refusal = || if is_full { Refusal::DiskFull(why.clone()) } else { Refusal::Other(failure(&why)) };
                return (0..count).map(|_| Err(refusal())).collect();
            }
            _ => {}
        }
        for batch in accepted {
            self.count(batch);
        }
        answers
    }

    /// Writes a batch, if it can be accepted.
    fn admit(
        &self,
        writing: &WriteTransaction,
        info: &Arc<StreamInfo>,
        prepared: PreparedBatch,
        now: i64,
        new: &mut NewInCommit,
    ) -> Result<(Receipt, Option<Accepted>), Refusal> {
        let PreparedBatch { id, open_step: named, latest, digest, rows, chunks, next, later, memory } = prepared;
        let (number, live) = (info.number, self.live.get(&info.number).ok_or(Refusal::NoStream)?);
        let before = match &id {
            ResolvedId::Text(id) => accepted_as(id, writing, number)?,
            ResolvedId::Source(range) => {
                let parts = self.directory.parts_through(info);
                let keepers: Vec<_> = parts.iter().map(|part| part.position_keeper()).collect();
                range.accepted(writing, &keepers)?
            }
        };
        if let Some(before) = before {
            if before.digest != digest {
                return Err(Refusal::Differs(before.rows));
            }
            return Ok((Receipt::new(&id, &before, true), None));
        }
        if let Some(why) = &self.read_only {
            return Err(Refusal::Halted(why.clone()));
        }
        let has_ended = live.state() == StreamState::Ended;
        if let Some(next) = next.filter(|_| later.is_some() || has_ended) {
            let row = later.filter(|later| later.has_own_before && !has_ended).map(|later| later.row);
            return Err(Refusal::NotOpen { why: next.why, wait: next.wait, row });
        }
        check_open(&live.state(), info.name()).map_err(|refusal| self.with_next_part(info, refusal))?;
        if let Some(why) = info.slow_clock(Instant::from_micros(now)) {
            return Err(Refusal::Halted(why));
        }
        if live.closing == ClosedBy::Sums {
            let why = "it is counted elsewhere and accepts the sums of complete steps: PUT them to its `sums`";
            return Err(Refusal::ReadOnly(format!("stream `{}` accepts no events: {why}", info.name())));
        }
        let open_step = open_step(named, live.closed(), latest)?;
        let Divided { mut chunks, mut aside, late } = divide(info, chunks, open_step)?;
        if !new.ids.have_room(number, &live.ids, chunks.iter().chain([(&open_step, &aside)]), self.decoding.ids) {
            return Err(Refusal::TooManyIds(self.decoding.ids));
        }
        let mut duplicates = 0;
        for (step, chunk) in &mut chunks {
            duplicates += new.ids.remove_counted(number, *step, &live.ids, chunk);
        }
        // Late rows that are set aside are remembered with the open step: their own one is forgotten.
        duplicates += new.ids.remove_aside(number, open_step, &live.ids, &mut aside);
        let batch = new.batches.get(&number).copied().unwrap_or(live.batches) + 1;
        let record = BatchRecord { digest, rows, duplicates, open_step, at: now };
        let receipt = Receipt::new(&id, &record, false);
        match id {
            ResolvedId::Text(id) => self.note_id(&id, writing, number, record)?,
            ResolvedId::Source(range) => range.note(writing, &info.position_keeper(), record)?,
        }
        let mut table = writing.open_table(BATCHES).map_err(stored)?;
        table.insert((number, LAST_BATCH), batch.to_le_bytes().as_slice()).map_err(stored)?;
        let mut events = writing.open_table(EVENTS).map_err(stored)?;
        for (step, chunk) in &chunks {
            events.insert((number, *step, batch), chunk.bytes.as_slice()).map_err(stored)?;
        }
        if info.has_ids {
            let mut ids = writing.open_table(IDS).map_err(stored)?;
            let mut of_steps: BTreeMap<u64, Vec<u8>> =
                chunks.iter().map(|(step, chunk)| (*step, to_stored(chunk))).collect();
            if !aside.ids.is_empty() {
                of_steps.entry(open_step).or_default().extend(to_stored(&aside));
            }
            for (step, bytes) in of_steps {
                ids.insert((number, step, batch), bytes.as_slice()).map_err(stored)?;
            }
        }
        if !aside.texts.is_empty() {
            let mut table = writing.open_table(LATE).map_err(stored)?;
            let rows = std::mem::take(&mut aside.texts).into_iter().map(|event| event.texts).collect();
            table.insert((number, batch), to_bytes(&LateRecord { at: now, rows })?.as_slice()).map_err(stored)?;
        }
        new.batches.insert(number, batch);
        let aside = (open_step, aside);
        Ok((receipt, Some(Accepted { number, batch, chunks, aside, late, _memory: memory })))
    }

    /// A refusal with the name of the stream that continues this one, if there is one.
    fn with_next_part(&self, info: &StreamInfo, refusal: Refusal) -> Refusal {
        let next = next_name(info).ok().filter(|next| self.find(next.as_str()).is_some());
        match (refusal, next) {
            (Refusal::ReadOnly(why), Some(next)) => Refusal::ReadOnly(format!("{why}; `{next}` continues it")),
            (refusal, _) => refusal,
        }
    }

    /// Writes the id of an accepted batch.
    fn note_id(&self, id: &str, writing: &WriteTransaction, number: u32, record: BatchRecord) -> Result<()> {
        let mut table = writing.open_table(BATCHES).map_err(stored)?;
        table.insert((number, id), to_bytes(&record)?.as_slice()).map_err(stored)?;
        self.note_day(writing, number, id, record.at)
    }

    /// Counts a written batch: events of the open step now, the others once their step is open.
    fn count(&mut self, accepted: Accepted) {
        let Accepted { number, batch, chunks, aside, late, _memory } = accepted;
        let live = self.live.get_mut(&number).expect("the batch was admitted");
        live.batches = batch;
        let counts = &live.info.counts;
        Counts::add(&counts.batches, 1);
        Counts::add(&counts.late, late);
        Counts::add(&counts.events, chunks.values().map(|chunk| chunk.events).sum());
        let open = live.session.open_step();
        live.ids.add(aside.0, &aside.1);
        for (step, chunk) in chunks {
            live.ids.add(step, &chunk);
            if step > open {
                waits(&live.info, chunk.events);
            } else if let Err(error) = live.count(&chunk.bytes) {
                live.failed = Some(error.to_string());
                live.update_progress(None);
                (self.notify)(super::Notice::Changed(Arc::clone(&live.info)));
                return;
            }
        }
    }
}

/// The record of the batch with an id, if one was accepted.
fn accepted_as(id: &str, writing: &WriteTransaction, number: u32) -> Result<Option<BatchRecord>> {
    let table = writing.open_table(BATCHES).map_err(stored)?;
    let before = table.get((number, id)).map_err(stored)?;
    before.map(|bytes| from_bytes(bytes.value(), "a batch")).transpose()
}

/// The step to which late rows of a batch are compared: the open one, or the later one that was open when the batch was
/// accepted for the first time, before the service was restored from an older copy.
fn open_step(named: Option<u64>, closed: u64, latest: u64) -> Result<u64, Refusal> {
    let open = closed + 1;
    match named {
        None => Ok(open),
        Some(named) if (open..=latest.max(open)).contains(&named) => Ok(named),
        Some(named) => Err(Refusal::WrongStep(format!(
            "step {named} cannot be the open step of this batch: step {open} is open, and the clock has not passed \
             step {latest}"
        ))),
    }
}

const NOTHING_TO_WRITE: &str = "nothing is to be written";

pub(super) fn check_open(state: &StreamState, name: &str) -> Result<(), Refusal> {
    let why = match state {
        StreamState::Open | StreamState::Recovering(_) => return Ok(()),
        StreamState::Ended => "all steps of its horizon are closed",
        StreamState::Retired => "it was retired",
        StreamState::Failed(_) => "it has failed; its operator can see why",
    };
    Err(Refusal::ReadOnly(format!("stream `{name}` accepts no more events: {why}")))
}

/// The events of a batch, by destination.
struct Divided {
    /// The counted events, by step.
    chunks: BTreeMap<u64, Chunk>,
    /// The ids and texts of the events that are set aside.
    aside: Chunk,
    /// How many were late.
    late: u64,
}

/// Splits the events of a batch into those from the open step on and late ones, and treats the latter by policy.
fn divide(info: &StreamInfo, mut chunks: BTreeMap<u64, Chunk>, open_step: u64) -> Result<Divided, Refusal> {
    let in_time = chunks.split_off(&open_step);
    let (past, mut chunks) = (chunks, in_time);
    let late: u64 = past.values().map(|chunk| chunk.events).sum();
    let mut aside = Chunk::default();
    match info.stream.late {
        _ if late == 0 => {}
        Late::Refuse => {
            let (mut rows, mut more) = (Vec::new(), 0);
            for (step, chunk) in &past {
                let (named, others) = late_rows(&info.stream, *step, chunk);
                rows.extend(named);
                more += others;
            }
            rows.sort_by_key(|row| row.row);
            more += rows.len().saturating_sub(MAX_NAMED_ROWS) as u64;
            rows.truncate(MAX_NAMED_ROWS);
            Counts::add(&info.counts.late, late);
            return Err(Refusal::Rows { rows, more });
        }
        Late::SideFile => {
            for chunk in past.into_values() {
                aside.ids.extend(chunk.ids);
                aside.texts.extend(chunk.texts);
            }
        }
        Late::NextStep => {
            // Before those of the step itself, ordered by their steps.
            let mut first = Chunk::default();
            for chunk in past.into_values() {
                first.events += chunk.events;
                first.bytes.extend(chunk.bytes);
                first.ids.extend(chunk.ids);
            }
            let open = chunks.entry(open_step).or_default();
            first.events += open.events;
            first.bytes.extend_from_slice(&open.bytes);
            first.ids.extend_from_slice(&open.ids);
            *open = first;
        }
    }
    Ok(Divided { chunks, aside, late })
}
