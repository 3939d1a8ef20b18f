//! The samplers compared with a second implementation: a literal transcription of algorithms 1–3 of Canonne, Kamath
//! and Steinke (2020, doi 10.29012/jpc.784) in big integers, fed by another generator. It shares no code with the
//! library.
//!
//! Level: 10⁻⁹ per comparison, 18 comparisons.

use evertally::noise::{DiscreteGaussian, DiscreteLaplace};
use evertally::number::Ratio;
use evertally_testkit::{LEVEL, count, leaf, noise, two_samples};
use num_bigint::BigUint;

/// SplitMix64.
struct Generator(u64);

impl Generator {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform below n, by rejection.
    fn below(&mut self, n: &BigUint) -> BigUint {
        let length = n.bits();
        loop {
            let words = length.div_ceil(64);
            let all = (0..words).fold(BigUint::ZERO, |all, _| (all << 64u32) + self.word());
            let value = all >> (64 * words - length);
            if value < *n {
                return value;
            }
        }
    }

    fn bernoulli(&mut self, p: &BigUint, q: &BigUint) -> bool {
        self.below(q) < *p
    }

    /// Algorithm 1, with the loop for γ > 1.
    fn bernoulli_exp(&mut self, p: &BigUint, q: &BigUint) -> bool {
        let one = BigUint::from(1u8);
        let (mut p, q) = (p.clone(), q.clone());
        while p > q {
            if !self.bernoulli_exp(&one, &one) {
                return false;
            }
            p -= &q;
        }
        let mut k = 1u64;
        while self.bernoulli(&p, &(&q * k)) {
            k += 1;
        }
        k % 2 == 1
    }

    /// Algorithm 2: scale t/s.
    fn laplace(&mut self, t: &BigUint, s: &BigUint) -> i128 {
        let one = BigUint::from(1u8);
        loop {
            let u = self.below(t);
            if !self.bernoulli_exp(&u, t) {
                continue;
            }
            let mut v = 0u64;
            while self.bernoulli_exp(&one, &one) {
                v += 1;
            }
            let y = i128::try_from((u + t * v) / s).expect("small");
            let negative = self.word() >> 63 == 1;
            if !(negative && y == 0) {
                return if negative { -y } else { y };
            }
        }
    }

    /// Algorithm 3: σ² = n/d.
    fn gaussian(&mut self, n: &BigUint, d: &BigUint) -> i128 {
        let t = (n / d).sqrt() + 1u8;
        loop {
            let y = self.laplace(&t, &BigUint::from(1u8));
            let reached = BigUint::from(y.unsigned_abs()) * &t * d;
            let gap = if reached > *n { reached - n } else { n - reached };
            if self.bernoulli_exp(&(&gap * &gap), &(2u8 * n * d * &t * &t)) {
                return y;
            }
        }
    }
}

const DRAWS: u64 = 60_000;

fn parameters() -> [(u128, u128); 9] {
    [
        (1, 10_000),
        (1, 10),
        (1, 1),
        (7, 3),
        (25, 2),
        (100, 1),
        (1_000_001, 100),
        (1_000_000_000_000_000_000, 1),
        (123_456_789_012_345_678_901_234, 1_000_000_007),
    ]
}

/// Values divided so that a standard deviation has about 30 cells.
fn cells(values: impl Iterator<Item = i128>, deviation: f64) -> std::collections::BTreeMap<i128, u64> {
    let step = ((deviation / 30.0) as i128).max(1);
    count(values.map(|value| value.div_euclid(step)))
}

#[test]
fn gaussian_agrees_with_the_literal_algorithm() {
    for (seed, (n, d)) in (801..).zip(parameters()) {
        let law = DiscreteGaussian::new(Ratio::new(n, d).expect("positive")).expect("valid");
        let deviation = law.parameter().to_f64().sqrt();
        let noise = noise(seed);
        let ours = cells((0..DRAWS).map(|index| law.sample(&mut noise.bits(leaf(index)))), deviation);
        let mut generator = Generator(seed);
        let theirs = cells((0..DRAWS).map(|_| generator.gaussian(&n.into(), &d.into())), deviation);
        let p = two_samples(&ours, &theirs);
        assert!(p > LEVEL, "σ² = {n}/{d}: p = {p:e}");
    }
}

#[test]
fn laplace_agrees_with_the_literal_algorithm() {
    for (seed, (n, d)) in (901..).zip(parameters()) {
        let law = DiscreteLaplace::new(Ratio::new(n, d).expect("positive")).expect("valid");
        let noise = noise(seed);
        let scale = law.scale().to_f64();
        let ours = cells((0..DRAWS).map(|index| law.sample(&mut noise.bits(leaf(index)))), scale);
        let mut generator = Generator(seed);
        let theirs = cells((0..DRAWS).map(|_| generator.laplace(&n.into(), &d.into())), scale);
        let p = two_samples(&ours, &theirs);
        assert!(p > LEVEL, "scale {n}/{d}: p = {p:e}");
    }
}

/// A test of this test: parameters 2 % apart differ.
#[test]
fn different_laws_are_told_apart() {
    let mut generator = Generator(1);
    let mut sample = |n: u32| {
        cells(
            (0..800_000).map(|_| {
                // Small numbers: the literal algorithm at its fastest.
                generator.gaussian(&n.into(), &BigUint::from(1u8))
            }),
            10.0,
        )
    };
    let (one, same, other) = (sample(100), sample(100), sample(103));
    assert!(two_samples(&one, &same) > LEVEL);
    assert!(two_samples(&one, &other) < LEVEL);
}
