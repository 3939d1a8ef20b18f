//! Standard input.
//!
//! It cannot be read again, so each batch is written to a file before it is sent, with the number of bytes before it.
//! A random word, which the file keeps, distinguishes it from all other pipes.

use super::encoding::Encoding;
use super::rows::{count_lines, row_end};
use super::{BatchLimits, Origins, Rows, Source, SourceBatch, SourceError};
use async_trait::async_trait;
use evertally_declare::error::{Context, Result, failure, usage};
use evertally_declare::format::Format;
use evertally_ledger::disk::{Access, RealDisk, replace};
use evertally_ledger::lock::NameLock;
use serde::{Deserialize, Serialize};
use std::io::{Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc::{Receiver, channel};

/// Bytes that are read at once, and pieces that are read ahead.
const PIECE: usize = 256 << 10;
const PIECES: usize = 8;
/// The most bytes of a row.
const MAX_ROW_BYTES: usize = 4 << 20;

/// What the file keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptBatch {
    /// The random word.
    word: String,
    /// Where all bytes before this batch end.
    offset: u64,
    line: u64,
    /// The batch that was sent last, and may have been accepted or not.
    header: String,
    rows: String,
}

/// Opens standard input as a source. `memory` is the file for the batch under way.
///
/// # Errors
/// If the format is not given, the file cannot be written, or another process uses it.
pub fn open_stdin(format: Option<&str>, memory: &Path) -> Result<Box<dyn Source>> {
    let Some(format) = format else {
        let words = Format::any_word_of(Format::has_lines);
        return Err(usage(format!("name the format of standard input: --format {words}")));
    };
    let encoding = Encoding::from_name(format)?;
    let lock = NameLock::now(memory)?;
    let kept = match std::fs::read_to_string(memory) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|e| usage(format!("{} is not a file of `evertally feed --stdin`: {e}", memory.display())))?,
        Err(error) if error.kind() == ErrorKind::NotFound => KeptBatch::new()?,
        Err(error) => return Err(error).context(format_args!("cannot read {}", memory.display())),
    };
    let input = StandardInput {
        memory: memory.to_owned(),
        kept,
        encoding,
        pieces: None,
        has_ended: false,
        header: None,
        rest: Vec::new(),
        again: None,
        is_sent: false,
        next: None,
        _lock: lock,
    };
    input.write()?; // a feeder that cannot store its state does not start
    Ok(Box::new(input))
}

struct StandardInput {
    memory: PathBuf,
    kept: KeptBatch,
    encoding: Encoding,
    pieces: Option<Receiver<std::io::Result<Vec<u8>>>>,
    has_ended: bool,
    header: Option<Vec<u8>>,
    /// Bytes that were read and are in no batch yet.
    rest: Vec<u8>,
    /// The kept batch, if it must be sent again.
    again: Option<SourceBatch>,
    /// Whether the kept batch is on its way: the file has room for one.
    is_sent: bool,
    /// The offset and the line of the next batch.
    next: Option<(u64, u64)>,
    _lock: NameLock,
}

impl KeptBatch {
    fn new() -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(failure)?;
        let (header, rows) = (String::new(), String::new());
        Ok(Self { word: evertally::hex(&bytes), offset: 0, line: 1, header, rows })
    }
}

impl StandardInput {
    fn write(&self) -> Result<()> {
        let text = serde_json::to_vec(&self.kept).map_err(failure)?;
        replace(&RealDisk, &self.memory, &Access::Private, &mut Cursor::new(text))
            .context(format_args!("cannot write {}", self.memory.display()))
    }

    /// Keeps a batch, which is then sent.
    fn batch(&mut self, kept: KeptBatch) -> Result<SourceBatch> {
        self.kept = kept;
        self.write()?;
        self.is_sent = true;
        Ok(self.kept_batch())
    }

    fn kept_batch(&self) -> SourceBatch {
        let KeptBatch { offset, line, header, rows, .. } = self.kept.clone();
        let after = (offset > 0).then(|| offset.to_string());
        let position = (offset + rows.len() as u64).to_string();
        let rows = Rows {
            format: self.encoding.format,
            compression: None,
            header: header.into_bytes(),
            bytes: rows.into_bytes(),
            origins: Origins::FromLine(line),
        };
        SourceBatch { partition: String::new(), after, position, rows }
    }

    /// The complete rows that were read, as the next batch.
    fn cut(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>> {
        let format = self.encoding.format;
        if self.encoding.is_growing_csv() && self.header.is_none() {
            let Some(end) = row_end(format, &self.rest) else { return self.no_row_yet() };
            self.header = Some(self.rest.drain(..end).collect());
        }
        let mut taken = 0;
        for _ in 0..limits.rows {
            match row_end(format, &self.rest[taken..]) {
                Some(end) if taken == 0 || taken + end <= limits.bytes => taken += end,
                _ => break,
            }
        }
        if taken == 0 && self.has_ended {
            taken = self.rest.len();
        }
        if taken == 0 {
            return self.no_row_yet();
        }
        let bytes: Vec<u8> = self.rest.drain(..taken).collect();
        let header_lines = count_lines(self.header.as_deref().unwrap_or_default());
        let (offset, line) = self.next.unwrap_or((0, 1 + header_lines));
        let text = |bytes: Vec<u8>| {
            String::from_utf8(bytes).map_err(|_| usage(format!("standard input, from line {line} on: not UTF-8")))
        };
        self.next = Some((offset + bytes.len() as u64, line + count_lines(&bytes)));
        let header = text(self.header.clone().unwrap_or_default())?;
        let kept = KeptBatch { word: self.kept.word.clone(), offset, line, header, rows: text(bytes)? };
        self.batch(kept).map(Some)
    }

    fn no_row_yet(&self) -> Result<Option<SourceBatch>> {
        if self.rest.len() <= MAX_ROW_BYTES {
            return Ok(None);
        }
        let line = self.next.map_or(1, |(_, line)| line);
        let remedy = "if it is CSV, look for an unclosed quote";
        Err(usage(format!("standard input, line {line}: a row exceeds {} MiB; {remedy}", MAX_ROW_BYTES >> 20)))
    }
}

/// Reads standard input in a thread, which ends with the process.
fn pieces() -> Receiver<std::io::Result<Vec<u8>>> {
    let (sender, receiver) = channel(PIECES);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut piece = vec![0; PIECE];
            let read = input.read(&mut piece).map(|count| {
                piece.truncate(count);
                piece
            });
            let is_last = !matches!(&read, Ok(piece) if !piece.is_empty());
            if sender.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

#[async_trait]
impl Source for StandardInput {
    fn shown(&self) -> String {
        "standard input".to_owned()
    }

    fn identity(&self) -> String {
        format!("stdin:{}", self.kept.word)
    }

    async fn partitions(&mut self) -> Result<Vec<String>, SourceError> {
        Ok(vec![String::new()])
    }

    async fn seek(&mut self, _: &str, position: Option<&str>) -> Result<(), SourceError> {
        let kept = self.kept_batch();
        self.is_sent = false;
        let is_before = position == kept.after.as_deref();
        self.again = (is_before && !kept.rows.bytes.is_empty()).then(|| kept.clone());
        if is_before || position == Some(kept.position.as_str()) {
            let end = (self.kept.offset + self.kept.rows.len() as u64, self.kept.line + count_lines(&kept.rows.bytes));
            if self.kept.offset > 0 || !kept.rows.bytes.is_empty() {
                self.next = Some(self.next.unwrap_or(end));
            }
            return Ok(());
        }
        Err(usage(format!(
            "the service has other rows of standard input than {}: this file does not belong to the feeder that sent \
             them; remove it, and feed the rows that were not counted",
            self.memory.display()
        ))
        .into())
    }

    async fn next(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>, SourceError> {
        if self.is_sent {
            tokio::time::sleep(limits.wait).await;
            return Ok(None);
        }
        if let Some(batch) = self.again.take() {
            self.is_sent = true;
            return Ok(Some(batch));
        }
        let until = tokio::time::Instant::now() + limits.wait;
        loop {
            if let Some(batch) = self.cut(limits)? {
                return Ok(Some(batch));
            }
            if self.has_ended {
                return Ok(None);
            }
            let pieces = self.pieces.get_or_insert_with(pieces);
            match tokio::time::timeout_at(until, pieces.recv()).await {
                Err(_) => return Ok(None),
                Ok(Some(Ok(piece))) => {
                    self.has_ended = piece.is_empty();
                    self.rest.extend_from_slice(&piece);
                }
                Ok(Some(Err(error))) => return Err(error).context("cannot read standard input").map_err(Into::into),
                Ok(None) => self.has_ended = true,
            }
        }
    }

    async fn accepted(&mut self, _: &str, _: &str) -> Result<(), SourceError> {
        self.kept.offset += self.kept.rows.len() as u64;
        self.kept.line += count_lines(self.kept.rows.as_bytes());
        (self.kept.rows, self.is_sent) = (String::new(), false);
        Ok(self.write()?)
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.memory.clone()]
    }

    fn idle_time(&self) -> Option<Duration> {
        None
    }

    fn has_ended(&self) -> bool {
        self.has_ended && self.rest.is_empty() && self.again.is_none() && !self.is_sent
    }
}
