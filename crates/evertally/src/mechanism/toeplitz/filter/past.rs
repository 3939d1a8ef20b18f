//! Sums of the past weighted by fixed coefficients, `Σ_{j<t} v_j F_{t-j}`, as the `v` become known one by one.
//!
//! The last steps are summed directly. Whenever the number of steps is a multiple of a power of two `B`, the `B` values
//! since the multiple before it are multiplied with the coefficients `1 … 2B-1` at once, and the contributions to the
//! next `B` steps are stored: `O(log² T)` per step, amortized (Fischer, Stockmeyer 1974, doi
//! 10.1016/S0022-0000(74)80047-4; Hoeven 2002, doi 10.1006/jsco.2002.0562). Each pair (j, t) is counted once: in the
//! block of the largest power of two at which `j` and `t` part, or directly.
//!
//! The products are number-theoretic transforms modulo three primes, combined modulo 2^128: integers in, the same
//! integers out, on every machine.

use super::kernel::{DIRECT, Kernel};
use super::rows::FilterRows;
use crate::number::transform::{self, PRIMES};
use std::sync::Arc;

/// The values so far and their contributions to later steps.
pub(super) struct FilterHistory {
    rows: FilterRows,
    values: Vec<i128>,
    /// Contributions of finished blocks to the steps ahead.
    ahead: Vec<i128>,
}

impl FilterHistory {
    pub(super) fn new(rows: FilterRows) -> Self {
        Self { rows, values: vec![], ahead: vec![] }
    }

    /// `Σ_{j<t} F_tj v_j` for the next step `t`. The caller keeps it, and every part of it, within 128 bits.
    pub(super) fn sum(&self) -> i128 {
        let t = self.values.len();
        let before = self.rows.before(t);
        let direct = match self.kernel() {
            Some(_) => t % DIRECT,
            None => before.len(),
        };
        let products = before.iter().rev().zip(self.values.iter().rev()).take(direct);
        products.map(|(f, v)| v * i128::from(*f)).sum::<i128>() + self.ahead.get(t).copied().unwrap_or(0)
    }

    /// The coefficients, if blocks contribute to later steps.
    fn kernel(&self) -> Option<&Arc<Kernel>> {
        match &self.rows {
            FilterRows::Toeplitz(kernel, _) if !kernel.is_narrow() => Some(kernel),
            _ => None,
        }
    }

    /// Appends the value of the next step.
    pub(super) fn push(&mut self, value: i128) {
        self.values.push(value);
        let steps = self.values.len();
        if let Some(kernel) = self.kernel()
            && steps.is_multiple_of(DIRECT)
            && steps < kernel.horizon
        {
            self.carry(kernel.clone(), 1 << steps.trailing_zeros());
        }
    }

    /// Adds what the last `block` values contribute to the next `block` steps.
    fn carry(&mut self, kernel: Arc<Kernel>, block: usize) {
        let (steps, horizon) = (self.values.len(), kernel.horizon);
        let products = kernel.level((block / DIRECT).trailing_zeros() as usize);
        let recent = &self.values[steps - block..];
        let residues = std::array::from_fn(|i| {
            let (transform, coefficients) = &products[i];
            let mut values: Vec<u64> = recent.iter().map(|v| PRIMES[i].residue(*v)).collect();
            values.resize(2 * block, 0);
            // Of the cyclic product of length 2B only the first half is wrapped around.
            transform.multiply(&mut values, coefficients);
            values
        });
        self.ahead.resize(horizon.min(steps + block).max(self.ahead.len()), 0);
        let slots = self.ahead[steps..].iter_mut().take(block);
        for (slot, place) in slots.zip(block..) {
            *slot += transform::combine(residues.each_ref().map(|values: &Vec<u64>| values[place]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compared with the definition, with values of both signs as large as the filter's, and horizons that end inside
    /// blocks.
    #[test]
    fn sums_are_those_of_the_definition() {
        for horizon in [1usize, 2, DIRECT, DIRECT + 1, 2 * DIRECT - 1, 7 * DIRECT + 5, 16 * DIRECT, 3000] {
            let coefficients: Vec<u32> = (0..horizon as u32).map(|j| 65536 - (j * 7919) % 65000).collect();
            let mut past = FilterHistory::new(FilterRows::toeplitz(&coefficients));
            for t in 0..horizon {
                let want: i128 = (0..t).map(|j| past.values[j] * i128::from(coefficients[t - j])).sum();
                assert_eq!(past.sum(), want, "horizon {horizon}, step {t}");
                let mixed = (t as i128 + 1).wrapping_mul(0x5e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
                past.push(mixed >> 29); // 99 bits, any sign
            }
        }
    }
}
