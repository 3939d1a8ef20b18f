//! What is published at every step, as it is declared: widths in steps or in time.

use crate::problem::{Problem, sentence};
use crate::steps::{Every, Unit};
use crate::words::quoted;
use evertally::mechanism::Workload;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A workload whose window or half-life may be a time, such as `window(7d)`.
///
/// ```
/// use evertally::mechanism::Workload;
/// use evertally_publish::reading::Reading;
/// let week: Reading = "window(7d)".parse()?;
/// assert_eq!(week.in_steps(Some("1h".parse().unwrap())).unwrap(), Workload::Window(168));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// In steps.
    Steps(Workload),
    /// A window of a time.
    Window(Every),
    /// A half-life.
    Decay(Every),
}

impl Default for Reading {
    fn default() -> Self {
        Self::Steps(Workload::Sum)
    }
}

impl Reading {
    /// The workload in steps of this width; without one, times are refused.
    ///
    /// # Errors
    /// If the time is not a whole number of steps, or not the same number everywhere.
    pub fn in_steps(self, every: Option<Every>) -> Result<Workload, Problem> {
        let (time, of): (Every, fn(u64) -> Workload) = match self {
            Self::Steps(workload) => return Ok(workload),
            Self::Window(time) => (time, Workload::Window),
            Self::Decay(time) => (time, Workload::Decay),
        };
        let parameter = crate::declaration::Parameter::Workload;
        let refuse = |why: String, remedy: &'static str| {
            Err(Problem::of(parameter, sentence![parameter, format!(" {self}: {why}")]).remedy(remedy))
        };
        let Some(every) = every else {
            return refuse("there is no calendar here".into(), "say how many steps it has");
        };
        match (length(time), length(every)) {
            (Some((months, false)), Some((_, true))) if months > 0 => {
                refuse(format!("steps of {every} are not as many in every month"), "say how many steps it has")
            }
            (Some((time_length, time_elapsed)), Some((step, step_elapsed)))
                if time_elapsed == step_elapsed && time_length.is_multiple_of(step) =>
            {
                Ok(of(time_length / step))
            }
            _ => refuse(format!("it is not a whole number of steps of {every}"), "say how many steps it has"),
        }
    }
}

/// A width in seconds, or in months.
fn length(every: Every) -> Option<(u64, bool)> {
    let (unit, is_elapsed) = match every.unit() {
        Unit::Second => (1, true),
        Unit::Minute => (60, true),
        Unit::Hour => (3600, true),
        Unit::Day => (86_400, true),
        Unit::Week => (7 * 86_400, true),
        Unit::Month => (1, false),
        Unit::Year => (12, false),
    };
    u64::from(every.count()).checked_mul(unit).map(|length| (length, is_elapsed))
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(workload) => workload.fmt(f),
            Self::Window(time) => write!(f, "window({time})"),
            Self::Decay(time) => write!(f, "decay({time})"),
        }
    }
}

impl FromStr for Reading {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let timed = |stem: &str| {
            let inside = text.trim().strip_prefix(stem)?.trim_start().strip_prefix('(')?.strip_suffix(')')?;
            inside.parse::<Every>().ok()
        };
        match (text.parse::<Workload>(), timed("window"), timed("decay")) {
            (Ok(workload), ..) => Ok(Self::Steps(workload)),
            (_, Some(time), _) => Ok(Self::Window(time)),
            (_, _, Some(time)) => Ok(Self::Decay(time)),
            (Err(problem), ..) if text.contains('(') && text.trim().ends_with("(0)") => Err(problem.to_string()),
            _ => Err(format!(
                "{} is none of sum, window(W), decay(H), increments, where W and H are numbers of steps or times such as 7d",
                quoted(text)
            )),
        }
    }
}

impl Serialize for Reading {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reading {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_numbers_of_steps() {
        let steps = |reading: &str, every: &str| {
            reading
                .parse::<Reading>()
                .unwrap()
                .in_steps(Some(every.parse().unwrap()))
                .map_err(|problem| problem.worded(crate::problem::Wording::Flags).to_string())
        };
        assert_eq!(steps("window(7d)", "1d").unwrap(), Workload::Window(7));
        assert_eq!(steps("window(4w)", "1w").unwrap(), Workload::Window(4));
        assert_eq!(steps("decay(1w)", "1h").unwrap(), Workload::Decay(168));
        assert_eq!(steps("window(1y)", "1mo").unwrap(), Workload::Window(12));
        assert_eq!(steps("window(5)", "1mo").unwrap(), Workload::Window(5));
        assert!(steps("window(1mo)", "1d").unwrap_err().contains("month"));
        assert!(steps("window(90m)", "1h").unwrap_err().contains("whole number"));
        assert!("window(7d)".parse::<Reading>().unwrap().in_steps(None).is_err());
        assert!("window(d)".parse::<Reading>().unwrap_err().contains("none of"));
        assert!("windows(7)".parse::<Reading>().is_err());
    }
}
