//! `evertally feed`: follows growing files, a folder, or standard input, and sends new rows to a service.
//!
//! A batch is recorded on disk before it is sent: which bytes of which file, under which id. After any crash the same
//! bytes are sent under the same id, and the service accepts them once. An id consists of the feeder's name, the path
//! and the offset. Therefore even a feeder that has lost its state file cannot have anything counted twice: a batch
//! that begins where another began is either identical to it or refused.

mod cutting;
mod files;
mod format;
mod memory;
mod sending;

pub use files::From;
pub use sending::Remote;

use cutting::PendingBatch;
use evertally_declare::error::{Context, Result, refuse_if, usage};
use evertally_ledger::protected::check_output;
use files::EventSource;
use format::Encoding;
use memory::{FeedState, UnacknowledgedBatch};
use sending::BatchReply;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How often sources are checked for new rows.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How often progress is reported.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);
/// The first and the longest pause before an unreachable service is tried again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The source to follow, and the options.
#[derive(Clone, Debug)]
pub struct Feed {
    /// The source of events.
    pub from: From,
    /// The format of the rows; by default, from the file's ending.
    pub format: Option<String>,
    /// The state file, which records the position in every source.
    pub memory: PathBuf,
    /// The feeder's name, a part of every id; by default the name of this machine.
    pub name: Option<String>,
    /// The most rows of a batch.
    pub rows: usize,
    /// Whether to end when there is nothing new.
    pub is_once: bool,
    /// Whether files are complete: then a last line without a line end is sent, too, without waiting for further
    /// writes.
    pub is_complete: bool,
    /// A file for rows that the service refuses; without it, the first refused row ends the feeder.
    pub aside: Option<PathBuf>,
}

/// Follows the source until `cancelled`, or until there is nothing new if `is_once`. `say` receives messages for
/// people.
///
/// # Errors
/// If a source was changed after it was sent, the service refuses a batch, or a disk fails. An unreachable service is
/// not an error: the feeder waits for it.
pub fn follow(feed: &Feed, remote: &Remote, cancelled: &AtomicBool, say: &mut dyn FnMut(&str)) -> Result<Sent> {
    check_outputs(feed)?;
    let format = feed.format.as_deref().map(Encoding::from_name).transpose()?;
    let mut feeder = Feeder {
        memory: FeedState::open(&feed.memory, feed.name.as_deref(), remote.place())?,
        source: EventSource::open(&feed.from, format)?,
        feed,
        remote,
        cancelled,
        say,
        sent: Sent::default(),
        last_report: Instant::now(),
        news: Sent::default(),
    };
    if !feed.is_once {
        let from = match &feed.from {
            From::File(path) | From::Folder(path) => path.display().to_string(),
            From::Stdin => "standard input".to_owned(),
        };
        (feeder.say)(&format!("following {from}, for {}", remote.place()));
    }
    feeder.run()?;
    Ok(feeder.sent)
}

/// The totals sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Rows that the service has accepted, including those that it had before.
    pub rows: u64,
    /// Batches.
    pub batches: u64,
    /// Rows that were set aside.
    pub aside: u64,
}

struct Feeder<'f> {
    feed: &'f Feed,
    remote: &'f Remote,
    cancelled: &'f AtomicBool,
    say: &'f mut dyn FnMut(&str),
    memory: FeedState,
    source: EventSource,
    sent: Sent,
    last_report: Instant,
    /// The totals reported last.
    news: Sent,
}

impl Feeder<'_> {
    fn run(&mut self) -> Result<()> {
        if let Some(pending) = self.memory.pending().cloned() {
            let piece = match self.memory.spooled()? {
                Some(bytes) => PendingBatch::again(bytes, &pending)?,
                None => self.source.again(&pending, &self.memory)?,
            };
            self.deliver(piece, pending)?;
        }
        loop {
            refuse_if(self.cancelled)?;
            match self.source.next(&self.memory, self.feed.rows, self.feed.is_complete)? {
                Some(piece) => {
                    let pending = piece.pending();
                    let spool = matches!(self.feed.from, From::Stdin).then_some(&piece.bytes[..]);
                    self.memory.store_pending(pending.clone(), spool)?;
                    self.deliver(piece, pending)?;
                }
                None if self.feed.is_once || self.source.has_ended() => {
                    for left in self.source.unfinished(&self.memory)? {
                        (self.say)(&format!(
                            "{left}: not sent, because the file may still be growing: run again later, or add \
                             --complete"
                        ));
                    }
                    return Ok(());
                }
                None => std::thread::sleep(POLL_INTERVAL),
            }
            if self.last_report.elapsed() > PROGRESS_INTERVAL {
                self.last_report = Instant::now();
                if self.news != self.sent {
                    (self.say)(&format!("{} rows sent in {} batches", self.sent.rows, self.sent.batches));
                    self.news = self.sent;
                }
            }
        }
    }

    /// Sends a batch, without the rows that are set aside, until it is accepted.
    fn deliver(&mut self, mut piece: PendingBatch, mut pending: UnacknowledgedBatch) -> Result<()> {
        let id = self.memory.id_of(&pending);
        piece.leave_out(&pending.left_out);
        let mut is_recut = false;
        loop {
            match self.send(&id, &piece)? {
                BatchReply::Accepted(rows) => {
                    self.sent.rows += rows;
                    self.sent.batches += 1;
                    return self.memory.done(piece.mark());
                }
                // If the feeder's state is older than the service's, it cuts its batches differently than before.
                BatchReply::Differs(Some(rows)) if !is_recut && pending.left_out.is_empty() => {
                    is_recut = true;
                    if let Some(again) = self.source.of_rows(&piece, rows)? {
                        pending = again.pending();
                        piece = again;
                        self.memory.store_pending(pending.clone(), None)?;
                    }
                }
                BatchReply::Differs(_) => {
                    return Err(usage(format!(
                        "{}, from byte {} on: the service has accepted other bytes under the id {id}. This state file \
                         ({}) does not belong to the feeder that sent them: continue with that one, or give files that \
                         were never sent another --name",
                        piece.place(),
                        pending.from,
                        self.feed.memory.display()
                    )));
                }
                BatchReply::BadRows(rows) => {
                    let Some(aside) = &self.feed.aside else {
                        // Nothing was accepted under this id, so the next batch may use it.
                        self.memory.discard_pending()?;
                        let all: Vec<String> = rows.iter().map(|row| piece.describe(row)).collect();
                        return Err(usage(format!(
                            "{}\nnothing of the batch was accepted; correct the source, or set such rows aside with \
                             --aside FILE",
                            all.join("\n")
                        )));
                    };
                    let before = pending.left_out.len();
                    put_aside(aside, &piece, &rows)?;
                    pending.left_out.extend(rows.iter().filter_map(|row| piece.line_of(row)));
                    pending.left_out.sort_unstable();
                    pending.left_out.dedup();
                    if pending.left_out.len() == before {
                        let all: Vec<String> = rows.iter().map(|row| piece.describe(row)).collect();
                        return Err(usage(all.join("\n")));
                    }
                    self.sent.aside += (pending.left_out.len() - before) as u64;
                    // After a crash, exactly this batch must be sent.
                    self.memory.store_left_out(&pending.left_out)?;
                    piece.leave_out(&pending.left_out);
                }
            }
        }
    }

    fn send(&mut self, id: &str, piece: &PendingBatch) -> Result<BatchReply> {
        let (mut pause, mut is_away) = (FIRST_PAUSE, false);
        loop {
            match self.remote.send(id, piece.format, piece.body()) {
                Ok(answer) => {
                    if is_away {
                        (self.say)("the service answers again");
                    }
                    return Ok(answer);
                }
                Err(sending::SendError::Refused { error, is_certain }) => {
                    if is_certain {
                        self.memory.discard_pending()?;
                    }
                    return Err(error).context(piece.place());
                }
                Err(sending::SendError::Away(why)) => {
                    if !is_away {
                        (self.say)(&format!("{why}; retrying until the batch is accepted"));
                    }
                    is_away = true;
                    let until = Instant::now() + pause;
                    while Instant::now() < until {
                        refuse_if(self.cancelled)?;
                        std::thread::sleep(POLL_INTERVAL.min(pause));
                    }
                    pause = MAX_PAUSE.min(2 * pause);
                }
            }
        }
    }
}

/// Refuses outputs that would replace a followed file, the state file, or a file of a key, a budget or a service.
fn check_outputs(feed: &Feed) -> Result<()> {
    let source = match &feed.from {
        From::File(path) | From::Folder(path) => Some(path.clone()),
        From::Stdin => None,
    };
    let source: Vec<PathBuf> = source.into_iter().collect();
    if !feed.memory.exists() {
        check_output(&feed.memory, &source)?; // it will be created
    }
    let used = [source, vec![feed.memory.clone()]].concat();
    feed.aside.iter().try_for_each(|aside| check_output(aside, &used))
}

/// Appends refused rows, with their problems, to a file that nobody else may read: one JSON object per row.
#[expect(clippy::disallowed_methods, reason = "appends rows that nobody reads back")]
fn put_aside(path: &Path, piece: &PendingBatch, rows: &[sending::RefusedRow]) -> Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let cannot = || format!("cannot write {}", path.display());
    let mut file = options.open(path).context(cannot())?;
    let mut text = String::new();
    for row in rows {
        let line = piece.line_of(row);
        let raw = line.and_then(|line| piece.text_of(line));
        let entry = serde_json::json!({
            "file": piece.place(), "line": line, "field": row.field, "problem": row.problem, "row": raw,
        });
        text.push_str(&entry.to_string());
        text.push('\n');
    }
    file.write_all(text.as_bytes()).context(cannot())?;
    file.sync_data().context(cannot())
}
