//! The guarantee of a mechanism with sampling.

use super::truncation;
use crate::noise_search::rounded_up_until;
use crate::poisson_subsampling::SampledGaussians;
use crate::random_allocation::{Coarseness, DisjointAllocation, RandomAllocation};
use evertally::privacy::{Budget, Delta, Epsilon};
use evertally::{Error, Result};

/// The guarantee of a mechanism with sampling, for noise of standard deviation 1 and an example that moves a step by at
/// most 1: vectors of norm 1, or of norm ½ if examples are replaced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SamplingGuarantee {
    /// The rounds of one example.
    Rounds(SampledGaussians),
    /// The same with a maximum batch, and `τ` of [`truncation`].
    Truncated(SampledGaussians, f64),
    /// The step, or steps, that one example is allocated to.
    Allocation(RandomAllocation),
    /// The same with independent noise, and more steps per epoch than a table of them may have.
    Disjoint(DisjointAllocation),
}

/// The δ that a maximum batch leaves to Poisson sampling.
fn rest(overflow: f64, epsilon: f64, delta: Delta) -> Result<Delta> {
    let rest = (delta.get() - truncation::cost(overflow, epsilon)) * (1.0 - 1e-15);
    Delta::new(rest).map_err(|_| {
        Error::invalid(
            "batches are above this maximum with more than a negligible probability, which is part of delta: raise the \
             maximum batch, or omit it, and the plan chooses one",
        )
    })
}

impl SamplingGuarantee {
    /// The noise for (ε, δ), rounded up.
    pub(crate) fn noise_for(&self, epsilon: Epsilon, delta: Delta) -> Result<f64> {
        match self {
            Self::Rounds(rounds) => rounds.certified_factor_for(epsilon, delta),
            Self::Truncated(rounds, overflow) => {
                rounds.certified_factor_for(epsilon, rest(*overflow, epsilon.get(), delta)?)
            }
            Self::Allocation(allocation) => allocation.certified_noise_for(epsilon, delta),
            Self::Disjoint(allocation) => allocation.noise_for(epsilon, delta, Coarseness::FINE),
        }
    }

    /// A faster estimate of the same, without certification: to compare mechanisms.
    pub(crate) fn likely_noise_for(&self, budget: &Budget) -> Option<f64> {
        let Budget::Approximate(epsilon, delta) = *budget else { return None };
        match self {
            Self::Rounds(_) | Self::Truncated(..) => self.noise_for(epsilon, delta).ok(),
            Self::Allocation(allocation) => Some(allocation.likely_noise_for(epsilon, delta)),
            Self::Disjoint(allocation) => allocation.noise_for(epsilon, delta, Coarseness::ROUGH).ok(),
        }
    }

    /// An estimate in milliseconds, for a first comparison of mechanisms that are alike.
    pub(crate) fn rough_noise_for(&self, budget: &Budget) -> Option<f64> {
        let Budget::Approximate(epsilon, delta) = *budget else { return None };
        match self {
            Self::Rounds(rounds) | Self::Truncated(rounds, _) => rounds.rough_factor_for(epsilon, delta),
            Self::Allocation(allocation) => Some(allocation.rough_noise_for(epsilon, delta)),
            Self::Disjoint(_) => self.likely_noise_for(budget),
        }
    }

    /// An ε with this noise, rounded up.
    pub(crate) fn epsilon(&self, noise: f64, delta: Delta) -> Result<f64> {
        match self {
            Self::Rounds(rounds) => Ok(rounds.scaled(noise)?.epsilon(delta)),
            Self::Truncated(rounds, overflow) => {
                let rounds = rounds.scaled(noise)?;
                // `ε(δ - (1 + e^ε) τ)` grows with ε: where it is at most ε, ε holds.
                let spent = |at: f64| -> Result<f64> { Ok(rounds.epsilon(rest(*overflow, at, delta)?)) };
                let least = spent(0.0)?;
                if least == 0.0 { Ok(0.0) } else { rounded_up_until(least, |at| Ok(spent(at)? / at)) }
            }
            Self::Allocation(allocation) => allocation.epsilon(noise, delta),
            Self::Disjoint(allocation) => Ok(allocation.epsilon(noise, delta)),
        }
    }
}
