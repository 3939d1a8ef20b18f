//! A lower bound on the noise of every factorization, for single events.

use std::sync::OnceLock;

/// A proven lower bound of `√(2ρ · mean variance)`, hence of `√(2ρ · max variance)`, for Gaussian noise, any
/// factorization of the prefix sums over `horizon` steps (1 and more) and step sensitivity 1:
/// `γ = (1/T) Σ_{j=1..T} 1 / (2 sin((2j-1)π / (4T+2)))`, the nuclear norm of the prefix-sum matrix over `T` (Matoušek,
/// Nikolov, Talwar 2020, doi 10.1093/imrn/rny033; Henzinger, Upadhyay, Upadhyay 2023, arXiv 2211.05006).
///
/// Above 2^20 steps it continues from below by its growth of `ln T / π`, in `O(1)` after the first call in a program.
/// `O(min(T, 2^20))`.
///
/// ```
/// let gamma = evertally::plan::gaussian_lower_bound(1024);
/// assert!((gamma * gamma - 8.466).abs() < 0.001);
/// let gamma = evertally::plan::gaussian_lower_bound(1 << 20);
/// assert!((gamma * gamma - 26.16).abs() < 0.01);
/// ```
pub fn gaussian_lower_bound(horizon: u64) -> f64 {
    const SUMMED: u64 = 1 << 20;
    static LONGEST: OnceLock<f64> = OnceLock::new();
    if horizon < SUMMED {
        return gamma(horizon.max(1));
    }
    let longest = *LONGEST.get_or_init(|| gamma(SUMMED));
    if horizon == SUMMED {
        return longest;
    }
    // γ(T) - ln(T)/π falls towards its limit like 2.4/T: by less than 4/SUMMED from here on.
    longest + libm::log(horizon as f64 / SUMMED as f64) / std::f64::consts::PI - 4.0 / SUMMED as f64
}

/// `γ` as a sum over the steps.
fn gamma(horizon: u64) -> f64 {
    let angle = std::f64::consts::PI / (4 * horizon + 2) as f64;
    let sum: f64 = (1..=horizon).map(|j| 0.5 / libm::sin((2 * j - 1) as f64 * angle)).sum();
    sum / horizon as f64
}

#[cfg(test)]
mod tests {
    use super::gaussian_lower_bound;
    use crate::mechanism::{Criterion, MechanismName, NoiseKind, Objective};

    /// No mechanism beats the bound, and the bound is the nuclear norm: the singular values by another library.
    #[test]
    fn it_is_the_nuclear_norm_and_nothing_beats_it() {
        for horizon in [1usize, 2, 5, 30] {
            let prefix_sums =
                nalgebra::DMatrix::<f64>::from_fn(horizon, horizon, |i, j| if j <= i { 1.0 } else { 0.0 });
            let nuclear: f64 = prefix_sums.singular_values().iter().sum::<f64>() / horizon as f64;
            let ours = gaussian_lower_bound(horizon as u64);
            assert!((ours / nuclear - 1.0).abs() < 1e-12, "{horizon}: {ours} {nuclear}");
        }
        for horizon in [1u64, 7, 100, 1000] {
            let bound = gaussian_lower_bound(horizon).powi(2);
            for name in MechanismName::FAMILIES {
                let mechanism = name.build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Mean)).unwrap();
                let norm = mechanism.exact_l2_squared().unwrap_or(mechanism.column_norms().l2_squared);
                let mean = norm * mechanism.mean_row_norm_squared();
                assert!(mean >= bound * (1.0 - 1e-9), "{name} at {horizon}: {mean} below {bound}");
            }
        }
    }

    /// The continuation joins the sum from below.
    #[test]
    fn long_horizons_continue_the_sum() {
        let direct = |terms: u64| {
            let angle = std::f64::consts::PI / (4 * terms + 2) as f64;
            (1..=terms).map(|j| 0.5 / libm::sin((2 * j - 1) as f64 * angle)).sum::<f64>() / terms as f64
        };
        let (ours, exact) = (gaussian_lower_bound(1 << 23), direct(1 << 23));
        assert!(ours <= exact && ours > exact - 1e-5, "{ours} {exact}");
    }
}
