//! Cost of one exact draw, with and without the addressing of its node.
//!
//! `addressed`: `KeyedNoise::bits(node)` (one ChaCha20 block) and one draw. `stream`: draws from one node's bits, which
//! is how much of it the law costs with its share of keystream.

use std::hint::black_box;
use std::num::NonZeroU128;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use evertally::noise::bridge::{Bridge, PolyaBridge, SkellamBridge};
use evertally::noise::{
    BernoulliExp, Binomial, DiscreteGaussian, DiscreteLaplace, DiscreteLaw, Geometric, GuardedKey, KeyedNoise,
    NegativeBinomial, Node, Poisson, Polya, Purpose, RandomBits, StreamName, TestSeed, uniform_below,
};
use evertally::number::Ratio;

fn noise() -> KeyedNoise {
    let name: StreamName = "bench".parse().expect("a valid name");
    KeyedNoise::unrecorded(&GuardedKey::insecure_from_test_seed(TestSeed(1)), &name, &[0; 32], Purpose::Total)
}

fn addressing(c: &mut Criterion) {
    let noise = noise();
    let mut group = c.benchmark_group("bits");
    group.throughput(Throughput::Elements(1));
    let mut index = 0;
    group.bench_function("one block", |b| {
        b.iter(|| {
            index += 1;
            noise.bits(black_box(Node { level: 0, index })).next_u64()
        });
    });
    group.finish();
}

fn draws(c: &mut Criterion, group: &str, name: &str, mut draw: impl FnMut(&mut evertally::noise::NodeBits) -> i128) {
    let noise = noise();
    let mut group = c.benchmark_group(group);
    group.throughput(Throughput::Elements(1));
    let mut index = 0;
    group.bench_function(BenchmarkId::new("addressed", name), |b| {
        b.iter(|| {
            index += 1;
            draw(&mut noise.bits(black_box(Node { level: 0, index })))
        });
    });
    let mut bits = noise.bits(Node { level: 1, index: 0 });
    group.bench_function(BenchmarkId::new("stream", name), |b| b.iter(|| draw(&mut bits)));
    group.finish();
}

fn laws(c: &mut Criterion) {
    for text in [
        "1/10000",
        "1/10",
        "1",
        "100",
        "1000000",
        "1000000000000",
        "1000000000000000000",
        "123456789012345678901/1000000007",
    ] {
        let ratio: Ratio = text.parse().expect("a valid ratio");
        let law = DiscreteLaw::Gaussian(DiscreteGaussian::new(ratio).expect("in range"));
        draws(c, "gaussian", text, |bits| law.sample(bits));
    }
    for text in
        ["1/10000", "1/10", "1", "100", "1000000", "22/7", "1000000000000000000", "1234567890123456789/1000000007"]
    {
        let ratio: Ratio = text.parse().expect("a valid ratio");
        let law = DiscreteLaw::Laplace(DiscreteLaplace::new(ratio).expect("in range"));
        draws(c, "laplace", text, |bits| law.sample(bits));
    }
    let geometric = Geometric::new("100".parse().expect("a valid ratio")).expect("in range");
    draws(c, "geometric", "100", |bits| geometric.sample(bits) as i128);
    let coin = BernoulliExp::new(1, 3).expect("in range");
    draws(c, "bernoulli_exp", "1/3", |bits| i128::from(coin.sample(bits)));
    let n = NonZeroU128::new(1_000_003).expect("not 0");
    draws(c, "uniform_below", "1000003", |bits| uniform_below(n, bits) as i128);
}

/// Laws whose parameters change with every draw, as a bridge's do: the cost of setting up is part of it.
fn counts(c: &mut Criterion) {
    let ratio = |text: &str| -> Ratio { text.parse().expect("a valid ratio") };
    for text in ["1/10", "2", "1000", "1000000000000000", "1208925819614629174706176"] {
        let mean = ratio(text);
        draws(c, "poisson", text, |bits| Poisson::new(black_box(mean)).expect("in range").sample(bits) as i128);
    }
    for (n, near, far) in
        [(10, 1, 2), (1000, 1, 2), (1_000_000_000_000_000, 1, 2), (1_000_000_000_000_000_000_000_000, 1, 2)]
    {
        draws(c, "binomial", &format!("{n}, {near}:{far}"), |bits| {
            Binomial::new(black_box(n), near, far).expect("in range").sample(bits) as i128
        });
    }
    for (shape, text) in
        [(1, "1000"), (2, "1000"), (20, "1"), (20, "1000"), (20, "1000000000000"), (20, "1152921504606846976")]
    {
        let scale = ratio(text);
        draws(c, "negative_binomial", &format!("{shape}, {text}"), |bits| {
            NegativeBinomial::new(black_box(shape), scale).expect("in range").sample(bits) as i128
        });
    }
    for (n, near, far) in
        [(10, 2, 3), (20_000, 1, 19), (20_000, 10, 10), (20_000_000_000_000, 10, 10), (1 << 80, 10, 10)]
    {
        draws(c, "polya", &format!("{n}, {near}:{far}"), |bits| {
            Polya::new(black_box(n), near, far).expect("in range").sample(bits) as i128
        });
    }
    let skellam = SkellamBridge::new(ratio("1000"), 1).expect("in range");
    let laplace = PolyaBridge::new(ratio("1000")).expect("in range");
    draws(c, "skellam_bridge", "extend 20", |bits| skellam.noise(skellam.extend([0; 2], black_box(20), bits)));
    draws(c, "skellam_bridge", "split 7:13", |bits| {
        skellam.noise(skellam.split([0; 2], black_box([10_000; 2]), 7, 13, bits))
    });
    draws(c, "polya_bridge", "extend 20", |bits| laplace.noise(laplace.extend([0; 2], black_box(20), bits)));
    draws(c, "polya_bridge", "split 7:13", |bits| {
        laplace.noise(laplace.split([0; 2], black_box([20_000; 2]), 7, 13, bits))
    });
}

fn config() -> Criterion {
    Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_millis(700))
}

criterion_group! { name = benches; config = config(); targets = addressing, laws, counts }
criterion_main!(benches);
