//! Conversions compared with `golden.txt`, which `golden.py` computes from the definitions with hundreds of
//! digits.

use super::{delta, epsilon};
use crate::number::Ratio;
use crate::privacy::conversions::{delta_of_gaussian, epsilon_of_gaussian, epsilon_of_zcdp, mu_for, rho_for};
use crate::privacy::loss::{PrivacyLoss, Resolution, ShiftProfile, delta_of_discrete_gaussian, delta_of_laplace};

const GOLDEN: &str = include_str!("golden.txt");

/// The fields after the name of every line with this name.
fn lines(name: &str) -> Vec<Vec<&'static str>> {
    let fields = GOLDEN.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let found: Vec<_> = fields.filter(|fields| fields[0] == name).map(|fields| fields[1..].to_vec()).collect();
    assert!(found.len() >= 20, "{name} has {} lines", found.len());
    found
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

fn ratio(text: &str) -> Ratio {
    text.parse().unwrap()
}

/// `7x2,3x1`: two shifts by 7 and one by 3.
fn profile(text: &str) -> ShiftProfile {
    let pair = |part: &str| part.split_once('x').map(|(shift, count)| (shift.parse().unwrap(), count.parse().unwrap()));
    ShiftProfile::new(&text.split(',').map(|part| pair(part).unwrap()).collect::<Vec<_>>()).unwrap()
}

#[test]
fn gaussian_curve() {
    for line in lines("gaussian") {
        let want = number(line[2]);
        let ours = delta_of_gaussian(number(line[0]), epsilon(number(line[1])));
        assert!((ours / want - 1.0).abs() < 1e-12, "{line:?}: {ours}");
    }
}

#[test]
fn gaussian_inverse_is_below_and_close() {
    for line in lines("mu") {
        let (e, d, want) = (epsilon(number(line[0])), delta(number(line[1])), number(line[2]));
        let ours = mu_for(e, d);
        assert!(ours <= want * (1.0 + 1e-15) && ours > want * (1.0 - 1e-11), "{line:?}: {ours}");
        let back = epsilon_of_gaussian(ours, d);
        // At tiny ε the curve is flat: a change of 1e-13 in μ is a larger one in ε.
        assert!((back - e.get()).abs() <= 1e-9 * e.get() + 1e-14, "{line:?}: back to {back}");
    }
}

#[test]
fn zcdp_inverse_is_below_and_close() {
    for line in lines("rho") {
        let (e, d, want) = (epsilon(number(line[0])), delta(number(line[1])), number(line[2]));
        let ours = rho_for(e, d).get();
        assert!(ours <= want * (1.0 + 1e-15) && ours > want * (1.0 - 1e-10), "{line:?}: {ours}");
        assert!(epsilon_of_zcdp(rho_for(e, d), d) <= e.get());
    }
}

/// Lattices that fit the grid are right to rounding, down to δ = 10⁻²⁸⁰; longer ones to the fourth digit.
#[test]
fn laplace_curve_is_above_and_close() {
    for line in lines("laplace") {
        let (scale, profile, e, want) = (ratio(line[0]), profile(line[1]), epsilon(number(line[2])), number(line[3]));
        if want < 1e-280 {
            continue;
        }
        let resolution = Resolution::new(1 << 12, delta((want * 1e-6).max(1e-290))).unwrap();
        let ours = PrivacyLoss::laplace(scale, &profile, resolution).delta(e);
        assert!(ours >= want && ours <= want * (1.0 + 1e-9), "{line:?}: {ours}");
        let quick = delta_of_laplace(scale, &profile, e);
        assert!(quick >= want && quick <= want * (1.0 + 2e-3), "{line:?}: {quick} by few points");
    }
}

#[test]
fn discrete_gaussian_curve_is_above_and_close() {
    for line in lines("discrete") {
        let (variance, profile, e, want) =
            (ratio(line[0]), profile(line[1]), epsilon(number(line[2])), number(line[3]));
        let resolution = Resolution::new(1 << 14, delta(want * 1e-4)).unwrap();
        let ours = PrivacyLoss::discrete_gaussian(variance, &profile, resolution).unwrap().delta(e);
        assert!(ours >= want && ours <= want * (1.0 + 1e-6), "{line:?}: {ours}");
        let quick = delta_of_discrete_gaussian(variance, &profile, e);
        assert!(quick >= want && quick <= want * (1.0 + 1e-3), "{line:?}: {quick} by few points");
    }
}
