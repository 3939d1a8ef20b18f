//! Declared workloads: the quantities published at every step, with widths in steps or in time.

use crate::as_text::serde_as_text;
use crate::problem::{Problem, sentence};
use crate::steps::{Every, StepUnit};
use crate::words::quoted;
use evertally::mechanism::{Mix, Workload};
use evertally::plan::PlanRequest;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A workload whose window or half-life may be a time, such as `window(7d)`.
///
/// ```
/// use evertally::mechanism::Workload;
/// use evertally_declare::reading::Reading;
/// let week: Reading = "window(7d)".parse()?;
/// assert_eq!(week.in_steps(Some("1h".parse().unwrap())).unwrap(), Workload::Window(168));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A workload in steps.
    Steps(Workload),
    /// A window of a time span.
    Window(Every),
    /// A decay whose half-life is a time span.
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
        let parameter = crate::parameter::Parameter::Workload;
        let refuse = |why: String, remedy: &'static str| {
            Err(Problem::for_parameter(parameter, sentence![parameter, format!(" {self}: {why}")]).remedy(remedy))
        };
        let Some(every) = every else {
            return refuse("there is no calendar here".into(), "give a number of steps");
        };
        match (length(time), length(every)) {
            (Some((months, false)), Some((_, true))) if months > 0 => {
                refuse(format!("months differ in their number of steps of {every}"), "give a number of steps")
            }
            (Some((time_length, time_elapsed)), Some((step, step_elapsed)))
                if time_elapsed == step_elapsed && time_length.is_multiple_of(step) =>
            {
                Ok(of(time_length / step))
            }
            _ => refuse(format!("it is not a whole number of steps of {every}"), "give a number of steps"),
        }
    }
}

/// A width in seconds, or in months.
fn length(every: Every) -> Option<(u64, bool)> {
    let (unit, is_elapsed) = match every.unit() {
        StepUnit::Second => (1, true),
        StepUnit::Minute => (60, true),
        StepUnit::Hour => (3600, true),
        StepUnit::Day => (86_400, true),
        StepUnit::Week => (7 * 86_400, true),
        StepUnit::Month => (1, false),
        StepUnit::Year => (12, false),
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
                "{} is not one of sum, window(W), decay(H), increments, where W and H are numbers of steps or times \
                 such as 7d",
                quoted(text)
            )),
        }
    }
}

/// A workload and the weight of its precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WeightedReading {
    /// The published workload.
    pub reading: Reading,
    /// The weight of its variance among those of the other workloads, each in units of its least possible value; 1 by
    /// default.
    pub weight: f64,
}

/// The workloads published at every step: one, or several that are read together.
///
/// ```
/// use evertally_declare::reading::Workloads;
/// # use std::collections::BTreeMap;
/// let text = "one = 'window(7d)'\nmore = ['sum', 'window(7d)*2']";
/// let read: BTreeMap<String, Workloads> = toml::from_str(text).unwrap();
/// assert_eq!((read["one"].0.len(), read["more"].0.len()), (1, 2));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workloads(pub Vec<WeightedReading>);

impl Workloads {
    /// Whether running sums alone are published.
    pub fn is_sum(&self) -> bool {
        self.0.iter().all(|own| own.reading == Reading::Steps(Workload::Sum))
    }
}

/// One workload, as in a flag.
impl FromStr for Workloads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(vec![text.parse()?]))
    }
}

impl fmt::Display for WeightedReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.weight == 1.0 { self.reading.fmt(f) } else { write!(f, "{}*{}", self.reading, self.weight) }
    }
}

impl FromStr for WeightedReading {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (reading, weight) = with_weight(text)?;
        Ok(Self { reading: reading.parse()?, weight })
    }
}

/// A text without the weight that follows it, and the weight.
pub(crate) fn with_weight(text: &str) -> Result<(&str, f64), String> {
    let Some((what, weight)) = text.rsplit_once('*') else { return Ok((text, 1.0)) };
    let number = weight.trim().parse().ok().filter(|weight| *weight > 0.0 && *weight < 1e12);
    Ok((what, number.ok_or_else(|| format!("{} is not a weight above 0", quoted(weight)))?))
}

/// The workloads in slots, which are steps by default; empty for running sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Read(pub Vec<(WeightedReading, Workload)>);

impl Read {
    /// The workload, if there is only one.
    pub fn one(&self) -> Option<Workload> {
        match self.0.as_slice() {
            [] => Some(Workload::Sum),
            [(_, workload)] => Some(*workload),
            _ => None,
        }
    }

    /// The request with these workloads.
    ///
    /// # Errors
    /// If several of them cannot be combined.
    pub fn of(&self, request: PlanRequest) -> Result<PlanRequest, Problem> {
        if let Some(one) = self.one() {
            return Ok(request.with_workload(one));
        }
        let weighed: Vec<_> = self.0.iter().map(|(own, workload)| (*workload, own.weight)).collect();
        let parameter = crate::parameter::Parameter::Workload;
        let mix = Mix::new(&weighed);
        let mix = mix.map_err(|error| Problem::for_parameter(parameter, sentence![parameter, format!(": {error}")]))?;
        Ok(request.with_mix(mix))
    }
}

/// One as a text, several as a list.
impl Serialize for Workloads {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => serializer.collect_str(one),
            several => serializer.collect_seq(several.iter().map(ToString::to_string)),
        }
    }
}

impl<'de> Deserialize<'de> for Workloads {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            One(String),
            Many(Vec<String>),
        }
        let texts = match Written::deserialize(deserializer)? {
            Written::One(text) => vec![text],
            Written::Many(texts) => texts,
        };
        texts.iter().map(|text| text.parse()).collect::<Result<_, _>>().map(Self).map_err(serde::de::Error::custom)
    }
}

serde_as_text!(Reading);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_are_a_list() {
        let read = |text: &str| serde_json::from_str::<Workloads>(text);
        for text in [r#""window(7d)""#, r#"["sum","window(7d)*4"]"#, r#"["decay(3)*0.5","increments"]"#] {
            assert_eq!(serde_json::to_string(&read(text).unwrap()).unwrap(), text);
        }
        for wrong in [r#""window""#, r#"["sum", "sum*0"]"#, r#"["sum*x"]"#, "7"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_whole_numbers_of_steps() {
        let steps = |reading: &str, every: &str| {
            reading
                .parse::<Reading>()
                .unwrap()
                .in_steps(Some(every.parse().unwrap()))
                .map_err(|problem| problem.worded(crate::problem::Wording::Flags).clone())
        };
        assert_eq!(steps("window(7d)", "1d").unwrap(), Workload::Window(7));
        assert_eq!(steps("window(4w)", "1w").unwrap(), Workload::Window(4));
        assert_eq!(steps("decay(1w)", "1h").unwrap(), Workload::Decay(168));
        assert_eq!(steps("window(1y)", "1mo").unwrap(), Workload::Window(12));
        assert_eq!(steps("window(5)", "1mo").unwrap(), Workload::Window(5));
        assert!(steps("window(1mo)", "1d").unwrap_err().contains("month"));
        assert!(steps("window(90m)", "1h").unwrap_err().contains("whole number"));
        assert!("window(7d)".parse::<Reading>().unwrap().in_steps(None).is_err());
        assert!("window(d)".parse::<Reading>().unwrap_err().contains("is not one of"));
        assert!("windows(7)".parse::<Reading>().is_err());
    }
}
