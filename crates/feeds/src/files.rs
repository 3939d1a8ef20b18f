//! Files that grow, and folders of files.
//!
//! The position in a file is the offset of its next row, with digests of bytes at its beginning and before the offset:
//! so a file that was replaced is noticed. If a single followed file was rotated, the rest is read from the file that
//! it became, which is the one in its folder that begins with the bytes sent, and then those written after that.

mod contents;
mod rotation;

use super::encoding::Encoding;
use super::following::blocking;
use super::rows::{count_lines, row_end};
use super::{BatchLimits, Origins, Rows, Source, SourceBatch, SourceError, SourcePosition};
use async_trait::async_trait;
use contents::{FileContents, FilePosition, replaced};
use evertally_declare::error::{Context, Result, usage};
use rotation::OpenFile;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most bytes of a row.
const MAX_ROW_BYTES: usize = 4 << 20;
/// The most bytes of a file that is sent as a whole: 512 MiB.
const MAX_FILE_BYTES: u64 = 512 << 20;
/// How long a file that is sent as a whole must have been unchanged.
const MIN_FILE_AGE: Duration = Duration::from_secs(2);
/// How often files are checked for new rows.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A file or a folder to follow, and how.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// A file, or a folder, of which all present and future files are followed, without its subfolders.
    pub path: PathBuf,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// The format of the rows; by default, from the ending of the name.
    pub format: Option<String>,
    /// Whether files are complete: then a last line without a line end is sent, too, without waiting for further
    /// writes.
    pub is_complete: bool,
}

/// Opens a file or a folder as a source.
///
/// # Errors
/// If there is no such folder, or the format is not known.
pub fn open_files(options: &FileOptions) -> Result<Box<dyn Source>> {
    let FileOptions { path, is_folder, format, is_complete } = options;
    let format = format.as_deref().map(Encoding::from_name).transpose()?;
    let shown = path.display();
    let path = if *is_folder {
        let folder = path.canonicalize().context(format_args!("cannot find {shown}"))?;
        if !folder.is_dir() {
            return Err(usage(format!("{shown} is not a folder; follow a file with --file")));
        }
        folder
    } else {
        if format.or_else(|| Encoding::from_path(path)).is_none() {
            return Err(usage(format!("the name {shown} does not reveal its format: add --format")));
        }
        let folder = evertally_ledger::disk::folder_of(path);
        let folder = folder.canonicalize().context(format_args!("cannot find the folder of {shown}"))?;
        folder.join(path.file_name().ok_or_else(|| usage(format!("{shown} is not a file")))?)
    };
    if path.to_str().is_none() {
        return Err(usage(format!("the path {shown} is not UTF-8")));
    }
    let files =
        FileSet { path: path.clone(), is_folder: *is_folder, format, is_complete: *is_complete, ..FileSet::default() };
    Ok(Box::new(FileSource { path, is_folder: *is_folder, files: Arc::new(Mutex::new(files)) }))
}

struct FileSource {
    path: PathBuf,
    is_folder: bool,
    files: Arc<Mutex<FileSet>>,
}

#[derive(Default)]
struct FileSet {
    path: PathBuf,
    is_folder: bool,
    format: Option<Encoding>,
    is_complete: bool,
    /// The files that are read, by the names of their partitions.
    reading: BTreeMap<String, OpenFile>,
    /// The positions that the service has.
    stored: BTreeMap<String, FilePosition>,
    /// A batch that was read and not taken yet.
    ready: Option<SourceBatch>,
}

impl FileSource {
    fn inner(&self) -> MutexGuard<'_, FileSet> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn with_files<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut FileSet) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let files = Arc::clone(&self.files);
        blocking(move || what(&mut files.lock().unwrap_or_else(PoisonError::into_inner))).await
    }
}

#[async_trait]
impl Source for FileSource {
    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn place(&self, partition: &str) -> String {
        self.inner().path_of(partition).display().to_string()
    }

    fn identity(&self) -> String {
        let kind = if self.is_folder { "folder" } else { "file" };
        format!("{kind}:{}", self.path.display())
    }

    async fn partitions(&mut self) -> Result<Vec<String>, SourceError> {
        Ok(self.with_files(|files| files.names()).await?)
    }

    fn remember(&mut self, positions: &BTreeMap<String, SourcePosition>) {
        let parsed = positions.iter().filter_map(|(name, text)| Some((name.clone(), FilePosition::parse(text)?)));
        self.inner().stored = parsed.collect();
    }

    async fn seek(&mut self, partition: &str, position: Option<&str>) -> Result<(), SourceError> {
        let parsed = position.map(|text| {
            FilePosition::parse(text).ok_or_else(|| {
                usage(format!("{}: the service has a position of another kind of source", self.place(partition)))
            })
        });
        let parsed = parsed.transpose()?.unwrap_or_else(|| FilePosition { line: 1, ..FilePosition::default() });
        let mut files = self.inner();
        files.ready = files.ready.take().filter(|batch| batch.partition != partition);
        let reading = OpenFile { after: position.map(str::to_owned), position: parsed, ..OpenFile::default() };
        files.reading.insert(partition.to_owned(), reading);
        Ok(())
    }

    async fn next(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>, SourceError> {
        let until = Instant::now() + limits.wait;
        loop {
            self.with_files(move |files| files.read(limits)).await?;
            // Taken only here, so that a dropped future leaves it for the next call.
            if let Some(batch) = self.inner().ready.take() {
                return Ok(Some(batch));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    fn idle_time(&self) -> Option<Duration> {
        Some(Duration::ZERO)
    }

    fn unfinished(&mut self) -> Result<Vec<String>> {
        self.inner().unfinished()
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }
}

impl FileSet {
    fn path_of(&self, partition: &str) -> PathBuf {
        if self.is_folder { self.path.join(partition) } else { self.path.clone() }
    }

    /// The partitions: in a folder the names of its files, without hidden ones, which may still be written under a
    /// temporary name, and without those of unknown formats.
    fn names(&self) -> Result<Vec<String>> {
        if !self.is_folder {
            return Ok(vec![String::new()]);
        }
        let cannot = || format!("cannot list {}", self.path.display());
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).context(cannot())? {
            let entry = entry.context(cannot())?;
            let path = entry.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                return Err(usage(format!("the path {} is not UTF-8", path.display())));
            };
            let is_known = Encoding::from_path(&path).or(self.format).is_some();
            if is_known && !name.starts_with('.') && path.is_file() {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Reads the next batch of any file.
    fn read(&mut self, limits: BatchLimits) -> Result<()> {
        if self.ready.is_some() {
            return Ok(());
        }
        let names: Vec<String> = self.reading.keys().cloned().collect();
        for name in names {
            let mut reading = self.reading[&name].clone();
            let batch = self.next_of(&name, &mut reading, limits)?;
            self.reading.insert(name, reading);
            if batch.is_some() {
                self.ready = batch;
                break;
            }
        }
        Ok(())
    }

    /// The next rows of a file.
    fn next_of(&self, name: &str, reading: &mut OpenFile, limits: BatchLimits) -> Result<Option<SourceBatch>> {
        let path = self.path_of(name);
        let Some(encoding) = self.encoding_of(&path) else { return Ok(None) };
        if !encoding.grows() {
            return self.whole(name, &path, reading, encoding);
        }
        if !self.is_folder {
            return self.next_rotating(&path, reading, encoding, limits);
        }
        let Some(contents) = self.contents(name, &path, reading)? else { return Ok(None) };
        let position = reading.position.clone();
        match self.cut(&path, &contents, position, encoding, (limits, self.is_complete))? {
            Some(cut) => self.batch(name, &path, &contents, reading, cut).map(Some),
            None => Ok(None),
        }
    }

    /// The next rows of a single file, which may have been rotated.
    fn next_rotating(
        &self,
        path: &Path,
        reading: &mut OpenFile,
        encoding: Encoding,
        limits: BatchLimits,
    ) -> Result<Option<SourceBatch>> {
        let Some((all, first)) = reading.look(path)? else { return Ok(None) };
        reading.is_rotated = !all[first].is_live();
        let mut position = reading.position.clone();
        for generation in &all[first..] {
            let Some(contents) = generation.open(&reading.archives)? else { return Ok(None) };
            // A rotated file grows no more once it was left alone for a while.
            let is_live = generation.is_live();
            let is_complete = if is_live { self.is_complete } else { generation.is_left_alone() };
            if let Some(cut) = self.cut(path, &contents, position, encoding, (limits, is_complete))? {
                reading.file = Some(generation.id);
                if is_live {
                    reading.archives.close();
                }
                return self.batch("", path, &contents, reading, cut).map(Some);
            }
            if is_live || !generation.is_left_alone() {
                reading.is_rotated = !is_live;
                return Ok(None);
            }
            position = FilePosition { line: 1, ..FilePosition::default() };
        }
        Ok(None)
    }

    fn encoding_of(&self, path: &Path) -> Option<Encoding> {
        // The name of a single file need not say its format.
        if self.is_folder {
            Encoding::from_path(path).or(self.format)
        } else {
            self.format.or_else(|| Encoding::from_path(path))
        }
    }

    /// The bytes of a file of a folder, if it is there.
    fn contents(&self, name: &str, path: &Path, reading: &OpenFile) -> Result<Option<FileContents>> {
        let cannot = || format!("cannot open {}", path.display());
        let contents = match FileContents::plain(path) {
            Ok(contents) => contents,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None), // it may come back
            Err(error) => return Err(error).context(cannot()),
        };
        let len = std::fs::metadata(path).context(cannot())?.len();
        if reading.after.is_none() {
            self.refuse_renamed(name, path, &contents, len)?;
        } else if len < reading.position.offset || !contents.begins_as(&reading.position).context(cannot())? {
            return Err(replaced(path, reading.position.line));
        }
        Ok(Some(contents))
    }

    /// The rows after the position, and the header of a body.
    fn cut(
        &self,
        path: &Path,
        contents: &FileContents,
        mut position: FilePosition,
        encoding: Encoding,
        (limits, is_complete): (BatchLimits, bool),
    ) -> Result<Option<CutRows>> {
        let cannot = || format!("cannot read {}", path.display());
        let mut header = Vec::new();
        if encoding.is_growing_csv() {
            let head = contents.read_at(0, MAX_ROW_BYTES as u64 + 1).context(cannot())?;
            let Some(end) = row_end(encoding.format, &head) else { return no_row_yet(path, 1, head.len()) };
            header = head[..end].to_vec();
            if position.offset == 0 {
                (position.offset, position.line) = (end as u64, 1 + count_lines(&header));
            }
        }
        let most = limits.bytes.max(MAX_ROW_BYTES);
        let mut bytes = contents.read_at(position.offset, most as u64 + 1).context(cannot())?;
        let taken = whole_rows(encoding, &bytes, limits);
        if taken == 0 && (!is_complete || bytes.len() > MAX_ROW_BYTES) {
            return no_row_yet(path, position.line, bytes.len());
        }
        if taken > 0 {
            bytes.truncate(taken);
        }
        Ok((!bytes.is_empty()).then_some(CutRows { encoding, position, header, bytes }))
    }

    fn batch(
        &self,
        name: &str,
        path: &Path,
        contents: &FileContents,
        reading: &mut OpenFile,
        CutRows { encoding, position, header, bytes }: CutRows,
    ) -> Result<SourceBatch> {
        let (first, offset) = (position.line, position.offset + bytes.len() as u64);
        let windows = contents.windows(offset).context(format_args!("cannot read {}", path.display()))?;
        reading.position = FilePosition { offset, line: first + count_lines(&bytes), windows };
        let position = reading.position.text()?;
        let after = reading.after.replace(position.clone());
        let origins = if encoding.grows() { Origins::FromLine(first) } else { Origins::Whole };
        let rows = Rows { format: encoding.format, compression: encoding.compression, header, bytes, origins };
        Ok(SourceBatch { partition: name.to_owned(), after, position, rows })
    }

    /// A file that is sent as a whole, once it no longer changes.
    fn whole(
        &self,
        name: &str,
        path: &Path,
        reading: &mut OpenFile,
        encoding: Encoding,
    ) -> Result<Option<SourceBatch>> {
        let shown = path.display();
        let (contents, about): (FileContents, Metadata) = match (FileContents::plain(path), std::fs::metadata(path)) {
            (Ok(contents), Ok(about)) => (contents, about),
            (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::NotFound => return Ok(None),
            (Err(error), _) | (_, Err(error)) => return Err(error).context(format_args!("cannot open {shown}")),
        };
        let len = about.len();
        if reading.after.is_some() {
            let is_same = len == reading.position.offset && contents.begins_as(&reading.position)?;
            return if is_same { Ok(None) } else { Err(replaced(path, reading.position.line)) };
        }
        let age = about.modified().ok().and_then(|at| at.elapsed().ok()).unwrap_or_default();
        if len == 0 || (!self.is_complete && age < MIN_FILE_AGE) {
            return Ok(None);
        }
        self.refuse_renamed(name, path, &contents, len)?;
        if len > MAX_FILE_BYTES {
            let most = MAX_FILE_BYTES >> 20;
            return Err(usage(format!("{shown} has more than {most} MiB, but is sent as a whole; split it")));
        }
        let bytes = contents.read_at(0, len).context(format_args!("cannot read {shown}"))?;
        self.batch(
            name,
            path,
            &contents,
            reading,
            CutRows { encoding, position: reading.position.clone(), header: Vec::new(), bytes },
        )
        .map(Some)
    }

    /// Refuses a file that was sent under another name, or a copy of one.
    fn refuse_renamed(&self, name: &str, path: &Path, contents: &FileContents, len: u64) -> Result<()> {
        let current = self.reading.iter().filter(|(_, reading)| reading.after.is_some());
        let current = current.map(|(name, reading)| (name, &reading.position));
        for (other, position) in self.stored.iter().chain(current) {
            let is_other = other != name && !position.windows.is_empty();
            if is_other && len >= position.offset && contents.begins_as(position)? {
                return Err(usage(format!(
                    "{} begins with the bytes sent of {} ({} bytes), under another name; a followed file keeps its \
                     name: rename it back, or remove it from the folder",
                    path.display(),
                    self.path_of(other).display(),
                    position.offset
                )));
            }
        }
        Ok(())
    }

    /// The places that were not sent because the files may still be growing.
    fn unfinished(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        for (name, reading) in &self.reading {
            let path = self.path_of(name);
            let about = std::fs::metadata(&path).context(format_args!("cannot open {}", path.display()));
            let len = if self.is_folder { about.map_or(0, |about| about.len()) } else { about?.len() };
            if reading.is_rotated {
                left.push(format!(
                    "{} was rotated, and the rest of the old file was not sent yet, because programs may still write \
                     to it: run again after some seconds",
                    path.display()
                ));
            } else if len > reading.position.offset {
                left.push(format!(
                    "{}, from line {} on: not sent, because the file may still be growing: run again later, or add \
                     --complete",
                    path.display(),
                    reading.position.line
                ));
            }
        }
        Ok(left)
    }
}

/// Rows that were read.
struct CutRows {
    encoding: Encoding,
    /// The position before them.
    position: FilePosition,
    header: Vec<u8>,
    bytes: Vec<u8>,
}

/// The number of bytes of the first complete rows within the limits.
fn whole_rows(encoding: Encoding, bytes: &[u8], limits: BatchLimits) -> usize {
    let mut taken = 0;
    for _ in 0..limits.rows {
        match row_end(encoding.format, &bytes[taken..]) {
            Some(end) if taken == 0 || taken + end <= limits.bytes => taken += end,
            _ => break,
        }
    }
    taken
}

fn no_row_yet<T>(path: &Path, line: u64, bytes: usize) -> Result<Option<T>> {
    if bytes <= MAX_ROW_BYTES {
        return Ok(None);
    }
    let remedy = "if it is CSV, look for an unclosed quote";
    Err(usage(format!("{}, line {line}: a row exceeds {} MiB; {remedy}", path.display(), MAX_ROW_BYTES >> 20)))
}
