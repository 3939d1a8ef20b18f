//! The power series of the square roots: `(1-x)^(-1/2)`, its inverse, and both truncated after some terms.

use crate::Result;
use crate::mechanism::SearchWatch;
use crate::number::fourier::RealConvolution;

/// `f_0 … f_{T-1}`.
pub(super) fn coefficients(horizon: u64) -> Vec<f64> {
    let mut f = 1.0;
    (0..horizon)
        .map(|j| {
            if j > 0 {
                f *= (2 * j - 1) as f64 / (2 * j) as f64;
            }
            f
        })
        .collect()
}

/// `Σ_{j ≤ t} f_j²`.
pub(super) fn prefix_sums(coefficients: &[f64]) -> Vec<f64> {
    let add = |sum: &mut f64, f: &f64| {
        *sum += f * f;
        Some(*sum)
    };
    coefficients.iter().scan(0.0, add).collect()
}

/// The inverse of `√A`: Toeplitz with coefficients 1 and `-f_j / (2j-1)`.
pub(super) fn inverse_coefficient(coefficients: &[f64], j: usize) -> f64 {
    if j == 0 { 1.0 } else { -coefficients[j] / (2 * j - 1) as f64 }
}

/// The first `length` coefficients of `(1-z)^exponent`.
pub(super) fn power_of_differences(exponent: f64, length: usize) -> Vec<f64> {
    let next = |r: &mut f64, j: usize| {
        *r *= if j == 0 { 1.0 } else { (j as f64 - 1.0 - exponent) / j as f64 };
        Some(*r)
    };
    (0..length).scan(1.0, next).collect()
}

/// Columns that are added up together: their sums do not wait for each other.
const TOGETHER: usize = 8;

/// `‖L_t‖²` of `L = A D C⁻¹`, where `C⁻¹` has the coefficients `r`: `L_tj = Σ_{k=j..t} D_k r_{k-j}`. `O(T²)`.
///
/// # Errors
/// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the watch cancels the computation, here and below.
pub(super) fn normalized_row_norms(inverse: &[f64], scales: &[f64], watch: SearchWatch<'_>) -> Result<Vec<f64>> {
    let mut watch = watch.paced();
    let mut norms = vec![0.0; scales.len()];
    // The coefficients that column j + TOGETHER - 1, …, j has in a row: zeros before a column begins.
    let padded = [&[0.0; TOGETHER - 1], inverse].concat();
    for j in (0..scales.len()).step_by(TOGETHER) {
        watch.check_before(((scales.len() - j) * TOGETHER) as u64)?;
        let mut entries = [0.0; TOGETHER];
        for ((norm, d), r) in norms[j..].iter_mut().zip(&scales[j..]).zip(padded.windows(TOGETHER)) {
            for (entry, r) in entries.iter_mut().zip(r.iter().rev()) {
                *entry += d * r;
            }
            // One after the other: the norms do not depend on TOGETHER.
            *norm = entries.iter().fold(*norm, |norm, entry| norm + entry * entry);
        }
    }
    Ok(norms)
}

/// The first `length` coefficients of `1 / Σ c_j x^j`, `c_0 = 1`. `O(length · c.len())`.
pub(in crate::mechanism::toeplitz) fn reciprocal(c: &[f64], length: usize) -> Vec<f64> {
    reciprocal_watched(c, length, SearchWatch::NONE).expect("nothing cancels it")
}

/// The same in a computation that a watch may cancel.
pub(super) fn reciprocal_watched(c: &[f64], length: usize, watch: SearchWatch<'_>) -> Result<Vec<f64>> {
    let mut watch = watch.paced();
    let mut inverse = Vec::with_capacity(length);
    for t in 0..length {
        watch.check_before(c.len() as u64)?;
        let known: f64 = inverse.iter().rev().zip(&c[1..]).map(|(r, c): (&f64, &f64)| r * c).sum();
        inverse.push(if t == 0 { 1.0 } else { -known });
    }
    Ok(inverse)
}

/// The first coefficients of `1 / Σ c_j x^j`, `c_0 = 1`, as many as there are `c`, by Newton's iteration: `r (2 - c r)`
/// has twice as many correct coefficients as `r`. `O(T log T)`.
pub(super) fn newton_reciprocal(c: &[f64], watch: SearchWatch<'_>) -> Result<Vec<f64>> {
    let mut inverse = vec![1.0];
    while inverse.len() < c.len() {
        let length = (2 * inverse.len()).min(c.len());
        inverse.resize(length, 0.0);
        watch.check()?;
        let filter = RealConvolution::new(&inverse);
        watch.check()?;
        let mut correction: Vec<f64> = filter.of(&c[..length]).iter().map(|product| -product).collect();
        correction[0] += 2.0;
        watch.check()?;
        inverse = filter.of(&correction);
    }
    Ok(inverse)
}

/// `Σ_{j ≤ t} c_j`: multiplication by `1 / (1-x)`.
pub(super) fn summed(coefficients: &[f64]) -> Vec<f64> {
    let add = |sum: &mut f64, c: &f64| {
        *sum += c;
        Some(*sum)
    };
    coefficients.iter().scan(0.0, add).collect()
}

/// The series with every coefficient from this index on replaced by 0.
pub(super) fn cut_off(coefficients: &[f64], bands: usize) -> Vec<f64> {
    let keep = |(j, c): (usize, &f64)| if j < bands { *c } else { 0.0 };
    coefficients.iter().enumerate().map(keep).collect()
}
