//! Sources: their new rows, and whether they still begin with the bytes already sent.

use super::cutting::{MAX_BATCH_BYTES, PendingBatch, count_lines, digest, row_end};
use super::format::Encoding;
use super::memory::{FeedState, Fingerprint, STDIN, SourcePosition, UnacknowledgedBatch};
use evertally_declare::error::{Context, Result, usage};
use evertally_declare::format::Format;
use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Stdin};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that identify a file, at its beginning and before the new rows.
const WINDOW: u64 = 4096;
/// The most bytes of a file that is sent as a whole: 512 MiB.
const MAX_FILE_BYTES: u64 = 512 << 20;
/// How long a file that is sent as a whole must have been unchanged.
const MIN_FILE_AGE: Duration = Duration::from_secs(2);

/// The source of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// A growing file.
    File(PathBuf),
    /// All files of a folder, including future ones; subfolders are ignored.
    Folder(PathBuf),
    /// Standard input.
    Stdin,
}

/// An open source of events.
pub(super) enum EventSource {
    File(PathBuf, Encoding),
    Folder(PathBuf, Option<Encoding>),
    Stdin(Box<StandardInput>),
}

/// Standard input.
pub(super) struct StandardInput {
    from: BufReader<Stdin>,
    format: Encoding,
    header: Option<Vec<u8>>,
    rest: Vec<u8>,
    has_ended: bool,
}

impl EventSource {
    pub(super) fn open(from: &From, format: Option<Encoding>) -> Result<Self> {
        match from {
            From::Stdin => {
                let format = format.ok_or_else(|| {
                    let words = Format::any_word_of(Format::has_lines);
                    usage(format!("name the format of standard input: --format {words}"))
                })?;
                let from = BufReader::with_capacity(1 << 20, std::io::stdin());
                Ok(Self::Stdin(Box::new(StandardInput {
                    from,
                    format,
                    header: None,
                    rest: Vec::new(),
                    has_ended: false,
                })))
            }
            From::File(path) => {
                let of_path = format.or_else(|| Encoding::from_path(path));
                let shown = path.display();
                let format = of_path
                    .ok_or_else(|| usage(format!("the name {shown} does not reveal its format: add --format")))?;
                let folder = evertally_ledger::disk::folder_of(path);
                let folder = folder.canonicalize().context(format_args!("cannot find the folder of {shown}"))?;
                let name = path.file_name().ok_or_else(|| usage(format!("{shown} is not a file")))?;
                Ok(Self::File(folder.join(name), format))
            }
            From::Folder(path) => {
                let folder = path.canonicalize().context(format_args!("cannot find {}", path.display()))?;
                if !folder.is_dir() {
                    return Err(usage(format!("{} is not a folder; follow a file with --file", path.display())));
                }
                Ok(Self::Folder(folder, format))
            }
        }
    }

    /// Whether the source has ended for good.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Stdin(input) if input.has_ended)
    }

    /// The next batch; `None` if there is nothing new yet. `is_complete` means that files no longer grow.
    pub(super) fn next(&mut self, memory: &FeedState, rows: usize, is_complete: bool) -> Result<Option<PendingBatch>> {
        match self {
            Self::File(path, format) => next_of(path, *format, memory, rows, is_complete),
            Self::Folder(folder, format) => {
                for path in files_of(folder)? {
                    let Some(format) = Encoding::from_path(&path).or(*format) else { continue };
                    if let Some(piece) = next_of(&path, format, memory, rows, is_complete)? {
                        return Ok(Some(piece));
                    }
                }
                Ok(None)
            }
            Self::Stdin(input) => input.next(memory, rows),
        }
    }

    /// The batch of `rows` rows that begins where another does; `None` if there are fewer rows.
    pub(super) fn of_rows(&self, piece: &PendingBatch, rows: u64) -> Result<Option<PendingBatch>> {
        // Only this state file issued the ids of standard input: no other feeder can have used them.
        if !piece.format.grows() || rows == 0 || matches!(self, Self::Stdin(_)) {
            return Ok(None);
        }
        let shown = &piece.source;
        let mut file = File::open(shown).context(format_args!("cannot open {shown}"))?;
        let mut bytes = read_at(&mut file, piece.range.start, MAX_BATCH_BYTES as u64)?;
        bytes.truncate(whole_rows(piece.format, &bytes, usize::try_from(rows).unwrap_or(usize::MAX)));
        let windows = windows_of(&mut file, piece.range.start + bytes.len() as u64)?;
        let (source, header) = (piece.source.clone(), piece.header.clone());
        let mut again = PendingBatch::new(piece.format, source, piece.range.start, piece.line, header, bytes);
        again.windows = windows;
        Ok(Some(again))
    }

    /// The places that were not sent because the files may still be growing.
    pub(super) fn unfinished(&self, memory: &FeedState) -> Result<Vec<String>> {
        let paths = match self {
            Self::File(path, _) => vec![path.clone()],
            Self::Folder(folder, _) => files_of(folder)?,
            Self::Stdin(_) => Vec::new(),
        };
        let mut left = Vec::new();
        for path in paths.iter().filter(|path| Encoding::from_path(path).is_some() || matches!(self, Self::File(..))) {
            let about = match (std::fs::metadata(path), self) {
                (Ok(about), _) => about,
                (Err(error), Self::File(..)) => {
                    return Err(error).context(format_args!("cannot open {}", path.display()));
                }
                (Err(_), _) => continue,
            };
            let (sent, line) =
                path.to_str().and_then(|name| memory.mark(name)).map_or((0, 1), |mark| (mark.offset, mark.line));
            if about.len() > sent {
                left.push(format!("{}, from line {line} on", path.display()));
            }
        }
        Ok(left)
    }

    /// The batch that was pending when the last run ended, read again.
    pub(super) fn again(&self, pending: &UnacknowledgedBatch, memory: &FeedState) -> Result<PendingBatch> {
        let path = Path::new(&pending.source);
        let format = match (pending.format.as_str(), self) {
            ("whole", _) => Encoding::from_path(path).ok_or_else(|| replaced(path, pending.line))?,
            (name, _) => Encoding::from_name(name)?,
        };
        let mut file = File::open(path)
            .context(format_args!("cannot open {}, of which a batch is pending: put it back", path.display()))?;
        let len = pending.to.checked_sub(pending.from).ok_or_else(|| replaced(path, pending.line))?;
        let bytes = read_at(&mut file, pending.from, len)?;
        if digest(&bytes) != pending.digest {
            return Err(replaced(path, pending.line));
        }
        if let Some(mark) = memory.mark(&pending.source) {
            check(path, &mut file, mark)?;
        }
        let header = pending.header.clone().into_bytes();
        let mut piece = PendingBatch::new(format, pending.source.clone(), pending.from, pending.line, header, bytes);
        piece.windows = windows_of(&mut file, pending.to)?;
        Ok(piece)
    }
}

/// The files of a folder, ordered by name, without hidden ones, which may still be written under a temporary name.
fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let cannot = || format!("cannot list {}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).context(cannot())? {
        let entry = entry.context(cannot())?;
        let name = entry.file_name();
        let is_hidden = name.to_str().is_none_or(|name| name.starts_with('.'));
        if !is_hidden && entry.path().is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

fn next_of(
    path: &Path,
    format: Encoding,
    memory: &FeedState,
    rows: usize,
    is_complete: bool,
) -> Result<Option<PendingBatch>> {
    let shown = path.display();
    let source = path.to_str().ok_or_else(|| usage(format!("the path {shown} is not UTF-8")))?.to_owned();
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None), // it may be there later
        Err(error) => return Err(error).context(format_args!("cannot open {shown}")),
    };
    let about = file.metadata().context(format_args!("cannot open {shown}"))?;
    let mark = memory.mark(&source);
    match mark {
        Some(mark) if about.len() < mark.offset => return Err(replaced(path, mark.line)),
        Some(mark) if about.len() == mark.offset => return Ok(None),
        Some(mark) => check(path, &mut file, mark)?,
        None => refuse_renamed(path, &mut file, &about, memory)?,
    }
    let cut = match format.grows() {
        true => cut_rows(path, &source, &mut file, format, mark, rows, is_complete)?,
        false => whole(path, &source, &mut file, format, (mark, &about), is_complete)?,
    };
    let Some(mut piece) = cut else { return Ok(None) };
    piece.windows = windows_of(&mut file, piece.range.end)?;
    Ok(Some(piece))
}

/// The complete rows after the mark.
fn cut_rows(
    path: &Path,
    source: &str,
    file: &mut File,
    format: Encoding,
    mark: Option<&SourcePosition>,
    rows: usize,
    is_complete: bool,
) -> Result<Option<PendingBatch>> {
    let (mut offset, mut line, mut header) =
        mark.map_or((0, 1, Vec::new()), |mark| (mark.offset, mark.line, mark.header.clone().into_bytes()));
    let mut bytes = read_at(file, offset, MAX_BATCH_BYTES as u64 + 1)?;
    if format.is_growing_csv() && mark.is_none() {
        let Some(end) = row_end(format, &bytes) else { return no_row_yet(path, line, bytes.len()) };
        header = bytes.drain(..end).collect();
        (offset, line) = (end as u64, 1 + count_lines(&header));
    }
    let taken = whole_rows(format, &bytes, rows);
    if taken == 0 && (!is_complete || bytes.len() > MAX_BATCH_BYTES) {
        return no_row_yet(path, line, bytes.len());
    }
    if taken > 0 || !is_complete {
        bytes.truncate(taken);
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(Some(PendingBatch::new(format, source.to_owned(), offset, line, header, bytes)))
}

/// The number of bytes of the first complete rows, at most `rows`.
fn whole_rows(format: Encoding, bytes: &[u8], rows: usize) -> usize {
    let mut taken = 0;
    for _ in 0..rows {
        match row_end(format, &bytes[taken..]) {
            Some(end) if taken + end <= MAX_BATCH_BYTES => taken += end,
            _ => break,
        }
    }
    taken
}

fn no_row_yet(path: &Path, line: u64, bytes: usize) -> Result<Option<PendingBatch>> {
    if bytes <= MAX_BATCH_BYTES {
        return Ok(None);
    }
    let remedy = "if it is CSV, look for an unclosed quote";
    Err(usage(format!("{}, line {line}: a row exceeds {} MiB; {remedy}", path.display(), MAX_BATCH_BYTES >> 20)))
}

/// A file that is sent as a whole, once it no longer changes.
fn whole(
    path: &Path,
    source: &str,
    file: &mut File,
    format: Encoding,
    (mark, about): (Option<&SourcePosition>, &Metadata),
    is_complete: bool,
) -> Result<Option<PendingBatch>> {
    if let Some(mark) = mark {
        return Err(replaced(path, mark.line));
    }
    let age = about.modified().ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
    if about.len() == 0 || (!is_complete && age < MIN_FILE_AGE) {
        return Ok(None);
    }
    if about.len() > MAX_FILE_BYTES {
        let most = MAX_FILE_BYTES >> 20;
        return Err(usage(format!("{} has more than {most} MiB, but is sent as a whole; split it", path.display())));
    }
    let bytes = read_at(file, 0, about.len())?;
    Ok(Some(PendingBatch::new(format, source.to_owned(), 0, 1, Vec::new(), bytes)))
}

fn read_at(file: &mut File, offset: u64, most: u64) -> Result<Vec<u8>> {
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The fingerprint of a file whose first bytes were sent.
fn windows_of(file: &mut File, sent: u64) -> Result<Vec<Fingerprint>> {
    let mut windows = Vec::new();
    for from in [0, sent.saturating_sub(WINDOW)] {
        let bytes = read_at(file, from, WINDOW.min(sent - from))?;
        windows.push(Fingerprint { from, len: bytes.len() as u64, digest: digest(&bytes) });
    }
    windows.dedup();
    Ok(windows)
}

/// Whether a file begins with the bytes that were sent.
fn begins_as(file: &mut File, mark: &SourcePosition) -> Result<bool> {
    for window in &mark.windows {
        let bytes = read_at(file, window.from, window.len)?;
        if bytes.len() as u64 != window.len || digest(&bytes) != window.digest {
            return Ok(false);
        }
    }
    Ok(true)
}

fn check(path: &Path, file: &mut File, mark: &SourcePosition) -> Result<()> {
    if begins_as(file, mark)? { Ok(()) } else { Err(replaced(path, mark.line)) }
}

/// Refuses a file that was sent under another name, or a copy of one.
fn refuse_renamed(path: &Path, file: &mut File, about: &Metadata, memory: &FeedState) -> Result<()> {
    for (source, mark) in memory.marks().filter(|(_, mark)| !mark.windows.is_empty()) {
        if about.len() >= mark.offset && begins_as(file, mark)? {
            return Err(usage(format!(
                "{} begins with the bytes sent of {source} ({} bytes), under another name; a followed file keeps its \
                 name: rename it back, or remove it from the folder",
                path.display(),
                mark.offset
            )));
        }
    }
    Ok(())
}

fn replaced(path: &Path, line: u64) -> evertally_declare::error::PipelineError {
    usage(format!(
        "{}: the rows sent through line {} have disappeared: the file was truncated or replaced. Restore it, or \
         give the new file another name; nothing of the new file was sent",
        path.display(),
        line.saturating_sub(1)
    ))
}

impl StandardInput {
    /// Waits for complete rows.
    fn next(&mut self, memory: &FeedState, rows: usize) -> Result<Option<PendingBatch>> {
        loop {
            if self.header.is_none()
                && self.format.is_growing_csv()
                && let Some(end) = row_end(self.format, &self.rest)
            {
                self.header = Some(self.rest.drain(..end).collect());
            }
            if self.header.is_some() || !self.format.is_growing_csv() {
                let taken = whole_rows(self.format, &self.rest, rows);
                let taken = if taken == 0 && self.has_ended { self.rest.len() } else { taken };
                if taken > 0 {
                    let bytes: Vec<u8> = self.rest.drain(..taken).collect();
                    let (from, line) = memory.mark(STDIN).map_or((0, 1), |mark| (mark.offset, mark.line));
                    let header = self.header.clone().unwrap_or_default();
                    return Ok(Some(PendingBatch::new(self.format, STDIN.to_owned(), from, line, header, bytes)));
                }
            }
            if self.has_ended {
                return Ok(None);
            }
            let line = memory.mark(STDIN).map_or(1, |mark| mark.line);
            no_row_yet(Path::new("standard input"), line, self.rest.len())?;
            let bytes = self.from.fill_buf().context("cannot read standard input")?;
            let count = bytes.len();
            self.rest.extend_from_slice(bytes);
            self.from.consume(count);
            self.has_ended = count == 0;
        }
    }
}
