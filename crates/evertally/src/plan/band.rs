//! Bands that hold at all steps at once.
//!
//! An interval of [`Plan::intervals`] holds at its step with the stated confidence; over many steps some of them miss. A
//! band of `± c` standard errors, the same `c` at every step, holds **everywhere** with that confidence for the right
//! `c`, the quantile of `max_t |N_t| / σ_t` over all steps of the horizon. It follows from the plan alone: the law of
//! the noise is public, and so is everything here. No key and no datum is asked for, and it costs no privacy.
//!
//! * **By simulation** ([`simulate`]) where the horizon is at most 2^16 steps: paths of the noise of the whole horizon,
//!   with random bits that are a function of the plan's digest, so that everybody finds the same number. It is rounded to
//!   the safe side by the error of the simulation itself: `c` is so large that the band misses no more often than is
//!   allowed at the upper end of what was simulated (at 95 %, one-sided).
//! * **By independent steps** for longer horizons: a band misses at most as often as one of independent steps with the
//!   same laws would. For Gaussian noise that is Šidák's inequality (doi 10.1080/01621459.1967.10482935), a case of
//!   the Gaussian correlation inequality (Royen 2014, arXiv 1408.1028). A Laplace variable is a Gaussian one of
//!   random variance; given all variances the inequality holds, each probability falls with each variance (Anderson),
//!   and falling functions of independent variables are positively correlated (Harris): so it holds for Laplace noise.
//!   The price is a wider band, by some hundredths for Gaussian noise.
//!
//! Simulated is the continuous law; half-widths are rounded up to the grid, which covers the discrete one as it does for
//! single steps (see [`interval`](super::interval)).

mod simulate;

use super::interval::IntervalTable;
use super::{Intervals, NoiseKind, Plan};
use crate::Result;
use crate::mechanism::RowLaw;
use serde::Serialize;

/// The longest horizon whose paths are simulated.
const LONGEST: u64 = 1 << 16;

/// A band of as many standard errors at every step; see [`Plan::band`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// `c`: the band is the released value plus and minus so many standard errors. `None` where it was not simulated, and
    /// differs from step to step.
    pub standard_errors: Option<f64>,
    /// With which confidence it holds at all steps at once.
    pub confidence: f64,
    /// Standard error of the simulation: of the probability that the band holds. The band allows for
    /// 1.645 times that. 0 where nothing was simulated.
    pub simulation_error: f64,
    /// How many paths were simulated; 0 where the band is that of independent steps.
    pub paths: u32,
}

impl Plan {
    /// The band that holds at all steps of the horizon at once. The same for every key, every stream and every moment:
    /// it is a function of the plan. Takes 10⁷ steps of a mechanism, mostly, which is a second or two; a plan remembers it.
    ///
    /// # Errors
    /// If the confidence is not strictly between 0 and 1.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::count(52, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// let band = plan.band(0.95)?;
    /// // Wider than an interval of one step, which has 1.96, and less so than for 52 independent ones, with 3.29.
    /// assert!(band.standard_errors.is_some_and(|c| c > 2.6 && c < 3.29));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn band(&self, confidence: f64) -> Result<Band> {
        self.intervals(confidence)?; // checks the confidence
        if self.horizon() > LONGEST {
            return Ok(Band { standard_errors: None, confidence, simulation_error: 0.0, paths: 0 });
        }
        let known = |bands: &[Band]| bands.iter().find(|band| band.confidence == confidence).copied();
        let mut bands = self.bands.lock().expect("nobody panics while it is held");
        if let Some(band) = known(&bands) {
            return Ok(band);
        }
        let band = simulate::band(self, confidence);
        bands.push(band);
        Ok(band)
    }

    /// The same intervals as [`intervals`](Self::intervals) gives, but such that all steps' hold at once: those of the
    /// [`band`](Self::band).
    ///
    /// # Errors
    /// If the confidence is not strictly between 0 and 1.
    pub fn simultaneous_intervals(&self, confidence: f64) -> Result<Intervals> {
        let (band, mut intervals) = (self.band(confidence)?, self.intervals(confidence)?);
        if band.standard_errors.is_none() {
            intervals.table = IntervalTable::of_miss(self.kind, self.unit_scale(), of_each(confidence, self.horizon()));
        }
        Ok(Intervals { band: Some(band), ..intervals })
    }
}

/// How often each of so many independent steps may miss.
fn of_each(confidence: f64, steps: u64) -> f64 {
    -libm::expm1(libm::log(confidence) / steps as f64)
}

/// Half-width of a band of so many standard errors at a step with this law of its noise, for variables of scale 1.
pub(super) fn half_width(standard_errors: f64, kind: NoiseKind, law: &RowLaw) -> f64 {
    let squared = match law {
        RowLaw::Sum(terms) => terms.iter().map(|(weight, count)| weight * weight * *count as f64).sum(),
        RowLaw::Like { norm_squared, .. } => *norm_squared,
    };
    standard_errors * f64::sqrt(kind.unit_variance() * squared)
}

#[cfg(test)]
mod tests;
