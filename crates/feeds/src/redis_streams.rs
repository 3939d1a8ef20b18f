//! Streams of Redis and Valkey: `redis://USER@HOST:PORT/DATABASE?stream=KEY&stream=KEY2`.
//!
//! Each stream is a partition. It is read with `XREAD`, without a consumer group: the service keeps the position, which
//! is the id of the last entry and, after a slash, the number of entries that the stream had received up to it
//! (`1526919030474-55/1042`). The server reports the same number for the whole stream (`entries-added`, since Redis 7),
//! so that entries which it deleted before they were read are noticed, and counted.
//!
//! Ids grow with time, also if a stream is deleted and created again: nothing is then read twice, and the entries which
//! the first stream had left are reported as lost. A stream whose last id is before the position is a fault: its next
//! entries could have ids that were passed already. This also happens after a failover to a replica that had not
//! received the last entries, since replication is asynchronous.

mod reply;

use crate::dial::{self, Server, TIMEOUT};
use crate::time::rfc3339;
use crate::tls::{Encryption, explained};
use crate::{Address, BatchLimits, Origins, RowWriter, Source, SourceBatch, SourceError, SourceOptions, SourceWarning};
use async_trait::async_trait;
use evertally_declare::error::{PipelineError, Result, usage};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, RedisConnectionInfo, RedisError, Value};
use reply::{Id, Info, StreamEntry};
use std::collections::VecDeque;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

const PARAMETERS: [&str; 3] = ["stream", "json", "tls"];

/// A place between two entries of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EntryPlace {
    /// The id of the entry before it; 0-0 at the beginning.
    id: Id,
    /// The number of entries that the stream had received up to it, if known.
    received: Option<u64>,
}

/// One stream.
#[derive(Debug, Default)]
struct FollowedStream {
    key: String,
    /// The position after the last batch; `None` if nobody sought one.
    position: Option<Option<String>>,
    /// The place after the last fetched entry.
    place: EntryPlace,
    /// Fetched entries, and the places after them.
    fetched: VecDeque<(StreamEntry, EntryPlace)>,
    /// A place to move to without a row, since the entries before it are gone.
    passed: Option<EntryPlace>,
    /// Whether it was reported that the stream does not exist.
    reported_absent: bool,
}

/// Streams of one database.
pub(crate) struct Streams {
    scheme: String,
    server: Server,
    database: i64,
    user: Option<String>,
    password_file: Option<PathBuf>,
    with_metadata: bool,
    /// The field whose value is the row as JSON.
    json: Option<String>,
    streams: Vec<FollowedStream>,
    /// The stream that is asked first.
    turn: usize,
    connection: Option<RedisConnection>,
    /// How many entries to fetch at once, and the size of the largest of the last ones.
    fetch: (usize, usize),
    warnings: Vec<SourceWarning>,
}

struct RedisConnection {
    commands: MultiplexedConnection,
    driver: AbortHandle,
}

impl Drop for RedisConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Streams {
    pub(crate) fn open(mut address: Address, options: &SourceOptions) -> Result<Self> {
        let (host, port) = address.only_host(6379)?;
        let encryption = Encryption::of(&mut address, options, false)?;
        let warnings = encryption.warning.clone().into_iter().map(SourceWarning::from).collect();
        let keys = address.query.take_all("stream");
        let json = address.query.take("json")?;
        address.query.refuse_others(&PARAMETERS)?;
        let database = match address.path.as_str() {
            "" => 0,
            path => path.parse().map_err(|_| {
                usage(format!("the database of Redis is a number, not `{path}`; write {}://HOST/0", address.scheme))
            })?,
        };
        if keys.is_empty() || keys.iter().any(String::is_empty) {
            return Err(usage("the URL names no stream; add ?stream=KEY (repeat &stream=KEY for several)"));
        }
        if let Some(key) = keys.iter().enumerate().find_map(|(index, key)| keys[..index].contains(key).then_some(key)) {
            return Err(usage(format!("the URL names the stream `{key}` twice")));
        }
        if address.user.is_some() && options.password_file.is_none() {
            return Err(usage("the URL has a user, whose password is missing: name a file with it (password-file)"));
        }
        Ok(Self {
            server: Server { host, port, encryption },
            scheme: address.scheme,
            database,
            user: address.user,
            password_file: options.password_file.clone(),
            with_metadata: options.with_metadata,
            json,
            streams: keys.into_iter().map(|key| FollowedStream { key, ..FollowedStream::default() }).collect(),
            turn: 0,
            connection: None,
            fetch: (64, 0),
            warnings,
        })
    }

    /// A connection for commands.
    async fn connected(&mut self) -> Result<MultiplexedConnection, SourceError> {
        if let Some(connection) = &self.connection {
            return Ok(connection.commands.clone());
        }
        let mut info = RedisConnectionInfo::default().set_db(self.database).set_skip_set_lib_name();
        if let Some(password) = dial::password(self.password_file.as_deref())? {
            info = info.set_password(password);
        }
        if let Some(user) = &self.user {
            info = info.set_username(user);
        }
        let wire = self.server.connect().await?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let connecting = timeout(TIMEOUT, MultiplexedConnection::new_with_config(&info, wire, config));
        let connected = connecting.await.map_err(|_| self.silent())?;
        let (commands, driver) = connected.map_err(|e| self.failed(&e))?;
        let driver = tokio::spawn(driver).abort_handle();
        self.connection = Some(RedisConnection { commands: commands.clone(), driver });
        Ok(commands)
    }

    /// The answer to a command.
    async fn answer<T>(
        &mut self,
        limit: Duration,
        command: impl Future<Output = redis::RedisResult<T>>,
    ) -> Result<T, SourceError> {
        let answered = timeout(limit, command).await.map_err(|_| self.silent())?;
        answered.map_err(|e| self.failed(&e))
    }

    fn silent(&mut self) -> SourceError {
        self.connection = None;
        SourceError::Away(format!("{} does not answer", self.server))
    }

    fn failed(&mut self, error: &RedisError) -> SourceError {
        self.connection = None;
        // In a transaction, each command has its own error.
        let first = error.clone().into_server_errors().and_then(|all| all.first().map(|(_, error)| error.clone()));
        let code = first.as_ref().map_or_else(|| error.code(), |first| Some(first.code()));
        let remedy = match (code, error.kind()) {
            (Some("NOAUTH" | "WRONGPASS"), _) | (_, ErrorKind::AuthenticationFailed) => {
                "check the user and its password"
            }
            (Some("NOPERM"), _) => {
                "the user needs the commands XREAD, XINFO, MULTI, EXEC and SELECT, and read access to the keys"
            }
            (Some("WRONGTYPE"), _) => "the keys of the URL must be streams",
            (Some("MOVED"), _) => "clusters are not supported: name the server that has the key",
            _ => return SourceError::Away(format!("{}: {}", self.server, explained(error))),
        };
        usage(format!("{}: {error}; {remedy}", self.server)).into()
    }

    /// Fetches entries of a stream, and compares what the server reports about it with its position.
    async fn fetch(&mut self, index: usize, limits: BatchLimits) -> Result<(), SourceError> {
        let mut connection = self.connected().await?;
        let (previous, largest) = self.fetch;
        let count = limits.rows.min(limits.bytes / largest.max(1)).min(previous.saturating_mul(4)).max(1);
        let FollowedStream { key, place, .. } = &self.streams[index];
        let mut both = redis::pipe();
        both.atomic().ignore_errors();
        both.cmd("XINFO").arg("STREAM").arg(key);
        both.cmd("XREAD").arg("COUNT").arg(count).arg("STREAMS").arg(key).arg(place.id.to_string());
        let answers: Vec<redis::RedisResult<Value>> = self.answer(TIMEOUT, both.query_async(&mut connection)).await?;
        let Ok([info, entries]) = <[_; 2]>::try_from(answers) else { return Err(self.unexpected()) };
        let stream = &mut self.streams[index];
        let info = match info {
            Ok(info) => Info::of(&info),
            // The text is the only sign, since the code is ERR.
            Err(e) if e.detail().is_some_and(|text| text.contains("no such key")) => {
                if stream.place.id != Id::default() && !std::mem::replace(&mut stream.reported_absent, true) {
                    let key = &stream.key;
                    self.warnings
                        .push(format!("the stream `{key}` does not exist any more; waiting for a new one").into());
                }
                return Ok(());
            }
            Err(e) => return Err(self.failed(&e)),
        };
        let entries = entries.map_err(|e| self.failed(&e))?;
        let (Some(info), Some(entries)) = (info, reply::entries(entries)) else { return Err(self.unexpected()) };
        let stream = &mut self.streams[index];
        stream.reported_absent = false;
        self.fetch = (count, entries.iter().map(|entry| entry.bytes).max().unwrap_or(largest));
        let is_end = entries.len() < count;
        stream.take(entries, &info, is_end, &mut self.warnings).map_err(SourceError::Fault)
    }

    fn unexpected(&mut self) -> SourceError {
        self.connection = None;
        SourceError::Away(format!("{} answers as no server of Redis does", self.server))
    }

    /// Waits until a stream has a further entry.
    async fn wait(&mut self, wait: Duration) -> Result<(), SourceError> {
        let mut connection = self.connected().await?;
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(1).arg("BLOCK").arg(millis).arg("STREAMS");
        let sought = || self.streams.iter().filter(|stream| stream.position.is_some());
        command.arg(sought().map(|stream| stream.key.as_str()).collect::<Vec<_>>());
        command.arg(sought().map(|stream| stream.place.id.to_string()).collect::<Vec<_>>());
        // The entries are fetched again, together with the state of their stream.
        self.answer(wait + TIMEOUT, command.exec_async(&mut connection)).await
    }

    /// A batch of the fetched entries of a stream.
    fn batch(&mut self, index: usize, limits: BatchLimits) -> Option<SourceBatch> {
        let stream = &mut self.streams[index];
        let mut writer = RowWriter::default();
        let mut origins = Vec::new();
        let mut place = None;
        while let Some((entry, after)) = stream.fetched.front() {
            if !writer.is_empty() && (writer.rows() >= limits.rows || writer.len() + entry.bytes > limits.bytes) {
                break;
            }
            let time = entry.id.micros().and_then(rfc3339).filter(|_| self.with_metadata);
            let mut metadata: Vec<(&str, &str)> = time.iter().map(|time| ("_time", time.as_str())).collect();
            if self.with_metadata {
                metadata.push(("_stream", &stream.key));
            }
            let rows = writer.push(&entry.row(self.json.as_deref()), &metadata);
            origins.extend(std::iter::repeat_n(format!("entry {}", entry.id), rows));
            place = Some(*after);
            stream.fetched.pop_front();
        }
        if place.is_none() || stream.fetched.is_empty() {
            place = stream.passed.take().or(place);
        }
        let position = place?.to_string();
        let after = stream.position.replace(Some(position.clone()))?;
        Some(SourceBatch {
            partition: stream.key.clone(),
            after,
            position,
            rows: writer.finish(Origins::Texts(origins)),
        })
    }
}

impl FollowedStream {
    /// Takes fetched entries, and reports entries that were deleted before they could be fetched.
    fn take(
        &mut self,
        entries: Vec<StreamEntry>,
        info: &Info,
        is_end: bool,
        warnings: &mut Vec<SourceWarning>,
    ) -> Result<(), PipelineError> {
        let key = &self.key;
        if info.last < self.place.id {
            return Err(usage(format!(
                "the last entry of the stream `{key}` is {}, before the position {}: it was deleted and created again, \
                 or a server took over that had not received the last entries. Entries with ids up to the position \
                 would not be counted. Wait until the ids of new entries are beyond it, or write to another key, and \
                 read that",
                info.last, self.place.id
            )));
        }
        let begins = self.place.id == Id::default();
        if let Some(added) = info.added {
            if self.place.received.is_some_and(|received| received > added) {
                warnings.push(
                    format!(
                        "the stream `{key}` was deleted and created again; entries that were not read before are lost"
                    )
                    .into(),
                );
                self.place.received = None;
            }
            if !is_end && info.first.is_none_or(|first| first > self.place.id) {
                // All present entries are after the place.
                self.receive(added.saturating_sub(info.length), begins, warnings);
            }
        }
        for entry in entries {
            self.place = EntryPlace { id: entry.id, received: self.place.received.map(|received| received + 1) };
            self.fetched.push_back((entry, self.place));
        }
        if let (Some(added), true) = (info.added, is_end) {
            let deleted = self.receive(added, begins, warnings);
            if let Some((_, after)) = self.fetched.back_mut() {
                after.received = self.place.received;
            } else if deleted {
                self.place.id = info.last;
                self.passed = Some(self.place);
            }
        }
        Ok(())
    }

    /// Notes how many entries the stream had received up to the place, and returns whether some of them are lost.
    fn receive(&mut self, received: u64, begins: bool, warnings: &mut Vec<SourceWarning>) -> bool {
        let before = self.place.received.replace(received);
        let lost = before.map_or(0, |before| received.saturating_sub(before));
        if lost > 0 && !begins {
            let key = &self.key;
            let text = format!("the stream `{key}` deleted entries before they were read: they are lost");
            warnings.push(SourceWarning::with_numbers(text, format!("{lost} entries")));
        }
        lost > 0 && !begins
    }
}

impl std::fmt::Display for EntryPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.id)?;
        self.received.map_or(Ok(()), |received| write!(f, "/{received}"))
    }
}

impl EntryPlace {
    fn parse(text: &str) -> Option<Self> {
        let (id, received) = match text.split_once('/') {
            Some((id, received)) => (id, Some(received.parse().ok()?)),
            None => (text, None),
        };
        Some(Self { id: Id::parse(id)?, received })
    }
}

#[async_trait]
impl Source for Streams {
    fn shown(&self) -> String {
        let keys: Vec<&str> = self.streams.iter().map(|stream| stream.key.as_str()).collect();
        format!("{}://{}/{} ({})", self.scheme, self.server, self.database, keys.join(", "))
    }

    fn identity(&self) -> String {
        // The keys are partitions, so that one can be added without reading the others again.
        format!("redis:{}", self.database)
    }

    async fn partitions(&mut self) -> Result<Vec<String>, SourceError> {
        Ok(self.streams.iter().map(|stream| stream.key.clone()).collect())
    }

    async fn seek(&mut self, partition: &str, position: Option<&str>) -> Result<(), SourceError> {
        let place = position.map(|text| {
            EntryPlace::parse(text).ok_or_else(|| usage(format!("`{text}` is not a position in a stream of Redis")))
        });
        let place = place.transpose()?.unwrap_or_default();
        let found = self.streams.iter_mut().find(|stream| stream.key == partition);
        let stream = found.ok_or_else(|| usage(format!("the URL does not name the stream `{partition}`")))?;
        let (key, position) = (std::mem::take(&mut stream.key), Some(position.map(str::to_owned)));
        *stream = FollowedStream {
            key,
            position,
            place,
            reported_absent: stream.reported_absent,
            ..FollowedStream::default()
        };
        Ok(())
    }

    async fn next(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>, SourceError> {
        let deadline = Instant::now() + limits.wait;
        loop {
            for _ in 0..self.streams.len() {
                let index = self.turn;
                if self.streams[index].position.is_some() {
                    if self.streams[index].fetched.is_empty() {
                        self.fetch(index, limits).await?;
                    }
                    if let Some(batch) = self.batch(index, limits) {
                        self.turn = (index + 1) % self.streams.len();
                        return Ok(Some(batch));
                    }
                }
                self.turn = (index + 1) % self.streams.len();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if self.streams.iter().all(|stream| stream.position.is_none()) {
                tokio::time::sleep(left).await;
            } else {
                self.wait(left).await?;
            }
        }
    }

    fn warnings(&mut self) -> Vec<SourceWarning> {
        std::mem::take(&mut self.warnings)
    }
}

#[cfg(test)]
mod tests;
