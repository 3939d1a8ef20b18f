//! What a step must provide to be composed with others.

use super::cells::{Cut, LossCells, MIN_NOISE, loss_at};
use super::event::{Direction, SampledGaussian};

/// The distance of points of a coarse law, in standard deviations.
const COARSE_STEP: f64 = 0.125;

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
        let bounded = direction == Direction::Add && !event.is_symmetric();
        let loss = if bounded { -libm::log1p(-event.rate.min(0.999_999)) } else { 0.0 };
        return vec![(loss, 0.0)];
    }
    let distance = 1.0 / event.noise;
    let count = ((2.0 * reach + distance) / COARSE_STEP).ceil() as i64;
    let scale = libm::log(COARSE_STEP / (2.0 * std::f64::consts::PI).sqrt());
    let point = |i: i64| {
        let z = i as f64 * COARSE_STEP - reach;
        let (loss, noise) = (loss_at(event, z * event.noise), scale - z * z / 2.0);
        match direction {
            Direction::Remove => (loss, noise + loss),
            Direction::Add => (-loss, noise),
        }
    };
    if event.is_symmetric() {
        return coarse_losses_of_replaced(event, distance, reach);
    }
    (0..=count).map(point).collect()
}

/// The same for a batch of fixed size: middles of cells from the place of loss 0 on. They come in pairs of losses and
/// the rest has loss 0, so that what the first cell is wrong by cancels to the third order.
fn coarse_losses_of_replaced(event: &SampledGaussian, distance: f64, reach: f64) -> Vec<(f64, f64)> {
    let count = ((reach + 0.5 * distance) / COARSE_STEP).ceil() as i64;
    let scale = libm::log(COARSE_STEP / (2.0 * std::f64::consts::PI).sqrt());
    let pair = |i: i64| {
        let z = 0.5 * distance + (i as f64 + 0.5) * COARSE_STEP;
        let (loss, noise) = (loss_at(event, z * event.noise), scale - z * z / 2.0);
        [(loss, noise + loss), (-loss, noise)]
    };
    let mut points: Vec<(f64, f64)> = (0..=count).flat_map(pair).collect();
    let rest = 1.0 - points.iter().map(|(_, log)| libm::exp(*log)).sum::<f64>();
    if rest > 0.0 {
        points.push((0.0, libm::log(rest)));
    }
    points
}
