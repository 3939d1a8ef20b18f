//! What the engine is to compute: the response of the noise to its innovations.

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
    /// `u_t`, over `horizon` steps. Coefficients left out are 0.
    ///
    /// # Errors
    /// If there is no step, no coefficient, or more than one for each step.
    pub fn toeplitz(horizon: u64, mut series: Vec<f64>) -> Result<Self> {
        while series.len() > 1 && series.last() == Some(&0.0) {
            series.pop();
        }
        if series.is_empty() || series.len() as u64 > horizon {
            return Err(Error::invalid(format!(
                "a response over {horizon} steps takes 1 to {horizon} coefficients, got {}",
                series.len()
            )));
        }
        Ok(Self { horizon, series, scales: None, running: false })
    }

    /// `scales_t u_t`, or the running sum of these: for innovations that are scaled step by step.
    ///
    /// # Errors
    /// If there are not as many scales as steps, or for the reasons of [`toeplitz`](Self::toeplitz).
    pub fn scaled_steps(series: Vec<f64>, scales: Vec<f64>, running: bool) -> Result<Self> {
        Ok(Self { running, ..Self::toeplitz(scales.len() as u64, series)?.with_scales(scales) })
    }

    fn with_scales(self, scales: Vec<f64>) -> Self {
        Self { scales: Some(scales), ..self }
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
