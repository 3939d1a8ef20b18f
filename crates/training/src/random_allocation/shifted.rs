//! An example is added: paths of the noise, seen from the mean of the bins; see the header of `random_allocation.rs`.

use super::RandomAllocation;
use super::paths::{Block, LANES, Paths};
use super::smoothed::Smoothed;
use evertally_kernels::InstructionSet;
use evertally_kernels::interleaved::sum_of_exponentials;

/// An allocation under a noise, relative to the mean of its bins.
pub(super) struct Shifted<'a> {
    pub(super) allocation: &'a RandomAllocation,
    noise: f64,
    /// `(1/b) Σ_j G_ij`, less `τ²`.
    means: Vec<f64>,
    /// `g'_i/2`.
    halves: Vec<f64>,
    /// Those that compute exponentials.
    instructions: InstructionSet,
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
        let diagonal = || allocation.gram.iter().step_by(bins + 1);
        let square = rounds * (diagonal().sum::<f64>() / bins as f64 / unit);
        let halves = diagonal().map(|square| 0.5 / unit * (square - allocation.common())).collect();
        let common = allocation.common() / unit;
        let means = means.into_iter().map(|mean| mean - common).collect();
        let instructions = InstructionSet::best();
        Self { allocation, noise, means, halves, instructions, variance, square, common: rounds * common }
    }

    /// `ln M'` and `ū'` of at least this many paths whose noise is shifted by this multiple of the mean of the bins.
    pub(super) fn visit_paths(&self, shift: f64, count: u64, paths: &mut Paths, mut visit: impl FnMut(f64, f64)) {
        let mut seen = [(0.0, 0.0); LANES];
        let offsets: Vec<f64> = self.halves.iter().zip(&self.means).map(|(half, mean)| half + shift * mean).collect();
        let moved = shift * self.means.iter().sum::<f64>();
        paths.visit_rounds(count, self.allocation.rounds, |round, block| {
            if round == 0 {
                seen = [(0.0, 0.0); LANES];
            }
            let log_ratios = self.log_ratios(block, &offsets);
            for ((seen, log_ratio), middle) in seen.iter_mut().zip(log_ratios).zip(self.middles(block, moved)) {
                *seen = (seen.0 + log_ratio, seen.1 + middle);
            }
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
        paths.visit(count, |block| self.log_ratios(block, &self.halves).into_iter().for_each(&mut visit));
    }

    /// `ln M'_e` of every lane, less these offsets in the exponents.
    fn log_ratios(&self, block: &Block, offsets: &[f64]) -> [f64; LANES] {
        let sums = sum_of_exponentials(self.instructions, block, 1.0 / self.noise, offsets);
        sums.map(|sum| libm::log(sum / self.allocation.bins as f64))
    }

    /// `ū'` of a round in every lane, whose values have moved by this sum.
    fn middles(&self, block: &Block, moved: f64) -> [f64; LANES] {
        let mut sums = [0.0; LANES];
        for row in block {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value;
            }
        }
        sums.map(|sum| (sum / self.noise - moved) / self.allocation.bins as f64)
    }
}
