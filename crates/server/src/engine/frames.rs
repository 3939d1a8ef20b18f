//! A stream of Arrow record batches, whose frames are looked at before anything is made of them.
//!
//! Each message says how long it is, and readers make room for that before the bytes have come: eight bytes from a stranger
//! could ask for all memory there is. Here a message is taken in as it comes, and handed on once it is whole; what it says of
//! itself must be possible. [Format](https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format).

use arrow_ipc::{MessageHeader, root_as_message};
use std::io::{self, Cursor, ErrorKind, Read};

/// What stands before a message since version 0.15 of the format.
const CONTINUES: [u8; 4] = [0xff; 4];
/// Bytes of the description of a message, at most.
const MOST_DESCRIBED: u32 = 16 << 20;

/// The same bytes, a message at a time.
pub(super) struct Frames<R> {
    inner: R,
    message: Cursor<Vec<u8>>,
    has_ended: bool,
}

impl<R: Read> Frames<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, message: Cursor::new(Vec::new()), has_ended: false }
    }

    /// Takes the next message in; nothing behind the last one.
    fn take_message(&mut self) -> io::Result<()> {
        let mut message = self.up_to(4)?;
        if message.is_empty() {
            self.has_ended = true;
            return Ok(());
        }
        if message == CONTINUES {
            message.extend(self.exactly(4)?);
        }
        let length = message.last_chunk().map(|last| u32::from_le_bytes(*last)).ok_or_else(cut)?;
        if length == 0 {
            self.has_ended = true; // the end of the stream; what is behind it is nobody's
        } else if length > MOST_DESCRIBED {
            return Err(impossible());
        } else {
            let described = self.exactly(u64::from(length))?;
            let body = body_of(&described).ok_or_else(impossible)?;
            message.extend(described);
            message.extend(self.exactly(body)?);
        }
        self.message = Cursor::new(message);
        Ok(())
    }

    /// So many bytes, or those that there are: room is made as they come.
    fn up_to(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&mut self.inner).take(count).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn exactly(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let bytes = self.up_to(count)?;
        if bytes.len() as u64 == count { Ok(bytes) } else { Err(cut()) }
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.message.position() == self.message.get_ref().len() as u64 && !self.has_ended {
            self.take_message()?;
        }
        self.message.read(buffer)
    }
}

/// How long the body of a message is; `None` where what it says cannot be.
fn body_of(described: &[u8]) -> Option<u64> {
    let message = root_as_message(described).ok()?;
    let body = u64::try_from(message.bodyLength()).ok()?;
    let rows = match message.header_type() {
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch()?;
            // What is compressed inside says its own lengths; a body is compressed as a whole.
            batch.compression().is_none().then(|| batch.length())?
        }
        MessageHeader::DictionaryBatch => {
            let batch = message.header_as_dictionary_batch()?.data()?;
            batch.compression().is_none().then(|| batch.length())?
        }
        _ => 0,
    };
    // Every row has a time, of a bit at least.
    (u64::try_from(rows).ok()? <= 8 * body.max(1)).then_some(body)
}

/// A reader takes an end in the middle for the end; it is none.
fn cut() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it ends in the middle of a message; send it whole")
}

fn impossible() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        "a message of it is damaged, or compressed by itself; send record batches that are not compressed, and compress the \
         whole body with Content-Encoding",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    use std::sync::Arc;

    fn stream() -> Vec<u8> {
        let times: ArrayRef = Arc::new(StringArray::from(vec!["2026-01-01T00:30:00Z"; 5]));
        let batch = RecordBatch::try_from_iter([("time", times)]).unwrap();
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn what_is_whole_goes_through_as_it_is() {
        let (bytes, mut read) = (stream(), Vec::new());
        Frames::new(&bytes[..]).read_to_end(&mut read).unwrap();
        assert_eq!(read, bytes);
        let rows = arrow_ipc::reader::StreamReader::try_new(Frames::new(&bytes[..]), None).unwrap();
        assert_eq!(rows.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 10);
    }

    #[test]
    fn what_is_cut_is_not_taken_for_whole() {
        let bytes = stream();
        for length in 0..bytes.len() {
            let mut read = Vec::new();
            let whole = Frames::new(&bytes[..length]).read_to_end(&mut read);
            assert!(whole.is_err() || read == bytes[..length], "{length}");
            let table = arrow_ipc::reader::StreamReader::try_new(Frames::new(&bytes[..length]), None);
            let is_read = table.is_ok_and(|mut table| table.all(|batch| batch.is_ok()));
            assert!(!is_read || whole.is_ok(), "{length}");
        }
    }

    #[test]
    fn no_byte_asks_for_room_that_is_not_needed() {
        let bytes = stream();
        for place in 0..bytes.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[place] ^= change;
                let mut read = Vec::new();
                let whole = Frames::new(&changed[..]).read_to_end(&mut read);
                // As it is up to some message, and then no more.
                assert!(read.len() <= bytes.len() && changed.starts_with(&read), "{place}");
                assert!(whole.is_ok() || read.len() < bytes.len());
            }
        }
    }
}
