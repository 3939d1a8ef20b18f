//! The available measures and their textual form.

use crate::as_text::serde_as_text;
use crate::reading::{Read, Reading, with_weight};
use crate::steps::Every;
use crate::words::quoted;
use evertally::mechanism::Workload;
use std::fmt;
use std::str::FromStr;

/// One measure of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// The number of events.
    Count,
    /// The sum of their values.
    Sum,
    /// Their mean value.
    Mean,
    /// The variance of their values: the mean squared distance from the mean.
    Variance,
    /// The standard deviation: the root of the variance.
    Deviation,
    /// The number of different people who had an event.
    Distinct,
    /// The number of people who had an event within the last steps, by their number.
    Active(u64),
    /// The number of people who had an event within a time span, which is converted to steps.
    Within(Every),
    /// The number of events in each bin of values; the bins are cut at these values, which belong to the upper bin.
    Histogram(Vec<String>),
    /// The value that this share of the values does not exceed.
    Quantile(f64),
    /// The count or sum itself, as a workload reads it: the declared workload, and the workload in steps.
    Workload(Reading, Workload),
}

/// A measure and the weight of its precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The measure.
    pub measure: Measure,
    /// The weight of its variance among those of the other measures, each in units of its variance under the whole
    /// budget; 1 by default.
    pub weight: f64,
}

impl Wanted {
    /// The workloads as measures, if there are several; none for a single workload, which needs no measures.
    pub(crate) fn each_of(read: &Read) -> Vec<Self> {
        let Read(workloads) = read;
        if workloads.len() <= 1 {
            return Vec::new();
        }
        let wanted = workloads
            .iter()
            .map(|(own, workload)| Self { measure: Measure::Workload(own.reading, *workload), weight: own.weight });
        wanted.collect()
    }
}

impl Measure {
    /// Whether it uses the values of events.
    pub fn needs_values(&self) -> bool {
        !matches!(self, Self::Count | Self::Distinct | Self::Active(_) | Self::Within(_) | Self::Workload(..))
    }

    /// Whether it counts people.
    pub fn needs_persons(&self) -> bool {
        matches!(self, Self::Distinct | Self::Active(_) | Self::Within(_))
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count => f.write_str("count"),
            Self::Sum => f.write_str("sum"),
            Self::Mean => f.write_str("mean"),
            Self::Variance => f.write_str("variance"),
            Self::Deviation => f.write_str("std"),
            Self::Distinct => f.write_str("distinct"),
            Self::Active(steps) => write!(f, "distinct({steps})"),
            Self::Within(time) => write!(f, "distinct({time})"),
            Self::Histogram(cuts) => write!(f, "histogram({})", cuts.join(",")),
            Self::Quantile(share) => write!(f, "quantile({share})"),
            Self::Workload(reading, _) => reading.fmt(f),
        }
    }
}

/// A boundary between two bins, as a decimal text.
fn cut(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(text.to_owned()),
        _ => Err(format!("{} is not a number at which to cut bins", quoted(text))),
    }
}

const KNOWN: &str = "count, sum, mean, variance, std, distinct, distinct(WIDTH), histogram(CUT,…), quantile(SHARE)";

impl FromStr for Measure {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, inside) = match text.split_once('(') {
            Some((name, rest)) => {
                let inside = rest.strip_suffix(')').ok_or_else(|| format!("{} lacks a `)`", quoted(text)))?;
                (name.trim(), Some(inside))
            }
            None => (text, None),
        };
        Ok(match (name, inside) {
            ("count", None) => Self::Count,
            ("sum", None) => Self::Sum,
            ("mean", None) => Self::Mean,
            ("variance", None) => Self::Variance,
            ("std", None) => Self::Deviation,
            ("distinct", None) => Self::Distinct,
            ("distinct", Some(steps)) => {
                let window = steps.trim().parse().ok().filter(|steps| *steps > 0);
                match (window, steps.parse::<Every>()) {
                    (Some(window), _) => Self::Active(window),
                    (None, Ok(time)) => Self::Within(time),
                    _ => return Err(format!("{} is neither a number of steps nor a time such as 7d", quoted(steps))),
                }
            }
            ("histogram", Some(cuts)) => Self::Histogram(cuts.split(',').map(cut).collect::<Result<_, _>>()?),
            ("quantile", Some(share)) => {
                let number = share.trim().parse().ok().filter(|share| *share > 0.0 && *share < 1.0);
                Self::Quantile(number.ok_or_else(|| format!("{} is not a share between 0 and 1", quoted(share)))?)
            }
            _ => return Err(format!("{} is not one of {KNOWN}", quoted(text))),
        })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.weight == 1.0 { self.measure.fmt(f) } else { write!(f, "{}*{}", self.measure, self.weight) }
    }
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (measure, weight) = with_weight(text)?;
        Ok(Self { measure: measure.parse()?, weight })
    }
}

serde_as_text!(Wanted);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_read_as_they_are_written() {
        for text in [
            "count",
            "sum",
            "mean*4",
            "variance*0.5",
            "std",
            "distinct",
            "distinct(7)",
            "distinct(7d)",
            "histogram(-5,0,1.5)",
            "quantile(0.95)*2",
        ] {
            assert_eq!(text.parse::<Wanted>().unwrap().to_string(), text);
        }
        assert_eq!(" mean * 2".parse::<Wanted>().unwrap().to_string(), "mean*2");
        for wrong in [
            "",
            "average",
            "mean*0",
            "mean*-1",
            "mean*x",
            "mean(3)",
            "distinct(0)",
            "distinct(x)",
            "distinct(7",
            "quantile",
            "quantile(1)",
            "quantile(nan)",
            "histogram",
            "histogram()",
            "histogram(1,,2)",
            "histogram(a)",
        ] {
            assert!(wrong.parse::<Wanted>().is_err(), "{wrong}");
        }
        assert!("average".parse::<Wanted>().unwrap_err().contains("quantile(SHARE)"));
    }
}
