//! Files that were rotated: renamed or copied away, and perhaps compressed, while a new file takes their name.
//!
//! While a feeder runs, it knows the file that it reads by its number in the file system, whatever its name is. When it
//! starts, or if the file was truncated after a copy was made, it looks for the file that begins with the bytes sent.
//! The files after that one are ordered by their names. Whatever is ambiguous is an error, not a guess.

use super::contents::{FileContents, FilePosition, replaced};
use crate::SourcePosition;
use evertally_declare::error::{Result, usage};
use evertally_ledger::disk::folder_of;
use std::cmp::Reverse;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// A program may write to a rotated file for this long.
const WRITING_TIME: Duration = Duration::from_secs(5);
/// After this number of looks without it, the file that was read has disappeared: a file that is renamed may be missed.
const MAX_MISSES: u32 = 8;
/// The pause between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// The digits of the largest number in a name that is not a date.
const MAX_NUMBER_DIGITS: usize = 4;

/// The number of a file in the file system: of its device, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

/// One of the files that had, or has, the name of a followed file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    path: PathBuf,
    pub(super) id: FileId,
    modified: SystemTime,
    len: u64,
    /// The part of its name that tells it from the others; empty for the present file.
    suffix: String,
}

/// The most compressed files that stay open: the one that is read, and the next.
const MAX_ARCHIVES: usize = 2;

/// Compressed files that stay open, so that the next batch is decompressed from where the last one ended.
#[derive(Clone, Default)]
pub(super) struct OpenArchives(Arc<Mutex<Vec<(Generation, FileContents)>>>);

impl OpenArchives {
    fn files(&self) -> MutexGuard<'_, Vec<(Generation, FileContents)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, generation: &Generation) -> Option<FileContents> {
        let mut files = self.files();
        let found = files.iter().position(|(own, _)| own == generation)?;
        let file = files.remove(found);
        let contents = file.1.clone();
        files.push(file);
        Some(contents)
    }

    fn keep(&self, generation: &Generation, contents: &FileContents) {
        if matches!(contents, FileContents::Compressed(_)) {
            let mut files = self.files();
            files.push((generation.clone(), contents.clone()));
            let old = files.len().saturating_sub(MAX_ARCHIVES);
            files.drain(..old);
        }
    }

    /// Closes all.
    pub(super) fn close(&self) {
        self.files().clear();
    }
}

/// A file that is read.
#[derive(Clone, Default)]
pub(super) struct OpenFile {
    /// The position, as text, after the rows read so far.
    pub(super) after: Option<SourcePosition>,
    pub(super) position: FilePosition,
    /// The file that has the position.
    pub(super) file: Option<FileId>,
    /// Whether rows of a rotated file are left.
    pub(super) is_rotated: bool,
    /// Looks since the file was last seen.
    pub(super) misses: u32,
    pub(super) archives: OpenArchives,
}

#[cfg(unix)]
fn id_of(about: &std::fs::Metadata, _: &Path) -> FileId {
    use std::os::unix::fs::MetadataExt;
    FileId(about.dev(), about.ino())
}

/// Without numbers, a file is known by its name and its time of creation.
#[cfg(not(unix))]
fn id_of(about: &std::fs::Metadata, path: &Path) -> FileId {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (path, about.created().ok()).hash(&mut hasher);
    FileId(0, hasher.finish())
}

impl Generation {
    /// Opens it; `None` if it has another name by now.
    pub(super) fn open(&self, archives: &OpenArchives) -> Result<Option<FileContents>> {
        if let Some(contents) = archives.find(self) {
            return Ok(Some(contents));
        }
        let is_same = |path: &Path| std::fs::metadata(path).is_ok_and(|about| id_of(&about, path) == self.id);
        match FileContents::rotated(&self.path) {
            // Checked after it is open: before, another one could take its name in between.
            Ok(contents) if is_same(&self.path) => {
                archives.keep(self, &contents);
                Ok(Some(contents))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(usage(format!("cannot open {}: {error}", self.path.display()))),
        }
    }

    /// Whether it is the present file of the name.
    pub(super) fn is_live(&self) -> bool {
        self.suffix.is_empty()
    }

    /// Whether nothing was written to it for a while.
    pub(super) fn is_left_alone(&self) -> bool {
        self.modified.elapsed().is_ok_and(|age| age > WRITING_TIME)
    }
}

impl OpenFile {
    /// All files of the name, and which of them has the position; `None` if it is not there.
    ///
    /// # Errors
    /// If it has disappeared, or two files could be it, or their order is not certain.
    pub(super) fn look(&mut self, path: &Path) -> Result<Option<(Vec<Generation>, usize)>> {
        for attempt in 0..=MAX_MISSES {
            if attempt > 0 {
                std::thread::sleep(LOOK_PAUSE);
            }
            let Some(all) = generations(path)? else { continue };
            if let Some(found) = self.locate(path, &all)? {
                self.misses = 0;
                return Ok(Some((all, found)));
            }
            if self.misses == 0 {
                break; // nothing was sent, and there is no file
            }
        }
        Ok(None)
    }

    /// The file that has the position, among all; `None` if that is not certain yet.
    ///
    /// # Errors
    /// If it has disappeared, or two files could be it.
    fn locate(&mut self, path: &Path, all: &[Generation]) -> Result<Option<usize>> {
        let live = all.iter().position(Generation::is_live);
        if let Some(known) = self.file.and_then(|id| all.iter().position(|one| one.id == id)) {
            let begins =
                all[known].open(&self.archives)?.is_some_and(|it| it.begins_as(&self.position).unwrap_or(false));
            if begins {
                return Ok(Some(known));
            }
        }
        if self.position.windows.is_empty() {
            self.file = live.map(|live| all[live].id);
            return Ok(live); // nothing was sent
        }
        let begins = |one: &Generation| {
            one.open(&self.archives).is_ok_and(|it| it.is_some_and(|it| it.begins_as(&self.position).unwrap_or(false)))
        };
        let found: Vec<usize> = (0..all.len()).filter(|index| begins(&all[*index])).collect();
        if let [only] = found[..] {
            self.file = Some(all[only].id);
            return Ok(Some(only));
        }
        self.misses += 1;
        if self.misses < MAX_MISSES || (found.is_empty() && live.is_none()) {
            return Ok(None);
        }
        match &found[..] {
            [] => Err(replaced(path, self.position.line)),
            [first, second, ..] => Err(usage(format!(
                "{} and {} both begin with the rows that were sent of {}, so the next rows are not certain: move the \
                 copy to another folder",
                all[*first].path.display(),
                all[*second].path.display(),
                path.display()
            ))),
            [_] => Ok(None),
        }
    }
}

/// The present file and those that had its name, the oldest first; `None` while they are being renamed.
///
/// # Errors
/// If the folder cannot be read, or names do not tell the order.
fn generations(path: &Path) -> Result<Option<Vec<Generation>>> {
    let look = || look(path).map_err(|error| usage(format!("cannot list the folder of {}: {error}", path.display())));
    let (first, second) = (look()?, look()?);
    let names = |all: &[Generation]| all.iter().map(|one| (one.path.clone(), one.id)).collect::<Vec<_>>();
    if names(&first) != names(&second) {
        return Ok(None);
    }
    let mut all = second;
    let is_number = |one: &Generation| one.suffix.len() <= MAX_NUMBER_DIGITS && one.suffix.parse::<u32>().is_ok();
    let numbers = all.iter().filter(|one| !one.is_live() && is_number(one)).count();
    let rotated = all.iter().filter(|one| !one.is_live()).count();
    if numbers != 0 && numbers != rotated {
        return Err(usage(format!(
            "next to {} are files with numbers and files with dates in their names, so their order is not certain: \
             move those of one kind to another folder",
            path.display()
        )));
    }
    if numbers > 0 {
        all.sort_by_key(|one| Reverse(one.suffix.parse::<u32>().unwrap_or(0)));
    } else {
        all.sort_by_key(|one| (one.is_live(), one.suffix.clone()));
    }
    // While a file is compressed, it is there twice: the whole one is first.
    all.dedup_by(|later, earlier| later.suffix == earlier.suffix && !later.is_live());
    Ok(Some(all))
}

fn look(path: &Path) -> io::Result<Vec<Generation>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder_of(path))? {
        let path_of = entry?.path();
        let Some(suffix) = suffix_of(path, &path_of) else { continue };
        // A file may be renamed meanwhile.
        let Ok(about) = std::fs::metadata(&path_of) else { continue };
        if about.is_file() {
            let (id, modified, len) = (id_of(&about, &path_of), about.modified()?, about.len());
            found.push(Generation { path: path_of, id, modified, len, suffix });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// The number or date that rotation has put into the name of a followed file; empty for its own name.
fn suffix_of(path: &Path, other: &Path) -> Option<String> {
    let (own, name) = (path.file_name()?.to_str()?, other.file_name()?.to_str()?);
    if own == name {
        return Some(String::new());
    }
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
    let inner = || {
        let (stem, ending) = own.rsplit_once('.')?;
        name.strip_prefix(stem)?.strip_suffix(ending)?.strip_suffix('.')
    };
    let suffix = name.strip_prefix(own).or_else(inner)?.strip_prefix(['.', '-', '_'])?;
    let is_date = |c: char| c.is_ascii_digit() || "-_.:TZ".contains(c);
    let is_suffix = suffix.starts_with(|c: char| c.is_ascii_digit()) && suffix.chars().all(is_date);
    is_suffix.then(|| suffix.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rotated_files() {
        let of = |name: &str| suffix_of(Path::new("/var/log/visits.csv"), &Path::new("/var/log").join(name));
        for (name, suffix) in [
            ("visits.csv", ""),
            ("visits.csv.1", "1"),
            ("visits.csv.12.gz", "12"),
            ("visits.csv-20260131", "20260131"),
            ("visits.csv-2026-01-31T10:00:00Z.zst", "2026-01-31T10:00:00Z"),
            ("visits-20260131.csv", "20260131"),
            ("visits.3.csv.gz", "3"),
        ] {
            assert_eq!(of(name).as_deref(), Some(suffix), "{name}");
        }
        for name in ["visits.csv2", "visits.csv.notes", "visits.csv-old.csv", "visits-eu.csv", "visits", "other.csv.1"]
        {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
