//! Tables that grow with every run.
//!
//! The rows of a run are recorded with the ledger before they are written anywhere ([`Pending`]), so that an
//! interrupted run loses nothing: the next one [delivers](deliver) them first. A table in CSV or JSON lines is appended
//! to; one in Parquet is a folder with one file per run.

#![expect(clippy::disallowed_methods, reason = "folders of tables, and devices")]

use super::publication::check_stdout;
use super::{OutputError, is_stream};
use evertally::noise::StreamName;
use evertally_declare::error::{PipelineError, Result};
use evertally_declare::format::Format;
use evertally_ledger::disk::{Access, Disk, append_durably, folder_of, one_name_of, replace};
use evertally_ledger::ledger::{Ledger, Pending, TableMark};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The number of last bytes that identify a table.
const TAIL: u64 = 4096;

/// The destination of the rows of a run.
#[doc(alias = "Target")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendTarget {
    /// Standard output or a device.
    Stream(PathBuf),
    /// Appended to an existing table.
    Append {
        /// The table, without links.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// Its last bytes.
        tail: Vec<u8>,
    },
    /// A separate table.
    Alone(PathBuf),
    /// A separate file in the folder of a Parquet table.
    Part(PathBuf),
}

impl AppendTarget {
    /// The destination of the rows of a run. The stream's rows were last appended to `mark`; with `is_whole`, this run
    /// starts without earlier rows. The table has rows of `steps` steps. A table that is rewritten after other rows may
    /// have `rewritten` bytes.
    ///
    /// # Errors
    /// If `out` is not the expected table, or cannot be read.
    pub fn find(
        disk: &dyn Disk,
        out: &Path,
        format: Format,
        mark: Option<&TableMark>,
        is_whole: bool,
        steps: u64,
        rewritten: Option<u64>,
    ) -> Result<Self> {
        if is_stream(out) {
            check_stdout(out)?;
            return Ok(Self::Stream(out.to_owned()));
        }
        // The same name before and after the table is created: the ledger records it.
        let path = one_name_of(out).map_err(|e| OutputError::from_io(out, &e))?;
        if format == Format::Parquet {
            if path.is_file() {
                let problem =
                    "a Parquet table that grows run by run is a folder; move the file away, or use another name";
                return Err(OutputError::new(out, problem).into());
            }
            if let Some(mark) = mark.filter(|mark| !is_whole && Path::new(&mark.path) == path) {
                check_parts(disk, out, Path::new(&mark.path), steps)?;
            }
            return Ok(Self::Part(path));
        }
        let longer = |known: u64, bytes: u64| {
            let problem = format!(
                "it has more rows than the ledger knows ({known} bytes then, {bytes} now): the ledger may be an old \
                 copy, and releasing other data with the same noise would reveal exact differences. Look for the newer \
                 ledger; if this file belongs to something else, move it away"
            );
            PipelineError::from(OutputError::new(out, problem))
        };
        if let (true, Some(mark), Some(bytes)) = (is_whole, mark, disk.len(&path)?)
            && bytes > mark.bytes
        {
            return Err(longer(mark.bytes, bytes));
        }
        let Some(mark) = mark.filter(|_| !is_whole) else {
            if !is_whole && disk.len(&path)?.is_some() {
                let problem = "this file does not belong to this stream; use another name for the rows of this run";
                return Err(OutputError::new(out, problem).into());
            }
            return Ok(Self::Alone(path));
        };
        let io_error = |e| OutputError::from_io(out, &e);
        let Some(bytes) = disk.len(&path).map_err(io_error)? else {
            if Path::new(&mark.path) == path {
                let problem = "the table to append to is missing; restore it, use another name for the rows of this \
                               run alone, or write the whole table again with --rebuild";
                return Err(OutputError::new(out, problem).into());
            }
            return Ok(Self::Alone(path));
        };
        let most = rewritten.unwrap_or(mark.bytes);
        if bytes > most {
            return Err(longer(most, bytes));
        }
        let is_expected = (mark.bytes..=most).contains(&bytes);
        let tail = disk.read_behind(&path, mark.bytes.saturating_sub(TAIL)).map_err(io_error)?.unwrap_or_default();
        let tail = tail[..tail.len().min(mark.bytes.min(TAIL) as usize)].to_vec();
        if !is_expected || tail_digest(&tail) != mark.tail {
            let problem = format!(
                "it differs from the table that this stream has written so far ({} bytes then, {bytes} now); restore \
                 that table, use another name for the rows of this run alone, or write the whole table again with \
                 --rebuild",
                mark.bytes,
            );
            return Err(OutputError::new(out, problem).into());
        }
        Ok(Self::Append { path, bytes: mark.bytes, tail })
    }

    /// Whether rows are appended to others, without a header line.
    pub fn is_behind(&self) -> bool {
        matches!(self, Self::Append { .. })
    }

    /// The path of an output for the rows of steps `first` to `last`, and the offset at which they are appended.
    ///
    /// # Errors
    /// If the path is not UTF-8 text, which a ledger cannot hold.
    pub fn place(&self, first: u64, last: u64) -> Result<(String, Option<u64>)> {
        let (path, behind) = match self {
            Self::Stream(path) | Self::Alone(path) => (path.clone(), None),
            Self::Append { path, bytes, .. } => (path.clone(), Some(*bytes)),
            // Padded, so that names sort by steps: 13 digits cover all 2^40 steps.
            Self::Part(folder) => (folder.join(format!("part-{first:013}-{last:013}.parquet")), None),
        };
        let text = path.to_str().ok_or_else(|| OutputError::new(&path, "its name is not UTF-8 text; use another"))?;
        Ok((text.to_owned(), behind))
    }

    /// The mark of the table after rows are written to it: it then has `bytes` bytes, and ends with `last`; `None` if
    /// no rows will be appended to it.
    pub fn mark_after(&self, bytes: u64, last: &[u8]) -> Option<TableMark> {
        let (path, before, mut tail) = match self {
            Self::Append { path, bytes, tail } => (path, *bytes, tail.clone()),
            Self::Alone(path) => (path, 0, Vec::new()),
            Self::Part(folder) => {
                return Some(TableMark { path: folder.to_str()?.to_owned(), bytes: 0, tail: String::new() });
            }
            Self::Stream(_) => return None,
        };
        tail.extend_from_slice(last);
        Some(TableMark { path: path.to_str()?.to_owned(), bytes: before + bytes, tail: tail_digest(&tail) })
    }
}

/// Digest of the last bytes of a table.
fn tail_digest(bytes: &[u8]) -> String {
    blake3::hash(&bytes[bytes.len().saturating_sub(TAIL as usize)..]).to_hex().to_string()
}

/// Writes the missing rows of a stream's outputs: those of this run, which has just recorded them, or of an interrupted
/// one. Returns the outputs that were written.
///
/// # Errors
/// If an output cannot be written, or has changed; its missing rows stay recorded.
pub fn deliver(disk: &dyn Disk, ledger: &mut Ledger, name: &StreamName) -> Result<Vec<PathBuf>> {
    let mut written = Vec::new();
    for pending in ledger.pending(name).to_vec() {
        if let Some(contents) = ledger.part(&pending.part)?
            && write(disk, &pending, &contents)?
        {
            written.push(PathBuf::from(pending.target));
        }
    }
    ledger.delivered(name);
    Ok(written)
}

/// Writes one output; false if it was complete already.
fn write(disk: &dyn Disk, pending: &Pending, contents: &[u8]) -> Result<bool> {
    let path = Path::new(&pending.target);
    let io_error = |e| PipelineError::from(OutputError::from_io(path, &e));
    if is_stream(path) {
        write_stream(path, contents).map_err(io_error)?;
        return Ok(true);
    }
    let Some(behind) = pending.behind else {
        if disk.read(path).map_err(io_error)?.as_deref() == Some(contents) {
            return Ok(false);
        }
        let access = match std::fs::metadata(path) {
            _ if pending.private => Access::Private,
            Ok(meta) => Access::As(meta.permissions()),
            Err(_) => Access::Usual,
        };
        let is_part = is_part(path).is_some();
        if is_part {
            // With the permissions of the user's mask, like every table.
            std::fs::create_dir_all(folder_of(path)).map_err(io_error)?;
        }
        replace(disk, path, &access, &mut &*contents).map_err(io_error)?;
        if is_part {
            remove_covered(disk, path).map_err(io_error)?;
        }
        return Ok(true);
    };
    let changed = || {
        let problem = "it was changed before the recorded rows of the last run could be appended; restore it, or write \
                       the whole table again with --rebuild";
        PipelineError::from(OutputError::new(path, problem))
    };
    if disk.len(path).map_err(io_error)?.is_none_or(|bytes| bytes < behind) {
        return Err(changed());
    }
    match disk.read_behind(path, behind).map_err(io_error)? {
        Some(more) if more == contents => Ok(false),
        Some(more) if is_torn(&more, contents) => {
            append_durably(disk, path, behind, &mut &*contents).map_err(io_error)?;
            Ok(true)
        }
        _ => Err(changed()),
    }
}

/// Whether this is empty, or a partial write of an interrupted run: a prefix, perhaps followed by zeros where the disk
/// had allocated space but no data had arrived.
fn is_torn(more: &[u8], contents: &[u8]) -> bool {
    more.len() <= contents.len() && more.iter().zip(contents).all(|(is, was)| is == was || *is == 0)
}

fn write_stream(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    if path.as_os_str() == "-" {
        let mut out = std::io::stdout().lock();
        out.write_all(contents)?;
        return out.flush();
    }
    std::fs::OpenOptions::new().write(true).open(path)?.write_all(contents)
}

/// Refuses the folder of a Parquet table that lacks files of steps through the last one written.
fn check_parts(disk: &dyn Disk, out: &Path, folder: &Path, steps: u64) -> Result<()> {
    let mut parts: Vec<(u64, u64)> = disk.list(folder)?.iter().filter_map(|path| is_part(path)).collect();
    parts.sort_unstable();
    let covered = parts.iter().fold(0, |covered, (first, last)| if *first == covered + 1 { *last } else { covered });
    if covered == steps {
        return Ok(());
    }
    let problem = format!(
        "the folder has files of steps 1 to {covered} without a gap, but this stream has written steps 1 to {steps}; \
         restore the missing files, or use another name for the rows of this run alone"
    );
    Err(OutputError::new(out, problem).into())
}

/// The steps of a file in the folder of a Parquet table.
fn is_part(path: &Path) -> Option<(u64, u64)> {
    let name = path.file_name()?.to_str()?.strip_prefix("part-")?.strip_suffix(".parquet")?;
    let (first, last) = name.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Removes files of a Parquet table whose steps are all in another file, which was rewritten as a whole.
fn remove_covered(disk: &dyn Disk, path: &Path) -> std::io::Result<()> {
    let Some((first, last)) = is_part(path) else { return Ok(()) };
    for other in disk.list(folder_of(path))? {
        if is_part(&other).is_some_and(|(from, to)| other != path && first <= from && to <= last) {
            disk.remove(&other)?;
        }
    }
    disk.sync_folder(folder_of(path))
}

/// The files of a table, in the order of their steps.
///
/// # Errors
/// If its folder cannot be read.
pub fn files_of(disk: &dyn Disk, table: &Path) -> Result<Vec<PathBuf>> {
    if !table.is_dir() {
        return Ok(if table.is_file() { vec![table.to_owned()] } else { Vec::new() });
    }
    let mut files: Vec<PathBuf> = disk.list(table)?.into_iter().filter(|path| is_part(path).is_some()).collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally_ledger::disk::RealDisk;

    #[test]
    fn rows_are_appended_once_and_only_to_their_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("t.csv");
        let find =
            |mark: Option<&TableMark>, whole| AppendTarget::find(&RealDisk, &path, Format::Csv, mark, whole, 0, None);
        let target = find(None, true).unwrap();
        assert_eq!(target, AppendTarget::Alone(path.clone()));
        let mark = target.mark_after(7, b"time\n1\n").unwrap();
        let pending = |target: &AppendTarget| {
            let (target, behind) = target.place(1, 1).unwrap();
            Pending { part: String::new(), target, behind, private: false }
        };
        assert!(write(&RealDisk, &pending(&target), b"time\n1\n").unwrap());
        assert!(!write(&RealDisk, &pending(&target), b"time\n1\n").unwrap(), "it is there already");
        let next = find(Some(&mark), false).unwrap();
        assert!(next.is_behind());
        // Truncated at every byte, and written again.
        for torn in 0..=4 {
            std::fs::write(&path, [&b"time\n1\n"[..], &b"2\n3\n"[..torn]].concat()).unwrap();
            assert_eq!(write(&RealDisk, &pending(&next), b"2\n3\n").unwrap(), torn < 4);
            assert_eq!(std::fs::read(&path).unwrap(), b"time\n1\n2\n3\n");
        }
        std::fs::write(&path, b"time\n1\n2\0\0").unwrap();
        assert!(write(&RealDisk, &pending(&next), b"2\n3\n").unwrap(), "space was allocated, but not all filled");
        let after = next.mark_after(4, b"2\n3\n").unwrap();
        assert!(find(Some(&after), false).unwrap().is_behind());
        let longer = "more rows than the ledger knows";
        assert!(find(Some(&mark), false).unwrap_err().to_string().contains(longer));
        assert!(find(Some(&mark), true).unwrap_err().to_string().contains(longer), "it is not rewritten either");
        std::fs::write(&path, "time\n1\n2\n4\n").unwrap();
        assert!(find(Some(&after), false).unwrap_err().to_string().contains("differs from the table"));
        assert!(write(&RealDisk, &pending(&next), b"2\n3\n").is_err(), "somebody else has written to it");
        std::fs::remove_file(&path).unwrap();
        assert!(find(Some(&after), false).unwrap_err().to_string().contains("restore it"));
        assert!(write(&RealDisk, &pending(&next), b"2\n3\n").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_missing_table_is_noticed_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let find = |name: &str, format, mark: Option<&TableMark>, steps| {
            AppendTarget::find(&RealDisk, &link.join(name), format, mark, mark.is_none(), steps, None)
        };
        let first = find("t.csv", Format::Csv, None, 0).unwrap();
        assert_eq!(first, AppendTarget::Alone(real.canonicalize().unwrap().join("t.csv")));
        let mark = first.mark_after(7, b"time\n1\n").unwrap();
        let missing = find("t.csv", Format::Csv, Some(&mark), 1).unwrap_err().to_string();
        assert!(missing.contains("is missing"), "{missing}");
        let first = find("t.parquet", Format::Parquet, None, 0).unwrap();
        let mark = first.mark_after(4, b"rows").unwrap();
        let missing = find("t.parquet", Format::Parquet, Some(&mark), 1).unwrap_err().to_string();
        assert!(missing.contains("without a gap"), "{missing}");
    }

    #[test]
    fn a_part_replaces_those_it_covers() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().canonicalize().unwrap().join("t.parquet");
        let target = AppendTarget::find(&RealDisk, &table, Format::Parquet, None, false, 0, None).unwrap();
        for (first, last) in [(1, 3), (4, 9), (10, 12), (1, 9)] {
            let (target, behind) = target.place(first, last).unwrap();
            write(&RealDisk, &Pending { part: String::new(), target, behind, private: false }, b"rows").unwrap();
        }
        let names: Vec<_> = files_of(&RealDisk, &table).unwrap();
        assert_eq!(names.iter().map(|path| is_part(path).unwrap()).collect::<Vec<_>>(), [(1, 9), (10, 12)]);
    }
}
