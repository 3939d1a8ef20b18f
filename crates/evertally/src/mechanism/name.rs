//! The names by which mechanisms are chosen: `binary`, `kary(k=5)`, `subtract(k=19)`, `smooth(h=6,zeros=3)`, …

use super::{
    Blt, BufferChoice, Consistent, Dense, DensePure, DigitTree, HatLevels, Hats, HonakerOnline, Input, Levels,
    Mechanism, Optimal, Output, PathSum, Smooth, Spread, SquareRoot,
};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

mod text;

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
    /// Buffered linear Toeplitz matrix.
    Blt(BufferChoice),
    /// The same with columns of one length.
    NormalizedBlt(BufferChoice),
    /// The first so many diagonals of the square root.
    BandedSqrt(u64),
    /// The inverse of the first so many diagonals of the inverse square root.
    BandedInverseSqrt(u64),
    /// The optimum for Gaussian noise.
    Dense(Optimum),
    /// A filter close to the optimum for Gaussian noise: its number of states, or a good one.
    Optimal(Option<usize>, Optimum),
    /// The best that a numeric search finds for Laplace noise.
    DensePure(Optimum),
    /// Single steps and overlapping hats.
    Hats(HatChoice),
}

/// How a numerically optimised factorization is named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Optimum {
    /// Whether the mean variance is minimised, or the largest; `None` = as the figure at hand.
    pub mean: Option<bool>,
    /// Digest of the matrix; `None` = whatever is found.
    pub digest: Option<u32>,
}

/// How the levels of hats are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HatChoice {
    /// The best.
    Best,
    /// These spacings (up to the first 0) with the best shares.
    Spaced([u32; MOST_LEVELS]),
    /// The given ones.
    Given(HatLevels),
}

/// How the level weights of a tree are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LevelChoice {
    /// Optimised for the figure at hand; for Gaussian noise in a path-sum tree.
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

/// Most levels of hats.
const MOST_LEVELS: usize = 6;

/// Arities the search tries.
const SEARCHED_ARITIES: std::ops::RangeInclusive<u64> = 2..=64;

impl MechanismName {
    /// Every family, with parameters left open.
    ///
    /// `dense-pure`, whose search takes minutes, and the banded square roots, which need a number of bands, are built where
    /// they are asked for.
    pub const FAMILIES: [MechanismName; 16] = [
        Self::Input,
        Self::Output,
        Self::Binary,
        Self::HonakerOnline,
        Self::Kary(None),
        Self::Subtract(None),
        Self::Smooth(None),
        Self::Consistent(None, LevelChoice::Best),
        Self::PathSum(LevelChoice::Best),
        Self::Hats(HatChoice::Best),
        Self::Sqrt,
        Self::NormalizedSqrt,
        Self::Blt(BufferChoice::Best),
        Self::NormalizedBlt(BufferChoice::Best),
        Self::Dense(Optimum { mean: None, digest: None }),
        Self::Optimal(None, Optimum { mean: None, digest: None }),
    ];

    /// A shorter name for tables and pictures: without numbers that only a program can use.
    ///
    /// ```
    /// # use evertally::mechanism::MechanismName;
    /// let name: MechanismName = "hats(spacing=12/150,first=480/417,last=516/257)".parse()?;
    /// assert_eq!(name.brief().to_string(), "hats(spacing=12/150)");
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn brief(self) -> Self {
        let buffers = |choice| match choice {
            BufferChoice::Given(buffers) => BufferChoice::Count(buffers.decays().len()),
            other => other,
        };
        match self {
            Self::Blt(choice) => Self::Blt(buffers(choice)),
            Self::NormalizedBlt(choice) => Self::NormalizedBlt(buffers(choice)),
            Self::Hats(HatChoice::Given(levels)) if !levels.spacings().is_empty() => {
                let mut spacings = [0; MOST_LEVELS];
                spacings[..levels.spacings().len()].copy_from_slice(levels.spacings());
                Self::Hats(HatChoice::Spaced(spacings))
            }
            Self::PathSum(_) => Self::PathSum(LevelChoice::Best),
            Self::Dense(optimum) => Self::Dense(Optimum { digest: None, ..optimum }),
            Self::DensePure(optimum) => Self::DensePure(Optimum { digest: None, ..optimum }),
            Self::Optimal(states, _) => Self::Optimal(states, Optimum::default()),
            other => other,
        }
    }

    /// Whether time and memory grow with the horizon instead of its logarithm.
    pub fn is_heavy(self) -> bool {
        self.longest_searched() < super::MAX_HORIZON
    }

    /// Longest horizon for which a search considers this family: building or running it takes a few seconds there.
    pub fn longest_searched(self) -> u64 {
        match self {
            Self::DensePure(_) => 1 << 6,
            Self::Dense(_) => 1 << 11,
            Self::NormalizedSqrt | Self::Consistent(..) | Self::BandedSqrt(_) | Self::BandedInverseSqrt(_) => 1 << 14,
            Self::Optimal(..) => 1 << 17,
            Self::Sqrt => 1 << 20,
            Self::Hats(_) => 1 << 22,
            _ => super::MAX_HORIZON,
        }
    }

    /// The mechanism for a horizon; parameters left out are searched for the least `shape` figure.
    ///
    /// # Errors
    /// If the horizon or a parameter is out of the mechanism's range.
    pub fn build(self, horizon: u64, shape: &NamedShape) -> Result<Arc<dyn Mechanism>> {
        Ok(match self {
            Self::Input => Arc::new(Input::new(horizon)?),
            Self::Output => Arc::new(Output::new(horizon)?),
            Self::Binary => Arc::new(DigitTree::binary(horizon)?),
            Self::HonakerOnline => Arc::new(HonakerOnline::new(horizon)?),
            Self::Kary(Some(k)) => Arc::new(DigitTree::additive(horizon, k)?),
            Self::Kary(None) => best_arity(shape, |k| DigitTree::additive(horizon, k))?,
            Self::Subtract(Some(k)) => Arc::new(DigitTree::subtractive(horizon, k)?),
            Self::Subtract(None) => best_arity(shape, |k| DigitTree::subtractive(horizon, k.max(3)))?,
            Self::Smooth(Some((height, zeros))) => Arc::new(Smooth::new(horizon, height, zeros)?),
            Self::Smooth(None) => Arc::new(Smooth::best(horizon, shape)?),
            Self::Consistent(arity, levels) => Arc::new(consistent(horizon, arity, levels, shape)?),
            Self::PathSum(LevelChoice::Best) => Arc::new(PathSum::best(horizon)?),
            Self::PathSum(LevelChoice::Uniform { root }) => Arc::new(PathSum::uniform(horizon, root)?),
            Self::PathSum(LevelChoice::Given(weights)) => Arc::new(PathSum::new(horizon, weights)?),
            Self::Sqrt => Arc::new(SquareRoot::new(horizon)?),
            Self::NormalizedSqrt => Arc::new(SquareRoot::normalized(horizon)?),
            Self::BandedSqrt(bands) => Arc::new(SquareRoot::banded(horizon, bands)?),
            Self::BandedInverseSqrt(bands) => Arc::new(SquareRoot::banded_inverse(horizon, bands)?),
            Self::Dense(optimum) => Arc::new(dense(horizon, optimum, shape.mean)?),
            Self::Optimal(states, optimum) => Arc::new(optimal(horizon, states, optimum, shape.mean)?),
            Self::DensePure(optimum) => Arc::new(dense_pure(horizon, optimum, shape.mean)?),
            Self::Hats(HatChoice::Best) => Arc::new(Hats::best(horizon, shape.mean)?),
            Self::Hats(HatChoice::Spaced(spacings)) => {
                let count = spacings.iter().position(|w| *w == 0).unwrap_or(MOST_LEVELS);
                Arc::new(Hats::with_spacings(horizon, &spacings[..count], shape.mean)?)
            }
            Self::Hats(HatChoice::Given(levels)) => Arc::new(Hats::new(horizon, &levels)?),
            Self::Blt(choice) => Arc::new(Blt::chosen(horizon, choice, false, shape.mean)?),
            Self::NormalizedBlt(choice) => Arc::new(Blt::chosen(horizon, choice, true, shape.mean)?),
        })
    }
}

fn dense(horizon: u64, optimum: Optimum, mean: bool) -> Result<Dense> {
    let mean = optimum.mean.unwrap_or(mean);
    match optimum.digest {
        Some(digest) => Dense::with_digest(horizon, mean, digest),
        None => Dense::solve(horizon, mean),
    }
}

fn optimal(horizon: u64, states: Option<usize>, optimum: Optimum, mean: bool) -> Result<Optimal> {
    let mean = optimum.mean.unwrap_or(mean);
    match optimum.digest {
        Some(digest) => Optimal::with_digest(horizon, states, mean, digest),
        None => Optimal::solve(horizon, states, mean),
    }
}

fn dense_pure(horizon: u64, optimum: Optimum, mean: bool) -> Result<DensePure> {
    let found = DensePure::search(horizon, optimum.mean.unwrap_or(mean), &mut |_, _| ())?;
    match optimum.digest {
        Some(digest) if digest != found.digest() => Err(Error::invalid(format!(
            "`dense-pure` with digest {digest:08x} was found by another version of this program; this one finds {}",
            found.name()
        ))),
        _ => Ok(found),
    }
}

fn consistent(horizon: u64, arity: Option<u64>, levels: LevelChoice, shape: &NamedShape) -> Result<Consistent> {
    match (arity, levels) {
        (None, LevelChoice::Best) => Consistent::best(horizon, shape),
        (Some(k), LevelChoice::Best) => Consistent::optimised(horizon, k, shape),
        (Some(k), LevelChoice::Uniform { root }) => Consistent::uniform(horizon, k, root),
        (Some(k), LevelChoice::Given(weights)) => Consistent::new(horizon, k, weights),
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
