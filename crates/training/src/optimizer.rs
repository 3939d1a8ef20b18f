//! The effect of a training loop on the noise: momentum, weight decay and learning rates.
//!
//! A mechanism gives every step's vector `g_t` the noise `e_t = (L z)_t - (L z)_(t-1)`. The final quantity of interest
//! is not their running sum, but how far they move the parameters. Stochastic gradient descent with heavy-ball momentum
//! `β`, decoupled weight decay `λ` and the public rates `η_t` is
//!
//! ```text
//! m_t = β m_(t-1) + g_t,      θ_t = (1 - λ η_t) θ_(t-1) - η_t m_t,
//! ```
//!
//! which is linear in the `g_t`: the noise of the parameters after step `t` is row `t` of `W e` with `W` lower
//! triangular, and Toeplitz if rates are constant. With `β = λ = 0` and rates of 1 it is that of the running sums.
//! (Denisov et al. 2022, arXiv 2202.08312, and Kalinin, Lampert 2024, arXiv 2405.13763, for momentum and decay;
//! Kalinin, Andersson 2025, arXiv 2511.17994, for rates.)
//!
//! **Privacy** does not depend on it: sensitivities are those of the factorization of the running sums, and the loop is
//! post-processing. It determines which factorization has the smallest error ([error], [lower_bound]).

pub(super) mod error;
pub(super) mod lower_bound;
#[cfg(test)]
mod tests;

use evertally::mechanism::Recursion;
use evertally::{Error, Result};
use serde::{Deserialize, Serialize};

/// The longest horizon for which errors are computed step by step.
const MAX_STEPS: u64 = 1 << 20;

/// The learning rates of all steps, which are public.
///
/// ```
/// use evertally_training::Rates;
/// let rates = Rates::WarmupCosine { peak: 0.1, warmup: 10, last: 0.0 };
/// assert!((rates.at(5, 100) - 0.05).abs() < 1e-15);
/// assert!((rates.at(55, 100) - 0.05).abs() < 1e-15); // half way down
/// assert_eq!(rates.at(100, 100), 0.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Rates {
    /// The same in every step.
    Constant(f64),
    /// Rises linearly to `peak` over the first `warmup` steps, then falls to `last` by half a cosine.
    WarmupCosine {
        /// The largest rate.
        peak: f64,
        /// Number of warm-up steps until the peak, fewer than the horizon; 0 for none.
        warmup: u64,
        /// The rate of the last step.
        last: f64,
    },
    /// One rate per step.
    List(Vec<f64>),
}

impl Rates {
    /// The rate of a step (1 ..= `horizon`).
    ///
    /// # Panics
    /// If a list has no rate for the step.
    pub fn at(&self, step: u64, horizon: u64) -> f64 {
        match self {
            Self::Constant(rate) => *rate,
            Self::List(rates) => rates[(step - 1) as usize],
            Self::WarmupCosine { peak, warmup, .. } if step <= *warmup => peak * step as f64 / *warmup as f64,
            Self::WarmupCosine { peak, warmup, last } => {
                let done = (step - warmup) as f64 / (horizon - warmup) as f64;
                last + (peak - last) * 0.5 * (1.0 + libm::cos(std::f64::consts::PI * done))
            }
        }
    }
}

/// A linear optimizer: stochastic gradient descent with momentum, weight decay and learning rates.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally_training::{Optimizer, Rates, Series, VectorRequest};
/// let request = VectorRequest::new(500, Budget::Zcdp(Rho::new(0.5)?), 1.0).with_series(Series::Increments);
/// let rates = Rates::WarmupCosine { peak: 1.0, warmup: 50, last: 0.0 };
/// let optimizer = Optimizer::new(rates)?.with_momentum(0.9)?;
/// let sums = request.clone().plan()?;
/// let plan = request.clone().with_optimizer(optimizer.clone()).plan()?;
/// // The error of the parameters, and that of the mechanism that is best for running sums.
/// let other = request.with_optimizer(optimizer).with_mechanism(sums.name()).plan()?;
/// assert!(plan.max_std_error() < 0.97 * other.max_std_error());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Optimizer {
    momentum: f64,
    weight_decay: f64,
    rates: Rates,
}

/// The update of one step: `m ← β m + g`, `θ ← kept · θ - rate · m`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OptimizerStep {
    pub(super) kept: f64,
    pub(super) rate: f64,
}

impl Optimizer {
    /// With these rates, without momentum and weight decay.
    ///
    /// # Errors
    /// If a rate is not finite or negative, none is above 0, or the list is empty.
    pub fn new(rates: Rates) -> Result<Self> {
        let fits = |rate: &f64| (0.0..=1e30).contains(rate);
        let (all_fit, largest) = match &rates {
            Rates::Constant(rate) => (fits(rate), *rate),
            Rates::WarmupCosine { peak, last, .. } => (fits(peak) && fits(last) && last <= peak, *peak),
            Rates::List(rates) => (rates.iter().all(fits), rates.iter().copied().fold(0.0, f64::max)),
        };
        if !all_fit || !(1e-30..).contains(&largest) {
            return Err(Error::invalid(
                "learning rates must be finite numbers from 0, one of them above 0, and the last of a cosine no more \
                 than its peak",
            ));
        }
        Ok(Self { momentum: 0.0, weight_decay: 0.0, rates })
    }

    /// With heavy-ball momentum `β`: `m_t = β m_(t-1) + g_t`. (Frameworks with dampening or Nesterov momentum differ
    /// from this.)
    ///
    /// # Errors
    /// If it is not from 0 to 0.9999.
    pub fn with_momentum(self, momentum: f64) -> Result<Self> {
        if !(0.0..=0.9999).contains(&momentum) {
            return Err(Error::invalid(format!("momentum must be a number from 0 to 0.9999, got {momentum}")));
        }
        Ok(Self { momentum, ..self })
    }

    /// With decoupled weight decay `λ`: parameters shrink by `1 - λ η_t` in a step. Without momentum every framework
    /// does this; with momentum, those whose decay bypasses it do (as in AdamW).
    ///
    /// # Errors
    /// If it is negative or not a number.
    pub fn with_weight_decay(self, weight_decay: f64) -> Result<Self> {
        if !(0.0..=1e30).contains(&weight_decay) {
            return Err(Error::invalid(format!("the weight decay must be a number from 0, got {weight_decay}")));
        }
        Ok(Self { weight_decay, ..self })
    }

    /// `β`.
    pub fn momentum(&self) -> f64 {
        self.momentum
    }

    /// `λ`.
    pub fn weight_decay(&self) -> f64 {
        self.weight_decay
    }

    /// `η_t`.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// As text that follows "the error".
    pub fn in_words(&self) -> String {
        let rates = match &self.rates {
            Rates::Constant(rate) => format!("a learning rate of {rate}"),
            Rates::WarmupCosine { peak, warmup, last } => {
                format!("learning rates up to {peak} in {warmup} steps and down to {last} by a cosine")
            }
            Rates::List(rates) => format!("{} listed learning rates", rates.len()),
        };
        let momentum = (self.momentum > 0.0).then(|| format!(", momentum {}", self.momentum));
        let decay = (self.weight_decay > 0.0).then(|| format!(", weight decay {}", self.weight_decay));
        format!("of the parameters, for {rates}{}{}", momentum.unwrap_or_default(), decay.unwrap_or_default())
    }

    /// The same, as hashable values for a search.
    ///
    /// # Errors
    /// As [`steps`](Self::steps).
    pub(super) fn as_loop(&self, horizon: u64) -> Result<Recursion> {
        let steps = self.steps(horizon)?.iter().map(|step| (step.kept, step.rate)).collect();
        Ok(Recursion { momentum: self.momentum, steps })
    }

    /// All steps of a horizon.
    ///
    /// # Errors
    /// If the horizon is too long or not that of the rates, or a step would flip the parameters' sign.
    pub(super) fn steps(&self, horizon: u64) -> Result<Vec<OptimizerStep>> {
        // A file may hold values that the constructors refuse.
        let again = Self::new(self.rates.clone())?;
        again.with_momentum(self.momentum)?.with_weight_decay(self.weight_decay)?;
        if horizon > MAX_STEPS {
            return Err(Error::invalid(format!(
                "the error of an optimizer is computed over at most {MAX_STEPS} steps, got {horizon}; plan without it"
            )));
        }
        match &self.rates {
            Rates::List(rates) if rates.len() as u64 != horizon => {
                return Err(Error::invalid(format!("{} learning rates are listed for {horizon} steps", rates.len())));
            }
            Rates::WarmupCosine { warmup, .. } if *warmup >= horizon => {
                return Err(Error::invalid(format!("the warm-up of {warmup} steps takes up all {horizon} steps")));
            }
            _ => {}
        }
        let step = |t| {
            let rate = self.rates.at(t, horizon);
            OptimizerStep { kept: 1.0 - self.weight_decay * rate, rate }
        };
        let steps: Vec<OptimizerStep> = (1..=horizon).map(step).collect();
        if steps.iter().any(|step| step.kept < 0.0) {
            return Err(Error::invalid(format!(
                "a weight decay of {} times the learning rate is above 1 in some step",
                self.weight_decay
            )));
        }
        Ok(steps)
    }
}
