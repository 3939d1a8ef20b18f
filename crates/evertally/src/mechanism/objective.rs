//! Noise distributions and objectives.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The two noise distributions; they determine whether the L1 or the L2 norms of the columns count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseKind {
    /// Discrete Laplace: pure ε-DP.
    Laplace,
    /// Discrete Gaussian: zCDP.
    Gaussian,
}

/// Which error is minimised.
///
/// ```
/// use evertally::mechanism::Objective;
/// assert_eq!("mean".parse::<Objective>()?, Objective::Mean);
/// assert_eq!(Objective::Max.to_string(), "max");
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The largest variance of any step.
    Max,
    /// The mean variance over the steps.
    Mean,
}

impl Objective {
    /// Both objectives: the largest and the mean.
    pub const BOTH: [Self; 2] = [Self::Max, Self::Mean];

    /// One of the two values, according to the objective.
    pub fn of<T>(self, max: T, mean: T) -> T {
        match self {
            Self::Max => max,
            Self::Mean => mean,
        }
    }
}

impl fmt::Display for NoiseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Laplace => "discrete Laplace",
            Self::Gaussian => "discrete Gaussian",
        })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.of("max", "mean"))
    }
}

impl FromStr for Objective {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "max" => Ok(Self::Max),
            "mean" => Ok(Self::Mean),
            other => Err(Error::invalid(format!("`objective` should be max or mean, got `{other}`"))),
        }
    }
}
