//! Round trips of conversions: noise computed for an (ε, δ) or a ρ is never reported to spend more than that.
//!
//! On grids, and for random values. Each pair consists of functions that search or round separately, so neither
//! follows from the other.

use super::{delta, epsilon, rho};
use crate::number::Ratio;
use crate::privacy::conversions::*;
use crate::privacy::loss::{self, ShiftProfile};
use crate::privacy::skellam::{self, IntegerShift};
use crate::privacy::{Budget, Rho};

/// Grid points and random ones: ε and δ.
fn budgets(random: u64) -> impl Iterator<Item = (f64, f64)> {
    let grid = [1e-9, 1e-4, 0.01, 0.1, 0.5, 1.0, 2.0, 8.0, 20.0, 300.0];
    let deltas = [1e-300, 1e-100, 1e-20, 1e-9, 1e-6, 1e-5, 1e-3, 0.1, 0.9];
    let all = grid.into_iter().flat_map(move |e| deltas.into_iter().map(move |d| (e, d)));
    all.chain((0..random).map(|n| (10f64.powf(-4.0 + 6.0 * unit(2 * n)), 10f64.powf(-14.0 * unit(2 * n + 1) - 0.01))))
}

/// A pseudorandom number between 0 and 1.
fn unit(n: u64) -> f64 {
    let digest = blake3::hash(&n.to_le_bytes());
    let word = u64::from_le_bytes(digest.as_bytes()[..8].try_into().unwrap());
    word as f64 / 2f64.powi(64)
}

#[test]
fn concentrated_and_approximate() {
    for (e, d) in budgets(2000) {
        let found = rho_for(epsilon(e), delta(d));
        assert!(epsilon_of_zcdp(found, delta(d)) <= e, "ε of ρ for ε = {e:e}, δ = {d:e}");
        let back = delta_of_zcdp(found, epsilon(e));
        assert!(back <= d, "δ of ρ for ε = {e:e}, δ = {d:e}: {:e} too much", back / d - 1.0);
        let least = epsilon_of_zcdp(rho(e), delta(d));
        if (1e-12..=1e6).contains(&least) {
            let back = delta_of_zcdp(rho(e), epsilon(least));
            // δ is some hundred times as sensitive as ε: the last bit of ε is several bits of δ.
            assert!(back <= d * (1.0 + 1e-13), "δ at the ε of ρ = {e:e}, δ = {d:e}: {:e} too much", back / d - 1.0);
        }
    }
}

#[test]
fn pure_and_concentrated() {
    for n in 0..5000 {
        let given = 10f64.powf(-12.0 + 15.0 * unit(n));
        assert!(zcdp_of_pure(pure_epsilon_for(rho(given))) <= given, "{given:e}");
    }
}

#[test]
fn gaussian() {
    for (e, d) in budgets(2000) {
        let mu = mu_for(epsilon(e), delta(d));
        let back = epsilon_of_gaussian(mu, delta(d));
        assert!(back <= e, "ε of μ for ε = {e:e}, δ = {d:e}: {:e} too much", back / e - 1.0);
        assert!(delta_of_gaussian(mu, epsilon(e)) <= d, "δ of μ for ε = {e:e}, δ = {d:e}");
        let least = epsilon_of_gaussian(e, delta(d));
        if (1e-12..=1e6).contains(&least) {
            assert!(delta_of_gaussian(e, epsilon(least)) <= d, "δ at the ε of μ = {e:e}, δ = {d:e}");
        }
    }
}

#[test]
fn laplace() {
    for (n, (e, d)) in budgets(2000).enumerate() {
        let l1 = 1.0 + 1000.0 * unit(n as u64);
        let l2 = l1.powf(0.5 + 0.5 * unit(n as u64 + 1));
        let scale = laplace_scale(l1, l2, epsilon(e), delta(d));
        let back = laplace_epsilon(l1, l2, scale, delta(d));
        assert!(back <= e, "ε of the scale for ε = {e:e}, δ = {d:e}: {:e} too much", back / e - 1.0);
    }
}

#[test]
fn discrete_laws() {
    for (n, (e, d)) in budgets(30).filter(|(e, d)| (0.01..=20.0).contains(e) && (1e-12..0.5).contains(d)).enumerate() {
        let profile = ShiftProfile::ones(1 + (60.0 * unit(n as u64)) as u64).unwrap();
        let (e, d) = (epsilon(e), delta(d));
        let scale = loss::laplace_scale_for(e, d, &profile).unwrap();
        let back = loss::epsilon_of_laplace(scale, &profile, d);
        assert!(back <= e.get(), "Laplace, {e:?}, {d:?}: {:e} too much", back / e.get() - 1.0);
        assert!(loss::delta_of_laplace(scale, &profile, e) <= d.get(), "Laplace, {e:?}, {d:?}");
        let variance = loss::gaussian_variance_for(e, d, &profile).unwrap();
        let back = loss::epsilon_of_discrete_gaussian(variance, &profile, d);
        assert!(back <= e.get(), "Gaussian, {e:?}, {d:?}: {:e} too much", back / e.get() - 1.0);
        // δ is certified on another grid of losses than the variance was: both are valid, but not equal.
        let back = loss::delta_of_discrete_gaussian(variance, &profile, e) / d.get() - 1.0;
        assert!(back <= 1e-3, "Gaussian, {e:?}, {d:?}: {back:e} too much");
    }
}

#[test]
fn skellam_noise() {
    for (e, d) in budgets(300).filter(|(e, d)| (1e-3..=20.0).contains(e) && *d > 1e-20) {
        let shift = IntegerShift::from_integers((1u64 << 50) as f64).unwrap();
        let budget = Budget::Approximate(epsilon(e), delta(d));
        let variance: Ratio = skellam::variance_for(&budget, shift).unwrap();
        let back = skellam::epsilon(variance, shift, delta(d)).unwrap();
        assert!(back <= e, "ε = {e:e}, δ = {d:e}: {:e} too much", back / e - 1.0);
        assert!(skellam::delta(variance, shift, epsilon(e)).unwrap() <= d, "ε = {e:e}, δ = {d:e}");
        let found = Rho::new_even_if_weak(e).unwrap();
        let variance = skellam::variance_for(&Budget::Zcdp(found), shift).unwrap();
        assert!(skellam::rho(variance, shift).unwrap() <= e, "ρ = {e:e}");
    }
}
