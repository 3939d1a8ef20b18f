//! The cost of truncation if a truncating filter computes the protected integers from the data.

/// Margin for rounding in column norms, whose relative error is below 10⁻⁹: they add positive terms.
pub(in crate::mechanism) const ROUNDING: f64 = 1e-9;

/// Bits of the noise grid: rounding each of `T` protected integers adds less than `2 √T` noise steps to a sensitivity
/// of at least `2^noise_bits`, one part in 2^15. At least 16, and few enough that sums keep coarse grids.
pub(in crate::mechanism) fn noise_bits(horizon: u64) -> u32 {
    16 + horizon.next_power_of_two().ilog2().div_ceil(2)
}

/// A real number of noise steps (`2^noise_bits` to a unit), or of their squares (`power` 2), to whose root `slack`
/// noise steps are added, rounded up. If it does not fit into 128 bits, the total is at least 2^16, and no budget below
/// `ρ = 10^6` can provide the noise it requires: every plan rejects it.
pub(in crate::mechanism) fn in_noise_steps(value: f64, power: u32, noise_bits: u32, slack: f64) -> u128 {
    let unit = libm::exp2(f64::from(noise_bits));
    let root = if power == 2 { libm::sqrt(value) } else { value };
    let steps = (root * unit * (1.0 + ROUNDING) + slack) * (1.0 + ROUNDING);
    libm::ceil(if power == 2 { steps * steps } else { steps }) as u128
}
