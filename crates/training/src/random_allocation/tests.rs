//! The significance level of each statistical comparison is 10⁻⁹. Coins are fixed, so every test always passes or
//! always fails.

use super::bets::{Bet, DrawnWeights};
use super::coins::Coins;
use super::paths::Paths;
use super::removed::Tuples;
use super::rounds::PRECISE;
use super::shifted::Shifted;
use super::*;
use evertally::number::special::normal_cdf;

fn budget(epsilon: f64, delta: f64) -> (Epsilon, Delta) {
    (Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap())
}

/// Two bins with these inner products.
fn two(one: f64, both: f64, other: f64) -> RandomAllocation {
    RandomAllocation::new(2, vec![one, both, both, other]).unwrap()
}

fn density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// `(removed, added)` of two bins at this noise, by integrating over the plane that both move in.
pub(super) fn by_integration(bins: &RandomAllocation, noise: f64, epsilon: f64) -> (f64, f64) {
    let root = bins.product(0, 0).sqrt();
    let first = (root / noise, 0.0);
    let across = bins.product(0, 1) / root;
    let second = (across / noise, (bins.product(1, 1) - across * across).max(0.0).sqrt() / noise);
    divergences(epsilon, |x, y| {
        let likelihood = |by: (f64, f64)| (by.0 * x + by.1 * y - (by.0 * by.0 + by.1 * by.1) / 2.0).exp();
        (likelihood(first) + likelihood(second)) / 2.0
    })
}

/// `E_Q (M - e^ε)₊` and `E_Q (1 - e^ε M)₊` over two normal variables.
fn divergences(epsilon: f64, ratio: impl Fn(f64, f64) -> f64) -> (f64, f64) {
    let (step, reach) = (0.02, 9.0);
    let cells = (2.0 * reach / step) as i32;
    let place = |i: i32| -reach + step * (f64::from(i) + 0.5);
    let (mut removed, mut added) = (0.0, 0.0);
    for i in 0..cells {
        for j in 0..cells {
            let (x, y) = (place(i), place(j));
            let (mass, m) = (density(x) * density(y) * step * step, ratio(x, y));
            removed += mass * (m - epsilon.exp()).max(0.0);
            added += mass * (1.0 - epsilon.exp() * m).max(0.0);
        }
    }
    (removed, added)
}

#[test]
fn noise_is_enough_and_hardly_more() {
    for (bins, epsilon, delta) in [
        (two(1.0, 0.0, 1.0), 1.0, 1e-4),
        (two(1.0, 0.7, 1.0), 2.0, 1e-5),
        (two(2.0, 0.3, 1.0), 0.5, 1e-3),
        (two(1.0, 0.2, 1.0), 6.0, 1e-6),
    ] {
        let (e, d) = budget(epsilon, delta);
        let noise = bins.noise_for(e, d).unwrap();
        assert!(noise < bins.noise_if_known(e, d), "{noise}");
        let (removed, added) = by_integration(&bins, noise, epsilon);
        let worst = removed.max(added);
        assert!(worst <= delta && worst > 0.6 * delta, "{epsilon}: {removed:e} {added:e} for {delta:e}");
        let again = bins.epsilon(noise, d).unwrap();
        assert!((again / epsilon - 1.0).abs() < 0.03, "{epsilon}: {again}");
    }
}

/// One bin, and bins that all have the same vector, hide nothing.
#[test]
fn nothing_is_hidden_by_equal_bins() {
    let (e, d) = budget(1.0, 1e-5);
    let known = two(1.0, 0.0, 1.0).noise_if_known(e, d);
    assert_eq!(RandomAllocation::new(1, vec![1.0]).unwrap().noise_for(e, d).unwrap(), known);
    let equal = RandomAllocation::new(3, vec![1.0; 9]).unwrap().noise_for(e, d).unwrap();
    assert!(equal <= known && equal > 0.98 * known, "{equal} {known}");
}

#[test]
fn weights_have_delta_as_their_mean_and_stay_below_their_bound() {
    for (bins, noise, epsilon) in [(two(1.0, 0.4, 1.0), 1.0, 1.5), (two(1.0, 0.0, 2.0), 0.8, 3.0)] {
        let (truth, _) = by_integration(&bins, noise, epsilon);
        let tuples = Tuples::new(&bins, noise).unwrap();
        for longest in 2..4 {
            let mut paths = Paths::fresh(&bins.factor, Coins::new("paths", &[1; 32], &[]));
            let mut lots = Coins::new("lots", &[2; 32], &[]);
            let weights = tuples.weights(longest, epsilon, 1 << 15, &mut paths, &mut lots);
            let spread = (weights.relative_variance() / weights.count as f64).sqrt();
            let off = weights.mean() / truth - 1.0;
            assert!(spread < 0.1 && off.abs() < 6.1 * spread, "{longest}: {off} {spread}");
            let most = weights.positive.iter().copied().fold(0.0, f64::max);
            let bound = tuples.bound(longest, epsilon);
            // The bound is for one tuple; the mean of sixteen comes close to it only for few bins.
            assert!(most <= bound && most > 0.02 * bound, "{longest}: {most:e} {bound:e}");
        }
    }
}

/// Two bins along one line in each of two rounds, of `1` and `share`: `(removed, added)` by integrating over both
/// lines.
fn rounds_on_lines(share: f64, noise: f64, epsilon: f64) -> (f64, f64) {
    let line = |x: f64| {
        let likelihood = |by: f64| (by * x - by * by / 2.0).exp();
        (likelihood(1.0 / noise) + likelihood(share / noise)) / 2.0
    };
    divergences(epsilon, |x, y| line(x) * line(y))
}

#[test]
fn rounds_hide_each_others_bins() {
    let share = 0.3;
    for (epsilon, delta) in [(1.0, 1e-4), (3.0, 1e-5)] {
        let bins = two(1.0, share, share * share).in_rounds(2).unwrap();
        let (e, d) = budget(epsilon, delta);
        let noise = bins.noise_for(e, d).unwrap();
        assert!(noise < bins.noise_if_known(e, d), "{noise}");
        let (removed, added) = rounds_on_lines(share, noise, epsilon);
        let worst = removed.max(added);
        assert!(worst <= delta && worst > 0.6 * delta, "{epsilon}: {removed:e} {added:e} for {delta:e}");
        // Weights, and both bounds for an added example.
        let tuples = Tuples::new(&bins, noise).unwrap();
        let mut paths = Paths::fresh(&bins.factor, Coins::new("paths", &[1; 32], &[]));
        let weights = tuples.weights(4, epsilon, 1 << 15, &mut paths, &mut Coins::new("lots", &[2; 32], &[]));
        let spread = (weights.relative_variance() / weights.count as f64).sqrt();
        assert!(spread < 0.1 && (weights.mean() / removed - 1.0).abs() < 6.1 * spread, "{}", weights.mean() / removed);
        let most = weights.positive.iter().copied().fold(0.0, f64::max);
        assert!(weights.count == 1 << 15 && most <= tuples.bound(4, epsilon), "{most:e}");
        let paths = |purpose: &'static str, part: u64| {
            Paths::fresh(&bins.factor, Coins::new(purpose, &[5; 32], &[part as f64]))
        };
        let shifted = Shifted::new(&bins, noise);
        let bound = shifted.delta(epsilon, delta / 16.0, 25.0, paths);
        assert!(bound >= added && (bound < 3.0 * added || bound <= delta / 16.0), "{epsilon}: {bound:e} {added:e}");
        let law = shifted.by_law(PRECISE, epsilon, 25.0, &paths);
        assert!(law >= added && (law < 6.0 * added || epsilon == 3.0), "{epsilon}: {law:e} {added:e}");
    }
    assert!(two(1.0, 0.0, 1.0).in_rounds(0).unwrap_err().to_string().contains("rounds must be from 1 to 16384"));
}

/// Bets miss the mean at most as often as stated.
#[test]
fn bounds_of_means_hold() {
    let (surprise, count, mean) = (20f64.ln(), 4000, 0.01);
    let (mut missed, mut excess) = (0, 0.0);
    for run in 0..1500 {
        let mut coins = Coins::new("coverage", &[3; 32], &[f64::from(run)]);
        let mut weights = DrawnWeights::default();
        for _ in 0..count {
            // 1 and 4 in the ratio 4 : 1, with the mean 0.01.
            let place = coins.uniform();
            weights.push(if place < mean / 8.0 {
                4.0
            } else if place < mean * 5.0 / 8.0 {
                1.0
            } else {
                0.0
            });
        }
        let variance = (mean / 8.0 * 16.0 + mean / 2.0) / (mean * mean) - 1.0;
        let bound = weights.upper(Bet::new(count, 4.0, (mean, variance), surprise), 4.0);
        missed += u32::from(bound < mean);
        excess += bound / mean - 1.0;
    }
    // 5 % of 1500 are 75; six standard deviations above are 126.
    assert!((10..126).contains(&missed), "{missed}");
    assert!(excess / 1500.0 < 1.4, "{excess}");
}

#[test]
fn what_is_added_is_bounded_closely() {
    // Weights of shifted noise if ε is large; along a line; and by the line if it is straight.
    for (bins, noise, epsilon, wanted, slack) in [
        (two(1.0, 0.2, 1.0), 0.8, 5.0, 1e-4, 4.0),
        (two(1.0, 0.5, 1.0), 1.5, 2.2, 1e-4, 1.6),
        (two(1.0, 1.0 - 1e-9, 1.0), 1.0, 3.5, 1e-4, 1.5),
    ] {
        // The integration is right to a thousandth.
        let truth = by_integration(&bins, noise, epsilon).1 * (1.0 - 1e-3);
        let paths = |purpose: &'static str, part: u64| {
            Paths::fresh(&bins.factor, Coins::new(purpose, &[5; 32], &[part as f64]))
        };
        let shifted = Shifted::new(&bins, noise);
        let bound = shifted.delta(epsilon, wanted, 25.0, paths);
        assert!(bound >= truth && (bound < slack * truth || bound <= wanted), "{epsilon}: {bound:e} {truth:e}");
        let law = shifted.by_law(PRECISE, epsilon, 25.0, &paths);
        assert!(law >= truth && (law < 3.0 * truth || epsilon == 5.0), "{epsilon}: {law:e} {truth:e}");
    }
}

/// Rows `y_1 = v_1 + z_1` and `y_2 = c v_1 + v_2(y_1) + z_2` of an example that is in the first bin (`v_1`) or the
/// second (`v_2`, which may follow from `y_1`): whatever it does, at most as much is revealed as by `v = 1`
/// throughout.
#[test]
fn adaptive_vectors_show_no_more() {
    let (noise, epsilon, c) = (1.2, 0.7, 0.6);
    let bins = two(1.0 + c * c, c, 1.0);
    let pair = by_integration(&bins, noise, epsilon);
    let strategies: [(f64, &dyn Fn(f64) -> f64); 6] = [
        (1.0, &|_| 1.0),
        (1.0, &|_| -1.0),
        (1.0, &|y| if y > 0.5 { 1.0 } else { -1.0 }),
        (1.0, &|y| if y > 1.5 { 1.0 } else { 0.0 }),
        (-1.0, &|y| y.clamp(-1.0, 1.0)),
        (0.5, &|y| (3.0 * y).tanh()),
    ];
    let mut largest = (0.0f64, 0.0f64);
    for (first, second) in strategies {
        let shown = divergences(epsilon, |x, y| {
            let likelihood = |a: f64, b: f64| (a * x + b * y - (a * a + b * b) / 2.0).exp();
            let moved = second(x * noise) / noise;
            (likelihood(first / noise, c * first / noise) + likelihood(0.0, moved)) / 2.0
        });
        assert!(shown.0 <= pair.0 * (1.0 + 1e-6) && shown.1 <= pair.1 * (1.0 + 1e-6), "{shown:?} {pair:?}");
        largest = (largest.0.max(shown.0), largest.1.max(shown.1));
    }
    // The first case is the pair itself.
    assert!((largest.0 / pair.0 - 1.0).abs() < 1e-3 && (largest.1 / pair.1 - 1.0).abs() < 1e-3);
}

/// Independent noise in `b` bins of one step: `M` is a mean of independent variables, whose law is a convolution.
#[test]
fn many_bins_with_rows_of_their_own() {
    let (count, epsilon, delta) = (16usize, 1.0, 1e-4);
    let gram = (0..count * count).map(|at| f64::from(u8::from(at / count == at % count))).collect();
    let bins = RandomAllocation::new(count, gram).unwrap();
    let (e, d) = budget(epsilon, delta);
    let noise = bins.noise_for(e, d).unwrap();
    // The sum of the 16 on a grid, rounded up (for removal) by convolving four times with itself.
    let (step, cells) = (0.004, 40_000usize);
    let cdf = |value: f64| if value <= 0.0 { 0.0 } else { normal_cdf(noise * value.ln() + 0.5 / noise) };
    let mut law: Vec<f64> = (0..cells).map(|i| cdf((i as f64 + 0.5) * step) - cdf((i as f64 - 0.5) * step)).collect();
    for _ in 0..4 {
        law = evertally::number::fourier::RealConvolution::new(&law).of(&law);
    }
    let place = |i: usize| i as f64 * step / count as f64;
    let removed: f64 = law.iter().enumerate().map(|(i, p)| p * (place(i) - epsilon.exp()).max(0.0)).sum();
    let added: f64 = law.iter().enumerate().map(|(i, p)| p * (1.0 - epsilon.exp() * place(i)).max(0.0)).sum();
    let worst = removed.max(added);
    assert!(worst <= delta && worst > 0.998 * delta, "{removed:e} {added:e}");
}

/// If δ falls slowly with the noise, the search continues step by step to more noise, and does not give up.
#[test]
fn slow_curves_have_their_noise_too() {
    let gram = (0..64).map(|at| if at / 8 == at % 8 { 2.0 } else { 0.0 }).collect();
    let bins = RandomAllocation::new(8, gram).unwrap();
    for epsilon in [0.1, 0.107_710_7, 0.107_710_719_225_645, 0.2] {
        let (e, d) = budget(epsilon, 0.01156);
        let (noise, known) = (bins.noise_for(e, d).unwrap(), bins.noise_if_known(e, d));
        assert!(noise < 0.6 * known, "{epsilon}: {noise} {known}");
    }
}

#[test]
fn what_is_no_gram_matrix_is_refused() {
    let words = |bins: usize, gram: Vec<f64>| RandomAllocation::new(bins, gram).unwrap_err().to_string();
    assert!(words(0, vec![]).contains("with 1 to 2048 steps per epoch"));
    assert!(words(2, vec![1.0; 3]).contains("symmetric table"));
    assert!(words(2, vec![1.0, 0.2, 0.3, 1.0]).contains("symmetric table"));
    assert!(words(2, vec![1.0, -0.2, -0.2, 1.0]).contains("symmetric table"));
    assert!(words(3, vec![2.0, 1.0, 0.5, 1.0, 2.0, 1.0, 0.5, 0.5, 2.0]).contains("symmetric table"));
    assert!(RandomAllocation::new(3, vec![2.0, 1.0, 0.5, 1.0, 2.0, 1.0, 0.5, 1.0, 2.0]).is_ok());
    assert!(words(2, vec![1.0, 2.0, 2.0, 1.0]).contains("must be positive semidefinite"));
}

/// Coins are public: the same query has the same answer everywhere.
#[test]
fn answers_are_frozen() {
    let (e, d) = budget(1.0, 1e-5);
    let allocation = two(1.0, 0.3, 1.0);
    assert_eq!(allocation.certified_noise_for(e, d).unwrap(), 3.0367282300043237);
    // A noise computed step by step also suffices for the inverse.
    let noise = allocation.noise_for(e, d).unwrap();
    assert!((3.0367282300043237..3.0368 * 1.001).contains(&noise), "{noise}");
    assert!(allocation.epsilon(noise, d).unwrap() <= e.get());
}
