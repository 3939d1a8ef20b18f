//! Orders of the examples, and the options that each of them has.

use super::option::{OmittedOption, TrainingOption, TrainingOptions};
use crate::optimizer::Rates;
use crate::plan::choose::attempts;
use crate::plan::request::SearchEffort;
use crate::plan::{VectorCandidate, VectorRequest};
use crate::{Sampling, SamplingScheme};
use evertally::mechanism::Participation;
use evertally::plan::{SearchObserver, ranked};
use evertally::privacy::{Budget, Neighbours};
use evertally::{Error, Result};

/// Per-epoch random allocation is tried for at most this many epochs by a quick search. For many short epochs it is
/// close to Poisson sampling, and planning takes minutes.
const MAX_QUICK_EPOCHS: u64 = 64;

/// A run, as [`Training`](super::Training) checked it.
#[derive(Clone, Debug)]
pub(super) struct TrainingRun {
    pub(super) examples: u64,
    pub(super) batch: u64,
    pub(super) epochs: f64,
    pub(super) steps: u64,
    pub(super) request: VectorRequest,
}

/// An order of the examples in a run.
pub(super) struct ExampleOrder {
    sampling: Option<SamplingScheme>,
    /// The request of its options, or why there are none.
    request: Result<VectorRequest>,
    /// The expected batch size.
    batch: f64,
}

impl ExampleOrder {
    /// The orders that a run may have. In (ε, δ), batches of fixed size can be accounted for if an example is replaced,
    /// and other sampling if one is added or removed.
    pub(super) fn all(run: &TrainingRun) -> Vec<Self> {
        let mut orders = vec![Self::fixed(run)];
        match run.request.neighbours {
            Neighbours::ReplaceOne => orders.push(Self::by_step(run, SamplingScheme::FixedSize)),
            Neighbours::AddRemove => {
                orders.push(Self::by_step(run, SamplingScheme::CyclicPoisson));
                orders.push(Self::allocated(run, SamplingScheme::RandomAllocation));
                // In one epoch it is the same.
                if run.epochs > 1.0 {
                    orders.push(Self::allocated(run, SamplingScheme::PerEpochRandomAllocation));
                }
            }
        }
        orders
    }

    fn fixed(run: &TrainingRun) -> Self {
        let steps_per_epoch = run.examples / run.batch;
        let horizon = run.steps_of(steps_per_epoch);
        let participation = Participation::new(horizon.div_ceil(steps_per_epoch), steps_per_epoch);
        let open = run.open_request(horizon).with_optional_sampling(None);
        let request = participation.map(|participation| open.with_participation(participation));
        Self { sampling: None, request, batch: run.batch as f64 }
    }

    fn by_step(run: &TrainingRun, scheme: SamplingScheme) -> Self {
        let batch = run.batch as f64;
        let fraction = batch / run.examples as f64;
        let sampling = match scheme {
            SamplingScheme::FixedSize => Sampling::fixed_size(fraction),
            _ => Sampling::cyclic_poisson(fraction),
        };
        let request = run.sampled_request(run.steps, sampling);
        Self { sampling: Some(scheme), request, batch }
    }

    fn allocated(run: &TrainingRun, scheme: SamplingScheme) -> Self {
        let steps_per_epoch = (run.examples as f64 / run.batch as f64).round() as u64; // at least 1
        let horizon = run.steps_of(steps_per_epoch);
        let epochs = horizon.div_ceil(steps_per_epoch);
        let is_per_epoch = scheme == SamplingScheme::PerEpochRandomAllocation;
        let is_quick = run.request.effort == SearchEffort::Quick;
        let refused = if steps_per_epoch < 2 {
            Some("an epoch has one step, in which all examples take part".to_owned())
        } else if horizon < steps_per_epoch {
            Some(format!("the run ends after {horizon} of the {steps_per_epoch} steps of an epoch"))
        } else if is_per_epoch && is_quick && epochs > MAX_QUICK_EPOCHS {
            Some(format!(
                "close to Poisson sampling over {epochs} epochs, and slow to account for: a thorough search includes it"
            ))
        } else {
            None
        };
        let sampling = match (refused, is_per_epoch) {
            (Some(reason), _) => Err(Error::invalid(reason)),
            (None, true) => Sampling::per_epoch_random_allocation(steps_per_epoch),
            (None, false) => Sampling::random_allocation(steps_per_epoch),
        };
        let request = run.sampled_request(horizon, sampling);
        Self { sampling: Some(scheme), request, batch: run.examples as f64 / steps_per_epoch as f64 }
    }

    /// Whether every example is allocated to a step of an epoch.
    pub(super) fn is_allocated(&self) -> bool {
        matches!(self.sampling, Some(SamplingScheme::RandomAllocation | SamplingScheme::PerEpochRandomAllocation))
    }

    /// All options of this order, or why there are none. `rival` is an error over expected batch that another order
    /// has.
    ///
    /// # Errors
    /// If the search is cancelled, or the request is invalid for the fixed order.
    pub(super) fn options(&self, rival: f64, observer: SearchObserver) -> Result<TrainingOptions> {
        let omitted = |description: &str, error: &Error| OmittedOption {
            sampling: self.sampling,
            description: description.to_owned(),
            reason: error.to_string(),
        };
        let request = match &self.request {
            Ok(request) => VectorRequest { rival: rival * self.batch, ..request.clone().with_observer(observer) },
            Err(error) => return Ok(TrainingOptions::without(omitted(self.words(), error))),
        };
        let attempts = match attempts(&request) {
            Ok(attempts) => attempts,
            // Without sampling, the same is wrong with every option.
            Err(error) if error.is_cancelled() || self.sampling.is_none() => return Err(error),
            Err(error) => return Ok(TrainingOptions::without(omitted(self.words(), &error))),
        };
        let refusal = attempts.iter().find_map(|attempt| attempt.as_ref().err()).cloned();
        let found = ranked(attempts.into_iter(), request.objective, |c| (c.max_std_error, c.mean_std_error));
        let mut found: Vec<VectorCandidate> = match found {
            Ok(found) => found,
            Err(error) => return Ok(TrainingOptions::without(omitted(self.words(), &error))),
        };
        found.dedup_by_key(|candidate| candidate.name);
        let mut options = TrainingOptions::default();
        let is_correlated = |candidate: &VectorCandidate| !candidate.name.family().is_independent;
        if let Some(error) = refusal.filter(|_| self.sampling.is_some() && !found.iter().any(is_correlated)) {
            options.omitted.push(omitted(&format!("{}, correlated noise", self.words()), &error));
        }
        let kept = if self.sampling.is_none() { kept_of_many(&request, &found) } else { found.iter().collect() };
        let option = |candidate: &VectorCandidate| TrainingOption::new(&request, candidate, self.batch);
        options.available = kept.into_iter().map(option).collect();
        Ok(options)
    }

    /// The order, for a row without a mechanism.
    fn words(&self) -> &'static str {
        match self.sampling {
            None => "fixed order",
            Some(SamplingScheme::Poisson | SamplingScheme::CyclicPoisson) => "Poisson sampling",
            Some(SamplingScheme::TruncatedPoisson) => "truncated Poisson sampling",
            Some(SamplingScheme::FixedSize) => "batches of fixed size",
            Some(SamplingScheme::RandomAllocation) => "random allocation",
            Some(SamplingScheme::PerEpochRandomAllocation) => "per-epoch random allocation",
        }
    }
}

/// From the many candidates in a fixed order: the best, the best that fits, and independent noise.
fn kept_of_many<'a>(request: &VectorRequest, found: &'a [VectorCandidate]) -> Vec<&'a VectorCandidate> {
    let fitting = found.iter().find(|candidate| candidate.memory <= request.max_memory);
    let independent = found.iter().find(|candidate| candidate.name.family().is_independent);
    let mut kept: Vec<&VectorCandidate> = found.first().into_iter().chain(fitting).chain(independent).collect();
    kept.dedup_by_key(|candidate| candidate.name);
    kept
}

impl TrainingRun {
    /// The number of steps with this many in an epoch: as planned if every step has its own learning rate.
    fn steps_of(&self, steps_per_epoch: u64) -> u64 {
        match self.request.optimizer.as_ref().map(|optimizer| optimizer.rates()) {
            Some(Rates::List(_)) => self.steps,
            // A whole number; at most about the steps, 2^62. Casts saturate.
            _ => ((self.epochs * steps_per_epoch as f64).round() as u64).max(1),
        }
    }

    /// The request of an option, with the mechanism left open.
    fn open_request(&self, horizon: u64) -> VectorRequest {
        self.request.clone().with_horizon(horizon).with_optional_mechanism(None)
    }

    fn sampled_request(&self, horizon: u64, sampling: Result<Sampling>) -> Result<VectorRequest> {
        if !matches!(self.request.budget, Budget::Approximate(..)) {
            return Err(Error::invalid("sampling is accounted for in (ε, δ): give the budget as epsilon and delta"));
        }
        let open = self.open_request(horizon).with_participation(Participation::ONCE);
        sampling.map(|sampling| open.with_sampling(sampling))
    }
}
