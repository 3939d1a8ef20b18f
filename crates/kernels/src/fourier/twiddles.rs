//! The roots of unity of every stage.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};

/// A stage that splits transforms of `length` points into four.
pub(super) struct Stage<F> {
    pub(super) length: usize,
    /// `w^j, w^2j, w^3j` for `j < length / 4` and `w = exp(-2πi / length)`.
    pub(super) factors: Vec<[[F; 2]; 3]>,
}

/// The stages of one length, the longest first; transforms of 2 or of 4 points remain after them.
pub struct Twiddles<F> {
    pub(super) stages: Vec<Stage<F>>,
    pub(super) ends_with_two: bool,
}

impl<F> Twiddles<F> {
    /// For `points` = 2^k, `k ≥ 4`. `of` returns the nearest number.
    pub(crate) fn new(points: usize, of: fn(f64) -> F) -> Self {
        let mut stages = Vec::new();
        let mut length = points;
        while length > 4 {
            let factors = (0..length / 4).map(|j| [1, 2, 3].map(|power| root(power * j, length).map(of)));
            stages.push(Stage { length, factors: factors.collect() });
            length /= 4;
        }
        Self { stages, ends_with_two: length == 2 }
    }
}

/// `exp(-2πi k / n)` for `k < n`, `n` a multiple of 8: from the sine and cosine of at most an eighth of a turn, so that
/// symmetric roots are exactly symmetric.
pub(super) fn root(k: usize, n: usize) -> [f64; 2] {
    let (quarter, rest) = (k / (n / 4), k % (n / 4));
    let mirrored = rest > n / 8;
    let eighth = if mirrored { n / 4 - rest } else { rest };
    // exact: k and n are far below 2^53, and n is a power of two.
    let (sin, cos) = libm::sincos(TAU * (eighth as f64 / n as f64));
    let (sin, cos) = if 8 * eighth == n { (FRAC_1_SQRT_2, FRAC_1_SQRT_2) } else { (sin, cos) };
    let (cos, sin) = if mirrored { (sin, cos) } else { (cos, sin) };
    match quarter {
        0 => [cos, -sin],
        1 => [-sin, -cos],
        2 => [-cos, sin],
        _ => [sin, cos],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_the_powers_of_the_first_and_mirror_exactly() {
        for n in [8, 64, 4096] {
            for k in 0..n {
                let [re, im] = root(k, n);
                let angle = -TAU * k as f64 / n as f64;
                assert!((re - angle.cos()).abs() < 1e-15 && (im - angle.sin()).abs() < 1e-15, "{k} of {n}");
                assert_eq!(root((k + n / 2) % n, n), [-re, -im]);
                assert_eq!(root((n - k) % n, n), [re, -im]);
            }
        }
    }
}
