//! The search over mechanisms, by their exact finite-T error.

use super::VectorPlan;
use super::calibrate::{VectorGuarantee, calibrated};
use super::candidate::VectorCandidate;
use super::request::{SCALES, VectorRequest};
use crate::Sampling;
use crate::optimizer::{Optimizer, error};
use crate::poisson_subsampling::{SampledGaussian, SampledGaussians};
use evertally::mechanism::{
    Blt, BufferChoice, ColumnScaling, Criterion, LIGHT, Mechanism, MechanismName, NoiseKind, Participation, Sharpness,
    Vectors, check_steps, epoch_bands, streaming_names,
};
use evertally::plan::ranked;
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
        let (named, most) = (self.mechanism.is_some(), self.most_vectors);
        let chosen = found.iter().find(|candidate| named || candidate.vectors <= most).cloned();
        let chosen = chosen.expect("trees and input noise need few vectors, whatever the horizon");
        Ok((VectorPlan::build(self, chosen), found))
    }

    /// All candidates that fit the request, smallest error first, including mechanisms that do not stream lightly.
    ///
    /// # Errors
    /// As [`VectorRequest::plan`].
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally_training::VectorRequest;
    /// let ranking = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0).candidates()?;
    /// assert!(ranking.windows(2).all(|pair| pair[0].max_std_error <= pair[1].max_std_error));
    /// assert!(ranking.iter().any(|candidate| !candidate.streams_lightly));
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
        VectorGuarantee::of(&self.budget).map(drop)
    }

    fn check_sampling(&self) -> Result<()> {
        if !matches!(self.budget, Budget::Approximate(..)) {
            return Err(Error::invalid(
                "the amplification by sampling is accounted for in (ε, δ): give the budget as epsilon and delta",
            ));
        }
        if self.neighbours != Neighbours::AddRemove {
            return Err(Error::invalid(
                "sampling needs examples to be added or removed: leave neighbours at add-remove, or plan without \
                 sampling",
            ));
        }
        Ok(())
    }
}

/// The families that compete if no mechanism is named, with the names that a request suggests. Families that suggest
/// several names limit their range themselves.
fn families(request: &VectorRequest) -> impl Iterator<Item = MechanismName> {
    let (horizon, participation) = (request.horizon, request.participation);
    MechanismName::all_families().flat_map(move |family| match family.vectors {
        Vectors::No | Vectors::Named => vec![],
        Vectors::Compete => {
            let reaches = family.reach.of(NoiseKind::Gaussian).is_some_and(|longest| horizon <= longest);
            family.open.filter(|_| reaches).into_iter().collect()
        }
        Vectors::CompeteAs(names) => names(horizon, participation),
    })
}

/// Whether vectors can be streamed with this mechanism.
///
/// # Errors
/// If not; the message names those that can.
///
/// ```
/// use evertally_training::streams;
/// assert!(streams(&"blt".parse()?).is_ok());
/// assert!(streams(&"dense".parse()?).unwrap_err().to_string().contains("normalized-blt"));
/// # Ok::<(), evertally::Error>(())
/// ```
pub fn streams(name: &MechanismName) -> Result<()> {
    if name.family().vectors.are_streamed() {
        return Ok(());
    }
    let others = streaming_names();
    Err(Error::invalid(format!("`{}` cannot stream the noise of vectors; use one of {others}", name.brief())))
}

fn candidates(request: &VectorRequest) -> Result<Vec<VectorCandidate>> {
    // Refuse invalid requests first: the search would report them as "no candidate".
    request.check()?;
    if let (Some(sampling), None) = (request.sampling, request.mechanism) {
        let attempts = match sampling.bins().or(sampling.fresh_bins()) {
            None => sampled(request, sampling),
            Some(bins) => in_bins(request, bins),
        };
        return ranked(attempts.into_iter(), request.objective, |c| (c.max_std_error, c.mean_std_error));
    }
    let attempts = competitors(request)?.into_iter().map(|built| built.and_then(|m| candidate(request, m)));
    ranked(attempts, request.objective, |candidate| (candidate.max_std_error, candidate.mean_std_error))
}

/// With sampling: independent noise; increasing numbers of bands, until more of them have not helped twice; and
/// numbers on either side of the best of these.
fn sampled(request: &VectorRequest, sampling: Sampling) -> Vec<Result<VectorCandidate>> {
    let attempt = |name| built(request, name).and_then(|mechanism| candidate(request, mechanism));
    let of_bands = |bands: u64| {
        let searched = MechanismName::EpochBands(bands, Participation::ONCE, Sharpness::default(), None);
        let is_in_reach = searched.family().reach.gaussian.is_some_and(|longest| request.horizon <= longest);
        attempt(if is_in_reach { searched } else { MechanismName::BandedSqrt(bands) })
    };
    let figure = |found: &Result<VectorCandidate>| {
        found.as_ref().map_or(f64::INFINITY, |c| request.objective.of(c.max_std_error, c.mean_std_error))
    };
    let most = request.horizon.min(request.most_vectors.max(LIGHT));
    let fits = |bands: &u64| *bands <= most && sampling.rate(*bands).is_some();
    let mut tried = vec![attempt(MechanismName::Input)];
    let (mut least, mut best, mut failures) = (f64::INFINITY, 1, 0);
    for bands in std::iter::successors(Some(1u64), |bands| bands.checked_mul(2)).take_while(fits) {
        tried.push(of_bands(bands));
        let error = tried.last().map_or(f64::INFINITY, figure);
        (least, best, failures) = if error < least { (error, bands, 0) } else { (least, best, failures + 1) };
        if failures == 2 {
            break;
        }
    }
    let beside = [best / 2 + best / 4, best + best / 2].into_iter().filter(|bands| best > 2 && fits(bands));
    tried.extend(beside.map(of_bands));
    tried
}

/// With bins: independent noise; a BLT, which needs constant memory, if bins stay; and banded square roots (with an
/// optimizer, the bands searched for it) with the best number of bands, and with the best that fits the memory. These
/// are found by estimates: only the remaining candidates get certified accounting, which takes longer. (Lengths that
/// differ from epoch to epoch gain nothing here, and bands that are best for a known order reveal more than
/// square roots: errors of 8.06 and 7.39 for 2000 steps, 500 bins, ε = 2.)
fn in_bins(request: &VectorRequest, bins: u64) -> Vec<Result<VectorCandidate>> {
    let attempt = |name| built(request, name).and_then(|mechanism| candidate(request, mechanism));
    let mut tried = vec![attempt(MechanismName::Input)];
    if request.sampling.is_some_and(|own| own.fresh_bins().is_none()) {
        tried.push(attempt(MechanismName::NormalizedBlt(BufferChoice::Best, Participation::ONCE)));
    }
    let of_bands = |bands: u64| match request.optimizer {
        Some(_) => MechanismName::EpochBands(bands, Participation::ONCE, Sharpness::default(), None),
        None => MechanismName::BandedSqrt(bands),
    };
    if of_bands(1).family().reach.gaussian.is_some_and(|longest| request.horizon > longest) {
        return tried;
    }
    let best = best_widths(request, bins.min(request.horizon), of_bands);
    tried.extend(best.into_iter().map(|bands| attempt(of_bands(bands))));
    tried
}

/// The number of bands that is probably best, and the best that fits the memory.
fn best_widths(request: &VectorRequest, most: u64, of_bands: impl Fn(u64) -> MechanismName) -> Vec<u64> {
    let likely = |bands: u64| likely_error(request, of_bands(bands)).map(|error| (bands, error));
    let doubled = std::iter::successors(Some(1u64), |bands| bands.checked_mul(2)).take_while(|bands| *bands < most);
    let mut found: Vec<(u64, f64)> = vec![];
    let least = |found: &[(u64, f64)], fits: &dyn Fn(u64) -> bool| {
        found.iter().filter(|(bands, _)| fits(*bands)).min_by(|a, b| a.1.total_cmp(&b.1)).copied()
    };
    // From the widest on, errors fall and then grow.
    let widths: Vec<u64> = doubled.skip(1).chain([most]).collect();
    for (bands, error) in widths.into_iter().rev().filter_map(likely) {
        found.push((bands, error));
        let is_worse = least(&found, &|_| true).is_some_and(|(_, best)| error > 1.1 * best);
        if is_worse && bands <= request.most_vectors {
            break;
        }
    }
    if let Some((best, _)) = least(&found, &|_| true) {
        let beside = [best / 2 + best / 4, best + best / 2].into_iter().filter(|bands| best > 2 && *bands < most);
        found.extend(beside.filter_map(likely));
    }
    let best = [least(&found, &|_| true), least(&found, &|bands| bands <= request.most_vectors)];
    let mut taken: Vec<u64> = best.into_iter().flatten().map(|(bands, _)| bands).collect();
    taken.dedup();
    taken
}

/// An estimate of the error of a mechanism with sampling; nothing is certified.
fn likely_error(request: &VectorRequest, name: MechanismName) -> Option<f64> {
    let mechanism = built(request, name).ok()?;
    let noise = request.sampling?.promise(&*mechanism).ok()?.likely_noise_for(&request.budget)?;
    let (max, mean) = match &request.optimizer {
        Some(optimizer) => max_and_mean(&error::variances(&*mechanism, optimizer).ok()?),
        None => (mechanism.max_row_norm_squared(), mechanism.mean_row_norm_squared()),
    };
    Some(noise * request.objective.of(max, mean).sqrt())
}

/// Rounds matter by more than their second moment: with twice that sharpness, errors are up to 1 % smaller.
const STEEPER: f64 = 2.0;

/// A name whose open bands are filled in for the sampling: how much more a heavy round costs than a light one, from
/// the noise that rounds of equal weight would need.
fn sharpened(request: &VectorRequest, name: MechanismName) -> Result<MechanismName> {
    let (Some(sampling), Budget::Approximate(epsilon, delta)) = (request.sampling, request.budget) else {
        return Ok(name);
    };
    if !sampling.is_by_step() {
        return Ok(name);
    }
    match name {
        MechanismName::EpochBands(bands, runs, sharpness, None) if sharpness == Sharpness::default() => {
            let Some(rate) = sampling.rate(bands) else { return Ok(name) };
            let rounds = SampledGaussian::new(rate, 1.0, request.horizon.div_ceil(bands.max(1)))?;
            let noise = SampledGaussians::new(&[rounds])?.certified_factor_for(epsilon, delta)?;
            Ok(MechanismName::EpochBands(bands, runs, Sharpness::near(STEEPER / (noise * noise)), None))
        }
        _ => Ok(name),
    }
}

/// The steps in which an example takes part, under a request and a name: with sampling, as sampled.
fn participation(request: &VectorRequest, name: MechanismName) -> Participation {
    let Some(sampling) = request.sampling else { return request.participation };
    let bands = match name {
        MechanismName::EpochBands(bands, ..) | MechanismName::BandedSqrt(bands) => bands.max(1),
        _ => 1,
    };
    sampling.participation(request.horizon, bands)
}

/// The steps in which an example of the criterion takes part. Fresh bins account for every epoch as for the heaviest,
/// so only columns of equal length are useful.
fn optimised_for(request: &VectorRequest, name: MechanismName) -> Participation {
    match request.sampling.and_then(Sampling::fresh_bins) {
        Some(_) => Participation::ONCE,
        None => participation(request, name),
    }
}

/// The requested mechanism, or the competing ones.
fn competitors(request: &VectorRequest) -> Result<Vec<Result<Arc<dyn Mechanism>>>> {
    if let Some(name) = request.mechanism {
        streams(&name)?;
        return Ok(vec![built(request, name)]);
    }
    Ok(families(request).map(|name| built(request, name)).collect())
}

/// Open buffers are optimised for the use of the vectors.
fn built(request: &VectorRequest, name: MechanismName) -> Result<Arc<dyn Mechanism>> {
    let name = sharpened(request, name)?;
    let criterion = Criterion::of_vectors(request.objective, optimised_for(request, name));
    if let (MechanismName::EpochBands(bands, runs, sharpness, digest), Some(optimizer)) = (name, &request.optimizer) {
        return epoch_bands::build_for(
            &criterion,
            &optimizer.as_loop(request.horizon)?,
            bands,
            runs,
            sharpness,
            digest,
        );
    }
    let columns = match name {
        MechanismName::Blt(BufferChoice::Best) => Some(ColumnScaling::Plain),
        MechanismName::NormalizedBlt(BufferChoice::Best, Participation::ONCE) => Some(ColumnScaling::Normalized),
        _ => None,
    };
    let (Some(columns), Some(optimizer)) = (columns, &request.optimizer) else {
        return name.build(request.horizon, &criterion);
    };
    optimizer.steps(request.horizon)?;
    let figure = |blt: &Blt| {
        let squared = blt.participation_squared(request.participation);
        let figure = squared * of_variances(request, &error::variances(blt, optimizer).ok()?);
        figure.is_finite().then_some(figure)
    };
    let best = Blt::best_by(request.horizon, columns, request.objective, request.participation, &figure)?;
    Ok(Arc::new(best))
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

fn candidate(request: &VectorRequest, mechanism: Arc<dyn Mechanism>) -> Result<VectorCandidate> {
    let participation = match (request.sampling, mechanism.bands()) {
        // The steps as they are accounted for and drawn.
        (Some(sampling), Some(bands)) if sampling.fresh_bins().is_some() => {
            sampling.participation(request.horizon, bands.count)
        }
        _ => participation(request, mechanism.name()),
    };
    let given = request.participation;
    if request.sampling.is_some() && given != Participation::ONCE && given != participation {
        return Err(Error::invalid(format!(
            "sampling determines the steps in which an example may take part, {} of them at least {} apart under `{}`: \
             omit participations and separation",
            participation.most(),
            participation.separation(),
            mechanism.name().brief()
        )));
    }
    let (sensitivity, sigma) = calibrated(request, &*mechanism, participation)?;
    let of = |optimizer: &Optimizer| error::variances(&*mechanism, optimizer).map(Arc::from);
    let variances: Option<Arc<[f64]>> = request.optimizer.as_ref().map(of).transpose()?;
    let (max, mean) = match &variances {
        Some(variances) => max_and_mean(variances),
        None => (mechanism.max_row_norm_squared(), mechanism.mean_row_norm_squared()),
    };
    Ok(VectorCandidate {
        name: mechanism.name(),
        sensitivity,
        sigma,
        max_std_error: sigma * max.sqrt(),
        mean_std_error: sigma * mean.sqrt(),
        variances,
        participation,
        vectors: mechanism.streaming().map_or(u64::MAX, |streaming| streaming.vectors()),
        streams_lightly: mechanism.streaming().is_some_and(|streaming| streaming.is_light()),
        mechanism,
    })
}
