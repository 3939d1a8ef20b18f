//! The database as it was at a time, from shipped segments.

#![expect(clippy::disallowed_methods, reason = "writes a copy of the database")]

use super::ending::is_end;
use super::replica::{Applied, Replica};
use super::segment::Segment;
use super::shipper::time_of;
use super::target::Target;
use crate::store::{CLOSED, STREAMS, Store, StreamRecord, from_bytes, stored};
use crate::witness::WitnessRecord;
use evertally_declare::error::{PipelineError, Result, failure, usage};
use evertally_ledger::disk::{Disk, RealDisk, folder_of, sibling};
use jiff::Timestamp;
use redb::ReadableTable;
use redb::backends::FileBackend;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The chains in a target, the oldest first.
pub(super) fn epochs(target: &dyn Target) -> Result<Vec<String>> {
    Ok(target.list("")?.into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_digit())).collect())
}

/// Writes the database as it was at a time, or as it is in the last segment, to a new file. Returns the time of its
/// last change, which is at most `at`.
///
/// # Errors
/// If the file exists, or the target has no whole database of that time.
pub fn restore(target: &dyn Target, at: Option<Timestamp>, to: &Path) -> Result<Timestamp> {
    if to.exists() {
        return Err(usage(format!("{} exists already; move it away first", to.display())));
    }
    let until = at.map_or(i64::MAX, Timestamp::as_microsecond);
    let unfinished = sibling(to, "new");
    let restored = newest(target, until, &unfinished).and_then(|restored| {
        // Opened once, so that the copy is known to be good before it gets its name. Takeovers since are not undone: it
        // is a copy of the folder that may publish now.
        let store = Store::open(&unfinished)?;
        let primary = primary(target)?;
        if store.primary()? != primary {
            store.set_primary(&primary)?;
        }
        Ok(restored)
    });
    let restored = restored.inspect_err(|_| drop(std::fs::remove_file(&unfinished)))?;
    std::fs::rename(&unfinished, to)?;
    RealDisk.sync_folder(folder_of(to))?;
    Timestamp::from_microsecond(restored).map_err(failure)
}

/// A stream of which a witness has seen later steps than a database has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingSteps {
    /// The stream.
    pub stream: String,
    /// The last closed step of the database; 0 if it has none, or not the stream.
    pub closed: u64,
    /// The last step that the witness has seen.
    pub seen: u64,
}

/// Compares a database with the record of its witness.
///
/// # Errors
/// If the database cannot be read, or the witness belongs to another folder.
pub fn compare(database: &Path, record: &WitnessRecord) -> Result<Vec<MissingSteps>> {
    let store = Store::open(database)?;
    let folder = store.identity()?;
    if record.folder != folder {
        return Err(usage(format!("the witness belongs to another folder ({}, and this is {folder})", record.folder)));
    }
    let looking = store.look()?;
    let (streams, steps) = (looking.open_table(STREAMS).map_err(stored)?, looking.open_table(CLOSED).map_err(stored)?);
    let mut closed = BTreeMap::new();
    for entry in streams.iter().map_err(stored)? {
        let (number, bytes) = entry.map_err(stored)?;
        let (number, stream): (u32, StreamRecord) = (number.value(), from_bytes(bytes.value(), "a stream record")?);
        let mut last = steps.range((number, 0)..=(number, u64::MAX)).map_err(stored)?;
        let last = last.next_back().transpose().map_err(stored)?;
        closed.insert(stream.name, last.map_or(0, |(key, _)| key.value().1));
    }
    let missing = record.streams.iter().map(|(stream, seen)| {
        let closed = closed.get(stream).copied().unwrap_or(0);
        MissingSteps { stream: stream.clone(), closed, seen: seen.closed }
    });
    Ok(missing.filter(|missing| missing.closed < missing.seen).collect())
}

/// Whether a witness names another copy of the folder than a database: a start with this database is refused.
///
/// # Errors
/// If the database cannot be read.
pub fn is_replaced(database: &Path, record: &WitnessRecord) -> Result<bool> {
    Ok(Store::open(database)?.primary()? != record.primary)
}

/// The name at the witness of the primary that has shipped last.
fn primary(target: &dyn Target) -> Result<String> {
    for epoch in continued_epochs(target)?.iter().rev() {
        // A damaged chain does not keep an earlier one from being restored.
        if let Some(head) = Segment::head(target, &Segment::name_of(epoch, 1))? {
            return Ok(head.primary);
        }
    }
    Ok(String::new())
}

/// The chains in a target, the oldest first, without those that a primary began after the one with which another
/// machine took over from it: the changes there were never published.
fn continued_epochs(target: &dyn Target) -> Result<Vec<String>> {
    let mut continued = Vec::new();
    let mut replaced = BTreeSet::new();
    for epoch in epochs(target)? {
        let Some(first) = Segment::head(target, &Segment::name_of(&epoch, 1))? else {
            continued.push(epoch); // a fault is reported to those who read it
            continue;
        };
        if replaced.contains(&first.primary) {
            continue;
        }
        let names = segments(target, &epoch)?;
        if let Some(last) = names.last()
            && is_end(target, &format!("{epoch}/{last}"))?
        {
            replaced.insert(first.primary);
        }
        continued.push(epoch);
    }
    Ok(continued)
}

/// The files of a chain, in their order.
fn segments(target: &dyn Target, epoch: &str) -> Result<Vec<String>> {
    let mut names = target.list(epoch)?;
    names.retain(|name| name.ends_with(".segment"));
    Ok(names)
}

/// Restores from the newest chain that has a whole database of a time.
fn newest(target: &dyn Target, until: i64, to: &Path) -> Result<i64> {
    let epochs = continued_epochs(target)?;
    // Names begin with the time at which a chain began.
    let last = Timestamp::from_microsecond(until).ok().map(time_of);
    let has_begun =
        |epoch: &&String| last.as_ref().is_none_or(|last| epoch.get(..last.len()).unwrap_or(epoch) <= last.as_str());
    for epoch in epochs.iter().rev().filter(has_begun) {
        let Some(through) = last_whole(target, epoch, until)? else { continue };
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let storage = FileBackend::new(options.open(to)?).map_err(failure)?;
        let mut replica = Replica::new(storage, Applied::new(epoch));
        while replica.applied.number < through {
            match replica.apply_next(target, until).map_err(|error| advised(error, &replica.applied))? {
                Some(_) => {}
                None => {
                    let missing = Segment::name_of(epoch, replica.applied.number + 1);
                    let error = usage(format!("the segment {missing} is missing in {}", target.place()));
                    return Err(advised(error, &replica.applied));
                }
            }
        }
        return Ok(replica.applied.at);
    }
    Err(usage(format!(
        "{} has no whole database of that time; choose a later time, or restore a backup",
        target.place()
    )))
}

/// An error of a segment, with the time that can be restored in spite of it.
fn advised(error: PipelineError, applied: &Applied) -> PipelineError {
    if error.io().is_some() {
        return error; // another attempt may succeed
    }
    let time = Timestamp::from_microsecond(applied.at).ok().filter(|_| applied.is_whole);
    let remedy = match time {
        Some(time) => format!("restore the changes before it with `--at {time}`"),
        None => format!(
            "choose a time before its chain began with `--at`: the name {} begins with that time, or restore a backup",
            applied.epoch
        ),
    };
    usage(format!("{error}; {remedy}"))
}

/// The number of the last segment of a chain that was shipped by a time, and after which the database is whole.
///
/// # Errors
/// If it is not known, since a segment is damaged, or the target cannot be read.
fn last_whole(target: &dyn Target, epoch: &str, until: i64) -> Result<Option<u64>> {
    let names = segments(target, epoch)?;
    // Times grow with numbers; whole segments come after the others.
    let head = |name: &str| Segment::head(target, &format!("{epoch}/{name}"));
    let (mut low, mut high) = (0, names.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        match head(&names[middle])? {
            Some(head) if head.at <= until => low = middle + 1,
            _ => high = middle,
        }
    }
    let last = match low.checked_sub(1) {
        Some(last) => head(&names[last])?,
        None => None,
    };
    // A damaged segment may be one of that time.
    if let Some(name) = names.get(low)
        && let Some(bytes) = target.get(&format!("{epoch}/{name}"))?
        && let Err(error) = Segment::unseal(&bytes, &format!("{epoch}/{name}"))
        && last.as_ref().is_none_or(|last| last.at < until)
    {
        let mut applied = Applied::new(epoch);
        if let Some(last) = &last {
            (applied.at, applied.is_whole) = (last.at, last.is_whole);
        }
        return Err(advised(error, &applied));
    }
    // The end of a chain has no changes.
    let number = |head: Segment| if head.ended_by.is_some() { head.number - 1 } else { head.number };
    Ok(last.filter(|head| head.is_whole).map(number))
}
