//! The search over mechanisms if the examples of a step are sampled.

mod quick;

use super::{built, calibrated_candidate, candidate, check_participation, error, max_and_mean, sampled_with};
use crate::plan::{SearchEffort, VectorCandidate, VectorRequest};
use crate::poisson_subsampling::SampledGaussians;
use crate::sampling::SamplingGuarantee;
use crate::{Sampling, SamplingScheme};
use evertally::mechanism::{
    BandedFamily, Family, MAX_CONSTANT_MEMORY, Mechanism, MechanismName, NoiseKind, SampledUse, SearchWatch, Sharpness,
};
use evertally::plan::ComparedMechanisms;
use evertally::privacy::Budget;
use evertally::{Error, Result};
use std::sync::Arc;

/// Rounds matter by more than their second moment: with twice that sharpness, errors are up to 1 % smaller.
const STEEPER: f64 = 2.0;

/// The attempts of a search, or the error if it is cancelled.
type Attempts = Result<Vec<Result<VectorCandidate>>>;

/// The candidates of a request that names no mechanism. Their number is not known in advance.
pub(super) fn candidates(request: &VectorRequest, sampling: Sampling) -> Attempts {
    let compared = &mut ComparedMechanisms::new(&request.observer, None);
    if request.effort == SearchEffort::Quick {
        return quick::candidates(request, sampling, compared);
    }
    let mut tried = vec![];
    for name in open_names(sampling) {
        tried.push(attempt(request, name, compared)?);
    }
    match sampling.steps_per_epoch() {
        None => {
            for family in banded_for_poisson(request.horizon) {
                tried.extend(by_doubling(request, sampling, family, compared)?);
            }
        }
        Some(steps) => {
            for family in banded_for_allocation(request) {
                tried.extend(by_estimates(request, steps, family, compared)?);
            }
        }
    }
    Ok(tried)
}

/// One attempt; the outer error if the search is cancelled.
fn attempt(
    request: &VectorRequest,
    name: MechanismName,
    compared: &mut ComparedMechanisms<'_>,
) -> Result<Result<VectorCandidate>> {
    compared.compare(|watch| built(request, name, watch).and_then(|mechanism| candidate(request, mechanism, watch)))
}

/// Families with their parameters left open: independent noise under every scheme, and others of constant memory if the
/// allocation is drawn once.
fn open_names(sampling: Sampling) -> impl Iterator<Item = MechanismName> {
    let competes = move |family: &&'static Family| match family.sampled {
        SampledUse::Always => true,
        SampledUse::AllocatedOnce => sampling.scheme() == SamplingScheme::RandomAllocation,
        SampledUse::Never | SampledUse::Banded(_) => false,
    };
    MechanismName::all_families().filter(competes).filter_map(|family| family.open)
}

/// The banded families whose bands are optimised, or have a closed form.
fn banded(are_optimised: bool) -> impl Iterator<Item = BandedFamily> {
    let families = MechanismName::all_families().filter_map(Family::banded);
    families.filter(move |banded| banded.are_optimised == are_optimised)
}

/// Whether a search considers the family at this horizon; no family's reach depends on its number of bands.
fn is_in_reach(banded: &BandedFamily, horizon: u64) -> bool {
    (banded.with_bands)(1).reaches(horizon, NoiseKind::Gaussian)
}

/// Optimised bands as far as their search reaches, and for longer horizons those of a closed form.
fn banded_for_poisson(horizon: u64) -> Vec<BandedFamily> {
    let searched: Vec<_> = banded(true).filter(|banded| is_in_reach(banded, horizon)).collect();
    if searched.is_empty() { banded(false).collect() } else { searched }
}

/// Bands of a closed form, or with an optimizer those that are optimised for it. (Lengths that differ from epoch to
/// epoch gain nothing here, and bands that are best for a known order reveal more than square roots: errors of 8.06 and
/// 7.39 for 2000 steps, 500 of them in an epoch, ε = 2.)
fn banded_for_allocation(request: &VectorRequest) -> Vec<BandedFamily> {
    banded(request.optimizer.is_some()).filter(|banded| is_in_reach(banded, request.horizon)).collect()
}

/// Increasing numbers of bands, until more of them have not helped twice; and numbers on either side of the best.
fn by_doubling(
    request: &VectorRequest,
    sampling: Sampling,
    family: BandedFamily,
    compared: &mut ComparedMechanisms<'_>,
) -> Attempts {
    let mut with_bands = |bands: u64| attempt(request, (family.with_bands)(bands), compared);
    let error = |found: &Result<VectorCandidate>| {
        found.as_ref().map_or(f64::INFINITY, |c| request.objective.of(c.max_std_error, c.mean_std_error))
    };
    let limit = request.horizon.min(request.max_memory.max(MAX_CONSTANT_MEMORY));
    let fits = |bands: &u64| *bands <= limit && sampling.rate(*bands).is_some();
    let mut tried = vec![];
    let (mut least, mut best, mut failures) = (f64::INFINITY, 1, 0);
    // One band is independent noise.
    for bands in std::iter::successors(Some(2u64), |bands| bands.checked_mul(2)).take_while(fits) {
        let found = with_bands(bands)?;
        let error = error(&found);
        tried.push(found);
        (least, best, failures) = if error < least { (error, bands, 0) } else { (least, best, failures + 1) };
        if failures == 2 {
            break;
        }
    }
    for bands in neighbours(best).filter(fits) {
        tried.push(with_bands(bands)?);
    }
    Ok(tried)
}

/// Numbers of bands between the powers of two on either side of the best.
fn neighbours(best: u64) -> impl Iterator<Item = u64> {
    [best / 2 + best / 4, best + best / 2].into_iter().filter(move |_| best > 2)
}

/// The best number of bands, and the best that fits the memory. These are found by estimates: only they get certified
/// accounting, which takes longer.
fn by_estimates(
    request: &VectorRequest,
    steps_per_epoch: u64,
    family: BandedFamily,
    compared: &mut ComparedMechanisms<'_>,
) -> Attempts {
    let most = steps_per_epoch.min(request.horizon);
    let (best, refusal) = best_widths(request, most, family.with_bands, compared)?;
    if let (true, Some(refusal)) = (best.is_empty(), refusal) {
        return Ok(vec![Err(refusal)]);
    }
    best.into_iter().map(|bands| attempt(request, (family.with_bands)(bands), compared)).collect()
}

/// The number of bands that is probably best, and the best that fits the memory; and why a number is out of reach.
fn best_widths(
    request: &VectorRequest,
    most: u64,
    with_bands: fn(u64) -> MechanismName,
    compared: &mut ComparedMechanisms<'_>,
) -> Result<(Vec<u64>, Option<Error>)> {
    let mut refusal = None;
    let mut likely = |bands: u64| -> Result<Option<(u64, f64)>> {
        let noise = |guarantee: &SamplingGuarantee| guarantee.likely_noise_for(&request.budget);
        let found = compared.compare(|watch| EstimatedMechanism::new(request, with_bands(bands), watch, noise))?;
        Ok(found.map(|own| (bands, own.error)).map_err(|error| refusal = Some(error)).ok())
    };
    let doubled = std::iter::successors(Some(1u64), |bands| bands.checked_mul(2)).take_while(|bands| *bands < most);
    let mut found: Vec<(u64, f64)> = vec![];
    let least = |found: &[(u64, f64)], fits: &dyn Fn(u64) -> bool| {
        found.iter().filter(|(bands, _)| fits(*bands)).min_by(|a, b| a.1.total_cmp(&b.1)).copied()
    };
    // From the widest on, errors fall and then grow.
    let widths: Vec<u64> = doubled.skip(1).chain([most]).collect();
    for width in widths.into_iter().rev() {
        let Some((bands, error)) = likely(width)? else { continue };
        found.push((bands, error));
        let is_worse = least(&found, &|_| true).is_some_and(|(_, best)| error > 1.1 * best);
        if is_worse && bands <= request.max_memory {
            break;
        }
    }
    if let Some((best, _)) = least(&found, &|_| true) {
        for bands in neighbours(best).filter(|bands| *bands < most) {
            found.extend(likely(bands)?);
        }
    }
    let best = [least(&found, &|_| true), least(&found, &|bands| bands <= request.max_memory)];
    let mut widths: Vec<u64> = best.into_iter().flatten().map(|(bands, _)| bands).collect();
    widths.dedup();
    Ok((widths, refusal))
}

/// A mechanism with sampling, and an estimate of its error. Nothing is certified.
struct EstimatedMechanism {
    mechanism: Arc<dyn Mechanism>,
    guarantee: SamplingGuarantee,
    error: f64,
}

impl EstimatedMechanism {
    /// From an estimate of the noise.
    fn new(
        request: &VectorRequest,
        name: MechanismName,
        watch: SearchWatch<'_>,
        noise: impl Fn(&SamplingGuarantee) -> Option<f64>,
    ) -> Result<Self> {
        let mechanism = built(request, name, watch)?;
        let guarantee = sampled_with(request, &*mechanism)?.expect("it has sampling");
        let out_of_range = || Error::invalid("no noise multiplier in range meets this epsilon and delta");
        let noise = noise(&guarantee).ok_or_else(out_of_range)?;
        let (max, mean) = match &request.optimizer {
            Some(optimizer) => max_and_mean(optimizer.counted(&error::variances(&*mechanism, optimizer)?)),
            None => (mechanism.max_row_norm_squared(), mechanism.mean_row_norm_squared()),
        };
        let error = noise * request.objective.of(max, mean).sqrt();
        Ok(Self { mechanism, guarantee, error })
    }

    /// The candidate; the outer error if the search is cancelled.
    fn certified(
        self,
        request: &VectorRequest,
        compared: &mut ComparedMechanisms<'_>,
    ) -> Result<Result<VectorCandidate>> {
        compared.compare(|watch| {
            check_participation(request, &*self.mechanism)?;
            calibrated_candidate(request, self.mechanism, Some(self.guarantee), watch)
        })
    }
}

/// A name whose open bands are filled in for the sampling: how much more a heavy round costs than a light one, from
/// the noise that rounds of equal weight would need.
pub(super) fn sharpened(request: &VectorRequest, name: MechanismName) -> Result<MechanismName> {
    let (Some(sampling), Budget::Approximate(epsilon, delta)) = (request.sampling, request.budget) else {
        return Ok(name);
    };
    let is_open = name.with_sharpness(Sharpness::default()).is_some();
    let Some(bands) = name.bands().filter(|_| is_open && sampling.is_by_step()) else { return Ok(name) };
    let Some(rate) = sampling.rate(bands) else { return Ok(name) };
    let rounds = sampling.rounds_alike(rate, 1.0, request.horizon.div_ceil(bands.max(1)))?;
    let noise = SampledGaussians::new(&[rounds])?.certified_factor_for(epsilon, delta)?;
    let sharpness = Sharpness::near(STEEPER / (noise * noise));
    Ok(name.with_sharpness(sharpness).unwrap_or(name))
}
