//! Everything that a check has found, as it is printed and as JSON.

use super::columns::{ColumnKind, Profile};
use super::order::RowOrder;
use super::persons::RowsPerPerson;
use super::rows::RefusedRows;
use super::suggest::Suggestions;
use super::times::TimeGuess;
use serde::Serialize;
use std::path::PathBuf;

/// The first line of a report.
pub(super) const WARNING: &str = "NOT PRIVATE: for you only, do not publish";

/// What a check has found.
#[derive(Serialize)]
pub(super) struct CheckReport {
    pub(super) not_private: &'static str,
    pub(super) files: Vec<FileReport>,
    pub(super) columns: Vec<ColumnReport>,
    /// Rows that were read, whether or not they can be used.
    pub(super) rows: u64,
    /// Rows that a release would count.
    pub(super) counted: u64,
    pub(super) times: TimesReport,
    /// `None` if no time could be read.
    pub(super) order: Option<RowOrder>,
    /// Rows that a release would refuse, by reason.
    pub(super) refused: Vec<RefusedRows>,
    /// Rows that the declared policies skip, by reason.
    pub(super) skipped: Vec<RefusedRows>,
    pub(super) persons: Option<PersonsReport>,
    pub(super) groups: GroupsReport,
    pub(super) suggested: Suggestions,
    pub(super) plan: Option<PlanReport>,
    /// The configuration file that was written.
    pub(super) written: Option<PathBuf>,
}

impl CheckReport {
    /// Whether no row could be read, because no file could.
    pub(super) fn is_of_nothing(&self) -> bool {
        self.rows == 0 && self.files.iter().all(|file| file.problem.is_some())
    }
}

/// A file.
#[derive(Serialize)]
pub(super) struct FileReport {
    pub(super) name: String,
    pub(super) format: Option<String>,
    pub(super) compression: Option<&'static str>,
    pub(super) bytes: Option<u64>,
    /// The delimiter of a CSV file, as it was read.
    pub(super) delimiter: Option<String>,
    pub(super) rows: u64,
    /// Columns of other files that this one lacks.
    pub(super) missing_columns: Vec<String>,
    /// Columns that cannot be read, each with the reason.
    pub(super) unreadable_columns: Vec<(String, String)>,
    /// Why the file was not read to its end, if it was not.
    pub(super) problem: Option<String>,
}

/// A column of all files.
#[derive(Serialize)]
pub(super) struct ColumnReport {
    pub(super) name: String,
    pub(super) kind: ColumnKind,
    pub(super) cells: u64,
    pub(super) missing: u64,
    /// `None` if there are too many to count.
    pub(super) distinct: Option<u64>,
    /// The different cells and their numbers, if they are few.
    pub(super) values: Option<Vec<(String, u64)>>,
    pub(super) range: Option<(f64, f64)>,
    pub(super) has_comma_decimals: bool,
    /// How the first cells are read as times.
    pub(super) time: Option<TimeGuess>,
}

impl ColumnReport {
    pub(super) fn new(name: String, profile: &Profile, time: Option<TimeGuess>) -> Self {
        Self {
            name,
            kind: profile.kind(time.is_some()),
            cells: profile.cells,
            missing: profile.missing,
            distinct: profile.distinct(),
            values: profile.values(),
            range: profile.range(),
            has_comma_decimals: profile.has_comma_decimals(),
            time,
        }
    }
}

/// The times of the events.
#[derive(Default, Serialize)]
pub(super) struct TimesReport {
    /// The columns, one or two; empty if there is none.
    pub(super) columns: Vec<String>,
    /// Whether the columns are declared or the default; otherwise they are a guess.
    pub(super) is_declared: bool,
    /// `None` if it is unknown.
    pub(super) format: Option<String>,
    /// Formats that all read the cells, with different results.
    pub(super) ambiguous: Vec<String>,
    pub(super) first: Option<String>,
    pub(super) last: Option<String>,
    /// Rows whose time is a date without a time of day.
    pub(super) dates: u64,
}

impl TimesReport {
    /// Whether it is known which columns are the time, and in which format.
    pub(super) fn is_known(&self) -> bool {
        !self.columns.is_empty() && self.ambiguous.is_empty()
    }
}

/// The persons.
#[derive(Serialize)]
pub(super) struct PersonsReport {
    pub(super) column: String,
    pub(super) is_declared: bool,
    /// Other columns that may name persons.
    pub(super) others: Vec<String>,
    /// If there are more persons than this, they are not counted.
    pub(super) more_than: Option<u64>,
    pub(super) rows: Option<RowsPerPerson>,
    /// The rows of each person in each period, if periods and a horizon are declared.
    pub(super) rows_per_period: Option<RowsPerPerson>,
}

/// The groups.
#[derive(Default, Serialize)]
pub(super) struct GroupsReport {
    /// Undeclared groups with their rows, the most frequent first.
    pub(super) undeclared: Vec<(String, u64)>,
    /// Whether there are more undeclared groups than those.
    pub(super) has_more: bool,
    /// Columns that may name groups, if none is declared.
    pub(super) candidates: Vec<String>,
}

/// The plan of the suggested release.
#[derive(Serialize)]
pub(super) struct PlanReport {
    pub(super) facts: Vec<String>,
    /// Why there is no plan.
    pub(super) problem: Option<String>,
}
