//! The floating-point bridges against their laws. Every comparison has a significance below 10^-6.

use super::*;
use crate::noise::{KeyedNoise, Node, Purpose, SecretKey, TestSeed};
use statrs::distribution::{Beta, ContinuousCDF, Gamma, Laplace};

const COUNT: usize = 1_000_000;

fn keyed(seed: u64) -> KeyedNoise {
    let key = SecretKey::insecure_from_test_seed(TestSeed(seed));
    KeyedNoise::unrecorded(&key, &"bridges".parse().unwrap(), &[0; 32], Purpose::Total)
}

/// Kolmogorov and Smirnov: the distance exceeds 2.7/√n with probability below 10^-6.
fn assert_law(mut values: Vec<f64>, law: &impl ContinuousCDF<f64, f64>, what: &str) {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let apart = |(i, x): (usize, &f64)| (law.cdf(*x) - (i as f64 + 0.5) / count).abs();
    let distance = values.iter().enumerate().map(apart).fold(0.0, f64::max);
    assert!(distance < 2.7 / count.sqrt(), "{what}: {distance}");
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    values.sum::<f64>() / COUNT as f64
}

/// The mean of products of standardized values, within 6 standard errors of 0: they are uncorrelated.
fn assert_uncorrelated(pairs: &[(f64, f64)], what: &str) {
    let (a, b) = (mean(pairs.iter().map(|p| p.0)), mean(pairs.iter().map(|p| p.1)));
    let product = |p: &(f64, f64)| (p.0 - a) * (p.1 - b);
    let spread = mean(pairs.iter().map(|p| product(p).powi(2))).sqrt();
    let correlation = mean(pairs.iter().map(product)) / spread;
    assert!(correlation.abs() < 6.0 / (COUNT as f64).sqrt(), "{what}: {correlation}");
}

#[test]
fn gamma_numbers_and_their_splits_have_their_laws() {
    let bridge = GammaBridge::new(1.0);
    for (near, far) in [(1, 1), (1, 4), (3, 2), (7, 30)] {
        let noise = keyed(near * 100 + far);
        let mut bits = noise.bits(Node { level: 0, index: 0 });
        let mut drawn = vec![];
        for _ in 0..COUNT / 2 {
            let start = [0.25, 1.0];
            let end = bridge.extend(start, near + far, &mut bits);
            let middle = bridge.split(start, end, near, far, &mut bits);
            drawn.extend((0..2).map(|i| (middle[i] - start[i], end[i] - start[i])));
        }
        let place = format!("{near} of {}", near + far);
        let of = |f: fn(&(f64, f64)) -> f64| drawn.iter().map(f).collect::<Vec<f64>>();
        assert_law(of(|d| d.0), &Gamma::new(near as f64, 1.0).unwrap(), &place);
        assert_law(of(|d| d.1 - d.0), &Gamma::new(far as f64, 1.0).unwrap(), &place);
        assert_law(of(|d| d.1), &Gamma::new((near + far) as f64, 1.0).unwrap(), &place);
        assert_law(of(|d| d.0 / d.1), &Beta::new(near as f64, far as f64).unwrap(), &place);
        // Both parts are independent, and so are the share and the sum.
        assert_uncorrelated(&drawn.iter().map(|d| (d.0, d.1 - d.0)).collect::<Vec<_>>(), &place);
        assert_uncorrelated(&drawn.iter().map(|d| (d.0 / d.1, d.1)).collect::<Vec<_>>(), &place);
        assert_uncorrelated(&drawn.iter().map(|d| ((d.0 / d.1 - 0.5).powi(2), d.1)).collect::<Vec<_>>(), &place);
    }
}

#[test]
fn a_stretch_of_one_is_a_laplace_number() {
    let bridge = GammaBridge::new(1000.0);
    let noise = keyed(5);
    let mut bits = noise.bits(Node { level: 0, index: 0 });
    let mut draw = || bridge.noise(bridge.extend(GammaBridge::ORIGIN, 1, &mut bits)) as f64 / 1000.0;
    // Rounding to a thousandth is far below the resolution of the test.
    assert_law((0..COUNT).map(|_| draw()).collect(), &Laplace::new(0.0, 1.0).unwrap(), "Laplace");
}

#[test]
fn gaussian_splits_have_the_covariance_of_the_motion() {
    let bridge = GaussianBridge::new(1.0);
    for (near, far) in [(1u64, 1u64), (2, 5), (1 << 37, 3)] {
        let noise = keyed(near % 1000 + 7 * far);
        let mut bits = noise.bits(Node { level: 0, index: 0 });
        let whole = (near + far) as f64;
        let drawn: Vec<(f64, f64)> = (0..COUNT)
            .map(|_| {
                let end = bridge.extend(0.0, near + far, &mut bits);
                (bridge.split(0.0, end, near, far, &mut bits), end)
            })
            .collect();
        // Variances to 6 standard errors, 0.9 %; fourth moments: 3 within 6 of theirs.
        for (values, variance) in [
            (drawn.iter().map(|d| d.0).collect::<Vec<f64>>(), near as f64),
            (drawn.iter().map(|d| d.1 - d.0).collect(), far as f64),
            (drawn.iter().map(|d| d.1).collect(), whole),
        ] {
            let second = mean(values.iter().map(|x| x * x / variance));
            let fourth = mean(values.iter().map(|x| (x * x / variance).powi(2)));
            assert!((second - 1.0).abs() < 6.0 * (2.0 / COUNT as f64).sqrt(), "{near} {far}: {second}");
            assert!((fourth - 3.0).abs() < 6.0 * (96.0 / COUNT as f64).sqrt(), "{near} {far}: {fourth}");
        }
        assert_uncorrelated(&drawn.iter().map(|d| (d.0, d.1 - d.0)).collect::<Vec<_>>(), "both parts");
    }
    assert_eq!(bridge.noise(2.5000001), 3);
    assert_eq!(bridge.noise(-0.49), 0);
}
