//! Noise logs that cannot be used.

use evertally_declare::error::PipelineError;
use std::fmt;
use std::path::PathBuf;

/// A noise log that cannot be used. Noise that it would have to record was not issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFileError {
    /// The file.
    pub path: PathBuf,
    /// The reason why it cannot be used.
    pub problem: LogFileProblem,
}

/// The reason why a noise log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFileProblem {
    /// The file system refused, with this error.
    Unwritable(String),
    /// There is no file, but the ledger of the key refers to one.
    Missing,
    /// Other users may read it.
    ReadableByOthers {
        /// Its permissions.
        mode: u32,
    },
    /// It has several hard links.
    SeveralNames,
    /// It is not the log of this key.
    Foreign,
    /// An entry was changed or lost.
    Damaged,
}

impl fmt::Display for LogFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.path.display();
        match &self.problem {
            LogFileProblem::Unwritable(error) => write!(
                f,
                "cannot write {shown} ({error}), which records which noise was issued, so that none is used for other \
                 data; none was issued. If the key's folder is read-only, name another file"
            ),
            LogFileProblem::Missing => write!(
                f,
                "{shown}, which records what noise of this key was issued for, is missing: restore it next to the \
                 ledger that refers to it. If it is lost, make a new key: the old one could repeat its noise for other \
                 data"
            ),
            LogFileProblem::ReadableByOthers { mode } => write!(
                f,
                "{shown}, which records which noise was issued, can be read by others (mode {mode:o}); run `chmod 600 \
                 {shown}`"
            ),
            LogFileProblem::SeveralNames => write!(
                f,
                "{shown}, which records which noise was issued, has several names (hard links): when it is replaced \
                 under one of them, the others keep the old file. Remove the other names (`find -samefile {shown}` \
                 finds them)"
            ),
            LogFileProblem::Foreign => write!(
                f,
                "{shown} does not record which noise of this key was issued: it belongs to another key, or is damaged. \
                 Restore the file that belongs to the key; or, if the key is new, move this file elsewhere"
            ),
            LogFileProblem::Damaged => write!(
                f,
                "{shown}, which records which noise was issued, is damaged: restore an undamaged copy. Without one, \
                 nobody knows what the noise of this key was issued for: use a new key"
            ),
        }
    }
}

impl std::error::Error for LogFileError {}

impl From<LogFileError> for PipelineError {
    fn from(error: LogFileError) -> Self {
        let is_usage = !matches!(error.problem, LogFileProblem::Unwritable(_));
        Self::other(error, is_usage)
    }
}
