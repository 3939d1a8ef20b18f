//! The guarantee of a plan's first steps alone: for a stream that stops early.
//!
//! The first `t` releases are `L_1 … L_t` times the noisy node sums that these rows use: those of a mechanism over `t`
//! steps, under the noise of the plan ([`Mechanism::through`](crate::mechanism::Mechanism::through)). Later events do
//! not move them, so that a unit moves them by at most the sensitivity of that mechanism over `t` steps, by the
//! accounting of any plan. Where the first steps are not known as a mechanism, a unit's events in `t` steps move the
//! nodes of the whole mechanism. The first releases are a function of all of them, so the guarantee of the whole plan
//! holds, too, and the best is stated.

use super::calibrate::moved_squared;
use super::{Guarantee, NoiseKind, Plan};
use crate::number::exact::Exact;
use crate::privacy::Sensitivity;
use crate::{Error, Result};
use std::sync::Arc;

impl Plan {
    /// The guarantee of the releases of steps 1 to `through` alone, under the noise of the whole plan: what a stream
    /// has spent that stops after them. Never more than the guarantee of the plan, and that of all steps if no tighter
    /// bound is known. If groups are selected, their δ counts in full.
    ///
    /// The step must not depend on the data, nor on releases: a stream that stops because of its releases has the
    /// guarantee of the longest run that was possible.
    ///
    /// # Errors
    /// If the step is 0 or beyond the horizon.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let request = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.5)?)).with_mechanism("binary".parse()?);
    /// // Three levels of ten are in use.
    /// let spent = request.plan()?.spent(7)?;
    /// assert!((spent.rho.get() - 0.15).abs() < 1e-9);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn spent(&self, through: u64) -> Result<Guarantee> {
        if !(1..=self.horizon()).contains(&through) {
            return Err(Error::invalid(format!(
                "step {through} is outside the horizon of {} steps; give the last released step, from 1",
                self.horizon()
            )));
        }
        if through == self.horizon() {
            return Ok(self.guarantee);
        }
        let request = &self.request;
        let sensitivity = Sensitivity::new(request.unit, request.neighbours, request.values, through)?;
        let sensitivity = sensitivity.in_sums(request.sums_per_event)?;
        // Several workloads read the nodes of one mechanism, each by other rows.
        let first = self.mechanism.through(through).filter(|_| request.mix.is_none());
        let mechanism = first.unwrap_or_else(|| Arc::clone(&self.mechanism));
        let moved = || moved_squared(sensitivity, &*mechanism, self.noise_divisor, self.exact_accounting);
        match self.kind {
            NoiseKind::Laplace => {
                let column_sum = mechanism.laplace().map_or(u128::MAX, |shift| shift.column_sum);
                let l1 = Exact::from(sensitivity.l1).times(&Exact::from(column_sum)).to_f64_up();
                let squared = match mechanism.is_causal() {
                    true => moved().unwrap_or(f64::INFINITY),
                    false => f64::INFINITY,
                };
                Ok(self.guarantee.of_first_steps(&self.law, l1, squared))
            }
            NoiseKind::Gaussian => {
                let squared = moved().unwrap_or(f64::INFINITY);
                // Groups with correlated noise: as if there were no common noise, but in units of it, as in the whole.
                let (law, own) = match (self.correlation, self.common_law()) {
                    (Some(correlation), Some(common)) => (common, correlation.own_over_common()),
                    _ => (&self.law, 1.0),
                };
                Ok(self.guarantee.of_first_steps(law, f64::INFINITY, squared / own * (1.0 + 1e-15)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
