//! The names by which mechanisms are chosen: `binary`, `kary(k=5)`, `subtract(k=19)`, `smooth(h=6,zeros=3)`, …

use super::{
    ConsistentTree, DigitTree, HonakerOnline, InputNoise, Levels, Mechanism, OutputNoise, PathSum, Smooth, Spread,
    SquareRoot,
};
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
    /// Consistent tree: arity, or the best; level weights, or the best.
    Consistent(Option<u64>, LevelChoice),
    /// Path sums of a binary tree: level weights, or the best.
    PathSum(LevelChoice),
    /// Square root of the prefix-sum matrix.
    Sqrt,
    /// The same with columns of one length.
    NormalizedSqrt,
}

/// How the level weights of a tree are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LevelChoice {
    /// Optimised: for Laplace noise in a consistent tree, for Gaussian noise in a path-sum tree.
    Best,
    /// All equal, with or without the root.
    Uniform {
        /// Whether the root has noise.
        root: bool,
    },
    /// The given ones.
    Given(Levels),
}

/// What "best" means where a name leaves a parameter out: the figure to minimise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamedShape {
    laplace: bool,
    mean: bool,
    exact: bool,
    spread: Spread,
}

impl NamedShape {
    /// Least maximal variance under Gaussian noise, one event protected.
    pub fn gaussian_max() -> Self {
        Self { laplace: false, mean: false, exact: false, spread: Spread::ONE }
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

    /// The same figure by exact Gaussian accounting where a mechanism has it for discrete noise
    /// ([`Mechanism::gaussian_shift`]) and it is the better one. Changes nothing under Laplace noise.
    pub fn exact(self) -> Self {
        Self { exact: true, ..self }
    }

    /// The figure of one mechanism: 2ρ·variance or ε²·variance, up to a factor that all mechanisms share.
    pub fn of(&self, mechanism: &dyn Mechanism) -> f64 {
        let by_column = self.by_column_norm(mechanism);
        match self.exactly_counted().zip(mechanism.gaussian_shift()) {
            Some((events, shift)) => by_column.min(events * shift.squared() * self.row(mechanism)),
            None => by_column,
        }
    }

    /// The figure by column norms alone.
    pub(super) fn by_column_norm(&self, mechanism: &dyn Mechanism) -> f64 {
        let amplified = if self.laplace {
            let s1 = mechanism.column_norms().l1;
            2.0 * s1 * s1
        } else {
            mechanism.capped_column_sum(self.spread) as f64 * mechanism.noise_unit() * mechanism.noise_unit()
        };
        amplified * self.row(mechanism)
    }

    /// The number of events that multiplies an exact squared sensitivity, where exact accounting is asked for. (The figures
    /// share the other factor of the squared number of events.)
    pub(super) fn exactly_counted(&self) -> Option<f64> {
        (self.exact && !self.laplace).then_some(self.spread.total as f64)
    }

    fn row(&self, mechanism: &dyn Mechanism) -> f64 {
        if self.mean { mechanism.mean_row_norm_squared() } else { mechanism.max_row_norm_squared() }
    }
}

/// Arities the search tries.
const SEARCHED_ARITIES: std::ops::RangeInclusive<u64> = 2..=64;

impl MechanismName {
    /// Every family, with parameters left open.
    pub const FAMILIES: [MechanismName; 11] = [
        Self::Input,
        Self::Output,
        Self::Binary,
        Self::HonakerOnline,
        Self::Kary(None),
        Self::Subtract(None),
        Self::Smooth(None),
        Self::Consistent(None, LevelChoice::Best),
        Self::PathSum(LevelChoice::Best),
        Self::Sqrt,
        Self::NormalizedSqrt,
    ];

    /// Whether time and memory grow with the horizon instead of its logarithm.
    pub fn is_heavy(self) -> bool {
        self.longest_searched() < super::MAX_HORIZON
    }

    /// Longest horizon for which a search considers this family: building or running it takes a few seconds there.
    pub fn longest_searched(self) -> u64 {
        match self {
            Self::Sqrt => 1 << 16,
            Self::NormalizedSqrt | Self::Consistent(..) => 1 << 14,
            _ => super::MAX_HORIZON,
        }
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
            Self::Consistent(arity, levels) => Arc::new(consistent(horizon, arity, levels, shape.mean)?),
            Self::PathSum(LevelChoice::Best) => Arc::new(PathSum::best(horizon)?),
            Self::PathSum(LevelChoice::Uniform { root }) => Arc::new(PathSum::uniform(horizon, root)?),
            Self::PathSum(LevelChoice::Given(weights)) => Arc::new(PathSum::new(horizon, weights)?),
            Self::Sqrt => Arc::new(SquareRoot::new(horizon)?),
            Self::NormalizedSqrt => Arc::new(SquareRoot::normalized(horizon)?),
        })
    }
}

fn consistent(horizon: u64, arity: Option<u64>, levels: LevelChoice, mean: bool) -> Result<ConsistentTree> {
    match (arity, levels) {
        (None, LevelChoice::Best) => ConsistentTree::best(horizon, mean),
        (Some(k), LevelChoice::Best) => ConsistentTree::optimised(horizon, k, mean),
        (Some(k), LevelChoice::Uniform { root }) => ConsistentTree::uniform(horizon, k, root),
        (Some(k), LevelChoice::Given(weights)) => ConsistentTree::new(horizon, k, weights),
        (None, _) => {
            Err(Error::invalid("`consistent` with level weights needs an arity: consistent(k=12,levels=uniform)"))
        }
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
            Self::Consistent(None, _) => f.write_str("consistent"),
            Self::Consistent(Some(k), LevelChoice::Best) => write!(f, "consistent(k={k})"),
            Self::Consistent(Some(k), LevelChoice::Uniform { root: true }) => {
                write!(f, "consistent(k={k},levels=uniform)")
            }
            Self::Consistent(Some(k), LevelChoice::Uniform { root: false }) => {
                write!(f, "consistent(k={k},levels=uniform,root=false)")
            }
            Self::Consistent(Some(k), LevelChoice::Given(levels)) => write!(f, "consistent(k={k},levels={levels})"),
            Self::PathSum(LevelChoice::Best) => f.write_str("path-sum"),
            Self::PathSum(LevelChoice::Uniform { root: true }) => f.write_str("path-sum(levels=unit)"),
            Self::PathSum(LevelChoice::Uniform { root: false }) => f.write_str("path-sum(levels=unit,root=false)"),
            Self::PathSum(LevelChoice::Given(levels)) => write!(f, "path-sum(levels={})", levels.in_runs()),
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
        let mut parameters = Parameters::split(text)?;
        let name = match parameters.stem {
            "input" => Self::Input,
            "output" => Self::Output,
            "binary" => Self::Binary,
            "honaker-online" => Self::HonakerOnline,
            "kary" => Self::Kary(parameters.number("k")?),
            "subtract" => Self::Subtract(parameters.number("k")?),
            "smooth" => match (parameters.number("h")?, parameters.number("zeros")?) {
                (None, None) => Self::Smooth(None),
                (Some(height), Some(zeros)) => Self::Smooth(Some((height, zeros))),
                _ => {
                    return Err(Error::invalid(format!(
                        "`{text}` should have both parameters `h` and `zeros`, or neither"
                    )));
                }
            },
            "consistent" => Self::Consistent(parameters.number("k")?, parameters.levels("uniform")?),
            "path-sum" => Self::PathSum(parameters.levels("unit")?),
            "sqrt" => Self::Sqrt,
            "normalized-sqrt" => Self::NormalizedSqrt,
            _ => {
                return Err(Error::invalid(format!(
                    "unknown mechanism `{text}`; known: input, output, binary, honaker-online, kary(k=5), \
                     subtract(k=19), smooth, smooth(h=6,zeros=3), consistent, consistent(k=12), path-sum, sqrt, \
                     normalized-sqrt"
                )));
            }
        };
        parameters.none_left()?;
        Ok(name)
    }
}

/// The parts of `stem(key=value,…)`; parameters are taken out one by one.
struct Parameters<'a> {
    text: &'a str,
    stem: &'a str,
    rest: Vec<(&'a str, &'a str)>,
}

impl<'a> Parameters<'a> {
    fn split(text: &'a str) -> Result<Self> {
        let malformed = || Error::invalid(format!("malformed mechanism `{text}`; write it like `smooth(h=6,zeros=3)`"));
        let Some((stem, rest)) = text.trim().split_once('(') else {
            return Ok(Self { text, stem: text.trim(), rest: vec![] });
        };
        let inner = rest.strip_suffix(')').ok_or_else(malformed)?;
        let pair = |part: &'a str| part.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        let rest = inner.split(',').map(|part| pair(part).ok_or_else(malformed)).collect::<Result<Vec<_>>>()?;
        Ok(Self { text, stem: stem.trim(), rest })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let place = self.rest.iter().position(|(name, _)| *name == key)?;
        Some(self.rest.remove(place).1)
    }

    fn number<N: FromStr>(&mut self, key: &str) -> Result<Option<N>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let refuse = |_| Error::invalid(format!("`{key}` of `{}` should be a whole number, got `{value}`", self.text));
        value.parse().map(Some).map_err(refuse)
    }

    /// `levels` and `root`, where `equal` is the word for equal weights.
    fn levels(&mut self, equal: &str) -> Result<LevelChoice> {
        let root = match self.take("root") {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(other) => return Err(Error::invalid(format!("`root` should be true or false, got `{other}`"))),
        };
        match (self.take("levels"), root) {
            (Some(word), _) if word == equal => Ok(LevelChoice::Uniform { root: root.unwrap_or(true) }),
            (_, Some(_)) => Err(Error::invalid(format!(
                "`root` goes with `levels={equal}`; one weight fewer leaves the root out, too"
            ))),
            (Some(weights), None) => Ok(LevelChoice::Given(weights.parse()?)),
            (None, None) => Ok(LevelChoice::Best),
        }
    }

    fn none_left(&self) -> Result<()> {
        match self.rest.first() {
            None => Ok(()),
            Some((key, _)) => {
                Err(Error::invalid(format!("`{}` has no parameter `{key}`, in `{}`", self.stem, self.text)))
            }
        }
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
