//! The 64-bit arithmetic and the big integers give the same values and read the same bits.

use proptest::prelude::*;

use super::super::{DiscreteGaussian, DiscreteLaplace, Geometric, RandomBits};
use super::{Coarse, node, noise, ratio};
use crate::number::Ratio;

/// One draw by either path, and the 8 bytes that follow it.
fn both<B: RandomBits>(law: &Law, mut bits: impl FnMut() -> B) -> [(i128, u64); 2] {
    let (mut fast, mut slow) = (bits(), bits());
    let values = match law {
        Law::Geometric(law) => [law.sample_by::<true>(&mut fast) as i128, law.sample_by::<false>(&mut slow) as i128],
        Law::Laplace(law) => [law.sample_by::<true>(&mut fast), law.sample_by::<false>(&mut slow)],
        Law::Gaussian(law) => [law.sample_by::<true>(&mut fast), law.sample_by::<false>(&mut slow)],
    };
    [(values[0], fast.next_u64()), (values[1], slow.next_u64())]
}

#[derive(Debug)]
enum Law {
    Geometric(Geometric),
    Laplace(DiscreteLaplace),
    Gaussian(DiscreteGaussian),
}

fn laws(ratio: Ratio) -> Vec<Law> {
    let mut laws = vec![Law::Gaussian(DiscreteGaussian::new(ratio).unwrap())];
    laws.extend(Geometric::new(ratio).ok().map(Law::Geometric));
    laws.extend(DiscreteLaplace::new(ratio).ok().map(Law::Laplace));
    laws
}

fn check(ratio: Ratio, seed: u64, count: u64) {
    let noise = noise(seed);
    for law in laws(ratio) {
        for index in 0..count {
            let [fast, slow] = both(&law, || noise.bits(node(index)));
            assert_eq!(fast, slow, "{law:?} at {index}");
            let [fast, slow] = both(&law, || Coarse(noise.bits(node(index))));
            assert_eq!(fast, slow, "{law:?} at {index}, coarse bits");
        }
    }
}

#[test]
fn paths_agree_at_chosen_parameters() {
    for text in [
        "1/340282366920938463463374607431768211455",
        "1/1000000000000",
        "1/10000",
        "1/10",
        "1/4",
        "1",
        "9/4",
        "7/3",
        "100",
        "65535",
        "65536",
        "65537",
        "1000000",
        "4294967296",
        "18446744073709551615",
        "18446744073709551616",
        "18446744073709551615/18446744073709551614",
        "1000000000000000000",
        "1234567890123456789012345678901234567/12345678901234567",
        "1267650600228229401496703205376",
        "340282366920938463463374607431768211455",
    ] {
        check(ratio(text), 11, 300);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn paths_agree_at_any_parameter(n: u128, d: u128, shift in 0..128u32, other in 0..128u32, seed: u64) {
        check(Ratio::new((n >> shift).max(1), (d >> other).max(1)).unwrap(), seed, 8);
    }
}
