//! Reads all rows, and counts what a release would do with each.

use super::columns::Profile;
use super::order::{OrderFinder, RowOrder};
use super::persons::PersonCounts;
use evertally_declare::declaration::Declaration;
use evertally_declare::error::{InputError, PipelineError, Place};
use evertally_declare::event::{ColumnLayout, Event};
use evertally_declare::steps::{Instant, StepCalendar};
use evertally_publish::session::{EventCheck, EventRefusal, EventRefusalReason};
use serde::Serialize;
use std::collections::BTreeMap;

/// Rows that are not counted for one reason.
#[derive(Serialize)]
pub(super) struct RefusedRows {
    pub(super) reason: &'static str,
    pub(super) count: u64,
    pub(super) examples: Vec<RowExample>,
}

/// A row that is not counted.
#[derive(Serialize)]
pub(super) struct RowExample {
    pub(super) file: String,
    pub(super) line: Option<u64>,
    pub(super) row: Option<u64>,
    pub(super) column: Option<String>,
    pub(super) cell: Option<String>,
    /// The message with which a release would end.
    pub(super) message: String,
}

/// Examples of each reason.
const EXAMPLES: usize = 3;

/// Undeclared groups are counted up to this number of different ones.
const MOST_GROUPS: usize = 10_000;

/// Undeclared groups that are shown.
const SHOWN_GROUPS: usize = 20;

/// Texts that programs write for a missing cell.
const MISSING_MARKS: [&str; 13] =
    ["NA", "N/A", "n/a", "NaN", "nan", "NaT", "NULL", "null", "None", "none", "-", "?", "\\N"];

/// The counts of all rows so far.
pub(super) struct RowCounts {
    /// `None` if it is not known which column is the time.
    pub(super) check: Option<EventCheck>,
    /// The calendar whose steps decide about the order; without one, every instant is a step.
    order_by: Option<StepCalendar>,
    /// Whether persons are counted in periods.
    has_periods: bool,
    /// Whether the width of the steps is declared, on which a sort buffer depends.
    has_steps: bool,
    pub(super) profiles: Vec<(String, Profile)>,
    pub(super) rows: u64,
    pub(super) counted: u64,
    pub(super) first: Option<Instant>,
    pub(super) last: Option<Instant>,
    pub(super) dates: u64,
    order: OrderFinder,
    pub(super) persons: PersonCounts,
    pub(super) persons_in_periods: PersonCounts,
    refused: BTreeMap<&'static str, RefusedRows>,
    /// Refused cells that say that there is no value.
    marks: BTreeMap<String, u64>,
    skipped: BTreeMap<&'static str, u64>,
    undeclared: BTreeMap<String, u64>,
    has_more_groups: bool,
}

/// A reason in words, after a number of rows.
fn in_words(reason: EventRefusalReason) -> &'static str {
    match reason {
        EventRefusalReason::LeftOut => "that --where leaves out",
        EventRefusalReason::Time => "with a time that cannot be read",
        EventRefusalReason::Missing => "with a missing cell",
        EventRefusalReason::Date => "with a date that is not within one step",
        EventRefusalReason::Outside => "outside the horizon",
        EventRefusalReason::Group => "of an undeclared group",
        EventRefusalReason::Value => "with a value that cannot be used",
        EventRefusalReason::Person => "with a person whose number may have been rounded",
    }
}

/// The reason of broken rows.
const UNREADABLE: &str = "that cannot be read";

impl RowCounts {
    pub(super) fn new(check: Option<EventCheck>, order_by: Option<StepCalendar>, declared: &Declaration) -> Self {
        let has_periods = check.as_ref().is_some_and(|check| check.settings().periods.longest().is_some());
        Self {
            check,
            order_by,
            has_periods,
            has_steps: declared.every.is_some(),
            profiles: Vec::new(),
            rows: 0,
            counted: 0,
            first: None,
            last: None,
            dates: 0,
            order: OrderFinder::default(),
            persons: PersonCounts::default(),
            persons_in_periods: PersonCounts::default(),
            refused: BTreeMap::new(),
            marks: BTreeMap::new(),
            skipped: BTreeMap::new(),
            undeclared: BTreeMap::new(),
            has_more_groups: false,
        }
    }

    /// The places of the profiles of a layout's columns.
    pub(super) fn profiles_of(&mut self, layout: &ColumnLayout) -> Vec<usize> {
        let place = |name: &String| {
            self.profiles.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                self.profiles.push((name.clone(), Profile::new()));
                self.profiles.len() - 1
            })
        };
        layout.names().iter().map(place).collect()
    }

    /// Counts a row.
    pub(super) fn add(&mut self, event: &Event<'_>, profiles: &[usize]) {
        self.rows += 1;
        for (slot, place) in profiles.iter().enumerate() {
            self.profiles[*place].1.add(event.cell(slot));
        }
        let Some(check) = &mut self.check else { return };
        let checked = check.check(event);
        if let Some(time) = checked.time {
            self.first = Some(self.first.map_or(time, |first| first.min(time)));
            self.last = Some(self.last.map_or(time, |last| last.max(time)));
            self.dates += u64::from(checked.is_date);
        }
        if let Some(EventRefusal { reason, error }) = checked.refusal {
            match error {
                None => *self.skipped.entry(in_words(reason)).or_default() += 1,
                Some(error) => {
                    let cell = error.input().and_then(InputError::cell).filter(|cell| MISSING_MARKS.contains(cell));
                    if let (Some(cell), EventRefusalReason::Time | EventRefusalReason::Value) = (cell, reason) {
                        *self.marks.entry(cell.to_owned()).or_default() += 1;
                    }
                    self.refuse(in_words(reason), &error);
                }
            }
            if reason == EventRefusalReason::Group {
                let names: Vec<String> = event.labels().map(|cell| cell.to_string()).collect();
                self.add_undeclared(names.join("/"));
            }
            return;
        }
        self.counted += 1;
        if let Some(person) = check.person(event) {
            self.persons.add(person, 0);
            if let (true, Some(step)) = (self.has_periods, checked.step) {
                let period = check.settings().periods.of(step).start;
                // Borrowed again: the period is one of the settings.
                if let Some(person) = check.person(event) {
                    self.persons_in_periods.add(person, period);
                }
            }
        }
        let Some(time) = checked.time else { return };
        let step = checked.step.or_else(|| self.order_by.as_ref()?.step_of(time));
        self.order.push(match (&self.order_by, step) {
            (None, None) => time.micros(),
            (_, step) => step.unwrap_or(0) as i64, // fits: at most 2⁴⁰ steps
        });
    }

    /// Counts a row that cannot be read.
    pub(super) fn add_unreadable(&mut self, error: InputError) {
        self.rows += 1;
        self.refuse(UNREADABLE, &error.into());
    }

    fn refuse(&mut self, reason: &'static str, error: &PipelineError) {
        let empty = || RefusedRows { reason, count: 0, examples: Vec::new() };
        let rows = self.refused.entry(reason).or_insert_with(empty);
        rows.count += 1;
        if rows.examples.len() == EXAMPLES {
            return;
        }
        let Some(input) = error.input() else { return };
        let place = input.place();
        rows.examples.push(RowExample {
            file: input.file().to_owned(),
            line: place.and_then(|place| if let Place::Line(line) = place { Some(line) } else { None }),
            row: place.and_then(|place| if let Place::Row(row) = place { Some(row) } else { None }),
            column: input.column().map(str::to_owned),
            cell: input.cell().map(str::to_owned),
            message: error.to_string(),
        });
    }

    fn add_undeclared(&mut self, group: String) {
        if self.undeclared.len() < MOST_GROUPS || self.undeclared.contains_key(&group) {
            *self.undeclared.entry(group).or_default() += 1;
        } else {
            self.has_more_groups = true;
        }
    }

    /// The order of the counted rows; `None` without any.
    pub(super) fn order(&self) -> Option<RowOrder> {
        let order = (self.counted > 0 && self.check.is_some()).then(|| self.order.order());
        match order {
            Some(RowOrder::Unsorted { .. }) if !self.has_steps => Some(RowOrder::Unsorted { buffer: None }),
            order => order,
        }
    }

    /// Whether times are so far from the horizon that a release skips them only on request.
    pub(super) fn has_far_times(&self) -> bool {
        let Some(check) = &self.check else { return false };
        self.first.into_iter().chain(self.last).any(|time| check.is_far(time))
    }

    /// The number of rows refused for a reason.
    pub(super) fn refused_for(&self, reason: EventRefusalReason) -> u64 {
        self.refused.get(in_words(reason)).map_or(0, |rows| rows.count)
    }

    /// The number of rows that cannot be read, without those of [`marks`](Self::marks).
    pub(super) fn broken(&self) -> u64 {
        let broken = self.refused_for(EventRefusalReason::Time) + self.refused_for(EventRefusalReason::Value);
        broken - self.marks.values().sum::<u64>() + self.refused.get(UNREADABLE).map_or(0, |rows| rows.count)
    }

    /// The refused cells that say that there is no value, and their numbers.
    pub(super) fn marks(&self) -> &BTreeMap<String, u64> {
        &self.marks
    }

    /// The most frequent undeclared groups, and whether there are more.
    pub(super) fn undeclared(&self) -> (Vec<(String, u64)>, bool) {
        let mut groups: Vec<(String, u64)> = self.undeclared.clone().into_iter().collect();
        groups.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let has_more = self.has_more_groups || groups.len() > SHOWN_GROUPS;
        groups.truncate(SHOWN_GROUPS);
        (groups, has_more)
    }

    /// The refused rows and the skipped ones, by reason.
    pub(super) fn into_refused(self) -> (Vec<RefusedRows>, Vec<RefusedRows>) {
        let most_first = |mut rows: Vec<RefusedRows>| {
            rows.sort_by_key(|rows| std::cmp::Reverse(rows.count));
            rows
        };
        let skipped =
            self.skipped.into_iter().map(|(reason, count)| RefusedRows { reason, count, examples: Vec::new() });
        (most_first(self.refused.into_values().collect()), most_first(skipped.collect()))
    }
}
