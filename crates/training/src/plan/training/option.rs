//! An option, and those that are out of reach.

use crate::SamplingScheme;
use crate::plan::{VectorCandidate, VectorPlan, VectorRequest};
use evertally::{Error, Result};

/// The options of a training run.
#[derive(Clone, Debug, Default)]
pub struct TrainingOptions {
    /// Those with a plan, smallest error first.
    pub available: Vec<TrainingOption>,
    /// Those that are out of reach.
    pub omitted: Vec<OmittedOption>,
}

/// A training option that is out of reach.
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally_training::{Training, VectorRequest};
/// let budget = Budget::Approximate(Epsilon::new(1.0)?, Delta::new(1e-5)?);
/// // All examples in every batch.
/// let options = Training::new(100, 100, 4.0, VectorRequest::new(1, budget, 1.0))?.options()?;
/// let of = |option: &str| options.omitted.iter().find(|omitted| omitted.description == option);
/// let reason = of("random allocation").map(|omitted| &*omitted.reason);
/// assert_eq!(reason, Some("an epoch has one step, in which all examples take part"));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OmittedOption {
    /// How examples are sampled.
    pub sampling: Option<SamplingScheme>,
    /// A short description.
    pub description: String,
    /// Why it is out of reach.
    pub reason: String,
}

/// A training option: an order of the examples, a mechanism, and the resulting plan.
#[doc(alias = "Way")]
#[derive(Clone, Debug)]
pub struct TrainingOption {
    /// How examples are sampled, by [`Batches`](crate::Batches), which must stay secret. `None` is the fixed order:
    /// batches of one size, the same in every epoch, which need not be secret.
    pub sampling: Option<SamplingScheme>,
    /// The plan of this option.
    pub plan: VectorPlan,
    /// The expected batch size.
    pub batch: f64,
    /// Memory or fresh noise of a step, in copies of the gradient; 0 if it grows with the logarithm of the horizon.
    pub memory: u64,
    /// Whether that is within the request's limit.
    pub fits: bool,
    relative_error: f64,
}

impl TrainingOptions {
    pub(super) fn without(omitted: OmittedOption) -> Self {
        Self { available: vec![], omitted: vec![omitted] }
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.available.extend(other.available);
        self.omitted.extend(other.omitted);
    }

    /// The smallest error over expected batch among those that fit the memory.
    pub(super) fn least_error(&self) -> f64 {
        let fitting = self.available.iter().filter(|option| option.fits);
        fitting.map(TrainingOption::error_of_mean).fold(f64::INFINITY, f64::min)
    }

    /// Sorted by error over expected batch.
    ///
    /// # Errors
    /// If none is available, with the first reason.
    pub(super) fn ranked(mut self) -> Result<Self> {
        self.available.sort_by(|a, b| a.error_of_mean().total_cmp(&b.error_of_mean()));
        let Some(least) = self.available.first().map(TrainingOption::error_of_mean) else {
            let reason = self.omitted.first().map_or("there is no option", |omitted| &omitted.reason);
            return Err(Error::invalid(format!("no training option is available: {reason}")));
        };
        self.available.iter_mut().for_each(|option| option.relative_error = option.error_of_mean() / least);
        Ok(self)
    }
}

impl TrainingOption {
    pub(super) fn new(request: &VectorRequest, candidate: &VectorCandidate, batch: f64) -> Self {
        let plan = VectorPlan::build(request.clone(), candidate.clone());
        Self {
            sampling: plan.sampling_scheme(),
            memory: candidate.memory,
            fits: candidate.memory <= request.max_memory,
            plan,
            batch,
            relative_error: 1.0,
        }
    }

    /// The error that is minimised, of the mean gradient of a batch.
    fn error_of_mean(&self) -> f64 {
        self.plan.request().objective().of(self.plan.max_std_error(), self.plan.mean_std_error()) / self.batch
    }

    /// The error that is minimised over the expected batch size, divided by that of the best option.
    pub fn relative_error(&self) -> f64 {
        self.relative_error
    }

    /// A short description.
    ///
    /// ```
    /// # use evertally::privacy::{Budget, Delta, Epsilon};
    /// # use evertally_training::{Training, VectorRequest};
    /// # let budget = Budget::Approximate(Epsilon::new(0.1)?, Delta::new(1e-5)?);
    /// let training = Training::new(1000, 100, 1.0, VectorRequest::new(1, budget, 1.0))?;
    /// let found = training.options()?.available;
    /// let descriptions: Vec<String> = found.iter().map(|option| option.description()).collect();
    /// assert!(descriptions.contains(&"Poisson sampling, independent noise (DP-SGD)".into()));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn description(&self) -> String {
        let is_independent = self.plan.name().family().is_independent;
        let order = match self.sampling {
            None => "fixed order".to_owned(),
            Some(SamplingScheme::Poisson) => "Poisson sampling".into(),
            // A group for each band, which the mechanism names.
            Some(SamplingScheme::CyclicPoisson) => "cyclic Poisson sampling".into(),
            Some(SamplingScheme::FixedSize) => "batches of fixed size".into(),
            Some(SamplingScheme::TruncatedPoisson) => "truncated Poisson sampling".into(),
            Some(SamplingScheme::RandomAllocation) => "random allocation".into(),
            Some(SamplingScheme::PerEpochRandomAllocation) => "per-epoch random allocation".into(),
        };
        match self.sampling {
            Some(SamplingScheme::Poisson) if is_independent => format!("{order}, independent noise (DP-SGD)"),
            _ if is_independent => format!("{order}, independent noise"),
            _ => format!("{order}, {}", self.plan.name().brief()),
        }
    }
}
