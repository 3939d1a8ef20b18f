//! Record batches of an Arrow stream or file from an untrusted writer.
//!
//! A file (Feather version 2) is a stream between two marks, followed by a directory for random access, which is not
//! needed here.

use super::batches::TableRows;
use super::columns;
use super::frames::Frames;
use super::options::ReadOptions;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, SchemaRef};
use evertally_declare::error::{InputError, Result as PublishResult, Unreadable};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Reads an Arrow IPC stream batch by batch, in bounded memory.
///
/// The Arrow library panics on some damaged schemas; here each is an error, after which reading ends.
pub struct ArrowStream<R> {
    reader: StreamReader<Frames<R>>,
    has_ended: bool,
}

impl<R: Read> ArrowStream<R> {
    /// Reads the schema. Each message may have at most half of `memory` bytes, which is checked before memory is
    /// allocated for it.
    ///
    /// # Errors
    /// If the bytes are not such a stream.
    pub fn new(bytes: R, memory: u64) -> Result<Self, ArrowError> {
        Self::from_frames(Frames::new(bytes, memory), None)
    }

    fn from_frames(frames: Frames<R>, columns: Option<Vec<usize>>) -> Result<Self, ArrowError> {
        let reader = guarded(|| StreamReader::try_new(frames, columns))?;
        Ok(Self { reader, has_ended: false })
    }
}

impl<R: Read> Iterator for ArrowStream<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = guarded(|| self.reader.next().transpose()).transpose();
        self.has_ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl<R: Read> RecordBatchReader for ArrowStream<R> {
    fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }
}

/// The mark at both ends of a file.
const MARK: &[u8] = b"ARROW1";

/// The maximum number of zero bytes between the first mark and the stream.
const MAX_PADDING: usize = 64;

/// The rows of a file in either format. Only the wanted columns are decoded.
pub(super) fn open<'o>(
    name: &str,
    file: File,
    options: &ReadOptions,
    wanted: &[String],
) -> PublishResult<TableRows<'o>> {
    let damaged = |problem: &dyn std::fmt::Display| damaged(name, problem);
    let mut bytes = BufReader::new(file);
    let start = start_of_stream(&mut bytes).map_err(|e| damaged(&e))?;
    let fields = {
        let stream = ArrowStream::new(&mut bytes, options.memory).map_err(|e| damaged(&e))?;
        stream.schema().fields().clone()
    };
    let mut columns = columns::locate(name, wanted, &fields)?;
    if options.whole_rows {
        columns.extend(columns::others(&columns, &fields));
    }
    let mut places: Vec<usize> = columns.iter().map(|column| column.places[0]).collect();
    places.sort_unstable();
    places.dedup();
    bytes.seek(SeekFrom::Start(start)).map_err(|e| damaged(&e))?;
    let frames = Frames::new(bytes, options.memory).with_end();
    let stream = ArrowStream::from_frames(frames, Some(places)).map_err(|e| damaged(&e))?;
    Ok(TableRows::new(name, Box::new(stream), columns))
}

/// The columns of a file in either format, in their order.
pub(super) fn columns(name: &str, file: File, memory: u64) -> PublishResult<Vec<(String, Option<String>)>> {
    let damaged = |problem: &dyn std::fmt::Display| damaged(name, problem);
    let mut bytes = BufReader::new(file);
    start_of_stream(&mut bytes).map_err(|e| damaged(&e))?;
    let stream = ArrowStream::new(bytes, memory).map_err(|e| damaged(&e))?;
    let readable = |name: String| (name, None);
    Ok(columns::names_of(stream.schema().fields()).into_iter().map(readable).collect())
}

fn damaged(name: &str, problem: &dyn std::fmt::Display) -> InputError {
    let problem = format!("this cannot be read as Arrow record batches ({problem})");
    InputError::in_file(name, problem).as_unreadable(Unreadable::Damaged)
}

/// The offset of the stream, to which the file is set.
fn start_of_stream(file: &mut BufReader<File>) -> io::Result<u64> {
    file.rewind()?;
    if !file.fill_buf()?.starts_with(MARK) {
        return Ok(0);
    }
    let mut end = [0; MARK.len()];
    file.seek(SeekFrom::End(-(MARK.len() as i64)))?; // fits: the file has that many bytes
    file.read_exact(&mut end)?;
    if end != MARK {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it does not end as an Arrow file does; it was cut short",
        ));
    }
    file.seek(SeekFrom::Start(MARK.len() as u64))?;
    let padding = file.fill_buf()?.iter().take(MAX_PADDING).take_while(|byte| **byte == 0).count();
    file.seek(SeekFrom::Start((MARK.len() + padding) as u64))
}

fn guarded<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    // Values interrupted by a panic are not used again: the error ends the stream.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(ArrowError::IpcError("its schema is damaged".into())))
}
