//! Bands that hold at all steps at once.
//!
//! An interval of [`Plan::intervals`] holds at its step with the stated confidence; over many steps some intervals
//! miss. A band of `± c` standard errors, the same `c` at every step, holds **everywhere** with that confidence if `c`
//! is the quantile of `max_t |N_t| / σ_t` over all steps of the horizon. It follows from the plan alone: the law of the
//! noise is public, and so is everything here. It needs neither key nor data, and costs no budget.
//!
//! * **By simulation** ([`simulate`]) if the horizon is at most 2^16 steps: paths of the noise of the whole horizon,
//!   with random bits that are a function of the plan's digest, so that everyone finds the same number. It is rounded
//!   to the safe side by the simulation's own error: `c` is so large that the band misses no more often than allowed
//!   even at the upper confidence limit of the simulated probability (at 95 %, one-sided).
//! * **By independent steps** for longer horizons: a band misses at most as often as one of independent steps with the
//!   same laws. For Gaussian noise that is Šidák's inequality (doi 10.1080/01621459.1967.10482935), a case of the
//!   Gaussian correlation inequality (Royen 2014, arXiv 1408.1028). A Laplace variable is a Gaussian one of random
//!   variance; given all variances the inequality holds, each probability falls with each variance (Anderson), and
//!   falling functions of independent variables are positively correlated (Harris): so it holds for Laplace noise. The
//!   price is a band that is wider, by a few hundredths for Gaussian noise.
//!
//! The simulation uses the continuous law; half-widths are rounded up to the grid, which covers the discrete law as for
//! single steps (see [`interval`](super::interval)).

mod simulate;

use super::interval::IntervalTable;
use super::{Intervals, Plan};
use crate::Result;
use serde::Serialize;

/// Longest horizon whose paths are simulated.
const MAX_SIMULATED_STEPS: u64 = 1 << 16;

/// A band of the same number of standard errors at every step; see [`Plan::band`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Band {
    /// `c`: the band is the released value plus and minus `c` standard errors. `None` if it was not simulated, and
    /// differs from step to step.
    pub standard_errors: Option<f64>,
    /// The confidence with which it holds at all steps at once.
    pub confidence: f64,
    /// Standard error, by simulation, of the probability that the band holds. The band allows for 1.645 times that. 0
    /// if nothing was simulated.
    pub simulation_error: f64,
    /// Number of simulated paths; 0 if the band is that of independent steps.
    pub paths: u32,
}

impl Plan {
    /// The band that holds at all steps of the horizon at once. It is a function of the plan, and so the same for every
    /// key and stream at any time. Usually takes 10⁷ steps of a mechanism, which is a second or two; a plan caches it.
    ///
    /// # Errors
    /// If the confidence is not strictly between 0 and 1.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::count(52, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// let band = plan.band(0.95)?;
    /// // Wider than an interval of one step (1.96), and narrower than a band of 52 independent steps (3.29).
    /// assert!(band.standard_errors.is_some_and(|c| c > 2.6 && c < 3.29));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn band(&self, confidence: f64) -> Result<Band> {
        self.intervals(confidence)?; // checks the confidence
        if self.horizon() > MAX_SIMULATED_STEPS {
            return Ok(Band { standard_errors: None, confidence, simulation_error: 0.0, paths: 0 });
        }
        let known = |bands: &[Band]| bands.iter().find(|band| band.confidence == confidence).copied();
        let mut bands = self.bands.lock().expect("no panic while the lock is held");
        if let Some(band) = known(&bands) {
            return Ok(band);
        }
        let band = simulate::band(self, confidence);
        bands.push(band);
        Ok(band)
    }

    /// Like [`intervals`](Self::intervals), but the intervals of all steps hold at once: those of the
    /// [`band`](Self::band).
    ///
    /// # Errors
    /// If the confidence is not strictly between 0 and 1.
    pub fn simultaneous_intervals(&self, confidence: f64) -> Result<Intervals> {
        let (band, mut intervals) = (self.band(confidence)?, self.intervals(confidence)?);
        if band.standard_errors.is_none() {
            intervals.table =
                IntervalTable::from_miss(self.kind, self.unit_scale(), per_step_miss(confidence, self.horizon()));
        }
        Ok(Intervals { band: Some(band), ..intervals })
    }
}

/// The allowed miss probability of each of this many independent steps.
fn per_step_miss(confidence: f64, steps: u64) -> f64 {
    -libm::expm1(libm::log(confidence) / steps as f64)
}

#[cfg(test)]
mod tests;
