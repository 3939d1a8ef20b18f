//! The exact release: see the header of the mechanism.

use super::DensePureShape;
use crate::mechanism::least_squares::at_once::Solve;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::noise::Node;

/// Bits of `ζ` and `δ` below the grid.
pub(super) const DIGITS: u32 = 32;

/// `ζ = z/w` in units of `2^-32`, halves up. fits: noise is below 2^74 at every scale a plan accepts.
pub(super) fn share(noise: i128, weight: u32) -> i128 {
    let weight = i128::from(weight);
    ((noise << (DIGITS + 1)) + weight).div_euclid(2 * weight)
}

/// A number in units of `2^-32` rounded to `2^-8`, halves up.
fn rounded(sum: i128) -> i128 {
    let dropped = DIGITS - FRACTION_BITS;
    (sum + (1 << (dropped - 1))) >> dropped
}

impl DensePureShape {
    /// `δ` in units of `2^-32`, from the measurements or, with the same result, from their noise alone.
    ///
    /// fits: the weights are 2^9 and more, so |ζ| ≤ 2^(74 + 32 - 9), times weights below 2^16 on at most 2^9 steps is
    /// below 2^123.
    pub(super) fn discrepancies(&self, shares: &[i128], bumps: &[i128]) -> Vec<i128> {
        let explained = |bump: &super::Bump| {
            let shares = &shares[usize::from(bump.first)..];
            bump.weights.iter().zip(shares).map(|(weight, share)| i128::from(*weight) * share).sum::<i128>()
        };
        self.bumps.iter().zip(bumps).map(|(bump, value)| (value << DIGITS) - explained(bump)).collect()
    }

    /// `G_t(δ)` for all steps, in units of `2^-8`: any deterministic function would preserve privacy; this one is the
    /// most accurate.
    pub(super) fn corrections(&self, discrepancies: &[i128]) -> Vec<i128> {
        let unit = f64::from(1u32 << 31) * 2.0; // 2^32
        let delta: Vec<f64> = discrepancies.iter().map(|d| *d as f64 / unit).collect();
        let moved = self.solved.spread(&self.solved.solve(&delta));
        let mut sum = 0.0;
        let add = |step: f64| {
            sum += step;
            (sum * f64::from(1 << FRACTION_BITS)).round() as i128
        };
        moved.into_iter().map(add).collect()
    }
}

impl Solve for DensePureShape {
    /// `O(T + n² + entries)`.
    fn releases(&self, draw: &mut dyn FnMut(Node) -> i128) -> Vec<i128> {
        let mut level = |level: u32, count: usize| -> Vec<i128> {
            (0..count as u64).map(|index| draw(Node { level, index })).collect()
        };
        let own = level(0, self.diagonal.len());
        let bumps = level(1, self.bumps.len());
        let shares: Vec<i128> = own.into_iter().zip(&self.diagonal).map(|(z, w)| share(z, *w)).collect();
        let corrections = self.corrections(&self.discrepancies(&shares, &bumps));
        let mut sum = 0; // fits: 2^9 shares below 2^97
        let close = |(share, correction)| {
            sum += share;
            rounded(sum) + correction
        };
        shares.into_iter().zip(corrections).map(close).collect()
    }
}
