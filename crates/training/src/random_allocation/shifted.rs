//! An example is added: paths of the noise, seen from the mean of the bins; see the header of `random_allocation.rs`.

use super::RandomAllocation;
use super::exponential::exp;
use super::paths::{LANES, Paths};
use super::smoothed::Smoothed;

/// An allocation under a noise, relative to the mean of its bins.
pub(super) struct Shifted<'a> {
    pub(super) allocation: &'a RandomAllocation,
    noise: f64,
    /// `(1/b) Σ_j G_ij`, less `τ²`.
    means: Vec<f64>,
    /// `v`, of all rounds.
    pub(super) variance: f64,
    /// `ḡ`, of all rounds.
    pub(super) square: f64,
    /// `τ²`, of all rounds.
    pub(super) common: f64,
}

impl<'a> Shifted<'a> {
    pub(super) fn new(allocation: &'a RandomAllocation, noise: f64) -> Self {
        let (bins, unit) = (allocation.bins, noise * noise);
        let mean = |row: &[f64]| row.iter().sum::<f64>() / bins as f64 / unit;
        let means: Vec<f64> = allocation.gram.chunks(bins).map(mean).collect();
        let rounds = allocation.rounds as f64;
        let variance = rounds * (means.iter().sum::<f64>() / bins as f64);
        let square = rounds * (allocation.gram.iter().step_by(bins + 1).sum::<f64>() / bins as f64 / unit);
        let common = allocation.common() / unit;
        let means = means.into_iter().map(|mean| mean - common).collect();
        Self { allocation, noise, means, variance, square, common: rounds * common }
    }

    /// `ln M'` and `ū'` of at least this many paths whose noise is shifted by this multiple of the mean of the bins.
    pub(super) fn visit_paths(&self, shift: f64, count: u64, paths: &mut Paths, mut visit: impl FnMut(f64, f64)) {
        let mut seen = [(0.0, 0.0); LANES];
        paths.visit_rounds(count, self.allocation.rounds, |round, block| {
            if round == 0 {
                seen = [(0.0, 0.0); LANES];
            }
            self.add_round(shift, block, &mut seen);
            if round + 1 == self.allocation.rounds {
                seen.iter().for_each(|(log_ratio, middle)| visit(*log_ratio, *middle));
            }
        });
    }

    /// The common move of all rounds and ε.
    pub(super) fn smoothed(&self, epsilon: f64) -> Smoothed {
        self.allocation.smoothed(self.noise, epsilon)
    }

    /// `ln M'_e` of at least this many single rounds.
    pub(super) fn look_at_rounds(&self, count: u64, paths: &mut Paths, mut visit: impl FnMut(f64)) {
        paths.visit(count, |block| {
            let mut seen = [(0.0, 0.0); LANES];
            self.add_round(0.0, block, &mut seen);
            seen.iter().for_each(|(log_ratio, _)| visit(*log_ratio));
        });
    }

    /// Adds a round to `ln M'` and `ū'` of every lane.
    fn add_round(&self, shift: f64, block: &[[f64; LANES]], seen: &mut [(f64, f64); LANES]) {
        let bins = self.allocation.bins;
        let (mut ratios, mut middles) = ([0.0; LANES], [0.0; LANES]);
        let half = 0.5 / (self.noise * self.noise);
        for (bin, values) in block.iter().enumerate() {
            let moved = shift * self.means[bin];
            let below = half * (self.allocation.gram[bin * (bins + 1)] - self.allocation.common());
            for lane in 0..LANES {
                let value = values[lane] / self.noise - moved;
                middles[lane] += value;
                ratios[lane] += exp(value - below);
            }
        }
        for (lane, (log_ratio, middle)) in seen.iter_mut().enumerate() {
            *log_ratio += libm::log(ratios[lane] / bins as f64);
            *middle += middles[lane] / bins as f64;
        }
    }
}
