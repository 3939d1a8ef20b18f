//! Value stability: everything equals `golden.txt`, which `golden.py` computes from the documentation alone.

use std::num::NonZeroU128;

use super::super::{
    BernoulliExp, Binomial, DiscreteGaussian, DiscreteLaplace, Geometric, KeyedNoise, NegativeBinomial, Node, Poisson,
    Polya, Purpose, RandomBits, SecretKey, TestSeed, mac_key, uniform_below,
};
use super::{Coarse, name, ratio};

const GOLDEN: &str = include_str!("golden.txt");
const NODES: [(u32, u64); 5] = [(0, 0), (0, 1), (1, 0), (7, 12345678901234567890), (u32::MAX, u64::MAX)];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest() -> [u8; 32] {
    std::array::from_fn(|i| i as u8)
}

fn purpose(label: &str) -> Purpose<'static> {
    match label {
        "total" => Purpose::Total,
        "group" => Purpose::Group(b"north"),
        "state" => Purpose::State,
        "ledger" => Purpose::Ledger,
        _ => panic!("unknown purpose {label}"),
    }
}

fn split(parameter: &str) -> (u128, u64, u64) {
    let numbers: Vec<u128> = parameter.split(',').map(|number| number.parse().expect("a number")).collect();
    (numbers[0], numbers[1] as u64, numbers[2] as u64)
}

fn draw(law: &str, parameter: &str, bits: &mut impl RandomBits) -> String {
    let ok = "a valid parameter";
    match law {
        "uniform" => uniform_below(parameter.parse::<NonZeroU128>().expect(ok), bits).to_string(),
        "coin" => {
            let (p, q) = parameter.split_once('/').unwrap_or((parameter, "1"));
            let coin = BernoulliExp::new(p.parse().expect(ok), q.parse().expect(ok)).expect(ok);
            u8::from(coin.sample(bits)).to_string()
        }
        "geometric" => Geometric::new(ratio(parameter)).expect(ok).sample(bits).to_string(),
        "laplace" => DiscreteLaplace::new(ratio(parameter)).expect(ok).sample(bits).to_string(),
        "gaussian" => DiscreteGaussian::new(ratio(parameter)).expect(ok).sample(bits).to_string(),
        "poisson" => Poisson::new(ratio(parameter)).expect(ok).sample(bits).to_string(),
        "negative-binomial" => {
            let (shape, scale) = parameter.split_once(',').expect(ok);
            NegativeBinomial::new(shape.parse().expect(ok), ratio(scale)).expect(ok).sample(bits).to_string()
        }
        "binomial" => {
            let (n, near, far) = split(parameter);
            Binomial::new(n, near, far).expect(ok).sample(bits).to_string()
        }
        "polya" => {
            let (n, near, far) = split(parameter);
            Polya::new(n, near, far).expect(ok).sample(bits).to_string()
        }
        _ => panic!("unknown law {law}"),
    }
}

#[test]
fn keys_bits_and_draws_are_the_golden_ones() {
    let key = SecretKey::insecure_from_test_seed(TestSeed(42));
    let name = name("visits – Zürich");
    let noise = KeyedNoise::unrecorded(&key, &name, &digest(), Purpose::Total);
    let nodes: Vec<Node> =
        (NODES.into_iter().chain((0..11).map(|i| (2, i)))).map(|(level, index)| Node { level, index }).collect();
    let mut lines = 0;
    for line in GOLDEN.lines() {
        lines += 1;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["key", value] => assert_eq!(hex(key.expose_bytes()), value),
            ["id", value] => assert_eq!(key.id().to_string(), value),
            ["mac", label, value] => assert_eq!(hex(&*mac_key(&key, &name, &digest(), purpose(label))), value),
            ["bits", label, value] => {
                let noise = KeyedNoise::unrecorded(&key, &name, &digest(), purpose(label));
                let mut bits = noise.bits(Node { level: 3, index: 5 << 33 });
                assert_eq!(hex(&bits.take::<192>()), value);
            }
            [law, parameter, ref values @ ..] => {
                assert_eq!(values.len(), nodes.len());
                for (&node, &value) in nodes.iter().zip(values) {
                    let mut bits = noise.bits(node);
                    let drawn = match law.strip_prefix("coarse-") {
                        Some(law) => draw(law, parameter, &mut Coarse(bits)),
                        None => draw(law, parameter, &mut bits),
                    };
                    assert_eq!(drawn, value, "{law} {parameter} at {node:?}");
                }
            }
            _ => panic!("unreadable golden line: {line}"),
        }
    }
    assert_eq!(lines, 10 + 2 * (7 + 7 + 2 * 11 + 9 + 9 + 8 + 8 + 9));
}
