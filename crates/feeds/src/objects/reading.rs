//! Reads an object in a thread, and cuts it into pieces of complete rows.

use super::store::SourceFolder;
use crate::encoding::Encoding;
use crate::rows::{RowScan, count_lines};
use crate::{BatchLimits, Origins, Rows};
use evertally_declare::error::ReadProblem;
use evertally_declare::format::Format;
use std::io::{self, Read};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The most bytes of an object that is sent as a whole.
const MAX_WHOLE_BYTES: u64 = 512 << 20;
/// The most bytes of a row.
const MAX_ROW_BYTES: usize = 16 << 20;
/// Bytes that are read at once.
const CHUNK: u64 = 128 * 1024;

/// A place in an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct At {
    /// The bytes before it, without compression.
    pub(super) bytes: u64,
    /// Its line, counted from 0.
    pub(super) line: u64,
    /// The stamp of the object; empty at its beginning.
    pub(super) stamp: String,
}

/// Rows of an object, and the place after them.
#[derive(Debug)]
pub(super) struct ObjectPiece {
    pub(super) at: At,
    pub(super) is_last: bool,
    pub(super) rows: Rows,
}

/// Why an object gives no piece.
#[derive(Debug)]
pub(super) enum ObjectProblem {
    /// It has another stamp than before.
    Replaced { stamp: String },
    /// It does not exist any more.
    Gone,
    /// It cannot be read as it is.
    Bad(String),
    /// The store fails.
    Away(String),
}

/// An object that is being read. The thread prepares one piece in advance, and ends when this is dropped.
pub(super) struct ObjectReading(Receiver<Result<ObjectPiece, ObjectProblem>>);

impl ObjectReading {
    pub(super) fn begin(store: SourceFolder, name: String, encoding: Encoding, at: At, limits: BatchLimits) -> Self {
        let (sender, receiver) = channel(1);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = read(&store, &name, encoding, at, limits, &sender) {
                let problem = match error {
                    ReadingEnded::Problem(problem) => problem,
                    ReadingEnded::Io(_) if store.is_missing(&name) => ObjectProblem::Gone,
                    ReadingEnded::Io(error) if is_of_content(&error) => ObjectProblem::Bad(error.to_string()),
                    ReadingEnded::Io(error) => ObjectProblem::Away(error.to_string()),
                };
                drop(sender.blocking_send(Err(problem)));
            }
        });
        Self(receiver)
    }

    /// The next piece. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<ObjectPiece, ObjectProblem> {
        self.0.recv().await.unwrap_or_else(|| Err(ObjectProblem::Away("reading ended early".to_owned())))
    }
}

enum ReadingEnded {
    Io(io::Error),
    Problem(ObjectProblem),
}

impl From<io::Error> for ReadingEnded {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Whether the bytes are to blame, and not the way to them.
fn is_of_content(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    let is_of_store = error.get_ref().is_some_and(|inner| inner.is::<ReadProblem>());
    !is_of_store && matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof)
}

fn read(
    store: &SourceFolder,
    name: &str,
    encoding: Encoding,
    mut at: At,
    limits: BatchLimits,
    to: &Sender<Result<ObjectPiece, ObjectProblem>>,
) -> Result<(), ReadingEnded> {
    let (from, stamp) = store.open(name)?;
    if !at.stamp.is_empty() && at.stamp != stamp {
        return Err(ReadingEnded::Problem(ObjectProblem::Replaced { stamp }));
    }
    at.stamp = stamp;
    let format = encoding.format;
    if !format.has_lines() {
        let piece = whole(from, format, at)?;
        drop(to.blocking_send(Ok(piece)));
        return Ok(());
    }
    let from: Box<dyn Read> = match encoding.compression {
        None => from,
        Some(Encoding::GZIP) => Box::new(flate2::read::MultiGzDecoder::new(from)),
        Some(_) => Box::new(zstd::stream::read::Decoder::new(from)?),
    };
    let mut rows = Cutter { from, format, rest: Vec::new(), has_ended: false };
    let header = if format == Format::Csv { rows.take(1, usize::MAX)? } else { Vec::new() };
    let header_lines = count_lines(&header);
    let begins = At { bytes: header.len() as u64, line: header_lines, stamp: at.stamp.clone() };
    if at.bytes < begins.bytes {
        at = begins;
    } else {
        rows.skip(at.bytes - begins.bytes)?;
    }
    loop {
        let taken = rows.take(limits.rows, limits.bytes)?;
        let origins = Origins::FromLine(at.line + 1);
        at.bytes += taken.len() as u64;
        at.line += count_lines(&taken);
        let is_last = rows.is_at_end()?;
        let rows = match taken.is_empty() {
            true => Rows::none(),
            false => Rows { format, compression: None, header: header.clone(), bytes: taken, origins },
        };
        let is_unwanted = to.blocking_send(Ok(ObjectPiece { at: at.clone(), is_last, rows })).is_err();
        if is_last || is_unwanted {
            return Ok(());
        }
    }
}

/// An object that is sent as it is.
fn whole(from: Box<dyn Read>, format: Format, at: At) -> Result<ObjectPiece, ReadingEnded> {
    let mut bytes = Vec::new();
    from.take(MAX_WHOLE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_WHOLE_BYTES {
        let problem = format!("it has more than {} MiB, but is sent as a whole; split it", MAX_WHOLE_BYTES >> 20);
        return Err(ReadingEnded::Problem(ObjectProblem::Bad(problem)));
    }
    let rows = match bytes.is_empty() {
        true => Rows::none(),
        false => Rows { format, compression: None, header: Vec::new(), bytes, origins: Origins::Whole },
    };
    Ok(ObjectPiece { at, is_last: true, rows })
}

/// Cuts bytes at the ends of rows.
struct Cutter {
    from: Box<dyn Read>,
    format: Format,
    rest: Vec<u8>,
    has_ended: bool,
}

impl Cutter {
    fn fill(&mut self) -> Result<(), ReadingEnded> {
        let read = self.from.by_ref().take(CHUNK).read_to_end(&mut self.rest)?;
        self.has_ended = read == 0;
        Ok(())
    }

    /// The next complete rows; the last one may lack its line end. A row that has more bytes comes alone.
    fn take(&mut self, rows: usize, bytes: usize) -> Result<Vec<u8>, ReadingEnded> {
        let (mut taken, mut count) = (0, 0);
        let mut scan = RowScan::default();
        loop {
            while let Some(end) = scan.row_end(self.format, &self.rest) {
                if count > 0 && end > bytes {
                    return Ok(self.cut(taken));
                }
                (taken, count) = (end, count + 1);
                if count >= rows || taken >= bytes {
                    return Ok(self.cut(taken));
                }
            }
            if self.has_ended {
                let is_full = count > 0 && (count >= rows || self.rest.len() > bytes);
                return Ok(self.cut(if is_full { taken } else { self.rest.len() }));
            }
            if count > 0 && self.rest.len() > bytes {
                return Ok(self.cut(taken));
            }
            if self.rest.len() - taken > MAX_ROW_BYTES {
                let most = MAX_ROW_BYTES >> 20;
                let problem = format!("a row has more than {most} MiB; if it is CSV, look for an unclosed quote");
                return Err(ReadingEnded::Problem(ObjectProblem::Bad(problem)));
            }
            self.fill()?;
        }
    }

    fn cut(&mut self, count: usize) -> Vec<u8> {
        let rest = self.rest.split_off(count);
        std::mem::replace(&mut self.rest, rest)
    }

    fn skip(&mut self, count: u64) -> Result<(), ReadingEnded> {
        let mut left = count;
        while left > 0 {
            if self.rest.is_empty() {
                self.fill()?;
                if self.has_ended {
                    let problem = "it is shorter than the rows that were read of it".to_owned();
                    return Err(ReadingEnded::Problem(ObjectProblem::Bad(problem)));
                }
            }
            let now = usize::try_from(left).unwrap_or(usize::MAX).min(self.rest.len());
            self.rest.drain(..now);
            left -= now as u64;
        }
        Ok(())
    }

    fn is_at_end(&mut self) -> Result<bool, ReadingEnded> {
        if self.rest.is_empty() && !self.has_ended {
            self.fill()?;
        }
        Ok(self.rest.is_empty() && self.has_ended)
    }
}
