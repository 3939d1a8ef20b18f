//! BLT: norms compared with dense twins and another arithmetic, the optimiser compared with its targets.

mod release;

use super::aim::{GridObjective, PatternObjective};
use super::*;
use crate::mechanism::{Criterion, MechanismName, NoiseKind, Objective};

/// Parameters that no optimiser produced.
fn rough() -> Buffers {
    ROUGH.parse().unwrap()
}

/// Optimised for 2^40 steps.
fn long() -> Buffers {
    LONG.parse().unwrap()
}

pub(in crate::mechanism) const LONG: &str = concat!(
    "decay=3fffffffff7a15e6/3fffffffe8a601df/3ffffffcf0493704/3fffff999c587e98/3ffff29dfa2acaa0/",
    "3ffe4054747d370a/3fc597f21d8862b6/38c9efa0a83deb00,echo=8bfe93aa71b/2ac4b5ee22fb/f6c0979c9940/",
    "5923b89e5721a/203c1ac4758e60/ba656086392038/4319a537005b340/14ff55b2615f2d00"
);
pub(in crate::mechanism) const MIDDLE: &str = concat!(
    "decay=3ffffb1034c01361/3fff7de47bbbe994/3ff6548db8a1b183/3f4a112ebd2b02a0/33cc736bea431780,",
    "echo=193ef70314507c/558dcecb2882b4/1727a5b44f86070/635da1bec698a80/1512396631d47b00"
);
pub(in crate::mechanism) const ROUGH: &str =
    "decay=3c00000000000000/2000000000000000,echo=1000000000000000/800000000000000";
/// The longest decay allowed.
pub(in crate::mechanism) const LONGEST: &str = "decay=3ffffffffffc0000/3000000000000000,echo=40000/1000000000000000";

fn some(horizon: u64) -> Vec<Blt> {
    let mut found = vec![];
    for columns in ColumnScaling::BOTH {
        found.push(Blt::new(horizon, columns, rough()).unwrap());
        found.push(Blt::new(horizon, columns, long()).unwrap());
        found.push(Blt::best(horizon, columns, Objective::Max).unwrap());
        found.push(Blt::best(horizon, columns, Objective::Mean).unwrap());
    }
    found
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance * a.abs().max(b.abs())
}

#[test]
fn figures_are_those_of_the_dense_twin() {
    for horizon in [1, 2, 3, 5, 17, 64, 120, 260] {
        for blt in some(horizon) {
            let (name, dense) = (blt.name(), blt.dense());
            assert!(dense.prefix_sum_error() < 1e-11, "{name} at {horizon}: {}", dense.prefix_sum_error());
            let (ours, want) = (blt.column_norms(), dense.column_norms());
            assert!(ours.l1 >= want.l1 * (1.0 - 1e-14) && close(ours.l1, want.l1, 1e-10), "{name} at {horizon}");
            assert!(ours.l2_squared >= want.l2_squared * (1.0 - 1e-14), "{name} at {horizon}");
            assert!(close(ours.l2_squared, want.l2_squared, 1e-10), "{name} at {horizon}");
            let rows = dense.row_norms_squared();
            for (row, step) in rows.iter().zip(1..) {
                assert!(close(*row, blt.row_norm_squared(step), 1e-10), "{name} at {horizon}, step {step}");
            }
            let (max, mean) = (rows.iter().copied().fold(0.0, f64::max), rows.iter().sum::<f64>() / horizon as f64);
            assert!(close(max, blt.max_row_norm_squared(), 1.1e-7), "{name} at {horizon}");
            assert!(close(mean, blt.mean_row_norm_squared(), 1e-10), "{name} at {horizon}");
            if horizon <= 120 {
                let exact = dense.exact_l2_squared().unwrap();
                assert!(close(blt.exact_l2_squared().unwrap(), exact, 1e-8), "{name} at {horizon}");
            }
        }
    }
}

/// On long horizons: maximum and mean by enumeration, single rows by the recurrence of `L`, columns by summation.
#[test]
fn long_figures_are_those_of_an_enumeration() {
    for horizon in [5000, 1 << 16, (1 << 18) + 7] {
        for blt in some(horizon) {
            let (mut max, mut sum) = (0.0f64, 0.0);
            for step in 1..=horizon {
                let row = blt.row_norm_squared(step);
                (max, sum) = (max.max(row), sum + row);
            }
            assert!(close(max, blt.max_row_norm_squared(), 1.1e-7), "{} at {horizon}", blt.name());
            assert!(close(sum / horizon as f64, blt.mean_row_norm_squared(), 1e-10), "{} at {horizon}", blt.name());
            for step in [horizon / 1000, horizon / 2, horizon - 60, horizon] {
                let mut row = 0.0;
                blt.visit_row(step, &mut |_, entry| row += entry * entry);
                assert!(close(row, blt.row_norm_squared(step), 1e-8), "{} at {horizon}, {step}", blt.name());
            }
            columns_by_summation(&blt);
        }
    }
}

/// Every column, from the last, with the sums of its coefficients.
fn columns_by_summation(blt: &Blt) {
    let Modes { weights, poles, .. } = &blt.figures.response().direct;
    let mut powers: Vec<f64> = weights[..poles.len()].to_vec();
    let (mut l1, mut l2) = (1.0, 1.0);
    let mut largest = ColumnNorms { l1: 0.0, l2_squared: 0.0 };
    for step in (1..=blt.horizon).rev() {
        let scale = blt.figures.scale(step);
        largest.l1 = largest.l1.max(l1 / scale);
        largest.l2_squared = largest.l2_squared.max(l2 / (scale * scale));
        assert!(blt.scaling.is_plain() || l2 <= scale * scale * (1.0 + 1e-12), "{} at {step}", blt.name());
        let coefficient: f64 = powers.iter().sum();
        (l1, l2) = (l1 + coefficient, l2 + coefficient * coefficient);
        powers.iter_mut().zip(poles).for_each(|(power, pole)| *power -= pole.q * *power);
    }
    let ours = blt.column_norms();
    assert!(close(ours.l1, largest.l1, 1e-9) && close(ours.l2_squared, largest.l2_squared, 1e-9), "{}", blt.name());
}

/// Sums over up to 2^40 steps, computed with 90 digits from the frozen integers by another program.
#[test]
fn closed_forms_keep_their_digits() {
    for (buffers, horizon, l1, l2, max, mean) in GOLDEN {
        let blt = Blt::new(horizon, ColumnScaling::Plain, buffers.parse().unwrap()).unwrap();
        let norms = blt.column_norms();
        assert!(close(norms.l1, l1, 1e-11) && close(norms.l2_squared, l2, 1e-11), "{horizon}: {norms:?}");
        let (ours_max, ours_mean) = (blt.max_row_norm_squared(), blt.mean_row_norm_squared());
        assert!(close(ours_max, max, 1e-11) && close(ours_mean, mean, 1e-11), "{horizon}: {ours_max} {ours_mean}");
    }
}

/// Buffers, horizon, s1, s2², largest and mean row.
const GOLDEN: [(&str, u64, f64, f64, f64, f64); 7] = [
    (LONG, 1 << 40, 1105901.2955668143, 9.687367059041925, 10.403326401726828, 9.99033612562786),
    (LONG, 1000, 34.928607046484466, 3.2143065442189847, 3.3878180027732436, 3.0380933538810755),
    (LONG, 37, 6.584437271082876, 2.1563168632057788, 2.3125122338633366, 1.9627512839406067),
    (MIDDLE, 1 << 20, 1146.2169043673343, 5.44914339649408, 5.555659336291084, 5.225322932934143),
    (ROUGH, 1, 1.0, 1.0, 1.0, 1.0),
    (ROUGH, 100_000, 5.25, 1.6546094244149272, 3630.021036062595, 1815.9801891365357),
    (LONGEST, 1 << 40, 2.0605869371864727, 1.1428571428572598, 266633685812.95069, 134662667836.08646),
];

/// The gradient of every objective, against symmetric differences.
#[test]
fn gradients_are_those_of_differences() {
    for horizon in [3, 40, 3000, 1 << 30] {
        for columns in ColumnScaling::BOTH {
            let objectives = [
                GridObjective::mean(horizon, columns),
                GridObjective::max(horizon, columns, 7.0),
                GridObjective::max(horizon, columns, 80.0),
            ];
            for (objective, count) in objectives.iter().zip([2, 3, 5]) {
                let y: Vec<f64> =
                    (0..2 * count).map(|m| if m == 0 { -3.0 } else { -0.7 + 0.3 * f64::from(m) % 0.8 }).collect();
                check_gradient(&y, &|y: &[f64]| objective.evaluate(y));
            }
        }
    }
}

/// The same for units with events in several steps: patterns that are summed row by row, and those in closed form.
#[test]
fn gradients_for_patterns_are_those_of_differences() {
    for (horizon, most, separation) in [(40, 5, 3), (3000, 20, 1), (3000, 40, 60), (3000, 300, 1), (1 << 30, 1000, 7)] {
        let runs = Participation::new(most, separation).unwrap();
        for columns in ColumnScaling::BOTH {
            for (grid, count) in
                [(GridObjective::mean(horizon, columns), 2), (GridObjective::max(horizon, columns, 30.0), 4)]
            {
                let objective = PatternObjective::new(grid, runs);
                let y: Vec<f64> =
                    (0..2 * count).map(|m| if m == 0 { -4.0 } else { -0.7 + 0.3 * f64::from(m) % 0.8 }).collect();
                check_gradient(&y, &|y: &[f64]| objective.evaluate(y, &|_| true).unwrap());
                assert!(objective.evaluate(&y, &|_| false).is_none());
            }
        }
    }
}

fn check_gradient(y: &[f64], evaluate: &dyn Fn(&[f64]) -> (f64, Vec<f64>)) {
    let gradient = evaluate(y).1;
    let size = gradient.iter().map(|g| g.abs()).fold(1e-3, f64::max);
    for m in 0..y.len() {
        let at = |offset: f64| {
            let mut moved = y.to_vec();
            moved[m] += offset;
            evaluate(&moved).0
        };
        let difference = (8.0 * (at(1e-3) - at(-1e-3)) - at(2e-3) + at(-2e-3)) / 12e-3;
        assert!((gradient[m] - difference).abs() < 1e-7 * size, "coordinate {m}: {} {difference}", gradient[m]);
    }
}

/// The objective of a plain one for a unit is its exact figure.
#[test]
fn plain_objectives_for_patterns_are_exact() {
    let y = [-6.0, -0.2, 0.3, 0.1];
    let (poles, inverse) = aim::interlaced(&aim::rates(&y));
    let response = PartialFractions::from_poles(poles, inverse);
    for (most, separation) in [(3, 4), (20, 60), (400, 2)] {
        let runs = Participation::new(most, separation).unwrap().over(1000);
        let rows = RowFigures::new(response.clone(), &segments::plain(1000), 0).max();
        let figure = participation::plain(&response, 1000, runs) * rows;
        let grid = GridObjective::max(1000, ColumnScaling::Plain, 1.0);
        let value = PatternObjective::new(grid, runs).evaluate(&y, &|_| true).unwrap().0;
        assert!(close(libm::exp(value), figure, 1e-9), "{runs:?}");
    }
}

/// On a grid of every step, the objective is the exact value.
#[test]
fn objectives_are_the_figures_of_short_horizons() {
    let y = [-2.0, -0.2, 0.3, 0.1];
    let (poles, inverse) = aim::interlaced(&aim::rates(&y));
    let response = PartialFractions::from_poles(poles, inverse);
    for horizon in [1, 2, 5, 9] {
        let figures = RowFigures::new(response.clone(), &segments::plain(horizon), 0);
        let norm = response.column_norm_squared(horizon as f64);
        for (objective, figure) in [
            (GridObjective::mean(horizon, ColumnScaling::Plain), figures.mean()),
            (GridObjective::max(horizon, ColumnScaling::Plain, 9.0), figures.max()),
        ] {
            assert!(close(libm::exp(objective.evaluate(&y).0), norm * figure, 1e-12), "{objective:?}");
        }
        // The weights of a normalized one are rounded down: by one part in 2^12, squared.
        let segments = segments::normalized(&response, horizon);
        let figures = RowFigures::new(response.clone(), &segments, WEIGHT_BITS);
        let mean = libm::exp(GridObjective::mean(horizon, ColumnScaling::Normalized).evaluate(&y).0);
        assert!(close(mean, figures.mean(), 1e-3), "{horizon}: {mean} {}", figures.mean());
    }
}

/// 2ρ·variance of the square root: `(Σ f_j²)²`.
fn square_root_max(horizon: u64) -> f64 {
    let (mut f, mut sum) = (1.0, 0.0);
    for j in 1..=horizon {
        sum += f * f;
        f *= (2 * j - 1) as f64 / (2 * j) as f64;
    }
    sum * sum
}

#[test]
fn targets_are_reached() {
    let figure = |horizon, columns, buffers, objective| {
        Blt::optimised(horizon, columns, buffers, objective).unwrap().figure(objective)
    };
    assert!(figure(1024, ColumnScaling::Plain, 4, Objective::Max) < square_root_max(1024) * 1.001);
    assert!(figure(1 << 20, ColumnScaling::Plain, 5, Objective::Max) < square_root_max(1 << 20) * 1.01);
    assert!(figure(1 << 20, ColumnScaling::Plain, 8, Objective::Max) < square_root_max(1 << 20) * 1.0003);
    assert!(figure(1024, ColumnScaling::Normalized, 4, Objective::Max) < 9.483);
    assert!(figure(1024, ColumnScaling::Normalized, 4, Objective::Mean) < 8.947);
    assert!(figure(1 << 20, ColumnScaling::Normalized, 7, Objective::Max) < 27.84);
    assert!(figure(1 << 20, ColumnScaling::Normalized, 7, Objective::Mean) < 26.88);
    // The choice of the number of buffers.
    let best = Blt::best(1_000_000, ColumnScaling::Normalized, Objective::Max).unwrap();
    assert!(
        best.figure(Objective::Max) < 27.81 && best.buffers().decays().len() == 7,
        "{} {:?}",
        best.figure(Objective::Max),
        best
    );
    assert_eq!(Blt::best(1024, ColumnScaling::Normalized, Objective::Max).unwrap().buffers().decays().len(), 4);
}

/// Any horizon: never below the lower bound, the normalized one not above the plain one, more buffers no worse.
#[test]
fn optimisation_succeeds_at_every_horizon() {
    for horizon in (1..=24).chain([100, 1000, 10_000, 1 << 24, 1 << 30, (1 << 34) + 1, 1 << 40]) {
        let bound = crate::plan::gaussian_lower_bound(horizon).powi(2);
        for objective in Objective::BOTH {
            let [plain, normalized] =
                ColumnScaling::BOTH.map(|columns| Blt::best(horizon, columns, objective).unwrap());
            let (p, n) = (plain.figure(objective), normalized.figure(objective));
            assert!(p >= bound * (1.0 - 1e-9) && n >= bound * (1.0 - 1e-9), "{horizon}: {p}, {n}, bound {bound}");
            // At a horizon of 2 two numbers determine everything, and rounded weights cost more than they gain.
            assert!(n <= p * 1.0005 && p <= bound * 1.45, "{horizon} {objective}: {p}, {n}, bound {bound}");
            let one = Blt::optimised(horizon, ColumnScaling::Normalized, 1, objective).unwrap();
            assert!(one.figure(objective) >= n * (1.0 - 1e-9), "{horizon}");
        }
        if horizon <= 10_000 {
            let plain = Blt::best(horizon, ColumnScaling::Plain, Objective::Max).unwrap().figure(Objective::Max);
            assert!(plain <= square_root_max(horizon) * 1.001, "{horizon}: {plain}");
        }
    }
    let square_root =
        MechanismName::NormalizedSqrt.build(2000, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).unwrap();
    let ours = Blt::best(2000, ColumnScaling::Normalized, Objective::Max).unwrap().figure(Objective::Max);
    assert!(ours < Criterion::new(NoiseKind::Gaussian, Objective::Max).figure(&*square_root) * 1.002, "{ours}");
}

/// Segments cover all steps, weights grow towards the end, and memory stays logarithmic.
#[test]
fn segments_are_few_and_cover_all_steps() {
    for horizon in [1, 2, 49, 50, 51, 1000, 1 << 20, 1 << 40] {
        let blt = Blt::new(horizon, ColumnScaling::Normalized, long()).unwrap();
        let segments = blt.constants.segments();
        assert!(segments.windows(2).all(|pair| pair[0].last < pair[1].last && pair[0].weight < pair[1].weight));
        let last = segments[segments.len() - 1];
        assert_eq!((last.last, last.weight), (horizon, 1 << WEIGHT_BITS));
        assert!(segments.len() < 1300, "{horizon}: {}", segments.len());
    }
}

#[test]
fn parameters_and_names_round_trip_and_bad_ones_are_refused() {
    for (columns, stem) in [(ColumnScaling::Plain, "blt"), (ColumnScaling::Normalized, "normalized-blt")] {
        let blt = Blt::optimised(500, columns, 3, Objective::Mean).unwrap();
        let name: MechanismName = blt.name().to_string().parse().unwrap();
        assert_eq!(name, blt.name());
        let again = name.build(500, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).unwrap();
        assert_eq!((again.name(), again.max_row_norm_squared()), (blt.name(), blt.max_row_norm_squared()));
        for open in [stem.to_owned(), format!("{stem}(buffers=3)")] {
            assert_eq!(open.parse::<MechanismName>().unwrap().to_string(), open);
        }
        let built = format!("{stem}(buffers=3)").parse::<MechanismName>().unwrap();
        let built = built.build(500, &Criterion::new(NoiseKind::Gaussian, Objective::Mean)).unwrap();
        assert_eq!(built.name(), blt.name());
        for bad in ["(decay=1)", "(buffers=3,decay=1,echo=1)", "(buffers=x)", "(decay=1,echo=x)", "(k=3)"] {
            assert!(format!("{stem}{bad}").parse::<MechanismName>().is_err(), "{bad}");
        }
    }
    let half = 1 << 61;
    for (decays, echoes) in [
        (&[][..], &[][..]),
        (&[half], &[]),
        (&[half, half], &[1, 1]),
        (&[1, half], &[1, 1]),
        (&[half + 9, half], &[1, 1]),
        (&[0], &[1]),
        (&[half], &[0]),
        (&[half], &[half]),
        (&[half + half / 4, half], &[half, half / 4]),
        (&[(1 << 62) - (1 << 18) + 1], &[1]),
        (&[9, 8, 7, 6, 5, 4, 3, 2, 1], &[1; 9]),
    ] {
        assert!(Buffers::new(decays, echoes).is_err(), "{decays:?} {echoes:?}");
    }
    assert!(Buffers::new(&[half], &[half - 1]).is_ok());
    assert!(
        Blt::new(0, ColumnScaling::Normalized, rough()).is_err()
            && Blt::new((1 << 40) + 1, ColumnScaling::Plain, rough()).is_err()
    );
    assert!(
        Blt::optimised(9, ColumnScaling::Normalized, 0, Objective::Max).is_err()
            && Blt::optimised(1 << 20, ColumnScaling::Normalized, 9, Objective::Max).is_err()
    );
}

/// A number of buffers that a short horizon cannot support is lowered; one that no horizon supports is rejected.
#[test]
fn short_horizons_take_fewer_buffers() {
    for horizon in [1, 2, 3, 7, 64] {
        for columns in ColumnScaling::BOTH {
            let blt = Blt::chosen(horizon, columns, BufferChoice::Count(8), Objective::Max).unwrap();
            assert!((1..=8).contains(&blt.buffers().decays().len()), "{horizon}");
            let figure = blt.column_norms().l2_squared * blt.max_row_norm_squared();
            let one = Blt::optimised(horizon, columns, 1, Objective::Max).unwrap();
            let single = one.column_norms().l2_squared * one.max_row_norm_squared();
            assert!(figure <= single * (1.0 + 1e-3), "{horizon}: {figure} {single}");
        }
    }
    assert!(Blt::chosen(1000, ColumnScaling::Plain, BufferChoice::Count(9), Objective::Max).is_err());
    assert!(Blt::chosen(1000, ColumnScaling::Plain, BufferChoice::Count(0), Objective::Max).is_err());
}

/// Columns of one entry have norm 1 for all buffers, and decays that floating point cannot distinguish from 0 are
/// rejected.
#[test]
fn tiny_decays_do_not_hide_a_sensitivity() {
    for text in ["decay=2,echo=1", "decay=3c00000000000000/2,echo=1000000000000000/1", "decay=3fffff,echo=1"] {
        assert!(text.parse::<Buffers>().is_err(), "{text}");
    }
    for text in ["decay=400000,echo=1", "decay=3000000000000000/400000,echo=1000000000000000/1"] {
        for (horizon, columns) in
            [1, 4].into_iter().flat_map(|horizon| ColumnScaling::BOTH.map(|columns| (horizon, columns)))
        {
            let blt = Blt::new(horizon, columns, text.parse().unwrap()).unwrap();
            let unit = (1u128 << blt.noise_bits()) as f64;
            let norm = blt.spread_squared(Spread::ONE) as f64 / unit / unit;
            assert!(norm >= 0.999 && blt.column_norms().l2_squared >= 0.999, "{text} over {horizon}: {norm}");
        }
    }
}

/// Weights never fall with the step, which bounds by pairs rely on: not even if the last bits of the norms are out of
/// order just where a weight changes. (Found by search.)
#[test]
fn weights_never_fall() {
    let horizon = 1 << 20;
    let buffers =
        "decay=3ff531b161577000/3fe8c2c897d7de00/34d218df1cd36800,echo=921e00805033d81/aadfb9828988a81/65bf553719fe520";
    let response = PartialFractions::from_buffers(&buffers.parse().unwrap());
    let longest = |shortest: u64| (shortest + shortest / 50).min(horizon);
    let lengths = std::iter::successors(Some(longest(1)), |last| Some(longest(last + 1)));
    let norms: Vec<f64> =
        lengths.take_while(|n| *n < horizon).map(|n| response.column_norm_squared(n as f64)).collect();
    assert!(norms.windows(2).any(|pair| pair[0] > pair[1]), "an example that tests nothing");
    let segments = segments::normalized(&response, horizon);
    assert!(segments.windows(2).all(|pair| pair[0].weight < pair[1].weight), "{segments:?}");
}

/// Buffers whose number is given are chosen for the unit, too, in counts and for vectors: about as good as the best
/// number, which another library finds.
#[test]
fn a_number_of_buffers_is_chosen_for_the_unit() {
    let unit = Participation::new(10, 7).unwrap();
    let spread = Spread { separation: 7, ..Spread::new(10, 1) };
    let vectors = Criterion::from_vectors(Objective::Max, unit);
    let counts = Criterion::new(NoiseKind::Gaussian, Objective::Max).with_spread(spread);
    for (name, most) in [("blt(buffers=3)", 366.0), ("normalized-blt(buffers=3)", 314.0)] {
        let name: MechanismName = name.parse().unwrap();
        let of_vectors = vectors.figure(&*name.build(500, &vectors).unwrap());
        let of_counts = 10.0 * counts.figure(&*name.build(500, &counts).unwrap());
        assert!(of_vectors < most && of_counts < most, "{name}: {of_vectors}, {of_counts}");
    }
}

/// Not above the optima that jax-privacy 2.0.0 finds, up to the last buffer of an echo of 0.04: a slow buffer, hardly
/// decaying before the horizon, besides those of the time until the unit returns.
#[test]
fn units_that_return_late_get_a_floor() {
    for (most, separation, theirs) in [(7, 54, 127.3406), (5, 99, 71.5231), (10, 7, 365.8)] {
        let unit = Participation::new(most, separation).unwrap();
        let found = Blt::best_for(500, ColumnScaling::Plain, Objective::Max, unit).unwrap();
        let figure = found.participation_squared(unit) * found.max_row_norm_squared();
        assert!(figure < 1.0003 * theirs, "{most} steps {separation} apart: {figure}, theirs {theirs}");
    }
}

/// Nor are those with a given number of buffers, some of which are of no use: they have the memory of fewer.
#[test]
fn added_buffers_cost_nothing() {
    for (horizon, most, separation, objective, count, theirs) in [
        (46, 2, 45, Objective::Mean, 3, 6.23645),
        (24, 6, 4, Objective::Max, 4, 52.3116),
        (52, 24, 2, Objective::Mean, 3, 384.212),
        (181, 5, 35, Objective::Mean, 4, 41.9552),
        (30, 2, 21, Objective::Mean, 4, 7.72964),
        (31, 8, 4, Objective::Mean, 4, 52.915),
    ] {
        let unit = Participation::new(most, separation).unwrap();
        let criterion = Criterion::from_vectors(objective, unit);
        let found = MechanismName::Blt(BufferChoice::Count(count)).build(horizon, &criterion).unwrap();
        let figure = criterion.figure(&*found);
        assert!(figure < 1.0003 * theirs, "{horizon} steps, {unit:?}, {count} buffers: {figure}, theirs {theirs}");
    }
}
