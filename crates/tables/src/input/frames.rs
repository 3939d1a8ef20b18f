//! A stream of Arrow record batches whose frames are checked before they are used.
//!
//! Each message declares its length, and readers allocate that before the bytes have arrived: eight bytes from an
//! untrusted sender could request all memory. Here a message is read as it arrives, and passed on once it is complete;
//! its declared sizes must be possible.
//! [Format](https://arrow.apache.org/docs/format/Columnar.html#encapsulated-message-format).

use super::limits::mebibytes;
use arrow_ipc::{CompressionType, Message, MessageHeader, root_as_message_with_opts};
use flatbuffers::VerifierOptions;
use std::collections::HashMap;
use std::io::{self, Cursor, ErrorKind, Read};

/// The marker before a message, since version 0.15 of the format.
const CONTINUES: [u8; 4] = [0xff; 4];
/// The declared length of a buffer that was left uncompressed.
const UNCOMPRESSED: i64 = -1;
/// The maximum size of a message's metadata, and of its parsed form: parts of it can be referenced many times.
const MAX_METADATA_BYTES: u32 = 4 << 20;
const MAX_APPARENT_BYTES: usize = 16 << 20;

/// The same bytes, a message at a time.
pub(super) struct Frames<R> {
    inner: R,
    message: Cursor<Vec<u8>>,
    has_ended: bool,
    /// Whether the bytes must have a mark of their end.
    needs_end: bool,
    /// The maximum size of a message.
    most: u64,
    /// The size of each dictionary, which a reader keeps.
    dictionaries: HashMap<i64, u64>,
}

impl<R: Read> Frames<R> {
    /// For a stream that is read with this much memory: a message is in memory a few times.
    pub(super) fn new(inner: R, memory: u64) -> Self {
        Self {
            inner,
            message: Cursor::new(Vec::new()),
            has_ended: false,
            needs_end: false,
            most: memory / 2,
            dictionaries: HashMap::new(),
        }
    }

    /// Refuses a stream without a mark of its end: a file that was cut between two messages.
    pub(super) fn with_end(self) -> Self {
        Self { needs_end: true, ..self }
    }

    /// Reads the next message; reads nothing after the last one.
    fn read_message(&mut self) -> io::Result<()> {
        let mut message = self.read_up_to(4)?;
        if message.is_empty() {
            self.has_ended = true;
            return if self.needs_end { Err(cut()) } else { Ok(()) };
        }
        if message == CONTINUES {
            message.extend(self.exactly(4)?);
        }
        let length = message.last_chunk().map(|last| u32::from_le_bytes(*last)).ok_or_else(cut)?;
        if length == 0 {
            self.has_ended = true; // the end of the stream; later bytes are ignored
        } else if length > MAX_METADATA_BYTES {
            return Err(impossible());
        } else {
            let described = self.exactly(u64::from(length))?;
            let frame = parse_body(&described).ok_or_else(impossible)?;
            self.refuse_above(frame.bytes)?;
            let body = self.exactly(frame.bytes)?;
            let bytes = frame.decompressed_bytes(&body, self.most)?;
            // Every row has a time, of at least one bit.
            if frame.rows > 8 * bytes.max(1) {
                return Err(impossible());
            }
            if let Some((id, is_addition)) = frame.dictionary {
                let kept = self.dictionaries.entry(id).or_default();
                *kept = bytes.saturating_add(if is_addition { *kept } else { 0 });
                self.refuse_above(self.dictionaries.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes)))?;
            }
            message.extend(described);
            message.extend(body);
        }
        self.message = Cursor::new(message);
        Ok(())
    }

    fn refuse_above(&self, bytes: u64) -> io::Result<()> {
        if bytes > self.most { Err(too_large(bytes, self.most)) } else { Ok(()) }
    }

    /// Up to `count` bytes; memory is allocated as they arrive.
    fn read_up_to(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        (&mut self.inner).take(count).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn exactly(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let bytes = self.read_up_to(count)?;
        if bytes.len() as u64 == count { Ok(bytes) } else { Err(cut()) }
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.message.position() == self.message.get_ref().len() as u64 && !self.has_ended {
            self.read_message()?;
        }
        self.message.read(buffer)
    }
}

/// The part of a message after its metadata.
struct FrameBody {
    bytes: u64,
    rows: u64,
    /// The id of the dictionary, and whether the batch adds to it.
    dictionary: Option<(i64, bool)>,
    compression: Option<CompressionType>,
    /// The position of each buffer in the body, if they are compressed.
    buffers: Vec<(usize, usize)>,
}

impl FrameBody {
    /// The size of the body after decompression, which each buffer declares. Readers allocate that, and some trust it.
    fn decompressed_bytes(&self, body: &[u8], most: u64) -> io::Result<u64> {
        let Some(compression) = self.compression else { return Ok(self.bytes) };
        let mut sum = 0u64;
        for (start, length) in self.buffers.iter().filter(|(_, length)| *length > 0) {
            let buffer = start.checked_add(*length).and_then(|end| body.get(*start..end)).ok_or_else(impossible)?;
            let (declared, packed) = buffer.split_first_chunk::<8>().ok_or_else(impossible)?;
            let declared = match i64::from_le_bytes(*declared) {
                UNCOMPRESSED => packed.len() as u64,
                declared => u64::try_from(declared).map_err(|_| impossible())?,
            };
            sum = sum.saturating_add(declared);
            if sum > most {
                return Err(too_large(sum, most));
            }
            if compression == CompressionType::LZ4_FRAME && declared != packed.len() as u64 && declared > 0 {
                // The library decompresses to the end of the frame, however long that is.
                let mut unpacked = lz4_flex::frame::FrameDecoder::new(packed).take(declared + 1);
                if io::copy(&mut unpacked, &mut io::sink()).map_err(|_| impossible())? != declared {
                    return Err(impossible());
                }
            }
        }
        Ok(sum)
    }
}

/// A message whose metadata are valid, and no larger than they appear.
pub(super) fn message_of(described: &[u8]) -> Option<Message<'_>> {
    if described.len() > MAX_METADATA_BYTES as usize {
        return None;
    }
    let options =
        VerifierOptions { max_apparent_size: MAX_APPARENT_BYTES, max_tables: 400_000, ..VerifierOptions::default() };
    root_as_message_with_opts(&options, described).ok()
}

/// The body of a message; `None` if its metadata are impossible.
fn parse_body(described: &[u8]) -> Option<FrameBody> {
    let message = message_of(described)?;
    let bytes = u64::try_from(message.bodyLength()).ok()?;
    let mut frame = FrameBody { bytes, rows: 0, dictionary: None, compression: None, buffers: Vec::new() };
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch()?,
        MessageHeader::DictionaryBatch => {
            let batch = message.header_as_dictionary_batch()?;
            frame.dictionary = Some((batch.id(), batch.isDelta()));
            batch.data()?
        }
        _ => return Some(frame),
    };
    frame.rows = u64::try_from(batch.length()).ok()?;
    if let Some(compression) = batch.compression() {
        frame.compression = Some(compression.codec());
        for buffer in batch.buffers()? {
            frame.buffers.push((usize::try_from(buffer.offset()).ok()?, usize::try_from(buffer.length()).ok()?));
        }
    }
    Some(frame)
}

/// A reader would take an end inside a message for the end of the stream.
fn cut() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "it ends in the middle of a message; send the complete stream")
}

fn impossible() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidData,
        "a message in it is damaged; write the data again, and send or copy them completely",
    )
}

fn too_large(bytes: u64, most: u64) -> io::Error {
    let (bytes, most) = (mebibytes(bytes), mebibytes(most));
    let problem = format!(
        "a record batch or its dictionaries have {bytes}, but at most {most} are allowed; write record batches of \
         fewer rows, or allow more memory"
    );
    io::Error::new(ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{ArrayRef, RecordBatch, StringArray};
    use std::sync::Arc;

    const MEMORY: u64 = 1 << 20;

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
        Frames::new(&bytes[..], MEMORY).read_to_end(&mut read).unwrap();
        assert_eq!(read, bytes);
        let rows = arrow_ipc::reader::StreamReader::try_new(Frames::new(&bytes[..], MEMORY), None).unwrap();
        assert_eq!(rows.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 10);
    }

    #[test]
    fn what_is_cut_is_not_taken_for_whole() {
        let bytes = stream();
        for length in 0..bytes.len() {
            let mut read = Vec::new();
            let whole = Frames::new(&bytes[..length], MEMORY).read_to_end(&mut read);
            assert!(whole.is_err() || read == bytes[..length], "{length}");
            let table = arrow_ipc::reader::StreamReader::try_new(Frames::new(&bytes[..length], MEMORY), None);
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
                let whole = Frames::new(&changed[..], MEMORY).read_to_end(&mut read);
                // The beginning is unchanged up to some message, and then ends.
                assert!(read.len() <= bytes.len() && changed.starts_with(&read), "{place}");
                assert!(whole.is_ok() || read.len() < bytes.len());
            }
        }
    }

    /// A batch of long texts, compressed.
    fn compressed(compression: CompressionType) -> Vec<u8> {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1000); 100]));
        let batch = RecordBatch::try_from_iter([("time", texts)]).unwrap();
        let options = arrow_ipc::writer::IpcWriteOptions::default().try_with_compression(Some(compression)).unwrap();
        let mut writer =
            arrow_ipc::writer::StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn compressed_buffers_are_as_long_as_they_declare() {
        for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
            let bytes = compressed(compression);
            assert!(bytes.len() < 2000);
            let read = |bytes: &[u8], memory| Frames::new(bytes, memory).read_to_end(&mut Vec::new());
            assert!(read(&bytes, MEMORY).is_ok());
            let refused = read(&bytes, 150_000).unwrap_err();
            assert!(refused.to_string().contains("fewer rows"), "{refused}");
            // A frame that is longer than declared.
            let length = 100_000u64.to_le_bytes();
            let place = bytes.windows(8).position(|window| window == length).unwrap();
            let mut short = bytes.clone();
            short[place..place + 8].copy_from_slice(&10u64.to_le_bytes());
            let table = arrow_ipc::reader::StreamReader::try_new(Frames::new(&short[..], MEMORY), None).unwrap();
            assert!(table.into_iter().any(|batch| batch.is_err()), "{compression:?}");
        }
    }

    #[test]
    fn a_file_has_a_mark_of_its_end() {
        let bytes = stream();
        let read = |bytes: &[u8]| Frames::new(bytes, MEMORY).with_end().read_to_end(&mut Vec::new()).is_ok();
        assert!(read(&bytes) && !read(&bytes[..bytes.len() - 8]));
        assert!(Frames::new(&bytes[..bytes.len() - 8], MEMORY).read_to_end(&mut Vec::new()).is_ok());
    }

    /// A schema with one field that is referenced many times: a few bytes that would become millions of fields.
    #[test]
    fn a_description_is_no_larger_than_it_looks() {
        use arrow_ipc::{FieldArgs, MessageArgs, MetadataVersion, NullArgs, SchemaArgs, Type};
        let message = |fields: usize| {
            let mut builder = flatbuffers::FlatBufferBuilder::new();
            let name = builder.create_string(&"n".repeat(1000));
            let kind = arrow_ipc::Null::create(&mut builder, &NullArgs {});
            let children = builder.create_vector::<flatbuffers::WIPOffset<arrow_ipc::Field<'_>>>(&[]);
            let field = FieldArgs {
                name: Some(name),
                nullable: true,
                type_type: Type::Null,
                type_: Some(kind.as_union_value()),
                children: Some(children),
                ..FieldArgs::default()
            };
            let field = arrow_ipc::Field::create(&mut builder, &field);
            let fields = builder.create_vector(&vec![field; fields]);
            let schema = SchemaArgs { fields: Some(fields), ..SchemaArgs::default() };
            let schema = arrow_ipc::Schema::create(&mut builder, &schema);
            let message = MessageArgs {
                version: MetadataVersion::V5,
                header_type: MessageHeader::Schema,
                header: Some(schema.as_union_value()),
                ..MessageArgs::default()
            };
            let message = arrow_ipc::Message::create(&mut builder, &message);
            builder.finish(message, None);
            builder.finished_data().to_vec()
        };
        assert!(message_of(&message(100)).is_some());
        let large = message(500_000);
        assert!(large.len() < MAX_METADATA_BYTES as usize && message_of(&large).is_none());
    }

    #[test]
    fn messages_and_dictionaries_are_as_large_as_there_is_memory_for() {
        let bytes = stream();
        let read = |memory| Frames::new(&bytes[..], memory).read_to_end(&mut Vec::new());
        assert!(read(1000).is_ok());
        let refused = read(100).unwrap_err();
        assert!(refused.to_string().contains("fewer rows"), "{refused}");
    }
}
