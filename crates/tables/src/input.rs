//! Events from CSV, JSON, access logs, Parquet, Arrow, XES, Excel workbooks and tables in memory, one pass in bounded
//! memory.
//!
//! [`Events`] reads any number of files in order, or standard input (`-`), plain or compressed with gzip, zstd or zip.
//! With the feature `object-stores`, files may also be URLs of `s3`, `gs`, `az`, `abfs` and `https`.
//! The format of a file is detected from its first bytes, never from its name. Cells are passed on as the file
//! holds them: text stays text, so that numbers can be read exactly.

mod arrow;
mod bad_rows;
mod batches;
mod binary;
mod blocks;
mod columns;
mod csv;
mod encoding;
mod feed;
mod frames;
mod head;
mod header;
mod json;
mod limits;
mod lines;
mod log;
mod opened;
mod options;
mod parquet;
mod pass;
mod pieces;
mod remote;
mod seen;
mod source;
mod text;
mod xes;
mod xlsx;
mod xml;
mod zip;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatchReader;
use evertally_declare::error::{InputError, PipelineError, Result, refuse_if};
use evertally_declare::event::{ColumnLayout, Columns, Event};
use evertally_declare::format::Format;

use crate::progress::Progress;

pub use arrow::ArrowStream;
pub use bad_rows::BadRow;
use bad_rows::SetAside;
use csv::RecordBuffers;
pub use encoding::TextEncoding;
pub use feed::EventSink;
pub use head::{HeadColumn, InputHead};
use json::Findings;
pub use limits::{DEFAULT_MEMORY, MAX_CELL_BYTES};
pub use opened::spool;
pub use options::{CsvOptions, ReadOptions};
use pass::{CallbackError, Pass};
use pieces::{InputPieces, Open, Piece};
#[cfg(feature = "object-stores")]
pub use remote::{ObjectFolder, list_stamped, put_object};
pub use remote::{ObjectStamp, is_object, list_objects, object_exists, open_stamped, url_identity};
pub use source::{is_same_source, refuse_duplicates, total_bytes};

pub use seen::{Fingerprints, NewFile, Sorted};

/// The amount that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files read to their end.
    pub files: u64,
    /// Rows passed to the callback.
    pub rows: u64,
}

/// The events of some files, or of a table in memory, passed on in batches.
///
/// Memory does not depend on the number of rows. The first error ends the reading: an
/// [`InputError`] for anything wrong with the input, and
/// [`Cancelled`](evertally_declare::error::Cancelled) soon after the flag is raised.
///
/// ```
/// use evertally_declare::error::PipelineError;
/// use evertally_declare::event::Columns;
/// use evertally_tables::input::{Events, ReadOptions};
/// use std::sync::atomic::AtomicBool;
/// # let folder = tempfile::tempdir()?;
/// let path = folder.path().join("visits.csv");
/// std::fs::write(&path, "time\n2024-05-01\n2024-05-02\n")?;
/// let columns = Columns { time: "time".into(), ..Columns::default() };
/// let (options, running) = (ReadOptions::default(), AtomicBool::new(false));
/// let mut events = Events::from_files(&[path], &columns, &options, &(), &running)?;
/// let mut days = Vec::new();
/// let mut visit = |event: &evertally_declare::event::Event<'_>| Ok(days.push(event.time().to_string()));
/// while events.next_batch::<PipelineError>(&mut visit)? {}
/// assert_eq!(days, ["2024-05-01", "2024-05-02"]);
/// # Ok::<(), PipelineError>(())
/// ```
pub struct Events<'o> {
    layout: ColumnLayout,
    cancelled: &'o AtomicBool,
    pieces: InputPieces<'o>,
    piece: Piece,
    cut: RecordBuffers,
    findings: Findings,
    read: Summary,
    /// Takes the rows that cannot be read; without it they are errors.
    bad_rows: Option<BadRowSink<'o>>,
}

/// Takes rows that cannot be read, in the order of the input.
pub type BadRowSink<'o> = Box<dyn FnMut(BadRow) -> Result<()> + 'o>;

impl<'o> Events<'o> {
    /// The events of files in order; `-` is standard input. A file that is named twice, even under different names, is
    /// refused: its events would count twice.
    pub fn from_files(
        sources: &[PathBuf],
        columns: &Columns,
        options: &'o ReadOptions,
        progress: &'o dyn Progress,
        cancelled: &'o AtomicBool,
    ) -> Result<Self> {
        source::refuse_duplicates(sources)?;
        progress.start(source::total_bytes(sources));
        let layout = ColumnLayout::new(columns);
        let (wanted, sources) = (layout.names().to_vec(), sources.iter().rev().cloned().collect());
        Ok(Self::new(layout, InputPieces { wanted, options, progress, stopped: cancelled, sources, open: None }))
    }

    /// The events from a reader, for example a connection, in a declared format and without compression. Messages use
    /// the given name.
    ///
    /// # Errors
    /// If it cannot be read, or does not begin as that format does.
    pub fn from_reader(
        name: &str,
        reader: Box<dyn Read + Send + 'o>,
        format: Format,
        columns: &Columns,
        options: &'o ReadOptions,
        cancelled: &'o AtomicBool,
    ) -> Result<Self> {
        let layout = ColumnLayout::new(columns);
        let wanted = layout.names().to_vec();
        let opened = source::of_reader(name, reader, format, options)?;
        let open = Some(Open::new(opened, name, options, &wanted, cancelled)?);
        let pieces = InputPieces { wanted, options, progress: &(), stopped: cancelled, sources: Vec::new(), open };
        Ok(Self::new(layout, pieces))
    }

    /// The events of an open file in a declared format, for example one that was [spooled](spool). Messages use the
    /// given name.
    ///
    /// # Errors
    /// If it cannot be read, or does not begin as that format does.
    pub fn from_file(
        name: &str,
        file: File,
        format: Format,
        columns: &Columns,
        options: &'o ReadOptions,
        cancelled: &'o AtomicBool,
    ) -> Result<Self> {
        let layout = ColumnLayout::new(columns);
        let wanted = layout.names().to_vec();
        let open = Some(Open::new(source::of_file(name, file, format, options)?, name, options, &wanted, cancelled)?);
        let pieces = InputPieces { wanted, options, progress: &(), stopped: cancelled, sources: Vec::new(), open };
        Ok(Self::new(layout, pieces))
    }

    /// The rows of a table in memory.
    pub fn from_table(
        table: &'o mut (dyn RecordBatchReader + Send),
        columns: &Columns,
        options: &'o ReadOptions,
        cancelled: &'o AtomicBool,
    ) -> Result<Self> {
        let layout = ColumnLayout::new(columns);
        let (wanted, open) = (layout.names().to_vec(), Some(Open::table(table, layout.names())?));
        let pieces = InputPieces { wanted, options, progress: &(), stopped: cancelled, sources: Vec::new(), open };
        Ok(Self::new(layout, pieces))
    }

    fn new(layout: ColumnLayout, pieces: InputPieces<'o>) -> Self {
        let (piece, cut, findings) = (Piece::default(), RecordBuffers::default(), Findings::default());
        let read = Summary::default();
        Events { layout, cancelled: pieces.stopped, pieces, piece, cut, findings, read, bad_rows: None }
    }

    /// These events without the rows that cannot be read, which [`feed`](Self::feed) passes to `sink`: because of a
    /// time, a value or a cell of the filter, a CSV record of the wrong length, or a line that is not a JSON object.
    /// Other damage to a file is still an error.
    #[must_use]
    pub fn without_bad_rows(mut self, sink: Option<BadRowSink<'o>>) -> Self {
        self.bad_rows = sink;
        self
    }

    /// Calls `visit` for each of the next few thousand rows, in order; false if there are no more. An error from
    /// `visit` ends the reading and is returned unchanged.
    pub fn next_batch<E: From<PipelineError>>(
        &mut self,
        visit: &mut dyn FnMut(&Event<'_>) -> Result<(), E>,
    ) -> Result<bool, E> {
        self.next_rows(visit, None)
    }

    /// Like [`next_batch`](Self::next_batch), but then passes the errors of rows that cannot be read to `refused`.
    /// Damage after which no row can be found still ends the reading.
    pub fn next_batch_with_refused<E: From<PipelineError>>(
        &mut self,
        visit: &mut dyn FnMut(&Event<'_>) -> Result<(), E>,
        refused: &mut dyn FnMut(InputError),
    ) -> Result<bool, E> {
        let aside = SetAside::default();
        let more = self.next_rows(visit, Some(&aside));
        aside.into_errors().for_each(refused);
        more
    }

    fn next_rows<E: From<PipelineError>>(
        &mut self,
        visit: &mut dyn FnMut(&Event<'_>) -> Result<(), E>,
        aside: Option<&SetAside>,
    ) -> Result<bool, E> {
        let mut own = CallbackError::NONE;
        let more = self.read_rows(&mut |event| visit(event).map_err(|error| own.keep(error)), aside);
        own.or(more)
    }

    fn read_rows(&mut self, visit: &mut dyn FnMut(&Event<'_>) -> Result<()>, aside: Option<&SetAside>) -> Result<bool> {
        refuse_if(self.cancelled)?;
        let Self { layout, cancelled, pieces, piece, cut, findings, read, .. } = self;
        if !pieces.next(piece)? {
            pieces.progress.finish();
            return Ok(false);
        }
        let mut pass = Pass { layout, missing: &pieces.options.missing, cancelled, visit, rows: 0, aside };
        let found = piece.visit(cut, &mut pass)?;
        read.rows += pass.rows;
        Self::ended(piece, found, findings, read)?;
        Ok(true)
    }

    /// Adds the findings of a piece, which may be the end of its file.
    fn ended(piece: &Piece, found: Findings, findings: &mut Findings, read: &mut Summary) -> Result<()> {
        findings.add(found);
        if let Some(file) = piece.file.as_ref().filter(|_| piece.is_end()) {
            file.finish(&std::mem::take(findings))?;
            read.files += 1;
        }
        Ok(())
    }

    /// The totals so far.
    pub fn summary(&self) -> Summary {
        self.read
    }
}

/// Calls `visit` for every row of every file, in order: for short lists.
pub fn for_each_event<E: From<PipelineError>>(
    sources: &[PathBuf],
    columns: &Columns,
    options: &ReadOptions,
    progress: &dyn Progress,
    cancelled: &AtomicBool,
    visit: &mut dyn FnMut(&Event<'_>) -> Result<(), E>,
) -> Result<Summary, E> {
    let mut events = Events::from_files(sources, columns, options, progress, cancelled)?;
    while events.next_batch(visit)? {}
    Ok(events.summary())
}
