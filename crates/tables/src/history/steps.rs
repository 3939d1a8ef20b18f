//! The steps of a released table, and intervals between them.

use super::rows::HistoryVisitor;
use evertally::plan::Plan;
use evertally_declare::error::{Result, usage};
use evertally_declare::event::{Columns, Event};
use evertally_declare::publication::row_every;
use evertally_declare::steps::{CalendarSpec, Every, Instant, StepCalendar, TimeFormat, TimeParser, Zone};
use evertally_declare::words::quoted;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The steps that occur in a table.
pub(super) struct TableSteps {
    /// The start of each step, as a time and as written in the table.
    starts: BTreeMap<u64, (Instant, String)>,
    /// The end of the last step, if the plan defines it.
    end: Option<(Instant, String)>,
    zone: Zone,
}

impl TableSteps {
    /// Collected in one pass over all rows.
    pub(super) fn read(rows: &HistoryVisitor<'_>, plan: &Plan) -> Result<Self> {
        let meaning = plan.request().meaning();
        let zone = meaning.get("time-zone").and_then(|name| name.parse().ok()).unwrap_or_else(Zone::utc);
        let mut parser = TimeParser::new(TimeFormat::Auto, zone.clone());
        let columns = Columns { time: "time".into(), labels: vec!["step".into()], ..Columns::default() };
        let mut starts = BTreeMap::new();
        rows(&columns, &mut |event| {
            let step = step_of(event)?;
            if let Entry::Vacant(free) = starts.entry(step) {
                free.insert((parser.parse_event(event)?, event.time().to_string()));
            }
            Ok(())
        })?;
        let Some((last, (start, _))) = starts.last_key_value() else {
            return Err(usage("the table has no rows"));
        };
        let end = calendar(plan, &zone).and_then(|calendar| {
            // For streams that follow each other, the plan is that of the last stream.
            let step = (last - 1) % plan.horizon() + 1;
            let end = calendar.end_of(step);
            (calendar.start_of(step) == *start).then(|| (end, calendar.format(end)))
        });
        Ok(Self { starts, end, zone })
    }

    fn last(&self) -> u64 {
        self.starts.last_key_value().map_or(0, |(last, _)| *last)
    }

    /// The step before a stretch, and its last step.
    pub(super) fn stretch(&self, from: Option<&str>, to: Option<&str>) -> Result<[u64; 2]> {
        let after = match from {
            None => 0,
            Some(text) => match whole(text) {
                Some(step) => step.checked_sub(1).ok_or_else(|| usage("steps count from 1"))?,
                None => self.before(text)?,
            },
        };
        let through = match to {
            None => self.last(),
            Some(text) => whole(text).map_or_else(|| self.before(text), Ok)?,
        };
        if after >= through {
            let [first, last] = [after + 1, through];
            return Err(usage(format!("the stretch from step {first} to step {last} is empty; swap its ends")));
        }
        if through > self.last() {
            return Err(usage(format!("the table ends with step {}, but step {through} was requested", self.last())));
        }
        Ok([after, through])
    }

    /// The last step that has ended by a time at which a step begins or ends.
    fn before(&self, text: &str) -> Result<u64> {
        let mut parser = TimeParser::new(TimeFormat::Auto, self.zone.clone());
        let time = parser.parse_text(text).map_err(|error| usage(format!("{}: {error}", quoted(text))))?;
        if let Some((step, _)) = self.starts.iter().find(|(_, (start, _))| *start == time) {
            return Ok(step - 1);
        }
        if self.end.as_ref().is_some_and(|(end, _)| *end == time) {
            return Ok(self.last());
        }
        let near = self.starts.values().rev().find(|(start, _)| *start < time);
        let near = near.or_else(|| self.starts.values().next()).map_or("", |(_, text)| text);
        let end = self.end.as_ref().map_or(String::new(), |(_, end)| format!(", and the table ends at {end}"));
        let problem = format!("no step begins or ends at {}; the nearest one begins at {near}{end}", quoted(text));
        Err(usage(format!("{problem}. Step numbers are accepted, too")))
    }

    /// The start and end of a stretch.
    pub(super) fn times(&self, [after, through]: [u64; 2]) -> [String; 2] {
        let start = |step: u64| self.starts.get(&step).map(|(_, text)| text.clone());
        let number = |step: u64| format!("step {step}");
        let end = start(through + 1).or_else(|| self.end.as_ref().map(|(_, text)| text.clone()));
        [start(after + 1).unwrap_or_else(|| number(after + 1)), end.unwrap_or_else(|| number(through))]
    }
}

/// The step number of a row, which is its first label.
pub(super) fn step_of(event: &Event<'_>) -> Result<u64> {
    let text = event.labels().next().map(|label| label.to_string()).unwrap_or_default();
    let step = text.parse().ok().filter(|step| *step > 0);
    step.ok_or_else(|| usage(format!("invalid step {} in the table", quoted(&text))))
}

fn whole(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn calendar(plan: &Plan, zone: &Zone) -> Option<StepCalendar> {
    let meaning = plan.request().meaning();
    let start = meaning.get("start")?.parse().ok()?;
    let every: Every = meaning.get("every")?.parse().ok()?;
    let publish = meaning.get("publish").map_or(Some(every), |publish| row_every(every, publish.parse().ok()?))?;
    StepCalendar::from_spec(&CalendarSpec { start, steps: plan.horizon(), every: publish, zone: zone.clone() }).ok()
}
