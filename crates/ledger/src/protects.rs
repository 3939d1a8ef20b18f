//! Whom a plan protects: what is spent adds up for these, and not beyond.

use evertally::privacy::{Neighbours, Unit};
use evertally_declare::steps::Period;
use std::collections::BTreeMap;

/// Whom a plan protects, and against what. What is spent adds up for these, and not beyond.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protects {
    /// Events of a person, or one event.
    pub persons: bool,
    /// The period whose events of a person are protected together, in words that fit no other; `None` for all events.
    pub period: Option<String>,
    /// Whether they are replaced, or added and removed.
    pub replaced: bool,
}

impl Protects {
    /// Of a plan, with what its numbers mean.
    pub fn of(unit: Unit, neighbours: Neighbours, meaning: &BTreeMap<String, String>) -> Self {
        let period = unit.bounds().and_then(|bounds| bounds.period).map(|steps| period_name(steps, meaning));
        Self { persons: unit != Unit::Event, period, replaced: neighbours == Neighbours::ReplaceOne }
    }

    /// In a table.
    pub fn brief(&self) -> String {
        let period = self.period.as_ref().map_or(String::new(), |period| format!(" in {period}"));
        format!("{}{period}{}", self.unit(), if self.replaced { ", replaced" } else { "" })
    }

    /// `person` or `event`.
    pub fn unit(&self) -> &'static str {
        if self.persons { "person" } else { "event" }
    }
}

/// A period in words: with the zone where that decides when it begins, and otherwise with the beginning that it counts
/// from.
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
