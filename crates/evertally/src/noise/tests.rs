//! Unit tests of the noise module. The statistical tests of the laws are in the crate `evertally-testkit`.

mod bridges;
mod counts;
mod enclosures;
mod golden;
mod keyed;
mod laws;
mod paths;
mod sampling;
mod values;

use super::{KeyedNoise, Node, Purpose, RandomBits, SecretKey, StreamName, TestSeed};
use crate::number::Ratio;

/// Each byte replaced by one of three, as `CoarseBits` in `golden.py`: equal digits, otherwise rare, become common.
struct Coarse<B>(B);

fn coarse(byte: u8) -> u8 {
    [0x00, 0x80, 0xff][usize::from(byte % 3)]
}

impl<B: RandomBits> RandomBits for Coarse<B> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        self.0.take::<N>().map(coarse)
    }

    fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        Some(self.0.peek::<N>()?.map(coarse))
    }

    fn skip(&mut self, count: usize) {
        self.0.skip(count);
    }
}

fn ratio(text: &str) -> Ratio {
    text.parse().expect("a valid ratio")
}

fn name(text: &str) -> StreamName {
    text.parse().expect("a valid name")
}

fn noise(seed: u64) -> KeyedNoise {
    let key = SecretKey::insecure_from_test_seed(TestSeed(seed));
    KeyedNoise::unrecorded(&key, &name("unit test"), &[0; 32], Purpose::Total)
}

fn node(index: u64) -> Node {
    Node { level: 0, index }
}
