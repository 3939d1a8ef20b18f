//! A step of Gaussian noise on a random sample.

use evertally::{Error, Result};

/// The neighbour that has the example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Direction {
    /// The first law is the mixture.
    Remove,
    /// The first law is the noise alone.
    Add,
}

/// A step of Gaussian noise with Poisson subsampling, repeated `times` times.
///
/// ```
/// use evertally_training::poisson_subsampling::SampledGaussian;
/// let epoch = SampledGaussian::new(0.01, 0.8, 100)?;
/// assert!(SampledGaussian::new(1.1, 0.8, 100).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SampledGaussian {
    pub(super) rate: f64,
    pub(super) noise: f64,
    pub(super) times: u64,
    pub(super) subsampling: Subsampling,
}

/// How the examples of a step are sampled, and how neighbours differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Subsampling {
    /// Each example with the same probability; an example is added or removed.
    Poisson,
    /// A batch of fixed size, without replacement; an example is replaced.
    WithoutReplacement,
}

impl SampledGaussian {
    /// Every example takes part with probability `rate`, the noise has standard deviation `noise` times the largest
    /// norm of an example's contribution, and there are `times` steps, up to 2²⁴.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn new(rate: f64, noise: f64, times: u64) -> Result<Self> {
        if !(rate > 0.0 && rate <= 1.0) {
            return Err(Error::invalid(format!("a sampling rate must be above 0 and at most 1, got {rate}")));
        }
        if !NOISES.contains(&noise) {
            return Err(Error::invalid(format!("a noise multiplier must lie between 1e-6 and 1e6, got {noise}")));
        }
        if !(1..=MOST_STEPS).contains(&times) {
            return Err(Error::invalid(format!("from 1 to {MOST_STEPS} steps can be accounted at once, got {times}")));
        }
        Ok(Self { rate, noise, times, subsampling: Subsampling::Poisson })
    }

    /// A step on a batch of fixed size, a uniform subset of all examples, of which one is **replaced** by another.
    /// `rate` is at least the size of the batch over the number of examples, and the noise has standard deviation
    /// `noise` times the largest distance between the contributions of two examples: twice the clipping norm.
    ///
    /// ```
    /// use evertally::privacy::Delta;
    /// use evertally_training::poisson_subsampling::{SampledGaussian, SampledGaussians};
    /// // Batches of 100 out of 10,000 examples, and noise of twice the clipping norm.
    /// let steps = SampledGaussians::new(&[SampledGaussian::without_replacement(0.01, 1.0, 1000)?])?;
    /// assert!((steps.epsilon(Delta::new(1e-5)?) - 2.199).abs() < 0.001);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn without_replacement(rate: f64, noise: f64, times: u64) -> Result<Self> {
        Ok(Self { subsampling: Subsampling::WithoutReplacement, ..Self::new(rate, noise, times)? })
    }

    /// Whether neighbours can be exchanged: an example is replaced.
    pub(super) fn is_symmetric(&self) -> bool {
        self.subsampling == Subsampling::WithoutReplacement
    }

    /// The probability that an example takes part.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// The noise multiplier.
    pub fn noise(&self) -> f64 {
        self.noise
    }

    /// The number of steps.
    pub fn times(&self) -> u64 {
        self.times
    }
}

/// Supported noise multipliers.
pub(super) const NOISES: std::ops::RangeInclusive<f64> = 1e-6..=1e6;
/// Bounds of rounding errors grow with the number of steps.
const MOST_STEPS: u64 = 1 << 24;

pub(super) fn scaled(event: &SampledGaussian, factor: f64) -> SampledGaussian {
    SampledGaussian { noise: event.noise * factor, ..*event }
}
