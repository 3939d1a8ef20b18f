//! The guarantee of the first steps of a plan alone: for a run that stops early.
//!
//! The first `t` releases are those of a mechanism over `t` steps, under the noise of the plan
//! ([`Mechanism::through`]). Participation and sampling are as planned:
//!
//! * **known steps**: an example takes part in at most as many of the first `t` steps as their distance allows;
//! * **Poisson sampling**, cyclic or not: the rounds of the first steps, with the plan's number of groups;
//! * **random allocation**: steps `i, i + b, …` up to `t`. Within the first epoch the whole epoch counts;
//! * **per-epoch random allocation**: a round of an example begins at the example's phase, so that `t` steps touch
//!   `⌈(t-1)/b⌉ + 1` rounds at most, in part; a round without some of its steps reveals less.
//!
//! The guarantee of the whole plan holds for its first steps, too, and the best is stated.
//!
//! [`Mechanism::through`]: evertally::mechanism::Mechanism::through

use super::{VectorGuarantee, VectorPlan};
use evertally::mechanism::Participation;
use evertally::{Error, Result};

impl VectorPlan {
    /// The guarantee of the releases of steps 1 to `through` alone, under the noise of the whole plan: what a run has
    /// spent that stops after them. Never more than the guarantee of the plan, and that of all steps if no tighter
    /// bound is known. With random allocation, [`epsilon_at`](VectorGuarantee::epsilon_at) takes seconds.
    ///
    /// The step must not depend on the data, nor on releases: a stream that stops because of its releases has the
    /// guarantee of the longest run that was possible.
    ///
    /// # Errors
    /// If the step is 0 or beyond the horizon.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon};
    /// use evertally_training::{Sampling, VectorRequest};
    /// let delta = Delta::new(1e-5)?;
    /// let request = VectorRequest::new(400, Budget::Approximate(Epsilon::new(2.0)?, delta), 1.0);
    /// let request = request.with_mechanism("input".parse()?).with_sampling(Sampling::poisson(0.01)?);
    /// let spent = request.plan()?.spent(100)?;
    /// assert!(spent.epsilon_at(delta) < 1.5);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn spent(&self, through: u64) -> Result<VectorGuarantee> {
        if !(1..=self.horizon()).contains(&through) {
            return Err(Error::invalid(format!(
                "step {through} is outside the horizon of {} steps; give the last step that was released, from 1",
                self.horizon()
            )));
        }
        if through == self.horizon() {
            return Ok(self.guarantee());
        }
        let participation = self.participation_through(through);
        let first = self.mechanism().through(through);
        let squared = first.as_deref().unwrap_or(&**self.mechanism()).participation_squared(participation);
        let moved = self.request.norm * self.request.norms_per_step() / self.sigma();
        let sampling = match self.request.sampling {
            None => None,
            Some(sampling) => {
                // An epoch that is not complete counts as one.
                let whole = through.max(sampling.steps_per_epoch().unwrap_or(1)).min(self.horizon());
                let first = self.mechanism().through(whole);
                let groups = self.request.participation.separation();
                first.and_then(|first| {
                    sampling.guarantee_of_first_steps(&*first, (through, self.horizon()), groups).ok()
                })
            }
        };
        Ok(self.guarantee.of_first_steps(squared.sqrt() * moved, sampling))
    }

    /// The steps of one example among the first.
    fn participation_through(&self, through: u64) -> Participation {
        let planned = self.request.participation;
        let most = match self.request.sampling.map(|sampling| sampling.rounds_through(through, self.horizon())) {
            Some(rounds) => planned.most().min(rounds),
            None => planned.most(),
        };
        let most = most.min(through.div_ceil(planned.separation()));
        Participation::new(most, planned.separation()).expect("neither is 0")
    }
}

#[cfg(test)]
mod tests;
