//! The response of the noise to its innovations, which the blocks compute.

/// A causal response: with `u_t = Σ_{j ≤ t} series_{t-j} z_j` the noise of the step with the number `t`, from 0, is
/// `u_t`, or `scales_t u_t`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Response {
    horizon: u64,
    series: Vec<f64>,
    scales: Option<Vec<f64>>,
}

impl Response {
    /// A coefficient for every step (trailing zeros are dropped), and a scale for every step, if any.
    pub(crate) fn new(mut series: Vec<f64>, scales: Option<Vec<f64>>) -> Self {
        debug_assert!(scales.as_ref().is_none_or(|scales| scales.len() == series.len()));
        let horizon = series.len() as u64;
        while series.len() > 1 && series.last() == Some(&0.0) {
            series.pop();
        }
        Self { horizon, series, scales }
    }

    /// The same times `factor`: the standard deviation of the innovations, if these are drawn with variance 1.
    pub(crate) fn times(mut self, factor: f64) -> Self {
        self.series.iter_mut().for_each(|c| *c *= factor);
        self
    }

    /// Steps.
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon
    }

    /// The coefficients up to the last that is not 0.
    pub(crate) fn series(&self) -> &[f64] {
        &self.series
    }

    /// The scale of each step, if steps are scaled.
    pub(crate) fn scales(&self) -> Option<&[f64]> {
        self.scales.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_the_end_are_left_out() {
        let response = Response::new(vec![1.0, 0.0, -2.0, 0.0, 0.0], None).times(3.0);
        assert_eq!((response.series(), response.horizon()), (&[3.0, 0.0, -6.0][..], 5));
        assert_eq!(Response::new(vec![0.0; 7], None).series(), [0.0]);
    }
}
