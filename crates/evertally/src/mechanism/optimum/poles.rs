//! The inverse square root as a short sum of shifted inverses.
//!
//! On `least ≤ λ ≤ most`, `λ^(-1/2) ≈ Σ_j w_j / (λ + s_j)` with positive shifts and weights: the trapezoidal rule for
//! an integral that an elliptic substitution makes periodic, so that the error falls geometrically with the number of
//! poles (Hale, Higham, Trefethen 2008, doi 10.1137/070700607, their third method). With `k² = least/most` and the
//! Jacobi functions of modulus `√(1-k²)` at `u_j = (j - ½)K'/n`, where `K'` is their quarter period,
//! `s_j = least · (sn/cn)²` and `w_j = (2K'√least / (πn)) · dn/cn²`.

use std::f64::consts::PI;

/// Poles are computed this many at a time, so that sums over them run in four independent lanes.
pub(super) const LANES: usize = 4;

/// Shifts and weights of the sum; their number is a multiple of [`LANES`].
#[derive(Clone, Debug)]
pub(super) struct Poles {
    pub(super) shifts: Vec<f64>,
    pub(super) weights: Vec<f64>,
}

impl Poles {
    /// For arguments between `least` and `most` (positive, in order), with a relative error below 10⁻¹².
    pub(super) fn new(least: f64, most: f64) -> Self {
        let k = (least / most).sqrt().min(0.5);
        // Measured: the error is about exp(-2π² n / (ln 1/k² + 3)); 1.5 poles per unit leave it below 10⁻¹².
        let half = libm::ceil(0.75 * (3.0 - 2.0 * libm::log(k)) / LANES as f64) as usize * LANES;
        Self::with_count(least, most, 2 * half)
    }

    /// This many poles, an even number, with the resulting relative error.
    pub(super) fn with_count(least: f64, most: f64, count: usize) -> Self {
        let (half, k) = (count / 2, (least / most).sqrt().min(0.5));
        let period = quarter_period(k);
        let scale = period * least.sqrt() / (PI * half as f64);
        let mut poles = Self { shifts: vec![0.0; 2 * half], weights: vec![0.0; 2 * half] };
        for j in 0..half {
            let (sn, cn) = sine_and_cosine((j as f64 + 0.5) * period / (2 * half) as f64, k);
            let dn = (cn * cn + k * k * sn * sn).sqrt();
            poles.shifts[j] = least * (sn / cn) * (sn / cn);
            poles.weights[j] = scale * dn / (cn * cn);
            // The mirror image about K'/2, where cn is small, by the quarter-period formulas.
            let mirrored = 2 * half - 1 - j;
            poles.shifts[mirrored] = least * (cn / (k * sn)) * (cn / (k * sn));
            poles.weights[mirrored] = scale * dn / (k * sn * sn);
        }
        poles
    }

    pub(super) fn len(&self) -> usize {
        self.shifts.len()
    }
}

/// `K'`, the complete elliptic integral of modulus `√(1-k²)`, by the arithmetic-geometric mean.
fn quarter_period(k: f64) -> f64 {
    let (mut a, mut b) = (1.0, k);
    for _ in 0..ROUNDS {
        (a, b) = (0.5 * (a + b), (a * b).sqrt());
    }
    PI / (2.0 * a)
}

/// Rounds of the arithmetic-geometric mean: it converges quadratically from any `k ≥ 10⁻³⁰`.
const ROUNDS: usize = 12;

/// `sn(u)` and `cn(u)` of modulus `√(1-k²)` by the descending Landen transformation.
fn sine_and_cosine(u: f64, k: f64) -> (f64, f64) {
    let (mut a, mut b) = (1.0, k);
    let mut ratios = [0.0; ROUNDS];
    for ratio in &mut ratios {
        let next = 0.5 * (a + b);
        *ratio = 0.5 * (a - b) / next;
        (a, b) = (next, (a * b).sqrt());
    }
    let mut angle = f64::from(1 << ROUNDS) * a * u;
    for ratio in ratios.iter().rev() {
        angle = 0.5 * (angle + libm::asin(ratio * libm::sin(angle)));
    }
    (libm::sin(angle), libm::cos(angle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_sum_to_the_inverse_square_root() {
        for (least, most) in [(1.0, 1.0), (0.3, 2.0), (1.0, 1e4), (2.5, 1e7), (1e-3, 1e9)] {
            let poles = Poles::new(least, most);
            assert!(poles.len().is_multiple_of(LANES) && poles.len() <= 64, "{}", poles.len());
            for i in 0..=400 {
                let lambda = least * libm::pow(most / least, f64::from(i) / 400.0);
                let sum: f64 = poles.shifts.iter().zip(&poles.weights).map(|(s, w)| w / (lambda + s)).sum();
                let error = (sum * lambda.sqrt() - 1.0).abs();
                assert!(error < 1e-12, "{least} … {most} at {lambda}: {error} with {} poles", poles.len());
            }
        }
    }
}
