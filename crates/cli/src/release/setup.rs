//! From a declaration to its plan and files, before any event is read.

use crate::failure::usage;
use crate::searched;
use crate::stream::{Files, ReleaseFlags, with_config, with_groups_of_file};
use anyhow::Result;
use evertally_publish::declaration::{self, Declaration, Labels, Use};
use evertally_publish::groups::GroupTable;
use evertally_publish::stream::Stream;
use evertally_tables::output::TableSpec;

/// Everything a run needs to know, checked.
pub(super) struct Setup {
    pub(super) stream: Stream,
    pub(super) files: Files,
    pub(super) groups: Option<GroupTable>,
    pub(super) table: TableSpec,
    pub(super) show_truth: bool,
}

impl Setup {
    /// Of a declaration. `files` are those of the program; a table in memory has none.
    pub(super) fn new(declared: &Declaration, files: Option<declaration::Files>) -> Result<Self> {
        let settings = declared.resolve()?;
        let plan = searched::with_searched(settings.request.clone())?.plan()?;
        let integral = plan.request().grid().is_integral() && plan.fraction_bits() == 0;
        let groups = match &settings.labels {
            Labels::Groups(table) => Some(table.clone()),
            Labels::None | Labels::Items(_) => None,
        };
        let missing_text = settings.missing_text.clone();
        let stream = settings.planned(plan)?;
        let show_truth = files.as_ref().is_some_and(|files| files.unsafe_show_truth == Some(true));
        let files = match files {
            Some(files) => Files::new(files, missing_text)?,
            None => Files::in_memory(missing_text),
        };
        let table = TableSpec::new(stream.columns.labels.clone(), integral).map_err(usage)?;
        Ok(Self { stream, files, groups, table, show_truth })
    }

    /// Of the program's flags and their configuration file.
    pub(super) fn of_flags(flags: ReleaseFlags) -> Result<Self> {
        let written = with_config(flags, Use::Release)?;
        let declared = with_groups_of_file(written.declaration, written.files.groups_file.as_deref())?;
        Self::new(&declared, Some(written.files))
    }

    /// How many running sums are released.
    pub(super) fn group_count(&self) -> usize {
        self.groups.as_ref().map_or(1, |table| table.tuples().len())
    }
}
