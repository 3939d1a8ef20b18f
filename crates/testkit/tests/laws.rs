//! The exact laws compared with their probabilities. Levels: [`LEVEL`] = 10⁻⁹ per comparison, about 230 comparisons.
//!
//! Every draw has its own node, as in a mechanism.

use std::num::NonZeroU128;

use evertally::noise::{BernoulliExp, DiscreteGaussian, DiscreteLaplace, Geometric, KeyedNoise, uniform_below};
use evertally::number::Ratio;
use evertally_testkit::{LEVEL, chi_square, count, leaf, moments, noise, normal_cdf, normal_tail, poisson_tail};

fn ratio(text: &str) -> Ratio {
    text.parse().expect("a valid ratio")
}

fn gaussian(text: &str) -> DiscreteGaussian {
    DiscreteGaussian::new(ratio(text)).expect("a valid parameter")
}

fn laplace(text: &str) -> DiscreteLaplace {
    DiscreteLaplace::new(ratio(text)).expect("a valid scale")
}

fn draws<T>(noise: &KeyedNoise, n: u64, draw: impl Fn(&mut evertally::noise::NodeBits) -> T) -> Vec<T> {
    (0..n).map(|index| draw(&mut noise.bits(leaf(index)))).collect()
}

/// P(X ≤ k), from the sum of the weights up to 40σ, or beyond σ = 300 from the normal law (the error of the midpoint
/// rule is below 1/(12σ²) < 10⁻⁶ in the density, below the resolution of 10⁶ draws).
fn gaussian_cdf(variance: f64) -> impl Fn(i128) -> f64 {
    let sigma = variance.sqrt();
    let small = sigma < 300.0;
    let reach = if small { (40.0 * sigma) as i128 + 2 } else { 0 };
    let weight = |x: i128| (-((x * x) as f64) / (2.0 * variance)).exp();
    let mut sums = Vec::new();
    if small {
        let mut sum = 0.0;
        for x in -reach..=reach {
            sum += weight(x);
            sums.push(sum);
        }
    }
    move |k| match sums.last() {
        None => normal_cdf((k as f64 + 0.5) / sigma),
        Some(_) if k < -reach => 0.0,
        Some(total) => sums[((k + reach) as usize).min(sums.len() - 1)] / total,
    }
}

/// P(X ≤ k) of the discrete Laplace law.
fn laplace_cdf(scale: f64) -> impl Fn(i128) -> f64 {
    let q = (-1.0 / scale).exp();
    // (1 − q)/(1 + q) · Σ q^|x|.
    move |k| {
        if k < 0 { (k as f64 / scale).exp() / (1.0 + q) } else { 1.0 - (-((k + 1) as f64) / scale).exp() / (1.0 + q) }
    }
}

/// χ² of values on cells between about 200 places equally spaced over ±6 standard deviations.
fn fits(values: &[i128], deviation: f64, cdf: impl Fn(i128) -> f64) -> f64 {
    let step = ((deviation * 12.0 / 200.0) as i128).max(1);
    let n = values.len() as f64;
    let reach = 6.0 * deviation + 2.0;
    let cells = (reach / step as f64) as i128 + 1;
    // Cell c holds c·step ..= c·step + step − 1; the outermost two hold the tails.
    let counts = count(values.iter().map(|value| value.div_euclid(step).clamp(-cells, cells)));
    chi_square((-cells..=cells).map(|cell| {
        let low = if cell == -cells { 0.0 } else { cdf(cell * step - 1) };
        let high = if cell == cells { 1.0 } else { cdf(cell * step + step - 1) };
        (counts.get(&cell).copied().unwrap_or(0) as f64, n * (high - low))
    }))
}

const GAUSSIANS: [&str; 17] = [
    "1/10000",
    "1/10",
    "1/3",
    "1/2",
    "1",
    "3/2",
    "7/3",
    "10",
    "100",
    "30001/3",
    "1000000",
    "1000000000001/1000000",
    "1000000000000",
    "123456789012345678901/1000000007",
    "1000000000000000000",
    "12345678901234567890123456789012345678/12345678901234567",
    "340282366920938463463374607431768211455",
];

#[test]
fn gaussian_draws_have_their_probabilities() {
    for (seed, text) in (1..).zip(GAUSSIANS) {
        let law = gaussian(text);
        let values = draws(&noise(seed), 1_500_000, |bits| law.sample(bits));
        let parameter = law.parameter().to_f64();
        let p = fits(&values, parameter.sqrt(), gaussian_cdf(parameter));
        assert!(p > LEVEL, "σ² = {text}: p = {p:e}");
        if law.variance() > 0.01 {
            // Sign and size are independent; the fourth moment is 3σ⁴ from σ² = 1/2 on, and below it the variance
            // serves as an upper bound of the spread through E x⁴ ≤ 2·variance.
            let deviation = law.variance().sqrt();
            let moments = moments(values.iter().copied(), deviation);
            let fourth = if parameter < 1.0 { 4.0 / law.variance() } else { 3.0 };
            assert!(moments.mean_tail(1.0) > LEVEL, "σ² = {text}: {moments:?}");
            assert!(moments.variance_tail(1.0, fourth) > LEVEL, "σ² = {text}: {moments:?}");
        }
    }
}

const LAPLACES: [&str; 12] = [
    "1/10000",
    "1/10",
    "1/2",
    "1",
    "22/7",
    "10",
    "100",
    "65536",
    "65537",
    "1234567890123456789/1000000007",
    "1000000000000000000",
    "1267650600228229401496703205376",
];

#[test]
fn laplace_draws_have_their_probabilities() {
    for (seed, text) in (101..).zip(LAPLACES) {
        let law = laplace(text);
        let values = draws(&noise(seed), 1_500_000, |bits| law.sample(bits));
        let scale = law.scale().to_f64();
        let p = fits(&values, (2.0 * scale * scale).sqrt(), laplace_cdf(scale));
        assert!(p > LEVEL, "scale {text}: p = {p:e}");
        if scale >= 1.0 {
            let moments = moments(values.iter().copied(), law.variance().sqrt());
            // E x⁴ = 24 s⁴ = 6 (2s²)², and more for small scales: kurtosis 6 + 1/variance.
            let fourth = 6.0 + 1.0 / law.variance();
            assert!(moments.mean_tail(1.0) > LEVEL, "scale {text}: {moments:?}");
            assert!(moments.variance_tail(1.0, fourth) > LEVEL, "scale {text}: {moments:?}");
        }
    }
}

#[test]
fn geometric_draws_have_their_probabilities() {
    for (seed, text) in (201..).zip(["1/10", "1", "5/2", "100", "123456789/1001"]) {
        let law = Geometric::new(ratio(text)).expect("a valid scale");
        let values = draws(&noise(seed), 400_000, |bits| law.sample(bits) as i128);
        let scale = law.scale().to_f64();
        let cdf = |k: i128| if k < 0 { 0.0 } else { -libm::expm1(-((k + 1) as f64) / scale) };
        let p = fits(&values, 2.0 * scale, cdf);
        assert!(p > LEVEL, "scale {text}: p = {p:e}");
    }
}

#[test]
fn coins_have_their_probabilities() {
    const N: u64 = 200_000;
    let mut seed = 300;
    for q in [1, 2, 3, 7, 10, 65_536, 65_537, 1_000_003, u128::from(u64::MAX), u128::MAX] {
        for p in
            [0, 1, q / 3, q / 2, q - q / 5, q.saturating_mul(2) / 3, q, q.saturating_add(q / 4), q.saturating_mul(5)]
        {
            seed += 1;
            let coin = BernoulliExp::new(p, q).expect("a valid fraction");
            let heads =
                draws(&noise(seed), N, |bits| coin.sample(bits)).into_iter().filter(|&head| head).count() as f64;
            let probability = (-(p as f64) / q as f64).exp();
            let (n, expected) = (N as f64, N as f64 * probability);
            if p == 0 {
                assert_eq!(heads, n);
            } else if n - expected < 50.0 {
                let tails = n - heads;
                assert!(poisson_tail(tails as u64, n - expected) > LEVEL, "exp(-{p}/{q}): {tails} tails");
            } else {
                let z = (heads - expected) / (expected * (1.0 - probability)).sqrt();
                assert!(normal_tail(z) > LEVEL, "exp(-{p}/{q}): {heads} of {n}, expected {expected}");
            }
        }
    }
}

#[test]
fn uniform_draws_have_their_probabilities() {
    const N: u64 = 200_000;
    let wide = [1 << 64, (1 << 64) + 1, 3 << 64, (1 << 127) + 1, u128::MAX];
    let small = [2, 3, 6, 100, 65_537, 1_000_003, u128::from(u32::MAX), u128::from(u64::MAX)];
    for (seed, n) in (401..).zip(small.into_iter().chain(wide)) {
        let bound = NonZeroU128::new(n).expect("not 0");
        // Up to 100 cells of equal or nearly equal size.
        let cells = n.min(100);
        let size = n.div_ceil(cells);
        let values = draws(&noise(seed), N, |bits| (uniform_below(bound, bits) / size) as i128);
        let counts = count(values);
        let p = chi_square((0..cells).map(|cell| {
            let width = size.min(n.saturating_sub(cell * size));
            (counts.get(&(cell as i128)).copied().unwrap_or(0) as f64, N as f64 * (width as f64 / n as f64))
        }));
        assert!(p > LEVEL, "below {n}: p = {p:e}");
        // The lowest bits too.
        if n > 1000 {
            let values = draws(&noise(seed + 50), N, |bits| (uniform_below(bound, bits) % 16) as i128);
            let counts = count(values);
            let p = chi_square((0..16).map(|low| {
                let width = n / 16 + u128::from(low < n % 16);
                (counts[&(low as i128)] as f64, N as f64 * (width as f64 / n as f64))
            }));
            assert!(p > LEVEL, "low bits below {n}: p = {p:e}");
        }
    }
}

/// Tails down to 10⁻⁶, both sides, over 2·10⁷ draws.
#[test]
fn tails_have_their_probabilities() {
    const N: u64 = 20_000_000;
    type Draw = Box<dyn Fn(&mut evertally::noise::NodeBits) -> i128 + Send>;
    type Cdf = Box<dyn Fn(i128) -> f64 + Send>;
    let (g, l) = (gaussian("1001/10"), laplace("31/3"));
    let laws: [(u64, Draw, Cdf); 2] = [
        (501, Box::new(move |bits| g.sample(bits)), Box::new(gaussian_cdf(100.1))),
        (502, Box::new(move |bits| l.sample(bits)), Box::new(laplace_cdf(31.0 / 3.0))),
    ];
    let workers: Vec<_> = laws
        .into_iter()
        .map(|(seed, draw, cdf)| {
            std::thread::spawn(move || {
                let noise = noise(seed);
                let counts = count((0..N).map(|index| draw(&mut noise.bits(leaf(index)))));
                for tail in [1e-2, 1e-3, 1e-4, 1e-5, 1e-6] {
                    // The first k with P(X < −k) = P(X > k) ≤ tail.
                    let k = (0..).find(|&k| cdf(-k - 1) <= tail).expect("tails vanish");
                    let expected = N as f64 * cdf(-k - 1);
                    let below: u64 = counts.range(..-k).map(|(_, n)| n).sum();
                    let above: u64 = counts.range(k + 1..).map(|(_, n)| n).sum();
                    for (side, seen) in [("below", below), ("above", above)] {
                        let p = poisson_tail(seen, expected);
                        assert!(p > LEVEL, "seed {seed}, {side} {k}: {seen} for {expected}, p = {p:e}");
                    }
                }
                // All of it, at a resolution 50 times finer than in the other tests.
                let reach = *counts.keys().last().expect("draws").max(&-counts.keys().next().expect("draws"));
                let p = chi_square(
                    (-reach..=reach)
                        .map(|x| (counts.get(&x).copied().unwrap_or(0) as f64, N as f64 * (cdf(x) - cdf(x - 1)))),
                );
                assert!(p > LEVEL, "seed {seed}: p = {p:e}");
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("the tails are right");
    }
}

/// Neighbouring variables are independent: along a level, across levels, across streams, across purposes.
#[test]
fn neighbouring_variables_are_uncorrelated() {
    use evertally::noise::{GuardedKey, KeyedNoise, Node, Purpose, TestSeed};
    const N: u64 = 400_000;
    let key = GuardedKey::insecure_from_test_seed(TestSeed(600));
    let name = |text: &str| text.parse().expect("a valid name");
    let total = KeyedNoise::unrecorded(&key, &name("a"), &[0; 32], Purpose::Total);
    let others = [
        ("next index", KeyedNoise::unrecorded(&key, &name("a"), &[0; 32], Purpose::Total), 0, 1),
        ("next level", KeyedNoise::unrecorded(&key, &name("a"), &[0; 32], Purpose::Total), 1, 0),
        ("other name", KeyedNoise::unrecorded(&key, &name("b"), &[0; 32], Purpose::Total), 0, 0),
        ("other plan", KeyedNoise::unrecorded(&key, &name("a"), &[1; 32], Purpose::Total), 0, 0),
        ("other purpose", KeyedNoise::unrecorded(&key, &name("a"), &[0; 32], Purpose::Group(b"")), 0, 0),
    ];
    let law = gaussian("100");
    for (what, other, level, shift) in others {
        let (mut product, mut sizes) = (0.0, 0.0);
        for index in 0..N {
            let x = law.sample(&mut total.bits(leaf(index))) as f64 / 10.0;
            let y = law.sample(&mut other.bits(Node { level, index: index + shift })) as f64 / 10.0;
            product += x * y;
            sizes += (x * x - 1.0) * (y * y - 1.0) / 2.0;
        }
        for (of, sum) in [("values", product), ("squares", sizes)] {
            let z = sum / (N as f64).sqrt();
            assert!(normal_tail(z) > LEVEL, "{what}: correlation of {of}, z = {z}");
        }
    }
}

/// A test of these tests: a variance wrong by 2 %, a scale wrong by 1 %, a missing −0 rejection, a bias of σ/50 and a
/// truncation at 4σ are all rejected.
#[test]
fn wrong_laws_are_rejected() {
    let values = draws(&noise(701), 1_000_000, |bits| gaussian("102").sample(bits));
    assert!(fits(&values, 10.0, gaussian_cdf(102.0)) > LEVEL);
    assert!(fits(&values, 10.0, gaussian_cdf(100.0)) < LEVEL);
    assert!(moments(values.iter().copied(), 10.0).variance_tail(1.0, 3.0) < LEVEL);
    let large = draws(&noise(702), 1_000_000, |bits| gaussian("1020000000000000000").sample(bits));
    assert!(fits(&large, 1e9, gaussian_cdf(1e18)) < LEVEL);
    assert!(moments(large.iter().copied(), 1e9).variance_tail(1.0, 3.0) < LEVEL);
    let scaled = draws(&noise(703), 1_000_000, |bits| laplace("101").sample(bits));
    assert!(moments(scaled.iter().copied(), 2f64.sqrt() * 100.0).variance_tail(1.0, 6.0) < LEVEL);
    let law = Geometric::new(ratio("10")).expect("a valid scale");
    let zeros = draws(&noise(704), 400_000, |bits| {
        let size = law.sample(bits) as i128;
        if evertally::noise::RandomBits::next_bool(bits) { -size } else { size }
    });
    assert!(fits(&zeros, 200f64.sqrt(), laplace_cdf(10.0)) < LEVEL);
    let biased: Vec<i128> = draws(&noise(705), 400_000, |bits| gaussian("10000").sample(bits) + 2);
    assert!(moments(biased.iter().copied(), 100.0).mean_tail(1.0) < LEVEL);
    let cut = draws(&noise(706), 1_000_000, |bits| gaussian("100").sample(bits).clamp(-40, 40));
    let beyond = |values: &[i128]| values.iter().filter(|&&value| value > 40).count() as u64;
    assert!(poisson_tail(beyond(&cut), 1e6 * gaussian_cdf(100.0)(-41)) < LEVEL);
}
