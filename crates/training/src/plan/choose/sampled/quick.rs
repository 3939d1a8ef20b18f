//! A quick search: estimates choose the mechanisms that are accounted for.

use super::{
    Attempts, EstimatedMechanism, attempt, banded, banded_for_allocation, banded_for_poisson, neighbours, open_names,
};
use crate::plan::VectorRequest;
use crate::sampling::SamplingGuarantee;
use crate::{Sampling, SamplingScheme};
use evertally::mechanism::{BandedFamily, MechanismName, SearchWatch};
use evertally::plan::ComparedMechanisms;
use evertally::{Error, Result};

/// An allocation is accounted for in about a second if its steps per epoch, or all steps if they are drawn in every
/// epoch, are at most this many.
const CHEAP_STEPS: u64 = 512;
/// Cheap families whose estimates differ by at most this ratio are all accounted for, and only if another option is
/// better by at most this.
const CLOSE: f64 = 1.1;
/// Expensive ones must be better than another option by at least this, by estimates.
const BETTER: f64 = 0.97;

/// Independent noise, and the correlated noise that is best by estimates among those that fit the memory.
pub(super) fn candidates(
    request: &VectorRequest,
    sampling: Sampling,
    compared: &mut ComparedMechanisms<'_>,
) -> Attempts {
    let (independent, others): (Vec<_>, Vec<_>) = open_names(sampling).partition(|name| name.family().is_independent);
    let mut tried = vec![];
    for name in independent {
        tried.push(attempt(request, name, compared)?);
    }
    let mut families = match sampling.steps_per_epoch() {
        None => banded_for_poisson(request.horizon),
        Some(_) => banded_for_allocation(request),
    };
    // A search for the best bands may have no result; those of a closed form always have.
    families.extend(banded(false));
    let mut found: Vec<EstimatedMechanism> = vec![];
    let mut refusal = None;
    for family in families {
        if found.is_empty() {
            match best_width(request, sampling, family, compared)? {
                Ok(best) => found.push(best),
                Err(error) => refusal = Some(error),
            }
        }
    }
    for name in others {
        found.extend(compared.compare(|watch| rough(request, name, watch))?.ok());
    }
    let least = found.iter().map(|own| own.error).fold(f64::INFINITY, f64::min);
    let is_cheap = is_cheap(request, sampling);
    let limit = request.rival * if is_cheap { CLOSE } else { BETTER };
    if least.is_finite() && least > limit {
        tried.push(Err(Error::invalid(format!(
            "not accounted for, because its error is about {:.2} times that of another option by estimates: a thorough \
             search includes it",
            least / request.rival
        ))));
        return Ok(tried);
    }
    tried.extend(refusal.filter(|_| found.is_empty()).map(Err));
    for own in found {
        if own.error <= least * if is_cheap { CLOSE } else { 1.0 } {
            tried.push(own.certified(request, compared)?);
        }
    }
    Ok(tried)
}

/// Whether accounting takes about a second.
fn is_cheap(request: &VectorRequest, sampling: Sampling) -> bool {
    let Some(steps_per_epoch) = sampling.steps_per_epoch() else { return true };
    let is_per_epoch = sampling.scheme() == SamplingScheme::PerEpochRandomAllocation;
    CHEAP_STEPS >= if is_per_epoch { request.horizon } else { steps_per_epoch }
}

/// An estimated error: where that takes no time, from draws.
fn rough(request: &VectorRequest, name: MechanismName, watch: SearchWatch<'_>) -> Result<EstimatedMechanism> {
    let is_drawn = request.sampling.is_some_and(|sampling| !sampling.is_by_step() && is_cheap(request, sampling));
    let noise = |guarantee: &SamplingGuarantee| match is_drawn {
        true => guarantee.likely_noise_for(&request.budget),
        false => guarantee.rough_noise_for(&request.budget),
    };
    EstimatedMechanism::new(request, name, watch, noise)
}

/// The best number of bands by estimates, from 2 to the memory limit: twice or half as many as long as that helps, then
/// those between. Begins with that of the stand-in, which takes no time to build.
fn best_width(
    request: &VectorRequest,
    sampling: Sampling,
    family: BandedFamily,
    compared: &mut ComparedMechanisms<'_>,
) -> Result<Result<EstimatedMechanism>> {
    let most = sampling.steps_per_epoch().unwrap_or(u64::MAX).min(request.horizon).min(request.max_memory);
    let fits = |bands: u64| (2..=most).contains(&bands) && sampling.rate(bands).is_some();
    let mut refusal = Error::invalid(match sampling.rate(2) {
        _ if most < 2 => "there is no memory, or no step, that noise could be correlated with",
        None => "a batch holds more than half of all examples, which leaves too few for two groups",
        Some(_) => "no number of bands is in reach",
    });
    let mut known: Vec<(u64, f64)> = vec![];
    let mut least: Option<EstimatedMechanism> = None;
    let mut error_of = |bands: u64| -> Result<f64> {
        if let Some((_, error)) = known.iter().find(|(own, _)| *own == bands) {
            return Ok(*error);
        }
        if !fits(bands) {
            return Ok(f64::INFINITY);
        }
        let mut error = f64::INFINITY;
        match compared.compare(|watch| rough(request, (family.with_bands)(bands), watch))? {
            Ok(own) => {
                error = own.error;
                if least.as_ref().is_none_or(|least| error < least.error) {
                    least = Some(own);
                }
            }
            Err(own) => refusal = own,
        }
        known.push((bands, error));
        Ok(error)
    };
    let (mut best, stand_in) = stand_in_width(request, family, fits);
    // Bands that are optimised for equal epochs hardly improve on the stand-in here, and take seconds.
    if let Some(found) = stand_in
        && sampling.scheme() == SamplingScheme::PerEpochRandomAllocation
        && found.error > CLOSE * request.rival
    {
        return Ok(Ok(found));
    }
    for towards in [|bands: u64| bands * 2, |bands: u64| bands / 2] {
        while error_of(towards(best))? < error_of(best)? {
            best = towards(best);
        }
    }
    for bands in neighbours(best) {
        error_of(bands)?;
    }
    Ok(least.filter(|own| own.error.is_finite()).ok_or(refusal))
}

/// The best power of two by the family's stand-in, with that; without one, about 8.
fn stand_in_width(
    request: &VectorRequest,
    family: BandedFamily,
    fits: impl Fn(u64) -> bool,
) -> (u64, Option<EstimatedMechanism>) {
    let powers = (1..14).map(|bits| 1u64 << bits).take_while(|bands| fits(*bands));
    let of = |bands: u64| {
        let name = (family.with_bands)(bands);
        let name = name.stand_in().filter(|_| family.are_optimised)?;
        Some((bands, rough(request, name, SearchWatch::NONE).ok()?))
    };
    let best = powers.filter_map(of).min_by(|a, b| a.1.error.total_cmp(&b.1.error));
    let usual = || [8, 4, 2].into_iter().find(|bands| fits(*bands)).unwrap_or(2);
    best.map_or_else(|| (usual(), None), |(bands, found)| (bands, Some(found)))
}
