//! Streams of NATS JetStream. A consumer without a name is made at the position and forgotten afterwards; the position
//! is the sequence number in the stream, with the time when the stream was created.

mod client;
mod config;

use crate::SourceOutcome;
use crate::time::rfc3339;
use crate::{BatchLimits, Origins, RowWriter, Rows, Source, SourceBatch, SourceError, SourcePosition, SourceWarning};
use async_nats::jetstream::message::Message;
use async_trait::async_trait;
use client::{MessageStream, NatsClient};
pub(crate) use config::NatsConfig;
use evertally_declare::error::usage;
use std::time::{Duration, Instant};

/// How often missing messages are reported.
const REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// A stream.
pub(crate) struct Nats {
    config: NatsConfig,
    client: Option<NatsClient>,
    /// The position of the service.
    after: Option<SourcePosition>,
    /// The position to continue at, before the next connection.
    sought: Option<Option<(i128, u64)>>,
    /// When the stream was created.
    created: i128,
    /// The number of the last message that was read.
    sequence: u64,
    /// Messages of the consumer up to the last one.
    delivered: u64,
    stream: Option<MessageStream>,
    /// A batch without rows fixes the position.
    is_pinned: bool,
    /// A message that did not fit into the last batch.
    held: Option<Message>,
    /// The rows of the next batch, which outlive a call that is dropped.
    filling: (RowWriter, Vec<u64>),
    /// The number of the last message in a batch that was returned.
    returned: u64,
    warnings: Vec<SourceWarning>,
    /// Missing messages that are not reported yet.
    missing: u64,
    reported: Option<Instant>,
}

impl Nats {
    pub(crate) fn new(config: NatsConfig) -> Self {
        let warnings = config.encryption.warning.clone().into_iter().map(SourceWarning::from).collect();
        Self {
            config,
            client: None,
            after: None,
            sought: None,
            created: 0,
            sequence: 0,
            delivered: 0,
            stream: None,
            is_pinned: false,
            held: None,
            filling: Default::default(),
            returned: 0,
            warnings,
            missing: 0,
            reported: None,
        }
    }

    fn disconnect(&mut self) {
        (self.client, self.stream, self.held) = (None, None, None);
    }

    /// Connects and finds the place of the position.
    async fn connect(&mut self) -> SourceOutcome<()> {
        if self.client.is_none() {
            self.client = Some(NatsClient::connect(&self.config).await?);
        }
        let Some(client) = &self.client else { return Ok(()) };
        let info = client.info(&self.config.stream).await?;
        let created = info.created.unix_timestamp_nanos();
        let (first, last) = (info.state.first_sequence, info.state.last_sequence);
        if let Some(sought) = self.sought {
            match sought {
                Some((known, _)) if known != created => return Err(self.recreated()),
                Some((_, sequence)) if sequence > last => {
                    return Err(usage(format!(
                        "the stream {} ends at message {last}, but the messages up to {sequence} are counted already: \
                         the server lost messages; to read the stream from its beginning, give the feed another name",
                        self.config.stream
                    ))
                    .into());
                }
                Some((_, sequence)) => self.sequence = sequence,
                None if self.config.starts_at_latest => (self.sequence, self.is_pinned) = (last, true),
                None => self.sequence = first.saturating_sub(1),
            }
            (self.created, self.returned, self.sought) = (created, self.sequence, None);
        } else if created != self.created {
            return Err(self.recreated());
        }
        let start = first.max(self.sequence + 1);
        let stream = client.follow(&self.config, start).await?;
        (self.stream, self.delivered, self.held) = (Some(stream), 0, None);
        if start > self.sequence + 1 {
            self.report_deleted(start);
            self.sequence = start - 1;
        }
        Ok(())
    }

    fn report_deleted(&mut self, first: u64) {
        let (from, lost) = (self.sequence + 1, first - 1 - self.sequence);
        let upper = if self.config.subject.is_some() { "up to " } else { "" };
        let text = format!(
            "the server deleted messages of the stream {} that were not read; raise the limits of the stream, or \
             follow it more closely",
            self.config.stream
        );
        let numbers = format!("{upper}{lost} messages, {from} to {}", first - 1);
        self.warnings.push(SourceWarning::with_numbers(text, numbers));
    }

    fn recreated(&self) -> SourceError {
        SourceError::Fault(usage(format!(
            "the stream {} was deleted and created again, so the stored sequence numbers mean other messages; to read \
             the new stream from its beginning, give the feed another name",
            self.config.stream
        )))
    }

    /// The next message, if it comes in time. Trouble with the connection is an error.
    async fn message(&mut self, until: Instant) -> SourceOutcome<Option<Message>> {
        if let Some(message) = self.held.take() {
            return Ok(Some(message));
        }
        let Some(stream) = &mut self.stream else { return Ok(None) };
        let wait = until.saturating_duration_since(Instant::now());
        let Ok(next) = tokio::time::timeout(wait, stream.next()).await else { return Ok(None) };
        next.map(Some)
    }

    /// Adds a message to a batch; `false` if there is no room.
    fn push(&mut self, message: &Message, limits: BatchLimits) -> SourceOutcome<bool> {
        let strange = |_| SourceError::Away("the server sent a message without a sequence number".to_owned());
        let info = message.info().map_err(strange)?;
        let (writer, numbers) = &mut self.filling;
        if !writer.is_empty() && writer.len() + message.payload.len() > limits.bytes {
            return Ok(false);
        }
        if info.consumer_sequence != self.delivered + 1 || info.stream_sequence <= self.sequence {
            // The connection lost messages, which the server does not know.
            return Err(SourceError::Away("messages were lost on the way".to_owned()));
        }
        let sequence = info.stream_sequence;
        if self.config.subject.is_none() {
            self.missing += sequence - self.sequence - 1;
        }
        if !message.payload.is_empty() {
            let rows = if self.config.options.with_metadata {
                let micros = (info.published.unix_timestamp_nanos() / 1000) as i64; // fits: until the year 294246
                let time = rfc3339(micros);
                let mut fields = vec![("_stream", self.config.stream.as_str()), ("_subject", message.subject.as_str())];
                fields.extend(time.as_deref().map(|time| ("_time", time)));
                writer.push(&message.payload, &fields)
            } else {
                writer.push(&message.payload, &[])
            };
            numbers.extend(std::iter::repeat_n(sequence, rows));
        }
        (self.sequence, self.delivered) = (sequence, info.consumer_sequence);
        Ok(true)
    }

    fn batch(&mut self) -> SourceBatch {
        let (writer, numbers) = std::mem::take(&mut self.filling);
        self.returned = self.sequence;
        let position = format!("{}:{}", self.created, self.sequence);
        let after = self.after.replace(position.clone());
        let rows = if writer.is_empty() { Rows::none() } else { writer.finish(Origins::Numbers("message", numbers)) };
        SourceBatch { partition: String::new(), after, position, rows }
    }
}

fn parse_position(text: &str) -> Option<(i128, u64)> {
    let (created, sequence) = text.split_once(':')?;
    Some((created.parse().ok()?, sequence.parse().ok()?))
}

#[async_trait]
impl Source for Nats {
    fn shown(&self) -> String {
        let hosts: Vec<String> = self.config.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
        format!("nats://{}/{}", hosts.join(","), self.config.stream)
    }

    fn identity(&self) -> String {
        let subject = self.config.subject.as_ref().map(|subject| format!("?subject={subject}"));
        format!("nats:{}{}", self.config.stream, subject.unwrap_or_default())
    }

    async fn partitions(&mut self) -> SourceOutcome<Vec<String>> {
        Ok(vec![String::new()])
    }

    async fn seek(&mut self, _partition: &str, position: Option<&str>) -> SourceOutcome<()> {
        let parse =
            |text| parse_position(text).ok_or_else(|| usage(format!("`{text}` is not a position in a stream of NATS")));
        self.sought = Some(position.map(parse).transpose()?);
        self.after = position.map(str::to_owned);
        (self.stream, self.held, self.is_pinned, self.filling) = (None, None, false, Default::default());
        Ok(())
    }

    async fn next(&mut self, limits: BatchLimits) -> SourceOutcome<Option<SourceBatch>> {
        if self.stream.is_none()
            && let Err(error) = self.connect().await
        {
            self.disconnect();
            return Err(error);
        }
        if std::mem::take(&mut self.is_pinned) {
            // Otherwise, messages before the first batch would be passed over at the next start.
            return Ok(Some(self.batch()));
        }
        let mut until = Instant::now() + limits.wait;
        while self.filling.0.rows() < limits.rows.max(1) {
            if !self.filling.0.is_empty() {
                // Only messages that are here already are added.
                until = Instant::now();
            }
            let outcome = match self.message(until).await {
                Ok(Some(message)) => match self.push(&message, limits) {
                    Ok(false) => {
                        self.held = Some(message);
                        break;
                    }
                    other => other,
                },
                Ok(None) => break,
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                self.disconnect();
                if self.sequence == self.returned {
                    return Err(error);
                }
                // The messages before it are returned first; the next call connects again.
                break;
            }
        }
        Ok((self.sequence != self.returned).then(|| self.batch()))
    }

    fn warnings(&mut self) -> Vec<SourceWarning> {
        if self.missing > 0 && self.reported.is_none_or(|last| last.elapsed() >= REPORT_INTERVAL) {
            self.reported = Some(Instant::now());
            let missing = std::mem::take(&mut self.missing);
            let text = format!(
                "messages of the stream {} were deleted before they were read, and are not counted; see its limits, \
                 purges and MaxMsgsPerSubject",
                self.config.stream
            );
            self.warnings.push(SourceWarning::with_numbers(text, format!("{missing} messages")));
        }
        std::mem::take(&mut self.warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, SourceOptions};

    #[test]
    fn urls() {
        let options = SourceOptions { password_file: Some("/tmp/password".into()), ..SourceOptions::default() };
        let config = |url: &str| NatsConfig::new(Address::parse(url).expect(url), &options);
        let source = Nats::new(config("nats://feeder@n1,n2:42/ORDERS?subject=orders.>&tls=true").expect("valid"));
        assert_eq!(source.shown(), "nats://n1:4222,n2:42/ORDERS");
        assert_eq!(source.identity(), "nats:ORDERS?subject=orders.>");
        for (url, why) in [
            ("nats://n1", "name of a stream"),
            ("nats://n1/orders.new", "name of a stream"),
            ("nats:///ORDERS", "names no server"),
            ("nats://localhost/ORDERS?subject=", "not a subject"),
            ("nats://localhost/ORDERS?start=new", "earliest or latest"),
            ("nats://localhost/ORDERS?durable=x", "no parameter `durable`"),
        ] {
            let error = config(url).expect_err(url).to_string();
            assert!(error.contains(why), "{url}: {error}");
        }
    }
}
