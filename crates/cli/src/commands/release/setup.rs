//! From a declaration to its plan and files, before any event is read.

use crate::failure::usage;
use crate::searched::{SearchDisplay, warn_not_cached};
use crate::stream::{Files, ReleaseFlags, with_config, with_groups_of_file};
use anyhow::Result;
use evertally::noise::StreamName;
use evertally_declare::closing;
use evertally_declare::declaration::{Declaration, Labels, Present, Settings, Use, Written};
use evertally_declare::groups::{GroupTable, LaterGroups};
use evertally_declare::policy::Late;
use evertally_declare::records::Records;
use evertally_declare::steps::{Instant, StepCalendar};
use evertally_declare::stream::Stream;
use evertally_declare::words::quoted;
use evertally_ledger::ledger::{Follows, Ledger, OpenKey};
use evertally_plot::{MAX_SHOWN, MAX_SHOWN_AT_ONCE};
use evertally_publish::report::later_groups;
use evertally_publish::session::{Leg, Session};
use evertally_tables::output::TableSpec;

/// The declaration, validated as far as possible without a ledger.
pub(super) struct ValidatedDeclaration {
    declaration: Declaration,
    settings: Settings,
    pub(super) files: Files,
    plot_groups: Option<Vec<String>>,
    top: Option<usize>,
    pub(super) show_truth: bool,
}

/// Everything that a run needs, validated.
#[derive(Clone)]
pub(super) struct ReleaseSetup {
    pub(super) stream: Stream,
    pub(super) groups: Option<GroupTable>,
    /// The number of groups that are already released, if the stream has begun.
    pub(super) present: Option<Present>,
    /// The groups whose counts begin after the first step.
    pub(super) later: Vec<LaterGroups>,
    pub(super) table: TableSpec,
    /// The indices of the groups that the picture shows.
    pub(super) drawn: Vec<usize>,
    /// The names of the groups that the picture is to show, if groups are discovered.
    pub(super) plot_groups: Option<Vec<String>>,
    /// The number of fastest-growing groups to report for each step.
    pub(super) top: Option<usize>,
    pub(super) show_truth: bool,
    /// The consecutive streams of this declaration; the last one is the stream of this run.
    pub(super) names: Vec<StreamName>,
    /// The published steps of each of them.
    pub(super) calendars: Vec<StepCalendar>,
}

impl ValidatedDeclaration {
    /// The declaration from the program's flags and their configuration file.
    pub(super) fn from_flags(flags: ReleaseFlags) -> Result<Self> {
        Self::new(with_config(flags, Use::Release)?)
    }

    /// The declaration from flags that are joined with their configuration file.
    pub(super) fn new(written: Written) -> Result<Self> {
        written.check_release()?;
        let goes_on = written.files.r#continue == Some(true) || written.files.rebuild == Some(true);
        let declaration = with_groups_of_file(
            written.declaration,
            written.files.groups_file.as_deref(),
            written.files.scale_column.as_deref(),
        )?;
        // The last step of a run depends on the stream that has been reached.
        let checked = Declaration { through: declaration.through.clone().filter(|_| !goes_on), ..declaration.clone() };
        let settings = checked.resolve()?;
        let show_truth = written.files.unsafe_show_truth == Some(true);
        let plot_groups = written.files.plot_groups.clone();
        let top = written.questions.top;
        let mut files = Files::new(written.files, settings.missing_text.clone())?;
        files.leaders = top.is_some();
        files.reading.whole_rows = files.bad_file.is_some() || settings.late == Late::SideFile;
        let labels = settings.columns.labels.clone();
        if let Some(column) = settings.measures.column() {
            TableSpec::from_measures(labels, column)
        } else {
            TableSpec::new(labels, true)
        }
        .map_err(usage)?;
        Ok(Self { declaration, settings, files, plot_groups, top, show_truth })
    }

    /// The plan of the declaration, for a stream that has not begun.
    pub(super) fn standalone_setup(&self) -> Result<ReleaseSetup> {
        self.planned(self.settings.clone().truncated_to_complete_rows()?, None)
    }

    /// The plan under which the stream begins or has begun, through the last step that this run publishes. If the
    /// declaration has consecutive streams, this is the plan of the last one.
    pub(super) fn under(&self, open: &mut OpenKey) -> Result<ReleaseSetup> {
        if !self.files.going_on.is_wanted {
            return self.at(&open.ledger, self.settings.clone());
        }
        let stretches = self.declaration.stretches(&open.ledger, self.files.going_on.extend)?;
        let last = stretches.names.len() - 1;
        let mut setup = self.at(&open.ledger, stretches.declaration(last).resolve()?)?;
        setup.stream.follows = match open.ledger.follows(stretches.name()) {
            Some(follows) => Some(follows.clone()),
            None if last == 0 => None,
            None => {
                let before = Declaration { through: None, all: Some(true), ..stretches.declaration(last - 1) };
                let before = before.resolve()?;
                let follows = self.at(&open.ledger, before)?.followed(open)?;
                eprintln!("opens stream `{}`, {}", stretches.name(), cost_of_next(&setup.stream, &follows));
                Some(follows)
            }
        };
        // Rows are steps, unless only some steps are published, which is possible in a single stream only.
        if setup.stream.published.is_none() {
            setup.calendars = stretches.calendars;
        }
        setup.names = stretches.names;
        if let Some(groups) = &setup.groups {
            setup.later = later_groups(&setup.stream, groups, setup.present, &open.ledger);
        }
        Ok(setup)
    }

    fn at(&self, ledger: &Ledger, settings: Settings) -> Result<ReleaseSetup> {
        let (settings, present) = settings.begun(ledger)?;
        let published = ledger.last_published(&settings.name);
        let now = Instant::from(jiff::Timestamp::now());
        let last_step = closing::last_step(&settings.calendar, settings.closing, settings.last_step, published, now)?;
        let settings = Settings { last_step, ..settings };
        // A continued run also closes steps inside a row, so that later events of these steps are late.
        let settings = if self.files.going_on.is_wanted { settings } else { settings.truncated_to_complete_rows()? };
        self.planned(settings, present)
    }

    fn planned(&self, settings: Settings, present: Option<Present>) -> Result<ReleaseSetup> {
        let display = SearchDisplay::new(self.files.quiet)?;
        let groups = match &settings.labels {
            Labels::Groups(table) => Some(table.clone()),
            Labels::None | Labels::Discovered { .. } | Labels::Items(_) => None,
        };
        let settings = settings.observed(display.observer());
        let (stream, _) = evertally_ledger::planner::plan(settings, &mut warn_not_cached)?;
        drop(display);
        let most = if stream.last_row() == 1 { MAX_SHOWN_AT_ONCE } else { MAX_SHOWN };
        let discovers = stream.plan.threshold().is_some();
        let named = self.plot_groups.clone();
        let drawn = drawn(named.as_deref().filter(|_| !discovers), groups.as_ref(), most)?;
        let table = TableSpec::from_stream(&stream).map_err(usage)?;
        let table = table.with_instants(stream.calendar.zone());
        let (names, calendars) = (vec![stream.name.clone()], vec![stream.rows().clone()]);
        Ok(ReleaseSetup {
            stream,
            groups,
            present,
            later: Vec::new(),
            table,
            drawn,
            plot_groups: named,
            top: self.top,
            show_truth: self.show_truth,
            names,
            calendars,
        })
    }
}

impl ReleaseSetup {
    /// The state from which the next stream continues.
    fn followed(mut self, open: &mut OpenKey) -> Result<Follows> {
        let name = self.stream.name.clone();
        let lost = || usage(format!("the state of stream `{name}`, from which the next stream continues, is lost"));
        let state = open.ledger.state(&name)?.ok_or_else(lost)?;
        self.stream.follows = open.ledger.follows(&name).cloned();
        let leg = Leg { last_step: self.stream.calendar.steps(), stream: self.stream, groups: self.groups };
        Ok(Session::resume(leg, &open.key, &open.ledger, &state)?.followed()?)
    }

    /// The start and end of a step of the table, counted through all streams; `None` if no stream has such a step.
    pub(super) fn span_of(&self, step: u64) -> Option<(Instant, Instant)> {
        let mut step = step;
        for calendar in &self.calendars {
            if (1..=calendar.steps()).contains(&step) {
                return Some((calendar.start_of(step), calendar.end_of(step)));
            }
            step = step.checked_sub(calendar.steps())?;
        }
        None
    }

    /// The number of steps before those of the stream.
    pub(super) fn steps_before(&self) -> u64 {
        self.stream.follows.as_ref().map_or(0, |follows| follows.steps)
    }

    /// The number of rows of each step in every group.
    pub(super) fn rows_of_a_group(&self) -> usize {
        self.stream.measures.as_ref().map_or(1, |bundle| bundle.labels().len())
    }

    /// The number of released running sums; with measures, for each measure.
    pub(super) fn group_count(&self) -> usize {
        self.groups.as_ref().map_or(1, |table| table.tuples().len())
    }
}

/// The budget that a stream spends in addition to those that it follows.
fn cost_of_next(stream: &Stream, follows: &Follows) -> String {
    let budget = stream.plan.request().budget();
    let next = Stream { follows: Some(follows.clone()), ..stream.clone() };
    match (next.streams_of_a_unit(), stream.period()) {
        (1, None) => format!("under the same {budget}: one event is in one of these streams only"),
        (1, Some(period)) => format!("under the same {budget}: {} is in one of these streams only", period.in_words()),
        _ => format!("which spends {budget} in addition"),
    }
}

/// The groups to draw: the named ones, or the first ones.
fn drawn(named: Option<&[String]>, groups: Option<&GroupTable>, most: usize) -> Result<Vec<usize>> {
    let tuples = groups.map_or(&[][..], GroupTable::tuples);
    let Some(names) = named else { return Ok((0..tuples.len().max(1).min(most)).collect()) };
    if groups.is_none() {
        return Err(usage("--plot-groups needs --group-by: without groups there is one line to draw"));
    }
    if names.len() > most || names.is_empty() {
        return Err(usage(format!("--plot-groups draws 1 to {most} groups, but {} are named", names.len())));
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
