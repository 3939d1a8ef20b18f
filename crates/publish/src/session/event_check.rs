//! Reads events as a release does, but reports events that it cannot use instead of ending: for the operator, before
//! anything is published. **Not private.**

use super::placer::{no_person, value};
use super::step_finder::{StepFinder, is_far, skip_or};
use super::sums::GroupAssigner;
use evertally::number::Grid;
use evertally::privacy::Unit;
use evertally_declare::error::{PipelineError, Result};
use evertally_declare::event::{ColumnRole, Event};
use evertally_declare::settings::Settings;
use evertally_declare::steps::{Instant, Precision};

/// Why a release would not count an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventRefusalReason {
    /// The filter leaves it out.
    LeftOut,
    /// Its time cannot be read.
    Time,
    /// The cell of its time, person or value is missing.
    Missing,
    /// Its time is a date, which is not within one step.
    Date,
    /// Its time is outside the horizon.
    Outside,
    /// Its group is not declared.
    Group,
    /// Its value or a cell of the filter cannot be read, or its value is outside the bounds.
    Value,
    /// Its person is a number that may have been rounded.
    Person,
}

/// An event that a release would not count.
#[derive(Debug)]
pub struct EventRefusal {
    /// Why.
    pub reason: EventRefusalReason,
    /// The message with which the release would end; `None` if the declared policies skip the event.
    pub error: Option<PipelineError>,
}

/// What a release would do with an event.
#[derive(Debug)]
pub struct CheckedEvent {
    /// Its time, if that can be read.
    pub time: Option<Instant>,
    /// Whether the time is a date without a time of day.
    pub is_date: bool,
    /// Its step, if it would be counted and a horizon is declared.
    pub step: Option<u64>,
    /// Why it would not be counted; `None` if it would.
    pub refusal: Option<EventRefusal>,
}

/// Reads events as a [`Placer`](super::Placer) does, without a plan and a key.
///
/// The order of the events and the bounds of persons are not checked.
pub struct EventCheck {
    settings: Settings,
    steps: StepFinder,
    groups: GroupAssigner,
    grid: Grid,
    has_horizon: bool,
    text: String,
}

impl EventCheck {
    /// A check under a declaration. Without `has_horizon`, its steps mean nothing, and every time fits.
    pub fn new(settings: Settings, has_horizon: bool) -> Self {
        let (steps, groups) = (StepFinder::new(&settings), GroupAssigner::from_settings(&settings));
        let grid = settings.request.grid();
        Self { settings, steps, groups, grid, has_horizon, text: String::new() }
    }

    /// The declaration.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether a time is so far from the horizon that a release refuses it even if it skips events outside.
    pub fn is_far(&self, time: Instant) -> bool {
        is_far(&self.settings.calendar, time)
    }

    /// Checks an event.
    pub fn check(&mut self, event: &Event<'_>) -> CheckedEvent {
        let mut checked = CheckedEvent { time: None, is_date: false, step: None, refusal: None };
        if let Err(reason) = self.fill(event, &mut checked) {
            checked.refusal = Some(reason);
        }
        checked
    }

    /// The identity of the event's person; `None` without one.
    pub fn person<'s>(&'s mut self, event: &Event<'s>) -> Option<&'s str> {
        event.identity(ColumnRole::Person, self.settings.ids, &mut self.text).ok().flatten()
    }

    fn fill(&mut self, event: &Event<'_>, checked: &mut CheckedEvent) -> Result<(), EventRefusal> {
        let Self { settings, steps, groups, grid, has_horizon, text } = self;
        let kept = settings.keeps(event).map(|keeps| keeps.then_some(())).map_err(PipelineError::from);
        let reason = if kept.is_err() { EventRefusalReason::Value } else { EventRefusalReason::LeftOut };
        found(kept, reason)?;
        let has_no_time = event.time().is_missing() || event.time_of_day().is_some_and(|clock| clock.is_missing());
        let reason = if has_no_time { EventRefusalReason::Missing } else { EventRefusalReason::Time };
        let time = found(steps.read(settings, event), reason)?;
        (checked.time, checked.is_date) = (Some(time.instant), time.precision != Precision::Time);
        if *has_horizon {
            let step = settings.calendar.step_of(time.instant);
            found(steps.check_width(settings, event, &time, step).map(Some), EventRefusalReason::Date)?;
            checked.step = Some(found(steps.found(settings, event, &time, step), EventRefusalReason::Outside)?);
        }
        let counted = (|| {
            let group = found(groups.group_of(settings, event), EventRefusalReason::Group)?;
            let missing = event.value().is_missing();
            let reason = if missing { EventRefusalReason::Missing } else { EventRefusalReason::Value };
            found(value(settings, groups.grid_in(*grid, &group), event), reason)?;
            if settings.enforced() == Unit::Event {
                return Ok(());
            }
            let name = event.identity(ColumnRole::Person, settings.ids, text);
            match name.map_err(PipelineError::from) {
                Ok(Some(_)) => Ok(()),
                Ok(None) => found(skip_or(settings.missing, || no_person(event)), EventRefusalReason::Missing),
                Err(error) => found(Err(error), EventRefusalReason::Person),
            }
        })();
        if counted.is_err() {
            checked.step = None;
        }
        counted
    }
}

/// The found part; or the reason why there is none: an error, or a policy that skips the event.
fn found<T>(found: Result<Option<T>>, reason: EventRefusalReason) -> Result<T, EventRefusal> {
    match found {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(EventRefusal { reason, error: None }),
        Err(error) => Err(EventRefusal { reason, error: Some(error) }),
    }
}
