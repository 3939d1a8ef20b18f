//! A checked declaration: everything known about a stream before its plan.

use crate::error::InputError;
use crate::event::{Columns, Event};
use crate::filter::RowFilter;
use crate::groups::GroupTable;
use crate::identity::Identities;
use crate::measures::{MEASURE, Measure, RecordedPart, WORKLOAD, Wanted};
use crate::numbers::NumberFormat;
use crate::parameter::Parameter::{Publish, Through};
use crate::policy::{Coverage, DateOnly, Late, OutOfBounds, Outside, Refusable, SortLimit};
use crate::problem::{Problem, sentence};
use crate::publication::Publication;
use crate::reading::Read;
use crate::scales::Scales;
use crate::steps::{Periods, StepCalendar, TimeFormat, TimeParser};
use crate::view::View;
use evertally::noise::StreamName;
use evertally::number;
use evertally::plan::{PlanRequest, Search, SearchObserver};
use evertally::privacy::selection::Selection;
use evertally::privacy::{Unit, Values};
use evertally::sketch::Shape;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A checked declaration: everything known about a stream before its plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the stream under its key.
    pub name: StreamName,
    /// The title of the picture and the report.
    pub title: String,
    /// The word for a person in texts for readers, if declared.
    pub unit_name: Option<String>,
    /// The columns of the events that are used.
    pub columns: Columns,
    /// The rules by which cells become persons, groups and items.
    pub ids: Identities,
    /// The format of the time column.
    pub time_format: TimeFormat,
    /// The first of the hundred years that years of two digits mean, if declared.
    pub century_from: Option<i16>,
    /// The policy for times that are dates whose day is not within one step.
    pub date_only: DateOnly,
    /// Texts that mark a missing cell.
    pub missing_text: Vec<String>,
    /// How texts are read as numbers.
    pub numbers: NumberFormat,
    /// The rows that are counted, if not all are.
    pub filter: Option<RowFilter>,
    /// The steps of the horizon.
    pub calendar: StepCalendar,
    /// The published steps, if not all are.
    pub published: Option<Arc<Publication>>,
    /// The bounds on a person's events, in steps; the unit of the plan is in slots.
    pub kept: Unit,
    /// Set if these bounds are asserted about the data, and nothing enforces them.
    pub assertion: Option<Assertion>,
    /// The periods in which the bounds on a person restart.
    pub periods: Periods,
    /// The last step to publish.
    pub last_step: u64,
    /// The values that one event may contribute.
    pub values: Values,
    /// The policy for values outside the bounds.
    pub out_of_bounds: OutOfBounds,
    /// The policy for events with a missing cell.
    pub missing: Refusable,
    /// The policy for events outside the horizon.
    pub outside: Outside,
    /// The policy for events of undeclared groups, if there is no rest.
    pub unknown_group: Refusable,
    /// The policy for events of a step that an earlier run has closed.
    pub late: Late,
    /// How the last step to publish was determined.
    pub closing: Closing,
    /// The number of events that are buffered to sort them by time.
    pub sort_buffer: SortLimit,
    /// The confidence level of the intervals.
    pub confidence: f64,
    /// Whether each interval holds by itself, or all steps hold at once.
    pub band: Coverage,
    /// The views of the released values, in order.
    pub views: Vec<View>,
    /// The labels that distinguish events.
    pub labels: Labels,
    /// The request for the plan.
    pub request: PlanRequest,
    /// The released measures.
    pub measures: Measures,
}

/// Bounds on persons that are an assumption about the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    /// Who asserts them, or why they hold.
    pub by: Option<String>,
}

impl Assertion {
    /// The name of this fact among the [meanings](evertally::plan::PlanRequest::meaning) of a plan.
    const MEANING: &str = "person-bounds";

    /// Its entries among the meanings of a plan.
    pub fn meaning(&self) -> impl Iterator<Item = (String, String)> {
        let by = self.by.iter().map(|by| ("asserted-by".to_owned(), by.clone()));
        std::iter::once((Self::MEANING.to_owned(), "asserted".to_owned())).chain(by)
    }

    /// Whether the bounds of a plan with these meanings are asserted.
    pub fn is_in(meaning: &BTreeMap<String, String>) -> bool {
        meaning.get(Self::MEANING).is_some_and(|word| word == "asserted")
    }

    /// The assumption in one sentence.
    pub fn in_words(&self) -> String {
        let whose = self.by.as_ref().map_or(String::new(), |by| format!(" Asserted by: {by}."));
        format!(
            "The bounds on a person are an assumption about the data. Nothing enforces them: the guarantee holds for \
             people within these bounds, and is weaker for all others.{whose}"
        )
    }
}

impl Settings {
    /// The unit whose bounds are enforced while events are counted: single events if bounds on persons are asserted.
    pub fn enforced(&self) -> Unit {
        if self.assertion.is_some() { Unit::Event } else { self.kept }
    }

    /// Whether the filter, if there is one, keeps a row.
    ///
    /// # Errors
    /// If a cell that it needs cannot be read. The error names row and column.
    #[inline]
    pub fn keeps(&self, event: &Event<'_>) -> Result<bool, InputError> {
        self.filter.as_ref().map_or(Ok(true), |filter| filter.keeps(event, self.ids, &self.numbers))
    }
}

/// The measures of a stream, and the parts with which it began, if it has begun.
#[derive(Clone, Debug, Default)]
pub struct Measures {
    /// The declared measures; empty for running sums alone.
    pub wanted: Vec<Wanted>,
    pub(crate) began: Vec<RecordedPart>,
}

/// The source of the last step to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// A declared time.
    Through,
    /// The whole horizon was requested.
    All,
    /// Not declared: the clock decides.
    Clock,
}

/// The request for a plan: in steps, or, if only some steps are published, in the [slots](crate::publication::Slots)
/// that make them up.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotRequest {
    /// The number of slots; 2^62 if there is no end.
    pub horizon: u64,
    /// The privacy unit, with bounds on slots.
    pub unit: Unit,
    /// The workloads, in slots.
    pub read: Read,
    /// The number of slots per published row, whose last slot gives the published value.
    pub per_row: u64,
}

/// The labels that distinguish events.
#[derive(Clone, Debug)]
pub enum Labels {
    /// No labels: one running sum.
    None,
    /// Declared groups, with one running sum each.
    Groups(GroupTable),
    /// Groups discovered from the data, with one running sum each.
    Discovered {
        /// The columns that name them.
        columns: Vec<String>,
        /// The rule that selects the published groups.
        selection: Selection,
    },
    /// The items of a sketch.
    Items(Items),
}

/// The items of a sketch: very many, of which few are queried.
#[derive(Clone, Debug)]
pub struct Items {
    /// The columns that together name an item.
    pub columns: Vec<String>,
    /// The structure that counts them: a count sketch, or a tree of counts.
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

    /// The settings truncated to the last step that is published: no later step is closed, so the next run can read all
    /// steps of an incomplete row again.
    ///
    /// # Errors
    /// If no row ends by then.
    pub fn truncated_to_complete_rows(self) -> Result<Self, Problem> {
        let Some(published) = &self.published else { return Ok(self) };
        let rows = published.rows_through(self.last_step);
        if rows == 0 {
            let end = self.calendar.format(published.rows().end_of(1));
            let why = format!("no publication has ended by then: the first one is at {end}");
            return Err(Problem::for_parameter(Publish, why)
                .remedy(sentence!["run again then, or name that time with ", Through]));
        }
        Ok(Self { last_step: published.last_step_of(rows), ..self })
    }

    /// The same settings, whose searches for plans report to this observer.
    pub fn observed(mut self, observer: &SearchObserver) -> Self {
        let search = self.request.search().clone().with_observer(observer.clone());
        self.request = self.request.with_search(search);
        self
    }

    /// A parser of times in files other than the events, in the format of the event times.
    pub fn file_times(&self) -> TimeParser {
        TimeParser::new(self.time_format.clone(), self.calendar.zone().clone()).with_century(self.century_from)
    }

    /// A parser of declared times.
    pub fn times(&self) -> TimeParser {
        TimeParser::new(TimeFormat::Auto, self.calendar.zone().clone())
    }
}

impl Measures {
    /// The name of the column that distinguishes the rows of a group, if there are several.
    pub fn column(&self) -> Option<&'static str> {
        let is_workload = |wanted: &Wanted| matches!(wanted.measure, Measure::Workload(..));
        self.wanted.first().map(|first| if is_workload(first) { WORKLOAD } else { MEASURE })
    }

    /// Adds to a request the meaning by which the measures distinguish one stream from another.
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
            Self::Groups(table) => Scales::new(table.scales(), grid),
            Self::None | Self::Items(_) | Self::Discovered { .. } => Scales::default(),
        }
    }

    /// Adds to a request the meaning by which the labels distinguish one stream from another.
    pub(crate) fn shape(&self, request: PlanRequest, grid: number::Grid) -> PlanRequest {
        let (horizon, is_unbounded) = (request.horizon(), request.is_unbounded());
        let is_heavy = |groups| if is_unbounded { groups > MAX_UNBOUNDED_GROUPS } else { is_heavy(horizon, groups) };
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
                // The columns that name an item, and the bounds that clamp values: the plan itself only records how far
                // values can be from 0.
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

/// Most groups without an end that mechanisms may serve whose pauses and memory grow with time: some hundred kilobytes
/// per group, and one second per group in the course of a quarter of a million steps.
const MAX_UNBOUNDED_GROUPS: usize = 100;

/// Whether mechanisms whose time and memory grow with the horizon would take more than about half a minute (steps² ×
/// groups) or a gigabyte (steps × groups).
fn is_heavy(steps: u64, groups: usize) -> bool {
    let (steps, groups) = (steps as f64, groups as f64);
    steps * steps * groups > 4e10 || steps * groups > 3e7
}
