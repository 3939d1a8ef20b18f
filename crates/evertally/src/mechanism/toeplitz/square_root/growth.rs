//! How much more noise the released steps have because the protected matrix is rounded.

use super::series::{newton_reciprocal, normalized_row_norms, prefix_sums, summed};
use super::{COEFFICIENT_BITS, SquareRoot};
use crate::Result;
use crate::mechanism::SearchWatch;
use crate::mechanism::toeplitz::filter::WEIGHT_BITS;

impl SquareRoot {
    /// The largest `‖L̃_t‖²/‖L_t‖²` over the steps, at least 1.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the computation.
    pub(super) fn growth(&self, watch: SearchWatch<'_>) -> Result<f64> {
        let unit = f64::from(1 << COEFFICIENT_BITS);
        let right: Vec<f64> = self.rounded.iter().map(|f| f64::from(*f) / unit).collect();
        let inverse = newton_reciprocal(&right, watch)?;
        let released = if self.is_normalized() {
            // The last weight is 2^14, like the last scale 1.
            let scales: Vec<f64> = self.weights.iter().map(|w| f64::from(1 << WEIGHT_BITS) / f64::from(*w)).collect();
            normalized_row_norms(&inverse, &scales, watch)?
        } else {
            prefix_sums(&summed(&inverse))
        };
        let growth = released.iter().zip(1..).map(|(norm, step)| norm / self.row_norms.at(step)).fold(1.0, f64::max);
        Ok(growth * (1.0 + 1e-11)) // the rounding of these sums is far smaller
    }
}
