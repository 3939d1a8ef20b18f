//! Writing records: the two requests that it needs, and a batch of one record.

use super::wire::{RequestWriter, ResponseReader};
use crate::SourceOutcome;
use bytes::Bytes;

/// The version of the request for a producer's id, which all brokers since Kafka 2.3 know.
pub(super) const PRODUCER_VERSIONS: [i16; 1] = [1];
/// The same for records.
pub(super) const PRODUCE_VERSIONS: [i16; 1] = [7];
/// Larger records are compressed.
const COMPRESSED_BYTES: usize = 16 << 10;

/// The identity of a producer, with which a broker recognises a batch that is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Producer {
    pub(super) id: i64,
    pub(super) epoch: i16,
    /// The number of the next batch.
    pub(super) sequence: i32,
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewRecord<'a> {
    /// Milliseconds since 1970.
    pub(super) time: i64,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    /// A name and a value.
    pub(super) header: (&'a str, &'a [u8]),
}

pub(super) fn write_producer() -> RequestWriter {
    let mut writer = RequestWriter::new(false);
    writer.i16(-1); // no transactions
    writer.i32(60_000);
    writer
}

/// The error, and the producer.
pub(super) fn read_producer(reader: &mut ResponseReader) -> SourceOutcome<(i16, Producer)> {
    reader.i32()?;
    let error = reader.i16()?;
    Ok((error, Producer { id: reader.i64()?, epoch: reader.i16()?, sequence: 0 }))
}

pub(super) fn write_produce(topic: &str, partition: i32, batch: &[u8], timeout_ms: i32) -> RequestWriter {
    let mut writer = RequestWriter::new(false);
    writer.i16(-1); // no transactions
    writer.i16(-1); // all replicas that are in sync
    writer.i32(timeout_ms);
    writer.array(1);
    writer.string(topic);
    writer.array(1);
    writer.i32(partition);
    writer.blob(batch);
    writer
}

/// The error of the only partition.
pub(super) fn read_produce(reader: &mut ResponseReader) -> SourceOutcome<i16> {
    let topics = reader.array(|reader| {
        reader.string()?;
        reader.array(|reader| {
            reader.i32()?;
            let error = reader.i16()?;
            for _ in ["offset", "time", "log start"] {
                reader.i64()?;
            }
            Ok(error)
        })
    })?;
    Ok(topics.into_iter().flatten().next().unwrap_or(-1))
}

/// A number with its sign in the last bit, in groups of seven bits.
fn varint(bytes: &mut Vec<u8>, value: usize) {
    let mut value = (value as u64) << 1;
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn with_length(bytes: &mut Vec<u8>, value: &[u8]) {
    varint(bytes, value.len());
    bytes.extend_from_slice(value);
}

/// A batch with one record.
pub(super) fn batch(producer: &Producer, record: &NewRecord<'_>) -> std::io::Result<Bytes> {
    let mut content = vec![0, 0, 0]; // attributes, and the differences of its time and offset to those of the batch
    with_length(&mut content, record.key);
    with_length(&mut content, record.value);
    varint(&mut content, 1);
    with_length(&mut content, record.header.0.as_bytes());
    with_length(&mut content, record.header.1);
    let mut body = Vec::with_capacity(content.len() + 10);
    with_length(&mut body, &content);
    let is_compressed = body.len() > COMPRESSED_BYTES;
    let body = if is_compressed { zstd::encode_all(&body[..], 3)? } else { body };
    let mut checked = RequestWriter::new(false);
    checked.i16(if is_compressed { 4 } else { 0 });
    checked.i32(0);
    checked.i64(record.time);
    checked.i64(record.time);
    checked.i64(producer.id);
    checked.i16(producer.epoch);
    checked.i32(producer.sequence);
    checked.i32(1);
    checked.bytes.extend_from_slice(&body);
    let mut whole = RequestWriter::new(false);
    whole.i64(0);
    whole.i32(checked.bytes.len() as i32 + 9);
    whole.i32(-1);
    whole.i8(2);
    whole.bytes.extend_from_slice(&crc32c::crc32c(&checked.bytes).to_be_bytes());
    whole.bytes.extend_from_slice(&checked.bytes);
    Ok(whole.bytes.into())
}

/// The partition of a key, as the clients of Java choose it: by murmur2.
pub(super) fn partition_of(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions.max(1)
}

fn murmur2(key: &[u8]) -> u32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ key.len() as u32;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word = (word ^ (word >> 24)).wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ word;
    }
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::super::records::{BatchRecords, Header};
    use super::*;

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        for length in [0, 1, 100_000] {
            let (producer, value) = (Producer { id: 7, epoch: 1, sequence: 9 }, vec![b'x'; length]);
            let header = ("position", &b"17 ab"[..]);
            let record = NewRecord { time: 1_700_000_000_000, key: b"visits", value: &value, header };
            let bytes = batch(&producer, &record).expect("memory");
            assert!(bytes.len() < 1000);
            let header = Header::parse(&bytes).expect("whole");
            assert_eq!((header.bytes, header.producer, header.records), (bytes.len(), 7, 1));
            let mut records = BatchRecords::open(header, &bytes).expect("a valid checksum");
            assert!(records.advance().expect("a record"));
            let read = records.current().expect("a record");
            assert_eq!((read.time, read.key, read.value), (record.time, Some(record.key), Some(&value[..])));
            assert_eq!(records.header("position").expect("valid"), Some(&b"17 ab"[..]));
            assert_eq!(records.header("head").expect("valid"), None);
            assert!(!records.advance().expect("the end"));
        }
    }

    /// The values are those of Kafka's own tests.
    #[test]
    fn keys_have_the_partitions_of_other_clients() {
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
        assert_eq!(partition_of(b"abc", 10), 7);
    }
}
