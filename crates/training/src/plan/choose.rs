//! The search over mechanisms, by their exact finite-T error.

mod sampled;

use super::VectorPlan;
use super::calibrate::{VectorGuarantee, calibrated};
use super::candidate::VectorCandidate;
use super::request::{SCALES, VectorRequest};
use crate::optimizer::{Optimizer, error};
use crate::sampling::SamplingGuarantee;
use crate::{Sampling, SamplingScheme};
use evertally::mechanism::{
    Criterion, Mechanism, MechanismName, NoiseKind, Participation, SearchWatch, TrainingLoop, check_steps,
    streaming_names,
};
use evertally::plan::{ComparedMechanisms, attempts_with, ranked};
use evertally::privacy::{Budget, Neighbours};
use evertally::{Error, Result};
use std::sync::Arc;

impl VectorRequest {
    /// Chooses the mechanism if none is named, and calibrates the noise.
    ///
    /// # Errors
    /// If a parameter is out of range, the budget is pure ε, or the mechanism cannot stream vectors.
    pub fn plan(self) -> Result<VectorPlan> {
        Ok(self.plan_and_candidates()?.0)
    }

    /// The plan and all competing candidates, by one search.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally_training::VectorRequest;
    /// let request = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    /// let (plan, ranking) = request.plan_and_candidates()?;
    /// assert!(ranking.iter().any(|candidate| candidate.name == plan.name()));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn plan_and_candidates(self) -> Result<(VectorPlan, Vec<VectorCandidate>)> {
        let found = self.candidates()?;
        let (named, limit) = (self.mechanism.is_some(), self.max_memory);
        let chosen = found.iter().find(|candidate| named || candidate.memory <= limit).cloned();
        let chosen = chosen.expect("trees and independent noise need little memory, whatever the horizon");
        Ok((VectorPlan::build(self, chosen), found))
    }

    /// All candidates that fit the request, smallest error first, including mechanisms that need more memory.
    ///
    /// # Errors
    /// As [`VectorRequest::plan`].
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally_training::VectorRequest;
    /// let ranking = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0).candidates()?;
    /// assert!(ranking.windows(2).all(|pair| pair[0].max_std_error <= pair[1].max_std_error));
    /// assert!(ranking.iter().any(|candidate| !candidate.constant_memory));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn candidates(&self) -> Result<Vec<VectorCandidate>> {
        candidates(self)
    }

    fn check(&self) -> Result<()> {
        check_steps(self.horizon)?;
        if !SCALES.contains(&self.norm) {
            return Err(Error::invalid(format!(
                "the clipping norm must be a number from 1e-30 to 1e30, got {:e}; clip every example's vector to it",
                self.norm
            )));
        }
        if let Some(optimizer) = &self.optimizer {
            optimizer.steps(self.horizon)?;
        }
        if self.sampling.is_some() {
            self.check_sampling()?;
        }
        VectorGuarantee::new(&self.budget).map(drop)
    }

    fn check_sampling(&self) -> Result<()> {
        if !matches!(self.budget, Budget::Approximate(..)) {
            return Err(Error::invalid(
                "the amplification by sampling is accounted for in (ε, δ): give the budget as epsilon and delta",
            ));
        }
        match (self.sampling.map(Sampling::neighbours), self.neighbours) {
            (Some(Neighbours::AddRemove), Neighbours::ReplaceOne) => Err(Error::invalid(
                "this sampling needs examples to be added or removed: leave neighbours at add-remove, use batches of \
                 fixed size, or plan without sampling",
            )),
            (Some(Neighbours::ReplaceOne), Neighbours::AddRemove) => Err(Error::invalid(
                "the guarantee of batches of fixed size is for an example that is replaced by another, not for one \
                 that is added or removed: declare neighbours as replace-one, or use Poisson sampling",
            )),
            _ => Ok(()),
        }
    }
}

/// The names that compete if no mechanism is named: those that compete for counts of the same unit, if they can be
/// streamed.
fn families(request: &VectorRequest) -> impl Iterator<Item = MechanismName> {
    let criterion = Criterion::from_vectors(request.objective, request.participation);
    let names = evertally::plan::competitors(request.horizon, NoiseKind::Gaussian, &criterion);
    names.into_iter().filter(|name| name.family().vectors.compete(request.horizon, request.participation))
}

/// Whether vectors can be streamed with this mechanism, for some unit at least.
///
/// # Errors
/// If not; the message names those that can.
///
/// ```
/// use evertally_training::streams;
/// assert!(streams(&"blt".parse()?).is_ok());
/// assert!(streams(&"optimal".parse()?).unwrap_err().to_string().contains("normalized-blt"));
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn streams(name: &MechanismName) -> Result<()> {
    if name.family().vectors.are_streamed() {
        return Ok(());
    }
    Err(cannot_stream(name))
}

fn cannot_stream(name: &MechanismName) -> Error {
    let others = streaming_names();
    Error::invalid(format!("`{}` cannot stream the noise of vectors; use one of {others}", name.brief()))
}

fn candidates(request: &VectorRequest) -> Result<Vec<VectorCandidate>> {
    ranked(attempts(request)?.into_iter(), request.objective, |c| (c.max_std_error, c.mean_std_error))
}

/// The mechanisms that compete under a request, or why they do not fit it.
///
/// # Errors
/// If the request is invalid, or the search is cancelled.
pub(super) fn attempts(request: &VectorRequest) -> Result<Vec<Result<VectorCandidate>>> {
    // Refuse invalid requests first: the search would report them as "no candidate".
    request.check()?;
    if let (Some(sampling), None) = (request.sampling, request.mechanism) {
        return sampled::candidates(request, sampling);
    }
    let attempt = |name: MechanismName, watch: SearchWatch<'_>| {
        built(request, name, watch).and_then(|mechanism| candidate(request, mechanism, watch))
    };
    match request.mechanism {
        Some(name) => {
            streams(&name)?;
            let mut compared = ComparedMechanisms::new(&request.observer, Some(1));
            Ok(vec![compared.compare(|watch| attempt(name, watch))?])
        }
        None => {
            let names: Vec<_> = families(request).collect();
            let mut compared = ComparedMechanisms::new(&request.observer, Some(names.len()));
            attempts_with(names, &mut compared, attempt, |candidate| {
                let (max, mean) = (candidate.max_std_error, candidate.mean_std_error);
                request.objective.of(max * max, mean * mean)
            })
        }
    }
}

/// The steps in which an example takes part, under a request and a name: with sampling, as sampled.
fn participation(request: &VectorRequest, name: MechanismName) -> Participation {
    let Some(sampling) = request.sampling else { return request.participation };
    sampling.participation(request.horizon, name.bands().unwrap_or(1).max(1))
}

/// The steps in which an example of the criterion takes part. Per-epoch random allocation accounts for every epoch as
/// for the heaviest, so only columns of equal length are useful.
fn optimised_for(request: &VectorRequest, name: MechanismName) -> Participation {
    match request.sampling.map(Sampling::scheme) {
        Some(SamplingScheme::PerEpochRandomAllocation) => Participation::ONCE,
        _ => participation(request, name),
    }
}

/// The mechanism of a name; open parameters are optimised for the sampling and the optimizer.
fn built(request: &VectorRequest, name: MechanismName, watch: SearchWatch<'_>) -> Result<Arc<dyn Mechanism>> {
    let name = sampled::sharpened(request, name)?;
    let criterion = Criterion::from_vectors(request.objective, optimised_for(request, name)).with_watch(watch);
    let Some(optimizer) = &request.optimizer else {
        return name.build(request.horizon, &criterion);
    };
    let squared_error = |mechanism: &dyn Mechanism| {
        let squared = mechanism.participation_squared_watched(request.participation, watch).ok()?;
        let error = squared * of_variances(request, optimizer.counted(&error::variances(mechanism, optimizer).ok()?));
        error.is_finite().then_some(error)
    };
    name.build_for_loop(&TrainingLoop {
        criterion: &criterion,
        participation: request.participation,
        recursion: &optimizer.as_loop(request.horizon)?,
        squared_error: &squared_error,
    })
}

/// The error that is minimised.
fn of_variances(request: &VectorRequest, variances: &[f64]) -> f64 {
    let (max, mean) = max_and_mean(variances);
    request.objective.of(max, mean)
}

fn max_and_mean(variances: &[f64]) -> (f64, f64) {
    let max = variances.iter().copied().fold(0.0, f64::max);
    (max, variances.iter().sum::<f64>() / variances.len() as f64)
}

/// The steps in which an example takes part, as they are accounted for and drawn.
fn participation_with(request: &VectorRequest, mechanism: &dyn Mechanism) -> Participation {
    match (request.sampling, mechanism.bands()) {
        (Some(sampling), Some(bands)) if sampling.scheme() == SamplingScheme::PerEpochRandomAllocation => {
            sampling.participation(request.horizon, bands.count)
        }
        _ => participation(request, mechanism.name()),
    }
}

/// The guarantee of a mechanism with the request's sampling, if it has any.
fn sampled_with(request: &VectorRequest, mechanism: &dyn Mechanism) -> Result<Option<SamplingGuarantee>> {
    let sampling = request.sampling_with(mechanism, participation_with(request, mechanism));
    sampling.map(|sampling| sampling.guarantee(mechanism)).transpose()
}

fn candidate(
    request: &VectorRequest,
    mechanism: Arc<dyn Mechanism>,
    watch: SearchWatch<'_>,
) -> Result<VectorCandidate> {
    if mechanism.streaming().is_none() {
        return Err(cannot_stream(&mechanism.name()));
    }
    check_participation(request, &*mechanism)?;
    let sampled = sampled_with(request, &*mechanism)?;
    calibrated_candidate(request, mechanism, sampled, watch)
}

/// With sampling, the steps of an example follow from it.
fn check_participation(request: &VectorRequest, mechanism: &dyn Mechanism) -> Result<()> {
    let participation = participation_with(request, mechanism);
    let requested = request.participation;
    if request.sampling.is_some() && requested != Participation::ONCE && requested != participation {
        return Err(Error::invalid(format!(
            "sampling determines the steps in which an example may take part, {} of them at least {} apart under `{}`: \
             omit participations and separation",
            participation.most(),
            participation.separation(),
            mechanism.name().brief()
        )));
    }
    Ok(())
}

/// A candidate with the guarantee of its sampling.
fn calibrated_candidate(
    request: &VectorRequest,
    mechanism: Arc<dyn Mechanism>,
    sampled: Option<SamplingGuarantee>,
    watch: SearchWatch<'_>,
) -> Result<VectorCandidate> {
    let streaming = mechanism.streaming().ok_or_else(|| cannot_stream(&mechanism.name()))?;
    let participation = participation_with(request, &*mechanism);
    let (sensitivity, sigma) = calibrated(request, &*mechanism, (participation, sampled.as_ref()), watch)?;
    let of = |optimizer: &Optimizer| error::variances(&*mechanism, optimizer).map(Arc::from);
    let variances: Option<Arc<[f64]>> = request.optimizer.as_ref().map(of).transpose()?;
    let (max, mean) = match (&variances, &request.optimizer) {
        (Some(variances), Some(optimizer)) => max_and_mean(optimizer.counted(variances)),
        _ => (mechanism.max_row_norm_squared(), mechanism.mean_row_norm_squared()),
    };
    Ok(VectorCandidate {
        name: mechanism.name(),
        sensitivity,
        sigma,
        max_std_error: sigma * max.sqrt(),
        mean_std_error: sigma * mean.sqrt(),
        variances,
        sampled,
        participation,
        memory: streaming.memory(),
        constant_memory: streaming.has_constant_memory(),
        mechanism,
    })
}
