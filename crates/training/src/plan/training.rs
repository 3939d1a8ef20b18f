//! Training options: the noise and the order of the examples, ranked by error.
//!
//! A run is described as usual: number of examples, batch size, epochs. All options have the same number of steps and
//! the same expected batch size, so that errors can be compared: those of the running sums, or of the parameters under
//! an [`Optimizer`].

use super::{VectorCandidate, VectorPlan, VectorRequest};
use crate::{Sampling, SamplingScheme};
use evertally::mechanism::Participation;
use evertally::plan::SearchObserver;
use evertally::privacy::{Budget, Neighbours};
use evertally::{Error, Result};

/// A training run and its budget. Start from the request for its plans ([`VectorRequest`], whose horizon,
/// participation, sampling and mechanism do not matter).
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally_training::{SamplingScheme, Training, VectorRequest};
/// let budget = Budget::Approximate(Epsilon::new(2.0)?, Delta::new(1e-5)?);
/// // 6000 examples in batches of 100, two epochs.
/// let training = Training::new(6000, 100, 2.0, VectorRequest::new(1, budget, 1.0))?;
/// let options = training.options()?;
/// assert_eq!((training.steps(), options[0].plan.horizon()), (120, 120));
/// for sampling in [None, Some(SamplingScheme::Poisson), Some(SamplingScheme::RandomAllocation)] {
///     assert!(options.iter().any(|option| option.sampling == sampling));
/// }
/// assert!(options.windows(2).all(|pair| pair[0].plan.max_std_error() <= pair[1].plan.max_std_error()));
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Training {
    examples: u64,
    batch: u64,
    steps: u64,
    request: VectorRequest,
}

/// The numbers of steps per epoch for which random allocation is accounted for.
const STEPS_PER_EPOCH: std::ops::RangeInclusive<u64> = 2..=2048;

/// Per-epoch random allocation is tried for at most this many epochs. For many short epochs it is close to Poisson
/// sampling, and planning takes minutes.
const MAX_ALLOCATED_EPOCHS: u64 = 64;

/// A training option: an order of the examples, a mechanism, and the resulting plan.
#[doc(alias = "Way")]
#[derive(Clone, Debug)]
pub struct TrainingOption {
    /// How examples are sampled, by [`Batches`](crate::Batches), which must stay secret. `None` is the fixed order:
    /// batches of one size, the same in every epoch, which need not be secret.
    pub sampling: Option<SamplingScheme>,
    /// The plan of this option.
    pub plan: VectorPlan,
    /// Memory or fresh noise of a step, in copies of the gradient; 0 if it grows with the logarithm of the horizon.
    pub memory: u64,
    /// Whether that is within the request's limit.
    pub fits: bool,
}

impl Training {
    /// A run over this many examples, with this batch size, for this many epochs.
    ///
    /// # Errors
    /// If the batch is larger than the data, or a number is out of range.
    pub fn new(examples: u64, batch: u64, epochs: f64, request: VectorRequest) -> Result<Self> {
        if batch == 0 || batch > examples {
            return Err(Error::invalid(format!("a batch must hold 1 to all {examples} examples, got {batch}")));
        }
        let steps = (epochs * examples as f64 / batch as f64).round();
        if !(1.0..=libm::exp2(62.0)).contains(&steps) {
            return Err(Error::invalid(format!(
                "{epochs} epochs of {examples} examples in batches of {batch} do not give 1 to 2^62 steps"
            )));
        }
        Ok(Self { examples, batch, steps: steps as u64, request })
    }

    /// Number of steps: epochs times examples over the batch, rounded.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The same run, whose searches report to this observer, which may cancel them.
    pub fn with_observer(self, observer: SearchObserver) -> Self {
        Self { request: self.request.with_observer(observer), ..self }
    }

    /// All options, smallest error first, including those that need more memory than the request allows. Takes some
    /// seconds; one or two minutes for thousands of steps and hundreds of steps per epoch.
    ///
    /// # Errors
    /// As [`VectorRequest::plan`].
    pub fn options(&self) -> Result<Vec<TrainingOption>> {
        let mut options = self.options_in_fixed_order()?;
        for sampling in self.samplings()? {
            options.extend(self.options_with(sampling)?);
        }
        let error = |option: &TrainingOption| {
            self.request.objective.of(option.plan.max_std_error(), option.plan.mean_std_error())
        };
        options.sort_by(|a, b| error(a).total_cmp(&error(b)));
        Ok(options)
    }

    /// The best option that fits the memory.
    ///
    /// # Errors
    /// As [`VectorRequest::plan`].
    pub fn best(&self) -> Result<TrainingOption> {
        let best = self.options()?.into_iter().find(|option| option.fits);
        best.ok_or_else(|| Error::invalid("no training option fits the memory limit"))
    }

    /// The kinds of sampling that can be accounted for: in (ε, δ), batches of fixed size if an example is replaced, and
    /// others if one is added or removed.
    fn samplings(&self) -> Result<Vec<Sampling>> {
        let is_approximate = matches!(self.request.budget, Budget::Approximate(..));
        let fraction = self.batch as f64 / self.examples as f64;
        match self.request.neighbours {
            _ if !is_approximate => return Ok(vec![]),
            Neighbours::ReplaceOne => return Ok(vec![Sampling::fixed_size(fraction)?]),
            Neighbours::AddRemove => {}
        }
        let mut samplings = vec![Sampling::cyclic_poisson(fraction)?];
        // The number of whole batches, if that keeps the expected batch size.
        let (steps, batch) = (self.steps_per_epoch(), self.batch as f64);
        let expected = self.examples as f64 / steps as f64;
        if STEPS_PER_EPOCH.contains(&steps) && self.steps >= steps && expected - batch < 1.0 {
            samplings.push(Sampling::random_allocation(steps)?);
            if (2..=MAX_ALLOCATED_EPOCHS).contains(&self.steps.div_ceil(steps)) {
                samplings.push(Sampling::per_epoch_random_allocation(steps)?);
            }
        }
        Ok(samplings)
    }

    /// Whole batches in an epoch.
    fn steps_per_epoch(&self) -> u64 {
        self.examples / self.batch
    }

    /// The request of an option, with the mechanism left open.
    fn open_request(&self) -> VectorRequest {
        self.request.clone().with_horizon(self.steps).with_optional_mechanism(None)
    }

    /// From the many competing candidates: the best, the best that fits, and independent noise.
    fn options_in_fixed_order(&self) -> Result<Vec<TrainingOption>> {
        let steps_per_epoch = self.steps_per_epoch();
        let participation = Participation::new(self.steps.div_ceil(steps_per_epoch), steps_per_epoch)?;
        let request = self.open_request().with_optional_sampling(None).with_participation(participation);
        let found = request.candidates()?;
        let fitting = found.iter().find(|candidate| candidate.memory <= request.max_memory);
        let independent = found.iter().find(|candidate| candidate.name.family().is_independent);
        let mut kept: Vec<&VectorCandidate> = found.first().into_iter().chain(fitting).chain(independent).collect();
        kept.dedup_by_key(|candidate| candidate.name);
        Ok(kept.into_iter().map(|candidate| TrainingOption::new(&request, candidate)).collect())
    }

    fn options_with(&self, sampling: Sampling) -> Result<Vec<TrainingOption>> {
        let request = self.open_request().with_sampling(sampling).with_participation(Participation::ONCE);
        let mut found = request.candidates()?;
        found.dedup_by_key(|candidate| candidate.name);
        Ok(found.iter().map(|candidate| TrainingOption::new(&request, candidate)).collect())
    }
}

impl TrainingOption {
    fn new(request: &VectorRequest, candidate: &VectorCandidate) -> Self {
        let plan = VectorPlan::build(request.clone(), candidate.clone());
        Self {
            sampling: plan.sampling_scheme(),
            memory: candidate.memory,
            fits: candidate.memory <= request.max_memory,
            plan,
        }
    }

    /// A short description.
    ///
    /// ```
    /// # use evertally::privacy::{Budget, Delta, Epsilon};
    /// # use evertally_training::{Training, VectorRequest};
    /// # let budget = Budget::Approximate(Epsilon::new(0.1)?, Delta::new(1e-5)?);
    /// let training = Training::new(1000, 100, 1.0, VectorRequest::new(1, budget, 1.0))?;
    /// let descriptions: Vec<String> = training.options()?.iter().map(|option| option.description()).collect();
    /// assert!(descriptions.contains(&"Poisson sampling, independent noise (DP-SGD)".into()));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn description(&self) -> String {
        let is_independent = self.plan.name().family().is_independent;
        let order = match self.sampling {
            None => "fixed order".to_owned(),
            Some(SamplingScheme::Poisson) => "Poisson sampling".into(),
            Some(SamplingScheme::CyclicPoisson) => {
                format!("cyclic Poisson sampling in {} groups", self.plan.groups().unwrap_or(1))
            }
            Some(SamplingScheme::FixedSize) => match self.plan.groups() {
                Some(1) | None => "batches of fixed size".into(),
                Some(groups) => format!("batches of fixed size in {groups} groups"),
            },
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
