//! The effect of noise on the estimates of a count sketch, known before any event.

use super::median::{MedianNoise, row_confidence};
use super::{CountSketch, SketchPlan};
use crate::Result;
use crate::plan::Intervals;

impl CountSketch {
    /// The largest standard error that the noise causes in an estimate at any step, in units of the data: exact for
    /// Gaussian noise, an upper bound for Laplace noise (the median of normal rows has the largest variance).
    ///
    /// # Errors
    /// If the plan is not that of a count sketch.
    pub fn max_noise_std_error(plan: &SketchPlan) -> Result<f64> {
        let median = MedianNoise::new(plan.count_sketch_table()?.rows());
        Ok(median.of_normal_rows().sqrt() * plan.plan().max_std_error())
    }

    /// Two-sided intervals for the noise of estimates, at a confidence strictly between 0 and 1. They do not include
    /// the errors of collisions.
    ///
    /// # Errors
    /// If the plan is not that of a count sketch, or the confidence is out of range.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally::plan::PlanRequest;
    /// use evertally::sketch::{CountSketch, SketchPlan};
    /// use evertally::stream::LazySampling;
    /// let request = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.01)?));
    /// let plan = SketchPlan::new(request, "count-sketch(rows=5,width=1000)".parse()?, LazySampling::Keyed)?;
    /// let half = CountSketch::intervals(&plan, 0.95)?.half_width(500);
    /// // The median of 5 normal numbers is nearly normal.
    /// let share = CountSketch::max_noise_std_error(&plan)? / plan.plan().max_std_error();
    /// assert!((half as f64 / (1.96 * share * plan.plan().std_error(500)) - 1.0).abs() < 0.02);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn intervals(plan: &SketchPlan, confidence: f64) -> Result<Intervals> {
        Self::fine_intervals(plan, confidence, 1)
    }

    /// The same with half-widths in steps of a grid that is `parts` times finer than the data's, see
    /// [`Plan::fine_intervals`](crate::plan::Plan::fine_intervals).
    ///
    /// # Errors
    /// As [`intervals`](Self::intervals).
    pub fn fine_intervals(plan: &SketchPlan, confidence: f64, parts: u32) -> Result<Intervals> {
        let rows = plan.count_sketch_table()?.rows();
        plan.plan().intervals(confidence)?; // refuses arguments out of range
        plan.plan().fine_intervals(row_confidence(rows, confidence), parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{GuardedKey, TestSeed};
    use crate::plan::PlanRequest;
    use crate::privacy::{Budget, Epsilon, Rho};
    use crate::stream::LazySampling;

    /// Empty sketches so wide that items do not collide: the share of answers within their intervals is the confidence,
    /// and their spread is the standard error. Each of the 14 comparisons has significance level 4e-8 (5.5 deviations).
    #[test]
    fn intervals_hold_the_noise_as_often_as_they_say() {
        const ITEMS: u64 = 20_000;
        let budgets = [Budget::Pure(Epsilon::new(0.01).unwrap()), Budget::Zcdp(Rho::new(1e-5).unwrap())];
        for (seed, budget) in budgets.into_iter().enumerate() {
            let request = PlanRequest::count(6, budget);
            let shape = "count-sketch(rows=5,width=4294967296)".parse().unwrap();
            let plan = SketchPlan::new(request, shape, LazySampling::Keyed).unwrap();
            let key = GuardedKey::insecure_from_test_seed(TestSeed(seed as u64));
            let mut sketch = CountSketch::new(plan.clone(), &key, "intervals".parse().unwrap()).unwrap();
            sketch.tick_through(5).unwrap();
            let estimates = sketch.estimate_many(0..ITEMS).unwrap();
            for confidence in [0.5, 0.95, 0.99] {
                let half = CountSketch::intervals(&plan, confidence).unwrap().half_width(5) as f64;
                assert!(half > 50.0, "rounding up to the grid would be seen");
                let held =
                    estimates.iter().filter(|estimate| estimate.value.abs() <= half).count() as f64 / ITEMS as f64;
                let deviation = (confidence * (1.0 - confidence) / ITEMS as f64).sqrt();
                let fine = CountSketch::fine_intervals(&plan, confidence, 1000).unwrap().half_width(5) as f64 / 1000.0;
                assert!((half - 1.0..=half).contains(&fine), "{fine} of {half}");
                // The half-width is rounded up to the grid: at most a hundredth of the density's mass.
                assert!(held > confidence - 5.5 * deviation, "{budget:?} {confidence}: {held}");
                assert!(held < confidence + 5.5 * deviation + 0.01, "{budget:?} {confidence}: {held}");
            }
            let squares = estimates.iter().map(|estimate| estimate.value * estimate.value).sum::<f64>() / ITEMS as f64;
            // A sample variance is off by √(κ-1)/√n relatively, with a kurtosis below 5 for the median of 5.
            let ratio = squares / estimates[0].noise_std_error.powi(2);
            assert!((ratio - 1.0).abs() < 5.5 * (4.0 / ITEMS as f64).sqrt(), "{budget:?}: {ratio}");
            assert!(CountSketch::max_noise_std_error(&plan).unwrap() >= estimates[0].noise_std_error * (1.0 - 1e-12));
        }
        let min = SketchPlan::new(
            PlanRequest::count(6, budgets[1]),
            "count-min(rows=5,width=100)".parse().unwrap(),
            LazySampling::Keyed,
        );
        assert!(CountSketch::intervals(&min.unwrap(), 0.95).is_err());
    }
}
