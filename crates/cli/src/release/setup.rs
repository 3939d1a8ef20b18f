//! From a declaration to its plan and files, before any event is read.

use crate::failure::usage;
use crate::searched::Bar;
use crate::stream::{Files, ReleaseFlags, with_config, with_groups_of_file};
use anyhow::Result;
use evertally_publish::declaration::{self, Declaration, Use};
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
    fn new(declared: &Declaration, files: declaration::Files) -> Result<Self> {
        let settings = declared.resolve()?;
        let missing_text = settings.missing_text.clone();
        let mut bar = Bar::new(settings.request.horizon());
        let (stream, groups) = settings.plan(&mut |progress| bar.show(progress))?;
        let show_truth = files.unsafe_show_truth == Some(true);
        let files = Files::new(files, missing_text)?;
        let table = TableSpec::new(stream.columns.labels.clone(), stream.is_integral()).map_err(usage)?;
        Ok(Self { stream, files, groups, table, show_truth })
    }

    /// Of the program's flags and their configuration file.
    pub(super) fn of_flags(flags: ReleaseFlags) -> Result<Self> {
        let written = with_config(flags, Use::Release)?;
        let declared = with_groups_of_file(written.declaration, written.files.groups_file.as_deref())?;
        Self::new(&declared, written.files)
    }

    /// How many running sums are released.
    pub(super) fn group_count(&self) -> usize {
        self.groups.as_ref().map_or(1, |table| table.tuples().len())
    }
}
