//! How a vector's noise is sampled, and what that needs of a plan.

use super::buffers::BufferSampler;
use super::cells::{Cells, KeyedCells, Sampler, StateCells};
use super::path::PathSampler;
use crate::budget::skellam::{self, IntegerShift};
use crate::mechanism::Walk;
use crate::noise::bridge::{GammaBridge, GaussianBridge, PolyaBridge, SkellamBridge};
use crate::noise::{DiscreteLaw, KeyedNoise, Purpose, SecretKey, StreamName};
use crate::plan::{FRACTION_BITS, Plan};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

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
    /// Takes the place of discrete Gaussian noise where whole numbers are split.
    skellam: Option<SkellamBridge>,
}

/// Least variance of Skellam noise on its grid: there it is as good as discrete Gaussian noise up to a few parts in 10^7.
const FINE_VARIANCE: f64 = (1u64 << 34) as f64;

impl LazyPlan {
    /// A vector of so many running sums, 1 ..= 2^40.
    ///
    /// # Errors
    /// If the number is out of range, or the plan's mechanism cannot be sampled in this way.
    pub fn new(plan: Plan, coordinates: u64, sampling: Sampling) -> Result<Self> {
        if coordinates == 0 || coordinates > MAX_COORDINATES {
            return Err(Error::invalid(format!("a vector has 1 to {MAX_COORDINATES} running sums, got {coordinates}")));
        }
        let mut lazy = Self { plan, coordinates, sampling, skellam: None };
        lazy.check()?;
        if sampling == Sampling::Integer {
            lazy.skellam = lazy.skellam()?;
        }
        Ok(lazy)
    }

    /// Skellam noise with the plan's guarantee; none where the noise is Laplace.
    fn skellam(&self) -> Result<Option<SkellamBridge>> {
        let Some((divisor, squared, variables)) = self.plan.shift_along_stretches()? else { return Ok(None) };
        let budget = &self.plan.request().budget;
        // Refined until the grid does not matter: shifts are as many, and longer.
        for bits in 0..40 {
            let finer = squared * libm::exp2(2.0 * f64::from(bits));
            let Ok(variance) = IntegerShift::new(finer, variables).and_then(|s| skellam::variance_for(budget, s))
            else {
                continue; // too coarse for any bound
            };
            if variance.to_f64() >= FINE_VARIANCE {
                let divisor = divisor.checked_mul(1 << bits).ok_or_else(|| self.refusal("needs too fine a grid"))?;
                return SkellamBridge::new(variance, divisor).map(Some);
            }
        }
        Err(self.refusal("needs too fine a grid"))
    }

    /// Whether the mechanism can be sampled so.
    fn check(&self) -> Result<()> {
        let mechanism = self.plan.mechanism();
        match self.sampling {
            Sampling::Keyed if mechanism.random_access() => Ok(()),
            Sampling::Keyed => Err(self.refusal("has no random access")),
            Sampling::Float if self.is_blt() => Ok(()),
            _ => self.walk().map(|_| ()),
        }
    }

    fn refusal(&self, reason: &str) -> Error {
        let name = self.plan.mechanism().name();
        Error::invalid(format!(
            "`{name}` cannot be sampled in the way `{}`: it {reason}; take `path-sum`{}, or for Laplace noise `subtract`",
            self.sampling,
            if self.sampling == Sampling::Float { " or a BLT" } else { "" }
        ))
    }

    fn is_blt(&self) -> bool {
        self.plan.mechanism().state_space().is_some()
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
        let noise = self.skellam.map_or(1.0, |noise| {
            let unit = self.plan.request().grid.to_f64(1) / noise.divisor() as f64;
            libm::sqrt(noise.variance().to_f64() * unit * unit / self.plan.node_variance())
        });
        self.plan.std_error(step) * noise
    }

    /// Releases are multiples of `2^-fraction_bits` of the grid.
    pub fn fraction_bits(&self) -> u32 {
        match self.sampling {
            Sampling::Keyed => self.plan.fraction_bits(),
            Sampling::Integer if self.skellam.is_none() => 0,
            Sampling::Integer | Sampling::Float => FRACTION_BITS,
        }
    }

    /// The cells of a vector of this key and name, none of them touched.
    pub(super) fn cells(&self, key: &SecretKey, name: &StreamName) -> Result<Box<dyn Cells>> {
        let keyed = |purpose| KeyedNoise::new(key, name, &self.plan.digest(), purpose);
        let reads = || keyed(Purpose::Reads(self.sampling.tag()));
        // The scale of one noise variable in units of a release, rounded up.
        let units =
            |scale: f64| scale / self.plan.noise_divisor() as f64 * f64::from(1u32 << FRACTION_BITS) * (1.0 + 1e-12);
        Ok(match self.sampling {
            Sampling::Keyed => Box::new(KeyedCells::new(self.plan.clone(), keyed(Purpose::Sums))),
            Sampling::Float if self.is_blt() => {
                let model = self.plan.mechanism().state_space().expect("asked above");
                let units = units(self.plan.law().scale());
                Box::new(StateCells::new(BufferSampler { model, units }, reads()))
            }
            Sampling::Float => match self.plan.law() {
                law @ DiscreteLaw::Gaussian(_) => boxed(self.walk()?, GaussianBridge::new(units(law.scale())), reads()),
                law @ DiscreteLaw::Laplace(_) => boxed(self.walk()?, GammaBridge::new(units(law.scale())), reads()),
            },
            Sampling::Integer => match (self.skellam, self.plan.law()) {
                (None, DiscreteLaw::Laplace(law)) => boxed(self.walk()?, PolyaBridge::new(law.scale())?, reads()),
                (skellam, _) => boxed(self.walk()?, skellam.expect("made with the plan"), reads()),
            },
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
