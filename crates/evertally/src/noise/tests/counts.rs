//! The laws of counts compared with their probabilities, their limits, and other ways to draw them.

use std::num::NonZeroU128;

use statrs::distribution::{Beta, Gamma, Normal};

use super::super::{Binomial, Geometric, NegativeBinomial, Poisson, Polya, RandomBits, uniform_below};
use super::ratio;
use super::sampling::{assert_distribution, assert_probabilities, assert_same_law, draw};

const DRAWS: usize = 100_000;

/// Probabilities from p(0) and the quotients p(k+1)/p(k).
fn probabilities(first: f64, last: u128, quotient: impl Fn(f64) -> f64) -> Vec<f64> {
    (0..=last).scan(first, |p, k| Some(std::mem::replace(p, *p * quotient(k as f64)))).collect()
}

fn indices(samples: Vec<u128>) -> Vec<usize> {
    samples.into_iter().map(|k| k.try_into().unwrap_or(usize::MAX)).collect()
}

fn poisson(text: &str) -> Poisson {
    Poisson::new(ratio(text)).unwrap()
}

fn negative_binomial(shape: u64, scale: &str) -> NegativeBinomial {
    NegativeBinomial::new(shape, ratio(scale)).unwrap()
}

pub(super) fn binomial_probabilities(n: u128, near: u64, far: u64) -> Vec<f64> {
    let (a, b) = (near as f64, far as f64);
    probabilities((b / (a + b)).powf(n as f64), n, |k| (n as f64 - k) / (k + 1.0) * a / b)
}

pub(super) fn polya_probabilities(n: u128, near: u64, far: u64) -> Vec<f64> {
    let (n, a, b) = (n as f64, near as f64, far as f64);
    let first = (0..near).map(|i| (b + i as f64) / (n + b + i as f64)).product();
    probabilities(first, n as u128, |k| (k + a) / (k + 1.0) * (n - k) / (n - k - 1.0 + b))
}

pub(super) fn negative_binomial_probabilities(shape: u64, scale: f64, last: u128) -> Vec<f64> {
    let q = (-1.0 / scale).exp();
    probabilities((-(-1.0 / scale).exp_m1()).powf(shape as f64), last, |k| (k + shape as f64) / (k + 1.0) * q)
}

pub(super) fn poisson_probabilities(mean: f64, last: u128) -> Vec<f64> {
    probabilities((-mean).exp(), last, |k| mean / (k + 1.0))
}

#[test]
fn poisson_has_its_probabilities() {
    for (seed, text) in (100..).zip([
        "1/1000000",
        "1/10",
        "1/2",
        "9/10",
        "99/100",
        "1",
        "101/100",
        "3/2",
        "2",
        "7/3",
        "4",
        "15/2",
        "20",
        "50",
        "199/4",
    ]) {
        let mean = ratio(text).to_f64();
        let last = (mean + 10.0 * mean.sqrt() + 10.0) as u128;
        let samples = draw(seed, DRAWS, |bits| poisson(text).sample(bits));
        assert_probabilities(text, &indices(samples), &poisson_probabilities(mean, last));
    }
}

#[test]
fn binomial_has_its_probabilities() {
    let cases = [
        (0, 1, 1),
        (1, 1, 1),
        (1, 2, 1),
        (2, 1, 1),
        (3, 1, 2),
        (5, 1, 1),
        (6, 5, 2),
        (10, 1, 1),
        (10, 1, 9),
        (13, 1, 100),
        (20, 1, 2),
        (20, 19, 1),
        (20, 1, 19),
        (20, 7, 13),
        (100, 1, 1),
        (100, 3, 997),
        (500, 1, 3),
    ];
    for (seed, (n, near, far)) in (200..).zip(cases) {
        let law = Binomial::new(n, near, far).unwrap();
        let samples = draw(seed, DRAWS, |bits| law.sample(bits));
        let what = format!("{n}, {near}:{far}");
        assert_probabilities(&what, &indices(samples), &binomial_probabilities(n, near, far));
    }
}

#[test]
fn polya_has_its_probabilities() {
    for (i, n) in [0, 1, 2, 3, 5, 10, 60].into_iter().enumerate() {
        let shapes = [(1, 1), (1, 2), (2, 1), (2, 3), (5, 1), (2, 2), (1, 30), (40, 3), (100, 100), (1, 4096)];
        for (j, (near, far)) in shapes.into_iter().enumerate() {
            let law = Polya::new(n, near, far).unwrap();
            let samples = draw(300 + 10 * i as u64 + j as u64, DRAWS / 2, |bits| law.sample(bits));
            let what = format!("{n}, {near}:{far}");
            assert_probabilities(&what, &indices(samples), &polya_probabilities(n, near, far));
        }
    }
}

#[test]
fn negative_binomial_has_its_probabilities() {
    let cases = [
        (1, "5/2"),
        (2, "1/100"),
        (2, "1/3"),
        (2, "1"),
        (2, "10"),
        (3, "1/2"),
        (3, "40"),
        (5, "1/2"),
        (5, "7"),
        (20, "1/3"),
        (20, "1/4"),
        (20, "3"),
        (100, "1/5"),
        (100, "1"),
        (4096, "1/8"),
        (4096, "1/9"),
        (4096, "1/3"),
    ];
    for (seed, (shape, scale)) in (400..).zip(cases) {
        let law = negative_binomial(shape, scale);
        let samples = draw(seed, DRAWS, |bits| law.sample(bits));
        let (r, s) = (shape as f64, ratio(scale).to_f64());
        let last = r * s + 12.0 * (r.sqrt() + 1.0) * (s + s.sqrt()) + 20.0;
        let exact = negative_binomial_probabilities(shape, s, last as u128);
        assert_probabilities(&format!("{shape}, {scale}"), &indices(samples), &exact);
    }
}

/// Large parameters: the limits of the laws, which differ from them by less than 10⁻⁶.
#[test]
fn large_parameters_approach_the_limit_laws() {
    const DRAWS: usize = 40_000;
    let normal = Normal::standard();
    for (seed, exponent) in (500..).zip([44, 60, 80, 100, 120]) {
        let mean = 1u128 << exponent;
        let law = Poisson::new(ratio(&mean.to_string())).unwrap();
        let samples = draw(seed, DRAWS, |bits| (law.sample(bits) as i128 - mean as i128) as f64 / (mean as f64).sqrt());
        assert_distribution(&format!("Poisson 2^{exponent}"), samples, &normal);
    }
    let cases =
        [(1u128 << 50, 1, 2), (1 << 90, 3, 4), (1 << 122, 1, 1), (1 << 100, u64::MAX / 3, 5), (1 << 110, 1, 1 << 60)];
    for (seed, (n, near, far)) in (510..).zip(cases) {
        let law = Binomial::new(n, near, far).unwrap();
        let share = |part: u64| part as f64 / (near + far) as f64;
        let deviation = (n as f64 * share(near) * share(far)).sqrt();
        // ⌊np⌋, exact enough for numbers of 128 bits.
        let total = u128::from(near + far);
        let center = n / total * u128::from(near) + n % total * u128::from(near) / total;
        let samples = draw(seed, DRAWS, |bits| (law.sample(bits) as i128 - center as i128) as f64 / deviation);
        assert_distribution(&format!("binomial {n}, {near}:{far}"), samples, &normal);
    }
    for (seed, (shape, exponent)) in (520..).zip([(2, 60), (20, 40), (300, 30), (4096, 60)]) {
        let law = negative_binomial(shape, &(1u128 << exponent).to_string());
        let samples = draw(seed, DRAWS, |bits| law.sample(bits) as f64 / (1u128 << exponent) as f64);
        let gamma = Gamma::new(shape as f64, 1.0).unwrap();
        assert_distribution(&format!("negative binomial {shape}, 2^{exponent}"), samples, &gamma);
    }
    let cases =
        [(1, 2, 50), (2, 1, 80), (2, 2, 118), (7, 12, 70), (3, 2, 68), (1, 4096, 60), (40, 3, 63), (4096, 4096, 80)];
    for (seed, (near, far, exponent)) in (530..).zip(cases) {
        let law = Polya::new(1 << exponent, near, far).unwrap();
        let samples = draw(seed, DRAWS, |bits| law.sample(bits) as f64 / (1u128 << exponent) as f64);
        let beta = Beta::new(near as f64, far as f64).unwrap();
        assert_distribution(&format!("Pólya 2^{exponent}, {near}:{far}"), samples, &beta);
    }
}

/// A Pólya number as the near-th of near + far − 1 different positions among n + near + far − 1, minus near.
fn polya_by_places(n: u128, near: u64, far: u64, bits: &mut impl RandomBits) -> u128 {
    let chosen = u128::from(near + far - 1);
    let places = NonZeroU128::new(n + chosen).unwrap();
    let mut set = std::collections::BTreeSet::new();
    while (set.len() as u128) < chosen {
        set.insert(uniform_below(places, bits));
    }
    // Positions count from 0.
    set.into_iter().nth(near as usize - 1).unwrap() + 1 - u128::from(near)
}

#[test]
fn other_ways_to_draw_agree() {
    const DRAWS: usize = 40_000;
    for (seed, (n, near, far)) in
        (600..).zip([(1000, 3, 4), (50_000, 1, 6), (1 << 40, 20, 2), (1 << 80, 9, 9), (300, 60, 25)])
    {
        let law = Polya::new(n, near, far).unwrap();
        let ours = draw(seed, DRAWS, |bits| law.sample(bits));
        let theirs = draw(seed + 50, DRAWS, |bits| polya_by_places(n, near, far, bits));
        assert_same_law(&format!("Pólya {n}, {near}:{far}"), ours, theirs);
    }
    for (seed, (shape, scale)) in (620..).zip([(2, "1000"), (4, "7/3"), (20, "1000"), (63, "1000000007/3")]) {
        let law = negative_binomial(shape, scale);
        let geometric = Geometric::new(ratio(scale)).unwrap();
        let ours = draw(seed, DRAWS, |bits| law.sample(bits));
        let theirs = draw(seed + 50, DRAWS, |bits| (0..shape).map(|_| geometric.sample(bits)).sum());
        assert_same_law(&format!("negative binomial {shape}, {scale}"), ours, theirs);
    }
    for (seed, (n, near, far)) in (630..).zip([(50, 1, 2), (300, 5, 6), (1000, 1, 99)]) {
        let law = Binomial::new(n, near, far).unwrap();
        let total = NonZeroU128::new(u128::from(near + far)).unwrap();
        let ours = draw(seed, DRAWS, |bits| law.sample(bits));
        let theirs = draw(seed + 50, DRAWS, |bits| {
            (0..n).filter(|_| uniform_below(total, bits) < u128::from(near)).count() as u128
        });
        assert_same_law(&format!("binomial {n}, {near}:{far}"), ours, theirs);
    }
    // A third of the points of a Poisson process.
    for (seed, (mean, part)) in (640..).zip([("3000", "1000"), ("300000000", "100000000"), ("30", "10")]) {
        let ours = draw(seed, DRAWS, |bits| poisson(part).sample(bits));
        let theirs = draw(seed + 50, DRAWS, |bits| {
            let all = poisson(mean).sample(bits);
            Binomial::new(all, 1, 2).unwrap().sample(bits)
        });
        assert_same_law(&format!("Poisson {part} of {mean}"), ours, theirs);
    }
}

#[test]
fn laws_reject_what_they_cannot_draw() {
    assert!(Poisson::new(ratio(&((1u128 << 120) + 1).to_string())).unwrap_err().is_invalid());
    assert!(Binomial::new((1 << 126) + 1, 1, 1).is_err());
    assert!(Binomial::new(1, 1, u64::MAX).is_err());
    assert!(Polya::new((1 << 118) + 1, 1, 1).is_err());
    assert!(Polya::new(1, 0, 1).is_err());
    assert!(NegativeBinomial::new(1, ratio(&((1u128 << 60) + 1).to_string())).is_err());
}

/// A candidate and its coin take about 15 bytes: few candidates are drawn for all parameters.
#[test]
fn draws_read_few_bytes() {
    struct Counted<B>(B, usize);
    impl<B: RandomBits> RandomBits for Counted<B> {
        fn take<const N: usize>(&mut self) -> [u8; N] {
            self.1 += N;
            self.0.take()
        }
    }
    const DRAWS: usize = 300;
    let check = |what: &str, limit: usize, one: &dyn Fn(&mut Counted<&mut super::super::NodeBits<'_>>) -> u128| {
        let bytes: usize = draw(800, DRAWS, |bits| {
            let mut counted = Counted(bits, 0);
            one(&mut counted);
            counted.1
        })
        .into_iter()
        .sum();
        assert!(bytes < limit * DRAWS, "{what}: {} bytes", bytes as f64 / DRAWS as f64);
    };
    for text in ["1/1000000000000", "1/3", "1", "2", "5", "30"] {
        check(text, 64, &|bits| poisson(text).sample(bits));
    }
    for text in ["1000", "1000000000000", "1267650600228229401496703205376"] {
        check(text, 28, &|bits| poisson(text).sample(bits));
    }
    for n in [0, 1, 2, 5, 40, 10_000, 1 << 50, 1 << 90] {
        for (near, far) in [(1, 1), (1, 2), (1, 1000), (1, 1 << 45), (u64::MAX / 2, 3)] {
            check(&format!("binomial {n}, {near}:{far}"), 80, &|bits| {
                Binomial::new(n, near, far).unwrap().sample(bits)
            });
        }
        for (near, far) in [(1, 2), (2, 2), (1, 4096), (2, 4096), (40, 3), (4096, 4096), (1 << 50, 2)] {
            check(&format!("Pólya {n}, {near}:{far}"), 110, &|bits| Polya::new(n, near, far).unwrap().sample(bits));
        }
    }
    for shape in [1, 2, 3, 7, 100, 4096] {
        for scale in ["1/1000", "1/10", "1/2", "3", "1000", "1000000000000", "1152921504606846976"] {
            check(&format!("negative binomial {shape}, {scale}"), 80, &|bits| {
                negative_binomial(shape, scale).sample(bits)
            });
        }
    }
}
