//! The extent of a horizon, and why it cannot be cut into steps.

use std::fmt;

use jiff::tz::TimeZone;

use super::Instant;
use crate::parameter::Parameter;
use crate::problem::{Sentence, sentence};

/// The maximum number of steps of a horizon.
pub const MAX_STEPS: u64 = 1 << 40;

/// The extent of a horizon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// Until this instant (exclusive), at which a step must end.
    Until(Instant),
    /// For this many steps.
    Steps(u64),
    /// Without an end; the calendar is laid out for 400 years.
    Endless,
}

/// Why a horizon cannot be cut into steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalendarError {
    /// The horizon is empty or goes backwards.
    EndNotAfterStart {
        /// Declared start.
        start: Instant,
        /// Declared end.
        end: Instant,
    },
    /// The last step would be cut off.
    EndInsideStep {
        /// Declared end.
        end: Instant,
        /// Last end of a step before it, if any.
        before: Option<Instant>,
        /// First end of a step after it.
        after: Instant,
        /// Zone in which the message writes times.
        zone: TimeZone,
    },
    /// Zero steps.
    NoSteps,
    /// More than [`MAX_STEPS`].
    TooMany(u64),
    /// The end is after the year 9999, or the start before the year -9999.
    BeyondCalendar,
}

impl CalendarError {
    /// The problem and its remedy.
    pub fn sentence(&self) -> Sentence {
        match self {
            CalendarError::EndNotAfterStart { start, end } => {
                let ends = format!("the horizon ends at {end}, which is not after its start {start}; give a later ");
                sentence![ends, Parameter::End]
            }
            CalendarError::EndInsideStep { end, before, after, zone } => {
                let local = |instant: &Instant| {
                    let mut text = String::new();
                    instant.write_in(zone, &mut text);
                    text
                };
                let before = before.as_ref().map_or(String::new(), |before| format!("{} and ", local(before)));
                format!(
                    "the horizon ends at {}, in the middle of a step; the nearest ends of steps are {before}{}",
                    local(end),
                    local(after)
                )
                .into()
            }
            CalendarError::NoSteps => "the horizon has no steps; give at least one".into(),
            CalendarError::TooMany(steps) => {
                format!("the horizon has {steps} steps, but at most 2^40 are possible; make steps wider").into()
            }
            CalendarError::BeyondCalendar => {
                "the horizon leaves the calendar (years -9999 to 9999); give fewer or narrower steps".into()
            }
        }
    }
}

impl fmt::Display for CalendarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sentence().fmt(f)
    }
}

impl std::error::Error for CalendarError {}
