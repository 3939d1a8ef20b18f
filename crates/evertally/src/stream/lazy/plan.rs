//! How a vector's noise is sampled, and what that needs of a plan.

use super::cells::{Cells, KeyedCells, Sampler, StateCells};
use super::path::PathSampler;
use crate::mechanism::Walk;
use crate::noise::bridge::{GammaBridge, GaussianBridge};
use crate::noise::{DiscreteLaw, KeyedNoise, Purpose, SecretKey, StreamName};
use crate::plan::Plan;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// Bits behind the grid to which floating-point noise is rounded.
const FLOAT_FRACTION_BITS: u32 = 8;
/// The most running sums of a vector.
const MAX_COORDINATES: u64 = 1 << 40;

/// How the noise of a [`LazyVector`](super::LazyVector) is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampling {
    /// From the keyed noise variables of the plan's mechanism: exact discrete laws, any step in any order, no memory at all.
    /// `O(log T)` draws a read. For mechanisms with [random access](crate::mechanism::Mechanism::random_access).
    Keyed,
    /// By bridges in integers, exact as well: a constant number of draws a read, steps of one running sum in rising order,
    /// a few words of memory for each one that was read. For trees.
    Integer,
    /// By bridges in floating point, the fastest. The noise of a release is rounded to whole units before it meets a sum;
    /// its law is that of the plan to about 15 digits, not exactly. For trees and BLTs.
    Float,
}

impl Sampling {
    /// The byte of [`Purpose::Reads`]: frozen.
    fn tag(self) -> u8 {
        match self {
            Self::Keyed => 0,
            Self::Integer => 1,
            Self::Float => 2,
        }
    }
}

impl std::fmt::Display for Sampling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Keyed => "keyed",
            Self::Integer => "integer",
            Self::Float => "float",
        })
    }
}

/// A plan for a vector of running sums, and how its noise is sampled.
///
/// ```
/// use evertally::budget::{Budget, Rho};
/// use evertally::plan::PlanRequest;
/// use evertally::stream::{LazyPlan, Sampling};
/// let request = PlanRequest::count(1 << 20, Budget::Zcdp(Rho::new(0.5)?));
/// let plan = PlanRequest { mechanism: Some("path-sum".parse()?), ..request }.plan()?;
/// let lazy = LazyPlan::new(plan, 1_000_000_000, Sampling::Float)?;
/// assert!(lazy.std_error(1 << 19) < 7.5);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LazyPlan {
    plan: Plan,
    coordinates: u64,
    sampling: Sampling,
}

impl LazyPlan {
    /// A vector of so many running sums, 1 ..= 2^40.
    ///
    /// # Errors
    /// If the number is out of range, or the plan's mechanism cannot be sampled in this way.
    pub fn new(plan: Plan, coordinates: u64, sampling: Sampling) -> Result<Self> {
        if coordinates == 0 || coordinates > MAX_COORDINATES {
            return Err(Error::invalid(format!("a vector has 1 to {MAX_COORDINATES} running sums, got {coordinates}")));
        }
        let lazy = Self { plan, coordinates, sampling };
        lazy.check()?;
        Ok(lazy)
    }

    fn check(&self) -> Result<()> {
        let mechanism = self.plan.mechanism();
        match self.sampling {
            Sampling::Keyed if mechanism.random_access() => Ok(()),
            Sampling::Keyed => Err(self.refusal("has no random access")),
            _ => self.walk().map(|_| ()),
        }
    }

    fn refusal(&self, reason: &str) -> Error {
        let name = self.plan.mechanism().name();
        Error::invalid(format!(
            "`{name}` cannot be sampled in the way `{}`: it {reason}; take `path-sum`, or for Laplace noise `subtract`",
            self.sampling
        ))
    }

    /// The paths of the mechanism, of unit lengths where the noise is Laplace: only equal scales have a bridge.
    fn walk(&self) -> Result<Box<dyn Walk>> {
        let walk = self.plan.mechanism().walk();
        let walk = walk.ok_or_else(|| self.refusal("is no sum along the paths of a tree, or has too long ones"))?;
        match self.plan.law() {
            DiscreteLaw::Laplace(_) if !walk.is_uniform() => Err(self.refusal("has Laplace noise of several scales")),
            _ => Ok(walk),
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Number of running sums.
    pub fn coordinates(&self) -> u64 {
        self.coordinates
    }

    /// How noise is drawn.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// Standard error of a released value at a step (1 ..= T), in units of the data.
    ///
    /// # Panics
    /// If the step is 0 or beyond the horizon.
    pub fn std_error(&self, step: u64) -> f64 {
        self.plan.std_error(step)
    }

    /// Releases are multiples of `2^-fraction_bits` of the grid.
    pub fn fraction_bits(&self) -> u32 {
        match self.sampling {
            Sampling::Keyed => self.plan.fraction_bits(),
            Sampling::Integer => 0,
            Sampling::Float => FLOAT_FRACTION_BITS,
        }
    }

    /// The cells of a vector of this key and name, none of them touched.
    pub(super) fn cells(&self, key: &SecretKey, name: &StreamName) -> Result<Box<dyn Cells>> {
        let keyed = |purpose| KeyedNoise::new(key, name, &self.plan.digest(), purpose);
        let reads = || keyed(Purpose::Reads(self.sampling.tag()));
        // The scale of one noise variable in units of a release, rounded up.
        let units = |scale: f64| {
            scale / self.plan.noise_divisor() as f64 * f64::from(1u32 << FLOAT_FRACTION_BITS) * (1.0 + 1e-12)
        };
        Ok(match self.sampling {
            Sampling::Keyed => Box::new(KeyedCells::new(self.plan.clone(), keyed(Purpose::Sums))),
            Sampling::Float => match self.plan.law() {
                law @ DiscreteLaw::Gaussian(_) => boxed(self.walk()?, GaussianBridge::new(units(law.scale())), reads()),
                law @ DiscreteLaw::Laplace(_) => boxed(self.walk()?, GammaBridge::new(units(law.scale())), reads()),
            },
            Sampling::Integer => return Err(self.refusal("has no integer bridge yet")),
        })
    }
}

fn boxed<B>(walk: Box<dyn Walk>, bridge: B, keyed: KeyedNoise) -> Box<dyn Cells>
where
    B: crate::noise::bridge::Bridge + 'static,
    PathSampler<B>: Sampler,
{
    Box::new(StateCells::new(PathSampler { walk, bridge }, keyed))
}
