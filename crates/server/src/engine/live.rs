//! One stream in the counting thread.

use super::core::Core;
use super::info::{Counts, Parts, Progress, State, StreamInfo};
use super::opening::{Resolved, table_of};
use super::reporting::Reporting;
use crate::store::{
    BATCHES, CLOSED, ClosedRecord, Closing, EVENTS, NAMES, Phase, ROWS, RowBlock, STATES, StateRecord, Store,
    StreamRecord, from_bytes, stored, to_bytes,
};
use evertally::noise::{Purpose, mac_key};
use evertally::privacy::Unit;
use evertally_declare::error::{Context, Error, Result, failure};
use evertally_declare::steps::Instant;
use evertally_publish::session::{Placed, RunningSums, Session};
use evertally_publish::views::Viewed;
use std::collections::VecDeque;
use std::sync::Arc;

/// The most events, or closed sums, that are counted again when the service starts.
const MOST_AGAIN: u64 = 1_000_000;

/// A stream and its current state.
pub(super) struct Live {
    pub(super) info: Arc<StreamInfo>,
    pub(super) session: Session<RunningSums>,
    /// The number of the last accepted batch.
    pub(super) batches: u64,
    /// The record of the last closed step.
    pub(super) last: ClosedRecord,
    /// Closed steps whose rows are not shown yet.
    pub(super) unseen: VecDeque<(u64, ClosedRecord)>,
    /// How much would be counted again if the service restarted now.
    pub(super) unsaved: u64,
    /// Why it has failed, if it has.
    pub(super) failed: Option<String>,
    /// The last step recorded at the witness; later steps are shown to nobody.
    pub(super) told: u64,
    /// The witness's record, if it has seen more steps than this folder has.
    pub(super) ahead: Option<crate::witness::Seen>,
    pub(super) closing: Closing,
    pub(super) is_retired: bool,
}

impl Live {
    /// The last closed step.
    pub(super) fn closed(&self) -> u64 {
        self.session.step()
    }

    /// The last step that is closed in the store.
    pub(super) fn last_committed(&self) -> u64 {
        self.info.progress().closed
    }

    pub(super) fn state(&self) -> State {
        if self.is_retired {
            return State::Retired;
        }
        if let Some(why) = &self.failed {
            return State::Failed(why.clone());
        }
        if let Some(seen) = &self.ahead {
            return State::Recovering(seen.closed);
        }
        if self.closed() == self.session.last_step() { State::Ended } else { State::Open }
    }

    /// When a step is closed and when it is shown, if the clock decides that.
    pub(super) fn times(&self, step: u64) -> Option<(Instant, Instant)> {
        let Closing::Schedule { grace, delay } = self.closing else { return None };
        let end = self.info.stream.calendar.end_of(step).micros();
        let closes = end.saturating_add(grace);
        Some((Instant::from_micros(closes), Instant::from_micros(closes.saturating_add(delay))))
    }

    /// The last step that may be shown once its moment has come. If there is a witness, or one has seen more than this
    /// folder has, it is the last step recorded there.
    pub(super) fn showable(&self, has_witness: bool) -> u64 {
        if has_witness || self.ahead.is_some() { self.told } else { u64::MAX }
    }

    /// Whether people are protected, not single events.
    pub(super) fn with_person(&self) -> bool {
        self.info.stream.plan.request().unit() != Unit::Event
    }

    /// Counts the events of a chunk, all of the open step.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> Result<u64> {
        let are_sums = self.closing == Closing::Sums;
        let (step, with_person, mut events) = (self.session.open_step(), self.with_person() && !are_sums, 0);
        let numbers = self.info.stream.plan.threshold().is_some().then(|| self.session.numbers());
        while !bytes.is_empty() {
            let placed = Placed::read(step, with_person, numbers.as_ref(), &mut bytes)
                .ok_or_else(|| failure("the data folder is corrupt: the events of a batch cannot be read"))?;
            match are_sums {
                true => self.session.take_sum(&placed)?,
                false => self.session.take(placed)?,
            }
            events += 1;
        }
        self.unsaved += events;
        Ok(events)
    }

    /// Counts the stored events of the open step, of batches after number `behind`.
    pub(super) fn count_stored(&mut self, store: &Store, behind: u64) -> Result<()> {
        let (number, step) = (self.info.number, self.session.open_step());
        let table = store.look()?.open_table(EVENTS).map_err(stored)?;
        let mut counted = 0;
        for entry in table.range((number, step, behind + 1)..=(number, step, u64::MAX)).map_err(stored)? {
            let (_, bytes) = entry.map_err(stored)?;
            counted += self.count(bytes.value())?;
        }
        let waiting = &self.info.counts.waiting;
        let _ = waiting.fetch_update(
            std::sync::atomic::Ordering::Relaxed,
            std::sync::atomic::Ordering::Relaxed,
            |waiting| Some(waiting.saturating_sub(counted)),
        );
        Ok(())
    }

    /// Updates the progress that readers see.
    pub(super) fn tell(&self, shown: Option<&ClosedRecord>) {
        let state = self.state();
        let next = (state == State::Open).then(|| self.times(self.session.open_step())).flatten();
        if let Some(shown) = shown {
            self.info.show_lines(shown.lines);
        }
        let mut progress = self.info.locked();
        progress.closed = self.closed();
        if let Some(shown) = shown {
            (progress.publications, progress.head) = (shown.publications, shown.head);
        }
        progress.state = state;
        (progress.closes_at, progress.shows_at) = (next.map(|(closes, _)| closes), next.map(|(_, shows)| shows));
    }
}

impl Core {
    /// Loads a stream: its stored state, then the events that the state does not include.
    pub(super) fn load(&self, number: u32, record: StreamRecord) -> Result<Live> {
        let name = record.name.clone();
        self.loaded(number, record).context(format_args!("stream `{name}`"))
    }

    fn loaded(&self, number: u32, record: StreamRecord) -> Result<Live> {
        let resolved = Resolved::of_record(&record, &self.ledger, self.follows_of(number)?)?;
        let looking = self.store.look()?;
        let closed = looking.open_table(CLOSED).map_err(stored)?;
        let state = looking.open_table(STATES).map_err(stored)?;
        let state: Option<StateRecord> = match state.get(number).map_err(stored)? {
            Some(bytes) => Some(from_bytes(bytes.value(), "the state of a stream")?),
            None => None,
        };
        let (stream, groups) = (resolved.stream.clone(), resolved.groups.clone());
        let session = match &state {
            Some(state) => Session::live_again(stream, groups, &self.key, &self.ledger, &state.session)?,
            None => Session::live(stream, groups, &self.key, &self.ledger)?,
        };
        let mut live = self.live_of(number, record, resolved, session)?;
        live.batches = last_batch(&looking, number)?;
        self.recall(&mut live, &looking)?;
        let mut counted = live.count_stored(&self.store, state.map_or(0, |state| state.counted));
        // Steps closed after the state was stored are closed again, and must give the same result.
        let mut records = Vec::new();
        for entry in closed.range((number, live.closed() + 1)..=(number, u64::MAX)).map_err(stored)? {
            let (key, bytes) = entry.map_err(stored)?;
            records.push((key.value().1, from_bytes::<ClosedRecord>(bytes.value(), "a closed step")?));
        }
        if live.closed() > 0 {
            let bytes = closed.get((number, live.closed())).map_err(stored)?;
            let bytes = bytes.ok_or_else(|| failure("the data folder is corrupt: a closed step has no record"))?;
            live.last = from_bytes(bytes.value(), "a closed step")?;
        }
        for (step, record) in records {
            counted?;
            let looks_back = !live.info.stream.views.is_empty();
            let mut closing = live.session.close_open()?;
            if looks_back {
                closing.for_each_row(|_, _| Ok::<(), Error>(()))?; // views depend on earlier rows
            }
            if live.closed() != step || live.session.chain() != record.events {
                return Err(failure(
                    "the data folder is corrupt: its events do not reproduce the published steps; restore it from a \
                     backup",
                ));
            }
            live.last = record;
            counted = live.count_stored(&self.store, 0);
        }
        match counted {
            // Events of the open step that leave its range end their own stream only.
            Err(error) if error.is_usage() => live.failed = Some(error.to_string()),
            counted => counted?,
        }
        live.told = live.last.told;
        live.ahead = self.recovering(&live)?;
        Ok(live)
    }

    /// A stream whose session has just been created.
    pub(super) fn live_of(
        &self,
        number: u32,
        record: StreamRecord,
        resolved: Resolved,
        session: Session<RunningSums>,
    ) -> Result<Live> {
        let stream = Arc::new(session.stream().clone());
        let reporting = Reporting::new(Arc::clone(&stream), &self.key, &self.ledger);
        let mac = mac_key(&self.key, &stream.name, &stream.plan.digest(), Purpose::Hashing);
        let digest_key = blake3::derive_key("evertally serve 1 batches", mac.as_slice());
        let progress = Progress {
            closed: 0,
            publications: 0,
            head: first_head(record.name.as_str()),
            state: State::Open,
            closes_at: None,
            shows_at: None,
        };
        let (closing, is_retired) = (record.closing, matches!(record.phase, Phase::Retired(_)));
        let info = StreamInfo::new(Parts {
            number,
            table: table_of(&stream)?,
            plan: stream.plan_text()?,
            missing: resolved.missing.clone(),
            groups: resolved.groups.clone(),
            reporting,
            placer: session.placer(),
            digest_key,
            progress,
            stream,
            record,
        });
        info.add_names(self.names(number)?);
        let last = ClosedRecord {
            publications: 0,
            head: first_head(info.name()),
            events: session.chain(),
            shown_at: 0,
            batches: 0,
            told: 0,
            lines: 0,
        };
        Ok(Live {
            info: Arc::new(info),
            session,
            batches: 0,
            last,
            unseen: VecDeque::new(),
            unsaved: 0,
            failed: None,
            told: 0,
            ahead: None,
            closing,
            is_retired,
        })
    }

    /// The stored names of lines.
    fn names(&self, number: u32) -> Result<Vec<Vec<String>>> {
        let table = self.store.look()?.open_table(NAMES).map_err(stored)?;
        let mut names = Vec::new();
        for entry in table.range((number, 0)..=(number, u32::MAX)).map_err(stored)? {
            names.push(from_bytes(entry.map_err(stored)?.1.value(), "the names of a stream")?);
        }
        Ok(names)
    }

    /// Restores the last views, from which later ones continue.
    fn recall(&self, live: &mut Live, looking: &redb::ReadTransaction) -> Result<()> {
        let publications = live.info.stream.rows_through(live.closed());
        if live.info.stream.views.is_empty() || publications == 0 {
            return Ok(());
        }
        let (table, number) = (looking.open_table(ROWS).map_err(stored)?, live.info.number);
        for entry in table.range((number, publications, 0)..=(number, publications, u32::MAX)).map_err(stored)? {
            let block: RowBlock = from_bytes(entry.map_err(stored)?.1.value(), "released rows")?;
            for row in block.rows {
                if let (Some(view), Some(names)) = (row.view, live.info.names_of(row.place)) {
                    let shown = Viewed { text: view.text, number: view.number, lower: view.lower, upper: view.upper };
                    live.session.recall_view(names.to_vec(), shown);
                }
            }
        }
        Ok(())
    }

    /// Separates shown rows from those still to be shown, by the clock and by the steps recorded at the witness.
    pub(super) fn unshown(&self, live: &mut Live) -> Result<()> {
        let closed = self.store.look()?.open_table(CLOSED).map_err(stored)?;
        let (now, number) = (self.clock.now().micros(), live.info.number);
        let mut shown = None;
        for entry in closed.range((number, 0)..=(number, u64::MAX)).map_err(stored)?.rev() {
            let (key, bytes) = entry.map_err(stored)?;
            let record: ClosedRecord = from_bytes(bytes.value(), "a closed step")?;
            let step = key.value().1;
            if record.shown_at <= now && step <= live.showable(self.witness.is_some()) {
                shown = Some(record);
                break;
            }
            live.unseen.push_front((step, record));
        }
        live.tell(shown.as_ref());
        Ok(())
    }

    /// Checkpoints a session, and deletes the events that it includes.
    pub(super) fn put_by(&mut self, number: u32) -> Result<()> {
        let Some(live) = self.live.get_mut(&number).filter(|live| live.failed.is_none() && live.unsaved > 0) else {
            return Ok(());
        };
        let Some(session) = live.session.live_state()? else { return Ok(()) };
        let (closed, counted) = (live.closed(), live.batches);
        let record = to_bytes(&StateRecord { closed, counted, session })?;
        self.store.change(|writing| {
            writing.open_table(STATES).map_err(stored)?.insert(number, record.as_slice()).map_err(stored)?;
            let mut events = writing.open_table(EVENTS).map_err(stored)?;
            let through = (number, closed + 1, counted);
            events.retain_in((number, 0, 0)..=through, |_, _| false).map_err(stored)?;
            Ok(())
        })?;
        live.unsaved = 0;
        Ok(())
    }

    /// Checkpoints sessions with many uncheckpointed events.
    pub(super) fn put_by_where_long(&mut self) -> Result<()> {
        let is_long = |live: &&Live| live.unsaved > MOST_AGAIN;
        let long: Vec<u32> = self.live.values().filter(is_long).map(|live| live.info.number).collect();
        long.into_iter().try_for_each(|number| self.put_by(number))
    }
}

/// The number of the last accepted batch of a stream.
fn last_batch(looking: &redb::ReadTransaction, number: u32) -> Result<u64> {
    let table = looking.open_table(BATCHES).map_err(stored)?;
    let last = table.get((number, LAST_BATCH)).map_err(stored)?;
    Ok(last.and_then(|bytes| bytes.value().try_into().ok()).map_or(0, u64::from_le_bytes))
}

/// The key under which the number of the last batch is stored: no id is empty.
pub(super) const LAST_BATCH: &str = "";

/// The head of a stream without publications.
pub(super) fn first_head(name: &str) -> [u8; 32] {
    blake3::derive_key("evertally serve 1 head", name.as_bytes())
}

/// Adds to the number of waiting events.
pub(super) fn waits(info: &StreamInfo, events: u64) {
    Counts::add(&info.counts.waiting, events);
}
