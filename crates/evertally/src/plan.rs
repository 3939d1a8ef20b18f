//! Plans: all decisions made before the first data arrive, and the error that they imply.
//!
//! A [`Plan`] holds no secret. It fixes the horizon, the budget, who counts as a neighbour, the factorization and the
//! exact noise law, and it knows the standard error and an interval for every step before any data are seen.

mod band;
mod calibrate;
mod choose;
mod competitors;
mod correlation;
mod crossover;
mod digest;
mod file;
mod guarantee;
mod history;
mod interval;
mod lower_bound;
mod moments;
mod observer;
mod periods;
mod prepared;
pub mod ranking;
mod ratio;
mod readings;
mod request;
mod search;
mod selection;
mod sensitivity;
mod spent;
mod tails;
mod unbounded;

pub use crate::mechanism::{NoiseKind, Objective};
pub use band::Band;
pub use choose::{Candidate, ranked};
pub use competitors::{attempts_with, competitors};
pub use correlation::{Correlation, GroupAim};
pub use digest::{PlanKind, plan_digest};
pub use guarantee::Guarantee;
pub use history::Combination;
pub use lower_bound::{gaussian_lower_bound, unit_lower_bound, vector_lower_bound, workload_lower_bound};
pub use moments::NoiseMoments;
pub use observer::{ComparedMechanisms, SearchObserver, SearchProgress};
pub use prepared::Prepared;
pub use ratio::{NoisyPair, RatioIntervals, RatioSet};
pub use readings::Readings;
pub use request::PlanRequest;
pub use search::Search;
pub use selection::Threshold;
pub use unbounded::{LOOKED_AT, largest_ratio};

use crate::mechanism::{Criterion, Mechanism, RowLaw, Workload};
use crate::noise::{DiscreteLaw, FRACTION_BITS, rounded};
use crate::number::power;
use crate::{Error, Result};
use correlation::GroupChoice;
use std::sync::{Arc, Mutex};

/// A finished plan; see the [module](self).
#[derive(Clone, Debug)]
pub struct Plan {
    request: PlanRequest,
    kind: NoiseKind,
    law: DiscreteLaw,
    /// The law of noise that is common to all groups.
    common: Option<DiscreteLaw>,
    correlation: Option<Correlation>,
    /// The number of steps of the noise grid per step of the data's grid.
    noise_divisor: u64,
    exact_accounting: bool,
    /// Variance of one noise variable in squared units of the data.
    node_variance: f64,
    guarantee: Guarantee,
    threshold: Option<Threshold>,
    mechanism: Arc<dyn Mechanism>,
    /// The factorization as each of several workloads reads it.
    readings: Arc<[Arc<dyn Mechanism>]>,
    digest: [u8; 32],
    /// Cached bands.
    bands: Arc<Mutex<Vec<Band>>>,
}

impl PlanRequest {
    /// Calibrates the noise, choosing the mechanism and law that are not named.
    ///
    /// # Errors
    /// If a parameter is out of range, the step sensitivity is 0, or the budget cannot be met with the requested noise.
    pub fn plan(self) -> Result<Plan> {
        let best = self.candidates()?.into_iter().next().expect("some candidate fits every budget");
        Plan::build(self, best)
    }

    /// The plan and all its candidates, smallest error first, by one search.
    ///
    /// # Errors
    /// As [`PlanRequest::plan`].
    pub fn plan_with_candidates(self) -> Result<(Plan, Vec<Candidate>)> {
        let candidates = self.candidates()?;
        let best = candidates.first().expect("some candidate fits every budget").clone();
        Ok((Plan::build(self, best)?, candidates))
    }

    /// All candidates that fit the request, smallest error first.
    ///
    /// # Errors
    /// As [`PlanRequest::plan`].
    pub fn candidates(&self) -> Result<Vec<Candidate>> {
        choose::candidates(self)
    }
}

impl Plan {
    /// The plan of a request with one of its [candidates](PlanRequest::candidates).
    pub(crate) fn build(mut request: PlanRequest, chosen: Candidate) -> Result<Self> {
        request.mechanism = Some(chosen.mechanism.name());
        request.noise = Some(chosen.kind);
        // The search is done, and is not part of the plan.
        request.search = Search::default();
        let node_variance = chosen.node_variance(&request);
        let Candidate { mechanism, kind, law, common, noise_divisor, exact_accounting, guarantee, readings, .. } =
            chosen;
        let correlation = common.map(|(correlation, _)| correlation);
        request.groups = correlation.map(GroupChoice::Fixed);
        let mut plan = Self {
            request,
            kind,
            law,
            common: common.map(|(_, law)| law),
            correlation,
            noise_divisor,
            exact_accounting,
            node_variance,
            guarantee,
            threshold: None,
            mechanism,
            readings: readings.into(),
            digest: [0; 32],
            bands: Arc::default(),
        };
        if let Some(selection) = plan.request.selection {
            plan.guarantee = guarantee.with_selection(selection.delta());
            plan.threshold = Some(plan.threshold_of(&selection)?);
        }
        plan.digest = file::digest(&plan);
        Ok(plan)
    }

    /// A plan for each of the [workloads](PlanRequest::with_mix) that are read from one release, in their order,
    /// beginning with this one; only this one if there are no others.
    ///
    /// All have the same digest, guarantee and noise: streams of the same name under them release different functions
    /// of exactly the same noisy integers, which cost the budget once.
    pub fn readings(&self) -> Vec<Self> {
        let Some(mix) = self.request.mix else { return vec![self.clone()] };
        let read = |(mechanism, workload): (&Arc<dyn Mechanism>, Workload)| Self {
            request: PlanRequest { workload, ..self.request.clone() },
            mechanism: mechanism.clone(),
            bands: Arc::default(),
            ..self.clone()
        };
        self.readings.iter().zip(mix.workloads()).map(read).collect()
    }

    /// The digest that states of streams are bound to: the plan's, combined with the workload if it is
    /// not the first of several.
    pub(crate) fn state_digest(&self) -> [u8; 32] {
        match self.request.mix {
            Some(mix) if mix.readings()[0].0 != self.request.workload => {
                let bound = [&self.digest, self.request.workload.to_string().as_bytes()].concat();
                blake3::derive_key("evertally 1 state of one of several workloads", &bound)
            }
            _ => self.digest,
        }
    }

    /// The request, with mechanism and noise filled in.
    pub fn request(&self) -> &PlanRequest {
        &self.request
    }

    /// Number of steps `T`.
    pub fn horizon(&self) -> u64 {
        self.request.horizon
    }

    /// Whether the horizon is endless: see [`PlanRequest::unbounded`].
    pub fn is_unbounded(&self) -> bool {
        self.request.is_unbounded()
    }

    /// The factorization.
    pub fn mechanism(&self) -> &Arc<dyn Mechanism> {
        &self.mechanism
    }

    /// The exact law of every noise variable, in units of the noise grid: the data's over
    /// [`noise_divisor`](Self::noise_divisor). If the noise of groups is [correlated](Self::correlation), the law of
    /// the part that belongs to one group.
    pub fn law(&self) -> &DiscreteLaw {
        &self.law
    }

    /// The law of the noise variables that are common to all groups, if the noise of groups is
    /// [correlated](Self::correlation).
    pub fn common_law(&self) -> Option<&DiscreteLaw> {
        self.common.as_ref()
    }

    /// How the noise of groups is correlated, if it is.
    pub fn correlation(&self) -> Option<Correlation> {
        self.correlation
    }

    /// Refuses a plan whose noise of groups is correlated for a stream that is not these groups.
    pub(crate) fn check_independent(&self) -> Result<()> {
        match self.correlation {
            None => Ok(()),
            Some(correlation) => Err(Error::invalid(format!(
                "the plan correlates the noise of {} declared groups, and this stream is not made of them; plan it \
                 without correlated groups",
                correlation.groups()
            ))),
        }
    }

    /// The number of steps of the noise grid per step of the data's grid. 1 for trees under Laplace noise; a large
    /// number for real-valued factorizations, and for Gaussian noise calibrated by exact accounting, which needs a fine
    /// grid.
    pub fn noise_divisor(&self) -> u64 {
        self.noise_divisor
    }

    /// Whether the noise was calibrated by the exact covariance of the releases
    /// ([`GaussianShift`](crate::mechanism::GaussianShift)) and not by the column norms of `R`.
    pub fn exact_accounting(&self) -> bool {
        self.exact_accounting
    }

    /// Releases are multiples of `2^-fraction_bits` of the grid.
    pub fn fraction_bits(&self) -> u32 {
        if self.has_fine_noise() { FRACTION_BITS } else { self.mechanism.fraction_bits() }
    }

    /// Whether integral combinations of fine noise are still to be rounded.
    fn has_fine_noise(&self) -> bool {
        self.noise_divisor > 1 << self.mechanism.noise_bits()
    }

    /// The shift that Gaussian-like noise of variance `λ² μ`, added to every stretch of weight `λ` of a mechanism's
    /// [paths](crate::mechanism::Walk), must hide for one unit's change: the number of steps of the noise's grid per
    /// step of the data's grid, the bound of `Σ (shift/λ)²` in squared steps, and the bound of the number of non-zero
    /// shifts. `None` under Laplace noise.
    pub(crate) fn shift_along_stretches(&self) -> Result<Option<(u64, f64, f64)>> {
        let (Some(squared), sensitivity) = (self.guarantee.hidden_squared(), self.request.sensitivity()?) else {
            return Ok(None);
        };
        if !self.exact_accounting {
            // The weights are 1, and the shifts are integers.
            return Ok(Some((self.noise_divisor, squared, squared)));
        }
        let shift = self.mechanism.gaussian_shift().expect("the plan counts by it");
        let (divisor, of_one, each) = shift.along_stretches(sensitivity.event_size());
        let squared = calibrate::releases(sensitivity, of_one, divisor).rounded_up()?.to_f64();
        Ok(Some((divisor, squared, squared * each)))
    }

    /// The value of a cursor in units of `2^-fraction_bits` of the grid. Noise on a finer grid than the mechanism's own
    /// is rounded to the nearest, halves up: because the exact sum is an integer, this rounds the release afterwards.
    pub(crate) fn rounded_noise(&self, noise: i128) -> i128 {
        if !self.has_fine_noise() {
            return noise;
        }
        rounded(noise, self.noise_divisor) // fits: the noise of a step is below 2^102, see the cursors
    }

    /// Laplace or Gaussian.
    pub fn noise_kind(&self) -> NoiseKind {
        self.kind
    }

    /// The privacy guarantee of the whole history of releases.
    pub fn guarantee(&self) -> Guarantee {
        self.guarantee
    }

    /// The threshold for undeclared keys to be shown, if the plan has a selection.
    pub fn threshold(&self) -> Option<&Threshold> {
        self.threshold.as_ref()
    }

    /// The same plan with another digest, for tests of frozen noise.
    #[cfg(test)]
    pub(crate) fn with_digest(self, hexadecimal: &str) -> Self {
        let byte = |i| u8::from_str_radix(&hexadecimal[2 * i..2 * i + 2], 16).expect("hexadecimal digits");
        Self { digest: std::array::from_fn(byte), ..self }
    }

    /// BLAKE3 digest of everything in the plan. Noise is bound to it: another plan has independent noise.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    /// Variance of one noise variable, in squared units of the data; with correlated noise of groups, of a variable of
    /// one group and a common one together.
    pub fn node_variance(&self) -> f64 {
        self.node_variance
    }

    /// Variance of the released value of a step (1 ..= T), in squared units of the data.
    ///
    /// # Panics
    /// If the step is 0 or beyond the horizon, here and in the two below.
    pub fn variance(&self, step: u64) -> f64 {
        assert!((1..=self.horizon()).contains(&step), "step {step} is outside the horizon of {}", self.horizon());
        self.node_variance * (self.mechanism.row_norm_squared(step) * self.mechanism.row_growth())
    }

    /// Standard error of the released value of a step (1 ..= T), in units of the data.
    pub fn std_error(&self, step: u64) -> f64 {
        self.variance(step).sqrt()
    }

    /// The largest standard error of any step; infinite without an end.
    pub fn max_std_error(&self) -> f64 {
        if self.request.grows_without_end() {
            return f64::INFINITY;
        }
        (self.node_variance * (self.mechanism.max_row_norm_squared() * self.mechanism.row_growth())).sqrt()
    }

    /// The error by which plans are compared: the largest standard error, or the root of the mean variance if that is
    /// the objective; for endless running sums, whose error grows, the standard error of step 2^20.
    pub fn compared_std_error(&self) -> f64 {
        const REFERENCE_STEP: u64 = 1 << 20;
        if self.request.grows_without_end() {
            return self.std_error(REFERENCE_STEP);
        }
        self.request.objective.of(self.max_std_error(), self.mean_std_error())
    }

    /// The law of the noise of the released value of a step (1 ..= T), as far as needed for combinations with other
    /// noise.
    ///
    /// # Panics
    /// If the step is 0 or beyond the horizon.
    pub fn noise_moments(&self, step: u64) -> NoiseMoments {
        let variance = self.variance(step);
        if self.kind == NoiseKind::Gaussian {
            return NoiseMoments::gaussian(variance);
        }
        // A Laplace variable of variance v has the fourth cumulant 3 v².
        let fourth = match self.mechanism.row_law(step) {
            RowLaw::Sum(terms) => terms.iter().map(|(weight, count)| power(*weight, 4) * *count as f64).sum(),
            RowLaw::Like { norm_squared, terms } => power(norm_squared, 2) / terms as f64,
        };
        NoiseMoments { variance, fourth: 3.0 * power(self.node_variance, 2) * fourth }
    }

    /// The root of the mean variance over the steps; infinite without an end.
    pub fn mean_std_error(&self) -> f64 {
        if self.request.grows_without_end() {
            return f64::INFINITY;
        }
        (self.node_variance * (self.mechanism.mean_row_norm_squared() * self.mechanism.row_growth())).sqrt()
    }

    /// The largest standard error of the first `steps` steps, and the root of their mean variance, for an endless plan;
    /// otherwise those of all steps.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::unbounded(Budget::Zcdp(Rho::new(0.5)?)).plan()?;
    /// let (largest, mean) = plan.errors_through(1000);
    /// assert!(plan.std_error(1000) <= largest && mean <= largest && largest < 5.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn errors_through(&self, steps: u64) -> (f64, f64) {
        let criterion = Criterion::new(self.kind, self.request.objective);
        // An endless plan is the same over any horizon.
        let first = self
            .request
            .grows_without_end()
            .then(|| self.mechanism.name().build(steps.max(1), &criterion).ok())
            .flatten();
        let Some(first) = first else { return (self.max_std_error(), self.mean_std_error()) };
        let error = |squared: f64| (self.node_variance * squared).sqrt();
        (error(first.max_row_norm_squared()), error(first.mean_row_norm_squared()))
    }

    /// Two-sided intervals at a confidence strictly between 0 and 1, for any step.
    ///
    /// # Errors
    /// If the confidence is out of range.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally::plan::PlanRequest;
    /// let plan = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// let mut intervals = plan.intervals(0.95)?;
    /// let half = intervals.half_width(500);
    /// assert!((half as f64 - 1.96 * plan.std_error(500)).abs() <= 1.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn intervals(&self, confidence: f64) -> Result<Intervals> {
        self.fine_intervals(confidence, 1)
    }

    /// The same with half-widths in steps of a grid that is `parts` times (at least once) finer than the data's. They
    /// do not include the rounding of releases that are [finer than the grid](Self::fraction_bits): half a unit of the
    /// release.
    ///
    /// # Errors
    /// If the confidence is out of range.
    pub fn fine_intervals(&self, confidence: f64, parts: u32) -> Result<Intervals> {
        let scale = self.unit_scale() * f64::from(parts.max(1));
        let table = interval::IntervalTable::new(self.kind, scale, confidence)?;
        Ok(Intervals { mechanism: self.mechanism.clone(), node_variance: self.node_variance, table, band: None })
    }
}

impl Plan {
    /// The scale of the corresponding continuous variable, in steps of the data's grid.
    fn unit_scale(&self) -> f64 {
        let scale = self.common.map_or(self.law.scale(), |common| libm::hypot(self.law.scale(), common.scale()));
        scale / self.noise_divisor as f64
    }
}

/// Half-widths of two-sided intervals; see [`Plan::intervals`].
#[derive(Debug)]
pub struct Intervals {
    mechanism: Arc<dyn Mechanism>,
    /// Variance of one noise variable in squared units of the data.
    node_variance: f64,
    table: interval::IntervalTable,
    /// The band, if they hold at all steps at once.
    band: Option<Band>,
}

impl Intervals {
    /// The smallest whole number `q` of grid steps such that the true running sum lies within `± q` of the release of
    /// this step (1 ..= T) with the given confidence.
    ///
    /// # Panics
    /// If the step is 0 or beyond the horizon.
    pub fn half_width(&mut self, step: u64) -> u128 {
        let law = self.row_law(step);
        self.of_law(&law)
    }

    /// The band of these intervals, if they hold at all steps at once.
    pub fn band(&self) -> Option<Band> {
        self.band
    }

    fn of_law(&mut self, law: &RowLaw) -> u128 {
        match self.band.and_then(|band| band.standard_errors) {
            None => self.table.half_width(law),
            // An interval that holds at all steps at once is never narrower than one that holds at one step.
            Some(standard_errors) => {
                self.table.half_width_of_band(standard_errors, law).max(self.table.half_width(law))
            }
        }
    }

    /// The standard error of a step in units of the data, as in [`Plan::std_error`], and the half-width of its
    /// interval: both for the cost of one, which is that of the step's row if a mechanism has no constant error.
    ///
    /// # Panics
    /// If the step is 0 or beyond the horizon.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// let mut intervals = plan.intervals(0.95)?;
    /// assert_eq!(intervals.error(500), (plan.std_error(500), intervals.half_width(500)));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn error(&mut self, step: u64) -> (f64, u128) {
        let law = self.row_law(step);
        let norm_squared = match &law {
            RowLaw::Like { norm_squared, .. } => *norm_squared,
            RowLaw::Sum(terms) => match terms[..] {
                [(1.0, terms)] => terms as f64, // exact: the number of nodes is below 2^53
                _ => self.mechanism.row_norm_squared(step),
            },
        };
        ((self.node_variance * norm_squared).sqrt(), self.of_law(&law))
    }

    fn row_law(&self, step: u64) -> RowLaw {
        let horizon = self.mechanism.horizon();
        assert!((1..=horizon).contains(&step), "step {step} is outside the horizon of {horizon}");
        self.mechanism.row_law(step)
    }
}

#[cfg(test)]
mod tests;
