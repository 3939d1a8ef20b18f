//! The names by which mechanisms are chosen: `binary`, `kary(k=5)`, `subtract(k=19)`, `smooth(h=6,zeros=3)`, …

use super::{DigitTree, HonakerOnline, InputNoise, Mechanism, OutputNoise, Smooth, Spread, SquareRoot};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A mechanism as a user names it; parameters left out are chosen when it is built for a horizon.
///
/// ```
/// use evertally::mechanism::{MechanismName, NamedShape};
/// let name: MechanismName = "subtract(k=19)".parse()?;
/// let mechanism = name.build(1000, &NamedShape::gaussian_max())?;
/// assert_eq!(mechanism.column_norms().l2_squared, 3.0);
/// assert_eq!(mechanism.max_row_norm_squared(), 21.0);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum MechanismName {
    /// Noise on every input.
    Input,
    /// Noise on every output.
    Output,
    /// Binary tree, left children only.
    Binary,
    /// Binary tree with estimation from below.
    HonakerOnline,
    /// k-ary tree, additions only; `None` = best arity from 2 to 64.
    Kary(Option<u64>),
    /// k-ary tree with subtraction; `None` = best arity from 3 to 64.
    Subtract(Option<u64>),
    /// Smooth binary tree, (height, zeros); `None` = best shape.
    Smooth(Option<(u32, u32)>),
    /// Square root of the prefix-sum matrix.
    Sqrt,
    /// The same with columns of one length.
    NormalizedSqrt,
}

/// What "best" means where a name leaves a parameter out: the figure to minimise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedShape {
    laplace: bool,
    mean: bool,
    spread: Spread,
}

impl NamedShape {
    /// Least maximal variance under Gaussian noise, one event protected.
    pub fn gaussian_max() -> Self {
        Self { laplace: false, mean: false, spread: Spread::ONE }
    }

    /// Least maximal variance under Laplace noise, one event protected.
    pub fn laplace_max() -> Self {
        Self { laplace: true, ..Self::gaussian_max() }
    }

    /// The same figure, judged by the mean over the steps.
    pub fn by_mean(self, mean: bool) -> Self {
        Self { mean, ..self }
    }

    /// The same figure for a unit of several events.
    pub fn with_spread(self, spread: Spread) -> Self {
        Self { spread, ..self }
    }

    /// The figure of one mechanism: 2ρ·variance or ε²·variance, up to a factor that all mechanisms share.
    pub fn of(&self, mechanism: &dyn Mechanism) -> f64 {
        let row = if self.mean { mechanism.mean_row_norm_squared() } else { mechanism.max_row_norm_squared() };
        let unit = libm::exp2(-2.0 * f64::from(mechanism.noise_bits()));
        let amplified = if self.laplace {
            2.0 * mechanism.column_norms().l1.powi(2)
        } else {
            mechanism.capped_column_sum(self.spread) as f64 * unit
        };
        amplified * row
    }
}

/// Arities the search tries.
const SEARCHED_ARITIES: std::ops::RangeInclusive<u64> = 2..=64;

impl MechanismName {
    /// Every family, with parameters left open.
    pub const FAMILIES: [MechanismName; 9] = [
        Self::Input,
        Self::Output,
        Self::Binary,
        Self::HonakerOnline,
        Self::Kary(None),
        Self::Subtract(None),
        Self::Smooth(None),
        Self::Sqrt,
        Self::NormalizedSqrt,
    ];

    /// Whether a step costs more than logarithmic time.
    pub fn has_heavy_steps(self) -> bool {
        matches!(self, Self::Sqrt | Self::NormalizedSqrt)
    }

    /// The mechanism for a horizon; parameters left out are searched for the least `shape` figure.
    ///
    /// # Errors
    /// If the horizon or a parameter is out of the mechanism's range.
    pub fn build(self, horizon: u64, shape: &NamedShape) -> Result<Arc<dyn Mechanism>> {
        Ok(match self {
            Self::Input => Arc::new(InputNoise::new(horizon)?),
            Self::Output => Arc::new(OutputNoise::new(horizon)?),
            Self::Binary => Arc::new(DigitTree::binary(horizon)?),
            Self::HonakerOnline => Arc::new(HonakerOnline::new(horizon)?),
            Self::Kary(Some(k)) => Arc::new(DigitTree::additive(horizon, k)?),
            Self::Kary(None) => best_arity(shape, |k| DigitTree::additive(horizon, k))?,
            Self::Subtract(Some(k)) => Arc::new(DigitTree::subtractive(horizon, k)?),
            Self::Subtract(None) => best_arity(shape, |k| DigitTree::subtractive(horizon, k.max(3)))?,
            Self::Smooth(Some((height, zeros))) => Arc::new(Smooth::new(horizon, height, zeros)?),
            Self::Smooth(None) => Arc::new(Smooth::best(horizon, shape)?),
            Self::Sqrt => Arc::new(SquareRoot::new(horizon)?),
            Self::NormalizedSqrt => Arc::new(SquareRoot::normalized(horizon)?),
        })
    }
}

fn best_arity(shape: &NamedShape, build: impl Fn(u64) -> Result<DigitTree>) -> Result<Arc<dyn Mechanism>> {
    let candidates = SEARCHED_ARITIES.map(build).collect::<Result<Vec<_>>>()?;
    let best = candidates.into_iter().min_by(|a, b| shape.of(a).total_cmp(&shape.of(b)));
    Ok(Arc::new(best.expect("the range of arities is not empty")))
}

impl fmt::Display for MechanismName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input => f.write_str("input"),
            Self::Output => f.write_str("output"),
            Self::Binary => f.write_str("binary"),
            Self::HonakerOnline => f.write_str("honaker-online"),
            Self::Kary(None) => f.write_str("kary"),
            Self::Kary(Some(k)) => write!(f, "kary(k={k})"),
            Self::Subtract(None) => f.write_str("subtract"),
            Self::Subtract(Some(k)) => write!(f, "subtract(k={k})"),
            Self::Sqrt => f.write_str("sqrt"),
            Self::NormalizedSqrt => f.write_str("normalized-sqrt"),
            Self::Smooth(None) => f.write_str("smooth"),
            Self::Smooth(Some((height, zeros))) => write!(f, "smooth(h={height},zeros={zeros})"),
        }
    }
}

impl FromStr for MechanismName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (stem, parameters) = split(text)?;
        let name = match stem {
            "input" => Self::Input,
            "output" => Self::Output,
            "binary" => Self::Binary,
            "honaker-online" => Self::HonakerOnline,
            "kary" => Self::Kary(take_one(text, &parameters, "k")?),
            "subtract" => Self::Subtract(take_one(text, &parameters, "k")?),
            "sqrt" => Self::Sqrt,
            "normalized-sqrt" => Self::NormalizedSqrt,
            "smooth" => Self::Smooth(take_shape(text, &parameters)?),
            _ => {
                return Err(Error::invalid(format!(
                    "unknown mechanism `{text}`; known: input, output, binary, honaker-online, kary(k=5), \
                     subtract(k=19), smooth, smooth(h=6,zeros=3), sqrt, normalized-sqrt"
                )));
            }
        };
        match name {
            Self::Kary(_) | Self::Subtract(_) | Self::Smooth(_) => Ok(name),
            _ if parameters.is_empty() => Ok(name),
            _ => Err(Error::invalid(format!("mechanism `{stem}` takes no parameters, got `{text}`"))),
        }
    }
}

fn split(text: &str) -> Result<(&str, Vec<(&str, u64)>)> {
    let malformed = || Error::invalid(format!("malformed mechanism `{text}`; write it like `smooth(h=6,zeros=3)`"));
    let Some((stem, rest)) = text.trim().split_once('(') else { return Ok((text.trim(), vec![])) };
    let inner = rest.strip_suffix(')').ok_or_else(malformed)?;
    let parameters =
        inner.split(',').map(|part| parse_parameter(part).ok_or_else(malformed)).collect::<Result<Vec<_>>>()?;
    Ok((stem.trim(), parameters))
}

fn parse_parameter(part: &str) -> Option<(&str, u64)> {
    let (key, value) = part.split_once('=')?;
    Some((key.trim(), value.trim().parse().ok()?))
}

fn take_one(text: &str, parameters: &[(&str, u64)], key: &str) -> Result<Option<u64>> {
    match parameters {
        [] => Ok(None),
        [(name, value)] if *name == key => Ok(Some(*value)),
        _ => Err(Error::invalid(format!("`{text}` should have the one parameter `{key}`"))),
    }
}

fn take_shape(text: &str, parameters: &[(&str, u64)]) -> Result<Option<(u32, u32)>> {
    let find = |key| parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    match (parameters.len(), find("h"), find("zeros")) {
        (0, _, _) => Ok(None),
        (2, Some(height), Some(zeros)) => Ok(Some((small(height), small(zeros)))),
        _ => Err(Error::invalid(format!("`{text}` should have the two parameters `h` and `zeros`"))),
    }
}

impl TryFrom<String> for MechanismName {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<MechanismName> for String {
    fn from(name: MechanismName) -> Self {
        name.to_string()
    }
}
