//! Rounding a rational number that is only known within bounds: certain, or no result.
//!
//! A release of a mechanism with rational `L` is `⌊x + √2 - 1⌋` for an exact rational `x` in units of the output. As
//! `x` is rational, `x + √2 - 1` is never a whole number, so enough digits always decide. (The mean offset of
//! `√2 - 3/2` output units is far below any noise, and independent of the data.)

use num_bigint::BigInt;

/// Releases of such mechanisms are rounded to `2^-8` of the grid.
pub(super) const FRACTION_BITS: u32 = 8;

/// `⌊(√2 - 1) · 2^120⌋`.
const ROOT: i128 = 550584263340119373541769287201101181;

/// `⌊x + √2 - 1⌋` for `x = sum / 2^shift`, with an error of the sum of at most `slack`; `None` if that does not decide
/// it. `shift ≤ 120`, and the sum is a few bits below 128.
pub(super) fn rounded(sum: i128, slack: i128, shift: u32) -> Option<i128> {
    let offset = ROOT >> (120 - shift);
    let (least, most) = ((sum + offset - slack - 1) >> shift, (sum + offset + slack + 1) >> shift);
    (least == most).then_some(least)
}

/// The same for sums of any length; the offset is computed once for many.
pub(super) struct RoundingOffset {
    offset: BigInt,
    slack: BigInt,
    shift: u32,
}

impl RoundingOffset {
    /// For sums in units of `2^-shift` of the output that are off by at most `slack`.
    pub(super) fn new(slack: BigInt, shift: u32) -> Self {
        // ⌊√2 · 2^shift⌋ - 2^shift, by the integer square root of 2^(2 shift + 1).
        let offset = (BigInt::from(1) << (2 * shift + 1)).sqrt() - (BigInt::from(1) << shift);
        Self { offset, slack: slack + 1, shift }
    }

    /// As [`rounded`].
    pub(super) fn rounded(&self, sum: &BigInt) -> Option<i128> {
        let shifted = sum + &self.offset;
        let (least, most) = ((&shifted - &self.slack) >> self.shift, (shifted + &self.slack) >> self.shift);
        (least == most).then(|| i128::try_from(least).expect("fits: a release is below 2^103"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_the_root_of_two() {
        assert_eq!(BigInt::from(ROOT), (BigInt::from(2) << 240u32).sqrt() - (BigInt::from(1) << 120u32));
    }

    /// Both widths decide alike, round as defined, and return no result next to a threshold.
    #[test]
    fn both_widths_agree() {
        let shift = 20;
        let root = std::f64::consts::SQRT_2 - 1.0;
        let big = RoundingOffset::new(BigInt::from(3), shift);
        for sum in (-5_000_000i128..5_000_000).step_by(977) {
            let (narrow, wide) = (rounded(sum, 3, shift), big.rounded(&BigInt::from(sum)));
            assert_eq!(narrow, wide, "{sum}");
            let exact = sum as f64 / f64::from(1 << shift) + root;
            assert!(narrow.is_none_or(|value| value == exact.floor() as i128), "{sum}");
        }
        let threshold = (1 << shift) - (ROOT >> 100);
        assert_eq!(rounded(threshold, 3, shift), None);
        assert_eq!(big.rounded(&BigInt::from(threshold)), None);
        assert_eq!((rounded(threshold + 9, 3, shift), rounded(threshold - 9, 3, shift)), (Some(1), Some(0)));
    }
}
