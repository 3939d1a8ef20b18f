//! The uniform law on 0 ..= n − 1.

use std::num::NonZeroU128;

use super::RandomBits;

/// A whole number in 0 ..= n − 1, each with probability exactly 1/n.
///
/// For n ≤ 2⁶⁴ it is ⌊n·U⌋, where U is a uniform real number whose 64-bit digits are drawn until the whole part is
/// certain: one word suffices with probability
/// above 1 − n/2⁶⁴, two nearly always; there is no division and no rejection. For greater
/// n, 128-bit words are masked to the bit length of n − 1 and rejected while they are ≥ n: fewer than 2 on average.
///
/// ```
/// use std::num::NonZeroU128;
/// use evertally::noise::{ScriptedBits, uniform_below};
///
/// let die = NonZeroU128::new(6).unwrap();
/// // U = 0.5…: the fourth face.
/// let mut bits = ScriptedBits::new(vec![0, 0, 0, 0, 0, 0, 0, 0x80]);
/// assert_eq!(uniform_below(die, &mut bits), 3);
/// ```
#[inline]
pub fn uniform_below(n: NonZeroU128, bits: &mut impl RandomBits) -> u128 {
    let n = n.get();
    if n <= 1 << 64 {
        return u128::from(floor_of_product(n, bits));
    }
    let mask = u128::MAX >> (n - 1).leading_zeros();
    loop {
        let word = bits.next_u128() & mask;
        if word < n {
            return word;
        }
    }
}

/// ⌊n·U⌋ for 1 ≤ n ≤ 2⁶⁴.
#[inline]
fn floor_of_product(n: u128, bits: &mut impl RandomBits) -> u64 {
    // n · word as whole and fractional part in units of 2^-64; the product is at most 2^128 − 2^64.
    let mut next = || {
        let product = n * u128::from(bits.next_u64());
        ((product >> 64) as u64, product as u64)
    };
    // U = (word + U')/2^64, so n·U = whole + (part + n·U')/2^64 with n·U' < n: is there a carry?
    let (whole, mut part) = next();
    while u128::from(part) + n > 1 << 64 {
        // n·U' = more + (rest + n·U'')/2^64, whose last term is below 2: whole parts more and more + 1 are possible.
        let (more, rest) = next();
        match part.checked_add(more) {
            // At most ⌊n·U⌋ ≤ 2^64 − 1.
            None => return whole + 1,
            // A carry here depends on the carry of the next word.
            Some(u64::MAX) => part = rest,
            Some(_) => return whole,
        }
    }
    whole
}
