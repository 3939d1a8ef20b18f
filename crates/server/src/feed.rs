//! `evertally feed`: follows files that grow, a folder, or standard input, and sends what is new to a service.
//!
//! What is about to be sent is on disk before it is sent: which bytes of which file, under which id. After any crash the
//! same bytes go out under the same id, and the service takes them once. An id is made of the feeder's name, the path
//! and the offset, so that even a feeder that has lost its memory cannot have anything counted twice: a batch that
//! begins where another began is that other, or it is refused.

mod cutting;
mod files;
mod memory;
mod sending;

pub use sending::Remote;

use cutting::{Format, Piece};
use evertally_declare::error::{Context, Result, refuse_if, usage};
use evertally_ledger::protected::check_output;
use files::Source;
use memory::{Memory, Pending};
use sending::Answer;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How often it is looked for something new.
const OFTEN: Duration = Duration::from_millis(250);
/// How often it is said how far it is.
const NEWS: Duration = Duration::from_secs(60);
/// How long a service that is away is left alone: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Where events come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// A file that grows.
    File(PathBuf),
    /// All files of a folder, also those to come; subfolders are left alone.
    Folder(PathBuf),
    /// Standard input.
    Stdin,
}

/// What is followed, and how.
#[derive(Clone, Debug)]
pub struct Feed {
    /// Where events come from.
    pub from: From,
    /// How they are written; of a file its ending says it otherwise.
    pub format: Option<String>,
    /// Where it is remembered what was sent.
    pub memory: PathBuf,
    /// The feeder's name, a part of every id; the name of this machine otherwise.
    pub name: Option<String>,
    /// Rows of a batch, at most.
    pub rows: usize,
    /// Whether to end where there is nothing more.
    pub is_once: bool,
    /// Whether files are complete: a last line without an end is sent, too, and nobody is waited for who may still write.
    pub is_complete: bool,
    /// Where rows are written that the service refuses; without it, the first of them ends the feeder.
    pub aside: Option<PathBuf>,
}

/// Follows until there is nothing more, if it is to end there, or until `cancelled`. `say` gets what a person should read.
///
/// # Errors
/// If a source was changed behind what was sent, the service refuses a batch, or a disk fails. The service is waited for
/// while it is away.
pub fn follow(feed: &Feed, remote: &Remote, cancelled: &AtomicBool, say: &mut dyn FnMut(&str)) -> Result<Sent> {
    check_outputs(feed)?;
    let format = feed.format.as_deref().map(Format::of_name).transpose()?;
    let mut feeder = Feeder {
        memory: Memory::open(&feed.memory, feed.name.as_deref(), remote.place())?,
        source: Source::open(&feed.from, format)?,
        feed,
        remote,
        cancelled,
        say,
        sent: Sent::default(),
        said: Instant::now(),
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

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Rows that the service has taken, those that it had before among them.
    pub rows: u64,
    /// Batches.
    pub batches: u64,
    /// Rows that were put aside.
    pub aside: u64,
}

struct Feeder<'f> {
    feed: &'f Feed,
    remote: &'f Remote,
    cancelled: &'f AtomicBool,
    say: &'f mut dyn FnMut(&str),
    memory: Memory,
    source: Source,
    sent: Sent,
    said: Instant,
    /// What was said last.
    news: Sent,
}

impl Feeder<'_> {
    fn run(&mut self) -> Result<()> {
        if let Some(pending) = self.memory.pending().cloned() {
            let piece = match self.memory.spooled()? {
                Some(bytes) => Piece::again(bytes, &pending)?,
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
                    self.memory.intend(pending.clone(), spool)?;
                    self.deliver(piece, pending)?;
                }
                None if self.feed.is_once || self.source.has_ended() => {
                    for left in self.source.unfinished(&self.memory)? {
                        (self.say)(&format!(
                            "{left}: not sent, because it may still be written: run again later, or say --complete"
                        ));
                    }
                    return Ok(());
                }
                None => std::thread::sleep(OFTEN),
            }
            if self.said.elapsed() > NEWS {
                self.said = Instant::now();
                if self.news != self.sent {
                    (self.say)(&format!("{} rows sent in {} batches", self.sent.rows, self.sent.batches));
                    self.news = self.sent;
                }
            }
        }
    }

    /// Sends a batch until it is taken, without the rows that are put aside.
    fn deliver(&mut self, mut piece: Piece, mut pending: Pending) -> Result<()> {
        let id = self.memory.id_of(&pending);
        piece.leave_out(&pending.left_out);
        let mut is_recut = false;
        loop {
            match self.send(&id, &piece)? {
                Answer::Taken(rows) => {
                    self.sent.rows += rows;
                    self.sent.batches += 1;
                    return self.memory.done(piece.mark());
                }
                // A feeder whose memory is older than the service's cuts its batches otherwise than it did.
                Answer::Differs(Some(rows)) if !is_recut && pending.left_out.is_empty() => {
                    is_recut = true;
                    if let Some(again) = self.source.of_rows(&piece, rows)? {
                        pending = again.pending();
                        piece = again;
                        self.memory.intend(pending.clone(), None)?;
                    }
                }
                Answer::Differs(_) => {
                    return Err(usage(format!(
                        "{}, from byte {} on: the service has taken other bytes under the id {id}. This memory ({}) is not that \
                         of the feeder that sent them: go on with that one, or give files that were never sent another --name",
                        piece.place(),
                        pending.from,
                        self.feed.memory.display()
                    )));
                }
                Answer::BadRows(rows) => {
                    let Some(aside) = &self.feed.aside else {
                        // Nothing was taken under this id: what is sent next may be another batch.
                        self.memory.give_up()?;
                        let all: Vec<String> = rows.iter().map(|row| piece.describe(row)).collect();
                        return Err(usage(format!(
                            "{}\nnone of the batch was taken; mend the source, or have such rows put aside with --aside FILE",
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
                    // The batch that goes out must be the same after a crash.
                    self.memory.intend_without(&pending.left_out)?;
                    piece.leave_out(&pending.left_out);
                }
            }
        }
    }

    fn send(&mut self, id: &str, piece: &Piece) -> Result<Answer> {
        let (mut pause, mut is_away) = (FIRST_PAUSE, false);
        loop {
            match self.remote.send(id, piece.format, piece.body()) {
                Ok(answer) => {
                    if is_away {
                        (self.say)("the service answers again");
                    }
                    return Ok(answer);
                }
                Err(sending::Trouble::Refused { error, is_certain }) => {
                    if is_certain {
                        self.memory.give_up()?;
                    }
                    return Err(error).context(piece.place());
                }
                Err(sending::Trouble::Away(why)) => {
                    if !is_away {
                        (self.say)(&format!("{why}; it is tried again until it is taken"));
                    }
                    is_away = true;
                    let until = Instant::now() + pause;
                    while Instant::now() < until {
                        refuse_if(self.cancelled)?;
                        std::thread::sleep(OFTEN.min(pause));
                    }
                    pause = LONGEST_PAUSE.min(2 * pause);
                }
            }
        }
    }
}

/// Refuses outputs that would replace a file that is followed, or belongs to a key, a budget or a service, or that remembers
/// what was sent.
fn check_outputs(feed: &Feed) -> Result<()> {
    let source = match &feed.from {
        From::File(path) | From::Folder(path) => Some(path.clone()),
        From::Stdin => None,
    };
    let source: Vec<PathBuf> = source.into_iter().collect();
    if !feed.memory.exists() {
        check_output(&feed.memory, &source)?; // it is about to be made
    }
    let used = [source, vec![feed.memory.clone()]].concat();
    feed.aside.iter().try_for_each(|aside| check_output(aside, &used))
}

/// Appends refused rows to a file that nobody else may read: one JSON object a row, with what is wrong.
fn put_aside(path: &Path, piece: &Piece, rows: &[sending::BadRow]) -> Result<()> {
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
