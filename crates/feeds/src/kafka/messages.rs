//! The requests that are sent, and their answers, each in the one or two versions that all brokers since Kafka 2.3
//! know.

use super::wire::{RequestWriter, ResponseReader, TopicId};
use crate::SourceOutcome;
use bytes::Bytes;

/// Numbers of requests.
pub(super) mod api {
    pub(crate) const PRODUCE: i16 = 0;
    pub(crate) const FETCH: i16 = 1;
    pub(crate) const LIST_OFFSETS: i16 = 2;
    pub(crate) const METADATA: i16 = 3;
    pub(crate) const SASL_HANDSHAKE: i16 = 17;
    pub(crate) const API_VERSIONS: i16 = 18;
    pub(crate) const INIT_PRODUCER_ID: i16 = 22;
    pub(crate) const SASL_AUTHENTICATE: i16 = 36;
}

/// The first versions of requests that are flexible.
pub(super) fn is_flexible(api: i16, version: i16) -> bool {
    match api {
        api::FETCH => version >= 12,
        api::METADATA => version >= 9,
        _ => false,
    }
}

/// What a broker knows about the cluster and one topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Metadata {
    /// Number, host and port of each broker.
    pub(super) brokers: Vec<(i32, String, u16)>,
    /// The error of the topic; 0 if there is none.
    pub(super) error: i16,
    pub(super) topic_id: TopicId,
    /// Each partition with its leader, or -1.
    pub(super) leaders: Vec<(i32, i32)>,
}

pub(super) fn write_metadata(version: i16, topic: &str) -> RequestWriter {
    let mut writer = RequestWriter::new(is_flexible(api::METADATA, version));
    writer.array(1);
    if version >= 10 {
        writer.id(0);
    }
    writer.string(topic);
    writer.end();
    writer.i8(0); // do not create the topic
    if version >= 8 {
        writer.i8(0);
        writer.i8(0);
    }
    writer.end();
    writer
}

pub(super) fn read_metadata(version: i16, reader: &mut ResponseReader) -> SourceOutcome<Metadata> {
    reader.i32()?;
    let brokers = reader.array(|reader| {
        let broker = (reader.i32()?, reader.string()?, reader.i32()? as u16);
        reader.string()?;
        reader.end()?;
        Ok(broker)
    })?;
    reader.string()?;
    reader.i32()?;
    let mut metadata = Metadata { brokers, ..Metadata::default() };
    reader.array(|reader| {
        metadata.error = reader.i16()?;
        reader.string()?;
        metadata.topic_id = if version >= 10 { reader.id()? } else { 0 };
        reader.i8()?;
        metadata.leaders = reader.array(|reader| {
            reader.i16()?;
            let partition = (reader.i32()?, reader.i32()?);
            reader.i32()?;
            for _ in ["replicas", "in sync", "offline"] {
                reader.array(ResponseReader::i32)?;
            }
            reader.end()?;
            Ok(partition)
        })?;
        if version >= 8 {
            reader.i32()?;
        }
        reader.end()
    })?;
    Ok(metadata)
}

/// Times that mean an end of a partition.
pub(super) const LATEST: i64 = -1;
pub(super) const EARLIEST: i64 = -2;

/// `with_open`: also records of open transactions, instead of the last stable offset.
pub(super) fn write_offsets(topic: &str, partitions: &[i32], time: i64, with_open: bool) -> RequestWriter {
    let mut writer = RequestWriter::new(false);
    writer.i32(-1);
    writer.i8(i8::from(!with_open));
    writer.array(1);
    writer.string(topic);
    writer.array(partitions.len());
    for partition in partitions {
        writer.i32(*partition);
        writer.i64(time);
    }
    writer
}

/// Each partition with its error and its offset.
pub(super) fn read_offsets(reader: &mut ResponseReader) -> SourceOutcome<Vec<(i32, i16, i64)>> {
    reader.i32()?;
    let topics = reader.array(|reader| {
        reader.string()?;
        reader.array(|reader| {
            let (partition, error) = (reader.i32()?, reader.i16()?);
            reader.i64()?;
            Ok((partition, error, reader.i64()?))
        })
    })?;
    Ok(topics.into_iter().flatten().collect())
}

/// A request for records.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    /// Each partition, and the offset from which on.
    pub(super) from: Vec<(i32, i64)>,
    pub(super) max_wait_ms: i32,
    pub(super) max_bytes: i32,
    pub(super) max_partition_bytes: i32,
    /// Whether records of open and aborted transactions are wanted, too.
    pub(super) with_open: bool,
}

/// Records of one partition.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    pub(super) partition: i32,
    pub(super) error: i16,
    /// The producers of aborted transactions, with the first offset of each transaction.
    pub(super) aborted: Vec<(i64, i64)>,
    pub(super) records: Bytes,
}

/// From version 13 on, the topic is named by its id, so that another topic of the same name is not read.
pub(super) fn write_fetch(version: i16, topic: &str, id: TopicId, fetch: &Fetch) -> RequestWriter {
    let mut writer = RequestWriter::new(is_flexible(api::FETCH, version));
    writer.i32(-1);
    writer.i32(fetch.max_wait_ms);
    writer.i32(1);
    writer.i32(fetch.max_bytes);
    writer.i8(i8::from(!fetch.with_open)); // otherwise with the list of aborted transactions
    writer.i32(0); // no session
    writer.i32(-1);
    writer.array(1);
    if version >= 13 {
        writer.id(id);
    } else {
        writer.string(topic);
    }
    writer.array(fetch.from.len());
    for (partition, offset) in &fetch.from {
        writer.i32(*partition);
        writer.i32(-1);
        writer.i64(*offset);
        if version >= 12 {
            writer.i32(-1);
        }
        writer.i64(-1);
        writer.i32(fetch.max_partition_bytes);
        writer.end();
    }
    writer.end();
    writer.array(0);
    writer.string("");
    writer.end();
    writer
}

/// The error of the whole answer, and the partitions.
pub(super) fn read_fetch(version: i16, reader: &mut ResponseReader) -> SourceOutcome<(i16, Vec<Fetched>)> {
    reader.i32()?;
    let error = reader.i16()?;
    reader.i32()?;
    let topics = reader.array(|reader| {
        if version >= 13 {
            reader.id()?;
        } else {
            reader.string()?;
        }
        let partitions = reader.array(read_fetched)?;
        reader.end()?;
        Ok(partitions)
    })?;
    Ok((error, topics.into_iter().flatten().collect()))
}

fn read_fetched(reader: &mut ResponseReader) -> SourceOutcome<Fetched> {
    let (partition, error) = (reader.i32()?, reader.i16()?);
    for _ in ["high watermark", "last stable offset", "log start"] {
        reader.i64()?;
    }
    let aborted = reader.array(|reader| {
        let transaction = (reader.i64()?, reader.i64()?);
        reader.end()?;
        Ok(transaction)
    })?;
    reader.i32()?;
    let records = reader.blob()?;
    reader.end()?;
    Ok(Fetched { partition, error, aborted, records })
}

/// The versions that the broker knows of each request.
pub(super) fn read_versions(reader: &mut ResponseReader) -> SourceOutcome<Vec<(i16, i16, i16)>> {
    reader.i16()?;
    reader.array(|reader| Ok((reader.i16()?, reader.i16()?, reader.i16()?)))
}

/// What an error means, for messages.
pub(super) fn name_of(error: i16) -> String {
    let name = match error {
        1 => "the offset is out of range",
        3 | 100 => "the topic or the partition is unknown",
        5 => "the partition has no leader",
        6 => "the leader has changed",
        7 => "the request timed out",
        9 => "the replica is not available",
        10 => "the record is too large",
        19 | 20 => "too few replicas are in sync",
        45 | 47 | 59 | 90 => "the broker does not know this producer",
        29 => "the user has no right to read the topic",
        56 => "the broker has a problem with its disk",
        58 => "the user or the password is wrong",
        _ => return format!("error {error} of Kafka"),
    };
    format!("{name} (error {error} of Kafka)")
}
