//! How a vector's noise is sampled, and what the plan needs for it.

use super::buffers::BufferSampler;
use super::cells::{KeyedCells, Sampler, StateCells, VectorCells};
use super::path::PathSampler;
use crate::mechanism::{Lazy, LazyBlt, Walk};
use crate::noise::bridge::{Bridge, GammaBridge, GaussianBridge, PolyaBridge, SkellamBridge};
use crate::noise::{DiscreteLaw, FRACTION_BITS, KeyedNoise, Purpose, SecretKey, StreamName};
use crate::number::power;
use crate::plan::{Plan, PlanRequest};
use crate::privacy::loss::rounded_up;
use crate::privacy::skellam::{self, IntegerShift};
use crate::privacy::{Delta, conversions};
use crate::stream::Release;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The most running sums of a vector.
const MAX_COORDINATES: u64 = 1 << 40;

/// How the noise of a [`LazyVector`](super::LazyVector) is drawn.
#[doc(alias = "Sampling")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LazySampling {
    /// From the keyed noise variables of the plan's mechanism: exact discrete laws, any step in any order, no memory at
    /// all. `O(log T)` draws per read. For mechanisms with [random access](crate::mechanism::Abilities::random_access).
    Keyed,
    /// By bridges in integers, also exact: a constant number of draws per read, steps of one running sum in ascending
    /// order, and a few words of memory for each sum that was read. For trees.
    Integer,
    /// By bridges in floating point, the fastest. The noise of a release is rounded to whole units before it is added
    /// to a sum; its law is that of the plan to about 15 digits, not exactly. For trees and BLTs.
    Float,
}

impl LazySampling {
    /// The number in saved states: frozen.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::Keyed => 0,
            Self::Integer => 1,
            Self::Float => 2,
        }
    }

    /// The byte of [`Purpose::Reads`]: frozen.
    fn tag(self) -> u8 {
        match self {
            Self::Keyed => 0,
            Self::Integer => 1,
            Self::Float => 2,
        }
    }
}

impl std::str::FromStr for LazySampling {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let found = [Self::Keyed, Self::Integer, Self::Float].into_iter().find(|way| way.to_string() == text);
        found.ok_or_else(|| Error::invalid(format!("the sampling must be `keyed`, `integer` or `float`, got {text:?}")))
    }
}

impl std::fmt::Display for LazySampling {
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
/// use evertally::privacy::{Budget, Rho};
/// use evertally::plan::PlanRequest;
/// use evertally::stream::{LazyPlan, LazySampling};
/// let request = PlanRequest::count(1 << 20, Budget::Zcdp(Rho::new(0.5)?));
/// let plan = request.with_mechanism("path-sum".parse()?).plan()?;
/// let lazy = LazyPlan::new(plan, 1_000_000_000, LazySampling::Float)?;
/// assert!(lazy.std_error(1 << 19) < 7.5);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LazyPlan {
    plan: Plan,
    coordinates: u64,
    sampling: LazySampling,
    noise: SampledLaw,
    history: bool,
}

/// The law that is sampled.
#[derive(Clone, Debug)]
enum SampledLaw {
    /// The plan's, from its nodes.
    Nodes,
    Polya(PolyaBridge),
    /// Instead of discrete Gaussian noise, with the shift that it hides.
    Skellam(SkellamBridge, IntegerShift),
    /// Along the paths of a tree.
    Float(Float),
    /// From the states of a BLT.
    Buffers(Float, Arc<LazyBlt>),
}

/// Continuous noise instead of discrete noise, rounded.
#[derive(Clone, Copy, Debug)]
struct Float {
    fraction_bits: u32,
    /// The scale of one noise variable in units of a release, rounded up.
    units: f64,
}

impl LazyPlan {
    /// A vector of 1 to 2^40 running sums, or of windows if the plan has them, under [`LazySampling::Keyed`].
    ///
    /// # Errors
    /// If the number is out of range, or the plan's mechanism or noise does not support this sampling.
    pub fn new(plan: Plan, coordinates: u64, sampling: LazySampling) -> Result<Self> {
        if coordinates == 0 || coordinates > MAX_COORDINATES {
            return Err(Error::invalid(format!("a vector has 1 to {MAX_COORDINATES} running sums, got {coordinates}")));
        }
        plan.check_independent()?;
        if plan.request().mix().is_some() {
            return Err(Error::invalid("a vector has one workload; plan one vector for each workload"));
        }
        let workload = plan.mechanism().workload();
        if !workload.is_sum() && sampling != LazySampling::Keyed {
            return Err(Error::invalid(format!(
                "`{sampling}` sampling cannot draw the noise of `{workload}`: it goes from step to step of running \
                 sums; use `{}`",
                LazySampling::Keyed
            )));
        }
        let noise = SampledLaw::new(&plan, sampling)?;
        Ok(Self { plan, coordinates, sampling, noise, history: false })
    }

    /// The same for vectors that remember the sums of all closed steps, so that
    /// [earlier steps](super::LazyVector::read_at) can be read. Memory then grows with the pairs of a sum and a step
    /// that have events.
    ///
    /// # Errors
    /// If the sampling is not [`LazySampling::Keyed`], whose noise can be drawn in any order, or the plan has windows.
    pub fn with_history(self) -> Result<Self> {
        if self.sampling != LazySampling::Keyed || !self.plan.mechanism().workload().is_sum() {
            return Err(Error::invalid(format!(
                "a history is for running sums with `{}` sampling, whose noise can be drawn at any step",
                LazySampling::Keyed
            )));
        }
        Ok(Self { history: true, ..self })
    }

    /// Whether vectors remember the sums of all closed steps.
    pub fn has_history(&self) -> bool {
        self.history
    }

    /// The same from a request. If it names no mechanism, the one with the smallest error is chosen among those with
    /// light steps that support this sampling.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally::plan::PlanRequest;
    /// use evertally::stream::{LazyPlan, LazySampling};
    /// let request = PlanRequest::count(1 << 20, Budget::Zcdp(Rho::new(0.5)?));
    /// let quick = LazyPlan::best(request.clone(), 1_000_000_000, LazySampling::Float)?;
    /// assert!(quick.plan().mechanism().name().family().stem == "normalized-blt");
    /// let exact = LazyPlan::best(request, 1_000_000_000, LazySampling::Keyed)?;
    /// assert!(exact.plan().mechanism().name().family().stem == "path-sum");
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a number is out of range, the budget cannot be met, or no mechanism supports this sampling.
    pub fn best(request: PlanRequest, coordinates: u64, sampling: LazySampling) -> Result<Self> {
        if request.mechanism().is_some() {
            return Self::new(request.plan()?, coordinates, sampling);
        }
        let mut refusal = None;
        let search = request.search().clone().with_light_steps(true);
        for candidate in request.clone().with_search(search).candidates()? {
            match Self::new(Plan::build(request.clone(), candidate)?, coordinates, sampling) {
                Ok(plan) => return Ok(plan),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        Err(refusal.expect("a request has candidates"))
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
    pub fn sampling(&self) -> LazySampling {
        self.sampling
    }

    /// The law of the noise that is drawn.
    pub fn law_name(&self) -> &'static str {
        match (&self.noise, self.plan.law()) {
            (SampledLaw::Skellam(..), _) => "Skellam",
            (SampledLaw::Buffers(..), _) | (SampledLaw::Float(_), DiscreteLaw::Gaussian(_)) => "rounded Gaussian",
            (SampledLaw::Float(_), DiscreteLaw::Laplace(_)) => "rounded Laplace",
            (_, DiscreteLaw::Gaussian(_)) => "discrete Gaussian",
            (_, DiscreteLaw::Laplace(_)) => "discrete Laplace",
        }
    }

    /// Standard error of a released value at a step (1 ..= T), in units of the data.
    ///
    /// # Panics
    /// If the step is 0 or beyond the horizon.
    pub fn std_error(&self, step: u64) -> f64 {
        let grid = self.plan.request().grid().to_f64(1);
        // Variance of one noise variable, in squared steps of the grid, and of the rounding.
        let (node, rounding) = match &self.noise {
            SampledLaw::Nodes | SampledLaw::Polya(_) => return self.plan.std_error(step),
            SampledLaw::Skellam(noise, _) => {
                let unit = libm::exp2(-f64::from(FRACTION_BITS));
                (noise.variance().to_f64() / power(noise.divisor() as f64, 2), unit * unit / 12.0)
            }
            SampledLaw::Float(float) | SampledLaw::Buffers(float, _) => {
                let unit = libm::exp2(-f64::from(float.fraction_bits));
                let laplace = matches!(self.plan.law(), DiscreteLaw::Laplace(_));
                let scale = float.units * unit;
                (scale * scale * if laplace { 2.0 } else { 1.0 }, unit * unit / 12.0)
            }
        };
        // The plan's own function refuses steps beyond the horizon.
        let row = self.plan.variance(step) / self.plan.node_variance();
        grid * libm::sqrt(node * row + rounding)
    }

    /// Releases are multiples of `2^-fraction_bits` of the grid.
    pub fn fraction_bits(&self) -> u32 {
        match &self.noise {
            SampledLaw::Nodes => self.plan.fraction_bits(),
            SampledLaw::Polya(_) => 0,
            SampledLaw::Skellam(..) => FRACTION_BITS,
            SampledLaw::Float(float) | SampledLaw::Buffers(float, _) => float.fraction_bits,
        }
    }

    /// The ε of (ε, δ)-differential privacy at this δ. Under Skellam noise by its own accounting; otherwise that of the
    /// [plan's guarantee](Plan::guarantee), whose ρ and stated pair hold for every sampling.
    ///
    /// # Errors
    /// None at present; the result type leaves room for limits.
    pub fn epsilon_at(&self, delta: Delta) -> Result<f64> {
        let guarantee = self.plan.guarantee();
        let SampledLaw::Skellam(noise, shift) = self.noise else { return Ok(guarantee.epsilon_at(delta)) };
        let own = skellam::epsilon(noise.variance(), shift, delta)?;
        let stated = guarantee.stated.filter(|(_, at)| at.get() <= delta.get()).map_or(f64::INFINITY, |(e, _)| e.get());
        Ok(own.min(conversions::epsilon_of_zcdp(guarantee.rho, delta)).min(stated))
    }

    /// The sampled law, which a state must match: another law would continue from other noise. A history is part of the
    /// state, too.
    pub(super) fn law_digest(&self) -> [u8; 32] {
        let law = match &self.noise {
            SampledLaw::Nodes if self.history => "nodes, with history".to_owned(),
            SampledLaw::Nodes => "nodes".to_owned(),
            SampledLaw::Polya(bridge) => format!("polya {}", bridge.scale()),
            SampledLaw::Skellam(bridge, _) => format!("skellam {} over {}", bridge.variance(), bridge.divisor()),
            SampledLaw::Float(float) | SampledLaw::Buffers(float, _) => {
                format!("float {:x} {}", float.units.to_bits(), float.fraction_bits)
            }
        };
        blake3::derive_key("evertally 1 lazy law", law.as_bytes())
    }

    /// A sum with its noise in whole units.
    pub(super) fn release(&self, step: u64, sum: i64, noise: i128) -> Release {
        let fraction_bits = self.fraction_bits();
        // fits: sums below 2^63 with at most 16 fraction bits, and noise below 2^112.
        let multiple = (i128::from(sum) << fraction_bits) + noise;
        Release { step, multiple, fraction_bits, grid: self.plan.request().grid() }
    }

    /// Which noise the cells use.
    pub(super) fn purpose(&self) -> Purpose<'static> {
        match &self.noise {
            SampledLaw::Nodes => Purpose::Sums,
            _ => Purpose::Reads(self.sampling.tag()),
        }
    }

    /// The cells of a vector of this key and name, all untouched.
    pub(super) fn cells(&self, key: &SecretKey, name: &StreamName) -> Box<dyn VectorCells> {
        let keyed = |purpose| KeyedNoise::unrecorded(key, name, &self.plan.digest(), purpose);
        let reads = keyed(Purpose::Reads(self.sampling.tag()));
        let walk = || walk(&self.plan, self.sampling).expect("asked when the plan was made");
        let laplace = matches!(self.plan.law(), DiscreteLaw::Laplace(_));
        match &self.noise {
            SampledLaw::Nodes => Box::new(KeyedCells::new(self.plan.clone(), keyed(Purpose::Sums))),
            SampledLaw::Polya(bridge) => along(walk(), *bridge, reads),
            SampledLaw::Skellam(bridge, _) => along(walk(), *bridge, reads),
            SampledLaw::Float(float) if laplace => along(walk(), GammaBridge::new(float.units), reads),
            SampledLaw::Float(float) => along(walk(), GaussianBridge::new(float.units), reads),
            SampledLaw::Buffers(float, model) => {
                let sampler = BufferSampler { model: model.clone(), units: float.units };
                Box::new(StateCells::new(sampler, reads))
            }
        }
    }
}

impl SampledLaw {
    /// The sampler of a plan's noise.
    fn new(plan: &Plan, sampling: LazySampling) -> Result<Self> {
        let mechanism = plan.mechanism();
        match sampling {
            LazySampling::Keyed if mechanism.has_random_access() => Ok(Self::Nodes),
            LazySampling::Keyed if !mechanism.workload().is_sum() => Err(Error::invalid(format!(
                "the noise of `{}` for `{}` depends on all earlier steps, so a single read cannot be computed alone; \
                 for windows use `input`, or a tree",
                mechanism.name().brief(),
                mechanism.workload()
            ))),
            LazySampling::Keyed => Err(refusal(plan, sampling, "it has no random access")),
            LazySampling::Float => match mechanism.lazy() {
                Some(Lazy::States(model)) => Ok(Self::Buffers(Float::new(plan)?, Arc::from(model))),
                _ => walk(plan, sampling).and_then(|_| Float::new(plan)).map(Self::Float),
            },
            LazySampling::Integer => {
                walk(plan, sampling)?;
                match plan.law() {
                    DiscreteLaw::Laplace(law) => PolyaBridge::new(law.scale()).map(Self::Polya),
                    DiscreteLaw::Gaussian(_) => skellam(plan).map(|(noise, shift)| Self::Skellam(noise, shift)),
                }
            }
        }
    }
}

fn refusal(plan: &Plan, sampling: LazySampling, reason: &str) -> Error {
    let name = plan.mechanism().name().brief();
    let blt = if sampling == LazySampling::Float { " or a BLT" } else { "" };
    Error::invalid(format!(
        "`{name}` does not support `{sampling}` sampling: {reason}; use `path-sum`{blt}, or for Laplace noise \
         `subtract` or `smooth`"
    ))
}

/// The paths of the mechanism, of unit lengths if the noise is Laplace: only equal scales have a bridge.
fn walk(plan: &Plan, sampling: LazySampling) -> Result<Box<dyn Walk>> {
    let refuse = |reason| Err(refusal(plan, sampling, reason));
    match (plan.mechanism().lazy().and_then(Lazy::into_walk), plan.law()) {
        (None, _) => refuse("it is not a sum along the paths of a tree, or its paths are too long"),
        (Some(walk), DiscreteLaw::Laplace(_)) if !walk.is_uniform() => refuse("it has Laplace noise of several scales"),
        (Some(walk), _) => Ok(walk),
    }
}

impl Float {
    /// Standard deviation of a release in units: the largest allowed, and the largest wanted.
    ///
    /// A double of standard deviation `s` has a spacing of about `s · 2^-52`. Measured in units, the probability of a
    /// single release is off by that fraction, and from 2^53 units on releases would not even reach all integers.
    const MAX_DEVIATION: f64 = (1u64 << 32) as f64;
    const TARGET_DEVIATION: f64 = (1u64 << 26) as f64;

    fn new(plan: &Plan) -> Result<Self> {
        let steps = plan.law().scale() / plan.noise_divisor() as f64;
        let deviation = plan.max_std_error() / plan.request().grid().to_f64(1);
        let fraction_bits =
            (0..FRACTION_BITS).rev().find(|bits| deviation * libm::exp2(f64::from(bits + 1)) <= Self::TARGET_DEVIATION);
        let fraction_bits = fraction_bits.map_or(0, |bits| bits + 1);
        if deviation > Self::MAX_DEVIATION {
            return Err(Error::invalid(format!(
                "floating-point noise of {deviation:e} grid steps would show its gaps; coarsen the grid, or use \
                 `keyed` sampling"
            )));
        }
        Ok(Self { fraction_bits, units: steps * libm::exp2(f64::from(fraction_bits)) * (1.0 + 1e-12) })
    }
}

/// Minimum variance of Skellam noise on its grid: from there on it is as good as discrete Gaussian noise up to a few
/// parts in 10^7.
const FINE_VARIANCE: f64 = (1u64 << 34) as f64;

/// Skellam noise with the guarantee of a plan with Gaussian noise, and the shift that it hides: enough for the budget,
/// by the accounting of Skellam noise, and at least the variance that can replace the plan's own noise, so that the
/// plan's ρ holds as well.
fn skellam(plan: &Plan) -> Result<(SkellamBridge, IntegerShift)> {
    let (divisor, squared, variables) = plan.shift_along_stretches()?.expect("the noise is Gaussian");
    let budget = &plan.request().budget();
    let mut refused = None;
    // Refined until the grid does not matter: the number of shifts stays, and they get longer.
    for bits in 0..40 {
        let Some(divisor) = divisor.checked_mul(1 << bits) else { break };
        let shift = IntegerShift::new(squared * libm::exp2(2.0 * f64::from(bits)), variables)?;
        let steps = divisor as f64 / plan.noise_divisor() as f64;
        let planned = rounded_up(plan.law().parameter().to_f64() * steps * steps * (1.0 + 1e-12))?;
        let enough =
            skellam::variance_for(budget, shift).and_then(|v| Ok(v.max(skellam::variance_in_place_of(planned)?)));
        match enough {
            Ok(variance) if variance.to_f64() >= FINE_VARIANCE => {
                return SkellamBridge::new(variance, divisor).map(|noise| (noise, shift));
            }
            Ok(_) => {}
            Err(error) => refused = Some(error), // too coarse for any bound
        }
    }
    Err(refused.unwrap_or_else(|| refusal(plan, LazySampling::Integer, "its noise needs too fine a grid")))
}

fn along<B: Bridge + 'static>(walk: Box<dyn Walk>, bridge: B, keyed: KeyedNoise) -> Box<dyn VectorCells>
where
    PathSampler<B>: Sampler,
{
    Box::new(StateCells::new(PathSampler { walk, bridge }, keyed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::NoiseKind;
    use crate::privacy::{Budget, Epsilon};

    /// Integer sampling under (ε, δ) needs the variance of continuous noise for the same shift, up to the rounding of
    /// the variance and the plan's own noise on its grid.
    #[test]
    fn skellam_noise_has_about_the_least_variance() {
        for (mechanism, horizon) in [("path-sum", 1000), ("subtract(k=5)", 37)] {
            for (epsilon, delta) in [(0.1, 1e-3), (0.1, 1e-10), (1.0, 1e-6), (8.0, 1e-3), (8.0, 1e-10)] {
                let (epsilon, delta) = (Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap());
                let request = PlanRequest::count(horizon, Budget::Approximate(epsilon, delta));
                let request = request.with_noise(NoiseKind::Gaussian).with_mechanism(mechanism.parse().unwrap());
                let plan = LazyPlan::new(request.plan().unwrap(), 1, LazySampling::Integer).unwrap();
                let SampledLaw::Skellam(noise, shift) = plan.noise else { panic!("it is Gaussian in integers") };
                let continuous = shift.squared() / power(conversions::mu_for(epsilon, delta), 2);
                let ratio = noise.variance().to_f64() / continuous;
                assert!((1.0..1.001).contains(&ratio), "{mechanism}, {epsilon:?}, {delta:?}: {ratio}");
            }
        }
    }
}
