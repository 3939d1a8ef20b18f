//! Sorts all events by their step, in bounded memory.

use super::open_step::Accumulator;
use super::placer::Placed;
use crate::leb128::{push_number, read_number};
use evertally::privacy::contribution::Pseudonym;
use evertally_declare::error::{PipelineError, Result, failure, usage};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// The number of events that are sorted in memory.
const MAX_BUFFERED_EVENTS: usize = 1 << 18;
/// The number of bytes of a run that are read at a time.
const CHUNK_BYTES: usize = 1 << 14;

/// An external merge sort: events that do not fit into memory are written, sorted by step, to a temporary file without
/// a name. Within a step the order is arbitrary.
///
/// Memory: 2^18 events, and 16 KiB for each 2^18 events that were pushed. The file holds keyed hashes of persons
/// instead of their names, and vanishes when this is dropped or the process ends. **Not private.**
pub(super) struct ExternalSort<T: Accumulator> {
    /// Sorted by falling step if `is_sorted`.
    buffer: Vec<Placed<T::Label>>,
    is_sorted: bool,
    most: usize,
    file: Option<File>,
    /// The length of the file.
    end: u64,
    runs: Vec<SortedRun>,
    /// The step of the next event of each run that has one.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
}

/// A part of the file whose events are sorted by step.
struct SortedRun {
    /// The part that is not read yet.
    from: u64,
    to: u64,
    /// The bytes that were read, of which those before `at` are used.
    bytes: Vec<u8>,
    at: usize,
}

impl<T: Accumulator> ExternalSort<T> {
    pub(super) fn new() -> Self {
        let (buffer, runs, heads) = (Vec::new(), Vec::new(), BinaryHeap::new());
        Self { buffer, is_sorted: true, most: MAX_BUFFERED_EVENTS, file: None, end: 0, runs, heads }
    }

    /// Writes events to the file when there are this many, so that tests reach it with few events.
    #[cfg(test)]
    pub(super) fn with_buffer(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Adds an event.
    ///
    /// # Errors
    /// If the temporary file cannot be written.
    pub(super) fn push(&mut self, placed: Placed<T::Label>) -> Result<()> {
        self.buffer.push(placed);
        self.is_sorted = false;
        if self.buffer.len() < self.most {
            return Ok(());
        }
        self.write_run().map_err(|error| temporary(&error))
    }

    fn sort(&mut self) {
        if !self.is_sorted {
            self.buffer.sort_unstable_by_key(|placed| Reverse(placed.step));
            self.is_sorted = true;
        }
    }

    /// Writes the buffer as a run.
    fn write_run(&mut self) -> io::Result<()> {
        self.sort();
        let Some(first) = self.buffer.last().map(|placed| placed.step) else { return Ok(()) };
        let file = match &mut self.file {
            Some(file) => file,
            file => file.insert(tempfile::tempfile()?),
        };
        file.seek(SeekFrom::Start(self.end))?;
        let (from, mut bytes, mut label) = (self.end, Vec::new(), Vec::new());
        while let Some(placed) = self.buffer.pop() {
            push_event::<T>(&placed, &mut label, &mut bytes);
            if bytes.len() >= 16 * CHUNK_BYTES || self.buffer.is_empty() {
                file.write_all(&bytes)?;
                self.end += bytes.len() as u64;
                bytes.clear();
            }
        }
        self.heads.push(Reverse((first, self.runs.len())));
        self.runs.push(SortedRun { from, to: self.end, bytes, at: 0 });
        Ok(())
    }

    /// The step of the first event that was not taken.
    pub(super) fn first_step(&mut self) -> Option<u64> {
        self.sort();
        let head = self.heads.peek().map(|Reverse((step, _))| *step);
        let buffered = self.buffer.last().map(|placed| placed.step);
        head.into_iter().chain(buffered).min()
    }

    /// Takes the first event, if its step is at most `step`.
    ///
    /// # Errors
    /// If the temporary file cannot be read.
    pub(super) fn pop(&mut self, step: u64, tally: &T) -> Result<Option<Placed<T::Label>>> {
        if self.first_step().is_none_or(|first| first > step) {
            return Ok(None);
        }
        let Some(Reverse((head, number))) = self.heads.peek().copied().filter(|Reverse((head, _))| *head <= step)
        else {
            return Ok(self.buffer.pop());
        };
        self.heads.pop();
        let (run, file) = (&mut self.runs[number], self.file.as_mut().expect("runs are in a file"));
        let placed = run.next(file, tally).map_err(|error| temporary(&error))?.ok_or_else(damaged)?;
        debug_assert_eq!(placed.step, head);
        if let Some(next) = run.peek(file).map_err(|error| temporary(&error))? {
            self.heads.push(Reverse((next, number)));
        }
        Ok(Some(placed))
    }
}

impl SortedRun {
    /// Reads on until an event is complete, and returns the number of its bytes after their length; `None` at the end.
    fn fill(&mut self, file: &mut File) -> io::Result<Option<(usize, usize)>> {
        loop {
            let mut rest = &self.bytes[self.at..];
            let before = rest.len();
            if let Some(length) = read_number(&mut rest).and_then(|length| usize::try_from(length).ok())
                && rest.len() >= length
            {
                return Ok(Some((self.at + before - rest.len(), length)));
            }
            if self.from == self.to {
                return Ok(None);
            }
            self.bytes.drain(..self.at);
            self.at = 0;
            let (old, more) = (self.bytes.len(), (self.to - self.from).min(CHUNK_BYTES as u64));
            self.bytes.resize(old + more as usize, 0);
            file.seek(SeekFrom::Start(self.from))?;
            file.read_exact(&mut self.bytes[old..])?;
            self.from += more;
        }
    }

    /// The step of the next event.
    fn peek(&mut self, file: &mut File) -> io::Result<Option<u64>> {
        let Some((start, length)) = self.fill(file)? else { return Ok(None) };
        Ok(read_number(&mut &self.bytes[start..start + length]))
    }

    /// Takes the next event; `None` if it is damaged.
    fn next<T: Accumulator>(&mut self, file: &mut File, tally: &T) -> io::Result<Option<Placed<T::Label>>> {
        let Some((start, length)) = self.fill(file)? else { return Ok(None) };
        self.at = start + length;
        Ok(read_event(&self.bytes[start..start + length], tally))
    }
}

/// Appends an event: its length, then step, value, time, person and label.
fn push_event<T: Accumulator>(placed: &Placed<T::Label>, label: &mut Vec<u8>, bytes: &mut Vec<u8>) {
    label.clear();
    push_number(label, placed.step);
    label.extend_from_slice(&placed.value.to_le_bytes());
    label.extend_from_slice(&placed.time.to_le_bytes());
    label.extend_from_slice(&placed.person.to_bytes());
    T::push_label(&placed.label, label);
    push_number(bytes, label.len() as u64);
    bytes.extend_from_slice(label);
}

fn read_event<T: Accumulator>(mut bytes: &[u8], tally: &T) -> Option<Placed<T::Label>> {
    let step = read_number(&mut bytes)?;
    let (value, rest) = bytes.split_first_chunk()?;
    let (time, rest) = rest.split_first_chunk()?;
    let (person, label) = rest.split_first_chunk()?;
    let label = tally.read_label(label)?;
    let (value, time) = (i64::from_le_bytes(*value), i64::from_le_bytes(*time));
    Some(Placed { step, time, value, person: Pseudonym::from_bytes(*person), label, mark: 0 })
}

fn temporary(error: &io::Error) -> PipelineError {
    let folder = std::env::temp_dir();
    usage(format!(
        "events are sorted in a temporary file in {}, but that failed ({error}); point TMPDIR to a folder with enough \
         space",
        folder.display()
    ))
}

fn damaged() -> PipelineError {
    failure("the temporary file of sorted events was changed by another program; run again")
}

#[cfg(test)]
mod tests;
