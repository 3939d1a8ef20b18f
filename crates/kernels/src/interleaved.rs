//! Sixteen vectors at once, interleaved: entry `i` of each is in row `i`. Weighted sums of rows, exponentials of all
//! entries, and inner products of plain vectors. Every function performs the same floating-point operations in the same
//! order with every [`InstructionSet`](crate::InstructionSet).

/// Number of interleaved vectors.
pub const WIDTH: usize = 16;

/// An entry of each vector.
pub type InterleavedRow = [f64; WIDTH];

for_every_instruction_set! {
    /// `Σ weights_i rows_i`, up to the shorter of both, in two sums: of the even places and of the odd ones.
    ///
    /// ```
    /// use evertally_kernels::{InstructionSet, interleaved::weighted_sum};
    /// let sums = weighted_sum(InstructionSet::best(), &[1.0, 2.0, 3.0], &[[1.0; 16]; 3]);
    /// assert_eq!(sums, [6.0; 16]);
    /// ```
    pub fn weighted_sum(
        instructions: InstructionSet,
        weights: &[f64],
        rows: &[InterleavedRow],
    ) -> InterleavedRow {
        let (mut even, mut odd) = ([0.0; WIDTH], [0.0; WIDTH]);
        let length = weights.len().min(rows.len());
        let (weights, last_weight) = weights[..length].as_chunks::<2>();
        let (rows, last_row) = rows[..length].as_chunks::<2>();
        for ([one, other], [row, next]) in weights.iter().zip(rows) {
            for lane in 0..WIDTH {
                even[lane] += one * row[lane];
                odd[lane] += other * next[lane];
            }
        }
        for (weight, row) in last_weight.iter().zip(last_row) {
            for lane in 0..WIDTH {
                even[lane] += weight * row[lane];
            }
        }
        for lane in 0..WIDTH {
            even[lane] += odd[lane];
        }
        even
    }
}

for_every_instruction_set! {
    /// `out_i = exp(factor · rows_i - offsets_i)` by [`exp`], up to the shortest of the three.
    pub fn exponentials(
        instructions: InstructionSet,
        rows: &[InterleavedRow],
        factor: f64,
        offsets: &[f64],
        out: &mut [InterleavedRow],
    ) {
        for ((out, row), offset) in out.iter_mut().zip(rows).zip(offsets) {
            for lane in 0..WIDTH {
                out[lane] = exp(factor * row[lane] - offset);
            }
        }
    }
}

for_every_instruction_set! {
    /// `Σ exp(factor · rows_i - offsets_i)` by [`exp`], up to the shorter of both.
    ///
    /// ```
    /// use evertally_kernels::{InstructionSet, interleaved::sum_of_exponentials};
    /// let sums = sum_of_exponentials(InstructionSet::best(), &[[1.0; 16]; 3], 0.5, &[0.5; 3]);
    /// assert_eq!(sums, [3.0; 16]);
    /// ```
    pub fn sum_of_exponentials(
        instructions: InstructionSet,
        rows: &[InterleavedRow],
        factor: f64,
        offsets: &[f64],
    ) -> InterleavedRow {
        let mut sums = [0.0; WIDTH];
        for (row, offset) in rows.iter().zip(offsets) {
            for lane in 0..WIDTH {
                sums[lane] += exp(factor * row[lane] - offset);
            }
        }
        sums
    }
}

for_every_instruction_set! {
    /// `Σ a_i b_i`, up to the shorter of both, in sixteen interleaved sums.
    ///
    /// ```
    /// use evertally_kernels::{InstructionSet, interleaved::inner_product};
    /// assert_eq!(inner_product(InstructionSet::best(), &[2.0; 40], &[3.0; 40]), 240.0);
    /// ```
    pub fn inner_product(instructions: InstructionSet, a: &[f64], b: &[f64]) -> f64 {
        let length = a.len().min(b.len());
        let (a, last_a) = a[..length].as_chunks::<WIDTH>();
        let (b, last_b) = b[..length].as_chunks::<WIDTH>();
        let mut sums = [0.0; WIDTH];
        for (a, b) in a.iter().zip(b) {
            for lane in 0..WIDTH {
                sums[lane] += a[lane] * b[lane];
            }
        }
        for (sum, (a, b)) in sums.iter_mut().zip(last_a.iter().zip(last_b)) {
            *sum += a * b;
        }
        let mut width = WIDTH / 2;
        while width > 0 {
            for lane in 0..width {
                sums[lane] += sums[lane + width];
            }
            width /= 2;
        }
        sums[0]
    }
}

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

/// `e^x`, to some units of rounding, for `|x|` up to 700. Compilers turn it into vector instructions; it has the same
/// bits on every machine.
///
/// ```
/// assert!((evertally_kernels::interleaved::exp(1.0) - std::f64::consts::E).abs() < 1e-15);
/// ```
#[inline(always)]
pub fn exp(x: f64) -> f64 {
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
    use crate::InstructionSet;

    /// Against plain loops, for lengths with and without a remainder.
    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let number = |k: usize| libm::sin(1.7 * k as f64);
        for length in [0, 1, 2, 15, 16, 33, 100] {
            let rows: Vec<InterleavedRow> =
                (0..length).map(|i| std::array::from_fn(|lane| number(i * WIDTH + lane))).collect();
            let (a, b): (Vec<f64>, Vec<f64>) = (0..length).map(|i| (number(i + 7), number(3 * i))).unzip();
            let run = |instructions| {
                let mut out = vec![[0.0; WIDTH]; length];
                exponentials(instructions, &rows, 0.3, &a, &mut out);
                let summed = sum_of_exponentials(instructions, &rows, 0.3, &a);
                (weighted_sum(instructions, &a, &rows), inner_product(instructions, &a, &b), summed, out)
            };
            let (sums, product, summed, exponents) = run(InstructionSet::PORTABLE);
            for instructions in InstructionSet::available() {
                assert_eq!(run(instructions), (sums, product, summed, exponents.clone()), "{instructions:?}, {length}");
            }
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            assert!((product - plain).abs() < 1e-13);
            for lane in 0..WIDTH {
                let plain: f64 = a.iter().zip(&rows).map(|(a, row)| a * row[lane]).sum();
                assert!((sums[lane] - plain).abs() < 1e-13);
                let fits = |i: usize| (exponents[i][lane] / libm::exp(0.3 * rows[i][lane] - a[i]) - 1.0).abs() < 1e-15;
                assert!((0..length).all(fits));
                assert_eq!(summed[lane], exponents.iter().map(|row| row[lane]).fold(0.0, |sum, own| sum + own));
            }
        }
    }

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
