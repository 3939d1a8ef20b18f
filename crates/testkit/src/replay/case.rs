//! Generated declarations, events and neighbours.

mod wide;

use super::pipeline::{Declared, Run};
use super::rows::{FileFormat, LABELS, Row};
use evertally::plan::Plan;
use evertally::privacy::Neighbours;
use evertally_declare::declaration::{Declaration, Groups};
use evertally_declare::steps::{Instant, Period, Periods, StepCalendar, TimeFormat};
use evertally_declare::stream::{Late, OutOfBounds, Refusable};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::ops::Range;
use wide::Wide;

/// A stream, data, and the same data with one unit changed.
#[derive(Clone, Debug)]
pub struct Case {
    /// The stream and its runs.
    pub stream: Declared,
    /// The data, file by file.
    pub files: Vec<Vec<Row>>,
    /// The neighbouring data.
    pub neighbours: Vec<Vec<Row>>,
    /// The person whose rows are changed, if persons are protected.
    pub person: Option<usize>,
    /// The steps of the period of the change; all steps if there are no periods.
    pub period: Range<u64>,
    /// The periods of the horizon.
    pub periods: Periods,
    /// The changed row, if events are protected.
    pub row: usize,
    /// Whether rows are replaced or moved, and not only removed.
    pub replaces: bool,
    /// Whether values encode their person.
    pub codes: Codes,
}

/// The meaning of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// Plain numbers.
    Values,
    /// A power of 32 for every person, so that a sum shows whose events were kept.
    Persons,
}

/// Declared groups, and texts that are not declared.
const DECLARED: [[&str; 2]; 3] = [["a", "x"], ["b", "x"], ["b", "y"]];
const OTHERS: [[&str; 2]; 2] = [["c", "x"], ["Zoë", "q"]];

/// A raw row, before it is written as the declaration requires.
#[derive(Clone, Debug)]
struct Raw {
    step: u64,
    /// Its position in its step, in 256ths.
    at: u8,
    group: usize,
    person: usize,
    value: i32,
    /// The cell it lacks, usually none.
    lacks: u8,
    /// Whether it comes with the next file, if late events are counted.
    late: bool,
}

/// The randomly drawn parts of a declaration.
#[derive(Clone, Debug)]
struct Terms {
    steps: u64,
    calendar: (&'static str, &'static str, &'static str),
    person: Option<Bounds>,
    replace_one: bool,
    columns: usize,
    rest: bool,
    unsorted: bool,
    skip_missing: bool,
    skip_outside: bool,
    /// Bounds and grid.
    values: Option<([&'static str; 2], &'static str)>,
    refuse_bounds: bool,
    codes: bool,
    times: TimeFormat,
    budget: u8,
    mechanism: &'static str,
    format: FileFormat,
    runs: usize,
    counts_late: bool,
    confidence: f64,
    wide: Wide,
}

/// The difference of the neighbour's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Removal,
    Replacement,
    Move,
}

/// The bounds of a person.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    total: u64,
    per_step: Option<u64>,
    /// These two only if there are groups.
    per_group: Option<u64>,
    groups: Option<u64>,
    gap: Option<u64>,
    period: Option<Reset>,
}

/// The length of a period.
#[derive(Clone, Copy, Debug)]
enum Reset {
    Steps(u64),
    /// A period that suits the width of the steps.
    Calendar,
}

/// A row, its position in its step, and whether it comes late.
#[derive(Clone, Debug)]
struct Placed {
    row: Row,
    at: u8,
    late: bool,
}

impl Case {
    /// The number of persons in the data.
    pub const PERSONS: usize = 4;

    /// The number of events per person that a coded sum can hold.
    pub fn events_of(person: usize, sum: i128) -> u64 {
        (sum >> (5 * person)) as u64 & 31
    }

    /// Whether a row belongs to the changed unit.
    pub fn is_of_unit(&self, row: &Row) -> bool {
        match self.person {
            Some(person) => row.person.as_deref() == Some(name_of(person).as_str()) && self.period.contains(&row.step),
            None => row.number == self.row,
        }
    }

    /// The group in which a row is released, as written in tables.
    pub fn group_of(&self, row: &Row) -> String {
        let Some(columns) = &self.stream.declaration.group_by else { return String::new() };
        let texts: Vec<&str> = (0..columns.len()).map(|at| row.labels[at].as_deref().unwrap_or_default()).collect();
        if DECLARED.iter().any(|tuple| tuple[..columns.len()] == texts[..]) {
            return texts.join(",");
        }
        match &self.stream.declaration.rest {
            Some(rest) => vec![rest.as_str(); columns.len()].join(","),
            None => texts.join(","),
        }
    }

    /// The declared plan.
    ///
    /// # Panics
    /// If the declaration is refused.
    pub fn plan(&self) -> Plan {
        let settings = self.stream.declaration.resolve().expect("a sound declaration");
        evertally_ledger::planner::plan(settings, &mut |_| ()).expect("a plan").0.plan
    }
}

fn name_of(person: usize) -> String {
    ["ann", "ben", "Ça", "42"][person].to_owned()
}

impl Terms {
    fn declaration(&self) -> Declaration {
        let (every, start, zone) = self.calendar;
        let texts = |column: usize| -> Vec<Vec<String>> {
            let mut tuples: Vec<Vec<String>> =
                DECLARED.iter().map(|tuple| tuple[..column].iter().map(|text| (*text).to_owned()).collect()).collect();
            tuples.dedup();
            tuples
        };
        let skip = |wanted: bool| wanted.then_some(Refusable::Skip);
        let values = if self.codes { Some((["0", "2000000"], "1")) } else { self.values };
        let (epsilon, delta, rho) = match self.budget {
            0 => (Some(0.7), None, None),
            1 => (None, None, Some(0.25)),
            _ => (Some(1.5), Some(1e-6), None),
        };
        let declaration = Declaration {
            steps: Some(self.steps),
            every: Some(every.parse().expect("a width")),
            start: Some(start.into()),
            time_zone: Some(zone.parse().expect("a zone")),
            time_format: (self.times != TimeFormat::Auto).then(|| self.times.clone()),
            person: self.person.map(|_| "who".into()),
            max_events: self.person.map(|bounds| bounds.total),
            max_events_per_step: self.person.and_then(|bounds| bounds.per_step),
            max_events_per_group: self.person.and_then(|bounds| bounds.per_group).filter(|_| self.columns > 0),
            max_groups: self.person.and_then(|bounds| bounds.groups).filter(|_| self.columns > 0),
            min_gap: self.person.and_then(|bounds| bounds.gap),
            per: self.person.and_then(|bounds| bounds.period).map(|reset| self.period(reset)),
            neighbours: self.replace_one.then_some(Neighbours::ReplaceOne),
            group_by: (self.columns > 0).then(|| LABELS[..self.columns].iter().map(|name| (*name).into()).collect()),
            groups: (self.columns > 0).then(|| Groups::Tuples(texts(self.columns))),
            rest: (self.columns > 0 && self.rest).then(|| "others".into()),
            sort_buffer: self.unsorted.then_some(64),
            missing: skip(self.skip_missing),
            outside: skip(self.skip_outside),
            value: values.map(|_| "amount".into()),
            bounds: values.map(|(bounds, _)| bounds.iter().map(|bound| bound.parse().expect("a number")).collect()),
            grid: values.map(|(_, grid)| grid.parse().expect("a grid")),
            out_of_bounds: (values.is_some() && self.refuse_bounds).then_some(OutOfBounds::Refuse),
            epsilon,
            delta,
            rho,
            mechanism: Some(self.mechanism.parse().expect("a mechanism")),
            confidence: Some(self.confidence),
            ..Declaration::default()
        };
        self.wide.declare(declaration, self.columns)
    }

    fn period(&self, reset: Reset) -> Period {
        match (reset, self.calendar.0) {
            (Reset::Steps(steps), _) => Period::Steps(steps),
            (Reset::Calendar, every) => {
                // Quarter hours and widths of six hours do not always fit into the days of these zones.
                let text = match every {
                    "1d" => "month",
                    "1h" => "day",
                    "1mo" => "quarter",
                    "1w" => "2w",
                    "15m" => "1h",
                    _ => "3 steps",
                };
                text.parse().expect("a period")
            }
        }
    }

    /// A row as its file writes it.
    fn row(&self, calendar: &StepCalendar, number: usize, raw: &Raw) -> Row {
        let lacks = |cell: u8| raw.lacks == cell;
        let steps = self.steps;
        let step = if self.skip_outside { raw.step % (steps + 2) } else { (raw.step - 1) % steps + 1 };
        let instant = match step {
            0 => calendar.start().micros() - 1 - i64::from(raw.at) * 1_000_000,
            step if step > steps => calendar.end().micros() + i64::from(raw.at) * 1_000_000,
            step => {
                let (start, end) = (calendar.start_of(step).micros(), calendar.end_of(step).micros());
                start + (end - start) / 256 * i64::from(raw.at)
            }
        };
        let tuple = if self.rest { [&DECLARED[..], &OTHERS].concat()[raw.group % 5] } else { DECLARED[raw.group % 3] };
        let labels = (0..2).map(|at| (!lacks(1) || self.columns == 0).then(|| tuple[at].to_owned())).collect();
        let amount = if self.codes { (1i64 << (5 * raw.person)).to_string() } else { decimal(raw.value) };
        Row {
            time: written(&self.times, calendar, Instant::from_micros(instant)),
            labels,
            person: (!lacks(2)).then(|| name_of(raw.person)),
            value: (!lacks(3)).then_some(amount),
            step,
            number,
        }
    }
}

/// Quarters, of either sign.
fn decimal(quarters: i32) -> String {
    let size = quarters.unsigned_abs();
    let fraction = ["", ".25", ".5", ".75"][size as usize % 4];
    format!("{}{}{fraction}", if quarters < 0 { "-" } else { "" }, size / 4)
}

fn written(format: &TimeFormat, calendar: &StepCalendar, instant: Instant) -> String {
    let time = instant.timestamp().expect("in our time");
    match format {
        TimeFormat::EpochSeconds => format!("{}.{:06}", time.as_second(), time.subsec_nanosecond() / 1000),
        TimeFormat::EpochMillis => time.as_millisecond().to_string(),
        TimeFormat::Date => calendar.zone().time_zone().to_datetime(time).date().to_string(),
        _ => time.to_string(),
    }
}

/// Any case: a declaration, its data, a unit and a change of it.
pub fn any_case() -> impl Strategy<Value = Case> {
    (terms(), prop::collection::vec(raw(), 1..28), prop::collection::vec(raw(), 28), any::<[u8; 4]>())
        .prop_map(|(terms, rows, others, picks)| build(&terms, &rows, &others, picks).expect("a sound declaration"))
}

/// The wide case of a number, always the same: see [`spends`](super::spends).
///
/// # Errors
/// The reason, if its declaration is refused.
///
/// # Panics
/// Never, unless cases cannot be generated.
pub fn nth_wide_case(number: u64) -> Result<Case, String> {
    let cases =
        (wide::wide_terms(), prop::collection::vec(raw(), 1..28), prop::collection::vec(raw(), 28), any::<[u8; 4]>())
            .prop_map(|(terms, rows, others, picks)| build(&terms, &rows, &others, picks));
    nth(cases, number)
}

/// Always the same case for a number.
///
/// # Panics
/// Never, unless cases cannot be generated.
pub fn nth_case(number: u64) -> Case {
    nth(any_case(), number)
}

fn nth<S: Strategy>(cases: S, number: u64) -> S::Value {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    cases.new_tree(&mut runner).expect("cases are never rejected").current()
}

fn raw() -> impl Strategy<Value = Raw> {
    let lacks = prop_oneof![24 => Just(0u8), 1 => 1..4u8];
    let value = prop_oneof![5 => -60..60i32, 1 => -9000..9000i32];
    let rare = (lacks, prop::bool::weighted(0.15));
    (1..1000u64, any::<u8>(), 0..15usize, prop_oneof![3 => Just(0usize), 2 => 0..Case::PERSONS], value, rare)
        .prop_map(|(step, at, group, person, value, (lacks, late))| Raw { step, at, group, person, value, lacks, late })
}

fn terms() -> impl Strategy<Value = Terms> {
    let calendars = [
        ("1d", "2024-03-29", "Europe/Berlin"),
        ("1h", "2024-10-27T00:00:00+02:00", "Europe/Berlin"),
        ("6h", "2024-11-03T00:00:00-04:00", "America/New_York"),
        ("1mo", "2023-12-01", "Asia/Kolkata"),
        ("15m", "2024-02-29", "UTC"),
        ("1w", "2024-12-30", "UTC"),
    ];
    let mechanisms = [
        "input",
        "output",
        "binary",
        "honaker-online",
        "kary(k=3)",
        "subtract(k=3)",
        "smooth",
        "sqrt",
        "path-sum",
        "consistent(k=3)",
    ];
    let values = [(["0", "10"], "1"), (["-3", "8"], "0.25"), (["-2.5", "-0.5"], "0.5"), (["2", "5"], "0.01")];
    let formats = [FileFormat::Csv, FileFormat::JsonLines, FileFormat::Parquet];
    let times = [TimeFormat::Auto, TimeFormat::Rfc3339, TimeFormat::EpochSeconds, TimeFormat::EpochMillis];
    let reset = prop_oneof![2 => (1..6u64).prop_map(Reset::Steps), 1 => Just(Reset::Calendar)];
    let rarely = |bound: Range<u64>| prop::option::weighted(0.3, bound);
    let more = (rarely(1..3), rarely(1..3), rarely(2..4), prop::option::weighted(0.35, reset));
    let bounds = (1..6u64, prop::option::of(1..4u64), more).prop_map(|(total, per_step, more)| {
        let (per_group, groups, gap, period) = more;
        Bounds { total, per_step, per_group, groups, gap, period }
    });
    let person = prop::option::weighted(0.7, bounds);
    let plan = (1..=10u64, prop::sample::select(calendars.to_vec()), person, any::<bool>(), 0..3u8);
    let labels = (0..3usize, any::<bool>());
    let values = (prop::option::of(prop::sample::select(values.to_vec())), prop::bool::weighted(0.05), any::<bool>());
    let reading = (any::<bool>(), prop::bool::weighted(0.8), any::<bool>(), prop::sample::select(formats.to_vec()));
    let runs = (1..4usize, any::<bool>());
    let written = (prop::sample::select(times.to_vec()), prop::sample::select(mechanisms.to_vec()), runs);
    (plan, labels, values, reading, written, prop::sample::select(vec![0.5, 0.95])).prop_map(
        |(
            (steps, calendar, person, replace_one, budget),
            (columns, rest),
            (values, refuse_bounds, codes),
            (unsorted, skip_missing, skip_outside, format),
            (times, mechanism, (runs, counts_late)),
            confidence,
        )| {
            let is_coarse = matches!(calendar.0, "1d" | "1mo" | "1w");
            Terms {
                steps,
                calendar,
                person,
                replace_one,
                columns,
                rest,
                unsorted,
                skip_missing,
                skip_outside,
                values,
                refuse_bounds,
                codes: codes && person.is_some(),
                times: if is_coarse && rest && times == TimeFormat::Rfc3339 { TimeFormat::Date } else { times },
                // These are for Gaussian noise.
                budget: if matches!(mechanism, "path-sum" | "sqrt") { 1 + budget % 2 } else { budget },
                mechanism,
                format,
                runs,
                counts_late,
                confidence,
                wide: Wide::default(),
            }
        },
    )
}

fn build(terms: &Terms, raws: &[Raw], others: &[Raw], picks: [u8; 4]) -> Result<Case, String> {
    let mut declaration = terms.declaration();
    let settings = declaration.resolve().map_err(|problem| problem.to_string())?;
    let (calendar, periods) = (settings.calendar.clone(), settings.periods);
    let placed =
        |number: usize, raw: &Raw| Placed { row: terms.row(&calendar, number, raw), at: raw.at, late: raw.late };
    let rows: Vec<Placed> = (0..).zip(raws).map(|(number, raw)| placed(number, raw)).collect();
    let row = usize::from(picks[0]) % rows.len();
    let person = terms.person.map(|_| raws[row].person);
    let period = match periods.longest() {
        Some(_) => periods.of(rows[row].row.step.clamp(1, terms.steps)),
        None => 0..u64::MAX,
    };
    let change = match picks[1] {
        pick if !terms.wide.is_wide => {
            if pick.is_multiple_of(2) {
                Change::Replacement
            } else {
                Change::Removal
            }
        }
        // Under replace-one no unit is removed.
        pick if terms.replace_one => [Change::Replacement, Change::Move][usize::from(pick) % 2],
        pick => [Change::Removal, Change::Replacement, Change::Move][usize::from(pick) % 3],
    };
    let is_of_unit = |at: usize| match person {
        Some(person) => {
            let Row { person: name, step, .. } = &rows[at].row;
            raws[at].person == person && name.is_some() && period.contains(step)
        }
        None => at == row,
    };
    // The replacement of an event is in the same period.
    let within = |step: u64| match periods.longest() {
        Some(_) => period.start + step % (period.end.min(terms.steps + 1) - period.start),
        None => step,
    };
    let mut changed = Vec::new();
    let mut has_moved = false;
    for (at, kept) in rows.iter().enumerate() {
        match change {
            _ if !is_of_unit(at) => changed.push(kept.clone()),
            Change::Removal => {}
            Change::Replacement => {
                let step = within(others[at].step);
                changed.push(placed(at, &Raw { person: raws[at].person, lacks: 0, step, ..others[at].clone() }));
            }
            // One event of the unit happens elsewhere.
            Change::Move if has_moved => changed.push(kept.clone()),
            Change::Move => {
                let (step, group) = (within(others[at].step), others[at].group);
                changed.push(placed(at, &Raw { step, group, ..raws[at].clone() }));
                has_moved = true;
            }
        }
    }
    let crowd = terms.wide.crowd(terms, &calendar, rows.len());
    let crowd: Vec<Placed> = crowd.into_iter().map(|row| Placed { row, at: 0, late: false }).collect();
    let rows = [rows, crowd.clone()].concat();
    changed.extend(crowd);
    // Files are cut where steps end, so that a run that publishes through that step has all its events.
    let mut cuts: Vec<u64> = (1..terms.runs).map(|at| u64::from(picks[1 + at]) % terms.steps + 1).collect();
    cuts.retain(|cut| *cut < terms.steps);
    cuts.sort_unstable();
    cuts.dedup();
    // All files in one run, or one run per file, which continues the previous one or repeats everything.
    let (in_one, continues) = (picks[0].is_multiple_of(4), picks[1] & 4 != 0 && terms.wide.may_continue());
    // A late event counts in a step other than its own, and belongs to the unit of that step's period.
    let has_periods = periods.longest().is_some();
    let counts_late = continues && !in_one && terms.counts_late && !cuts.is_empty() && !has_periods;
    let in_files = |rows: &[Placed]| -> Vec<Vec<Row>> {
        let mut files = vec![Vec::new(); cuts.len() + 1];
        for placed in rows {
            let own = cuts.partition_point(|cut| *cut < placed.row.step);
            let is_late = counts_late && placed.late && own < cuts.len() && placed.row.step > 0;
            files[own + usize::from(is_late)].push(placed.clone());
        }
        let sorted = |(file, mut rows): (usize, Vec<Placed>)| {
            if !terms.unsorted {
                rows.sort_by_key(|placed| (placed.row.step, placed.at));
            }
            let first_open = if counts_late && file > 0 { cuts[file - 1] + 1 } else { 0 };
            let counted = |placed: Placed| Row { step: placed.row.step.max(first_open), ..placed.row };
            rows.into_iter().map(counted).collect()
        };
        files.into_iter().enumerate().map(sorted).collect()
    };
    declaration.late = counts_late.then_some(Late::NextStep);
    let (files, neighbours) = (in_files(&rows), in_files(&changed));
    let through = terms.wide.is_endless.then(|| calendar.format(calendar.end_of(terms.steps)));
    let last = Run { files: files.len(), through, groups: None };
    let each = cuts.iter().enumerate().map(|(at, cut)| Run {
        files: at + 1,
        through: Some(calendar.format(calendar.end_of(*cut))),
        groups: None,
    });
    let mut runs: Vec<Run> = if in_one { vec![last] } else { each.chain([last]).collect() };
    if let (true, true, Some(Groups::Tuples(tuples))) = (terms.wide.joins, continues, &declaration.groups)
        && runs.len() > 1
        && tuples.len() > 1
    {
        runs[0].groups = Some(Groups::Tuples(tuples[..tuples.len() - 1].to_vec()));
        declaration.unknown_group = declaration.rest.is_none().then_some(Refusable::Skip);
    }
    if terms.wide.is_wide {
        let settings = declaration.resolve().map_err(|problem| problem.to_string())?;
        evertally_ledger::planner::plan(settings, &mut |_| ()).map_err(|error| error.to_string())?;
    }
    let codes = if terms.codes { Codes::Persons } else { Codes::Values };
    Ok(Case {
        stream: Declared { declaration, format: terms.format, runs, continues, repeats: picks[2] & 4 != 0 },
        files,
        neighbours,
        person,
        period,
        periods,
        row,
        replaces: change != Change::Removal,
        codes,
    })
}
