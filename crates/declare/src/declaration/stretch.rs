//! Streams that continue after the end of their horizon.
//!
//! A plan needs a horizon, and a budget is spent over it. When it is over, the next stream of the same declaration may
//! begin at the end of the last step, with as many steps, the same unit and a separate budget. For people whose events
//! are in both streams, the two budgets add up. Its rows continue from the last released ones.

use super::table::Declaration;
use crate::error::{Result, usage};
use crate::records::Records;
use crate::settings::Settings;
use crate::steps::{Horizon, StepCalendar};
use evertally::noise::StreamName;

/// Consecutive streams, as far as a ledger knows them.
pub struct Stretches {
    /// The names; the last one is that of the current stream.
    pub names: Vec<StreamName>,
    /// The steps of each stream.
    pub calendars: Vec<StepCalendar>,
    declared: Declaration,
}

impl Declaration {
    /// The streams of this declaration that a ledger knows, in order. If all steps of the last one are published,
    /// `extend` opens another.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve), and if the name of a further stream is already used by an unrelated one.
    pub fn stretches(&self, records: &dyn Records, extend: bool) -> Result<Stretches> {
        // An unbounded stream has no successor and no last step.
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
                usage(format!("the name of stream `{}` is too long for a stream that follows it", first.name))
            })?;
            let follows = records.follows(&next).is_some_and(|follows| follows.stream == last.as_str());
            let opens = extend && records.last_published(&last) == steps;
            if !follows && !opens {
                return Ok(stretches);
            }
            if !follows && records.plan_text(&next).is_some() {
                return Err(usage(format!(
                    "the next stream would be named `{next}`, but another stream has this name"
                )));
            }
            stretches.push(next, &first)?;
            if !follows {
                return Ok(stretches);
            }
        }
    }
}

impl Settings {
    /// Checks that another stream can continue from the last values of this one.
    ///
    /// # Errors
    /// If it releases anything other than running sums.
    pub fn goes_on(&self) -> Result<()> {
        let (workload, several) = (self.request.workload(), self.request.mix().is_some());
        if workload.is_sum() && !several {
            return Ok(());
        }
        let what = if several { "several workloads".into() } else { format!("`{workload}`") };
        Err(usage(format!("{what} cannot continue from stream to stream as running sums do; declare a longer horizon")))
    }
}

impl Declaration {
    /// The declaration of the stream of this name that begins where the horizon of this one ends, `calendar`.
    ///
    /// # Errors
    /// If this declaration is invalid, or does not release running sums.
    pub fn next_stream(&self, name: &StreamName, calendar: &StepCalendar) -> Result<Self> {
        let first = self.clone().resolve()?;
        first.goes_on()?;
        let start = calendar.end().timestamp().ok_or_else(|| usage("there is no time after the last step"))?;
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

    /// The name of the last stream.
    pub fn name(&self) -> &StreamName {
        self.names.last().expect("there is one")
    }

    /// The steps of the last stream.
    pub fn calendar(&self) -> &StepCalendar {
        self.calendars.last().expect("there is one")
    }

    /// The total number of steps.
    pub fn steps(&self) -> u64 {
        self.calendars.iter().map(StepCalendar::steps).sum()
    }

    /// The declaration of a stream, by its place from 0.
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
