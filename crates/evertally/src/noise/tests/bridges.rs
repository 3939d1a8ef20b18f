//! The bridges: values have the same joint law in any drawing order.

use super::super::bridge::{Bridge, PolyaBridge, SkellamBridge};
use super::counts::{negative_binomial_probabilities, poisson_probabilities, polya_probabilities};
use super::ratio;
use super::sampling::{assert_probabilities, assert_same_law, draw};

const DRAWS: usize = 100_000;

/// Drawing b, then c beyond it, then a before it.
fn three<B: Bridge>(bridge: &B, lengths: [u64; 3], bits: &mut super::super::NodeBits<'_>) -> [B::Value; 3] {
    let [a, b, c] = lengths;
    let second = bridge.extend(B::ORIGIN, a + b, bits);
    let third = bridge.extend(second, c, bits);
    let first = bridge.split(B::ORIGIN, second, a, b, bits);
    [first, second, third]
}

/// The three increments in classes 0 ..= top (and more) are independent, with the probabilities `law(length)` each.
fn assert_increments<B: Bridge<Value = [u128; 2]>>(
    what: &str,
    seed: u64,
    bridge: &B,
    lengths: [u64; 3],
    law: impl Fn(u64) -> Vec<f64>,
) {
    // Classes of one increment: its values, and "more".
    let classes = lengths.map(|length| {
        let mut probabilities = law(length);
        probabilities.push((1.0 - probabilities.iter().sum::<f64>()).max(0.0));
        probabilities
    });
    let samples = draw(seed, DRAWS, |bits| three(bridge, lengths, bits));
    for side in 0..2 {
        let increments = samples
            .iter()
            .map(|[first, second, third]| [first[side], second[side] - first[side], third[side] - second[side]]);
        let index = |[x, y, z]: [u128; 3]| {
            let class = |i: usize, x: u128| (x as usize).min(classes[i].len() - 1);
            (class(0, x) * classes[1].len() + class(1, y)) * classes[2].len() + class(2, z)
        };
        let mut joint = Vec::new();
        for x in &classes[0] {
            for y in &classes[1] {
                joint.extend(classes[2].iter().map(|z| x * y * z));
            }
        }
        assert_probabilities(what, &increments.map(index).collect::<Vec<_>>(), &joint);
    }
    // The two sides are independent: their difference has the law of the difference.
    let end = lengths.iter().sum::<u64>();
    let far = draw(seed + 1, DRAWS / 4, |bits| bridge.noise(bridge.extend(B::ORIGIN, end, bits)));
    let near = samples[..DRAWS / 4].iter().map(|values| bridge.noise(values[2]));
    let shift = |x: i128| (x + (1 << 100)) as u128;
    assert_same_law(what, near.map(shift).collect(), far.into_iter().map(shift).collect());
}

#[test]
fn skellam_increments_are_independent_poissons() {
    for (i, (text, lengths)) in
        [("1", [1, 2, 3]), ("1/3", [5, 1, 1]), ("8", [1, 1, 2]), ("5/7", [2, 3, 1])].into_iter().enumerate()
    {
        let bridge = SkellamBridge::new(ratio(text), 1).unwrap();
        let rate = ratio(text).to_f64() / 2.0;
        let law = |length: u64| poisson_probabilities(rate * length as f64, 9);
        assert_increments(text, 700 + 2 * i as u64, &bridge, lengths, law);
    }
}

#[test]
fn polya_increments_are_independent_negative_binomials() {
    for (i, (text, lengths)) in
        [("1", [1, 2, 3]), ("1/3", [5, 1, 1]), ("3", [1, 1, 2]), ("5/7", [2, 3, 1])].into_iter().enumerate()
    {
        let bridge = PolyaBridge::new(ratio(text)).unwrap();
        let scale = ratio(text).to_f64();
        let law = |length: u64| negative_binomial_probabilities(length, scale, 9);
        assert_increments(text, 720 + 2 * i as u64, &bridge, lengths, law);
    }
}

/// P(G_a = k, G_{a+b} = n) from the bridge is the product of the increments' probabilities: the identity itself.
#[test]
fn polya_divides_negative_binomials() {
    for scale in [0.4, 1.0, 6.5] {
        for (near, far) in [(1, 1), (1, 4), (3, 2), (7, 7)] {
            let [a, b, both] = [near, far, near + far].map(|shape| negative_binomial_probabilities(shape, scale, 30));
            for n in 0..=30 {
                for (k, part) in polya_probabilities(n as u128, near, far).into_iter().enumerate() {
                    let joint = a[k] * b[n - k];
                    assert!((both[n] * part / joint - 1.0).abs() < 1e-11, "{scale} {near}:{far} {k} of {n}");
                }
            }
        }
    }
}

/// Many unit lengths at once, one by one, and by halves.
#[test]
fn long_paths_have_one_law() {
    fn check<B: Bridge>(what: &str, seed: u64, bridge: &B, length: u64) {
        const DRAWS: usize = 20_000;
        let shift = |x: i128| (x + (1 << 100)) as u128;
        let steps = draw(seed, DRAWS, |bits| {
            let end = (0..length).fold(B::ORIGIN, |value, _| bridge.extend(value, 1, bits));
            shift(bridge.noise(end))
        });
        let once = draw(seed + 1, DRAWS, |bits| shift(bridge.noise(bridge.extend(B::ORIGIN, length, bits))));
        let middle = draw(seed + 2, DRAWS, |bits| {
            let end = bridge.extend(B::ORIGIN, 2 * length, bits);
            let quarter = bridge.split(B::ORIGIN, end, length / 2, 2 * length - length / 2, bits);
            let half = bridge.split(quarter, end, length - length / 2, length, bits);
            shift(bridge.noise(half))
        });
        assert_same_law(what, steps.clone(), once);
        assert_same_law(what, steps, middle);
    }
    check("Skellam", 740, &SkellamBridge::new(ratio("1000003/7"), 16).unwrap(), 20);
    check("Laplace", 750, &PolyaBridge::new(ratio("1000003/7")).unwrap(), 20);
    check("Laplace", 760, &PolyaBridge::new(ratio("1/2")).unwrap(), 9);
}

#[test]
fn bridges_check_their_parameters() {
    assert!(SkellamBridge::new(ratio("19342813113834066795298817"), 1).unwrap_err().is_invalid());
    assert!(SkellamBridge::new(ratio("1/9223372036854775808"), 1).is_err());
    assert!(PolyaBridge::new(ratio("1125899906842625")).is_err());
    // The greatest lengths.
    let mut values = draw(770, 20, |bits| {
        let skellam = SkellamBridge::new(ratio("19342813113834066795298816"), 1).unwrap();
        let polya = PolyaBridge::new(ratio("1125899906842624")).unwrap();
        let ends = [skellam.extend([0; 2], 1 << 38, bits), polya.extend([0; 2], u64::MAX, bits)];
        let halves = [
            skellam.split([0; 2], ends[0], u64::MAX / 2, u64::MAX / 2 + 1, bits),
            polya.split([0; 2], ends[1], u64::MAX / 2, u64::MAX / 2 + 1, bits),
        ];
        (ends, halves)
    });
    values.dedup();
    assert_eq!(values.len(), 20);
    for (ends, halves) in values {
        for (end, half) in ends.into_iter().flatten().zip(halves.into_iter().flatten()) {
            assert!((half as f64 / end as f64 - 0.5).abs() < 1e-7);
        }
    }
}
