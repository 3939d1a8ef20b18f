//! Requests that run while rows are decoded: one at a time per broker, and one that looks the leaders up. They are
//! tasks, so that dropping a call of the source loses none.

use super::KafkaConfig;
use super::connection::{BrokerConnection, TIMEOUT};
use super::messages::{
    EARLIEST, Fetch, Fetched, LATEST, Metadata, api, read_fetch, read_metadata, read_offsets, write_fetch,
    write_metadata, write_offsets,
};
use super::partition::Partition;
use super::wire::TopicId;
use crate::SourceError;
use crate::SourceOutcome;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The versions of requests that are used, newest first. Version 13 of a fetch names the topic by its id.
const FETCH_VERSIONS: [i16; 2] = [13, 11];
const METADATA_VERSIONS: [i16; 2] = [10, 7];
const OFFSETS_VERSIONS: [i16; 1] = [2];
/// How often leaders are looked up at most.
const LOOKUP_INTERVAL: Duration = Duration::from_millis(250);
const MIN_RETRY: Duration = Duration::from_millis(100);
const MAX_RETRY: Duration = Duration::from_secs(3);

/// A task that is stopped when it is dropped.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> Task<SourceOutcome<T>> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<SourceOutcome<T>> {
        let ended = |_| Err(SourceError::Away("a request was stopped".to_owned()));
        Pin::new(&mut self.0).poll(context).map(|ended_well| ended_well.unwrap_or_else(ended))
    }
}

fn spawn<T: Send + 'static>(
    limit: Duration,
    work: impl Future<Output = SourceOutcome<T>> + Send + 'static,
) -> Task<SourceOutcome<T>> {
    Task(tokio::spawn(async move {
        let late = |_| Err(SourceError::Away(format!("a broker did not answer in {} seconds", limit.as_secs())));
        timeout(limit, work).await.unwrap_or_else(late)
    }))
}

/// What happened.
pub(super) enum TaskEvent {
    Lookup(SourceOutcome<Metadata>),
    BrokerAnswer(BrokerAnswer),
}

/// An answer of a broker.
pub(super) struct BrokerAnswer {
    pub(super) asked: Vec<AskedBroker>,
    pub(super) outcome: SourceOutcome<AnswerContent>,
}

/// The content of an answer.
pub(super) enum AnswerContent {
    Offsets { earliest: Vec<(i32, i16, i64)>, latest: Vec<(i32, i16, i64)> },
    Fetched { error: i16, fetched: Vec<Fetched> },
}

/// A partition as it was when it was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedBroker {
    pub(super) partition: i32,
    generation: u64,
    fetch: i64,
}

impl AskedBroker {
    pub(super) fn new(own: &Partition) -> Self {
        Self { partition: own.number, generation: own.generation, fetch: own.fetch }
    }

    /// Whether the answer still belongs to the partition.
    pub(super) fn is_current(&self, own: &Partition) -> bool {
        (self.partition, self.generation, self.fetch) == (own.number, own.generation, own.fetch)
    }
}

/// A broker.
pub(super) struct Broker {
    host: String,
    port: u16,
    idle: Option<BrokerConnection>,
    task: Option<Task<SourceOutcome<(BrokerConnection, AnswerContent)>>>,
    asked: Vec<AskedBroker>,
    retry_at: Option<Instant>,
    failures: u32,
}

impl Broker {
    pub(super) fn new(host: String, port: u16) -> Self {
        Self { host, port, idle: None, task: None, asked: Vec::new(), retry_at: None, failures: 0 }
    }

    pub(super) fn is_at(&self, host: &str, port: u16) -> bool {
        self.host == host && self.port == port
    }

    /// Whether it has a request, or is to be left alone for a while.
    pub(super) fn is_busy(&self, now: Instant) -> bool {
        self.task.is_some() || self.retry_at.is_some_and(|at| now < at)
    }

    /// Does not wait any longer after a failure.
    pub(super) fn retry_now(&mut self) {
        self.retry_at = None;
    }

    /// Asks for the first and the last offsets.
    pub(super) fn offsets(&mut self, config: &Arc<KafkaConfig>, asked: Vec<AskedBroker>) {
        let partitions: Vec<i32> = asked.iter().map(|asked| asked.partition).collect();
        let opened = self.connected(config);
        let topic = config.topic.clone();
        self.asked = asked;
        self.task = Some(spawn(TIMEOUT * 2, async move {
            let mut connection = opened.await?;
            let version = connection.version(api::LIST_OFFSETS, &OFFSETS_VERSIONS)?;
            let mut ends = [Vec::new(), Vec::new()];
            for (end, time) in ends.iter_mut().zip([EARLIEST, LATEST]) {
                let body = write_offsets(&topic, &partitions, time, false);
                *end = read_offsets(&mut connection.request(api::LIST_OFFSETS, version, body).await?)?;
            }
            let [earliest, latest] = ends;
            Ok((connection, AnswerContent::Offsets { earliest, latest }))
        }));
    }

    /// Asks for records.
    pub(super) fn fetch(&mut self, config: &Arc<KafkaConfig>, id: TopicId, fetch: Fetch, asked: Vec<AskedBroker>) {
        let opened = self.connected(config);
        let topic = config.topic.clone();
        self.asked = asked;
        let limit = TIMEOUT * 2 + Duration::from_millis(fetch.max_wait_ms as u64);
        self.task = Some(spawn(limit, async move {
            let mut connection = opened.await?;
            let versions = if id == 0 { &FETCH_VERSIONS[1..] } else { &FETCH_VERSIONS };
            let version = connection.version(api::FETCH, versions)?;
            let body = write_fetch(version, &topic, id, &fetch);
            let (error, fetched) = read_fetch(version, &mut connection.request(api::FETCH, version, body).await?)?;
            Ok((connection, AnswerContent::Fetched { error, fetched }))
        }));
    }

    fn connected(
        &mut self,
        config: &Arc<KafkaConfig>,
    ) -> impl Future<Output = SourceOutcome<BrokerConnection>> + Send + 'static {
        let (idle, config) = (self.idle.take(), Arc::clone(config));
        let (host, port) = (self.host.clone(), self.port);
        async move {
            match idle {
                Some(connection) => Ok(connection),
                None => BrokerConnection::open(&config, &host, port).await,
            }
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<BrokerAnswer> {
        let Some(task) = &mut self.task else { return Poll::Pending };
        let Poll::Ready(ended) = task.poll(context) else { return Poll::Pending };
        self.task = None;
        let outcome = match ended {
            Ok((connection, content)) => {
                (self.idle, self.failures, self.retry_at) = (Some(connection), 0, None);
                Ok(content)
            }
            Err(error) => {
                let wait = (MIN_RETRY * 2_u32.pow(self.failures.min(8))).min(MAX_RETRY);
                self.retry_at = Some(Instant::now() + wait);
                self.failures += 1;
                Err(error)
            }
        };
        Poll::Ready(BrokerAnswer { asked: std::mem::take(&mut self.asked), outcome })
    }
}

/// Looks the partitions and their leaders up.
#[derive(Default)]
pub(super) struct Lookup {
    /// Whether the known leaders are out of date.
    pub(super) is_needed: bool,
    idle: Option<BrokerConnection>,
    task: Option<Task<SourceOutcome<(BrokerConnection, Metadata)>>>,
    started: Option<Instant>,
}

impl Lookup {
    /// Starts if it is needed, and not too often.
    pub(super) fn start(&mut self, config: &Arc<KafkaConfig>, brokers: &BTreeMap<i32, Broker>, now: Instant) {
        let is_due = self.started.is_none_or(|started| now.duration_since(started) >= LOOKUP_INTERVAL);
        if self.is_needed && is_due && self.task.is_none() {
            self.spawn(config, brokers, now);
        }
    }

    fn spawn(&mut self, config: &Arc<KafkaConfig>, brokers: &BTreeMap<i32, Broker>, now: Instant) {
        (self.is_needed, self.started) = (false, Some(now));
        let known = brokers.values().map(|broker| (broker.host.clone(), broker.port));
        let mut hosts: Vec<(String, u16)> = config.hosts.iter().cloned().chain(known).collect();
        hosts.dedup();
        let (idle, config) = (self.idle.take(), Arc::clone(config));
        self.task = Some(spawn(TIMEOUT * (hosts.len() as u32 + 1), async move {
            if let Some(connection) = idle
                && let Ok(found) = ask(connection, &config).await
            {
                return Ok(found);
            }
            let mut last = SourceError::Away("no broker is known".to_owned());
            for (host, port) in hosts {
                let asked = async { ask(BrokerConnection::open(&config, &host, port).await?, &config).await };
                match asked.await {
                    Err(SourceError::Away(why)) => last = SourceError::Away(why),
                    other => return other,
                }
            }
            Err(last)
        }));
    }

    /// Waits for the present leaders.
    pub(super) async fn now(
        &mut self,
        config: &Arc<KafkaConfig>,
        brokers: &BTreeMap<i32, Broker>,
    ) -> SourceOutcome<Metadata> {
        if self.task.is_none() {
            self.spawn(config, brokers, Instant::now());
        }
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<SourceOutcome<Metadata>> {
        let Some(task) = &mut self.task else { return Poll::Pending };
        let Poll::Ready(ended) = task.poll(context) else { return Poll::Pending };
        self.task = None;
        Poll::Ready(ended.map(|(connection, metadata)| {
            self.idle = Some(connection);
            metadata
        }))
    }
}

/// Looks the topic up on an open connection.
pub(super) async fn ask(
    mut connection: BrokerConnection,
    config: &KafkaConfig,
) -> SourceOutcome<(BrokerConnection, Metadata)> {
    let asked = timeout(TIMEOUT, async {
        let version = connection.version(api::METADATA, &METADATA_VERSIONS)?;
        let body = write_metadata(version, &config.topic);
        read_metadata(version, &mut connection.request(api::METADATA, version, body).await?)
    });
    let late = |_| Err(SourceError::Away("a broker did not answer in time".to_owned()));
    let metadata = asked.await.unwrap_or_else(late)?;
    Ok((connection, metadata))
}

/// Waits until something happens. Dropping the future loses nothing.
pub(super) async fn event(lookup: &mut Lookup, brokers: &mut BTreeMap<i32, Broker>) -> TaskEvent {
    poll_fn(|context| {
        if let Poll::Ready(outcome) = lookup.poll(context) {
            return Poll::Ready(TaskEvent::Lookup(outcome));
        }
        for broker in brokers.values_mut() {
            if let Poll::Ready(answer) = broker.poll(context) {
                return Poll::Ready(TaskEvent::BrokerAnswer(answer));
            }
        }
        Poll::Pending
    })
    .await
}
