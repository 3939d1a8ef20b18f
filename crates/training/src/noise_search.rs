//! The search that ends every calibration of sampled noise.

use evertally::{Error, Result};

/// The first of a sequence of increasing noises, starting near the right one, whose ε is at most the requested one;
/// `excess` is the ratio of the two.
pub(crate) fn rounded_up_until(mut noise: f64, excess: impl Fn(f64) -> Result<f64>) -> Result<f64> {
    for round in 0..40 {
        let over = excess(noise)?;
        if over <= 1.0 {
            return Ok(noise);
        }
        // ε falls faster than noise grows, or about as fast. If that is not enough, steps double.
        noise *= 1.0 + (over.min(2.0) - 1.0 + 1e-12) * f64::from(1u32 << (round / 2).min(16));
    }
    Err(Error::invalid("no noise multiplier in range meets this epsilon and delta"))
}
