//! What the engine is to compute: the response of the noise to its innovations.

use crate::mechanism::SquareRoot;
use crate::{Error, Result};

/// A causal response: with `u_t = Σ_{j ≤ t} series_{t-j} z_j` the noise of the step with the number `t`, from 0, is `u_t`, or
/// `scales_t u_t`, or the running sum of these.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    horizon: u64,
    series: Vec<f64>,
    scales: Option<Vec<f64>>,
    running: bool,
}

impl Response {
    /// The noise `L z` of the sums of a square root.
    pub fn sums(mechanism: &SquareRoot) -> Self {
        match mechanism.toeplitz_left() {
            Some(left) => Self::trimmed(left.to_vec(), None, false),
            None => Self { running: true, ..Self::increments(mechanism) },
        }
    }

    /// The noise `A⁻¹ L z` of the increments of a square root: that of a step less that of the step before.
    pub fn increments(mechanism: &SquareRoot) -> Self {
        Self::trimmed(mechanism.increments(), mechanism.step_scales().map(<[f64]>::to_vec), false)
    }

    /// A coefficient for every step, those at the end that are 0 left out.
    fn trimmed(mut series: Vec<f64>, scales: Option<Vec<f64>>, running: bool) -> Self {
        let horizon = series.len() as u64;
        while series.len() > 1 && series.last() == Some(&0.0) {
            series.pop();
        }
        Self { horizon, series, scales, running }
    }

    /// `u_t`, over `horizon` steps. Coefficients left out are 0.
    ///
    /// # Errors
    /// If there is no coefficient, or more than one for each step.
    pub fn toeplitz(horizon: u64, series: Vec<f64>) -> Result<Self> {
        if series.is_empty() || series.len() as u64 > horizon {
            return Err(Error::invalid(format!(
                "a response over {horizon} steps takes 1 to {horizon} coefficients, got {}",
                series.len()
            )));
        }
        Ok(Self { horizon, ..Self::trimmed(series, None, false) })
    }

    /// `scales_t u_t`, or the running sum of these: for innovations that are scaled step by step.
    ///
    /// # Errors
    /// If there is no coefficient, or more than there are scales, one for each step.
    pub fn scaled_steps(series: Vec<f64>, scales: Vec<f64>, running: bool) -> Result<Self> {
        let response = Self::toeplitz(scales.len() as u64, series)?;
        Ok(Self { scales: Some(scales), running, ..response })
    }

    /// The same times `factor`: the standard deviation of the innovations, where these are drawn with variance 1.
    pub fn times(mut self, factor: f64) -> Self {
        self.series.iter_mut().for_each(|c| *c *= factor);
        self
    }

    /// Steps.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// The coefficients up to the last that is not 0.
    pub fn series(&self) -> &[f64] {
        &self.series
    }

    /// What each step is scaled by, if it is.
    pub fn scales(&self) -> Option<&[f64]> {
        self.scales.as_deref()
    }

    /// Whether the noise is the running sum.
    pub fn running(&self) -> bool {
        self.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::Mechanism;

    /// What the response makes of innovations that are 1 at one node and 0 elsewhere.
    fn column(response: &Response, node: usize) -> Vec<f64> {
        let mut total = 0.0;
        let step = |t: usize| {
            let u = t.checked_sub(node).and_then(|lag| response.series().get(lag)).copied().unwrap_or(0.0);
            let v = u * response.scales().map_or(1.0, |scales| scales[t]);
            total += v;
            if response.running() { total } else { v }
        };
        (0..response.horizon() as usize).map(step).collect()
    }

    #[test]
    fn responses_are_the_rows_of_the_mechanisms() {
        let steps = 37;
        let banded = [SquareRoot::banded(steps, 5), SquareRoot::banded_inverse(steps, 5)];
        let mechanisms = [SquareRoot::new(steps), SquareRoot::normalized(steps)].into_iter().chain(banded);
        for mechanism in mechanisms.map(|mechanism| mechanism.expect("a mechanism")) {
            let (sums, increments) = (Response::sums(&mechanism), Response::increments(&mechanism));
            let columns: Vec<_> =
                (0..steps as usize).map(|node| (column(&sums, node), column(&increments, node))).collect();
            let mut before = vec![0.0; steps as usize];
            for step in 1..=steps {
                let mut row = vec![0.0; steps as usize];
                mechanism.visit_row(step, &mut |node, weight| row[node.index as usize] = weight);
                for (node, (sum, increment)) in columns.iter().enumerate() {
                    let t = step as usize - 1;
                    assert!((sum[t] - row[node]).abs() < 1e-13, "{} {step} {node}", mechanism.name());
                    assert!(
                        (increment[t] - (row[node] - before[node])).abs() < 1e-13,
                        "{} {step} {node}",
                        mechanism.name()
                    );
                }
                before = row;
            }
        }
    }

    #[test]
    fn zeros_at_the_end_are_left_out() {
        let mechanism = SquareRoot::banded_inverse(100, 7).expect("a mechanism");
        assert_eq!(Response::increments(&mechanism).series().len(), 7);
        assert_eq!(Response::sums(&mechanism).series().len(), 100);
    }
}
