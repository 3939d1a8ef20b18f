//! Batches of records, as brokers store them: a header of 61 bytes, and the records, which may be compressed. They are
//! decompressed while they are read, so that memory is bounded by the largest record.

use bytes::Bytes;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// The header of a batch.
const HEADER_BYTES: usize = 61;
/// The first bytes of a batch, which its length does not count.
const PREFIX_BYTES: usize = 12;
/// The largest record that is read.
const MAX_RECORD_BYTES: usize = 1 << 28;
/// The largest block that snappy may expand to.
const MAX_SNAPPY_BYTES: usize = 1 << 28;
const XERIAL_MAGIC: &[u8] = &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];

/// The header of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) first_offset: i64,
    /// Compaction keeps it, even if it deletes the last record.
    pub(super) last_offset: i64,
    /// All bytes of the batch.
    pub(super) bytes: usize,
    magic: u8,
    crc: u32,
    attributes: i16,
    first_time: i64,
    max_time: i64,
    pub(super) producer: i64,
    pub(super) records: i32,
}

impl Header {
    /// The header at the beginning of some bytes; `None` if the batch is not whole.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let i64_at = |at: usize| Some(i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let i32_at = |at: usize| Some(i32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let length = PREFIX_BYTES + usize::try_from(i32_at(8)?).ok()?;
        let magic = *bytes.get(16)?;
        if bytes.len() < length || (magic >= 2 && length < HEADER_BYTES) {
            return None;
        }
        let first_offset = i64_at(0)?;
        if magic < 2 {
            // Old messages have another header. Nothing of it is needed, since they are refused.
            let (crc, attributes, first_time, max_time, producer, records) = (0, 0, 0, 0, -1, 0);
            let (last_offset, bytes) = (first_offset, length);
            return Some(Self {
                first_offset,
                last_offset,
                bytes,
                magic,
                crc,
                attributes,
                first_time,
                max_time,
                producer,
                records,
            });
        }
        Some(Self {
            first_offset,
            last_offset: first_offset.checked_add(i64::from(i32_at(23)?))?,
            bytes: length,
            magic,
            crc: i32_at(17)? as u32,
            attributes: i16::from_be_bytes(bytes.get(21..23)?.try_into().ok()?),
            first_time: i64_at(27)?,
            max_time: i64_at(35)?,
            producer: i64_at(43)?,
            records: i32_at(57)?,
        })
    }

    pub(super) fn is_transactional(&self) -> bool {
        self.attributes & 0x10 != 0
    }

    /// Whether its records are marks of the ends of transactions.
    pub(super) fn is_control(&self) -> bool {
        self.attributes & 0x20 != 0
    }
}

/// The headers of the whole batches in some bytes.
pub(super) fn headers(mut bytes: &[u8]) -> Vec<Header> {
    let mut headers = Vec::new();
    while let Some(header) = Header::parse(bytes) {
        bytes = &bytes[header.bytes..];
        headers.push(header);
    }
    headers
}

/// A record, whose key and value are in the reader's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) offset: i64,
    /// Milliseconds since 1970.
    pub(super) time: i64,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
}

/// Reads the records of a batch.
pub(super) struct BatchRecords {
    pub(super) header: Header,
    source: BufReader<Box<dyn Read + Send>>,
    left: i32,
    current: Vec<u8>,
}

impl BatchRecords {
    /// Reads a whole batch.
    pub(super) fn open(header: Header, batch: &Bytes) -> io::Result<Self> {
        let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
        if header.magic != 2 {
            return Err(invalid("it has a format from before Kafka 0.11"));
        }
        if crc32c::crc32c(&batch[21..header.bytes]) != header.crc {
            return Err(invalid("its checksum is wrong"));
        }
        let body = batch.slice(HEADER_BYTES..header.bytes);
        let source: Box<dyn Read + Send> = match header.attributes & 7 {
            0 => Box::new(Cursor::new(body)),
            1 => Box::new(flate2::bufread::MultiGzDecoder::new(Cursor::new(body))),
            2 => Box::new(Snappy::new(body)?),
            3 => Box::new(lz4_flex::frame::FrameDecoder::new(Cursor::new(body))),
            4 => Box::new(zstd::stream::read::Decoder::with_buffer(Cursor::new(body))?),
            _ => return Err(invalid("its compression is unknown")),
        };
        let source = BufReader::with_capacity(1 << 15, source);
        Ok(Self { header, source, left: header.records, current: Vec::new() })
    }

    /// Reads the next record; `false` if there is none left.
    pub(super) fn advance(&mut self) -> io::Result<bool> {
        if self.left <= 0 {
            return Ok(false);
        }
        let length = read_varint(&mut self.source)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_RECORD_BYTES);
        let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a record is too long"))?;
        self.current.clear();
        let buffered = self.source.buffer();
        if buffered.len() >= length {
            self.current.extend_from_slice(&buffered[..length]);
            self.source.consume(length);
        } else if (&mut self.source).take(length as u64).read_to_end(&mut self.current)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= 1;
        Ok(true)
    }

    /// The record that was read last.
    pub(super) fn current(&self) -> io::Result<Record<'_>> {
        let mut rest = self.current.get(1..).ok_or(io::ErrorKind::UnexpectedEof)?;
        let time = read_varint(&mut rest)?;
        let offset = self.header.first_offset.saturating_add(read_varint(&mut rest)?);
        let key = read_bytes(&mut rest)?;
        let value = read_bytes(&mut rest)?;
        let appended = self.header.attributes & 8 != 0;
        let time = if appended { self.header.max_time } else { self.header.first_time.saturating_add(time) };
        Ok(Record { offset, time, key, value })
    }

    /// The value of a header of the record that was read last.
    pub(super) fn header(&self, name: &str) -> io::Result<Option<&[u8]>> {
        let mut rest = self.current.get(1..).ok_or(io::ErrorKind::UnexpectedEof)?;
        for _ in ["time", "offset"] {
            read_varint(&mut rest)?;
        }
        for _ in ["key", "value"] {
            read_bytes(&mut rest)?;
        }
        for _ in 0..read_varint(&mut rest)? {
            let (key, value) = (read_bytes(&mut rest)?, read_bytes(&mut rest)?);
            if key == Some(name.as_bytes()) {
                return Ok(value);
            }
        }
        Ok(None)
    }

    /// Whether the mark in this batch says that the transaction was aborted.
    pub(super) fn aborts(mut self) -> io::Result<bool> {
        Ok(self.advance()? && self.current()?.key.is_some_and(|key| key.get(2..4) == Some(&[0, 0])))
    }
}

fn read_bytes<'a>(rest: &mut &'a [u8]) -> io::Result<Option<&'a [u8]>> {
    let length = read_varint(rest)?;
    let Ok(length) = usize::try_from(length) else { return Ok(None) };
    let (bytes, after) = rest.split_at_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
    *rest = after;
    Ok(Some(bytes))
}

/// A number with its sign in the last bit, in groups of seven bits.
fn read_varint(source: &mut impl Read) -> io::Result<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let mut byte = [0];
        source.read_exact(&mut byte)?;
        value |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] < 0x80 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a number is too long"))
}

/// Snappy in one block, or in the chunks of Java's clients.
struct Snappy {
    rest: Bytes,
    chunked: bool,
    block: Cursor<Vec<u8>>,
}

impl Snappy {
    fn new(mut body: Bytes) -> io::Result<Self> {
        let chunked = body.starts_with(XERIAL_MAGIC);
        if chunked {
            // After the magic come two numbers of versions.
            let head = XERIAL_MAGIC.len() + 8;
            if body.len() < head {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            body = body.slice(head..);
        }
        Ok(Self { rest: body, chunked, block: Cursor::default() })
    }

    fn next_block(&mut self) -> io::Result<()> {
        let mut length = self.rest.len();
        if self.chunked {
            let prefix = self.rest.first_chunk::<4>().ok_or(io::ErrorKind::UnexpectedEof)?;
            length = u32::from_be_bytes(*prefix) as usize;
            self.rest = self.rest.slice(4..);
        }
        if length > self.rest.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let block = self.rest.split_to(length);
        if snap::raw::decompress_len(&block)? > MAX_SNAPPY_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a block of snappy is too large"));
        }
        self.block = Cursor::new(snap::raw::Decoder::new().decompress_vec(&block)?);
        Ok(())
    }
}

impl Read for Snappy {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.block.read(buffer)?;
            if read > 0 || self.rest.is_empty() || buffer.is_empty() {
                return Ok(read);
            }
            self.next_block()?;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::io::Write;

    fn varint(bytes: &mut Vec<u8>, value: i64) {
        let mut value = ((value << 1) ^ (value >> 63)) as u64;
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }

    fn bytes_of(bytes: &mut Vec<u8>, value: Option<&[u8]>) {
        varint(bytes, value.map_or(-1, |value| value.len() as i64));
        bytes.extend_from_slice(value.unwrap_or_default());
    }

    fn compressed(compression: i16, body: Vec<u8>) -> Vec<u8> {
        match compression & 7 {
            1 => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(&body).expect("memory");
                encoder.finish().expect("memory")
            }
            2 => {
                let mut whole = [XERIAL_MAGIC, &[0, 0, 0, 1, 0, 0, 0, 1]].concat();
                for chunk in body.chunks(40) {
                    let block = snap::raw::Encoder::new().compress_vec(chunk).expect("memory");
                    whole.extend_from_slice(&(block.len() as u32).to_be_bytes());
                    whole.extend_from_slice(&block);
                }
                whole
            }
            3 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(&body).expect("memory");
                encoder.finish().expect("memory")
            }
            4 => zstd::encode_all(&body[..], 1).expect("memory"),
            _ => body,
        }
    }

    /// A batch of records with given offsets, keys and values.
    pub(crate) fn batch(
        range: (i64, i64),
        attributes: i16,
        producer: i64,
        records: &[(i64, Option<&[u8]>, Option<&[u8]>)],
    ) -> Vec<u8> {
        let mut body = Vec::new();
        for (offset, key, value) in records {
            let mut record = vec![0];
            varint(&mut record, *offset);
            varint(&mut record, offset - range.0);
            bytes_of(&mut record, *key);
            bytes_of(&mut record, *value);
            varint(&mut record, 0);
            varint(&mut body, record.len() as i64);
            body.extend(record);
        }
        let mut checked = attributes.to_be_bytes().to_vec();
        checked.extend_from_slice(&((range.1 - range.0) as i32).to_be_bytes());
        checked.extend_from_slice(&1000_i64.to_be_bytes());
        checked.extend_from_slice(&2000_i64.to_be_bytes());
        checked.extend_from_slice(&producer.to_be_bytes());
        checked.extend_from_slice(&[0; 6]);
        checked.extend_from_slice(&(records.len() as i32).to_be_bytes());
        checked.extend(compressed(attributes, body));
        let mut whole = range.0.to_be_bytes().to_vec();
        whole.extend_from_slice(&(checked.len() as i32 + 9).to_be_bytes());
        whole.extend_from_slice(&[0, 0, 0, 0, 2]);
        whole.extend_from_slice(&crc32c::crc32c(&checked).to_be_bytes());
        whole.extend(checked);
        whole
    }

    #[test]
    fn all_compressions_are_read() {
        for attributes in 0..5 {
            let values: Vec<String> = (0..100).map(|n| format!("{{\"n\": {n}}}")).collect();
            let records = values
                .iter()
                .enumerate()
                .map(|(n, value)| (10 + n as i64, (n % 2 == 0).then_some(&b"key"[..]), Some(value.as_bytes())));
            let bytes = Bytes::from(batch((10, 112), attributes, -1, &records.collect::<Vec<_>>()));
            let header = Header::parse(&bytes).expect("whole");
            assert_eq!((header.first_offset, header.last_offset, header.bytes), (10, 112, bytes.len()));
            let mut reader = BatchRecords::open(header, &bytes).expect("valid");
            for (n, value) in values.iter().enumerate() {
                assert!(reader.advance().expect("valid"));
                let record = reader.current().expect("valid");
                assert_eq!((record.offset, record.time), (10 + n as i64, 1010 + n as i64));
                assert_eq!(record.key.is_some(), n % 2 == 0);
                assert_eq!(record.value, Some(value.as_bytes()));
            }
            assert!(!reader.advance().expect("end"));
            assert_eq!(Header::parse(&bytes[..bytes.len() - 1]), None);
            let mut damaged = bytes.to_vec();
            *damaged.last_mut().expect("bytes") ^= 1;
            assert!(BatchRecords::open(header, &damaged.into()).is_err());
        }
    }

    #[test]
    fn lengths_are_bounded() {
        let mut bytes = batch((0, 0), 0, -1, &[(0, None, Some(b"{}"))]);
        // The record claims 2^40 bytes.
        bytes.truncate(HEADER_BYTES);
        varint(&mut bytes, 1 << 40);
        let length = (bytes.len() - PREFIX_BYTES) as i32;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        let bytes = Bytes::from(bytes);
        let mut records = BatchRecords::open(Header::parse(&bytes).expect("whole"), &bytes).expect("valid");
        assert!(records.advance().is_err());
    }
}
