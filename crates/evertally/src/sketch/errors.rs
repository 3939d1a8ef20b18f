//! What the noise does to the estimates of a count sketch, before any event.

use super::median::{MedianNoise, row_confidence};
use super::{CountSketch, Shape, SketchPlan};
use crate::plan::Intervals;
use crate::{Error, Result};

impl CountSketch {
    /// The largest standard error that the noise causes in an estimate at any step, in units of the data: with Gaussian
    /// noise exactly, with Laplace noise from above (the median of normal rows is the least certain one).
    ///
    /// # Errors
    /// If the plan is not that of a count sketch.
    pub fn max_noise_std_error(plan: &SketchPlan) -> Result<f64> {
        let median = MedianNoise::new(rows(plan)?);
        Ok(median.of_normal_rows().sqrt() * plan.plan().max_std_error())
    }

    /// Two-sided intervals for the noise of estimates, at a confidence strictly between 0 and 1. What collisions add is
    /// not in them.
    ///
    /// # Errors
    /// If the plan is not that of a count sketch, or the confidence is out of range.
    ///
    /// ```
    /// use evertally::budget::{Budget, Rho};
    /// use evertally::plan::PlanRequest;
    /// use evertally::sketch::{CountSketch, SketchPlan};
    /// use evertally::stream::Sampling;
    /// let request = PlanRequest::count(1000, Budget::Zcdp(Rho::new(0.01)?));
    /// let plan = SketchPlan::new(request, "count-sketch(rows=5,width=1000)".parse()?, Sampling::Keyed)?;
    /// let half = CountSketch::intervals(&plan, 0.95)?.half_width(500);
    /// // The median of 5 normal numbers is nearly normal.
    /// let share = CountSketch::max_noise_std_error(&plan)? / plan.plan().max_std_error();
    /// assert!((half as f64 / (1.96 * share * plan.plan().std_error(500)) - 1.0).abs() < 0.02);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn intervals(plan: &SketchPlan, confidence: f64) -> Result<Intervals> {
        let rows = rows(plan)?;
        plan.plan().intervals(confidence)?; // refuses what is out of range in the caller's numbers
        plan.plan().intervals(row_confidence(rows, confidence))
    }
}

fn rows(plan: &SketchPlan) -> Result<u32> {
    match plan.shape() {
        Shape::CountSketch(table) => Ok(table.rows()),
        other => Err(Error::invalid(format!("the plan is for a {other}, not for a count sketch"))),
    }
}
