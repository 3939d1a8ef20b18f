//! The generated parts of a declaration, and rows that fit them.

use super::wide::Wide;
use crate::replay::rows::{LABELS, Row};
use evertally::privacy::Neighbours;
use evertally_declare::declaration::{Declaration, DeclaredGroups};
use evertally_declare::format::Format;
use evertally_declare::steps::{EpochUnit, Instant, Period, StepCalendar, TimeFormat};
use evertally_declare::stream::{OutOfBounds, Outside, Refusable, SortLimit};
use proptest::prelude::*;
use std::ops::Range;

/// Declared groups, and texts that are not declared.
pub(super) const DECLARED: [[&str; 2]; 3] = [["a", "x"], ["b", "x"], ["b", "y"]];
const OTHERS: [[&str; 2]; 2] = [["c", "x"], ["Zoë", "q"]];

/// The people in every group and step of a stream that discovers its groups.
const CROWD: usize = 25;

/// Groups with many people.
const CROWDED: [[&str; 2]; 2] = [["a", "x"], ["b", "x"]];

/// A raw row, before it is written as the declaration requires.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) step: u64,
    /// Its position in its step, in 256ths.
    pub(super) at: u8,
    pub(super) group: usize,
    pub(super) person: usize,
    pub(super) value: i32,
    /// The cell it lacks, usually none.
    pub(super) lacks: u8,
    /// Whether it comes with the next file, if late events are counted.
    pub(super) late: bool,
}

/// The randomly drawn parts of a declaration.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) steps: u64,
    pub(super) calendar: (&'static str, &'static str, &'static str),
    pub(super) person: Option<Bounds>,
    pub(super) replace_one: bool,
    pub(super) columns: usize,
    pub(super) rest: bool,
    pub(super) unsorted: bool,
    pub(super) skip_missing: bool,
    pub(super) skip_outside: bool,
    /// Bounds and grid.
    pub(super) values: Option<([&'static str; 2], &'static str)>,
    pub(super) refuse_bounds: bool,
    pub(super) codes: bool,
    pub(super) times: TimeFormat,
    pub(super) budget: u8,
    pub(super) mechanism: &'static str,
    pub(super) format: Format,
    pub(super) runs: usize,
    pub(super) counts_late: bool,
    pub(super) confidence: f64,
    pub(super) wide: Wide,
}

/// The bounds of a person.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) total: u64,
    pub(super) per_step: Option<u64>,
    /// These two only if there are groups.
    pub(super) per_group: Option<u64>,
    pub(super) groups: Option<u64>,
    pub(super) gap: Option<u64>,
    pub(super) period: Option<Reset>,
}

/// The length of a period.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reset {
    Steps(u64),
    /// A period that suits the width of the steps.
    Calendar,
}

pub(super) fn name_of(person: usize) -> String {
    ["ann", "ben", "Ça", "42"][person].to_owned()
}

impl Terms {
    pub(super) fn declaration(&self) -> Declaration {
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
            groups: (self.columns > 0).then(|| DeclaredGroups::Tuples(texts(self.columns))),
            rest: (self.columns > 0 && self.rest).then(|| "others".into()),
            sort_buffer: self.unsorted.then_some(SortLimit::Events(64)),
            missing: skip(self.skip_missing),
            outside: self.skip_outside.then_some(Outside::SkipAny),
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
    pub(super) fn row(&self, calendar: &StepCalendar, number: usize, raw: &Raw) -> Row {
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

    /// Rows of people who have one event each, in groups that are discovered because of them.
    pub(super) fn crowd(&self, calendar: &StepCalendar, first: usize) -> Vec<Row> {
        if !self.wide.discovers || self.columns == 0 {
            return Vec::new();
        }
        let raw = |step: u64, at: u8| Raw { step, at, group: 0, person: 0, value: 20, lacks: 0, late: false };
        let mut rows = Vec::new();
        for step in 1..=self.steps {
            for (group, tuple) in CROWDED.iter().enumerate() {
                for number in 0..CROWD * (group + 1) {
                    let row = self.row(calendar, first + rows.len(), &raw(step, number as u8));
                    let labels = tuple.iter().map(|text| Some((*text).to_owned())).collect();
                    rows.push(Row { labels, person: Some(format!("{step}-{group}-{number}")), ..row });
                }
            }
        }
        rows
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
        TimeFormat::Epoch(EpochUnit::Seconds) => format!("{}.{:06}", time.as_second(), time.subsec_nanosecond() / 1000),
        TimeFormat::Epoch(EpochUnit::Millis) => time.as_millisecond().to_string(),
        TimeFormat::Date => calendar.zone().time_zone().to_datetime(time).date().to_string(),
        _ => time.to_string(),
    }
}

pub(super) fn terms() -> impl Strategy<Value = Terms> {
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
    let formats = [Format::Csv, Format::JsonLines, Format::Parquet];
    let times = [
        TimeFormat::Auto,
        TimeFormat::Rfc3339,
        TimeFormat::Epoch(EpochUnit::Seconds),
        TimeFormat::Epoch(EpochUnit::Millis),
    ];
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
                // It is for Gaussian noise.
                budget: if mechanism == "sqrt" { 1 + budget % 2 } else { budget },
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
