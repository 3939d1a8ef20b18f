//! Closing steps: noise is drawn, rows are committed, and the witness is updated; only then, and at its moment, is a
//! publication shown.

use super::Notice;
use super::computing::{Computed, compute};
use super::core::{Core, is_behind};
use super::info::StreamState;
use super::live::RunningStream;
use super::refusal::Refusal;
use crate::store::{CLOSED, ClosedBy, ClosedRecord, NAMES, ROWS, SHOWN, stored, to_bytes};
use crate::witness::LastClosed;
use evertally::hex;
use evertally_declare::error::{Result, usage};
use evertally_declare::steps::Instant;
use redb::WriteTransaction;
use std::sync::Arc;

/// The most steps closed for one request, since nothing else is done meanwhile.
pub(super) const MAX_STEPS_PER_REQUEST: u64 = 100_000;

/// How long steps are closed before other requests get a turn.
const MAX_CLOSE_TIME: std::time::Duration = std::time::Duration::from_secs(1);

/// How long a manual close waits for the witness, at most.
const MANUAL_CLOSE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(6);

/// About the most rows in one commit: it splits the steps that are closed together after a long stop.
pub(super) const MAX_ROWS_PER_COMMIT: usize = 200_000;

impl Core {
    /// Does everything that is due by the clock: closes steps, updates the witness, shows publications. Returns when to
    /// call it again if nothing happens before.
    ///
    /// # Errors
    /// If the store cannot be written; then nothing has changed.
    pub fn tick(&mut self) -> Result<Option<Instant>> {
        if self.was_slow && self.slow_clock().is_none() {
            // Its streams have refused events meanwhile: those that wait elsewhere may still come.
            self.was_slow = false;
            self.held_until = Instant::from_micros(self.clock.now().micros().saturating_add(self.catch_up));
        }
        let closed = self.close_due();
        let shown = self.advance_publication();
        closed?;
        shown?;
        self.checkpoint_if_large()?;
        self.forget_old()?;
        self.store_problem = None;
        if self.read_only.is_some() {
            return Ok(None);
        }
        let next = self.live.values().filter(|live| live.state() == StreamState::Open).filter_map(|live| {
            let closes = live.times(live.session.open_step()).map(|(closes, _)| closes.max(self.held_until));
            let closes = closes.map(|closes| closes.max(live.held_until.unwrap_or(closes)));
            // A step that the witness has not acknowledged waits for the witness, not for a time.
            let unseen = live.unseen.front().filter(|(step, _)| *step <= live.showable(self.witness.is_some()));
            let shows = unseen.map(|(_, record)| Instant::from_micros(record.shown_at));
            closes.into_iter().chain(shows).min()
        });
        Ok(next.min())
    }

    fn close_due(&mut self) -> Result<()> {
        let began = std::time::Instant::now();
        loop {
            let now = self.clock.now();
            if self.read_only.is_some() || now < self.held_until {
                return Ok(());
            }
            let is_due = |live: &&mut RunningStream| {
                live.state() == StreamState::Open
                    && live.held_until.is_none_or(|held| held <= now)
                    && live.times(live.session.open_step()).is_some_and(|(closes, _)| closes <= now)
            };
            let due: Vec<u32> = self.live.values_mut().filter(is_due).map(|live| live.info.number).collect();
            if due.is_empty() {
                return Ok(());
            }
            let mut done = Vec::new();
            for number in due {
                if !done.is_empty() && began.elapsed() > MAX_CLOSE_TIME {
                    break;
                }
                self.beat();
                let live = self.live.get_mut(&number).expect("just seen");
                let computed = compute(live, &self.store);
                self.record_closed(number, computed, &mut done);
                if done.iter().map(Computed::rows).sum::<usize>() > MAX_ROWS_PER_COMMIT {
                    break;
                }
            }
            self.commit(done)?;
            self.advance_publication()?;
            if began.elapsed() > MAX_CLOSE_TIME {
                return Ok(()); // the rest is due at once
            }
        }
    }

    /// Closes steps through `through`, if an operator closes the stream or it lags its witness.
    ///
    /// # Errors
    /// If an operator may not close the stream, the step is after the horizon, or the result differs from the step that
    /// the witness has seen.
    pub fn close_through(&mut self, name: &str, through: u64) -> Result<(), Refusal> {
        if let Some(why) = &self.read_only {
            return Err(Refusal::Halted(why.clone()));
        }
        let number = self.find(name).ok_or(Refusal::NoStream)?.number;
        if self.live.get(&number).is_some_and(|live| live.closing == ClosedBy::Sums) {
            let why = "sending the sums of a step closes it";
            return Err(Refusal::ReadOnly(format!("stream `{name}` cannot be closed by hand: {why}")));
        }
        self.close_number(number, through)
    }

    /// The same for every stream, by number.
    pub(super) fn close_number(&mut self, number: u32, through: u64) -> Result<(), Refusal> {
        let live = self.live.get_mut(&number).ok_or(Refusal::NoStream)?;
        let name = live.info.name().to_owned();
        match live.state() {
            StreamState::Open if live.times(1).is_some() => {
                let why = "its steps are closed by the clock";
                return Err(Refusal::ReadOnly(format!("stream `{name}` cannot be closed by hand: {why}")));
            }
            StreamState::Open => {}
            // The client repeats its request: it has not received the answer.
            StreamState::Ended if live.times(1).is_none() && through <= live.closed() => return Ok(()),
            StreamState::Recovering(_) => return self.close_as_witnessed(number, through),
            state => {
                let word = state.word();
                return Err(Refusal::ReadOnly(format!("stream `{name}` has no more steps to close: it is {word}")));
            }
        }
        if through > live.closed().saturating_add(MAX_STEPS_PER_REQUEST) {
            let (closed, most) = (live.closed(), live.closed() + MAX_STEPS_PER_REQUEST);
            return Err(usage(format!(
                "stream `{name}` is at step {closed}: close at most {MAX_STEPS_PER_REQUEST} steps at a time, so \
                 through {most}"
            ))
            .into());
        }
        if through > live.session.last_step() {
            let last = live.session.last_step();
            return Err(usage(format!("stream `{name}` has only {last} steps: there is no step {through}")).into());
        }
        loop {
            let mut done = Vec::new();
            while self.live[&number].closed() < through && self.live[&number].failed.is_none() {
                self.beat();
                let computed = compute(self.live.get_mut(&number).expect("just seen"), &self.store);
                self.record_closed(number, computed, &mut done);
                if done.iter().map(Computed::rows).sum::<usize>() > MAX_ROWS_PER_COMMIT {
                    break;
                }
            }
            if done.is_empty() {
                break;
            }
            self.commit(done)?;
        }
        self.publish_and_wait()?;
        self.checkpoint_if_large()?;
        Ok(())
    }

    /// Updates the witness, and waits until the steps are shipped and the update has settled: an operator who closes by
    /// hand wants to see the result.
    pub(super) fn publish_and_wait(&mut self) -> Result<()> {
        self.advance_publication()?;
        let until = std::time::Instant::now() + MANUAL_CLOSE_TIMEOUT;
        while (self.settling.is_some() || self.held.is_some())
            && self.read_only.is_none()
            && std::time::Instant::now() < until
        {
            std::thread::sleep(std::time::Duration::from_millis(20));
            self.advance_publication()?;
        }
        Ok(())
    }

    /// Closes steps again that the witness has seen: they are committed only if the result is the same.
    fn close_as_witnessed(&mut self, number: u32, through: u64) -> Result<(), Refusal> {
        let live = self.live.get_mut(&number).expect("just seen");
        let (name, seen) = (live.info.name().to_owned(), live.ahead.clone().expect("the witness is ahead"));
        if through > seen.closed || through <= live.closed() {
            let problem = format!("stream `{name}`: {}", is_behind(live.closing, live.closed(), seen.closed));
            return Err(usage(problem).into());
        }
        let mut done = Vec::new();
        while self.live[&number].closed() < through && self.live[&number].failed.is_none() {
            self.beat();
            let computed = compute(self.live.get_mut(&number).expect("just seen"), &self.store);
            self.record_closed(number, computed, &mut done);
        }
        if through < seen.closed {
            // An intermediate close, for groups that joined there. Nobody sees it until the last step has come out the
            // same.
            return Ok(self.commit(done)?);
        }
        if done.last().is_none_or(|last| hex(&last.record.head) != seen.head || hex(&last.record.events) != seen.events)
        {
            self.reload(number)?;
            let problem = format!(
                "the events of stream `{name}` do not reproduce the steps published through {}. Send the missing \
                 events and close again; if extra events were sent, restore the folder copy again; or retire the \
                 stream (its spent budget stays spent)",
                seen.closed
            );
            return Err(usage(problem).into());
        }
        self.live.get_mut(&number).expect("just seen").ahead = None;
        if let Err(error) = self.commit(done) {
            self.live.get_mut(&number).expect("just seen").ahead = Some(seen);
            return Err(error.into());
        }
        // If this is interrupted, the next start finds that the result is the same.
        self.recovered(number)?;
        self.publish_and_wait()?;
        Ok(())
    }

    /// Adds a step that was closed in memory to `done`; a step that could not be closed ends its stream.
    fn record_closed(&mut self, number: u32, computed: Result<Computed>, done: &mut Vec<Computed>) {
        match computed {
            Ok(computed) => done.push(computed),
            Err(error) => {
                let live = self.live.get_mut(&number).expect("just seen");
                live.failed = Some(error.to_string());
                live.update_progress(None);
                (self.notify)(Notice::Changed(Arc::clone(&live.info)));
            }
        }
    }

    /// Commits steps that were closed in memory; if that fails, their streams return to the committed state.
    fn commit(&mut self, done: Vec<Computed>) -> Result<()> {
        self.commit_with(done, |_| Ok(()))
    }

    /// The same, with an additional write in the same commit.
    pub(super) fn commit_with(
        &mut self,
        done: Vec<Computed>,
        also: impl FnOnce(&WriteTransaction) -> Result<()>,
    ) -> Result<()> {
        let written = self.store.change(|writing| {
            also(writing)?;
            let mut closed = writing.open_table(CLOSED).map_err(stored)?;
            let mut rows = writing.open_table(ROWS).map_err(stored)?;
            let mut names = writing.open_table(NAMES).map_err(stored)?;
            for step in &done {
                let record = to_bytes(&step.record)?;
                closed.insert((step.number, step.step), record.as_slice()).map_err(stored)?;
                for (block, bytes) in &step.blocks {
                    rows.insert((step.number, step.publication, *block), bytes.as_slice()).map_err(stored)?;
                }
                for (place, name) in &step.names {
                    names.insert((step.number, *place), to_bytes(name)?.as_slice()).map_err(stored)?;
                }
            }
            Ok(())
        });
        if let Err(error) = written {
            let mut numbers: Vec<u32> = done.iter().map(|step| step.number).collect();
            numbers.dedup();
            for number in numbers {
                self.reload(number)?;
            }
            return Err(error);
        }
        self.is_unrecorded = true;
        self.held = None;
        let now = self.clock.now().micros();
        for Computed { number, step, mut record, names, .. } in done {
            let live = self.live.get_mut(&number).expect("it was closed");
            live.info.add_names(names.into_iter().map(|(_, name)| name));
            if let Some((closes, shows)) = live.times(step) {
                // Late rows are shown at the next multiple of the delay, which does not reveal how long they took.
                let (delay, late) = (shows.micros() - closes.micros(), now - shows.micros());
                if delay > 0 && late > 0 && late < 100 * delay {
                    record.shown_at = shows.micros() + (late / delay + 1) * delay;
                }
            }
            live.last = record.clone();
            live.unseen.push_back((step, record));
            live.ids.forget(step);
            live.update_progress(None);
        }
        Ok(())
    }

    /// Loads a stream from the store again, after changes in memory could not be committed.
    pub(super) fn reload(&mut self, number: u32) -> Result<()> {
        let old = self.live.remove(&number).expect("it was loaded");
        match self.load(number, old.info.record()) {
            Ok(live) => {
                let mut live = RunningStream { acknowledged: old.acknowledged, ..live };
                self.load_unpublished(&mut live)?;
                self.put(live);
                Ok(())
            }
            Err(error) => {
                self.live.insert(number, RunningStream { failed: Some(error.to_string()), ..old });
                Err(error)
            }
        }
    }

    /// Updates the witness with the committed steps, and shows publications that are due. Steps that the witness has
    /// not acknowledged are not shown.
    ///
    /// # Errors
    /// If the store cannot be written; then nothing is shown.
    pub(super) fn advance_publication(&mut self) -> Result<()> {
        self.check_settled();
        if self.is_unrecorded && self.read_only.is_none() && !self.waits_for_shipping() {
            let streams = self.live.values().filter(|live| live.closed() > 0 && live.ahead.is_none());
            let seen = streams.map(|live| {
                let (head, events) = (hex(&live.last.head), hex(&live.last.events));
                (live.info.name().to_owned(), LastClosed { closed: live.closed(), head, events })
            });
            let seen: Vec<(String, LastClosed)> = seen.collect();
            self.write_witness(seen);
        }
        let (now, has_witness) = (self.clock.now().micros(), self.witness.is_some());
        let due = |live: &RunningStream| {
            let last = live.showable(has_witness);
            let is_due = |(step, record): &&(u64, ClosedRecord)| record.shown_at <= now && *step <= last;
            live.unseen.iter().take_while(is_due).count()
        };
        let due: Vec<(u32, usize)> =
            self.live.values().map(|live| (live.info.number, due(live))).filter(|(_, count)| *count > 0).collect();
        self.record_shown(&due)?;
        for (number, count) in due {
            let live = self.live.get_mut(&number).expect("just seen");
            let before = live.info.progress().publications;
            let Some((_, record)) = live.unseen.drain(..count).next_back() else { continue };
            live.update_progress(Some(&record));
            for publication in before + 1..=record.publications {
                (self.notify)(Notice::Published(Arc::clone(&live.info), publication));
            }
            if live.state() != StreamState::Open {
                (self.notify)(Notice::Changed(Arc::clone(&live.info)));
            }
        }
        Ok(())
    }

    /// Records the last steps that are about to be shown, before anybody sees them: a clock that is slow at the next
    /// start hides nothing. Rows of streams that no clock closes are always shown.
    fn record_shown(&self, due: &[(u32, usize)]) -> Result<()> {
        let last = |(number, count): &(u32, usize)| {
            let live = &self.live[number];
            live.times(1)?;
            Some((*number, live.unseen[count - 1].0))
        };
        let last: Vec<(u32, u64)> = due.iter().filter_map(last).collect();
        if last.is_empty() {
            return Ok(());
        }
        self.store.change(|writing| {
            let mut shown = writing.open_table(SHOWN).map_err(stored)?;
            for (number, step) in &last {
                shown.insert(number, step).map_err(stored)?;
            }
            Ok(())
        })
    }
}
