//! Streams that go on where their horizon ends.
//!
//! A plan needs a horizon, and a budget is spent over it. Where it is over, the next stream of the same declaration may
//! begin: from the end of the last step on, as many steps, the same unit, and a budget of its own, which adds to what
//! was spent for people whose events are in both. Its rows go on from the last that were released.

use super::table::Declaration;
use crate::error::{Result, usage};
use crate::records::Records;
use crate::settings::Settings;
use crate::steps::{Horizon, StepCalendar};
use evertally::noise::StreamName;

/// One stream behind the other, as far as a ledger knows them.
pub struct Stretches {
    /// The names, the last that of the stream that goes on now.
    pub names: Vec<StreamName>,
    /// The steps of each.
    pub calendars: Vec<StepCalendar>,
    declared: Declaration,
}

impl Declaration {
    /// The streams of this declaration that a ledger knows, one behind the other; where all steps of the last are
    /// published, `extend` opens another.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and if the name of a further stream is taken by something else.
    pub fn stretches(&self, records: &dyn Records, extend: bool) -> Result<Stretches> {
        // Without an end there is no further stream, and nothing is the last step.
        let all = (self.unbounded != Some(true)).then_some(true);
        let first = Self { through: None, all, ..self.clone() }.resolve()?;
        if extend {
            first.goes_on()?;
        }
        let mut stretches = Stretches {
            names: vec![first.name.clone()],
            calendars: vec![first.calendar.clone()],
            declared: self.clone(),
        };
        stretches.declared.title = Some(first.title.clone());
        loop {
            let (last, steps) = (stretches.name().clone(), first.calendar.steps());
            let next: StreamName = format!("{} #{}", first.name, stretches.names.len() + 1).parse().map_err(|_| {
                usage(format!("the name of stream `{}` is too long for another to follow it", first.name))
            })?;
            let follows = records.follows(&next).is_some_and(|follows| follows.stream == last.as_str());
            let opens = extend && records.last_published(&last) == steps;
            if !follows && !opens {
                return Ok(stretches);
            }
            if !follows && records.plan_text(&next).is_some() {
                return Err(usage(format!("the next stream would be `{next}`, and there is another of this name")));
            }
            stretches.push(next, &first)?;
            if !follows {
                return Ok(stretches);
            }
        }
    }
}

impl Settings {
    /// Whether another stream can go on from what this one releases last.
    ///
    /// # Errors
    /// If it does not release running sums alone.
    pub fn goes_on(&self) -> Result<()> {
        let (workload, several) = (self.request.workload(), self.request.mix().is_some());
        if workload.is_sum() && !several {
            return Ok(());
        }
        let what = if several { "several workloads do".into() } else { format!("`{workload}` does") };
        Err(usage(format!("{what} not go on from stream to stream as running sums do; declare a longer horizon")))
    }
}

impl Declaration {
    /// The declaration of the stream of this name that begins where the horizon of this one ends, `calendar`.
    ///
    /// # Errors
    /// If this one is none, or has no running sums.
    pub fn followed_by(&self, name: &StreamName, calendar: &StepCalendar) -> Result<Self> {
        let first = self.clone().resolve()?;
        first.goes_on()?;
        let start = calendar.end().timestamp().ok_or_else(|| usage("there is no time behind the last step"))?;
        Ok(Self {
            start: Some(start.to_string()),
            end: None,
            steps: Some(calendar.steps()),
            stream: Some(name.to_string()),
            title: Some(first.title),
            ..self.clone()
        })
    }
}

impl Stretches {
    fn push(&mut self, name: StreamName, first: &Settings) -> Result<()> {
        let (start, every, zone) = (self.calendar().end(), first.calendar.every(), first.calendar.zone().clone());
        let steps = Horizon::Steps(first.calendar.steps());
        let calendar = StepCalendar::new(start, steps, every, zone).map_err(|problem| usage(problem.sentence()))?;
        self.names.push(name);
        self.calendars.push(calendar);
        Ok(())
    }

    /// The name of the last.
    pub fn name(&self) -> &StreamName {
        self.names.last().expect("there is one")
    }

    /// The steps of the last.
    pub fn calendar(&self) -> &StepCalendar {
        self.calendars.last().expect("there is one")
    }

    /// How many steps all of them have.
    pub fn steps(&self) -> u64 {
        self.calendars.iter().map(StepCalendar::steps).sum()
    }

    /// The declaration of one, by its place from 0.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn declaration(&self, place: usize) -> Declaration {
        if place == 0 {
            return self.declared.clone();
        }
        let calendar = &self.calendars[place];
        let start = calendar.start().timestamp().expect("checked when the steps were laid out");
        Declaration {
            start: Some(start.to_string()),
            end: None,
            steps: Some(calendar.steps()),
            stream: Some(self.names[place].to_string()),
            ..self.declared.clone()
        }
    }
}
