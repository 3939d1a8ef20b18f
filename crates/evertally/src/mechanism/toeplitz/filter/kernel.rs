//! Toeplitz coefficients, with their transforms.

use crate::number::transform::{NumberTheoreticTransform, PRIMES};
use std::sync::OnceLock;

/// Blocks below this length are summed directly.
pub(super) const DIRECT: usize = 128;

/// Toeplitz coefficients, with their transforms at every block length once one is needed.
#[derive(Debug)]
pub(in crate::mechanism) struct Kernel {
    /// From last to first; those after the last nonzero one are omitted.
    pub(super) reversed: Vec<u32>,
    pub(super) horizon: usize,
    /// For block length `DIRECT << level`: the tables and the transformed coefficients, for each prime.
    levels: Vec<OnceLock<Products>>,
}

/// For each prime the tables of a transform, and the transformed coefficients.
pub(super) type Products = [(NumberTheoreticTransform, Vec<u64>); 3];

impl Kernel {
    /// From `F_0, F_1, …`, one per step.
    pub(super) fn new(coefficients: &[u32]) -> Self {
        let used = coefficients.iter().rposition(|f| *f != 0).map_or(0, |last| last + 1);
        let reversed = coefficients[..used].iter().rev().copied().collect();
        let levels = usize::BITS - coefficients.len().div_ceil(DIRECT).leading_zeros();
        Self { reversed, horizon: coefficients.len(), levels: (0..levels).map(|_| OnceLock::new()).collect() }
    }

    /// The last entries of row `t`, ending with the diagonal; those before are 0.
    pub(in crate::mechanism) fn row(&self, t: usize) -> &[u32] {
        &self.reversed[self.reversed.len().saturating_sub(t + 1)..]
    }

    /// Whether the matrix has only a few bands.
    pub(super) fn is_narrow(&self) -> bool {
        self.reversed.len() <= 2 * DIRECT
    }

    /// The transformed coefficients for blocks of length `DIRECT << level`.
    pub(super) fn level(&self, level: usize) -> &Products {
        self.levels[level].get_or_init(|| {
            let length = (2 * DIRECT) << level;
            PRIMES.map(|prime| {
                let transform = NumberTheoreticTransform::new(prime, length);
                let mut values: Vec<u64> = self.reversed.iter().rev().take(length).map(|f| u64::from(*f)).collect();
                values.resize(length, 0);
                transform.forward(&mut values);
                (transform, values)
            })
        })
    }
}
