//! From a declaration to its plan and files, before any event is read.

use crate::failure::usage;
use crate::searched::Bar;
use crate::stream::{Files, ReleaseFlags, with_config, with_groups_of_file};
use anyhow::Result;
use evertally_plot::{MAX_SHOWN, MAX_SHOWN_AT_ONCE};
use evertally_publish::declaration::{self, Declaration, Use};
use evertally_publish::groups::GroupTable;
use evertally_publish::stream::Stream;
use evertally_publish::words::quoted;
use evertally_tables::output::TableSpec;

/// Everything a run needs to know, checked.
pub(super) struct Setup {
    pub(super) stream: Stream,
    pub(super) files: Files,
    pub(super) groups: Option<GroupTable>,
    pub(super) table: TableSpec,
    /// The groups that the picture shows, by their place among all.
    pub(super) drawn: Vec<usize>,
    pub(super) show_truth: bool,
}

impl Setup {
    fn new(declared: &Declaration, files: declaration::Files) -> Result<Self> {
        let settings = declared.resolve()?;
        let missing_text = settings.missing_text.clone();
        let mut bar = Bar::new(settings.request.horizon());
        let (stream, groups) = settings.plan(&mut |progress| bar.show(progress))?;
        let show_truth = files.unsafe_show_truth == Some(true);
        let most = if stream.last_step == 1 { MAX_SHOWN_AT_ONCE } else { MAX_SHOWN };
        let drawn = drawn(files.plot_groups.as_deref(), groups.as_ref(), most)?;
        let files = Files::new(files, missing_text)?;
        let table = TableSpec::new(stream.columns.labels.clone(), stream.is_integral()).map_err(usage)?;
        let table = table.with_instants(stream.calendar.zone());
        Ok(Self { stream, files, groups, table, drawn, show_truth })
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

/// The groups to draw: those that are named, or the first ones.
fn drawn(named: Option<&[String]>, groups: Option<&GroupTable>, most: usize) -> Result<Vec<usize>> {
    let tuples = groups.map_or(&[][..], GroupTable::tuples);
    let Some(names) = named else { return Ok((0..tuples.len().max(1).min(most)).collect()) };
    if groups.is_none() {
        return Err(usage("--plot-groups needs --group-by: without groups there is one line to draw"));
    }
    if names.len() > most || names.is_empty() {
        return Err(usage(format!("--plot-groups draws 1 to {most} groups, and {} are named", names.len())));
    }
    let mut places = Vec::new();
    for name in names {
        let Some(place) = tuples.iter().position(|tuple| tuple.join("/") == *name) else {
            let first = tuples.first().map_or(String::new(), |tuple| format!(", such as {}", quoted(&tuple.join("/"))));
            return Err(usage(format!("--plot-groups: {} is not a declared group{first}", quoted(name))));
        };
        if places.contains(&place) {
            return Err(usage(format!("--plot-groups names {} twice", quoted(name))));
        }
        places.push(place);
    }
    Ok(places)
}
