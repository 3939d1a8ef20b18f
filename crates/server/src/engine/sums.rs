//! Sums of whole steps that were counted elsewhere, by a cluster for example: each is taken once, and published with it.
//!
//! Under the name of a step stands what it was: a keyed digest of its sums, which does not depend on how they were sent or
//! in what order. What is sent again is the same or refused, so that the noise of a step never meets other sums. Whoever
//! sends them vouches for the bounds of persons.

use super::accepting::{Accepted, check_open};
use super::closing::MOST_STEPS;
use super::core::Core;
use super::info::{State, StreamInfo};
use super::live::LAST_BATCH;
use super::prepare::{BatchFormat, Chunk, Digested, MOST_NAMED, MOST_ROWS, each_event, guarded};
use super::refusal::{Refusal, RowProblem};
use crate::clock::Clock;
use crate::store::{BATCHES, BatchRecord, Closing, EVENTS, from_bytes, stored, to_bytes};
use evertally_publish::error::{Result, usage};
use evertally_publish::event::Columns;
use evertally_publish::session::{GroupLabel, Placed};
use evertally_publish::steps::Instant;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The columns of a step and its sum.
const STEP: &str = "step";
const SUM: &str = "sum";

/// The sums of whole steps, as declared.
pub struct PreparedSums {
    steps: RangeInclusive<u64>,
    rows: u64,
    /// By step, those that have sums.
    sums: BTreeMap<u64, Vec<u8>>,
    /// By step, how many groups they are of.
    counts: BTreeMap<u64, u64>,
}

/// What is said of sums that were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SumsReceipt {
    /// The last step whose sums were ever taken.
    pub through: u64,
    /// How many rows were sent.
    pub rows: u64,
    /// Whether all of the steps were taken before.
    pub repeated: bool,
}

/// Reads the sums of steps: rows with the group, `step` and `sum`. Those of one step and group add up; a group without a
/// row adds nothing. By `now` all of them must have ended.
pub(super) fn prepare(
    info: &StreamInfo,
    now: Instant,
    steps: RangeInclusive<u64>,
    (format, bytes): (BatchFormat, Box<dyn Read + Send>),
) -> Result<PreparedSums, Refusal> {
    let (first, last, end) = (*steps.start(), *steps.end(), info.stream.calendar.steps());
    if first == 0 || last < first || last > end {
        let problem = format!("there are no steps {first} through {last}: they are numbered 1 to {end}");
        return Err(usage(problem).into());
    }
    if last - first >= MOST_STEPS {
        return Err(
            usage(format!("send at most {MOST_STEPS} steps at a time, so through {}", first + MOST_STEPS - 1)).into()
        );
    }
    let calendar = &info.stream.calendar;
    if calendar.end_of(last) > now {
        let end = calendar.format(calendar.end_of(last));
        return Err(usage(format!("step {last} has not ended: it does at {end}, by the clock of the service")).into());
    }
    let labels = info.stream.columns.labels.clone();
    let columns = Columns { time: STEP.to_owned(), labels, person: None, value: Some(SUM.to_owned()) };
    let bytes = Digested::new(bytes, &info.digest_key);
    let (groups, mut placer) = (info.groups(), info.placer());
    let (mut rows, mut problems, mut more) = (0, Vec::new(), 0);
    let mut sums: BTreeMap<u64, HashMap<GroupLabel, i64>> = BTreeMap::new();
    let read = guarded(|| {
        each_event(info, &columns, format, bytes, &mut |row| {
            rows += 1;
            if rows > MOST_ROWS {
                return Err(usage(format!("at most {MOST_ROWS} rows are sent at once; send fewer steps")));
            }
            let error = match placer.place_sum(row, steps.clone()) {
                Ok(None) => return Ok(()),
                Ok(Some(placed)) => {
                    let of_step = sums.entry(placed.step()).or_default();
                    let (label, value) = placed.into_sum();
                    let sum = of_step.entry(label).or_default();
                    let Some(total) = sum.checked_add(value) else {
                        return Err(usage("the sum of a step leaves 64 bits; open the stream with a coarser grid"));
                    };
                    *sum = total;
                    return Ok(());
                }
                Err(error) => error,
            };
            match RowProblem::of(&error) {
                Some(problem) if error.io().is_none() && problems.len() < MOST_NAMED => problems.push(problem),
                Some(_) if error.io().is_none() => more += 1,
                _ => return Err(error),
            }
            Ok(())
        })
    });
    info.give_back(placer, &groups);
    if let Err(error) = read {
        return Err(Refusal::of(error));
    }
    if !problems.is_empty() {
        return Err(Refusal::Rows { rows: problems, more });
    }
    let (mut written, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for (step, sums) in sums {
        // In an order of their own, so that the same sums have the same bytes.
        let mut ordered: Vec<Vec<u8>> = Vec::with_capacity(sums.len());
        for (label, value) in sums.into_iter().filter(|(_, sum)| *sum != 0) {
            let mut bytes = Vec::new();
            Placed::of_sum(step, label, value).write(false, &mut bytes);
            ordered.push(bytes);
        }
        ordered.sort_unstable();
        counts.insert(step, ordered.len() as u64);
        written.insert(step, ordered.concat());
    }
    Ok(PreparedSums { steps, rows, sums: written, counts })
}

impl Core {
    /// Reads the sums of steps, for [`take_sums`](Self::take_sums).
    ///
    /// # Errors
    /// If they are not as declared.
    pub fn prepare_sums(
        &self,
        info: &StreamInfo,
        steps: RangeInclusive<u64>,
        batch: (BatchFormat, Box<dyn Read + Send>),
    ) -> Result<PreparedSums, Refusal> {
        prepare(info, latest(&*self.clock, self.ahead), steps, batch)
    }

    /// Takes the sums of whole steps in, and closes them. Those that were taken before must be the same.
    ///
    /// # Errors
    /// If they are not, or are not the next; or the store cannot be written.
    pub fn take_sums(&mut self, info: &Arc<StreamInfo>, prepared: PreparedSums) -> Result<SumsReceipt, Refusal> {
        let (number, name) = (info.number, info.name());
        let live = self.live.get(&number).ok_or(Refusal::NoStream)?;
        if live.closing != Closing::Sums {
            let why = "it counts events; open a stream with `closing` = \"sums\" for those that are counted elsewhere";
            return Err(Refusal::ReadOnly(format!("stream `{name}` takes no sums: {why}")));
        }
        if let Some(why) = &self.read_only {
            return Err(Refusal::Halted(why.clone()));
        }
        let (state, taken) = (live.state(), live.batches);
        let PreparedSums { steps, rows, mut sums, counts } = prepared;
        let (first, last) = (*steps.start(), *steps.end());
        if first > taken + 1 {
            return Err(Refusal::Conflict(format!(
                "stream `{name}` has the sums of steps through {taken}, and step {} would be left out: send the steps from there on; a \
                 query that cannot is begun again from its first event, and sends all steps again",
                taken + 1
            )));
        }
        let digest = |step: u64, bytes: &[u8]| {
            let mut digest = blake3::Hasher::new_keyed(&info.digest_key);
            digest.update(b"evertally serve 1 sums").update(&step.to_le_bytes()).update(bytes);
            *digest.finalize().as_bytes()
        };
        let none = Vec::new();
        for step in first..=last.min(taken) {
            let before = self.digest_of_step(number, step)?;
            if before != Some(digest(step, sums.get(&step).unwrap_or(&none))) {
                return Err(Refusal::Conflict(format!(
                    "step {step} of stream `{name}` was taken with other sums; releasing it again with the same noise would reveal \
                     the difference exactly. Restore the events, and the checkpoint of whoever counts them, or open another stream"
                )));
            }
        }
        let repeated = last <= taken;
        if !repeated {
            check_open(&state, name)?;
            let at = self.clock.now().micros();
            self.store.change(|writing| {
                let mut table = writing.open_table(BATCHES).map_err(stored)?;
                let mut events = writing.open_table(EVENTS).map_err(stored)?;
                for step in taken.max(first - 1) + 1..=last {
                    let bytes = sums.get(&step).unwrap_or(&none);
                    let rows = counts.get(&step).copied().unwrap_or(0);
                    let record = to_bytes(&BatchRecord { digest: digest(step, bytes), rows, at })?;
                    table.insert((number, id_of(step).as_str()), record.as_slice()).map_err(stored)?;
                    if !bytes.is_empty() {
                        events.insert((number, step, step), bytes.as_slice()).map_err(stored)?;
                    }
                }
                table.insert((number, LAST_BATCH), last.to_le_bytes().as_slice()).map_err(stored)?;
                Ok(())
            })?;
            sums.retain(|step, _| *step > taken);
            let chunk = |(step, bytes): (u64, Vec<u8>)| {
                (step, Chunk { events: counts.get(&step).copied().unwrap_or(0), bytes, ..Chunk::default() })
            };
            let chunks = sums.into_iter().map(chunk).collect();
            self.count(Accepted { number, batch: last, chunks, late: 0 });
        }
        self.close_taken(number, last)?;
        Ok(SumsReceipt { through: taken.max(last), rows, repeated })
    }

    /// Closes steps whose sums were taken, if they are not closed.
    fn close_taken(&mut self, number: u32, last: u64) -> Result<(), Refusal> {
        let live = &self.live[&number];
        match live.state() {
            State::Open | State::Recovering(_) if live.closed() >= last => Ok(()),
            // What its witness has seen comes first, and must come out the same.
            State::Recovering(seen) if seen < last => {
                self.close_of(number, seen)?;
                self.close_of(number, last)
            }
            State::Ended => Ok(()),
            _ => self.close_of(number, last),
        }
    }

    /// The digest of a step whose sums were taken.
    fn digest_of_step(&self, number: u32, step: u64) -> Result<Option<[u8; 32]>> {
        let table = self.store.look()?.open_table(BATCHES).map_err(stored)?;
        let record = table.get((number, id_of(step).as_str())).map_err(stored)?;
        let record = record.map(|bytes| from_bytes::<BatchRecord>(bytes.value(), "a step"));
        Ok(record.transpose()?.map(|record| record.digest))
    }
}

/// By when steps have ended whose sums are taken: the clocks of those who send them may be ahead.
pub(super) fn latest(clock: &dyn Clock, ahead: i64) -> Instant {
    Instant::from_micros(clock.now().micros().saturating_add(ahead))
}

/// What a step is called among batches: the id of none has a space.
fn id_of(step: u64) -> String {
    format!("step {step}")
}
