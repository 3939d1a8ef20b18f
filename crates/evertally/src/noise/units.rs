//! Noise in whole units of a release.

/// Releases with noise that is finer than the grid are rounded to `2^-8` of it.
pub(crate) const FRACTION_BITS: u32 = 8;

/// Noise (below 2^118) on a grid `divisor` times finer than the data's, in units of `2^-FRACTION_BITS` of that: the
/// nearest, halves up.
pub(crate) fn rounded(noise: i128, divisor: u64) -> i128 {
    let divisor = i128::from(divisor);
    ((noise << (FRACTION_BITS + 1)) + divisor).div_euclid(2 * divisor)
}

/// A floating-point number of units, rounded to a whole number.
///
/// # Panics
/// Unless it is a number below 2^62 in size: otherwise there is no noise, and nothing may be released. Noise has
/// standard deviations of at most 2^32 units, and its values are far below 2^30 of these.
#[inline]
pub(crate) fn whole_units(noise: f64) -> i128 {
    assert!(noise.abs() < 4_611_686_018_427_387_904.0, "the noise of a release is a number of units");
    i128::from(libm::rint(noise) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "is a number of units")]
    fn nothing_is_released_without_noise() {
        whole_units(f64::NAN);
    }

    #[test]
    fn halves_go_up() {
        assert_eq!([-3, -2, -1, 0, 1, 2, 3].map(|noise| rounded(noise, 512)), [-1, -1, 0, 0, 1, 1, 2]);
        assert_eq!(rounded(7, 1), 7 << 8);
        assert_eq!([-0.5, 0.6, 1.5, 2.5].map(whole_units), [0, 1, 2, 2]);
    }
}
