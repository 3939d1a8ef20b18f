//! The assumptions of the hats of the laws of counts: floating-point bounds contain the exact γ, γ is never negative,
//! and the big integers give the same values from the same bits.

use num_bigint::BigInt;
use proptest::prelude::*;

use super::super::hat::{Hat, LogConcave};
use super::super::{Binomial, NegativeBinomial, Poisson, Polya, RandomBits, ScriptedBits};
use super::{Coarse, node, noise, ratio};
use crate::number::Ratio;

/// Calls `visit` with a law and its hat.
trait Visit {
    fn visit(&mut self, law: &(impl LogConcave + std::fmt::Debug), hat: &Hat);
}

fn visit(law: &Law, visitor: &mut impl Visit) {
    match law {
        Law::Poisson(law) => visitor.visit(law, law.hat()),
        Law::Binomial(law) => visitor.visit(law, law.hat()),
        Law::NegativeBinomial(law) => visitor.visit(law, law.hat()),
        Law::Polya(law) => visitor.visit(law, law.hat()),
    }
}

#[derive(Clone, Debug)]
enum Law {
    Poisson(Poisson),
    Binomial(Binomial),
    NegativeBinomial(NegativeBinomial),
    Polya(Polya),
}

impl Law {
    fn sample_by<const FAST: bool>(&self, bits: &mut impl RandomBits) -> u128 {
        match self {
            Self::Poisson(law) => law.sample_by::<FAST>(bits),
            Self::Binomial(law) => law.sample_by::<FAST>(bits),
            Self::NegativeBinomial(law) => law.sample_by::<FAST>(bits),
            Self::Polya(law) => law.sample_by::<FAST>(bits),
        }
    }
}

fn poisson(mean: Ratio) -> Law {
    Law::Poisson(Poisson::new(mean).unwrap())
}

fn binomial(n: u128, near: u64, far: u64) -> Law {
    Law::Binomial(Binomial::new(n, near, far).unwrap())
}

fn negative_binomial(shape: u64, scale: Ratio) -> Law {
    Law::NegativeBinomial(NegativeBinomial::new(shape, scale).unwrap())
}

fn polya(n: u128, near: u64, far: u64) -> Law {
    Law::Polya(Polya::new(n, near, far).unwrap())
}

/// Checks the bounds of γ at values near the mode, a few scales off, and far away.
struct Bounds {
    parts: Vec<f64>,
    /// The greatest share of its tolerance that an error used.
    worst: f64,
}

impl Visit for Bounds {
    fn visit(&mut self, law: &(impl LogConcave + std::fmt::Debug), hat: &Hat) {
        let parts = std::mem::take(&mut self.parts);
        for part in &parts {
            let size = ((part * part * part).abs() * hat.scale() as f64) as u128 + u128::from(*part != 0.0);
            let value = if *part < 0.0 { hat.mode().checked_sub(size) } else { Some(hat.mode() + size) };
            if let Some(value) = value.filter(|&value| value <= law.end()) {
                self.check(law, hat, value, size);
            }
        }
    }
}

impl Bounds {
    fn check(&mut self, law: &(impl LogConcave + std::fmt::Debug), hat: &Hat, value: u128, size: u128) {
        const PRECISION: u64 = 400;
        let exact = hat.gamma(law, value, size).enclose(PRECISION);
        assert!(exact.high >= BigInt::ZERO, "{law:?} at {value}: the hat is too low");
        let (low, high) = hat.bounds(law, value, size);
        let scaled = |bound: f64| {
            let Ok(ratio) = Ratio::from_f64(bound) else { return BigInt::ZERO };
            let (n, d) = ratio.big();
            BigInt::from((n << PRECISION) / d)
        };
        // Bounds above 2^127 have no exact ratio, and are irrelevant.
        if (2f64.powi(-70)..2f64.powi(126)).contains(&high) {
            assert!(scaled(low) <= exact.high && exact.low <= scaled(high), "{law:?} at {value}: {low} {high}");
            if low > 0.0 {
                // (exact − middle)/radius
                let (low, high) = (scaled(low), scaled(high));
                let off: BigInt = (&exact.low * 2 - &low - &high) * 1000 / (&high - &low);
                self.worst = self.worst.max(f64::from(i32::try_from(off).unwrap().abs()) / 1000.0);
            }
        }
    }
}

fn any_laws() -> impl Strategy<Value = Law> {
    // Numbers of any bit length.
    let wide = |bits: u32| (any::<u128>(), 128 - bits..128).prop_map(|(n, shift)| (n >> shift).max(1));
    let ratio = move |bits: u32| {
        (wide(bits), wide(64)).prop_filter_map("in range", move |(n, d)| {
            Ratio::new(n, d).ok().filter(|ratio| *ratio < Ratio::new(1 << bits.min(119), 1).unwrap())
        })
    };
    let split = move |bits: u32| (wide(bits), wide(bits)).prop_map(|(a, b)| (a as u64, b as u64));
    prop_oneof![
        ratio(119).prop_map(poisson),
        (wide(126), split(63)).prop_map(|(n, (near, far))| binomial(n, near, far)),
        // Probabilities near 1/n.
        (wide(30), wide(8)).prop_map(|(n, near)| binomial(n, near as u64, (n as u64).max(near as u64))),
        (wide(12), ratio(60)).prop_map(|(shape, scale)| negative_binomial(shape as u64 + 1, scale)),
        (wide(63), ratio(59)).prop_map(|(shape, scale)| negative_binomial(shape as u64 + 1, scale)),
        (wide(118), split(12)).prop_map(|(n, (near, far))| polya(n, near, far + 1)),
        (wide(30), split(30)).prop_map(|(n, (near, far))| polya(n, near, far + 1)),
        (wide(118), split(63)).prop_map(|(n, (near, far))| polya(n, near, far + 1)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn bounds_hold_the_exact_exponent(law in any_laws(), parts in prop::collection::vec(-2.5..2.5f64, 6)) {
        let mut bounds = Bounds { parts: [parts, vec![1e-30, -1e-30]].concat(), worst: 0.0 };
        visit(&law, &mut bounds);
        // The tolerance has slack.
        prop_assert!(bounds.worst < 0.5, "{} of the tolerance", bounds.worst);
    }

    #[test]
    fn paths_agree_at_any_parameter(law in any_laws(), seed: u64) {
        check_paths(&law, seed, 1);
    }
}

/// Every value that a small law can take: γ is never negative, and the bounds contain it.
#[test]
fn hats_cover_small_laws() {
    struct All;
    impl Visit for All {
        fn visit(&mut self, law: &(impl LogConcave + std::fmt::Debug), hat: &Hat) {
            let mut bounds = Bounds { parts: Vec::new(), worst: 0.0 };
            for value in 0..=law.end().min(hat.mode() + 12) {
                bounds.check(law, hat, value, value.abs_diff(hat.mode()));
            }
        }
    }
    for text in ["1/1000", "1/2", "99/100", "1", "3/2", "2", "5/2", "7", "8", "15/2"] {
        visit(&poisson(ratio(text)), &mut All);
    }
    for n in 0..7 {
        for (near, far) in [(1, 1), (1, 2), (2, 1), (1, 5), (3, 4), (100, 1)] {
            visit(&binomial(n, near, far), &mut All);
            visit(&polya(n, near + 1, far), &mut All);
        }
    }
    for shape in [2, 3, 10, 1000] {
        for text in ["1/8", "1/2", "1", "9/2"] {
            visit(&negative_binomial(shape, ratio(text)), &mut All);
        }
    }
}

/// One draw by either path, and the 8 bytes that follow it.
fn check_paths(law: &Law, seed: u64, count: u64) {
    fn same<B: RandomBits>(law: &Law, mut fast: B, mut slow: B) {
        let fast = (law.sample_by::<true>(&mut fast), fast.next_u64());
        let slow = (law.sample_by::<false>(&mut slow), slow.next_u64());
        assert_eq!(fast, slow, "{law:?}");
    }
    let noise = noise(seed);
    for index in 0..count {
        same(law, noise.bits(node(index)), noise.bits(node(index)));
        same(law, Coarse(noise.bits(node(index))), Coarse(noise.bits(node(index))));
    }
}

#[test]
fn paths_agree_at_chosen_parameters() {
    for text in
        ["1/10", "1", "4", "15/2", "64", "1000", "1000000000000000", "1208925819614629174706176", "123456789/1000"]
    {
        check_paths(&poisson(ratio(text)), 21, 60);
    }
    for (n, near, far) in [(0, 1, 1), (7, 1, 1), (20, 1, 2), (1_000_000_000_000_000, 1, 2), (1 << 122, 3, 4)] {
        check_paths(&binomial(n, near, far), 22, 60);
    }
    for (shape, text) in [(1, "10"), (2, "1/3"), (20, "1000"), (4096, "7/3"), (9, "1152921504606846976")] {
        check_paths(&negative_binomial(shape, ratio(text)), 23, 60);
    }
    for (n, near, far) in [(0, 2, 1), (7, 1, 1), (10, 2, 3), (30, 4, 4), (1 << 80, 5, 9), (1 << 60, 1, 4096)] {
        check_paths(&polya(n, near, far), 24, 60);
    }
}

/// A coin's number that has the first 16 digits of γ is decided by the next 64.
#[test]
fn ties_are_decided_by_further_digits() {
    let law = Poisson::new(ratio("50")).unwrap();
    let scale = law.hat().scale();
    assert_eq!(scale, 9);
    let digits = u128::try_from(law.hat().gamma(&law, 52, 2).floor(80)).unwrap();
    // ln(51·52/50²) + 1/2 − 2/9
    assert!((digits as f64 / 2f64.powi(80) - (1.0608f64.ln() + 5.0 / 18.0)).abs() < 1e-15);
    let (first, second) = ((digits >> 64) as u16, digits as u64);
    // E = 0.25 and sign 0: the candidate 52; its coin; E = 0.25 and sign 1: the candidate 48, with a coin that is true.
    let sample = |second: u64, path: fn(&Poisson, &mut ScriptedBits) -> u128| {
        let candidate = |sign: u8| vec![0, 0x40, 0, 0x80, sign];
        let coin = [first.to_le_bytes().to_vec(), second.to_le_bytes().to_vec(), vec![0xff, 0xff]].concat();
        let script = [candidate(0), coin, candidate(1), vec![0xff, 0xff, 0]].concat();
        path(&law, &mut ScriptedBits::new(script))
    };
    for path in [Poisson::sample_by::<true>, Poisson::sample_by::<false>] {
        // Less than γ, and the run has length 1: rejected.
        assert_eq!(sample(second - 1, path), 48);
        assert_eq!(sample(second + 1, path), 52);
    }
}
