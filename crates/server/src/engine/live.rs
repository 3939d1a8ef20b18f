//! One stream in the counting thread.

use super::info::{Counts, StreamInfo, StreamState};
use super::row_ids::OpenIds;
use crate::store::{ClosedBy, ClosedRecord, EVENTS, Store, stored};
use evertally::privacy::Unit;
use evertally_declare::error::{Result, failure};
use evertally_declare::steps::Instant;
use evertally_publish::session::{Placed, RunningSums, Session};
use std::collections::VecDeque;
use std::sync::Arc;

/// A stream and its current state.
pub(super) struct RunningStream {
    pub(super) info: Arc<StreamInfo>,
    pub(super) session: Session<RunningSums>,
    /// The ids of the rows that were counted in open steps.
    pub(super) ids: OpenIds,
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
    pub(super) acknowledged: u64,
    /// The witness's record, if it has seen more steps than this folder has.
    pub(super) ahead: Option<crate::witness::LastClosed>,
    /// Until when its steps stay open, so that events that wait elsewhere can come.
    pub(super) held_until: Option<Instant>,
    pub(super) closing: ClosedBy,
    pub(super) is_retired: bool,
}

impl RunningStream {
    /// The last closed step.
    pub(super) fn closed(&self) -> u64 {
        self.session.step()
    }

    /// The last step that is closed in the store.
    pub(super) fn last_committed(&self) -> u64 {
        self.info.progress().closed
    }

    pub(super) fn state(&self) -> StreamState {
        if self.is_retired {
            return StreamState::Retired;
        }
        if let Some(why) = &self.failed {
            return StreamState::Failed(why.clone());
        }
        if let Some(seen) = &self.ahead {
            return StreamState::Recovering(seen.closed);
        }
        if self.closed() == self.session.last_step() { StreamState::Ended } else { StreamState::Open }
    }

    /// When a step is closed and when it is shown, if the clock decides that.
    pub(super) fn times(&self, step: u64) -> Option<(Instant, Instant)> {
        let ClosedBy::Schedule { grace, delay } = self.closing else { return None };
        let end = self.info.stream.calendar.end_of(step).micros();
        let closes = end.saturating_add(grace);
        Some((Instant::from_micros(closes), Instant::from_micros(closes.saturating_add(delay))))
    }

    /// The last step that may be shown once its moment has come. If there is a witness, or one has seen more than this
    /// folder has, it is the last step recorded there.
    pub(super) fn showable(&self, has_witness: bool) -> u64 {
        if has_witness || self.ahead.is_some() { self.acknowledged } else { u64::MAX }
    }

    /// Whether people are protected, not single events.
    pub(super) fn with_person(&self) -> bool {
        self.info.stream.enforced() != Unit::Event
    }

    /// Counts the events of a chunk, all of the open step.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> Result<u64> {
        let are_sums = self.closing == ClosedBy::Sums;
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
    pub(super) fn update_progress(&self, shown: Option<&ClosedRecord>) {
        let state = self.state();
        let next = (state == StreamState::Open).then(|| self.times(self.session.open_step())).flatten();
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
