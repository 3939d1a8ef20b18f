//! Signed integers of 256 bits: only the operations that the recurrences of streaming filters need, and fast.

/// A number modulo `2^256` in two's complement, least significant limb first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wide([u64; 4]);

impl Wide {
    pub(crate) const BYTES: usize = 32;

    /// `value · 2^64`.
    pub(crate) fn shifted_up(value: Wide) -> Wide {
        let Wide([a, b, c, _]) = value;
        Wide([0, a, b, c])
    }

    #[inline]
    pub(crate) fn plus(self, other: Wide) -> Wide {
        let mut sum = [0; 4];
        let mut carry = false;
        for ((out, a), b) in sum.iter_mut().zip(self.0).zip(other.0) {
            let (partial, first) = a.overflowing_add(b);
            let (total, second) = partial.overflowing_add(carry.into());
            (*out, carry) = (total, first || second);
        }
        Wide(sum)
    }

    #[inline]
    pub(crate) fn minus(self, other: Wide) -> Wide {
        // -b = !b + 1, with the 1 as the first carry
        let mut difference = [0; 4];
        let mut carry = true;
        for ((out, a), b) in difference.iter_mut().zip(self.0).zip(other.0) {
            let (partial, first) = a.overflowing_add(!b);
            let (total, second) = partial.overflowing_add(carry.into());
            (*out, carry) = (total, first || second);
        }
        Wide(difference)
    }

    /// `⌊self · fraction / 2^64⌋`.
    ///
    /// With `self = u - 2^256 s`, `s` the sign bit, this is the product of `u`, one limb lower, minus
    /// `fraction · 2^192` if `s` is set.
    #[inline]
    pub(crate) fn times_fraction(self, fraction: u64) -> Wide {
        let f = u128::from(fraction);
        let Wide([a, b, c, d]) = self;
        let low = (u128::from(a) * f) >> 64;
        let one = u128::from(b) * f + low; // fits: (2^64-1)² + 2^64 - 1 < 2^128
        let two = u128::from(c) * f + (one >> 64);
        let three = u128::from(d) * f + (two >> 64);
        let correction = if (d as i64) < 0 { fraction } else { 0 };
        Wide([one as u64, two as u64, three as u64, ((three >> 64) as u64).wrapping_sub(correction)])
    }

    /// `⌊self / 2^bits⌋`, `bits < 64`.
    #[inline]
    pub(crate) fn shifted_down(self, bits: u32) -> Wide {
        let Wide([a, b, c, d]) = self;
        let join = |low: u64, high: u64| (((u128::from(high) << 64) | u128::from(low)) >> bits) as u64;
        Wide([join(a, b), join(b, c), join(c, d), ((d as i64) >> bits) as u64])
    }

    /// `⌊self · 2^32 / divisor⌋` for `self` between `-2^223` and `2^223` and a positive divisor, by long division in
    /// 32-bit digits.
    #[inline]
    pub(crate) fn shared_out(self, divisor: u32) -> Wide {
        let Wide([a, b, c, d]) = self;
        // ⌊x / y⌋ = !⌊!x / y⌋ makes the dividend nonnegative.
        let sign = ((d as i64) >> 63) as u64;
        let limbs = [a << 32, (b << 32) | (a >> 32), (c << 32) | (b >> 32), (d << 32) | (c >> 32)];
        let divisor = u64::from(divisor);
        let mut rest = 0;
        let mut quotient = [0; 4];
        for (out, limb) in quotient.iter_mut().zip(limbs).rev() {
            let limb = limb ^ sign;
            if rest | limb == 0 {
                continue;
            }
            // fits: rest < divisor ≤ 2^32 - 1, so that both digits of the quotient are below 2^32
            let high = (rest << 32) | (limb >> 32);
            let low = ((high % divisor) << 32) | (limb & 0xffff_ffff);
            *out = (high / divisor) << 32 | (low / divisor);
            rest = low % divisor;
        }
        Wide(quotient.map(|limb| limb ^ sign))
    }

    /// The lowest 128 bits.
    #[inline]
    pub(crate) fn low(self) -> i128 {
        ((u128::from(self.0[1]) << 64) | u128::from(self.0[0])) as i128
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes.chunks_exact_mut(8).zip(self.0).for_each(|(out, limb)| out.copy_from_slice(&limb.to_le_bytes()));
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Wide {
        let mut limbs = [0; 4];
        for (limb, part) in limbs.iter_mut().zip(bytes.chunks_exact(8)) {
            *limb = u64::from_le_bytes(part.try_into().expect("chunks of 8"));
        }
        Wide(limbs)
    }
}

impl From<i128> for Wide {
    #[inline]
    fn from(value: i128) -> Self {
        let sign = (value >> 127) as u64;
        Wide([value as u64, (value >> 64) as u64, sign, sign])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;
    use proptest::prelude::*;

    fn big(x: Wide) -> BigInt {
        BigInt::from_signed_bytes_le(&x.to_bytes())
    }

    /// Any limbs, with many of the extreme ones.
    fn wide() -> impl Strategy<Value = Wide> {
        let limb = prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), Just(1), Just(1 << 63)];
        prop::array::uniform4(limb).prop_map(Wide)
    }

    /// Modulo 2^256, back in the signed range.
    fn wrapped(x: BigInt) -> BigInt {
        let modulus = BigInt::from(1) << 256u32;
        let rest = ((x % &modulus) + &modulus) % &modulus;
        if rest >= &modulus / 2 { rest - modulus } else { rest }
    }

    proptest! {
        /// Division equals that of big integers, if the product fits.
        #[test]
        fn division_is_that_of_big_integers(a in wide(), divisor in 1u32.., cut in 33u32..256) {
            let a = (0..cut / 63).fold(a, |a, _| a.shifted_down(63)).shifted_down(cut % 63);
            let product = big(a) << 32u32;
            let floor = (&product - (((&product % divisor) + divisor) % divisor)) / divisor;
            prop_assert_eq!(big(a.shared_out(divisor)), floor);
        }

        /// Every operation equals that of big integers.
        #[test]
        fn operations_are_those_of_big_integers(
            a in wide(), b in wide(), f in any::<u64>(), v in any::<i128>(), s in 0u32..64,
        ) {
            prop_assert_eq!(big(a.plus(b)), wrapped(big(a) + big(b)));
            prop_assert_eq!(big(a.minus(b)), wrapped(big(a) - big(b)));
            prop_assert_eq!(big(a.times_fraction(f)), (big(a) * f) >> 64u32);
            prop_assert_eq!(big(a.times_fraction(u64::MAX)), (big(a) * u64::MAX) >> 64u32);
            prop_assert_eq!(big(a.shifted_down(s)), big(a) >> s);
            prop_assert_eq!(big(Wide::shifted_up(a)), wrapped(big(a) << 64u32));
            prop_assert_eq!(big(Wide::from(v)), BigInt::from(v));
            prop_assert_eq!(Wide::from(v).low(), v);
            prop_assert_eq!(Wide::from_bytes(&a.to_bytes()), a);
        }
    }
}
