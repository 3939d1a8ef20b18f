//! A stream before any event is read: its settings and its plan.

use crate::chain::{ChainPeriod, ChainUnit};
use crate::error::{Result, failure, usage};
use crate::follows::Follows;
use crate::measures::parts::Part;
use crate::measures::{Bundle, Wanted};
use crate::parameter::Parameter;
pub use crate::policy::{Coverage, DateOnly, Late, OutOfBounds, Outside, Refusable, SortLimit};
use crate::problem::sentence;
use crate::publication::Slots;
use crate::scales::Scales;
use crate::settings::{Assertion, Settings};
use crate::steps::{Period, StepCalendar};
use crate::titles::{measure_in_words, reading_in_words, rolling_in_words, workload_in_words};
use evertally::hex;
use evertally::mechanism::Workload;
use evertally::plan::{Guarantee, Intervals, Plan, PlanRequest, SearchObserver};
use evertally::privacy::RollingWindow;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The maximum number of rows whose errors are computed one by one.
const MAX_EXACT_ROWS: u64 = 1 << 16;

/// A checked stream of events to be released: its [settings](Settings), to which it dereferences, and its plan.
#[derive(Clone, Debug)]
pub struct Stream {
    /// The declared settings. `settings.request` is the request for the plan; `plan.request()` is the plan's answer.
    pub settings: Arc<Settings>,
    /// The plan.
    pub plan: Plan,
    /// The factors by which the bounds of its groups are multiplied.
    pub scales: Scales,
    /// The released measures, and the plans of their parts; `None` for running sums alone. If there are measures,
    /// `plan` is for the whole budget, and nothing is released under it.
    pub measures: Option<Arc<Bundle>>,
    /// What its rows continue, if it began where another ended.
    pub follows: Option<Follows>,
}

impl Deref for Stream {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// Copies the settings if another stream shares them.
impl DerefMut for Stream {
    fn deref_mut(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.settings)
    }
}

impl Settings {
    /// The stream that another process has planned, from the plan alone.
    ///
    /// # Errors
    /// As [`planned`](Self::planned), and if the digest of this stream's plans differs from `digest`.
    pub fn arrived(self, plan: Plan, digest: &str) -> Result<Stream> {
        let stream = match self.request.mix() {
            Some(_) => self.plan_workloads()?,
            None => self.planned(plan)?,
        };
        if hex(&stream.plan_digest()) != digest {
            return Err(usage("another version of evertally made this plan: install the same version everywhere"));
        }
        Ok(stream)
    }

    /// The stream under a plan for its request.
    ///
    /// # Errors
    /// If the confidence is out of range.
    pub fn planned(self, plan: Plan) -> evertally::Result<Stream> {
        let measures = match self.measures.wanted.as_slice() {
            [] => None,
            wanted => Some(Arc::new(Bundle::plan(wanted, &plan, &self.request, &self.measures.began)?)),
        };
        self.with_plans(plan, measures)
    }

    /// The stream of several workloads, which are planned together.
    ///
    /// # Errors
    /// If no plan serves the request, or the confidence is out of range.
    pub fn plan_workloads(self) -> evertally::Result<Stream> {
        let (bundle, plan) = Bundle::from_workloads(&self.measures.wanted, &self.request, &self.measures.began)?;
        self.with_plans(plan, Some(Arc::new(bundle)))
    }

    fn with_plans(self, plan: Plan, measures: Option<Arc<Bundle>>) -> evertally::Result<Stream> {
        plan.intervals(self.confidence)?;
        let scales = self.labels.scales(plan.request().grid());
        // The searches are done.
        let settings = Arc::new(self.observed(&SearchObserver::default()));
        Ok(Stream { settings, plan, scales, measures, follows: None })
    }
}

impl Stream {
    /// Whether the noise of groups was to be correlated, and no plan of the stream gains from it.
    pub fn gains_nothing_from_correlation(&self) -> bool {
        let mut plans = match &self.measures {
            None => vec![&self.plan],
            Some(bundle) => bundle.parts().iter().map(|part| &part.plan).collect(),
        };
        plans.retain(|plan| plan.correlation().is_some());
        self.request.correlates_groups() && plans.is_empty()
    }

    /// Whether every released value is a whole number.
    pub fn is_integral(&self) -> bool {
        self.measures.is_none()
            && self.scales.keep_integers
            && self.plan.request().grid().is_integral()
            && self.plan.fraction_bits() == 0
    }

    /// The intervals of its releases at a confidence: of single steps, or of all at once.
    ///
    /// # Errors
    /// If the confidence is out of range.
    pub fn intervals(&self, confidence: f64) -> evertally::Result<Intervals> {
        match self.band {
            Coverage::Pointwise => self.plan.intervals(confidence),
            Coverage::Simultaneous => self.plan.simultaneous_intervals(confidence),
        }
    }

    /// The counted or summed quantity, in words.
    pub fn quantity(&self) -> String {
        if let Some(bundle) = self.measures.as_ref().filter(|bundle| bundle.contains_workloads()) {
            let what = self.columns.value.as_ref().map_or("count of events".into(), |name| format!("sum of {name}"));
            let every = self.rows().every();
            let words = bundle.parts().iter().filter_map(|planned| match planned.part {
                Part::Reading(workload) => Some(workload_in_words(workload, every)),
                _ => None,
            });
            return format!("{what}: {}", words.collect::<Vec<_>>().join(", "));
        }
        if let Some(bundle) = &self.measures {
            let (step, row) = (self.calendar.every(), self.rows().every());
            let words = |wanted: &Wanted| measure_in_words(&wanted.measure, step, row);
            let measures: Vec<String> = bundle.wanted().iter().map(words).collect();
            let of = self.columns.value.as_ref().map_or(String::new(), |column| format!(" of {column}"));
            let reading = match self.plan.request().workload() {
                Workload::Sum => String::new(),
                _ => format!(" {}", self.reading_in_words()),
            };
            return format!("{}{of}{reading}", measures.join(", "));
        }
        let workload = self.plan.request().workload();
        if !workload.is_sum() {
            let what =
                self.columns.value.as_ref().map_or("count of events".into(), |column| format!("sum of {column}"));
            return format!("{what} {}", self.reading_in_words());
        }
        match &self.columns.value {
            Some(column) => format!("running sum of {column}"),
            None => "running count of events".into(),
        }
    }

    /// The workload, in words.
    fn reading_in_words(&self) -> String {
        let (workload, row) = (self.plan.request().workload(), self.rows().every());
        match (self.published.as_ref().map(|published| (published.slots(), published.row_width())), workload) {
            (None, _) => reading_in_words(workload, row),
            (Some((Slots::Halves(newer), Some(width))), Workload::Window(slots)) => {
                rolling_in_words(Workload::Window(slots / 2 * width + newer), self.calendar.every())
            }
            (Some((Slots::Halves(newer), _)), _) => rolling_in_words(Workload::Window(newer), self.calendar.every()),
            (Some((Slots::Rows, _)), _) => reading_in_words(workload, row),
            (Some((Slots::Months(per_day), _)), Workload::Window(slots)) => {
                rolling_in_words(Workload::Window(slots / (31 * per_day)), "1mo".parse().expect("a month"))
            }
            (Some((Slots::Steps | Slots::Months(_), _)), _) => rolling_in_words(workload, self.calendar.every()),
        }
    }

    /// The guarantee for the whole history, whatever is released.
    pub fn guarantee(&self) -> Guarantee {
        self.measures.as_ref().map_or_else(|| self.plan.guarantee(), |bundle| bundle.guarantee())
    }

    /// Digest of all plans under which values are released.
    pub fn plan_digest(&self) -> [u8; 32] {
        self.measures.as_ref().map_or_else(|| self.plan.digest(), |bundle| bundle.digest())
    }

    /// These plans as text.
    ///
    /// # Errors
    /// If a plan cannot be serialised, which no known plan causes.
    pub fn plan_text(&self) -> Result<String> {
        let head = toml::to_string(&self.plan).map_err(failure)?;
        Ok(self.measures.as_ref().map_or(head.clone(), |bundle| format!("{head}\n{}", bundle.text())))
    }

    /// Refuses to publish all steps of a stream that has no end.
    ///
    /// # Errors
    /// If the last step to publish is the end of an unbounded stream's calendar.
    pub fn check_ends(&self) -> Result<()> {
        if self.plan.is_unbounded() && self.last_step == self.calendar.steps() {
            let why = "an unbounded stream has no last step: name the time through which it is published with ";
            return Err(usage(sentence![why, Parameter::Through]));
        }
        Ok(())
    }

    /// The stream published through the end of its horizon, for a process that closes its steps one by one.
    #[must_use]
    pub fn through_horizon(self) -> Self {
        let steps = self.calendar.steps();
        self.through(steps)
    }

    /// The stream published through another step.
    #[must_use]
    pub fn through(mut self, last_step: u64) -> Self {
        self.last_step = last_step;
        self
    }

    /// A short form of [`quantity`](Self::quantity) for pictures whose lines have names, with the start of the count if
    /// that is fixed.
    pub fn quantity_since(&self) -> String {
        let of = self.columns.value.as_ref().map_or(String::new(), |column| format!(" of {column}"));
        let since = || format!("since {}", self.start_in_words());
        let has_no_start = matches!(self.plan.request().workload(), Workload::Window(_) | Workload::Increments);
        match self.measures.as_ref().map(|bundle| (bundle.contains_workloads(), bundle.wanted().len())) {
            // Each line has its own beginning.
            Some((true, _)) => {
                if of.is_empty() {
                    "count of events".to_owned()
                } else {
                    format!("sum{of}")
                }
            }
            Some((false, several @ 2..)) if has_no_start => {
                format!("{several} measures{of} {}", self.reading_in_words())
            }
            Some((false, several @ 2..)) => format!("{several} measures{of} {}", since()),
            _ if has_no_start => self.quantity(),
            _ => format!("{} {}", self.quantity(), since()),
        }
    }

    /// Whether the plan's steps differ from the calendar's.
    pub fn is_read_in_slots(&self) -> bool {
        self.published.as_ref().is_some_and(|published| published.slots() != Slots::Steps)
    }

    /// The calendar of the published rows, one step per row.
    pub fn rows(&self) -> &StepCalendar {
        self.published.as_ref().map_or(&self.calendar, |published| published.rows())
    }

    /// The number of rows that have ended when a step ends.
    pub fn rows_through(&self, step: u64) -> u64 {
        self.published.as_ref().map_or(step, |published| published.rows_through(step))
    }

    /// The last step of a published row.
    pub fn last_step_of(&self, row: u64) -> u64 {
        self.published.as_ref().map_or(row, |published| published.last_step_of(row))
    }

    /// Whether every step is published.
    pub fn publishes_all(&self) -> bool {
        self.published.as_ref().is_none_or(|published| published.is_every_step())
    }

    /// The last step that is published, as its row.
    pub fn last_row(&self) -> u64 {
        self.rows_through(self.last_step)
    }

    /// The step of the plan, a [slot](crate::publication::Slots), that ends with a step; `None` inside one.
    pub fn slot_ending(&self, step: u64) -> Option<u64> {
        self.published.as_ref().map_or(Some(step), |published| published.slot_ending(step))
    }

    /// The step of the plan that gives a row; 0 before the first.
    pub fn slot_of_row(&self, row: u64) -> u64 {
        self.published.as_ref().map_or(row, |published| published.slot_of_row(row))
    }

    /// The row that a step of the plan gives, if any.
    pub fn row_of_slot(&self, slot: u64) -> Option<u64> {
        self.published.as_ref().map_or(Some(slot), |published| published.row_of_slot(slot))
    }

    /// The largest standard error of the published steps under a plan of this stream, and the root of their mean
    /// variance.
    pub fn errors_of_rows(&self, plan: &Plan) -> (f64, f64) {
        let last = if plan.is_unbounded() { self.last_row().max(1) } else { self.rows().steps() };
        let Some(published) = self.published.as_ref().filter(|published| published.slots() != Slots::Rows) else {
            return plan.errors_through(last);
        };
        // Between the rows are slots that are not read. With very many rows, all slots are used.
        if last > MAX_EXACT_ROWS {
            return plan.errors_through(published.slot_of_row(last));
        }
        let errors = (1..=last).map(|row| plan.std_error(published.slot_of_row(row)));
        let (largest, squares) = errors.fold((0.0, 0.0), |(most, sum), error| (error.max(most), sum + error * error));
        (largest, (squares / last as f64).sqrt())
    }

    /// The privacy unit in words.
    pub fn unit(&self) -> String {
        let who = self.unit_name.as_deref().or(self.columns.person.as_deref()).unwrap_or("person");
        unit_in_words(&self.plan.request().clone().with_unit(self.kept), who, self.period())
    }

    /// The period in which the bounds on a person hold, where one is declared.
    pub fn period(&self) -> Option<Period> {
        let request = self.plan.request();
        let steps = self.kept.bounds()?.period?;
        let declared = request.meaning().get("per").and_then(|text| text.parse().ok());
        Some(declared.unwrap_or(Period::Steps(steps)))
    }

    /// The protected window, if that is not one period.
    pub fn window(&self) -> Option<RollingWindow> {
        self.kept.bounds()?.window
    }

    /// The protected window in words, if that is not one period.
    pub fn window_in_words(&self) -> Option<String> {
        window_in_words(self.plan.request())
    }

    /// The policies for events that do not fit, except to refuse them; they may change from run to run.
    pub fn policies(&self) -> BTreeMap<String, String> {
        let skips = |policy| policy == Refusable::Skip;
        let skipped = [
            ("outside", self.outside.skips()),
            ("missing", skips(self.missing)),
            ("unknown-group", skips(self.unknown_group)),
        ];
        let skipped = skipped.into_iter().filter(|(_, skips)| *skips);
        let mut policies: BTreeMap<_, _> = skipped.map(|(name, _)| (name.to_owned(), "skip".to_owned())).collect();
        match self.late {
            Late::Refuse => None,
            Late::NextStep => policies.insert("late".to_owned(), "next-step".to_owned()),
            Late::SideFile => policies.insert("late".to_owned(), "side-file".to_owned()),
        };
        policies
    }

    /// The stream with the [policies](Self::policies) of a run.
    #[must_use]
    pub fn with_policies(mut self, policies: &BTreeMap<String, String>) -> Self {
        let policy = |name: &str| match policies.get(name).map(String::as_str) {
            Some("skip") => Refusable::Skip,
            _ => Refusable::Refuse,
        };
        (self.missing, self.unknown_group) = (policy("missing"), policy("unknown-group"));
        self.outside = match policy("outside") {
            Refusable::Refuse => Outside::Refuse,
            // Whether misread times are refused is the choice of each run.
            Refusable::Skip if self.outside.skips() => self.outside,
            Refusable::Skip => Outside::Skip,
        };
        self.late = match policies.get("late").map(String::as_str) {
            Some("next-step") => Late::NextStep,
            Some("side-file") => Late::SideFile,
            _ => Late::Refuse,
        };
        self
    }

    /// The number of steps of the preceding streams; row numbers continue from there.
    pub fn steps_before(&self) -> u64 {
        self.follows.as_ref().map_or(0, |follows| follows.steps)
    }

    /// The number of streams that the released values add up, each under a plan like this one; 1 if it follows none.
    pub fn streams(&self) -> u32 {
        let before = self.follows.iter().flat_map(|follows| &follows.carried).map(|carried| carried.streams).max();
        1 + before.unwrap_or(0)
    }

    /// The number of these streams in which one privacy unit can have data: the guarantees of as many are composed.
    pub fn streams_of_a_unit(&self) -> u32 {
        let period = self.period().map(|period| ChainPeriod {
            is_divided: !self.begins_with_a_period(period),
            fits: self.periods.longest().is_some_and(|longest| {
                self.kept.bounds().and_then(|bounds| bounds.reach()).unwrap_or(longest).max(longest)
                    <= self.calendar.steps()
            }),
        });
        let request = self.plan.request();
        ChainUnit::new(request.unit(), request.neighbours(), period).max_streams().min(self.streams())
    }

    /// Whether this stream and all that it follows, except the first, begin with a new period.
    fn begins_with_a_period(&self, period: Period) -> bool {
        let is_multiple = self.periods.longest().is_some_and(|length| self.calendar.steps().is_multiple_of(length));
        let mut calendars = std::iter::successors(Some(self.calendar.clone()), StepCalendar::preceding).peekable();
        // Where an earlier calendar is not known, there are fewer of them.
        (1..self.streams()).all(|_| {
            let Some(calendar) = calendars.next() else { return false };
            let before = calendars.peek().map(StepCalendar::start);
            period.begins_at(calendar.start(), before, calendar.zone(), is_multiple)
        })
    }

    /// The start of the count in words.
    pub fn start_in_words(&self) -> String {
        if let Some(follows) = &self.follows {
            return follows.since.clone();
        }
        self.calendar.in_words(self.calendar.start())
    }
}

/// The protected window of a plan in words, if its unit is one: `any window of 30 days`.
pub fn window_in_words(request: &PlanRequest) -> Option<String> {
    let window = request.unit().bounds()?.window?;
    let declared = request.meaning().get("protect-window").and_then(|text| text.parse().ok());
    Some(match declared {
        Some(Period::Time(every)) => format!("any window of {}", every.in_words()),
        _ => format!("any window of {} steps", window.steps),
    })
}

/// The privacy unit of a plan in words; persons are named by `who`. Without `period`, a period is given in steps.
pub fn unit_in_words(request: &PlanRequest, who: &str, period: Option<Period>) -> String {
    let Some(bounds) = request.unit().bounds() else { return "one event".into() };
    let kept = match Assertion::is_in(request.meaning()) {
        true => format!("assumed: at most {} events", bounds.max_events),
        false => format!("at most {} events kept", bounds.max_events),
    };
    let of = |bound: Option<u64>, says: fn(u64) -> String| bound.map(says);
    let more = [
        of(bounds.max_events_per_step, |n| format!("{n} a step")),
        of(bounds.max_events_per_group, |n| format!("{n} a group")),
        of(bounds.max_groups, |n| format!("in {n} group{}", if n == 1 { "" } else { "s" })),
        of(bounds.min_gap.filter(|gap| *gap > 1), |n| format!("in steps {n} apart")),
        bounds.max_total.map(|cap| {
            let total = request.grid().format(cap.into());
            format!("sizes of values {total} in total")
        }),
    ];
    let bounds = std::iter::once(kept).chain(more.into_iter().flatten()).collect::<Vec<_>>().join(", ");
    match period.or(request.unit().bounds().and_then(|bounds| bounds.period).map(Period::Steps)) {
        Some(period) => match window_in_words(request) {
            Some(window) => {
                let each = period.in_words();
                let each = each.strip_prefix("one ").unwrap_or(&each);
                format!("what one {who} does in {window} ({bounds}, in each {each})")
            }
            None => format!("what one {who} does in {} ({bounds})", period.in_words()),
        },
        None => format!("one {who} ({bounds})"),
    }
}
