//! Groups that joined a stream after it had begun: their counts begin later than those of the others.

use evertally::noise::StreamName;
use evertally_declare::declaration::Present;
use evertally_declare::groups::{GroupTable, LaterGroups};
use evertally_declare::records::Records;
use evertally_declare::steps::{Instant, StepCalendar};
use evertally_declare::stream::Stream;
use std::collections::BTreeMap;

/// The groups whose counts begin after the first step, by their beginning. `present` is the number of groups that are
/// released already; those after them join with the next step.
pub fn later_groups(
    stream: &Stream,
    groups: &GroupTable,
    present: Option<Present>,
    records: &dyn Records,
) -> Vec<LaterGroups> {
    let mut by_start: BTreeMap<Instant, Vec<Vec<String>>> = BTreeMap::new();
    for (place, group) in groups.tuples().iter().enumerate() {
        let joins_now = present.is_some_and(|present| place >= present.present);
        if let Some(start) = start_of(stream, group, joins_now, records) {
            by_start.entry(start).or_default().push(group.clone());
        }
    }
    let later = |(start, groups)| LaterGroups { since: stream.calendar.in_words(start), groups };
    by_start.into_iter().map(later).collect()
}

/// The beginning of a group's count; `None` if it is that of the first stream.
fn start_of(stream: &Stream, group: &[String], joins_now: bool, records: &dyn Records) -> Option<Instant> {
    let mut name = stream.name.clone();
    let mut calendar = stream.calendar.clone();
    let mut follows = stream.follows.as_ref();
    let start_after = |calendar: &StepCalendar, step: u64, is_first: bool| {
        let start = (step < calendar.steps()).then(|| calendar.start_of(step + 1));
        start.filter(|_| step > 0 || !is_first)
    };
    if joins_now {
        return start_after(&calendar, records.last_published(&name), follows.is_none());
    }
    loop {
        if let Some(joined) = records.joined(&name).iter().find(|joined| joined.groups.iter().any(|own| own == group)) {
            return start_after(&calendar, joined.after, follows.is_none());
        }
        let before = follows?;
        if !before.carried.iter().any(|carried| carried.group == group) {
            return Some(calendar.start());
        }
        name = before.stream.parse::<StreamName>().ok()?;
        follows = records.follows(&name);
        calendar = calendar.preceding()?;
    }
}
