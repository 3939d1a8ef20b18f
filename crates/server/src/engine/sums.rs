//! Sums of complete steps that were counted elsewhere, for example by a cluster: each step is accepted once, and
//! published.
//!
//! Each step is recorded with a keyed digest of its sums, which does not depend on how or in what order they were sent.
//! Repeated sums must be identical, otherwise they are refused: the noise of a step never meets other sums. The sender
//! guarantees the bounds of persons.

use super::accepting::check_open;
use super::closing::{MAX_ROWS_PER_COMMIT, MAX_STEPS_PER_REQUEST};
use super::computing::compute;
use super::core::Core;
use super::decoding::{Decoding, Share};
use super::identity::BatchBytes;
use super::info::{Counts, StreamInfo, StreamState};
use super::live::LAST_BATCH;
use super::prepare::{
    MAX_BATCH_ROWS, MAX_NAMED_ROWS, READER_BYTES, STEP_BYTES, drained, each_event, guarded, use_memory,
};
use super::refusal::{Refusal, RowProblem};
use crate::clock::Clock;
use crate::store::{BATCHES, BatchRecord, ClosedBy, EVENTS, from_bytes, stored, to_bytes};
use evertally_declare::error::{Result, usage};
use evertally_declare::event::Columns;
use evertally_declare::format::Format;
use evertally_declare::steps::Instant;
use evertally_publish::session::{GroupRef, Placed};
use redb::WriteTransaction;
use std::collections::{BTreeMap, HashMap, btree_map, hash_map};
use std::io::Read;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The column names of a step and its sum.
const STEP: &str = "step";
const SUM: &str = "sum";

/// The steps that are sent.
#[derive(Clone, Debug)]
pub struct SumsRange {
    /// All of them, from the first to the last.
    pub steps: RangeInclusive<u64>,
    /// The number of steps before the first one of the part that accepts them, if steps are counted over several parts
    /// of a stream.
    pub before: u64,
    /// A text that stands for the counted events and means nothing here: a step that is sent again must have the same
    /// one. Allowed for a single step only.
    pub evidence: Option<String>,
}

/// The most bytes of evidence.
const MAX_EVIDENCE_BYTES: usize = 200;

/// The sums of complete steps, as declared.
pub struct PreparedSums {
    steps: RangeInclusive<u64>,
    /// The number of steps before the part, in the numbers of the sender.
    before: u64,
    rows: u64,
    /// The written sums of each step that has some, and the number of its groups.
    sums: BTreeMap<u64, (Vec<u8>, u64)>,
    /// The evidence, if one step is sent.
    evidence: Option<String>,
    /// Their share of the memory for all batches, until the engine has accepted them.
    _memory: Share,
}

/// The receipt of accepted sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumsReceipt {
    /// The last step whose sums were ever accepted.
    pub through: u64,
    /// The number of rows sent.
    pub rows: u64,
    /// Whether all of the steps had been accepted before.
    pub repeated: bool,
}

/// Reads the sums of steps: rows with the group, `step` and `sum`. Rows of the same step and group add up; a group
/// without a row adds nothing. All steps must have ended by `now`.
pub(super) fn prepare(
    info: &StreamInfo,
    now: Instant,
    SumsRange { steps: sent, before, evidence }: SumsRange,
    (format, bytes): (Format, Box<dyn Read + Send>),
    decoding: &Decoding,
) -> Result<PreparedSums, Refusal> {
    let (first, last, end) = (*sent.start(), *sent.end(), before + info.stream.calendar.steps());
    if first <= before || last < first || last > end {
        let problem = format!(
            "there are no steps {first} through {last} in stream `{}`: they are numbered {} to {end}",
            info.name(),
            before + 1
        );
        return Err(usage(problem).into());
    }
    if evidence.as_ref().is_some_and(|evidence| first < last || evidence.len() > MAX_EVIDENCE_BYTES) {
        return Err(usage(format!("evidence is for a single step, and has at most {MAX_EVIDENCE_BYTES} bytes")).into());
    }
    if last - first >= MAX_STEPS_PER_REQUEST {
        return Err(usage(format!(
            "send at most {MAX_STEPS_PER_REQUEST} steps at a time, so through {}",
            first + MAX_STEPS_PER_REQUEST - 1
        ))
        .into());
    }
    let (calendar, steps) = (&info.stream.calendar, first - before..=last - before);
    if calendar.end_of(*steps.end()) > now {
        let end = calendar.format(calendar.end_of(*steps.end()));
        return Err(usage(format!("step {last} has not ended: it ends at {end}, by the clock of the service")).into());
    }
    let labels = info.stream.columns.labels.clone();
    let columns = Columns {
        time: STEP.to_owned(),
        time_of_day: None,
        labels,
        person: None,
        value: Some(SUM.to_owned()),
        filter: Vec::new(),
    };
    let bytes = BatchBytes::new(bytes);
    let (groups, mut placer) = (info.groups(), info.placer());
    let (mut rows, mut problems, mut more) = (0, Vec::new(), 0);
    let mut sums: BTreeMap<u64, HashMap<GroupRef, i64>> = BTreeMap::new();
    let Ok(mut memory) = decoding.share(READER_BYTES) else { return Err(drained(bytes)) };
    let mut busy = false;
    let read = guarded(|| {
        each_event(info, &columns, (format, bytes.clone()), decoding, &mut |row| {
            rows += 1;
            if rows > MAX_BATCH_ROWS {
                return Err(usage(format!("a request has at most {MAX_BATCH_ROWS} rows; send fewer steps")));
            }
            let error = match placer.place_sum(row, sent.clone()) {
                Ok(None) => return Ok(()),
                Ok(Some(placed)) => {
                    let of_step = match sums.entry(placed.step() - before) {
                        btree_map::Entry::Occupied(known) => known.into_mut(),
                        btree_map::Entry::Vacant(new) => {
                            use_memory(&mut memory, STEP_BYTES, decoding, &mut busy)?;
                            new.insert(HashMap::new())
                        }
                    };
                    let (label, value) = placed.into_sum();
                    let sum = match of_step.entry(label) {
                        hash_map::Entry::Occupied(known) => known.into_mut(),
                        hash_map::Entry::Vacant(new) => {
                            use_memory(&mut memory, bytes_of(new.key()), decoding, &mut busy)?;
                            new.insert(0)
                        }
                    };
                    let Some(total) = sum.checked_add(value) else {
                        return Err(usage("the sum of a step exceeds 64 bits; open the stream with a coarser grid"));
                    };
                    *sum = total;
                    return Ok(());
                }
                Err(error) => error,
            };
            match RowProblem::new(&error) {
                Some(problem) if error.io().is_none() && problems.len() < MAX_NAMED_ROWS => problems.push(problem),
                Some(_) if error.io().is_none() => more += 1,
                _ => return Err(error),
            }
            Ok(())
        })
    });
    info.give_back(placer, &groups);
    if busy {
        drop((memory, sums));
        return Err(drained(bytes));
    }
    if let Err(error) = read {
        return Err(Refusal::new(error));
    }
    if !problems.is_empty() {
        return Err(Refusal::Rows { rows: problems, more });
    }
    let mut written = BTreeMap::new();
    for (step, sums) in sums {
        // Sorted, so that equal sums have equal bytes.
        let mut ordered: Vec<Vec<u8>> = Vec::with_capacity(sums.len());
        for (label, value) in sums.into_iter().filter(|(_, sum)| *sum != 0) {
            let mut bytes = Vec::new();
            Placed::from_sum(step, label, value).write(false, &mut bytes);
            ordered.push(bytes);
        }
        ordered.sort_unstable();
        written.insert(step, (ordered.concat(), ordered.len() as u64));
    }
    Ok(PreparedSums { steps, before, rows, sums: written, evidence, _memory: memory })
}

/// About the memory of a group's sum: in a table, and written out.
fn bytes_of(label: &GroupRef) -> u64 {
    match label {
        GroupRef::Place(_) => 80,
        GroupRef::Name(name, _) => 96 + 2 * name.len() as u64,
    }
}

impl PreparedSums {
    /// The sums of a step, sorted.
    fn sums_of(&self, step: u64) -> &[u8] {
        self.sums.get(&step).map_or(&[], |(bytes, _)| bytes)
    }

    /// The number of groups with a sum in a step.
    fn count_of(&self, step: u64) -> u64 {
        self.sums.get(&step).map_or(0, |(_, count)| *count)
    }

    /// The digest of a step.
    fn digest(&self, info: &StreamInfo, step: u64) -> [u8; 32] {
        let mut digest = blake3::Hasher::new_keyed(&info.digest_key);
        let (sums, evidence) = (self.sums_of(step), self.evidence.as_deref().unwrap_or_default());
        digest.update(b"evertally serve 1 sums").update(&step.to_le_bytes());
        digest.update(&(sums.len() as u64).to_le_bytes()).update(sums).update(evidence.as_bytes());
        *digest.finalize().as_bytes()
    }

    /// Records steps as accepted.
    fn write(&self, writing: &WriteTransaction, info: &StreamInfo, steps: RangeInclusive<u64>, at: i64) -> Result<()> {
        let mut table = writing.open_table(BATCHES).map_err(stored)?;
        let mut events = writing.open_table(EVENTS).map_err(stored)?;
        table.insert((info.number, LAST_BATCH), steps.end().to_le_bytes().as_slice()).map_err(stored)?;
        for step in steps {
            let record = BatchRecord {
                digest: self.digest(info, step),
                rows: self.count_of(step),
                duplicates: 0,
                open_step: step,
                at,
            };
            table.insert((info.number, id_of(step).as_str()), to_bytes(&record)?.as_slice()).map_err(stored)?;
            if !self.sums_of(step).is_empty() {
                events.insert((info.number, step, step), self.sums_of(step)).map_err(stored)?;
            }
        }
        Ok(())
    }
}

fn differs(info: &StreamInfo, (step, before): (u64, u64), state: &StreamState) -> Refusal {
    let name = info.name();
    if let StreamState::Recovering(seen) = state {
        let (step, seen) = (step + before, seen + before);
        return Refusal::Conflict(format!(
            "step {step} of stream `{name}` was sent with other sums since its folder was restored; which of them are \
             right is known once all steps through {seen} are there: send the rest, then begin again after the step \
             reported then"
        ));
    }
    let step = step + before;
    Refusal::Conflict(format!(
        "step {step} of stream `{name}` was accepted with other sums, or sums of other events; releasing it again with \
         the same noise would reveal the difference exactly. Restore the events and the checkpoint of the external \
         counter, or open another stream"
    ))
}

impl Core {
    /// Reads the sums of steps, for [`accept_sums`](Self::accept_sums).
    ///
    /// # Errors
    /// If they are not as declared.
    pub fn prepare_sums(
        &self,
        info: &StreamInfo,
        whole: SumsRange,
        batch: (Format, Box<dyn Read + Send>),
    ) -> Result<PreparedSums, Refusal> {
        prepare(info, latest(&*self.clock, self.ahead), whole, batch, &self.decoding)
    }

    /// Accepts, closes and publishes the sums of complete steps, all at once. Steps that were accepted before must be
    /// identical.
    ///
    /// # Errors
    /// If they are not identical, are not the next, or exceed the range of the stream; or if the store cannot be
    /// written. A refused step and the steps after it leave no trace.
    pub fn accept_sums(&mut self, info: &Arc<StreamInfo>, prepared: PreparedSums) -> Result<SumsReceipt, Refusal> {
        let (number, name) = (info.number, info.name());
        let live = self.live.get(&number).ok_or(Refusal::NoStream)?;
        if live.closing != ClosedBy::Sums {
            let why = "it counts events; open a stream with `closing` = \"sums\" to count them elsewhere";
            return Err(Refusal::ReadOnly(format!("stream `{name}` accepts no sums: {why}")));
        }
        if let Some(why) = &self.read_only {
            return Err(Refusal::Halted(why.clone()));
        }
        let (state, taken, rows) = (live.state(), live.batches, prepared.rows);
        let (first, last, before) = (*prepared.steps.start(), *prepared.steps.end(), prepared.before);
        if first > taken + 1 {
            return Err(Refusal::Conflict(format!(
                "stream `{name}` has the sums of steps through {}, and step {} would be missing: send the steps from \
                 there on; a query that cannot do so must begin again from its first event, and send all steps again",
                before + taken,
                before + taken + 1
            )));
        }
        for step in first..=last.min(taken) {
            if self.digest_of_step(number, step)? != Some(prepared.digest(info, step)) {
                return Err(differs(info, (step, before), &state));
            }
        }
        let repeated = last <= taken;
        let new = taken.max(first - 1) + 1..=last;
        match &state {
            // Accepted steps were closed in the same commit.
            StreamState::Open | StreamState::Ended if repeated => {}
            StreamState::Recovering(seen) => self.accept_as_witnessed(info, &prepared, new, *seen)?,
            state => {
                check_open(state, name)?;
                self.accept_and_close(info, &prepared, new)?;
            }
        }
        self.publish_and_wait()?;
        self.checkpoint_if_large()?;
        Ok(SumsReceipt { through: before + taken.max(last), rows, repeated })
    }

    /// Accepts and closes steps, in commits as large as allowed.
    fn accept_and_close(
        &mut self,
        info: &StreamInfo,
        prepared: &PreparedSums,
        steps: RangeInclusive<u64>,
    ) -> Result<(), Refusal> {
        let (mut next, last) = steps.into_inner();
        while next <= last {
            next = self.accept_chunk(info, prepared, next..=last)? + 1;
        }
        Ok(())
    }

    /// Counts and closes the first of these steps in memory. Everything is written in one commit, and only if all of
    /// them can be closed. Returns the last of them.
    fn accept_chunk(
        &mut self,
        info: &StreamInfo,
        prepared: &PreparedSums,
        steps: RangeInclusive<u64>,
    ) -> Result<u64, Refusal> {
        let store = self.store.clone();
        let live = self.live.get_mut(&info.number).expect("just seen");
        let (mut done, mut rows) = (Vec::new(), 0);
        for step in steps.clone() {
            if rows > MAX_ROWS_PER_COMMIT {
                break;
            }
            live.batches = step;
            let counted = live.count(prepared.sums_of(step)).and_then(|_| compute(live, &store));
            match counted {
                Ok(computed) => {
                    rows += computed.rows();
                    done.push(computed);
                }
                Err(error) => {
                    self.reload(info.number)?;
                    return Err(match error.is_usage() {
                        true => usage(format!("step {step} of stream `{}`: {error}", info.name())).into(),
                        false => error.into(),
                    });
                }
            }
        }
        let at = self.clock.now().micros();
        let steps = *steps.start()..=*steps.start() + done.len() as u64 - 1; // fits: there is at least one
        let last = *steps.end();
        self.commit_with(done, |writing| prepared.write(writing, info, steps.clone(), at))?;
        Counts::add(&info.counts.batches, 1);
        Counts::add(&info.counts.events, steps.map(|step| prepared.count_of(step)).sum());
        Ok(last)
    }

    /// Stores sums of a stream that lags its witness, until all steps that the witness has seen are there. They are
    /// published if the result is the same, and deleted otherwise.
    fn accept_as_witnessed(
        &mut self,
        info: &StreamInfo,
        prepared: &PreparedSums,
        steps: RangeInclusive<u64>,
        seen: u64,
    ) -> Result<(), Refusal> {
        let (number, at) = (info.number, self.clock.now().micros());
        let kept = *steps.start()..=seen.min(*steps.end());
        if !kept.is_empty() {
            self.store.change(|writing| prepared.write(writing, info, kept.clone(), at))?;
            let live = self.live.get_mut(&number).expect("just seen");
            live.batches = *kept.end();
            let open = live.session.open_step();
            if kept.contains(&open)
                && let Err(error) = live.count(prepared.sums_of(open))
            {
                self.forget_unclosed(number)?;
                return Err(error.into());
            }
        }
        if self.live[&number].batches < seen {
            return Ok(());
        }
        if let Err(refusal) = self.close_number(number, seen) {
            if matches!(&refusal, Refusal::Other(error) if error.is_usage()) {
                self.forget_unclosed(number)?;
                return Err(Refusal::Conflict(format!(
                    "the sums of stream `{}` do not reproduce the steps published through {seen}, and all sums sent \
                     since its folder was restored were deleted: send them again unchanged; or retire the stream (its \
                     spent budget stays spent)",
                    info.name()
                )));
            }
            return Err(refusal);
        }
        let rest = seen + 1..=*steps.end();
        if rest.is_empty() { Ok(()) } else { self.accept_and_close(info, prepared, rest) }
    }

    /// Deletes stored sums that were never closed.
    fn forget_unclosed(&mut self, number: u32) -> Result<()> {
        let live = &self.live[&number];
        let (closed, kept) = (live.last_committed(), live.batches);
        self.store.change(|writing| {
            let mut table = writing.open_table(BATCHES).map_err(stored)?;
            let mut events = writing.open_table(EVENTS).map_err(stored)?;
            for step in closed + 1..=kept {
                table.remove((number, id_of(step).as_str())).map_err(stored)?;
                events.remove((number, step, step)).map_err(stored)?;
            }
            table.insert((number, LAST_BATCH), closed.to_le_bytes().as_slice()).map_err(stored)?;
            Ok(())
        })?;
        self.reload(number)
    }

    /// The digest of a step whose sums were accepted.
    fn digest_of_step(&self, number: u32, step: u64) -> Result<Option<[u8; 32]>> {
        let table = self.store.look()?.open_table(BATCHES).map_err(stored)?;
        let record = table.get((number, id_of(step).as_str())).map_err(stored)?;
        let record = record.map(|bytes| from_bytes::<BatchRecord>(bytes.value(), "a step"));
        Ok(record.transpose()?.map(|record| record.digest))
    }
}

/// Steps that end by this time are accepted: the clocks of senders may be ahead.
pub(super) fn latest(clock: &dyn Clock, ahead: i64) -> Instant {
    Instant::from_micros(clock.now().micros().saturating_add(ahead))
}

/// The key of a step among batches: no batch id has a space.
fn id_of(step: u64) -> String {
    format!("step {step}")
}
