//! A topic to which publications are written, each as one record.
//!
//! The last publication is found at the end of the topic. A batch whose result is unknown is sent again with the same
//! number, by which the broker recognises it.

use super::KafkaConfig;
use super::connection::{BrokerConnection, TIMEOUT};
use super::messages::{EARLIEST, Fetch, LATEST, api, name_of, read_fetch, read_offsets, write_fetch, write_offsets};
use super::produce::{
    NewRecord, PRODUCE_VERSIONS, PRODUCER_VERSIONS, Producer, batch, partition_of, read_produce, read_producer,
    write_produce, write_producer,
};
use super::records::{BatchRecords, headers};
use super::tasks::ask;
use super::wire::RequestWriter;
use crate::SourceOutcome;
use crate::{Address, Sink, SinkContent, SinkMemory, SourceError, SourceOptions, SourcePosition};
use async_trait::async_trait;
use bytes::Bytes;
use evertally_declare::error::{Result, failure, usage};
use std::time::Duration;

/// The header of a record that has its position.
const HEADER: &str = "position";
/// How long brokers may take to store a record.
const STORED_WITHIN: Duration = Duration::from_secs(20);
/// How many offsets are read first, from the end of the partition.
const FIRST_WINDOW: i64 = 100;
/// Bytes of an answer.
const FETCH_BYTES: i32 = 4 << 20;
/// How often an answer without records is accepted before the end.
const MAX_EMPTY: usize = 10;

/// The sink.
struct Topic {
    config: KafkaConfig,
    stream: String,
    leader: Option<PartitionLeader>,
    producer: Option<Producer>,
    /// A batch that may have been written, and its partition.
    pending: Option<(i32, Bytes)>,
}

/// A connection with the leader of a partition.
struct PartitionLeader {
    partition: i32,
    connection: BrokerConnection,
}

/// Opens a sink by its URL, `kafka://USER@HOST:PORT/TOPIC`, for a stream with a name.
///
/// # Errors
/// If the URL or a file that it needs is invalid.
pub(crate) fn open(address: Address, stream: &str, options: &SourceOptions) -> Result<Box<dyn Sink>> {
    if address.query.clone().take("start")?.is_some() {
        return Err(usage("the parameter `start` of the URL is for sources; a sink continues after its last record"));
    }
    let config = KafkaConfig::new(address, options)?;
    Ok(Box::new(Topic { config, stream: stream.to_owned(), leader: None, producer: None, pending: None }))
}

impl Topic {
    fn away(&self, why: &str) -> SourceError {
        SourceError::Away(format!("the topic {}: {why}", self.config.topic))
    }

    fn fault(&self, why: &str) -> SourceError {
        SourceError::Fault(usage(format!("the topic {}: {why}", self.config.topic)))
    }

    /// Connects with the leader of a partition; of the stream's own one if none is given.
    async fn connect(&self, partition: Option<i32>) -> SourceOutcome<PartitionLeader> {
        let mut last = SourceError::Away("no broker is known".to_owned());
        for (host, port) in &self.config.hosts {
            let asked = async { ask(BrokerConnection::open(&self.config, host, *port).await?, &self.config).await };
            let metadata = match asked.await {
                Ok((_, metadata)) => metadata,
                Err(SourceError::Away(why)) => {
                    last = SourceError::Away(why);
                    continue;
                }
                Err(fault) => return Err(fault),
            };
            match metadata.error {
                0 => {}
                3 => return Err(self.fault("it does not exist; create it")),
                29 => return Err(self.fault("the user has no right; grant DESCRIBE, READ and WRITE")),
                error => return Err(self.away(&name_of(error))),
            }
            let own = || partition_of(self.stream.as_bytes(), metadata.leaders.len()) as i32;
            let partition = partition.unwrap_or_else(own);
            let leader = metadata.leaders.iter().find(|(number, _)| *number == partition).map(|(_, leader)| *leader);
            let broker = metadata.brokers.iter().find(|(number, ..)| Some(*number) == leader);
            let Some((_, host, port)) = broker else {
                return Err(self.away(&format!("partition {partition} has no leader")));
            };
            return Ok(PartitionLeader {
                partition,
                connection: BrokerConnection::open(&self.config, host, *port).await?,
            });
        }
        Err(last)
    }

    /// Takes the connection with the leader. It is put back after an answer, so that no lost answer is read later.
    async fn take_leader(&mut self, partition: Option<i32>) -> SourceOutcome<PartitionLeader> {
        match self.leader.take().filter(|leader| partition.is_none_or(|wanted| wanted == leader.partition)) {
            Some(leader) => Ok(leader),
            None => self.connect(partition).await,
        }
    }

    /// The present producer, or a new one.
    async fn producer(&mut self, leader: &mut PartitionLeader) -> SourceOutcome<Producer> {
        if let Some(producer) = self.producer {
            return Ok(producer);
        }
        let version = leader.connection.version(api::INIT_PRODUCER_ID, &PRODUCER_VERSIONS)?;
        let mut answer = within(leader, api::INIT_PRODUCER_ID, version, write_producer()).await?;
        match read_producer(&mut answer)? {
            (0, producer) => Ok(*self.producer.insert(producer)),
            (31 | 53, _) => Err(self.fault("the user has no right; grant IDEMPOTENT_WRITE on the cluster")),
            (error, _) => Err(self.away(&name_of(error))),
        }
    }

    /// Sends a batch that may have been written, until its result is known.
    async fn settle(&mut self) -> SourceOutcome<()> {
        let Some((partition, bytes)) = self.pending.clone() else { return Ok(()) };
        let mut leader = self.take_leader(Some(partition)).await?;
        let version = leader.connection.version(api::PRODUCE, &PRODUCE_VERSIONS)?;
        let body = write_produce(&self.config.topic, partition, &bytes, STORED_WITHIN.as_millis() as i32);
        let error = read_produce(&mut within(&mut leader, api::PRODUCE, version, body).await?)?;
        match error {
            // Written now, or before.
            0 | 46 => {
                self.leader = Some(leader);
                self.pending = None;
                if let Some(producer) = &mut self.producer {
                    producer.sequence = producer.sequence.wrapping_add(1) & i32::MAX;
                }
                Ok(())
            }
            10 | 18 => {
                self.pending = None;
                let length = bytes.len();
                Err(self.fault(&format!("a record of {length} bytes is too large; raise its max.message.bytes")))
            }
            29 | 31 => {
                self.pending = None;
                Err(self.fault("the user has no right to write; grant WRITE"))
            }
            2 | 17 | 32 | 44 | 76 | 87 => {
                self.pending = None;
                Err(self.fault(&format!("it accepts no such records: {}", name_of(error))))
            }
            // The broker does not know this producer any more: the end of the topic is read.
            45 | 47 | 59 | 90 => {
                (self.pending, self.producer) = (None, None);
                Err(self.away(&format!("{}; its end is read again", name_of(error))))
            }
            error => Err(self.away(&name_of(error))),
        }
    }

    /// The last position of this stream between two offsets.
    async fn scan(&self, leader: &mut PartitionLeader, from: i64, end: i64) -> SourceOutcome<Option<SourcePosition>> {
        let (mut offset, mut last, mut empty) = (from, None, 0);
        let version = leader.connection.version(api::FETCH, &[11])?;
        while offset < end {
            let fetch = Fetch {
                from: vec![(leader.partition, offset)],
                max_wait_ms: 500,
                max_bytes: FETCH_BYTES,
                max_partition_bytes: FETCH_BYTES,
                with_open: true,
            };
            let body = write_fetch(version, &self.config.topic, 0, &fetch);
            let (error, fetched) = read_fetch(version, &mut within(leader, api::FETCH, version, body).await?)?;
            let Some(fetched) = fetched.into_iter().next().filter(|_| error == 0) else {
                return Err(self.away(&name_of(error)));
            };
            if fetched.error != 0 {
                return Err(self.away(&name_of(fetched.error)));
            }
            let before = offset;
            let mut rest = fetched.records;
            for header in headers(&rest.clone()) {
                let bytes = rest.split_to(header.bytes);
                if !header.is_control() {
                    let found = self.position_in(BatchRecords::open(header, &bytes));
                    last = found.map_err(|why| self.fault(&format!("a record cannot be read: {why}")))?.or(last);
                }
                offset = offset.max(header.last_offset + 1);
            }
            empty = if offset > before { 0 } else { empty + 1 };
            if empty > MAX_EMPTY {
                return Err(self.away("a broker sends no records before the end"));
            }
        }
        Ok(last)
    }

    /// The last position of this stream in a batch.
    fn position_in(&self, records: std::io::Result<BatchRecords>) -> std::io::Result<Option<SourcePosition>> {
        let (mut records, mut last) = (records?, None);
        while records.advance()? {
            if records.current()?.key == Some(self.stream.as_bytes()) {
                let position = records.header(HEADER)?.map(|position| String::from_utf8_lossy(position).into_owned());
                last = position.or(last);
            }
        }
        Ok(last)
    }

    /// The first offset and the one after the last.
    async fn ends(&self, leader: &mut PartitionLeader) -> SourceOutcome<(i64, i64)> {
        let version = leader.connection.version(api::LIST_OFFSETS, &[2])?;
        let mut ends = [0, 0];
        for (end, time) in ends.iter_mut().zip([EARLIEST, LATEST]) {
            let body = write_offsets(&self.config.topic, &[leader.partition], time, true);
            let found = read_offsets(&mut within(leader, api::LIST_OFFSETS, version, body).await?)?;
            *end = match found.first() {
                Some((_, 0, offset)) => *offset,
                Some((_, error, _)) => return Err(self.away(&name_of(*error))),
                None => return Err(self.away("a broker does not know its offsets")),
            };
        }
        Ok((ends[0], ends[1]))
    }
}

/// Sends a request to a leader, and waits for the answer for some time.
async fn within(
    leader: &mut PartitionLeader,
    api: i16,
    version: i16,
    body: RequestWriter,
) -> SourceOutcome<super::wire::ResponseReader> {
    let asked = leader.connection.request(api, version, body);
    let late = |_| Err(SourceError::Away("a broker did not answer in time".to_owned()));
    tokio::time::timeout(STORED_WITHIN + TIMEOUT, asked).await.unwrap_or_else(late)
}

#[async_trait]
impl Sink for Topic {
    fn shown(&self) -> String {
        self.config.shown()
    }

    fn content(&self) -> SinkContent {
        SinkContent::Message
    }

    fn memory(&self) -> SinkMemory {
        SinkMemory::Both
    }

    fn warnings(&mut self) -> Vec<String> {
        self.config.encryption.warning.take().into_iter().collect()
    }

    async fn last(&mut self) -> Result<Option<SourcePosition>, SourceError> {
        self.settle().await?;
        let mut leader = self.take_leader(None).await?;
        let (first, mut end) = self.ends(&mut leader).await?;
        let mut window = FIRST_WINDOW;
        let mut last = None;
        while last.is_none() && end > first {
            let from = first.max(end.saturating_sub(window));
            last = self.scan(&mut leader, from, end).await?;
            (end, window) = (from, window.saturating_mul(4));
        }
        self.leader = Some(leader);
        Ok(last)
    }

    async fn write(&mut self, _after: Option<&str>, message: &[u8], position: &str) -> Result<(), SourceError> {
        // The result of an earlier one may be unknown.
        self.settle().await?;
        let mut leader = self.take_leader(None).await?;
        let producer = self.producer(&mut leader).await?;
        let record = NewRecord {
            time: jiff::Timestamp::now().as_millisecond(),
            key: self.stream.as_bytes(),
            value: message,
            header: (HEADER, position.as_bytes()),
        };
        self.pending = Some((leader.partition, batch(&producer, &record).map_err(failure)?));
        self.leader = Some(leader);
        self.settle().await
    }
}

#[cfg(test)]
mod tests;
