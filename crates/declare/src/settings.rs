//! A checked declaration: everything known of a stream before its plan.

use crate::event::Columns;
use crate::groups::GroupTable;
use crate::identity::Identities;
use crate::measures::{BegunPart, MEASURE, Measure, WORKLOAD, Wanted};
use crate::parameter::Parameter::{Publish, Through};
use crate::policy::{Band, Late, OutOfBounds, Refusable};
use crate::problem::{Problem, sentence};
use crate::publication::Publication;
use crate::reading::Read;
use crate::scales::Scales;
use crate::steps::{Periods, StepCalendar, TimeFormat, TimeParser};
use crate::view::View;
use evertally::noise::StreamName;
use evertally::number;
use evertally::plan::{PlanRequest, Search};
use evertally::privacy::selection::Selection;
use evertally::privacy::{Unit, Values};
use evertally::sketch::Shape;
use std::sync::Arc;

/// A checked declaration: all that is known of a stream before its plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its name under the key.
    pub name: StreamName,
    /// Headline of picture and report.
    pub title: String,
    /// The columns of the events that matter.
    pub columns: Columns,
    /// How cells become persons, groups and items.
    pub ids: Identities,
    /// How the time column writes times.
    pub time_format: TimeFormat,
    /// Texts that stand for a missing cell.
    pub missing_text: Vec<String>,
    /// The steps of the horizon.
    pub calendar: StepCalendar,
    /// Which of them are published, where not all are.
    pub published: Option<Arc<Publication>>,
    /// What is kept of a person, in steps; the unit of the plan is in slots.
    pub kept: Unit,
    /// The periods in each of which the bounds on a person start anew.
    pub periods: Periods,
    /// The last step to publish.
    pub last_step: u64,
    /// What one event contributes.
    pub values: Values,
    /// What to do with a value outside its bounds.
    pub out_of_bounds: OutOfBounds,
    /// What to do with an event that lacks a cell.
    pub missing: Refusable,
    /// What to do with an event outside the horizon.
    pub outside: Refusable,
    /// What to do with an event of an undeclared group, where there is no rest.
    pub unknown_group: Refusable,
    /// What to do with an event of a step that an earlier run has closed.
    pub late: Late,
    /// Whether the last step to publish was declared, or is that of the horizon for want of a word.
    pub closing: Closing,
    /// How many events are held back to put them in order of time.
    pub sort_buffer: usize,
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Whether they hold each by itself, or at all steps at once.
    pub band: Band,
    /// What is shown beside the released values, in order.
    pub views: Vec<View>,
    /// What events are told apart by.
    pub labels: Labels,
    /// What the plan is asked for.
    pub request: PlanRequest,
    /// Which measures are released.
    pub measures: Measures,
}

/// The measures of a stream, and what it began with, where it has begun.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    /// None for running sums alone.
    pub wanted: Vec<Wanted>,
    pub(crate) began: Vec<BegunPart>,
}

/// Who says which step is the last to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// A declared time.
    Through,
    /// All of the horizon was asked for.
    All,
    /// Nobody: the clock.
    Clock,
}

/// What a plan is asked for: in steps, or where only some are published in the [slots](Slots) of which those are made.
#[derive(Clone, Debug, PartialEq)]
pub struct InSlots {
    /// How many there are; 2^62 where there is no end.
    pub horizon: u64,
    /// The unit, with bounds on them.
    pub unit: Unit,
    /// What is read, in them.
    pub read: Read,
    /// Of every so many the last gives what is published.
    pub per_row: u64,
}

/// What events are told apart by.
#[derive(Clone, Debug)]
pub enum Labels {
    /// Nothing: one running sum.
    None,
    /// Declared groups, a running sum each.
    Groups(GroupTable),
    /// Groups that nobody declared, a running sum each.
    Discovered {
        /// The columns that name them.
        columns: Vec<String>,
        /// Which of them are shown.
        selection: Selection,
    },
    /// Items of a sketch.
    Items(Items),
}

/// Items of a sketch: very many, of which few are asked for.
#[derive(Clone, Debug)]
pub struct Items {
    /// The columns that together name an item.
    pub columns: Vec<String>,
    /// What they are counted in: a count sketch, or a tree of counts.
    pub shape: Shape,
}

impl Settings {
    /// Its declared groups.
    pub fn groups(&self) -> Option<GroupTable> {
        match &self.labels {
            Labels::Groups(table) => Some(table.clone()),
            Labels::None | Labels::Discovered { .. } | Labels::Items(_) => None,
        }
    }

    /// The same, through the last step that is published: no step behind it is closed. All steps of a row can then come
    /// again with the next run.
    ///
    /// # Errors
    /// If no row ends by then.
    pub fn of_whole_rows(self) -> Result<Self, Problem> {
        let Some(published) = &self.published else { return Ok(self) };
        let rows = published.rows_through(self.last_step);
        if rows == 0 {
            let end = self.calendar.format(published.rows().end_of(1));
            let why = format!("no publication has ended by then: the first is that of {end}");
            return Err(Problem::of(Publish, why).remedy(sentence!["run again then, or name it with ", Through]));
        }
        Ok(Self { last_step: published.last_step_of(rows), ..self })
    }

    /// A parser of times in other files than the events: written as theirs.
    pub fn file_times(&self) -> TimeParser {
        TimeParser::new(self.time_format.clone(), self.calendar.zone().clone())
    }

    /// A parser of declared times.
    pub fn times(&self) -> TimeParser {
        TimeParser::new(TimeFormat::Auto, self.calendar.zone().clone())
    }
}

impl Measures {
    /// The name of the column that tells rows of a group apart, where there are several.
    pub fn column(&self) -> Option<&'static str> {
        let is_workload = |wanted: &Wanted| matches!(wanted.measure, Measure::Workload(..));
        self.wanted.first().map(|first| if is_workload(first) { WORKLOAD } else { MEASURE })
    }

    /// What they change in a request, which says what makes one stream another.
    pub(crate) fn shape(&self, request: PlanRequest) -> PlanRequest {
        if self.wanted.is_empty() {
            return request;
        }
        let wanted: Vec<String> = self.wanted.iter().map(Wanted::to_string).collect();
        let of = if request.mix().is_some() { "workloads" } else { "measures" };
        request.with_meaning(of, wanted.join(" "))
    }
}

impl Labels {
    /// The scales of the groups, for a grid of scale 1.
    pub(crate) fn scales(&self, grid: number::Grid) -> Scales {
        match self {
            Self::Groups(table) => Scales::of(table.scales(), grid),
            Self::None | Self::Items(_) | Self::Discovered { .. } => Scales::default(),
        }
    }

    /// What they change in a request, which says what makes one stream another.
    pub(crate) fn shape(&self, request: PlanRequest, grid: number::Grid) -> PlanRequest {
        let (horizon, is_unbounded) = (request.horizon(), request.is_unbounded());
        let is_heavy = |groups| if is_unbounded { groups > HEAVY_WITHOUT_END } else { is_heavy(horizon, groups) };
        let light = |groups| Search::default().with_light_steps(is_heavy(groups));
        match self {
            Self::None => request.with_search(light(1)),
            Self::Groups(table) => {
                let request = request
                    .with_search(light(table.tuples().len()))
                    .with_meaning("group-by", table.columns().join(","))
                    .with_meaning("groups", table.meaning());
                match table.rest_name() {
                    Some(rest) => request.with_meaning("rest", rest),
                    None => request,
                }
            }
            Self::Discovered { columns, selection } => {
                // A JSON text, which no list of declared groups has.
                let columns = serde_json::to_string(&columns).expect("texts are JSON");
                request.with_selection(*selection).with_meaning("group-by", columns)
            }
            Self::Items(items) => {
                // What names an item, and where values are clamped: the plan itself only says how far they can be from
                // 0.
                let columns = serde_json::to_string(&items.columns).expect("texts are JSON");
                let request = request.with_meaning("key-columns", columns);
                match request.values() {
                    Values::Count => request,
                    Values::Sum { lower, upper } => {
                        let bounds = format!("{},{}", grid.format(lower.into()), grid.format(upper.into()));
                        request.with_meaning("bounds", bounds)
                    }
                }
            }
        }
    }
}

/// So many groups without an end are served by mechanisms whose pauses and memory grow with time: some hundred kilobytes
/// each, and in the course of a quarter of a million steps a second each.
const HEAVY_WITHOUT_END: usize = 100;

/// Whether mechanisms whose time and memory grow with the horizon would take more than about half a minute (steps² ×
/// groups) or a gigabyte (steps × groups).
fn is_heavy(steps: u64, groups: usize) -> bool {
    let (steps, groups) = (steps as f64, groups as f64);
    steps * steps * groups > 4e10 || steps * groups > 3e7
}
