//! From a declaration to checked settings: one validation for all front ends.

mod asserted;
mod cells;
mod columns;
mod measures;
mod needs;
mod runs;
mod time;
mod unit;

use super::Parameter::{
    self, Band as BandOf, Bounds, Confidence, CorrelateGroups, DiscoverGroups, Grid, GroupBy, Groups, GroupsFile,
    KeyBits, KeyColumns, Per, Publish, Rest, Rows, Unbounded, UnknownGroup, View as ViewOf, Width,
};
use super::table::Declaration;
use super::value;
use crate::groups::GroupTable;
use crate::identity::Identities;
use crate::measures::Wanted;
use crate::policy::{Coverage, OutOfBounds, Outside, Refusable};
use crate::problem::{Problem, SentencePart, sentence};
use crate::publication::Slots;
use crate::reading::{Read, Reading};
use crate::settings::{Assertion, Closing, Items, Labels, Measures, Settings, SlotRequest};
use crate::steps::{Period, Periods, StepCalendar};
use crate::view::View;
use crate::words::{quoted, short};
use evertally::mechanism::{MAX_HORIZON, Workload};
use evertally::noise::StreamName;
use evertally::number::{self, Rounding, parse_rounded, parse_scaled};
use evertally::plan::{NoiseKind, Objective, PlanRequest};
use evertally::privacy::{Budget, Neighbours, Unit, Values};
use evertally::sketch::{KeyTree, Shape, Table};
use std::collections::BTreeMap;

pub(super) use needs::DEPENDENCIES;
use needs::groups_need_columns;
pub use runs::follows_no_stream;
pub use time::parse_time;

type Result<T> = std::result::Result<T, Problem>;

/// Default rows and cells of a sketch.
const DEFAULT_SKETCH_SIZE: (u32, u64) = (5, 1 << 16);

impl Declaration {
    /// Checks the whole declaration and returns its settings.
    ///
    /// # Errors
    /// The first parameter that is missing, contradicts another or is out of range.
    ///
    /// ```
    /// use evertally_declare::declaration::Declaration;
    /// let declared = Declaration {
    ///     start: Some("2024-01-01".into()),
    ///     steps: Some(366),
    ///     every: Some("1d".parse().unwrap()),
    ///     epsilon: Some(1.0),
    ///     ..Declaration::default()
    /// };
    /// let plan = declared.resolve()?.request.plan().unwrap();
    /// assert_eq!(plan.horizon(), 366);
    /// # Ok::<(), evertally_declare::problem::Problem>(())
    /// ```
    pub fn resolve(&self) -> Result<Settings> {
        let calendar = self.calendar()?;
        self.check_needs()?;
        self.check_times()?;
        self.check_confidence()?;
        let (published, read) = self.publication(&calendar)?;
        let slots = published.as_ref().map_or(calendar.steps(), |published| published.slot_count());
        let labels = self.labels(slots)?;
        let in_slots = published.as_ref().is_some_and(|published| published.slots() != Slots::Steps);
        if in_slots && self.per.is_some() && self.floor.is_some_and(|floor| floor > 1) {
            let why = ": periods do not end with publications, so no floor holds across several of them";
            return Err(Problem::for_parameter(
                Parameter::Floor,
                sentence![Parameter::Floor, ", ", Per, " and ", Publish, " do not go together", why],
            ));
        }
        let periods = match self.per {
            Some(period) => Periods::new(&calendar, period).map_err(|problem| Problem::for_parameter(Per, problem))?,
            None => Periods::default(),
        };
        if self.discovers() && !periods.are_regular() {
            let why = format!(
                ": with the clock changes of {}, one period has fewer than nine tenths of the steps of another, and no \
                 bound is known on how often a group of one person is published over several periods",
                calendar.zone().name()
            );
            let remedy = sentence!["start after that period, or give a period in steps, as with ", (Per, "30")];
            return Err(Problem::for_parameter(Per, sentence![Per, " and ", DiscoverGroups, why]).remedy(remedy));
        }
        let kept = self.unit(periods.longest(), self.window(&calendar, &periods, in_slots)?)?;
        let unit = published.as_ref().map_or(kept, |published| {
            published.slots().unit(kept, published.longest_row(), published.touched(&periods))
        });
        let (grid, values) = (self.grid(), self.values()?);
        let horizon = if self.is_unbounded() { MAX_HORIZON } else { slots };
        let request = read.of(self.request(horizon, unit, values)?)?;
        let request =
            request.with_meanings(self.meaning(&calendar, published.as_ref().map(|published| published.slots())));
        let request = self.correlated(labels.shape(request, grid), &labels)?;
        let measures = self.measures(&labels, Wanted::each_of(&read), &calendar, published.as_deref())?;
        let of_months = published.as_ref().is_some_and(|published| matches!(published.slots(), Slots::Months(_)));
        if of_months && (!measures.wanted.is_empty() || self.discovers()) {
            let other = if self.discovers() { DiscoverGroups } else { Parameter::Measure };
            let why = " of calendar months do not go together; take a window of days, such as window(30d)";
            return Err(Problem::for_parameter(Parameter::Workload, sentence![other, " and windows", why]));
        }
        let request = measures.shape(request);
        let name: StreamName = self.stream.as_deref().unwrap_or("main").parse()?;
        let filter = self.filter()?;
        let request = match &filter {
            Some(filter) => request.with_meaning("where", filter.to_string()),
            None => request,
        };
        let columns = self.columns(match &labels {
            Labels::None => &[],
            Labels::Groups(table) => table.columns(),
            Labels::Discovered { columns, .. } => columns,
            Labels::Items(items) => &items.columns,
        })?;
        Ok(Settings {
            last_step: self.last_step(&calendar)?,
            columns,
            ids: self.identities(),
            time_format: self.time_format.clone().unwrap_or_default(),
            century_from: self.century()?,
            date_only: self.date_only.unwrap_or_default(),
            numbers: self.numbers()?,
            filter,
            missing_text: self.missing_text.clone().unwrap_or_default(),
            title: self.title.clone().unwrap_or_else(|| name.to_string()),
            unit_name: self.unit_name()?,
            name,
            calendar,
            published,
            kept,
            assertion: self.assertion(),
            periods,
            values,
            out_of_bounds: self.out_of_bounds.unwrap_or(OutOfBounds::Clamp),
            missing: self.missing.unwrap_or(Refusable::Refuse),
            outside: self.outside.unwrap_or(Outside::Refuse),
            unknown_group: self.unknown_group.unwrap_or(Refusable::Refuse),
            late: self.late.unwrap_or_default(),
            closing: self.closing()?,
            sort_buffer: self.sort_buffer.unwrap_or_default(),
            confidence: self.confidence.unwrap_or(0.95),
            band: self.band.unwrap_or_default(),
            views: self.views(&request, values, &labels)?,
            labels,
            request,
            measures,
        })
    }

    /// The request for a plan of `horizon` steps, without the parameters that only concern a stream of events: no
    /// column needs to be named.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn plan_request(&self, horizon: u64) -> Result<PlanRequest> {
        if self.grid.is_some() && self.bounds.is_none() {
            let needed = sentence![Grid, " needs ", SentencePart::Example(Bounds), ": counts are whole numbers"];
            return Err(Problem::new(needed));
        }
        let SlotRequest { horizon, unit, read, .. } = self.in_slots(horizon)?;
        read.of(self.request(horizon, unit, self.values()?)?)
    }

    /// The request for a plan without a calendar over `horizon` steps; 2^62 steps mean no end.
    ///
    /// # Errors
    /// If a width is a time, or the horizon is not a whole number of rows.
    pub fn in_slots(&self, horizon: u64) -> Result<SlotRequest> {
        let unit = self.plan_unit()?;
        let row = match self.publish {
            None => {
                let (_, read) = self.read(|reading| Ok((Slots::Steps, reading.in_steps(None)?)))?;
                return Ok(SlotRequest { horizon, unit, read, per_row: 1 });
            }
            Some(Period::Steps(row)) => row,
            Some(Period::Time(_)) => {
                let what = ": there is no calendar here; give the number of steps between two publications, as with ";
                return Err(Problem::for_parameter(Publish, sentence![Publish, what, (Publish, "7")]));
            }
        };
        let refuse = |why: String| Err(Problem::for_parameter(Publish, sentence![Publish, format!(" {row}: {why}")]));
        if row < 2 {
            return refuse("that is every step; omit it".into());
        }
        if horizon != MAX_HORIZON && !horizon.is_multiple_of(row) {
            return refuse(format!("the horizon of {horizon} steps is not a whole number of publications"));
        }
        let (slots, read) = self.read(|reading| Slots::reading(reading, Some(row), (None, None)))?;
        self.check_window(slots != Slots::Steps)?;
        let period = unit.bounds().and_then(|bounds| bounds.period);
        let unit = slots.unit(unit, row, period.map(|period| slots.touched(period, row)));
        let per_row = slots.slots_per_row(row);
        let horizon = if horizon == MAX_HORIZON { horizon } else { horizon / row * per_row };
        Ok(SlotRequest { horizon, unit, read, per_row })
    }

    /// The published workloads, each as it is read: all in the same slots.
    ///
    /// # Errors
    /// If one cannot be read, or several do not share the same slots.
    pub(super) fn read(&self, reads: impl Fn(Reading) -> Result<(Slots, Workload)>) -> Result<(Slots, Read)> {
        let declared = self.workload.as_ref().map_or(&[][..], |workloads| &workloads.0);
        let Some(first) = declared.first() else { return Ok((reads(Reading::default())?.0, Read::default())) };
        let (slots, _) = reads(first.reading)?;
        let mut read = Vec::new();
        for own in declared {
            let (of_own, workload) = reads(own.reading)?;
            if of_own != slots || (declared.len() > 1 && !matches!(slots, Slots::Steps | Slots::Rows)) {
                let why = ": several workloads are read in whole steps, or with ";
                let problem = sentence![Parameter::Workload, why, Publish, " in whole publications"];
                return Err(Problem::for_parameter(Parameter::Workload, problem));
            }
            read.push((*own, workload));
        }
        Ok((slots, Read(read)))
    }

    /// The privacy unit of a plan without a calendar: no column needs to be named, and a period is a number of steps.
    ///
    /// # Errors
    /// If a bound is missing, or the period is one of the calendar.
    pub fn plan_unit(&self) -> Result<Unit> {
        let window = self.window_in_steps()?;
        match self.per {
            None => self.unit(None, None),
            Some(Period::Steps(steps)) => self.unit(Some(steps), window),
            Some(Period::Time(every)) => {
                let what = format!(
                    " {every}: there is no calendar here; give the number of steps of the longest period, as with "
                );
                Err(Problem::for_parameter(Per, sentence![Per, what, (Per, "31")]))
            }
        }
    }

    /// The declared budget.
    ///
    /// # Errors
    /// If there is no budget, if numbers of two budgets are mixed, or if a number is out of range.
    pub fn budget(&self) -> Result<Budget> {
        let allow_weak = self.allow_weak_budget == Some(true);
        Ok(Budget::from_numbers(self.epsilon, self.delta, self.rho, allow_weak)?)
    }

    /// This declaration with a budget that was validated when it was created, weak or not.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Self {
        let (epsilon, delta, rho) = match budget {
            Budget::Pure(epsilon) => (Some(epsilon.get()), None, None),
            Budget::Approximate(epsilon, delta) => (Some(epsilon.get()), Some(delta.get()), None),
            Budget::Zcdp(rho) => (None, None, Some(rho.get())),
        };
        Self { epsilon, delta, rho, allow_weak_budget: Some(true), ..self }
    }

    fn request(&self, horizon: u64, unit: Unit, values: Values) -> Result<PlanRequest> {
        Ok(PlanRequest::count(horizon, self.budget()?)
            .with_unit(unit)
            .with_neighbours(self.neighbours.unwrap_or(Neighbours::AddRemove))
            .with_values(values)
            .with_grid(self.grid())
            .with_optional_mechanism(self.mechanism)
            .with_optional_noise(self.noise)
            .with_objective(self.objective.unwrap_or(Objective::Max)))
    }

    /// The request with correlated noise of the declared groups, if that is declared.
    fn correlated(&self, request: PlanRequest, labels: &Labels) -> Result<PlanRequest> {
        match (labels, self.correlate_groups) {
            (_, None) => Ok(request),
            (Labels::Groups(table), Some(aim)) => Ok(request.with_groups(table.tuples().len() as u64, aim)),
            (Labels::None | Labels::Discovered { .. } | Labels::Items(_), Some(_)) => {
                let why = ": correlated noise depends on the number of all groups, which must be known before the data";
                let problem = sentence![CorrelateGroups, " and ", DiscoverGroups, " do not go together", why];
                Err(Problem::for_parameter(CorrelateGroups, problem)
                    .remedy(sentence!["declare the groups with ", SentencePart::Any(&[Groups, GroupsFile])]))
            }
        }
    }

    fn check_needs(&self) -> Result<()> {
        // A parameter that is switched off counts as absent.
        let has = |parameter: Parameter| match parameter {
            DiscoverGroups => self.discovers(),
            Groups => self.has(Groups) || self.discovers(),
            // Asserted bounds stand in for the column; bounds that need the column itself are refused with them.
            Parameter::Person => self.has(parameter) || self.asserts(),
            _ => self.has(parameter),
        };
        let missing = DEPENDENCIES.iter().find(|(what, needed, _)| has(*what) && !has(*needed));
        missing.map_or(Ok(()), |(what, _, says)| Err(Problem::for_parameter(*what, says())))
    }

    /// The views in the order in which they are applied, after checking that they suit the values.
    fn views(&self, request: &PlanRequest, values: Values, labels: &Labels) -> Result<Vec<View>> {
        let grid = request.grid();
        let given = self.view.clone().unwrap_or_default();
        let wanted: Vec<View> = View::ALL.into_iter().filter(|view| given.contains(view)).collect();
        let refused = |view: View, why: &str| {
            Problem::for_parameter(ViewOf, sentence![ViewOf, format!(" {} {why}", view.word())])
        };
        for view in &wanted {
            match view {
                View::WholeNumber if !grid.is_integral() || !labels.scales(grid).keep_integers => {
                    return Err(refused(*view, "requires values on a grid of whole numbers, and these are finer"));
                }
                View::NonNegative | View::NonDecreasing if values.bounds().0 < 0 => {
                    return Err(refused(*view, "requires counts, or sums of values that are not negative"));
                }
                View::NonDecreasing if !request.workload().is_sum() => {
                    return Err(refused(*view, "requires running sums"));
                }
                View::NonDecreasing if self.band != Some(Coverage::Simultaneous) => {
                    let why = "depends on all steps so far, so its band must hold at all of them at once";
                    return Err(refused(*view, why)
                        .remedy(sentence!["give ", SentencePart::Setting(BandOf, "simultaneous".into())]));
                }
                _ => {}
            }
        }
        Ok(wanted)
    }

    /// A confidence in per cent is the likeliest mistake. Others are found when intervals are computed.
    fn check_confidence(&self) -> Result<()> {
        let Some(per_cent) = self.confidence.filter(|confidence| *confidence > 1.0 && *confidence < 100.0) else {
            return Ok(());
        };
        let problem = sentence![Confidence, format!(" {per_cent} is not a confidence between 0 and 1")];
        let meant = per_cent / 100.0;
        let meant = (meant > 0.01).then(|| sentence!["did you mean ", (Confidence, short(meant)), "?"]);
        let problem = Problem::for_parameter(Confidence, problem);
        Err(meant.map_or(problem.clone(), |meant| problem.remedy(meant)))
    }

    /// The rules by which cells become persons, groups and items.
    fn identities(&self) -> Identities {
        self.normalise_ids.iter().flatten().copied().collect()
    }

    fn grid(&self) -> number::Grid {
        self.grid.as_ref().map_or(number::Grid::ONE, |grid| grid.0)
    }

    fn values(&self) -> Result<Values> {
        let Some(bounds) = &self.bounds else { return Ok(Values::Count) };
        let bounds: Vec<&str> = bounds.iter().map(|bound| bound.0.as_str()).collect();
        declared_values(&bounds, self.grid())
    }

    fn labels(&self, horizon: u64) -> Result<Labels> {
        match (&self.group_by, &self.key_columns) {
            (Some(_), Some(_)) => Err(not_both(&[GroupBy, KeyColumns])),
            (Some(_), None) if self.discovers() && (self.groups.is_some() || self.rest.is_some()) => {
                let not = sentence![
                    DiscoverGroups,
                    " and ",
                    SentencePart::Any(&[Groups, GroupsFile, Rest]),
                    " do not go together"
                ];
                Err(Problem::for_parameter(
                    DiscoverGroups,
                    not.then(": groups are either declared or discovered from the data"),
                ))
            }
            (Some(_), None) if self.discovers() && self.is_unbounded() => {
                let not = sentence![DiscoverGroups, " and ", Unbounded, " do not go together"];
                Err(Problem::for_parameter(DiscoverGroups, not.then(": the δ of selection is spent over a horizon")))
            }
            (Some(columns), None) if self.discovers() => {
                if self.unknown_group.is_some() {
                    return Err(Problem::new(sentence![UnknownGroup, " applies only to declared groups"]));
                }
                Ok(Labels::Discovered { columns: columns.clone(), selection: self.selection(horizon)? })
            }
            (Some(columns), None) => {
                let (columns, rest, ids) = (columns.clone(), self.rest.clone(), self.identities());
                let table = match self.groups.clone().expect("checked: groups come with their columns") {
                    value::DeclaredGroups::Names(names) if names.is_empty() => {
                        GroupTable::from_tuples(columns, Vec::new(), rest, ids)
                    }
                    value::DeclaredGroups::Names(names) => GroupTable::from_names(columns, names, rest, ids),
                    value::DeclaredGroups::Tuples(tuples) => GroupTable::from_tuples(columns, tuples, rest, ids),
                };
                let scales = self.scales.as_ref().map(|scales| scales.iter().map(|scale| scale.0).collect());
                let table = table?.with_scales(scales, self.rest_scale.as_ref().map(|scale| scale.0))?;
                table.grids(self.grid())?;
                Ok(Labels::Groups(table))
            }
            (None, Some(columns)) => {
                if columns.iter().any(String::is_empty) {
                    return Err(Problem::new(sentence![KeyColumns, " has an empty name"]));
                }
                Ok(Labels::Items(Items { columns: columns.clone(), shape: self.sketch_shape(columns)? }))
            }
            (None, None) => Ok(Labels::None),
        }
    }

    /// The table or tree that counts items.
    fn sketch_shape(&self, columns: &[String]) -> Result<Shape> {
        let Some(bits) = self.key_bits else {
            let table =
                Table::new(self.rows.unwrap_or(DEFAULT_SKETCH_SIZE.0), self.width.unwrap_or(DEFAULT_SKETCH_SIZE.1))?;
            return Ok(Shape::CountSketch(table));
        };
        if self.rows.is_some() || self.width.is_some() {
            return Err(not_both(if self.rows.is_some() { &[KeyBits, Rows] } else { &[KeyBits, Width] }));
        }
        if columns.len() != 1 {
            return Err(Problem::for_parameter(
                KeyBits,
                sentence![KeyBits, " requires keys in one column; name one in ", KeyColumns],
            ));
        }
        if !(1..=Shape::MAX_EXACT_BITS).contains(&bits) {
            let most = Shape::MAX_EXACT_BITS;
            let problem = sentence![KeyBits, format!(" {bits} is not from 1 to {most}")];
            return Err(Problem::for_parameter(KeyBits, problem).remedy("hash longer keys, or omit their last bits"));
        }
        let noise = if matches!(self.budget()?, Budget::Pure(_)) { NoiseKind::Laplace } else { NoiseKind::Gaussian };
        Ok(Shape::DyadicCounts(KeyTree::least_error(bits, self.noise.unwrap_or(noise))?))
    }

    /// The meaning of the plan's numbers. All of it shapes the data before the mechanism sees them, and any change
    /// makes a new stream.
    fn meaning(&self, calendar: &StepCalendar, slots: Option<Slots>) -> BTreeMap<String, String> {
        let spec = calendar.spec();
        let policy = |skips: bool| if skips { "skip" } else { "refuse" };
        let mut meaning = BTreeMap::from([
            ("start".to_owned(), spec.start.to_string()),
            ("every".to_owned(), spec.every.to_string()),
            ("time-zone".to_owned(), spec.zone.to_string()),
            ("outside".to_owned(), policy(self.outside.is_some_and(Outside::skips)).to_owned()),
            ("missing".to_owned(), policy(self.missing == Some(Refusable::Skip)).to_owned()),
        ]);
        let mut put = |name: &str, text: Option<String>| meaning.extend(text.map(|text| (name.to_owned(), text)));
        put("person", self.person.clone());
        put("normalise-ids", self.identities().meaning());
        put("per", self.per.map(|period| period.to_string()));
        put("protect-window", self.protect_window.map(|window| window.to_string()));
        meaning.extend(self.assertion().iter().flat_map(Assertion::meaning));
        let mut put = |name: &str, text: Option<String>| meaning.extend(text.map(|text| (name.to_owned(), text)));
        if self.publish.is_some() || matches!(slots, Some(Slots::Months(_))) {
            // The plan contains the bounds on slots.
            put("publish", self.publish.map(|publish| publish.to_string()));
            let of_months = self.workload.as_ref().filter(|_| matches!(slots, Some(Slots::Months(_))));
            put("window", of_months.and_then(|of| of.0.first()).map(|own| own.reading.to_string()));
            let bounds = self.person_bounds();
            put("max-events-per-step", bounds.max_events_per_step.map(|events| events.to_string()));
            put("min-gap", bounds.min_gap.map(|steps| steps.to_string()));
        }
        put("value", self.value.clone());
        put("unknown-group", (self.unknown_group == Some(Refusable::Skip)).then(|| "skip".to_owned()));
        put("out-of-bounds", (self.out_of_bounds == Some(OutOfBounds::Refuse)).then(|| "refuse".to_owned()));
        meaning
    }
}

/// A required value.
///
/// # Errors
/// If it is missing.
pub fn needed<T>(value: Option<T>, parameter: Parameter, why: &'static str) -> Result<T> {
    value.ok_or_else(|| Problem::new(sentence![parameter, " is needed: ", why]))
}

/// The problem of two parameters that define the same thing.
pub(super) fn not_both(parameters: &'static [Parameter]) -> Problem {
    Problem::new(sentence!["give either ", SentencePart::Any(parameters), ", not both"])
}

/// Sums of values between two bounds, as decimal texts.
///
/// # Errors
/// Unless there are two bounds in this order, each a multiple of the grid.
fn declared_values(bounds: &[&str], grid: number::Grid) -> Result<Values> {
    let [lower, upper] = bounds else {
        let needed = sentence![Bounds, " needs two numbers, ", Bounds.placeholder()];
        return Err(Problem::for_parameter(Bounds, needed.then(format!(", and got {}", bounds.len()))));
    };
    let multiple = |text: &str| {
        let refuse = |what: &str| Problem::new(sentence![Bounds, format!(": {} is not {what} {grid}", quoted(text))]);
        let multiple = parse_scaled(text, grid).map_err(|_| refuse("a number that fits the grid"))?;
        // A bound between two grid values would be rounded: refuse it instead.
        if on_grid(text, grid) { Ok(multiple) } else { Err(refuse("a multiple of the grid")) }
    };
    let (least, greatest) = (multiple(lower)?, multiple(upper)?);
    if least > greatest {
        let problem = format!(": the lower bound ({lower}) is above the upper bound ({upper})");
        return Err(Problem::for_parameter(Bounds, sentence![Bounds, problem]));
    }
    Ok(Values::Sum { lower: least, upper: greatest })
}

/// Whether a decimal text names a multiple of the grid: rounding down and rounding to nearest then agree, also for the
/// negated number.
fn on_grid(text: &str, grid: number::Grid) -> bool {
    let text = text.trim();
    let negated = text.strip_prefix('-').map_or_else(|| format!("-{text}"), str::to_owned);
    let down = |text: &str| parse_rounded(text, grid, Rounding::Floor).ok();
    matches!((down(text), down(&negated)), (Some(a), Some(b)) if a == -b)
}
