//! Record batches of an Arrow stream that anyone may have written.

use super::frames::Frames;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::StreamReader;
use arrow_schema::{ArrowError, SchemaRef};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Reads an Arrow IPC stream batch by batch, in bounded memory.
///
/// The Arrow library panics over some damaged descriptions of columns; here each is an error, after which nothing more is
/// read.
pub struct ArrowStream<R> {
    reader: StreamReader<Frames<R>>,
    has_ended: bool,
}

impl<R: Read> ArrowStream<R> {
    /// Reads the schema. Messages may have half of `memory` bytes each, which are looked at before room is made for them.
    ///
    /// # Errors
    /// If these are not the bytes of such a stream.
    pub fn new(bytes: R, memory: u64) -> Result<Self, ArrowError> {
        let reader = guarded(|| StreamReader::try_new(Frames::new(bytes, memory), None))?;
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

fn guarded<T>(read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, ArrowError> {
    // Nothing that a panic interrupts is used again: the error ends the stream.
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(ArrowError::IpcError("its description of columns is damaged".into())))
}
