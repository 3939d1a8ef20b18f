//! Searches of the calibration of sampled noise.

use evertally::{Error, Result};

/// A decreasing function of the logarithm of a number, above 0 if too little is protected.
pub(crate) struct SecantSearch<F> {
    excess: F,
    /// The distance of results from the root.
    tolerance: f64,
    /// The largest point seen that does not fit.
    low: Option<(f64, f64)>,
    /// The smallest point seen that fits.
    high: Option<(f64, f64)>,
}

impl<F: FnMut(f64) -> f64> SecantSearch<F> {
    pub(crate) fn new(excess: F, tolerance: f64) -> Self {
        Self { excess, tolerance, low: None, high: None }
    }

    /// The smallest point that fits, from a guess and the slope there, by secants that aim slightly above the root.
    pub(crate) fn least(&mut self, guess: f64, slope: f64, range: (f64, f64)) -> Option<f64> {
        let (mut at, mut slope) = (guess, slope.min(-1e-3));
        let mut last: Option<(f64, f64)> = None;
        for round in 0..80 {
            at = at.clamp(range.0, range.1);
            let excess = (self.excess)(at);
            if excess <= 0.0 {
                if -excess <= -slope * self.tolerance || at <= range.0 {
                    return Some(at);
                }
                self.high = Some((at, excess));
            } else {
                if at >= range.1 {
                    return None;
                }
                self.low = Some((at, excess));
            }
            if let (Some(low), Some(high)) = (self.low, self.high)
                && high.0 - low.0 <= self.tolerance
            {
                return Some(high.0);
            }
            if let Some((before, then)) = last
                && (at - before).abs() > 1e-12
                && (excess - then) / (at - before) < 0.0
            {
                slope = (excess - then) / (at - before);
            }
            last = Some((at, excess));
            // Far away a straight line may lead anywhere.
            let step = (-excess / slope).clamp(-0.4, 0.4);
            at = self.between(at + step + 0.4 * self.tolerance, round);
        }
        self.high.map(|(at, _)| at)
    }

    /// The next point: as proposed, or the middle if that is not between the points seen or if the search takes long.
    fn between(&self, proposed: f64, round: u32) -> f64 {
        match (self.low, self.high) {
            (Some(low), Some(high)) => {
                let inside = low.0 < proposed && proposed < high.0;
                if inside && round % 8 != 7 { proposed } else { low.0 + (high.0 - low.0) / 2.0 }
            }
            (Some(low), None) => proposed.max(low.0 + self.tolerance),
            (None, Some(high)) => proposed.min(high.0 - self.tolerance),
            (None, None) => proposed,
        }
    }
}

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
