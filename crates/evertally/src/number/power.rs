//! Powers with the same bits on every system.

/// `base` to the power of `exponent`, by repeated squaring: multiplications in a fixed order, and for a negative
/// exponent one division at the end.
///
/// The result of `f64::powi` is not specified: some systems compute it by `pow`, with other last bits.
///
/// ```
/// use evertally::number::power;
/// assert_eq!((power(3.0, 4), power(2.0, -2), power(0.0, 0)), (81.0, 0.25, 1.0));
/// ```
#[inline]
pub fn power(mut base: f64, exponent: i32) -> f64 {
    let (mut left, mut product) = (exponent.unsigned_abs(), 1.0);
    loop {
        if left & 1 == 1 {
            product *= base;
        }
        left >>= 1;
        if left == 0 {
            return if exponent < 0 { 1.0 / product } else { product };
        }
        base *= base;
    }
}

#[cfg(test)]
mod tests {
    use super::power;

    /// The order of the multiplications is frozen, because noise and plans depend on the last bit.
    #[test]
    fn bits_are_frozen() {
        let x = 1.1f64;
        assert_eq!(power(x, 2), x * x);
        assert_eq!(power(x, 3), x * (x * x));
        assert_eq!(power(x, 7), x * (x * x) * ((x * x) * (x * x)));
        assert_eq!(power(x, -3), 1.0 / (x * (x * x)));
        for (base, exponent, bits) in [
            (10.0, 22, 0x4480_f0cf_064d_d592u64),
            (10.0, 100, 0x54b2_49ad_2594_c37e),
            (10.0, -18, 0x3c32_725d_d1d2_43ac),
            (0.1, 9, 0x3e11_2e0b_e826_d699),
            (0.9, 99, 0x3efe_f23e_ecec_32d0),
            (2.0, i32::MIN, 0),
        ] {
            assert_eq!(power(base, exponent).to_bits(), bits, "{base} to the {exponent}");
        }
    }
}
