//! From a declaration to its plan and files, before any event is read.

use crate::failure::usage;
use crate::searched::Bar;
use crate::stream::{Files, ReleaseFlags, with_config, with_groups_of_file};
use anyhow::Result;
use evertally_publish::closing;
use evertally_publish::declaration::{Labels, Present, Settings, Use};
use evertally_publish::groups::GroupTable;
use evertally_publish::ledger::Ledger;
use evertally_publish::steps::Instant;
use evertally_publish::stream::Stream;
use evertally_tables::output::TableSpec;

/// What was declared, checked as far as it goes without a ledger.
pub(super) struct Declared {
    settings: Settings,
    pub(super) files: Files,
    pub(super) show_truth: bool,
}

/// Everything a run needs to know, checked.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) stream: Stream,
    pub(super) groups: Option<GroupTable>,
    /// How many groups are released already, of a stream that has begun.
    pub(super) present: Option<Present>,
    pub(super) table: TableSpec,
    pub(super) show_truth: bool,
}

impl Declared {
    /// Of the program's flags and their configuration file.
    pub(super) fn of_flags(flags: ReleaseFlags) -> Result<Self> {
        let written = with_config(flags, Use::Release)?;
        let declared = with_groups_of_file(written.declaration, written.files.groups_file.as_deref())?;
        let settings = declared.resolve()?;
        let show_truth = written.files.unsafe_show_truth == Some(true);
        let files = Files::new(written.files, settings.missing_text.clone())?;
        TableSpec::new(settings.columns.labels.clone(), true).map_err(usage)?;
        Ok(Self { settings, files, show_truth })
    }

    /// The plan of what was declared, for a stream that nobody has begun.
    pub(super) fn alone(&self) -> Result<Setup> {
        Setup::of(self.settings.clone(), None, self.show_truth)
    }

    /// The plan under which the stream begins or has begun, through the last step that this run publishes.
    pub(super) fn under(&self, ledger: &Ledger) -> Result<Setup> {
        let (settings, present) = self.settings.clone().begun(ledger)?;
        let published = ledger.last_published(&settings.name);
        let now = Instant::from(jiff::Timestamp::now());
        let last_step = closing::last_step(&settings.calendar, settings.closing, settings.last_step, published, now)?;
        Setup::of(Settings { last_step, ..settings }, present, self.show_truth)
    }
}

impl Setup {
    fn of(settings: Settings, present: Option<Present>, show_truth: bool) -> Result<Self> {
        let mut bar = Bar::new(settings.request.horizon());
        let groups = match &settings.labels {
            Labels::Groups(table) => Some(table.clone()),
            Labels::None | Labels::Items(_) => None,
        };
        let (stream, _) = settings.plan(&mut |progress| bar.show(progress))?;
        let table = TableSpec::new(stream.columns.labels.clone(), stream.is_integral()).map_err(usage)?;
        Ok(Self { stream, groups, present, table, show_truth })
    }

    /// How many running sums are released.
    pub(super) fn group_count(&self) -> usize {
        self.groups.as_ref().map_or(1, |table| table.tuples().len())
    }
}
