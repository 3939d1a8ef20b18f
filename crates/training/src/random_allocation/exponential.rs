//! An exponential function of many numbers at once, which compilers turn into vector instructions. It has the same bits
//! on every machine.

/// Adding and subtracting this rounds to a whole number, which is then in the lowest bits.
const TO_WHOLE: f64 = 6755399441055744.0; // 1.5 · 2^52
/// `ln 2` in two parts; a whole number of at most 2^11 times the first is exact.
const LN_2: (f64, f64) = (6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10);
/// Arguments are cut to this size. Their exponentials are beyond 10^±304.
const MAX_ARGUMENT: f64 = 700.0;
/// `1/k!` for `k = 13 … 0`: the terms left out are below 10^-17 for arguments up to `ln 2 / 2`.
const TERMS: [f64; 14] = [
    1.0 / 6227020800.0,
    1.0 / 479001600.0,
    1.0 / 39916800.0,
    1.0 / 3628800.0,
    1.0 / 362880.0,
    1.0 / 40320.0,
    1.0 / 5040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

/// `e^x`, to some units of rounding, for `|x|` up to 700.
#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    let x = x.clamp(-MAX_ARGUMENT, MAX_ARGUMENT);
    let shifted = x * std::f64::consts::LOG2_E + TO_WHOLE;
    let whole = shifted - TO_WHOLE;
    let rest = (x - whole * LN_2.0) - whole * LN_2.1;
    let sum = TERMS.iter().fold(0.0, |sum, term| sum * rest + term);
    // The lowest 11 bits become the exponent.
    sum * f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_right_to_some_units() {
        let worst = (-700_000..=700_000).map(|k| {
            let x = f64::from(k) * 1e-3;
            (exp(x) / libm::exp(x) - 1.0).abs()
        });
        let worst = worst.fold(0.0, f64::max);
        assert!(worst < 1e-15, "{worst}");
        assert!(exp(0.0) == 1.0 && exp(-1e9) == exp(-700.0) && exp(1e9) == exp(700.0));
    }
}
