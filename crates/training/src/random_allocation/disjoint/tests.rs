//! The bounds against closed forms, integrals and Monte Carlo, whose significance level is 10⁻⁹ with fixed coins.

use super::super::coins::Coins;
use super::super::paths::Paths;
use super::super::removed::Tuples;
use super::super::tests::by_integration;
use super::*;
use crate::poisson_subsampling::{SampledGaussian, SampledGaussians};
use evertally::privacy::{Delta, Epsilon, conversions, gaussian};

/// Bins with disjoint rows of these squared norms.
fn disjoint(squares: &[f64]) -> RandomAllocation {
    let bins = squares.len();
    let entry = |at: usize| if at / bins == at % bins { squares[at % bins] } else { 0.0 };
    RandomAllocation::new(bins, (0..bins * bins).map(entry).collect()).unwrap()
}

fn equal(bins: u64, rounds: u64) -> DisjointBins {
    DisjointBins { kinds: vec![EqualBins { square: 1.0, count: bins }], rounds }
}

/// The noise of plans, by (ε, δ).
fn fine(bins: &DisjointBins, epsilon: f64, delta: f64) -> f64 {
    let mu = conversions::mu_for(Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap());
    noise(bins, (epsilon, delta), (bins.rounds as f64 * bins.kinds[0].square).sqrt() / mu, Coarseness::FINE)
}

/// One bin is Gaussian noise, in any number of rounds.
#[test]
fn one_bin_is_gaussian_noise() {
    for rounds in [1, 2, 7] {
        for (mu, epsilon) in [(0.5, 0.3), (1.0, 2.0), (2.0, 6.0), (0.3, 2.0)] {
            let truth = gaussian::delta(mu, epsilon);
            let noise = (rounds as f64).sqrt() / mu;
            let found = equal(1, rounds).delta(noise, epsilon, truth, Coarseness::FINE);
            let excess = found / truth - 1.0;
            assert!((0.0..5e-3).contains(&excess), "{rounds} rounds, μ = {mu}, ε = {epsilon}: {excess:e}");
        }
    }
}

/// Both directions of two bins, of the same norm or not. The integration itself is right to a thousandth.
#[test]
fn two_bins_are_those_of_an_integral() {
    let mut space = Workspace::default();
    for (squares, noise, epsilon) in [([1.0, 1.0], 0.8, 1.5), ([2.0, 1.0], 1.0, 1.0), ([1.0, 1.0], 2.0, 0.1)] {
        let bins = disjoint(&squares);
        let truth = by_integration(&bins, noise, epsilon);
        let ratios = Ratios::new(&DisjointBins::of(&bins).unwrap().kinds, 1, noise, 1e-4).unwrap();
        let removed = ratios.removed(epsilon, 1e-4, Coarseness::FINE, &mut space);
        let added = ratios.added(epsilon, 1e-6, Coarseness::FINE, &mut space);
        for (found, truth) in [(removed, truth.0), (added, truth.1)] {
            assert!((found / truth - 1.0).abs() < 2e-3, "{squares:?}, {noise}, {epsilon}: {found:e} {truth:e}");
        }
    }
}

/// The divergences of rounds whose law is computed on a geometric grid: one bin, which is Gaussian noise, in both
/// directions; several, where the other grid is as precise; and many that vary much, by the law of the one bin that
/// decides, given samples of the sum of the others (right to about 2 % of δ), for 4 rounds.
#[test]
fn rounds_on_a_geometric_grid_are_as_precise() {
    let mut space = Workspace::default();
    let mut both = |law: RoundLaw, epsilon: f64, wanted: f64| {
        let law = [law];
        let of = |direction, space: &mut Workspace| divergence(&law, direction, epsilon, (1e-30, wanted), space);
        (of(Direction::Remove, &mut space), of(Direction::Add, &mut space))
    };
    let ratios = |bins: u64, rounds, noise, wanted| Ratios::new(&equal(bins, rounds).kinds, rounds, noise, wanted);
    for (mu, epsilon, rounds) in [(1.0, 2.0, 2), (3.0, 6.0, 7), (2.0, 0.5, 3)] {
        let truth = gaussian::delta(mu, epsilon);
        let ratios = ratios(1, rounds, (rounds as f64).sqrt() / mu, truth).unwrap();
        let found = both(RoundLaw::on_geometric_grid(&ratios, rounds, truth, 2e-3), epsilon, truth);
        for excess in [found.0 / truth - 1.0, found.1 / truth - 1.0] {
            assert!((0.0..5e-3).contains(&excess), "{rounds} rounds, μ = {mu}, ε = {epsilon}: {excess:e}");
        }
    }
    for (bins, rounds, noise, epsilon) in [(16, 3, 0.9, 3.0), (60, 4, 0.8, 2.0)] {
        let mut space = Workspace::default();
        let wanted = equal(bins, rounds).delta(noise, epsilon, 1e-5, Coarseness::FINE);
        let ratios = ratios(bins, rounds, noise, wanted).unwrap();
        let (grid, tilts) = RoundLaw::fourier_grid(&ratios, rounds, (epsilon, wanted), Coarseness::FINE);
        let other = RoundLaw::on_fourier_grid(&ratios, rounds, wanted, (grid, &tilts), &mut space);
        let (own, other) = (
            both(RoundLaw::on_geometric_grid(&ratios, rounds, wanted, 3e-3), epsilon, wanted),
            both(other, epsilon, wanted),
        );
        assert!((own.0 / other.0 - 1.0).abs() < 5e-3, "{bins} bins, {rounds} rounds: {own:?} {other:?}");
        assert!(own.1 < other.1 * (1.0 + 5e-3), "{bins} bins, {rounds} rounds: {own:?} {other:?}");
    }
    for (noise, delta) in [(0.538_042_98, 9.755e-7), (0.5493, 4.399e-7)] {
        let found = equal(938, 4).delta(noise, 4.0, 1e-6, Coarseness::FINE) / delta;
        assert!((0.99..1.05).contains(&found), "{noise}: {found}");
    }
}

/// Limits far above the window take no memory.
#[test]
fn an_extreme_delta_has_an_epsilon() {
    let (bins, noise, enough) = (equal(40, 1), 0.1884, 110.0);
    assert!(gaussian::delta(1.0 / noise, enough) < 1e-50, "it suffices");
    let found = epsilon(&bins, noise, 1e-50, enough).unwrap();
    assert!(found > 38.0 && found <= enough, "{found}");
}

/// Many bins, bins of two norms, and rounds, against the weights of tuples.
#[test]
fn monte_carlo_agrees() {
    for (squares, rounds, noise, epsilon, paths) in [
        (vec![1.0; 40], 1, 1.04, 1.0, 1 << 13),
        ([vec![2.0; 10], vec![1.0; 30]].concat(), 1, 1.3, 1.0, 1 << 13),
        (vec![1.0; 20], 4, 1.4, 1.0, 1 << 12),
        (vec![1.0; 10], 3, 0.7, 7.0, 1 << 12),
    ] {
        let all = disjoint(&squares).in_rounds(rounds).unwrap();
        let tuples = Tuples::new(&all, noise).unwrap();
        let mut fresh = Paths::fresh(&all.factor, Coins::new("paths", &[1; 32], &[]));
        let mut tuple_coins = Coins::new("tuples", &[2; 32], &[]);
        let weights = tuples.weights(tuples.tightest(epsilon), epsilon, paths, &mut fresh, &mut tuple_coins);
        let spread = (weights.relative_variance() / weights.count as f64).sqrt();
        let bins = DisjointBins::of(&all).unwrap();
        let found = bins.delta(noise, epsilon, weights.mean(), Coarseness::FINE) / weights.mean();
        assert!(spread < 0.1 && (found - 1.0).abs() < 6.1 * spread, "{rounds} rounds: {found} {spread}");
    }
}

/// Least noise by importance sampling with 10⁷ draws (right to about 5 % of δ, half a percent of the noise), and that
/// of Poisson sampling, which is larger.
#[test]
fn noise_is_the_least() {
    for (bins, epsilon, delta, least) in
        [(40, 1.0, 1e-5, 1.038), (100, 0.5, 1e-5, 1.073), (500, 0.5, 1e-5, 0.79), (1000, 0.5, 1e-6, 0.785)]
    {
        let found = fine(&equal(bins, 1), epsilon, delta);
        assert!((found / least - 1.0).abs() < 5e-3, "{bins}: {found}");
        let step = SampledGaussian::new(1.0 / bins as f64, 1.0, bins).unwrap();
        let (epsilon, delta) = (Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap());
        let poisson = SampledGaussians::new(&[step]).unwrap().certified_factor_for(epsilon, delta).unwrap();
        assert!(found < poisson, "{bins}: {found} {poisson}");
    }
}

/// At a large ε the law is computed on a geometric grid: two bins against the integral, and more against Monte Carlo of
/// the last bin given the others, `benches/peers/allocation.py`, whose errors are below 10⁻⁴ of the noise.
#[test]
fn large_epsilon_is_as_precise() {
    let mut space = Workspace::default();
    for (squares, noise, epsilon) in [([1.0, 1.0], 0.7, 3.5), ([2.0, 1.0], 1.0, 4.0), ([1.0, 1.0], 0.6, 6.0)] {
        let bins = disjoint(&squares);
        let truth = by_integration(&bins, noise, epsilon).0;
        let ratios = Ratios::new(&DisjointBins::of(&bins).unwrap().kinds, 1, noise, truth).unwrap();
        let found = ratios.removed(epsilon, truth, Coarseness::FINE, &mut space) / truth;
        assert!((0.999..1.006).contains(&found), "{squares:?}, {noise}, {epsilon}: {found}");
    }
    for (bins, epsilon, delta, least) in
        [(2, 12.0, 1e-12, 0.60122), (40, 8.0, 1e-12, 0.64712), (1000, 8.0, 1e-5, 0.36366), (10, 20.0, 1e-5, 0.26718)]
    {
        let found = fine(&equal(bins, 1), epsilon, delta);
        assert!((found / least - 1.0).abs() < 5e-4, "{bins}, {epsilon}, {delta:e}: {found} {least}");
    }
}

/// Large ε, where one bin decides, tiny δ, and norms so small that they hardly matter.
#[test]
fn extremes_have_their_noise_too() {
    for (bins, rounds, epsilon, delta) in
        [(40, 1, 8.0, 1e-5), (2, 1, 20.0, 1e-6), (100, 1, 14.0, 1e-6), (20, 2, 3.5, 1e-5), (10, 3, 1.0, 1e-10)]
            .into_iter()
            .chain([(2, 2, 20.0, 1e-6), (2, 10, 16.0, 1e-12), (20, 20, 12.0, 1e-6)])
    {
        let bins = equal(bins, rounds);
        let found = fine(&bins, epsilon, delta);
        let known = fine(&equal(1, rounds), epsilon, delta);
        assert!(found < known, "{bins:?}, ε = {epsilon}: {found} {known}");
        let back = super::epsilon(&bins, found, delta, epsilon * 1.5).unwrap_or(f64::NAN);
        assert!((back / epsilon - 1.0).abs() < 1e-3, "{bins:?}, ε = {epsilon}: {back}");
    }
    // One bin that moves nothing halves what the other one reveals.
    let half = DisjointBins::of(&disjoint(&[1.0, 0.0])).unwrap();
    let (truth, found) = (0.5 * gaussian::delta(0.5, 0.0), half.delta(2.0, 1e-12, 0.1, Coarseness::FINE));
    assert!((found / truth - 1.0).abs() < 1e-3, "{found} {truth}");
}

#[test]
fn shared_rows_are_not_disjoint() {
    assert_eq!(DisjointBins::of(&RandomAllocation::new(2, vec![1.0, 0.1, 0.1, 1.0]).unwrap()), None);
    let many: Vec<f64> = (1..40).map(f64::from).collect();
    assert_eq!(DisjointBins::of(&disjoint(&many)), None);
    assert_eq!(DisjointBins::of(&disjoint(&[2.0, 1.0, 1.0])).unwrap().kinds.len(), 2);
}

/// Far above the least noise, bounds of δ are small everywhere, and a search for the least noise passes
/// it.
#[test]
fn more_noise_is_never_worse() {
    for (bins, rounds, epsilon, delta) in
        [(50, 7, 0.9255, 1e-6), (50, 7, 1.0795, 1e-6), (16, 12, 3.9, 1e-8), (200, 3, 0.2, 1e-7)]
    {
        let known = fine(&equal(1, rounds), epsilon, delta);
        let step = SampledGaussian::new(1.0 / bins as f64, 1.0, bins * rounds).unwrap();
        let target = (Epsilon::new(epsilon).unwrap(), Delta::new(delta).unwrap());
        let poisson = SampledGaussians::new(&[step]).unwrap().certified_factor_for(target.0, target.1).unwrap();
        let bins = equal(bins, rounds);
        let mut last = 0.0;
        for part in 0..200 {
            let noise = known * libm::exp(-0.01 * f64::from(part));
            let bound = bins.delta(noise, epsilon, delta, Coarseness::ROUGH) / delta;
            assert!(bound >= 0.5 * last || bound <= 0.5, "{bins:?}, {noise}: {last:e} {bound:e}");
            assert!(bound <= 0.5 || noise < 1.3 * poisson, "{bins:?}, {noise}: {bound:e}");
            last = bound;
        }
        let found = fine(&bins, epsilon, delta);
        assert!(found <= poisson && found > 0.9 * poisson, "{bins:?}, ε = {epsilon}: {found} {poisson}");
    }
}

/// Selected steps, steps, noise, δ, and the interval of ε that the accountant of Feldman and Shenfeld, PLD_accounting
/// 2.0, computes for them (`gaussian_allocation_epsilon_range`).
#[test]
fn selected_steps_agree_with_another_accountant() {
    for (selected, steps, noise, delta, range) in [
        (1, 40, 1.038, 1e-5, 0.980_482_47..1.014_633_75),
        (1, 100, 1.0737, 1e-5, 0.489_189_06..0.512_689_62),
        (4, 200, 1.2, 1e-5, 1.094_181_62..1.149_267_93),
        (10, 100, 2.0, 1e-6, 2.380_331_46..2.466_081_63),
        (3, 60, 1.0, 1e-5, 2.353_064_55..2.422_756_72),
    ] {
        let found = RandomAllocation::of_steps(selected, steps).unwrap();
        let found = found.epsilon(noise, Delta::new(delta).unwrap()).unwrap();
        assert!(range.contains(&found), "{selected} of {steps}: {found}, not in {range:?}");
    }
    assert!(RandomAllocation::of_steps(0, 5).unwrap_err().to_string().contains("1 to all 5 steps"));
    assert!(RandomAllocation::of_steps(6, 5).is_err());
    // A block that is not full counts as one that lacks its last step.
    assert_eq!(RandomAllocation::of_steps(3, 11).unwrap(), RandomAllocation::of_steps(3, 9).unwrap());
}
