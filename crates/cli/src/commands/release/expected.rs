//! The files that contain the events of steps, named by a pattern with the beginning of the step.

use crate::failure::usage;
use anyhow::Result;
use evertally_declare::declaration::Parameter::Expect;
use evertally_declare::problem::sentence;
use evertally_declare::steps::StepCalendar;
use evertally_declare::url::{is_url, without_secrets};
use evertally_tables::input::{object_exists, url_identity};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A step whose file is missing.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) step: u64,
    pub(super) file: PathBuf,
}

/// A declared file-name pattern, such as `daily/%Y-%m-%d.csv`.
pub(super) struct FilePattern<'a> {
    pattern: &'a str,
    calendar: &'a StepCalendar,
}

impl<'a> FilePattern<'a> {
    /// # Errors
    /// If the pattern is invalid.
    pub(super) fn new(pattern: &'a str, calendar: &'a StepCalendar) -> Result<Self> {
        let expected = Self { pattern, calendar };
        expected.file_of(1)?;
        Ok(expected)
    }

    fn file_of(&self, step: u64) -> Result<PathBuf> {
        let problem = |what: String| usage(sentence![Expect, format!(" {}: {what}", self.pattern)]);
        let start = self.calendar.start_of(step).timestamp().ok_or_else(|| problem("the step has no date".into()))?;
        let zoned = start.to_zoned(self.calendar.zone().time_zone().clone());
        let name = jiff::fmt::strtime::format(self.pattern, &zoned).map_err(|e| problem(e.to_string()))?;
        Ok(PathBuf::from(name))
    }

    /// The files of these steps that exist.
    pub(super) fn files(&self, first: u64, last: u64) -> Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for step in first..=last {
            let file = self.file_of(step)?;
            if files.last() != Some(&file) && exists(&file)? {
                files.push(file);
            }
        }
        Ok(files)
    }

    /// The first of these steps whose file was not read, if any.
    pub(super) fn missing(&self, first: u64, last: u64, read: &BTreeSet<PathBuf>) -> Result<Option<Missing>> {
        for step in first..=last {
            let file = self.file_of(step)?;
            if !read.contains(&full(&file)) {
                return Ok(Some(Missing { step, file }));
            }
        }
        Ok(None)
    }
}

fn exists(file: &Path) -> Result<bool> {
    if !is_url(file) {
        return Ok(file.is_file());
    }
    object_exists(file).map_err(|error| usage(sentence![Expect, format!(" {}: {error}", without_secrets(file))]))
}

/// A path that does not depend on the working directory, even for a file that no longer exists.
pub(super) fn full(path: &Path) -> PathBuf {
    if is_url(path) {
        return url_identity(path);
    }
    let whole = |path: &Path| std::fs::canonicalize(path).ok();
    whole(path)
        .or_else(|| {
            Some(whole(path.parent().filter(|folder| !folder.as_os_str().is_empty())?)?.join(path.file_name()?))
        })
        .or_else(|| std::path::absolute(path).ok())
        .unwrap_or_else(|| path.to_owned())
}
