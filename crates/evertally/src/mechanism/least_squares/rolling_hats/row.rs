//! Rows of `L`: how the estimate of one window depends on every measurement.

use super::cursor::{hat_node, step_node};
use super::local::{AROUND, Local, MeasurementWeights, REACH};
use super::shape::RollingHatShape;
use crate::noise::Node;

/// The weights of all measurements in the estimate of one window.
pub(super) struct EstimateWeights {
    /// By position.
    singles: Vec<f64>,
    /// By level and number.
    hats: Vec<Vec<f64>>,
    spacings: Vec<u64>,
    period: u64,
    /// The period that the lists begin with, counted from `REACH` periods before step 1: measurements there have
    /// neither data nor noise.
    first: u64,
}

impl EstimateWeights {
    /// The weights for the steps at the positions `start .. end`; `whole` are those of a whole period. `O(w + p l)`.
    pub(super) fn new(
        shape: &RollingHatShape,
        local: &Local,
        whole: &MeasurementWeights,
        start: u64,
        end: u64,
    ) -> Self {
        let period = shape.period();
        let periods = start / period..(end - 1) / period + 1;
        let length = (periods.end - periods.start + 2 * REACH) * period;
        let spacings: Vec<u64> = (0..shape.level_count()).map(|level| shape.spacing(level)).collect();
        let mut row = Self {
            singles: vec![0.0; length as usize],
            hats: spacings.iter().map(|spacing| vec![0.0; (length / spacing) as usize + 1]).collect(),
            spacings,
            period,
            first: periods.start,
        };
        for index in periods.clone() {
            let from = start.saturating_sub(index * period);
            let to = (end - index * period).min(period);
            let offset = index - periods.start;
            if (from, to) == (0, period) {
                row.add(local, whole, offset);
            } else {
                row.add(local, &local.weights(shape, from..to), offset);
            }
        }
        row
    }

    /// Adds the contributions of a period's estimates.
    fn add(&mut self, local: &Local, weights: &MeasurementWeights, offset: u64) {
        let start = (offset * self.period) as usize;
        let singles = &mut self.singles[start..start + (AROUND * self.period) as usize];
        singles.iter_mut().zip(&weights.singles).for_each(|(sum, weight)| *sum += weight);
        for (hat, weight) in local.hats().iter().zip(&weights.hats) {
            let shift = offset * self.period / self.spacings[hat.level];
            self.hats[hat.level][(shift + hat.number) as usize] += weight;
        }
    }

    /// The number of the measurement at an index of the lists, counted from step 1 on; `None` before it.
    fn number(&self, place: usize, spacing: u64) -> Option<u64> {
        let in_period = self.period / spacing;
        // fits: positions are below 2^63
        (place as u64 + self.first * in_period).checked_sub(REACH * in_period)
    }

    /// Every measurement with its weight.
    pub(super) fn visit(&self, mut visit: impl FnMut(Node, f64)) {
        for (place, weight) in self.singles.iter().enumerate() {
            if let Some(position) = self.number(place, 1).filter(|_| *weight != 0.0) {
                visit(step_node(position), *weight);
            }
        }
        for (level, (weights, spacing)) in self.hats.iter().zip(&self.spacings).enumerate() {
            for (place, weight) in weights.iter().enumerate() {
                if let Some(number) = self.number(place, *spacing).filter(|_| *weight != 0.0) {
                    visit(hat_node(level, number), *weight);
                }
            }
        }
    }

    /// Sums of squares and of fourth powers.
    pub(super) fn moments(&self) -> (f64, f64) {
        let (mut squares, mut fourth) = (0.0, 0.0);
        self.visit(|_, weight| {
            squares += weight * weight;
            fourth += weight * weight * weight * weight;
        });
        (squares, fourth)
    }
}
