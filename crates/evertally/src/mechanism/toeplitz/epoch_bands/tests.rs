use super::*;
use crate::mechanism::toeplitz::filter::tests::{by_rationals, every_placement_stays_below_the_bound, noise};
use crate::mechanism::{Criterion, NoiseKind};

const PATTERNS: [(u64, u64); 7] = [(1, 1), (2, 1), (3, 4), (4, 6), (4, 7), (6, 6), (24, 1)];

fn bands(horizon: u64, bands: u64, (most, apart): (u64, u64), objective: Objective) -> EpochBands {
    EpochBands::new(horizon, bands, Participation::new(most, apart).unwrap(), objective).unwrap()
}

/// All patterns of a participation.
fn patterns(horizon: usize, participation: Participation) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = (0..horizon).map(|t| vec![t]).collect();
    let mut from = 0;
    while from < all.len() {
        let pattern = all[from].clone();
        from += 1;
        let next = pattern.last().unwrap().saturating_add(participation.separation() as usize);
        if (pattern.len() as u64) < participation.most() {
            all.extend((next..horizon).map(|t| [pattern.clone(), vec![t]].concat()));
        }
    }
    all
}

/// The largest `‖R Δ‖²` over unit vectors, at most their absolute inner products, of every pattern.
fn by_force(of: &EpochBands, participation: Participation) -> f64 {
    let right = of.dense().r;
    let horizon = of.horizon() as usize;
    let product = |s: usize, t: usize| (0..horizon).map(|row| right.row(row)[s] * right.row(row)[t]).sum::<f64>();
    let figure = |pattern: Vec<usize>| {
        pattern
            .iter()
            .flat_map(|s| pattern.iter().map(move |t| (*s, *t)))
            .map(|(s, t)| product(s, t).abs())
            .sum::<f64>()
    };
    patterns(horizon, participation).into_iter().map(figure).fold(0.0, f64::max)
}

#[test]
fn left_times_right_is_the_prefix_sums() {
    for objective in Objective::BOTH {
        for mechanism in
            [bands(14, 4, (3, 4), objective), bands(9, 1, (9, 1), objective), bands(7, 7, (1, 1), objective)]
        {
            assert!(mechanism.dense().prefix_sum_error() < 1e-12);
        }
    }
}

#[test]
fn sensitivities_hold_against_every_pattern() {
    for (own, count) in [((4u64, 6u64), 6u64), ((4, 6), 3), ((8, 3), 3), ((2, 8), 8)] {
        let mechanism = bands(16, count, own, Objective::Max);
        for (most, apart) in PATTERNS {
            let participation = Participation::new(most.min(4), apart).unwrap();
            let (bound, truth) = (mechanism.participation_squared(participation), by_force(&mechanism, participation));
            assert!(bound >= truth * (1.0 - 1e-12), "{own:?} {most} {apart}: {bound} {truth}");
            if apart >= count {
                assert!(bound <= truth * (1.0 + 1e-9), "{own:?} {most} {apart}: {bound} {truth}");
            }
        }
    }
}

/// Known errors at `μ = 1` and norm 1; with columns of one length 13.28 and 10.87.
#[test]
fn errors_for_ten_epochs_of_51_steps() {
    let epochs = Participation::new(10, 51).unwrap();
    let error = |objective: Objective| {
        let mechanism = bands(512, 51, (10, 51), objective);
        (mechanism.participation_squared(epochs) * objective.row_norm_squared(&mechanism)).sqrt()
    };
    assert!(error(Objective::Max) < 13.05, "{}", error(Objective::Max));
    assert!(error(Objective::Mean) < 10.65, "{}", error(Objective::Mean));
}

#[test]
fn row_norms_are_those_of_the_rows() {
    let mechanism = bands(33, 5, (4, 8), Objective::Mean);
    for step in 1..=33 {
        let row: f64 = mechanism.row(step).iter().map(|x| x * x).sum();
        assert!((row - mechanism.row_norm_squared(step)).abs() < 1e-9 * row);
    }
}

#[test]
fn names_find_their_matrix_again_and_no_other() {
    let criterion = Criterion::from_vectors(Objective::Max, Participation::new(4, 6).unwrap());
    let asked: MechanismName = "epoch-bands(bands=6)".parse().unwrap();
    let built = asked.build(24, &criterion).unwrap();
    let whole: MechanismName = built.name().to_string().parse().unwrap();
    assert_eq!(whole, built.name());
    assert_eq!(whole.build(24, &criterion).unwrap().name(), whole);
    assert_eq!(whole.brief(), asked);
    let other = Criterion::from_vectors(Objective::Mean, Participation::new(4, 6).unwrap());
    assert!(whole.build(24, &other).unwrap_err().to_string().contains("has the digest"));
    for (name, horizon) in
        [("epoch-bands(bands=0)", 24), ("epoch-bands(bands=25)", 24), ("epoch-bands(bands=2)", 1 << 15)]
    {
        assert!(name.parse::<MechanismName>().unwrap().build(horizon, &criterion).is_err());
    }
    assert!("epoch-bands".parse::<MechanismName>().is_err());
    let counts = Criterion::new(NoiseKind::Gaussian, Objective::Max);
    assert!(asked.build(24, &counts).is_ok());
    let few: MechanismName = "epoch-bands(bands=2,run=12,gap=2)".parse().unwrap();
    assert!(few.build(24, &criterion).is_ok() && few.build(24, &counts).is_ok());
}

/// Over long horizons, where columns are cut off, the search finds the same as for fewer epochs of the same length.
#[test]
fn long_horizons_are_searched() {
    let figure = |name: &str, horizon: u64, most: u64| {
        let criterion = Criterion::from_vectors(Objective::Mean, Participation::new(most, 16).unwrap());
        let built = name.parse::<MechanismName>().unwrap().build(horizon, &criterion).unwrap();
        criterion.figure(&*built).sqrt()
    };
    let [long, short] = [320, 80].map(|epochs| figure("epoch-bands(bands=16)", 16 * epochs, epochs));
    // With many epochs, errors are nearly in proportion to their number.
    assert!(long / short > 2.8 && long / short < 4.2, "{long} {short}");
    assert!(long < figure("normalized-blt", 16 * 320, 320), "{long}");
}

/// With these first coefficients in units of 2^-16, and weights that change from step to step.
fn of_integers(horizon: usize, first: &[u32]) -> Result<EpochBands> {
    let mut rounded = first.to_vec();
    rounded.resize(horizon, 0);
    let weights = (0..horizon as u32).map(|t| (1 << WEIGHT_BITS) + 977 * (t % 7)).collect();
    EpochBands::from_integers(first.len() as u64, (Participation::ONCE, Sharpness::default()), rounded, weights)
}

/// `R̃`.
fn integer_matrix(of: &EpochBands) -> Vec<Vec<u128>> {
    let entry = |t: usize, j: usize| u128::from(of.rounded[t - j]) * u128::from(of.weights[j]);
    let row = |t: usize| (0..of.rounded.len()).map(|j| if j <= t { entry(t, j) } else { 0 }).collect();
    (0..of.rounded.len()).map(row).collect()
}

/// The release is the one of the definition, whichever precision decides it, also if the inverse hardly fades.
#[test]
fn slowly_fading_inverses_are_released_exactly() {
    let found = bands(60, 2, (30, 2), Objective::Max);
    for (mechanism, least) in [
        (found, 1),
        (of_integers(60, &[65536, 65536]).unwrap(), 5), // 1 - 1 + 1 - …
        (of_integers(60, &[65536, 65000, 64000]).unwrap(), 4),
        (of_integers(60, &[65536, 0, 65536, 20000]).unwrap(), 6), // grows
    ] {
        let FilterRows::Toeplitz(_, excess) = mechanism.rows else { panic!("a Toeplitz matrix") };
        assert!(excess >= least, "{excess}");
        let want = by_rationals(&integer_matrix(&mechanism));
        let coarse = || TriangularCursor::with_guard(mechanism.rows.clone(), Some(mechanism.weights.clone()), 10);
        let (mut usual, mut precise) = (mechanism.cursor(), coarse());
        for (step, want) in want.into_iter().enumerate() {
            assert_eq!(usual.advance(&mut noise), want, "{excess}: step {step}");
            assert_eq!(precise.advance(&mut noise), want, "{excess}: step {step}, in big integers");
        }
        // The largest value in every step, and one in the middle that lowers the guard on the way.
        for mut loud in [|_: Node| 1 << 73, |node: Node| if node.index == 30 { 1 << 73 } else { noise(node) }] {
            let (mut fast, mut slow) = (mechanism.cursor(), coarse());
            for step in 0..60 {
                assert_eq!(fast.advance(&mut loud), slow.advance(&mut loud), "{excess}: step {step}");
            }
        }
    }
    let grows = of_integers(100, &[65536, 0, 65536, 65536]).unwrap_err();
    assert!(grows.to_string().contains("grows"), "{grows}");
}

/// Every placement of a unit's events, by enumeration.
#[test]
fn events_stay_below_the_bound() {
    for mechanism in [bands(7, 2, (3, 2), Objective::Mean), of_integers(7, &[65536, 65536]).unwrap()] {
        every_placement_stays_below_the_bound(&mechanism, &integer_matrix(&mechanism));
    }
}

/// The same for steps with events that are nearer than there are bands, or farther, and for counts that do not fill
/// their steps: the bound is safe and close.
#[test]
fn events_of_units_that_return_early_nearly_reach_the_bound() {
    let slow = of_integers(8, &[65536, 40000, 30000, 25000]).unwrap();
    for (mechanism, most_above) in [(bands(8, 4, (4, 2), Objective::Max), 1.06), (slow, 1.15)] {
        let matrix = integer_matrix(&mechanism);
        for (total, per_step, separation) in
            [(3, 1, 1), (4, 1, 2), (3, 1, 3), (5, 2, 1), (5, 2, 2), (5, 3, 2), (3, 2, 3), (3, 2, 4), (5, 2, 5)]
        {
            let spread = Spread { separation, ..Spread::new(total, per_step) };
            let bound = mechanism.spread_squared(spread);
            let largest = placements(8, spread).into_iter().map(|u| squared_norm(&matrix, &u)).max().unwrap();
            assert!(largest <= bound, "{spread:?}: {largest} of {bound}");
            let above = bound as f64 / largest as f64;
            assert!(above < most_above, "{spread:?}: {above}");
        }
    }
}

/// All counts of a unit's events in this many steps.
fn placements(steps: usize, spread: Spread) -> Vec<Vec<u128>> {
    let mut all = vec![vec![]];
    for _ in 0..steps {
        let apart = spread.separation as usize - 1;
        let extended = all.into_iter().flat_map(|counts: Vec<u128>| {
            let is_near = counts.iter().rev().take(apart).any(|count| *count > 0);
            let left = u128::from(spread.total) - counts.iter().sum::<u128>();
            let most = if is_near { 0 } else { left.min(spread.per_step.into()) };
            (0..=most).map(move |count| [counts.clone(), vec![count]].concat())
        });
        all = extended.collect();
    }
    all
}

/// `‖R̃ u‖²`.
fn squared_norm(matrix: &[Vec<u128>], counts: &[u128]) -> u128 {
    let sum = |row: &Vec<u128>| row.iter().zip(counts).map(|(r, u)| r * u).sum::<u128>();
    matrix.iter().map(|row| sum(row).pow(2)).sum()
}

/// Counts and vectors have the same error for the same unit; values of counts are divided by the number of events.
#[test]
fn counts_lose_nothing_to_vectors() {
    let (runs, spread) = (Participation::new(6, 4).unwrap(), Spread { separation: 4, ..Spread::new(6, 1) });
    let name: MechanismName = "epoch-bands(bands=4)".parse().unwrap();
    let of = |criterion: Criterion| criterion.figure(&*name.build(48, &criterion).unwrap());
    let vectors = of(Criterion::from_vectors(Objective::Mean, runs));
    let counts = 6.0 * of(Criterion::new(NoiseKind::Gaussian, Objective::Mean).with_spread(spread));
    assert!((counts / vectors - 1.0).abs() < 1e-9, "{counts} {vectors}");
}
