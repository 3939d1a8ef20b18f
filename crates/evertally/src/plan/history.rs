//! What the releases of a plan say together: covariances of two steps, and the error of what happened between them.

use super::Plan;

impl Plan {
    /// Covariance of the released values of two steps (0 ..= T, in any order), in squared units of the data. Nothing is
    /// released at step 0, and nothing is wrong about it. Costs what
    /// [`row_product`](crate::mechanism::Mechanism::row_product) does: `O(log T)` for trees, `O(d² + log T)` for a BLT.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// assert!((plan.covariance(500, 500) / plan.variance(500) - 1.0).abs() < 1e-9);
    /// assert_eq!(plan.covariance(3, 8), plan.covariance(8, 3));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Panics
    /// If a step is beyond the horizon, here and in the one below.
    pub fn covariance(&self, first: u64, second: u64) -> f64 {
        let (earlier, later) = (first.min(second), first.max(second));
        assert!(later <= self.horizon(), "step {later} is outside the horizon of {}", self.horizon());
        if earlier == 0 { 0.0 } else { self.node_variance() * self.mechanism().row_product(earlier, later) }
    }

    /// Variance of the difference of two released values (steps 0 ..= T, in any order), which is the estimate of what
    /// happened after the earlier step and up to the later one; in squared units of the data. From the start, that is
    /// the [variance](Plan::variance) of the later one.
    ///
    /// ```
    /// use evertally::plan::PlanRequest;
    /// use evertally::privacy::{Budget, Rho};
    /// let plan = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.1)?)).plan()?;
    /// // Neighbouring releases share most of their noise: a week is known better than two releases are.
    /// assert!(plan.variance_between(493, 500) < plan.variance(493) + plan.variance(500));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn variance_between(&self, first: u64, second: u64) -> f64 {
        if first == second {
            return 0.0;
        }
        let of = |step| if step == 0 { 0.0 } else { self.variance(step) };
        // Not below 0 where two rows agree to the last digits.
        (of(first) + of(second) - 2.0 * self.covariance(first, second)).max(0.0)
    }
}
