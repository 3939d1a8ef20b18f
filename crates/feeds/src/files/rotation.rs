//! Files that were rotated: renamed or copied away, and perhaps compressed, while a new file takes their name.

use super::contents::{Contents, FilePosition};
use crate::SourcePosition;
use evertally_declare::error::{Context, Result};
use evertally_ledger::disk::folder_of;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A program may write to a rotated file for this long.
const WRITING_TIME: Duration = Duration::from_secs(5);

/// A file that a followed file was, or is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Generation {
    path: PathBuf,
}

impl Generation {
    /// The file that begins with the bytes sent of a followed file.
    pub(super) fn find(path: &Path, position: &FilePosition) -> Result<Option<Self>> {
        for (_, path) in siblings(path)? {
            // A file that was removed or compressed meanwhile is found at the next look.
            let begins = Contents::rotated(&path).and_then(|contents| contents.begins_as(position));
            if begins.unwrap_or(false) {
                return Ok(Some(Self { path }));
            }
        }
        Ok(None)
    }

    pub(super) fn open(&self) -> Result<Contents> {
        Contents::rotated(&self.path).context(format_args!("cannot open {}", self.path.display()))
    }

    /// Whether it is the followed file itself.
    pub(super) fn is_live(&self, path: &Path) -> bool {
        self.path == path
    }

    fn modified(&self) -> Option<SystemTime> {
        std::fs::metadata(&self.path).ok()?.modified().ok()
    }
}

/// A file that is read.
#[derive(Clone, Debug, Default)]
pub(super) struct Reading {
    /// The position, as text, after the rows read so far.
    pub(super) after: Option<SourcePosition>,
    pub(super) position: FilePosition,
    /// Where the rows after the position are, if the file was rotated.
    pub(super) rotated: Option<Generation>,
}

impl Reading {
    /// Whether nothing was written to the rotated file for a while.
    pub(super) fn is_left_alone(&self) -> bool {
        let modified = self.rotated.as_ref().and_then(Generation::modified);
        modified.and_then(|at| at.elapsed().ok()).is_some_and(|age| age > WRITING_TIME)
    }

    /// Continues with the file written after a rotated one, if that is finished; returns whether it did.
    pub(super) fn finish_rotated(&mut self, path: &Path) -> Result<bool> {
        let Some(generation) = &self.rotated else { return Ok(false) };
        let Some(modified) = generation.modified() else { return Ok(false) };
        if !self.is_left_alone() {
            return Ok(false);
        }
        let later = siblings(path)?.into_iter().filter(|(at, other)| *at > modified && *other != generation.path);
        let next = later.min().map(|(_, path)| path);
        let next = match next {
            Some(next) => next,
            None if path.exists() => path.to_owned(),
            None => return Ok(false),
        };
        self.position = FilePosition { line: 1, ..FilePosition::default() };
        self.rotated = Some(Generation { path: next });
        Ok(true)
    }
}

/// The files next to a followed file whose names contain its own, with the times of their last changes.
fn siblings(path: &Path) -> Result<Vec<(SystemTime, PathBuf)>> {
    let folder = folder_of(path);
    let cannot = || format!("cannot list {}", folder.display());
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).context(cannot())? {
        let entry = entry.context(cannot())?;
        let name = entry.file_name();
        let is_named = name.to_str().is_some_and(|name| name.starts_with(stem));
        let about = entry.metadata().ok().filter(|about| is_named && about.is_file());
        if let Some(modified) = about.and_then(|about| about.modified().ok())
            && entry.path() != path
        {
            found.push((modified, entry.path()));
        }
    }
    Ok(found)
}
