//! What a step must provide to be composed with others.

use super::cells::{Cut, LossCells, MIN_NOISE, loss_at};
use super::event::{Direction, SampledGaussian};

/// A step, or several alike, whose privacy loss can be moved to a grid.
pub(crate) trait LossLaw {
    /// The number of such steps.
    fn times(&self) -> u64;

    /// Losses of one step with their log probabilities, approximately: within this many standard deviations.
    fn coarse(&self, direction: Direction, reach: f64) -> Vec<(f64, f64)>;

    /// The loss of one step on a grid, never understated.
    fn cells(&self, direction: Direction, cut: Cut) -> LossCells;
}

impl LossLaw for SampledGaussian {
    fn times(&self) -> u64 {
        self.times
    }

    fn coarse(&self, direction: Direction, reach: f64) -> Vec<(f64, f64)> {
        coarse_losses(self, direction, reach)
    }

    fn cells(&self, direction: Direction, cut: Cut) -> LossCells {
        LossCells::new(self, direction, cut)
    }
}

/// Losses of a sampled release with their log probabilities, within this many standard deviations.
fn coarse_losses(event: &SampledGaussian, direction: Direction, reach: f64) -> Vec<(f64, f64)> {
    if event.noise < MIN_NOISE {
        let loss = if direction == Direction::Remove { 0.0 } else { -libm::log1p(-event.rate.min(0.999_999)) };
        return vec![(loss, 0.0)];
    }
    let distance = 1.0 / event.noise;
    let step = 0.125;
    let count = ((2.0 * reach + distance) / step).ceil() as i64;
    let scale = libm::log(step / (2.0 * std::f64::consts::PI).sqrt());
    let point = |i: i64| {
        let z = i as f64 * step - reach;
        let (loss, noise) = (loss_at(event, z * event.noise), scale - z * z / 2.0);
        match direction {
            Direction::Remove => (loss, noise + loss),
            Direction::Add => (-loss, noise),
        }
    };
    (0..=count).map(point).collect()
}
