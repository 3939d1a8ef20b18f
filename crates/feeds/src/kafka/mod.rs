//! Topics of Kafka. The protocol is spoken here, with the few requests that are needed: libraries without librdkafka
//! do not drop the records of aborted transactions, do not report offsets that compaction left empty, and do not know
//! whether a topic was deleted and created again.

mod config;
mod connection;
mod messages;
mod partition;
mod produce;
mod records;
mod scram;
mod sink;
mod tasks;
mod warnings;
mod wire;

pub(crate) use config::KafkaConfig;
pub(crate) use sink::open as open_sink;

use crate::{BatchLimits, Source, SourceBatch, SourceError, SourceOutcome, SourceWarning};
use async_trait::async_trait;
use evertally_declare::error::usage;
use messages::{Fetch, Metadata, name_of};
use partition::{OffsetState, Partition, Trouble, parse_position};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tasks::{AnswerContent, AskedBroker, Broker, BrokerAnswer, Lookup, TaskEvent};
use warnings::{OffsetGap, Warnings};
use wire::TopicId;

/// The most bytes of an answer to a fetch, unless one batch alone has more.
const FETCH_BYTES: i32 = 4 << 20;
/// The most of them from one partition.
const FETCH_PARTITION_BYTES: i32 = 2 << 20;
/// Nothing more is fetched while this much is in memory.
const BUFFERED_BYTES: usize = 8 << 20;
/// How long a broker waits for new records.
const POLL: Duration = Duration::from_millis(500);
/// How long a partition may be unavailable before the caller hears about it: leaders change within seconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// A topic.
pub(crate) struct Kafka {
    config: Arc<KafkaConfig>,
    brokers: BTreeMap<i32, Broker>,
    /// The leader of each partition, or -1.
    leaders: BTreeMap<i32, i32>,
    topic_id: TopicId,
    lookup: Lookup,
    partitions: BTreeMap<i32, Partition>,
    /// The partition that was returned last.
    turn: i32,
    generation: u64,
    /// The partitions that existed when the first ones were sought.
    first_listed: BTreeSet<i32>,
    /// Whether the service had no position of any partition then.
    is_first_run: Option<bool>,
    warnings: Warnings,
}

impl Kafka {
    pub(crate) fn new(config: KafkaConfig) -> Self {
        let mut warnings = Warnings::default();
        config.encryption.warning.iter().for_each(|warning| warnings.push(warning.clone().into()));
        Self {
            config: Arc::new(config),
            brokers: BTreeMap::new(),
            leaders: BTreeMap::new(),
            topic_id: 0,
            lookup: Lookup::default(),
            partitions: BTreeMap::new(),
            turn: -1,
            generation: 0,
            first_listed: BTreeSet::new(),
            is_first_run: None,
            warnings,
        }
    }

    fn recreated(&self) -> SourceError {
        SourceError::Fault(usage(format!(
            "the topic {} was deleted and created again, so the stored offsets mean other records; to read the new \
             topic from its beginning, give the feed another name",
            self.config.topic
        )))
    }

    /// Takes in what a broker knows about the topic; whether it exists.
    fn learn(&mut self, metadata: Metadata) -> SourceOutcome<bool> {
        let topic = &self.config.topic;
        match metadata.error {
            0 => {}
            3 => return Ok(false),
            17 => return Err(usage(format!("`{topic}` is not a name of a topic")).into()),
            29 => {
                let user = "the user has no right to read it; grant READ and DESCRIBE";
                return Err(usage(format!("the topic {topic}: {user}")).into());
            }
            error => return Err(SourceError::Away(format!("the topic {topic}: {}", name_of(error)))),
        }
        if self.topic_id != 0 && metadata.topic_id != 0 && self.topic_id != metadata.topic_id {
            return Err(self.recreated());
        }
        if metadata.topic_id != 0 {
            self.topic_id = metadata.topic_id;
        }
        self.leaders = metadata.leaders.into_iter().collect();
        self.brokers.retain(|number, broker| {
            metadata.brokers.iter().any(|(own, host, port)| own == number && broker.is_at(host, *port))
        });
        for (number, host, port) in metadata.brokers {
            self.brokers.entry(number).or_insert_with(|| Broker::new(host, port));
        }
        Ok(true)
    }

    /// Sends requests to all brokers that have none.
    fn send(&mut self, until: Instant) {
        let now = Instant::now();
        if self.leaders.is_empty() {
            self.lookup.is_needed = true;
        }
        for partition in self.partitions.values_mut() {
            let leader = self.leaders.get(&partition.number).copied().unwrap_or(-1);
            if !self.brokers.contains_key(&leader) {
                disturb(partition, "the partition has no leader");
                self.lookup.is_needed = true;
            }
        }
        self.lookup.start(&self.config, &self.brokers, now);
        let buffered: usize = self.partitions.values().map(|partition| partition.bytes).sum();
        for (number, broker) in &mut self.brokers {
            if broker.is_busy(now) {
                continue;
            }
            let own = || self.partitions.values().filter(|own| self.leaders.get(&own.number) == Some(number));
            let unknown: Vec<&Partition> = own().filter(|own| own.state != OffsetState::Known).collect();
            if !unknown.is_empty() {
                let asked = unknown.iter().map(|own| AskedBroker::new(own)).collect();
                broker.offsets(&self.config, asked);
                continue;
            }
            let mut wanted: Vec<&Partition> = own().filter(|own| own.bytes < FETCH_PARTITION_BYTES as usize).collect();
            if wanted.is_empty() || buffered >= BUFFERED_BYTES {
                continue;
            }
            // Brokers fill an answer in the order of the request.
            wanted.sort_by_key(|own| (own.bytes, own.number <= self.turn));
            // Do not wait for new records of one partition while others have some.
            let is_idle = own().all(|own| own.bytes == 0);
            let wait = if is_idle { until.saturating_duration_since(now).min(POLL) } else { Duration::ZERO };
            let fetch = Fetch {
                from: wanted.iter().map(|own| (own.number, own.fetch)).collect(),
                max_wait_ms: wait.as_millis() as i32,
                max_bytes: FETCH_BYTES,
                max_partition_bytes: FETCH_PARTITION_BYTES,
                with_open: false,
            };
            let asked = wanted.iter().map(|own| AskedBroker::new(own)).collect();
            broker.fetch(&self.config, self.topic_id, fetch, asked);
        }
    }

    /// Takes in what happened.
    fn absorb(&mut self, event: TaskEvent) -> SourceOutcome<()> {
        match event {
            TaskEvent::Lookup(Ok(metadata)) => self.learn(metadata).map(|_| ()),
            TaskEvent::Lookup(Err(SourceError::Away(why))) => {
                self.lookup.is_needed = true;
                self.partitions.values_mut().for_each(|own| disturb(own, &why));
                Ok(())
            }
            TaskEvent::Lookup(Err(fault)) => Err(fault),
            TaskEvent::BrokerAnswer(BrokerAnswer { asked, outcome }) => match outcome {
                Ok(content) => self.absorb_content(&asked, content),
                Err(SourceError::Away(why)) => {
                    self.lookup.is_needed = true;
                    for asked in asked {
                        self.partitions.get_mut(&asked.partition).into_iter().for_each(|own| disturb(own, &why));
                    }
                    Ok(())
                }
                Err(fault) => Err(fault),
            },
        }
    }

    fn absorb_content(&mut self, asked: &[AskedBroker], content: AnswerContent) -> SourceOutcome<()> {
        let current = |own: &Partition| asked.iter().any(|asked| asked.is_current(own));
        match content {
            AnswerContent::Offsets { earliest, latest } => {
                let latest: BTreeMap<i32, (i16, i64)> = latest.into_iter().map(|(p, e, o)| (p, (e, o))).collect();
                for (partition, error, earliest) in earliest {
                    let Some(own) = self.partitions.get_mut(&partition).filter(|own| current(own)) else { continue };
                    let (other_error, latest) = latest.get(&partition).copied().unwrap_or((5, 0));
                    if error != 0 || other_error != 0 {
                        fail(own, &mut self.lookup, if error == 0 { other_error } else { error }, &self.config)?;
                    } else {
                        own.trouble = None;
                        let is_new = self.is_first_run == Some(false) || !self.first_listed.contains(&partition);
                        let latest_wanted = self.config.starts_at_latest && !is_new;
                        settle(own, earliest, latest, latest_wanted, &mut self.warnings)?;
                    }
                }
            }
            AnswerContent::Fetched { error, fetched } => {
                for fetched in fetched {
                    let own = self.partitions.get_mut(&fetched.partition).filter(|own| current(own));
                    let Some(own) = own else { continue };
                    match if error == 0 { fetched.error } else { error } {
                        0 => {
                            own.trouble = None;
                            own.push(fetched);
                        }
                        1 => own.state = OffsetState::OutOfRange,
                        error => fail(own, &mut self.lookup, error, &self.config)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// The next rows that are in memory.
    fn take(&mut self, limits: BatchLimits) -> SourceOutcome<Option<SourceBatch>> {
        let topic = self.config.options.with_metadata.then_some(self.config.topic.as_str());
        let turn = self.turn;
        let mut order: Vec<i32> = self.partitions.values().filter(|own| own.is_ready()).map(|own| own.number).collect();
        order.sort_by_key(|number| (*number <= turn, *number));
        for number in order {
            let Some(own) = self.partitions.get_mut(&number) else { continue };
            let taken = own.take(limits, topic, self.topic_id);
            if let Some(gap) = own.take_gap() {
                self.warnings.gap(number, gap);
            }
            if let Some((after, position, rows)) = taken? {
                self.turn = number;
                return Ok(Some(SourceBatch { partition: number.to_string(), after, position, rows }));
            }
        }
        Ok(None)
    }

    /// Why some partitions cannot be read, if that lasts.
    fn trouble(&mut self) -> Option<String> {
        let troubles = self.partitions.values().filter_map(|own| Some((own.number, own.trouble.as_ref()?)));
        let mut lasting = troubles.filter(|(_, own)| own.is_present && own.since.elapsed() >= PATIENCE);
        let (number, Trouble { why, .. }) = lasting.next()?;
        Some(format!("partition {number} of {}: {why}", self.config.topic))
    }
}

/// Notes that a partition cannot be read at present.
fn disturb(own: &mut Partition, why: &str) {
    let since = own.trouble.take().map_or_else(Instant::now, |trouble| trouble.since);
    own.trouble = Some(Trouble { since, why: why.to_owned(), is_present: true });
}

fn fail(own: &mut Partition, lookup: &mut Lookup, error: i16, config: &KafkaConfig) -> SourceOutcome<()> {
    if error == 29 {
        let user = "the user has no right to read it; grant READ and DESCRIBE";
        return Err(usage(format!("the topic {}: {user}", config.topic)).into());
    }
    disturb(own, &name_of(error));
    lookup.is_needed = true;
    Ok(())
}

/// Continues a partition whose ends are known.
fn settle(
    own: &mut Partition,
    earliest: i64,
    latest: i64,
    from_latest: bool,
    warnings: &mut Warnings,
) -> SourceOutcome<()> {
    let number = own.number;
    if own.state == OffsetState::Beginning {
        own.move_to(if from_latest { latest } else { earliest });
        // Otherwise, rows before the first batch would be passed over at the next start.
        own.is_pinned = from_latest;
        return Ok(());
    }
    if own.next < own.fetch {
        // The rows in memory come first. Then this is asked again.
        return Ok(());
    }
    if own.fetch < earliest {
        let (lost, last) = (earliest - own.next, earliest - 1);
        let text = format!(
            "the broker deleted offsets of partition {number} that were not read; raise the retention of the topic, or \
             follow it more closely"
        );
        let numbers = format!("{lost} offsets, {} to {last}", own.next);
        warnings.push(SourceWarning::with_numbers(text, numbers));
        own.move_to(earliest);
    } else if own.fetch > latest {
        return Err(SourceError::Fault(usage(format!(
            "partition {number} ends at offset {latest}, but the rows before offset {} are counted already: the \
             broker lost records, or another cluster is at this address; correct the address, or give the feed another \
             name to read the topic from its beginning",
            own.fetch
        ))));
    } else {
        own.state = OffsetState::Known;
    }
    Ok(())
}

#[async_trait]
impl Source for Kafka {
    fn shown(&self) -> String {
        self.config.shown()
    }

    fn identity(&self) -> String {
        format!("kafka:{}", self.config.topic)
    }

    async fn partitions(&mut self) -> SourceOutcome<Vec<String>> {
        // A broker that just started does not know its topics yet.
        for _ in 0..6 {
            self.lookup.is_needed = true;
            let metadata = self.lookup.now(&self.config, &self.brokers).await?;
            if self.learn(metadata)? {
                if self.first_listed.is_empty() {
                    self.first_listed = self.leaders.keys().copied().collect();
                }
                return Ok(self.leaders.keys().map(i32::to_string).collect());
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        let topic = &self.config.topic;
        Err(usage(format!("there is no topic {topic}; create it, correct the name, or grant the user DESCRIBE")).into())
    }

    async fn seek(&mut self, partition: &str, position: Option<&str>) -> SourceOutcome<()> {
        let number: i32 = partition.parse().map_err(|_| usage(format!("`{partition}` is not a partition of Kafka")))?;
        let parsed = match position {
            None => None,
            Some(text) => Some(
                parse_position(text).ok_or_else(|| usage(format!("`{text}` is not a position in a topic of Kafka")))?,
            ),
        };
        if let Some((id, _)) = parsed
            && id != 0
            && self.topic_id != 0
            && id != self.topic_id
        {
            return Err(self.recreated());
        }
        self.generation += 1;
        // The caller waited already.
        self.brokers.values_mut().for_each(Broker::retry_now);
        let offset = parsed.map(|(_, offset)| offset);
        let mut own = Partition::new(number, self.generation, position.map(str::to_owned), offset);
        // Trouble lasts over a seek, or it would never be reported.
        let trouble = self.partitions.remove(&number).and_then(|old| old.trouble);
        own.trouble = trouble.map(|trouble| Trouble { is_present: false, ..trouble });
        self.partitions.insert(number, own);
        Ok(())
    }

    async fn next(&mut self, limits: BatchLimits) -> SourceOutcome<Option<SourceBatch>> {
        let until = Instant::now() + limits.wait;
        if self.is_first_run.is_none() && !self.partitions.is_empty() {
            self.is_first_run = Some(self.partitions.values().all(|own| own.state == OffsetState::Beginning));
        }
        loop {
            self.send(until);
            if let Some(batch) = self.take(limits)? {
                if let Some(why) = self.trouble() {
                    self.warnings.trouble(&why);
                }
                return Ok(Some(batch));
            }
            let now = Instant::now();
            if now >= until {
                return self.trouble().map_or(Ok(None), |why| Err(SourceError::Away(why)));
            }
            // Brokers that failed are tried again after a while.
            let wait = (until - now).min(Duration::from_millis(100));
            let event = tokio::time::timeout(wait, tasks::event(&mut self.lookup, &mut self.brokers)).await;
            if let Ok(event) = event {
                self.absorb(event)?;
            }
        }
    }

    fn warnings(&mut self) -> Vec<SourceWarning> {
        self.warnings.take()
    }
}
