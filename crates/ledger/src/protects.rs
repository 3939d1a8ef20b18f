//! The units that a plan protects; budgets add up among streams that protect the same units.

use evertally::privacy::{Neighbours, Unit};
use evertally_declare::steps::Period;
use std::collections::BTreeMap;

/// The units that a plan protects, and against what. Spent budgets add up only among plans for which this is equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protects {
    /// Whether the events of a person are protected, or one event.
    pub persons: bool,
    /// The period or window within which a person's events are protected together, in words that identify it; `None`
    /// for all events.
    pub period: Option<String>,
    /// Whether neighbouring data replace them, or add and remove them.
    pub replaced: bool,
}

impl Protects {
    /// For a plan, with the meaning of its numbers.
    pub fn new(unit: Unit, neighbours: Neighbours, meaning: &BTreeMap<String, String>) -> Self {
        let period = unit.bounds().and_then(|bounds| match bounds.window {
            Some(window) => Some(window_name(window.steps, meaning)),
            None => bounds.period.map(|steps| period_name(steps, meaning)),
        });
        Self { persons: unit != Unit::Event, period, replaced: neighbours == Neighbours::ReplaceOne }
    }

    /// A short form for tables.
    pub fn brief(&self) -> String {
        let period = self.period.as_ref().map_or(String::new(), |period| format!(" in {period}"));
        format!("{}{period}{}", self.unit(), if self.replaced { ", replaced" } else { "" })
    }

    /// `person` or `event`.
    pub fn unit(&self) -> &'static str {
        if self.persons { "person" } else { "event" }
    }
}

/// A protected window in words, with the steps in which it is counted: those of other streams may begin at other times.
fn window_name(steps: u64, meaning: &BTreeMap<String, String>) -> String {
    let of = |name: &str| meaning.get(name).map(String::as_str);
    match (of("every"), of("start")) {
        (Some(every), Some(start)) => format!("any window of {steps} steps of {every} since {start}"),
        _ => format!("any window of {steps} steps"),
    }
}

/// A period in words: with the time zone if that decides when it begins, otherwise with the start from which it counts.
fn period_name(steps: u64, meaning: &BTreeMap<String, String>) -> String {
    let of = |name: &str| meaning.get(name).map(String::as_str);
    let period: Period = of("per").and_then(|text| text.parse().ok()).unwrap_or(Period::Steps(steps));
    if period.is_of_the_calendar() {
        return period.name_in(of("time-zone").unwrap_or("UTC"));
    }
    match (period, of("every"), of("start")) {
        (Period::Steps(_), Some(every), Some(start)) => format!("{} of {every} since {start}", period.in_words()),
        (Period::Time(_), _, Some(start)) => format!("{} since {start}", period.in_words()),
        _ => period.in_words(),
    }
}
