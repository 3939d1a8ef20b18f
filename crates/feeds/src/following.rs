//! Follows a source: takes its batches and sends them until they are accepted.

use super::aside;
use super::target::{BatchAnswer, FeedTarget, RefusedRow, SendError};
use super::{BatchLimits, Source, SourceBatch, SourceError, SourcePosition};
use evertally_declare::error::{Context, PipelineError, Result, failure, usage};
use evertally_ledger::protected::check_output;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a source waits for a first row.
const WAIT: Duration = Duration::from_millis(500);
/// How often a source is asked for new partitions.
const LISTING_INTERVAL: Duration = Duration::from_secs(5);
/// The first and the longest pause before something unreachable is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The most bytes of a batch.
const MAX_BATCH_BYTES: usize = 4 << 20;
/// The most rows that an error names.
const MAX_NAMED_ROWS: usize = 20;

/// How a source is followed.
#[derive(Clone, Debug, Default)]
pub struct FollowOptions {
    /// The name of the source at the service; by default its own.
    pub name: Option<String>,
    /// The most rows of a batch.
    pub rows: usize,
    /// Whether to end when there is nothing new.
    pub is_once: bool,
    /// A file for rows that the service refuses; without it, the first refused row is an error.
    pub aside: Option<PathBuf>,
    /// Whether that file has the day in its name, in UTC, so that old ones can be removed.
    pub aside_by_day: bool,
    /// Whether errors name only the place of a refused row, since its problem may quote it.
    pub hides_values: bool,
}

/// Receives the progress of a feed.
pub trait Observer: Send {
    /// A message for people.
    fn message(&mut self, text: &str);

    /// Something cannot be reached for this reason, or can be again.
    fn away(&mut self, _why: Option<&str>) {}

    /// Rows were accepted or set aside.
    fn progress(&mut self, _sent: Sent) {}
}

/// Totals of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Rows that were accepted, including those that had been before.
    pub rows: u64,
    /// Batches.
    pub batches: u64,
    /// Rows that were set aside.
    pub aside: u64,
}

/// Follows a source until `cancelled`, or until there is nothing new if `is_once`.
///
/// # Errors
/// If the source or the service needs somebody's attention, or the file for refused rows cannot be written. A source or
/// a service that cannot be reached is not an error: it is tried again.
pub async fn follow(
    source: &mut dyn Source,
    target: &dyn FeedTarget,
    options: &FollowOptions,
    cancelled: &CancellationToken,
    observer: &mut dyn Observer,
) -> Result<Sent> {
    if let Some(aside) = &options.aside {
        check_output(aside, &source.files())?;
    }
    let name = options.name.clone().unwrap_or_else(|| source.identity());
    let idle_time = source.idle_time().filter(|_| options.is_once);
    let wait = idle_time.map_or(WAIT, |idle| WAIT.min(idle));
    let limits = BatchLimits { rows: options.rows.max(1), bytes: MAX_BATCH_BYTES, wait };
    let sent = Sent::default();
    let patience = Patience { cancelled, pause: FIRST_PAUSE, is_away: false };
    SourceFollower {
        source,
        target,
        options,
        name,
        limits,
        idle_time,
        observer,
        sent,
        has_warned: false,
        cut: None,
        patience,
        sought: BTreeSet::new(),
    }
    .run()
    .await
}

struct SourceFollower<'f> {
    source: &'f mut dyn Source,
    target: &'f dyn FeedTarget,
    options: &'f FollowOptions,
    /// The name of the source at the service.
    name: String,
    limits: BatchLimits,
    /// How long no row arrives until the run ends.
    idle_time: Option<Duration>,
    observer: &'f mut dyn Observer,
    sent: Sent,
    /// Whether another feeder was reported.
    has_warned: bool,
    /// The batch that was cut last, since the stream accepts only its first rows now.
    cut: Option<CutBatch>,
    patience: Patience<'f>,
    /// Partitions that the source reads.
    sought: BTreeSet<String>,
}

/// A batch of which the first rows are to be read again as a batch.
struct CutBatch {
    partition: String,
    /// The position after the whole batch.
    position: SourcePosition,
    /// The number of its first rows.
    rows: usize,
}

/// How long to wait for what cannot be reached.
struct Patience<'f> {
    cancelled: &'f CancellationToken,
    pause: Duration,
    is_away: bool,
}

/// Why a loop ends.
enum Stop {
    /// It was asked to.
    Cancelled,
    /// There is an error.
    Error(PipelineError),
    /// The source must be connected again.
    Reconnect(String),
}

impl From<PipelineError> for Stop {
    fn from(error: PipelineError) -> Self {
        Self::Error(error)
    }
}

impl From<SourceError> for Stop {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Away(why) => Self::Reconnect(why),
            SourceError::Fault(error) => Self::Error(error),
        }
    }
}

impl Patience<'_> {
    /// Waits before another attempt, and says once that something cannot be reached.
    async fn wait(&mut self, why: &str, observer: &mut dyn Observer) -> Result<(), Stop> {
        observer.away(Some(why));
        if !self.is_away {
            observer.message(&format!("{why}; trying again until it succeeds"));
        }
        self.is_away = true;
        let pause = self.pause;
        self.pause = MAX_PAUSE.min(2 * pause);
        tokio::select! {
            () = self.cancelled.cancelled() => Err(Stop::Cancelled),
            () = tokio::time::sleep(pause) => Ok(()),
        }
    }

    /// Everything can be reached.
    fn reached(&mut self, observer: &mut dyn Observer) {
        observer.away(None);
        if self.is_away {
            observer.message("it succeeds again");
        }
        (self.is_away, self.pause) = (false, FIRST_PAUSE);
    }
}

impl SourceFollower<'_> {
    async fn run(mut self) -> Result<Sent> {
        loop {
            match self.connected().await {
                Ok(()) | Err(Stop::Cancelled) => return Ok(self.sent),
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Reconnect(why)) => match self.patience.wait(&why, self.observer).await {
                    Err(_) => return Ok(self.sent),
                    Ok(()) => self.sought.clear(),
                },
            }
        }
    }

    /// Follows the source until it must be connected again.
    async fn connected(&mut self) -> Result<(), Stop> {
        self.seek_new().await?;
        let (mut listed, mut ready, mut idle_since) = (Instant::now(), None, Instant::now());
        loop {
            if self.patience.cancelled.is_cancelled() {
                return Err(Stop::Cancelled);
            }
            if listed.elapsed() > LISTING_INTERVAL {
                self.seek_new().await?;
                listed = Instant::now();
            }
            let batch = match ready.take() {
                Some(batch) => batch,
                None => match self.next_batch().await? {
                    Some(batch) => batch,
                    None if self.source.has_ended()
                        || self.idle_time.is_some_and(|idle| idle_since.elapsed() >= idle) =>
                    {
                        // Partitions may have appeared meanwhile.
                        if self.seek_new().await? {
                            continue;
                        }
                        self.warn();
                        self.source.unfinished()?.iter().for_each(|left| self.observer.message(left));
                        return Ok(());
                    }
                    None => {
                        self.warn();
                        continue;
                    }
                },
            };
            ready = self.deliver(batch).await?;
            idle_since = Instant::now();
            self.warn();
        }
    }

    async fn next_batch(&mut self) -> Result<Option<SourceBatch>, Stop> {
        let limits = self.limits();
        let batch = next(self.source, limits, self.patience.cancelled).await?;
        self.patience.reached(self.observer);
        Ok(batch)
    }

    fn warn(&mut self) {
        for warning in self.source.warnings() {
            let shown = if self.options.hides_values { warning.text().to_owned() } else { warning.to_string() };
            self.observer.message(&format!("{}: {shown}", self.source.shown()));
        }
    }

    /// Seeks the partitions that are not read yet, and returns whether there are any.
    async fn seek_new(&mut self) -> Result<bool, Stop> {
        let present = self.source.partitions().await?;
        let new: Vec<String> = present.into_iter().filter(|partition| !self.sought.contains(partition)).collect();
        if new.is_empty() && !self.sought.is_empty() {
            return Ok(false);
        }
        let positions = self.stored_positions().await?;
        self.source.remember(&positions);
        let any = !new.is_empty();
        for partition in new {
            self.source.seek(&partition, positions.get(&partition).map(String::as_str)).await?;
            self.sought.insert(partition);
        }
        Ok(any)
    }

    /// The positions at the service, once it can be reached.
    async fn stored_positions(&mut self) -> Result<BTreeMap<String, SourcePosition>, Stop> {
        loop {
            let asked = tokio::select! {
                () = self.patience.cancelled.cancelled() => return Err(Stop::Cancelled),
                asked = self.target.positions(&self.name) => asked,
            };
            match asked {
                Ok(positions) => return Ok(positions),
                Err(SendError::Refused(error)) => return Err(Stop::Error(error)),
                Err(SendError::Away(why)) => self.patience.wait(&why, self.observer).await?,
            }
        }
    }

    /// The most that the next batch may contain.
    fn limits(&self) -> BatchLimits {
        let rows = self.cut.as_ref().map_or(self.limits.rows, |cut| cut.rows);
        BatchLimits { rows, ..self.limits }
    }

    /// Sends a batch until it is accepted, and meanwhile takes the next one.
    async fn deliver(&mut self, batch: SourceBatch) -> Result<Option<SourceBatch>, Stop> {
        let (limits, cancelled) = (self.limits(), self.patience.cancelled);
        let place = self.source.place(&batch.partition);
        // A batch that a source cannot cut, since it is a single message or an object, waits as a whole.
        let was_cut = |cut: &CutBatch| cut.partition == batch.partition && cut.position == batch.position;
        let may_cut = batch.rows.has_lines() && !self.cut.as_ref().is_some_and(was_cut);
        let (target, name, options) = (self.target, &self.name, self.options);
        let sending = Sending { target, name, batch: &batch, place, options, may_cut };
        let (delivered, taken) = {
            let mut sending = pin!(sending.run(self.observer, &mut self.patience));
            // A source that has nothing yet is not waited for: it may need to know that the batch was accepted.
            tokio::select! {
                delivered = &mut sending => (delivered, Ok(None)),
                taken = next(self.source, limits, cancelled) => (sending.await, taken),
            }
        };
        match delivered? {
            Delivered::Accepted { rows, aside } => {
                self.sent.rows += rows;
                self.sent.batches += 1;
                self.sent.aside += aside;
                self.cut = self.cut.take().filter(|cut| cut.partition != batch.partition);
                self.observer.progress(self.sent);
                self.source.accepted(&batch.partition, &batch.position).await?;
                taken
            }
            Delivered::Cut(rows) => {
                let taken = taken?;
                self.source.seek(&batch.partition, batch.after.as_deref()).await?;
                let taken = taken.filter(|taken| taken.partition != batch.partition);
                self.cut = Some(CutBatch { partition: batch.partition, position: batch.position, rows });
                Ok(taken)
            }
            Delivered::Elsewhere(position) => {
                if !std::mem::replace(&mut self.has_warned, true) {
                    self.observer.message(&format!(
                        "another feeder has moved the position in `{}`. If it reads the same source, nothing is wrong; \
                         otherwise stop one of them, and give it another name",
                        self.name
                    ));
                }
                let taken = taken?;
                self.source.seek(&batch.partition, position.as_deref()).await?;
                // A batch of another partition was taken in vain only if it is not sent.
                Ok(taken.filter(|taken| taken.partition != batch.partition))
            }
        }
    }
}

/// The next batch of a source, unless `cancelled` comes first.
async fn next(
    source: &mut dyn Source,
    limits: BatchLimits,
    cancelled: &CancellationToken,
) -> Result<Option<SourceBatch>, Stop> {
    tokio::select! {
        () = cancelled.cancelled() => Err(Stop::Cancelled),
        batch = source.next(limits) => Ok(batch?),
    }
}

/// What became of a batch.
enum Delivered {
    Accepted {
        rows: u64,
        aside: u64,
    },
    Elsewhere(Option<SourcePosition>),
    /// Only this number of its first rows can be accepted now.
    Cut(usize),
}

/// A batch on its way.
struct Sending<'f> {
    target: &'f dyn FeedTarget,
    /// The name of the source at the service.
    name: &'f str,
    batch: &'f SourceBatch,
    /// Its partition, for messages.
    place: String,
    options: &'f FollowOptions,
    /// Whether its first rows may be read again as a batch.
    may_cut: bool,
}

impl Sending<'_> {
    /// Sends the batch, without the rows that are set aside, until there is an answer. It is not interrupted within an
    /// attempt: an answer on its way is worth waiting for.
    async fn run(self, observer: &mut dyn Observer, patience: &mut Patience<'_>) -> Result<Delivered, Stop> {
        let Self { target, name, batch, options, may_cut, .. } = self;
        let mut left_out = BTreeSet::new();
        loop {
            let body = batch.rows.body(&left_out).into_owned();
            match target.send(name, batch, body).await {
                Ok(BatchAnswer::Accepted(rows)) => {
                    patience.reached(observer);
                    return Ok(Delivered::Accepted { rows, aside: left_out.len() as u64 });
                }
                Ok(BatchAnswer::Elsewhere(position)) => return Ok(Delivered::Elsewhere(position)),
                Ok(BatchAnswer::NotOpen { why, before_row }) => {
                    let first = before_row.filter(|_| may_cut).and_then(|row| batch.rows.row_of(row, &left_out));
                    if let Some(rows) = first.map(|row| row - 1).filter(|rows| *rows > 0) {
                        return Ok(Delivered::Cut(rows));
                    }
                    patience.wait(&why, observer).await?;
                }
                Ok(BatchAnswer::BadRows(rows)) => {
                    let found = rows.iter().filter_map(|row| batch.rows.row_of(row.row?, &left_out));
                    let found: BTreeSet<usize> = found.filter(|row| !left_out.contains(row)).collect();
                    let Some(aside) = options.aside.as_ref().filter(|_| batch.rows.has_lines() && !found.is_empty())
                    else {
                        return Err(self.described(&rows, &left_out).into());
                    };
                    self.put_aside(aside, &rows, &left_out)?;
                    left_out.extend(found);
                }
                Err(SendError::Refused(error)) => return Err(Stop::Error(error.context(self.place))),
                Err(SendError::Away(why)) => patience.wait(&why, observer).await?,
            }
        }
    }

    /// The problems of rows, with their places in the source.
    fn described(&self, rows: &[RefusedRow], left_out: &BTreeSet<usize>) -> PipelineError {
        let mut all: Vec<String> = Vec::new();
        for RefusedRow { row, field, problem, remedy } in rows.iter().take(MAX_NAMED_ROWS) {
            let row = row.and_then(|row| self.batch.rows.row_of(row, left_out));
            let place = row.and_then(|row| self.batch.rows.origin_of(row));
            let place = place.map_or(String::new(), |text| format!(", {text}"));
            let field = field.as_ref().map_or(String::new(), |field| format!(", field {field}"));
            if self.options.hides_values {
                all.push(format!("{}{place}{field} cannot be accepted", self.place));
                continue;
            }
            let remedy = remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}"));
            all.push(format!("{}{place}{field}: {problem}{remedy}", self.place));
        }
        let remedy = match self.options.aside {
            None if self.batch.rows.has_lines() => {
                "correct the source, or set such rows aside with --aside FILE (in a configuration: aside)"
            }
            _ => "correct the source",
        };
        all.push(format!("nothing of the batch was accepted; {remedy}"));
        usage(all.join("\n"))
    }

    /// Appends refused rows, with their problems, to a file that nobody else may read: one JSON object per row.
    fn put_aside(&self, path: &Path, rows: &[RefusedRow], left_out: &BTreeSet<usize>) -> Result<()> {
        let path = match self.options.aside_by_day {
            true => aside::of_day(path, Timestamp::now()),
            false => path.to_owned(),
        };
        let cannot = || format!("cannot write {}", path.display());
        let mut file = aside::open(&path).context(cannot())?;
        let (mut text, content) = (String::new(), &self.batch.rows);
        for row in rows {
            let index = row.row.and_then(|row| content.row_of(row, left_out));
            let entry = serde_json::json!({
                "source": self.place, "place": index.and_then(|row| content.origin_of(row)), "field": row.field,
                "problem": row.problem, "row": index.and_then(|row| content.text_of(row)),
            });
            text.push_str(&entry.to_string());
            text.push('\n');
        }
        file.write_all(text.as_bytes()).context(cannot())?;
        file.sync_data().context(cannot())
    }
}

/// Runs something that blocks.
///
/// # Errors
/// Its error, or that it panicked.
pub async fn blocking<T: Send + 'static, E: From<PipelineError> + Send + 'static>(
    what: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    tokio::task::spawn_blocking(what).await.unwrap_or_else(|error| Err(failure(error).into()))
}
