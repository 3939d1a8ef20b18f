//! The published query at every step: the sum of all events so far, of those in a window, or one in which they fade.

use super::MAX_HORIZON;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which linear query of the step totals is published at every step.
///
/// All are lower triangular Toeplitz matrices `W`: the release of step `t` is `Σ_j w_j x_{t-j}`, and `W` replaces the
/// prefix sums `A` in every factorization.
///
/// ```
/// use evertally::mechanism::Workload;
/// let week: Workload = "window(7)".parse()?;
/// assert_eq!(week, Workload::Window(7));
/// assert_eq!(week.to_string(), "window(7)");
/// assert_eq!("sum".parse::<Workload>()?, Workload::Sum);
/// assert!("window(0)".parse::<Workload>().is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Workload {
    /// All events so far: `w_j = 1`.
    #[default]
    Sum,
    /// Events of the last N steps, including the step itself: `w_j = 1` for `j` below the width N.
    Window(u64),
    /// The weight of an event halves every N steps: `w_j = λ^j` with `λ = 2^(-1/half-life)`, rounded to a multiple of
    /// `2^-30`.
    Decay(u64),
    /// Events of the step alone: `w_0 = 1`.
    Increments,
}

/// Bits of the factor of a decay.
pub(in crate::mechanism) const DECAY_BITS: u32 = 30;
/// The longest half-life: the factor differs from 1 by 700 of its units, so it is accurate to 0.07 %.
const MAX_HALF_LIFE: u64 = 1 << 20;

impl Workload {
    /// Whether it is the running sum.
    pub fn is_sum(self) -> bool {
        self == Self::Sum
    }

    /// Maximum number of steps that one release reads; the whole horizon for sums and decays.
    pub fn reach(self, horizon: u64) -> u64 {
        match self {
            Self::Sum | Self::Decay(_) => horizon,
            Self::Window(width) => width.min(horizon),
            Self::Increments => 1,
        }
    }

    /// The same query on a stream of this length: a window at least as long as the horizon is the running sum, and a
    /// window of a single step is the increments.
    #[must_use]
    pub fn over(self, horizon: u64) -> Self {
        match self {
            Self::Window(1) => Self::Increments,
            Self::Window(width) if width >= horizon => Self::Sum,
            Self::Increments if horizon == 1 => Self::Sum,
            other => other,
        }
    }

    /// `λ` of a decay in units of `2^-30`.
    pub(in crate::mechanism) fn decay_factor(half_life: u64) -> u64 {
        let factor = libm::exp2(-1.0 / half_life as f64) * f64::from(1 << DECAY_BITS);
        libm::round(factor) as u64 // fits: below 2^30
    }

    /// `λ` of a decay.
    pub(crate) fn decay(half_life: u64) -> f64 {
        Self::decay_factor(half_life) as f64 / f64::from(1 << DECAY_BITS)
    }

    /// `w_j`.
    #[cfg(test)]
    pub(crate) fn coefficient(self, lag: u64) -> f64 {
        match self {
            Self::Sum => 1.0,
            Self::Window(width) => f64::from(u8::from(lag < width)),
            Self::Decay(half_life) => libm::pow(Self::decay(half_life), lag as f64),
            Self::Increments => f64::from(u8::from(lag == 0)),
        }
    }

    /// A description of the published query that follows a number of events.
    ///
    /// ```
    /// # use evertally::mechanism::Workload;
    /// assert_eq!(Workload::Window(7).in_words(), "in the last 7 steps");
    /// ```
    pub fn in_words(self) -> String {
        match self {
            Self::Sum => "so far".into(),
            Self::Window(1) | Self::Increments => "in the step".into(),
            Self::Window(width) => format!("in the last {width} steps"),
            Self::Decay(half_life) => format!("so far, each counting half after every {half_life} steps"),
        }
    }

    fn checked(self) -> Result<Self> {
        match self {
            Self::Window(width) if !(1..=MAX_HORIZON).contains(&width) => {
                Err(Error::invalid(format!("a window must have 1 to 2^62 steps, got {width}")))
            }
            Self::Decay(half_life) if !(1..=MAX_HALF_LIFE).contains(&half_life) => Err(Error::invalid(format!(
                "the half-life of a decay must be 1 to {MAX_HALF_LIFE} steps, got {half_life}"
            ))),
            checked => Ok(checked),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sum => write!(f, "sum"),
            Self::Window(width) => write!(f, "window({width})"),
            Self::Decay(half_life) => write!(f, "decay({half_life})"),
            Self::Increments => write!(f, "increments"),
        }
    }
}

impl FromStr for Workload {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!(
                "a workload is sum, window(W), decay(HALF-LIFE) or increments, with numbers of steps; got `{text}`"
            ))
        };
        let number = |stem: &str| {
            let inside = text.strip_prefix(stem)?.trim_start().strip_prefix('(')?.trim_end().strip_suffix(')')?;
            Some(inside.trim().parse::<u64>().map_err(|_| wrong()))
        };
        match text.trim() {
            "sum" => Ok(Self::Sum),
            "increments" => Ok(Self::Increments),
            _ => match (number("window"), number("decay")) {
                (Some(width), _) => Self::Window(width?).checked(),
                (_, Some(half_life)) => Self::Decay(half_life?).checked(),
                _ => Err(wrong()),
            },
        }
    }
}

impl TryFrom<String> for Workload {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Workload> for String {
    fn from(workload: Workload) -> Self {
        workload.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_go_both_ways() {
        for text in ["sum", "window(7)", "decay(30)", "increments"] {
            assert_eq!(text.parse::<Workload>().unwrap().to_string(), text);
        }
        for text in ["", "window", "window()", "window(-1)", "window(0)", "decay(0)", "decay(1.5)", "sum(3)", "month"] {
            assert!(text.parse::<Workload>().is_err(), "{text}");
        }
    }

    #[test]
    fn decays_halve() {
        for half_life in [1, 3, 365, 1 << 20] {
            let after = Workload::Decay(half_life).coefficient(half_life);
            assert!((after - 0.5).abs() < 5e-4, "{half_life}: {after}");
        }
        assert_eq!(Workload::decay_factor(1), 1 << (DECAY_BITS - 1));
    }
}
