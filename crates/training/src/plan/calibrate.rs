//! From a budget to the standard deviation of Gaussian noise, and the guarantee of that noise.

use super::request::SCALES;
use super::{VectorCandidate, VectorRequest};
use crate::sampling::SamplingGuarantee;
use evertally::mechanism::{Mechanism, Participation, SearchWatch};
use evertally::privacy::{Budget, Delta, Epsilon, Rho, conversions};
use evertally::{Error, Result};

/// Headroom for the few roundings of a formula.
const ROUNDING: f64 = 1e-14;

/// The privacy guarantee of a plan's releases: `μ`-GDP, the strongest statement about Gaussian noise, and its
/// consequences.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally_training::VectorRequest;
/// let guarantee = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0).plan()?.guarantee();
/// assert!((guarantee.mu() - 1.0).abs() < 1e-13 && guarantee.rho().get() == 0.5);
/// assert_eq!(guarantee.epsilon_delta(), None);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct VectorGuarantee {
    mu: f64,
    rho: Rho,
    stated: Option<(Epsilon, Delta)>,
    /// For the first steps of a plan: the pair that all of its steps have.
    whole: Option<(Epsilon, Delta)>,
    /// If examples are sampled: the guarantee of the sampling, and the plan's noise.
    sampled: Option<(SamplingGuarantee, f64)>,
}

impl VectorGuarantee {
    /// The guarantee that uses all of a budget.
    ///
    /// # Errors
    /// If it is pure ε.
    pub(super) fn new(budget: &Budget) -> Result<Self> {
        match *budget {
            Budget::Pure(_) => Err(Error::invalid(
                "vectors get Gaussian noise, which cannot give pure ε-differential privacy; add a delta or use rho",
            )),
            Budget::Zcdp(rho) => {
                let mu = (2.0 * rho.get()).sqrt() * (1.0 + ROUNDING);
                Ok(Self { mu, rho, stated: None, whole: None, sampled: None })
            }
            Budget::Approximate(epsilon, delta) => {
                let mu = conversions::mu_for(epsilon, delta);
                let rho = Rho::derived(mu * mu / 2.0 * (1.0 + ROUNDING));
                Ok(Self { mu, rho, stated: Some((epsilon, delta)), whole: None, sampled: None })
            }
        }
    }

    /// The guarantee of a candidate's noise: all that the budget allows, or with sampling the same (ε, δ), and against
    /// those who know the batches the guarantee of the noise alone.
    pub(super) fn from_candidate(request: &VectorRequest, chosen: &VectorCandidate) -> Result<Self> {
        let all = Self::new(&request.budget)?;
        let Some(sampling) = chosen.sampled.clone() else { return Ok(all) };
        let noise = chosen.sigma / (request.norm * request.norms_per_step()) * (1.0 - ROUNDING);
        let mu = chosen.sensitivity / noise * (1.0 + ROUNDING);
        let rho = Rho::derived(mu * mu / 2.0 * (1.0 + ROUNDING));
        Ok(Self { mu, rho, sampled: Some((sampling, noise)), ..all })
    }

    /// The guarantee of the first steps alone, in which an example moves the releases by at most this many standard
    /// deviations, with the sampling of these steps, if there is any.
    pub(super) fn of_first_steps(&self, per_sigma: f64, sampling: Option<SamplingGuarantee>) -> Self {
        let mu = (per_sigma * (1.0 + 2.0 * ROUNDING)).min(self.mu);
        let rho = Rho::derived((mu * mu / 2.0 * (1.0 + ROUNDING)).min(self.rho.get()));
        let sampled = match (&self.sampled, sampling) {
            (Some((_, noise)), Some(sampling)) => Some((sampling, *noise)),
            (sampled, _) => sampled.clone(),
        };
        Self { mu, rho, stated: None, whole: self.stated, sampled }
    }

    /// `μ` of Gaussian differential privacy: no test distinguishes two neighbouring data sets better than one
    /// observation of a normal variable of standard deviation 1 whose mean is 0 or `μ`. (Dong, Roth, Su 2022, arXiv
    /// 1905.02383.) With sampling, this holds against those who know the batches.
    pub fn mu(&self) -> f64 {
        self.mu
    }

    /// `ρ` of zCDP; with sampling as [`mu`](Self::mu).
    pub fn rho(&self) -> Rho {
        self.rho
    }

    /// The (ε, δ) pair of the budget, if it was given as one.
    pub fn epsilon_delta(&self) -> Option<(Epsilon, Delta)> {
        self.stated
    }

    /// The smallest ε of (ε, δ)-differential privacy at this δ, by the exact curve of Gaussian noise, or with sampling
    /// by a bound that is within 0.1 % in the noise, or a percent with random allocation (then it takes seconds),
    /// rounded up.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon};
    /// use evertally_training::VectorRequest;
    /// let delta = Delta::new(1e-6)?;
    /// let budget = Budget::Approximate(Epsilon::new(2.0)?, delta);
    /// let guarantee = VectorRequest::new(100, budget, 1.0).plan()?.guarantee();
    /// assert_eq!(guarantee.epsilon_at(delta), 2.0);
    /// assert!(guarantee.epsilon_at(Delta::new(1e-9)?) > 2.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn epsilon_at(&self, delta: Delta) -> f64 {
        if let Some((epsilon, at)) = self.stated
            && at == delta
        {
            return epsilon.get();
        }
        let plain = conversions::epsilon_of_gaussian(self.mu, delta);
        let with_sampling = |(guarantee, noise): &(SamplingGuarantee, f64)| {
            guarantee.epsilon(*noise, delta).map_or(plain, |own| own.min(plain))
        };
        let curve = self.sampled.as_ref().map_or(plain, with_sampling);
        match self.stated.or(self.whole) {
            // The stated pair holds by definition; the inverse conversion only adds rounding.
            Some((epsilon, at)) if at.get() <= delta.get() => curve.min(epsilon.get()),
            _ => curve,
        }
    }
}

/// The sensitivity `s` of a mechanism for vectors of norm 1 and a participation, and the `σ` that hides a unit of the
/// request, with the guarantee of its sampling, if there is any.
pub(super) fn calibrated(
    request: &VectorRequest,
    mechanism: &dyn Mechanism,
    (participation, sampled): (Participation, Option<&SamplingGuarantee>),
    watch: SearchWatch<'_>,
) -> Result<(f64, f64)> {
    let squared = mechanism.participation_squared_watched(participation, watch)?;
    let sensitivity = squared.sqrt() * (1.0 + ROUNDING);
    let by_mu = |mu: f64| sensitivity * (request.norm * request.norms_per_step()) / mu * (1.0 + ROUNDING);
    let sigma = match (request.budget, sampled) {
        (Budget::Approximate(epsilon, delta), Some(sampling)) => {
            // The guarantee is computed again from σ, a little below it.
            let noise = sampling.noise_for(epsilon, delta)?;
            noise * (request.norm * request.norms_per_step()) * (1.0 + 4.0 * ROUNDING)
        }
        (Budget::Zcdp(rho), _) => by_mu((2.0 * rho.get()).sqrt() * (1.0 - ROUNDING)),
        (ref budget, _) => by_mu(VectorGuarantee::new(budget)?.mu),
    };
    if !SCALES.contains(&sigma) {
        return Err(Error::invalid(format!(
            "`{}` would need noise of standard deviation {sigma:e}, outside 1e-30 to 1e30; \
             scale the vectors, raise the budget or use another mechanism",
            mechanism.name()
        )));
    }
    Ok((sensitivity, sigma))
}
