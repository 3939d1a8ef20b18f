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
//! Two other linear loops: **Nesterov momentum** moves the parameters by `η_t (g_t + β m_t)` instead of `η_t m_t`, and
//! an **average of the iterates** `v_t = (1 - w_t) v_(t-1) + w_t θ_t` replaces the parameters ([`IterateAverage`]).
//! Errors are those of `v_t`, over all steps or only over the last ones.
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

/// An average of the parameters, which replaces them when the model is used.
///
/// ```
/// use evertally_training::IterateAverage;
/// // The weight of a step's parameters in the average after it.
/// let tail = IterateAverage::Tail(3);
/// assert_eq!([6, 7, 8, 9, 10].map(|step| tail.weight(step, 10)), [1.0, 1.0, 1.0, 0.5, 1.0 / 3.0]);
/// assert!((IterateAverage::Exponential(0.99).weight(5, 10) - 0.01).abs() < 1e-15);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IterateAverage {
    /// An exponential moving average with this decay `α`: `v_t = α v_(t-1) + (1 - α) θ_t`.
    Exponential(f64),
    /// The mean over the last steps of the run, this many (stochastic weight averaging). Before, the parameters.
    Tail(u64),
}

impl IterateAverage {
    /// The weight `w_t` of the parameters of a step (1 ..= `horizon`) in the average after it.
    pub fn weight(self, step: u64, horizon: u64) -> f64 {
        match self {
            Self::Exponential(decay) => 1.0 - decay,
            Self::Tail(last) => 1.0 / step.saturating_add(last).saturating_sub(horizon).max(1) as f64,
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
    nesterov: bool,
    average: Option<IterateAverage>,
    counted_steps: Option<u64>,
}

/// The momentum of a loop: `m ← β m + g`, and what moves the parameters, `look · m + fresh · g`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Momentum {
    pub(super) decay: f64,
    pub(super) look: f64,
    pub(super) fresh: f64,
}

/// The update of one step: `θ ← kept · θ - rate · (look · m + fresh · g)`, `v ← (1 - taken) v + taken · θ`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OptimizerStep {
    pub(super) kept: f64,
    pub(super) rate: f64,
    pub(super) taken: f64,
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
        Ok(Self { momentum: 0.0, weight_decay: 0.0, rates, nesterov: false, average: None, counted_steps: None })
    }

    /// With heavy-ball momentum `β`: `m_t = β m_(t-1) + g_t`. (Frameworks with dampening differ from this.)
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

    /// With Nesterov momentum, as in the frameworks' `SGD(nesterov=True)`: a step moves the parameters by
    /// `g_t + β m_t` instead of `m_t`.
    ///
    /// Errors are exact. Bands are optimised as for heavy-ball momentum.
    ///
    /// ```
    /// use evertally_training::{Optimizer, Rates};
    /// let optimizer = Optimizer::new(Rates::Constant(0.1))?.with_momentum(0.9)?.with_nesterov(true);
    /// assert!(optimizer.has_nesterov());
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn with_nesterov(self, nesterov: bool) -> Self {
        Self { nesterov, ..self }
    }

    /// With an average of the iterates: errors are those of the average after each step. Before the first step it is
    /// the initial parameters.
    ///
    /// Errors are exact. Bands are optimised as without the average.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally_training::{IterateAverage, Optimizer, Rates, VectorRequest};
    /// let sgd = Optimizer::new(Rates::Constant(0.1))?;
    /// let averaged = sgd.clone().with_average(Some(IterateAverage::Tail(50)))?;
    /// let request = VectorRequest::new(200, Budget::Zcdp(Rho::new(0.5)?), 1.0).with_mechanism("input".parse()?);
    /// let last = |optimizer: Optimizer| Ok::<_, evertally::Error>(
    ///     request.clone().with_optimizer(optimizer).plan()?.std_error(200),
    /// );
    /// assert!(last(averaged)? < 0.95 * last(sgd)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If a decay is not from 0 to 0.999999, or a tail has no step.
    pub fn with_average(self, average: Option<IterateAverage>) -> Result<Self> {
        let fits = match average {
            Some(IterateAverage::Exponential(decay)) => (0.0..=0.999_999).contains(&decay),
            Some(IterateAverage::Tail(last)) => last > 0,
            None => true,
        };
        if !fits {
            return Err(Error::invalid(
                "an average of the iterates has a decay from 0 to 0.999999, or at least 1 step",
            ));
        }
        Ok(Self { average, ..self })
    }

    /// Counts only the errors of this many last steps, or of all: the largest and the mean are those of the counted
    /// steps. With 1, it is the error of the final parameters.
    ///
    /// # Errors
    /// If it is 0.
    pub fn with_counted_steps(self, counted_steps: Option<u64>) -> Result<Self> {
        if counted_steps == Some(0) {
            return Err(Error::invalid("the error of at least 1 step must be counted"));
        }
        Ok(Self { counted_steps, ..self })
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

    /// Whether the momentum is that of Nesterov.
    pub fn has_nesterov(&self) -> bool {
        self.nesterov
    }

    /// The average of the iterates, if there is one.
    pub fn average(&self) -> Option<IterateAverage> {
        self.average
    }

    /// How many last steps are counted; all if `None`.
    pub fn counted_steps(&self) -> Option<u64> {
        self.counted_steps
    }

    /// The part of a list with an entry for every step that is counted.
    pub(super) fn counted<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        let counted = self.counted_steps.and_then(|steps| usize::try_from(steps).ok()).unwrap_or(usize::MAX);
        &all[all.len().saturating_sub(counted)..]
    }

    pub(super) fn momentum_of_loop(&self) -> Momentum {
        let (look, fresh) = if self.nesterov { (self.momentum, 1.0) } else { (1.0, 0.0) };
        Momentum { decay: self.momentum, look, fresh }
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
        let kind = if self.nesterov { "Nesterov momentum" } else { "momentum" };
        let momentum = (self.momentum > 0.0).then(|| format!(", {kind} {}", self.momentum));
        let decay = (self.weight_decay > 0.0).then(|| format!(", weight decay {}", self.weight_decay));
        let of = match self.average {
            None => "of the parameters".to_owned(),
            Some(IterateAverage::Exponential(decay)) => format!("of the moving average with decay {decay}"),
            Some(IterateAverage::Tail(last)) => format!("of the average over the last {last} steps"),
        };
        let counted = self.counted_steps.map(|steps| format!(" in the last {steps} steps")).unwrap_or_default();
        format!("{of}{counted}, for {rates}{}{}", momentum.unwrap_or_default(), decay.unwrap_or_default())
    }

    /// The largest number of last steps that are averaged or counted.
    fn longest_tail(&self) -> Option<u64> {
        let averaged = match self.average {
            Some(IterateAverage::Tail(last)) => Some(last),
            _ => None,
        };
        averaged.max(self.counted_steps)
    }

    /// The same with heavy-ball momentum and without average, as hashable values for a search.
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
        let again = again.with_momentum(self.momentum)?.with_weight_decay(self.weight_decay)?;
        again.with_average(self.average)?.with_counted_steps(self.counted_steps)?;
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
            let taken = self.average.map_or(1.0, |average| average.weight(t, horizon));
            OptimizerStep { kept: 1.0 - self.weight_decay * rate, rate, taken }
        };
        let steps: Vec<OptimizerStep> = (1..=horizon).map(step).collect();
        if let Some(last) = self.longest_tail().filter(|last| *last > horizon) {
            return Err(Error::invalid(format!(
                "there are no {last} last steps to average or count: the run has {horizon}"
            )));
        }
        if steps.iter().any(|step| step.kept < 0.0) {
            return Err(Error::invalid(format!(
                "a weight decay of {} times the learning rate is above 1 in some step",
                self.weight_decay
            )));
        }
        Ok(steps)
    }
}
