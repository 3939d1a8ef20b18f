//! Erasing a person: the events of open steps, as though they had never been sent.
//!
//! Nothing of an open step has entered a sum, and each person's bounds are applied when the step closes, to that
//! person's events alone. So removing them changes nobody else's. Closed steps hold no events, only noisy sums and the
//! number of kept events by pseudonym, which stay: they are spent.
//!
//! Ids of batches, positions in sources and the hashed ids of rows also stay, so that a client that sends the same
//! batch or row again does not bring the events back.

use super::core::Core;
use super::info::{StreamInfo, StreamState};
use super::refusal::Refusal;
use crate::store::{EVENTS, LATE, LateRecord, STATES, StateRecord, from_bytes, stored, to_bytes};
use evertally::privacy::contribution::Pseudonym;
use evertally_declare::error::{Result, failure, usage};
use evertally_declare::field::Field;
use evertally_declare::identity::Identities;
use evertally_publish::session::{GroupNumbers, Placed};
use redb::{ReadableTable, WriteTransaction};
use std::sync::atomic::Ordering;

/// A person as a row names them.
#[derive(Clone, PartialEq)]
pub struct PersonCell(PersonText);

#[derive(Clone, PartialEq)]
enum PersonText {
    Text(String),
    Number(String),
}

impl PersonCell {
    /// A text, such as a cell of CSV.
    pub fn text(text: &str) -> Self {
        Self(PersonText::Text(text.to_owned()))
    }

    /// A number of JSON, by its digits.
    pub fn number(digits: &str) -> Self {
        Self(PersonText::Number(digits.to_owned()))
    }

    /// The identity. Problems do not repeat the name.
    fn identity(&self, ids: Identities) -> Result<String, Refusal> {
        let (cell, mut scratch) = (self.field(), String::new());
        match ids.of(cell, &mut scratch) {
            Ok(Some(identity)) => Ok(identity.to_owned()),
            Ok(None) => Err(usage("`person` is missing: send the value that the person's rows have").into()),
            Err(_) => Err(usage(
                "`person` is a number that may have been rounded, and rows with such a person are refused: send all of \
                 its digits, as a text",
            )
            .into()),
        }
    }

    fn field(&self) -> Field<'_> {
        match &self.0 {
            PersonText::Text(text) => Field::Text(text),
            PersonText::Number(digits) => Field::Number(digits),
        }
    }
}

/// A person to be erased from a stream.
struct Erased {
    /// The canonical name, as texts of late rows have it.
    identity: String,
    ids: Identities,
    pseudonym: Pseudonym,
    /// The column of persons among the texts of a late row.
    column: usize,
}

impl Core {
    /// Erases the events of a person from the open step and from later ones, and their late rows that were set aside.
    /// Erasing the same person again changes nothing.
    ///
    /// Returns the first step from which the events are erased. That is the same whether there were any.
    ///
    /// # Errors
    /// If there is no such stream, it protects single events, it has failed, `person` cannot name anybody, or the store
    /// cannot be written; then nothing has changed.
    pub fn erase(&mut self, name: &str, person: &PersonCell) -> Result<u64, Refusal> {
        if let Some(why) = &self.read_only {
            return Err(Refusal::Halted(why.clone()));
        }
        let info = self.find(name).ok_or(Refusal::NoStream)?;
        let identity = person.identity(info.stream.ids)?;
        let live = self.live.get_mut(&info.number).ok_or(Refusal::NoStream)?;
        if let StreamState::Failed(_) = live.state() {
            return Err(Refusal::ReadOnly(format!(
                "stream `{name}` has failed, so its events cannot be read: the operator's page names the cause"
            )));
        }
        if let StreamState::Recovering(_) = live.state() {
            return Err(Refusal::ReadOnly(format!(
                "stream `{name}` is recovering, which needs the same events as before: erase the person once it has \
                 recovered"
            )));
        }
        let Some(pseudonym) = live.session.erase(&identity) else {
            return Err(usage(format!(
                "stream `{name}` protects single events and keeps no persons, so it cannot tell whose its events are"
            ))
            .into());
        };
        let columns = &info.stream.columns;
        let column = 1 + usize::from(columns.time_of_day.is_some()) + columns.labels.len();
        let erased = Erased { identity, ids: info.stream.ids, pseudonym, column };
        // In memory, the events are gone; if the store still has them, they are loaded again.
        let waiting = match self.write_erased(&info, &erased) {
            Ok(waiting) => waiting,
            Err(error) => {
                self.reload(info.number)?;
                return Err(error.into());
            }
        };
        let live = self.live.get_mut(&info.number).ok_or(Refusal::NoStream)?;
        live.unsaved = 0;
        let count = &live.info.counts.waiting;
        let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some(count.saturating_sub(waiting)));
        Ok(live.closed() + 1)
    }

    /// Writes the session without the person, and later events and late rows without theirs, in one commit. Returns
    /// the number of later events that were removed.
    fn write_erased(&mut self, info: &StreamInfo, erased: &Erased) -> Result<u64> {
        let live = self.live.get_mut(&info.number).ok_or_else(|| failure("the stream is not loaded"))?;
        let session = live.session.live_state()?.ok_or_else(|| failure("the session cannot be checkpointed"))?;
        let (number, closed, counted) = (info.number, live.closed(), live.batches);
        let numbers = info.stream.plan.threshold().is_some().then(|| live.session.numbers());
        let state = to_bytes(&StateRecord { closed, counted, session })?;
        self.store.change(|writing| {
            writing.open_table(STATES).map_err(stored)?.insert(number, state.as_slice()).map_err(stored)?;
            erase_late(writing, number, erased)?;
            erase_later(writing, (number, closed + 1, counted), numbers.as_ref(), erased)
        })
    }
}

/// Removes the events that the checkpoint includes, and those of the person in later steps; returns their number.
fn erase_later(
    writing: &WriteTransaction,
    (number, open, counted): (u32, u64, u64),
    numbers: Option<&GroupNumbers>,
    erased: &Erased,
) -> Result<u64> {
    let mut events = writing.open_table(EVENTS).map_err(stored)?;
    events.retain_in((number, 0, 0)..=(number, open, counted), |_, _| false).map_err(stored)?;
    let mut changed = Vec::new();
    let mut removed = 0;
    for entry in events.range((number, open + 1, 0)..=(number, u64::MAX, u64::MAX)).map_err(stored)? {
        let (key, bytes) = entry.map_err(stored)?;
        let (_, step, batch) = key.value();
        let (kept, count) = without(bytes.value(), (step, erased.pseudonym), numbers)?;
        if count > 0 {
            changed.push(((number, step, batch), kept));
            removed += count;
        }
    }
    for (key, kept) in changed {
        match kept.is_empty() {
            true => drop(events.remove(key).map_err(stored)?),
            false => drop(events.insert(key, kept.as_slice()).map_err(stored)?),
        }
    }
    Ok(removed)
}

/// The events of a chunk without those of a person, and the number of these.
fn without(
    mut bytes: &[u8],
    (step, person): (u64, Pseudonym),
    numbers: Option<&GroupNumbers>,
) -> Result<(Vec<u8>, u64)> {
    let (mut kept, mut removed) = (Vec::with_capacity(bytes.len()), 0);
    while !bytes.is_empty() {
        let before = bytes;
        let placed = Placed::read(step, true, numbers, &mut bytes)
            .ok_or_else(|| failure("the data folder is corrupt: the events of a batch cannot be read"))?;
        match placed.person() == person {
            true => removed += 1,
            false => kept.extend_from_slice(&before[..before.len() - bytes.len()]),
        }
    }
    Ok((kept, removed))
}

/// Removes the person's late rows that were set aside.
fn erase_late(writing: &WriteTransaction, number: u32, erased: &Erased) -> Result<()> {
    let mut late = writing.open_table(LATE).map_err(stored)?;
    let mut changed = Vec::new();
    for entry in late.range((number, 0)..=(number, u64::MAX)).map_err(stored)? {
        let (key, bytes) = entry.map_err(stored)?;
        let mut record: LateRecord = from_bytes(bytes.value(), "late events")?;
        let before = record.rows.len();
        record.rows.retain(|row| !erased.is_of(row));
        if record.rows.len() < before {
            changed.push((key.value(), record));
        }
    }
    for (key, record) in changed {
        match record.rows.is_empty() {
            true => drop(late.remove(key).map_err(stored)?),
            false => drop(late.insert(key, to_bytes(&record)?.as_slice()).map_err(stored)?),
        }
    }
    Ok(())
}

impl Erased {
    /// Whether a late row is the person's.
    fn is_of(&self, row: &[String]) -> bool {
        let text = row.get(self.column).map_or("", String::as_str);
        let mut scratch = String::new();
        self.ids.of(Field::Text(text), &mut scratch).is_ok_and(|identity| identity == Some(&*self.identity))
    }
}
