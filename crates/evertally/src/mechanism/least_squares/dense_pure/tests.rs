//! The search against dense algebra and known values; the release against its definition.

use super::candidate::{Aim, evaluate};
use super::release::{DIGITS, share};
use super::*;
use crate::mechanism::NoiseKind;
use crate::mechanism::rounding::FRACTION_BITS;
use nalgebra::DMatrix;

fn found(horizon: u64, objective: Objective) -> DensePure {
    DensePure::search(horizon, objective, &mut |_, _| ControlFlow::Continue(())).unwrap()
}

fn several() -> Vec<DensePure> {
    [1, 2, 3, 9, 20, 41]
        .into_iter()
        .flat_map(|horizon| [found(horizon, Objective::Mean), found(horizon, Objective::Max)])
        .collect()
}

/// ε²·variance.
fn figures(found: &DensePure) -> (f64, f64) {
    let s1 = found.column_norms().l1;
    (2.0 * s1 * s1 * found.mean_row_norm_squared(), 2.0 * s1 * s1 * found.max_row_norm_squared())
}

/// `R̃` written down from the bumps, and `A R̃⁺`, by another library's linear algebra.
fn dense(found: &DensePure) -> (DMatrix<f64>, DMatrix<f64>) {
    let (bumps, steps) = (&found.shape.bumps, found.horizon() as usize);
    let bump = |b: &Bump, j: usize| {
        j.checked_sub(b.first.into()).and_then(|i| b.weights.get(i)).map_or(0.0, |w| f64::from(*w))
    };
    let left = |j: usize| 65536.0 - bumps.iter().map(|b| bump(b, j)).sum::<f64>();
    let r = DMatrix::from_fn(steps + bumps.len(), steps, |i, j| match i.checked_sub(steps) {
        Some(b) => bump(&bumps[b], j),
        None => left(j) * f64::from(u8::from(i == j)),
    });
    let a = DMatrix::from_fn(steps, steps, |i, j| f64::from(u8::from(j <= i)));
    (a * (r.transpose() * &r).try_inverse().unwrap() * r.transpose(), r)
}

#[test]
fn figures_rows_and_sensitivity_match_dense_linear_algebra() {
    for found in several() {
        let (name, (l, r)) = (found.name(), dense(&found));
        let twin = found.dense();
        assert!(twin.prefix_sum_error() < 1e-9, "{name}: L R is not A");
        assert_eq!(twin.column_norms(), found.column_norms(), "{name}");
        for (step, row) in twin.row_norms_squared().into_iter().enumerate() {
            let ours = found.row_norm_squared(step as u64 + 1);
            assert!((ours / row - 1.0).abs() < 1e-9, "{name} step {step}");
            assert!((ours / l.row(step).norm_squared() - 1.0).abs() < 1e-9, "{name} step {step}");
            for node in 0..r.nrows() {
                assert_eq!(twin.r.row(node)[step], r[(node, step)], "{name} R at {node}, {step}");
                let error = (twin.l.row(step)[node] - l[(step, node)]).abs();
                assert!(error < 1e-9 * ours.sqrt(), "{name} L at {step}, {node}");
            }
        }
        for (row, node) in twin.nodes.iter().enumerate() {
            let (first, last) = found.node_span(*node);
            let used: Vec<u64> = (1..).zip(twin.r.row(row)).filter(|(_, w)| **w > 0.0).map(|(step, _)| step).collect();
            assert_eq!((used.first(), used.last()), (Some(&first), Some(&last)), "{name} {node:?}");
        }
        for j in 0..r.ncols() {
            assert_eq!(r.column(j).sum(), 65536.0, "{name}: column {j}");
        }
        assert_eq!(found.laplace().unwrap().column_sum, 65536);
        let mean = l.row_iter().map(|row| row.norm_squared()).sum::<f64>() / l.nrows() as f64;
        assert!((found.mean_row_norm_squared() / mean - 1.0).abs() < 1e-9, "{name}");
    }
}

/// The tails of every row are no heavier than those of the equal terms it is compared with, and no larger number of
/// equal terms would do.
#[test]
fn row_laws_bound_the_fourth_moment() {
    for found in several() {
        let (l, _) = dense(&found);
        for step in 1..=found.horizon() {
            let row = l.row(step as usize - 1);
            let (second, fourth) = (row.norm_squared(), row.iter().map(|w| w.powi(4)).sum::<f64>());
            match found.row_law(step) {
                RowLaw::Sum(terms) => assert!(terms.len() == 1 && (terms[0].0.powi(2) / second - 1.0).abs() < 1e-9),
                RowLaw::Like { norm_squared, terms } => {
                    let allowed = |terms: u64| norm_squared * norm_squared / terms as f64;
                    assert!(fourth <= allowed(terms) * (1.0 + 1e-8), "{} step {step}", found.name());
                    assert!(fourth > allowed(terms + 1) * (1.0 - 1e-8), "{} step {step}", found.name());
                }
            }
        }
    }
}

/// Every placement of a unit's events stays below the bound, by enumeration; one event is exact.
#[test]
fn spread_events_stay_below_the_bound() {
    let steps = 7;
    let bump = |first, weights: &[u16]| Bump { first, weights: weights.to_vec() };
    let given = DensePure::assemble(
        steps,
        Objective::Mean,
        vec![
            bump(0, &[9000, 30000, 50000, 20000]),
            bump(2, &[400, 0, 30000, 61000, 900]),
            bump(1, &[5, 5, 5, 5, 5, 5]),
        ],
    )
    .unwrap();
    for found in [given, found(steps, Objective::Max)] {
        let (_, r) = dense(&found);
        for spread in [(1, 1), (4, 1), (4, 2), (3, 3), (2, 1)].map(|(total, per_step)| Spread::new(total, per_step)) {
            let bound = found.spread_squared(spread) as f64;
            let base = spread.per_step + 1;
            let mut reached = 0.0f64;
            for code in 0..base.pow(steps as u32) {
                let u = nalgebra::DVector::from_fn(steps as usize, |t, _| (code / base.pow(t as u32) % base) as f64);
                if u.sum() <= spread.total as f64 {
                    reached = reached.max((&r * u).norm_squared());
                }
            }
            assert!(reached <= bound, "{} {spread:?}: {reached} > {bound}", found.name());
            assert!(reached > bound / 2.0, "{} {spread:?}: {reached} of {bound}", found.name());
            if spread == Spread::ONE {
                assert_eq!(reached, bound, "{}", found.name());
            }
        }
        let huge = Spread::new(u64::MAX, u64::MAX);
        assert_eq!(found.spread_squared(huge), u128::MAX, "nothing wraps around");
    }
}

/// Both objectives: the value from the definition, the derivatives by central differences.
#[test]
fn derivatives_are_those_of_the_definition() {
    let levels = [(3.0, 0.3), (6.0, 0.36)];
    let mut start = BumpCandidate::hats(13, &levels);
    let bumpy = |i: usize| 1.0 + 0.3 * libm::sin(7.0 * i as f64);
    start.theta.iter_mut().enumerate().for_each(|(i, theta)| *theta *= bumpy(i));
    let a = DMatrix::from_fn(13, 13, |i, j| f64::from(u8::from(j <= i)));
    for aim in [Aim::Mean, Aim::PowerMean { log_power: 0 }, Aim::PowerMean { log_power: 3 }] {
        let mut gradient = vec![0.0; start.theta.len()];
        let value = evaluate(&start.layout, aim, &start.theta, &mut gradient);
        let entries = start.entries();
        let r = DMatrix::from_fn(13 + start.bumps(), 13, |i, j| match i.checked_sub(13) {
            None => entries[i] * f64::from(u8::from(i == j)),
            Some(bump) => {
                let inside = start.layout.spans()[bump].contains(&j);
                if inside { entries[start.layout.entries(bump)][j - start.layout.spans()[bump].start] } else { 0.0 }
            }
        });
        assert!((0..13).all(|j| (r.column(j).sum() - 1.0).abs() < 1e-14));
        let rows = &a * (r.transpose() * &r).try_inverse().unwrap() * a.transpose();
        let power = if let Aim::PowerMean { log_power } = aim { f64::from(1 << log_power) } else { 1.0 };
        let want = 2.0 * ((0..13).map(|t| rows[(t, t)].powf(power)).sum::<f64>() / 13.0).powf(1.0 / power);
        assert!((value / want - 1.0).abs() < 1e-11, "{aim:?}: {value} {want}");
        let mut unused = gradient.clone();
        for (entry, slope) in gradient.iter().enumerate() {
            let mut at = |step: f64| {
                let mut theta = start.theta.clone();
                theta[entry] += step;
                evaluate(&start.layout, aim, &theta, &mut unused)
            };
            let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - difference).abs() < 1e-6 * (1.0 + slope.abs()), "{aim:?} {entry}: {slope} {difference}");
        }
    }
}

/// A bump on a single step is worth less than its weight on the diagonal; a vanished one is dropped; nothing else
/// changes.
#[test]
fn tidying_does_no_harm() {
    let spans = vec![2..9, 4..5, 0..10];
    let mut theta = vec![0.7; 10];
    theta.extend([0.1, 0.5, 0.6, 0.6, 0.5, 0.3, 0.1]);
    theta.push(0.5);
    theta.extend([1e-4; 10]);
    let mut candidate = BumpCandidate { layout: BumpLayout::new(10, spans), theta };
    let (before, sums) = (candidate.figure(Objective::Mean), candidate.entries());
    candidate.tidy(1);
    assert_eq!((candidate.bumps(), &candidate.layout.spans()[0]), (1, &(1..10)));
    assert!(candidate.figure(Objective::Mean) < before);
    let after = candidate.entries();
    assert!((after[4] - sums[4] - sums[17]).abs() < 1e-3 && (after[2] - sums[2]).abs() < 1e-3);
    let split = candidate.split(0);
    assert_eq!(split.layout.spans(), [1..10, 1..10]);
    let sum = |i: usize| split.entries()[10 + i] + split.entries()[19 + i];
    assert!((0..9).all(|i| (sum(i) - after[10 + i]).abs() < 1e-12), "the halves make up the whole");
    assert_eq!(split.without(1).bumps(), 1);
}

/// The best that another optimiser reached from forty random starts (twelve at T = 32) over all `R ≥ 0` of any shape
/// (dense algebra, no structure assumed): the search finds the same values.
#[test]
fn small_horizons_reach_the_best_of_many_random_starts() {
    for (horizon, mean, max) in [(8, 9.0, 10.1989), (16, 13.2261, 15.2864), (32, 19.6519, 21.8191)] {
        let (by_mean, by_max) =
            (figures(&found(horizon, Objective::Mean)).0, figures(&found(horizon, Objective::Max)).1);
        assert!((by_mean / mean - 1.0).abs() < 1e-4, "{horizon}: mean {by_mean}, known {mean}");
        assert!((by_max / max - 1.0).abs() < 3e-4, "{horizon}: max {by_max}, known {max}");
    }
}

/// Plain gradient descent reaches a mean of 28.7 and a maximum of 42.7 at T = 64, the best subtraction tree a mean of
/// 45.0.
#[test]
fn sixty_four_steps() {
    let mut last = (f64::INFINITY, 0.0);
    let mut watch = |best: f64, done: f64| {
        assert!(best <= last.0 && (last.1..=1.0).contains(&done), "{best} {done} after {last:?}");
        last = (best, done);
        ControlFlow::Continue(())
    };
    let by_mean = DensePure::search(64, Objective::Mean, &mut watch).unwrap();
    assert_eq!(last.1, 1.0);
    assert!(figures(&by_mean).0 < 28.33 && (figures(&by_mean).0 / last.0 - 1.0).abs() < 1e-4, "{last:?}");
    assert!(figures(&found(64, Objective::Max)).1 < 30.7);
}

/// Hats of spacings 12 and 150 have a mean of 80.0 and a maximum of 111 at T = 512.
#[test]
#[ignore = "takes minutes"]
fn five_hundred_and_twelve_steps() {
    let (by_mean, by_max) = (figures(&found(512, Objective::Mean)).0, figures(&found(512, Objective::Max)).1);
    assert!(by_mean < 70.4 && by_max < 73.3, "{by_mean} {by_max}");
}

/// The same on every machine: a plan that names its factorization by a digest finds it again.
#[test]
fn searches_are_deterministic_and_frozen() {
    assert_eq!(found(24, Objective::Max).to_bytes(), found(24, Objective::Max).to_bytes());
    let begins =
        [Objective::Mean, Objective::Max].map(|objective| found(24, objective).digest().to_string()[..8].to_owned());
    assert_eq!(begins, ["5bc4967e", "d2075d41"]);
    assert_eq!(found(24, Objective::Max).name().to_string().len(), "dense-pure(objective=max,digest=)".len() + 32);
}

/// A name identifies the matrix of its digest alone, and a digest has all of its digits.
#[test]
fn a_name_stands_for_one_matrix() {
    let criterion = Criterion::new(NoiseKind::Laplace, Objective::Max);
    let name = found(24, Objective::Max).name();
    assert_eq!(name.build(24, &criterion).unwrap().name(), name);
    assert!(name.matches_request(name, Objective::Max));
    assert!(!name.matches_request(found(24, Objective::Mean).name(), Objective::Max));
    let of = |digest: String| format!("dense-pure(digest={digest})").parse::<MechanismName>();
    let unknown = of("0".repeat(32)).unwrap();
    assert!(!unknown.matches_request(name, Objective::Max) && unknown.build(24, &criterion).is_err());
    for bad in ["d2075d41".to_owned(), "d".repeat(31), "d".repeat(33), format!("+{}", "2".repeat(31)), "g".repeat(32)] {
        assert!(of(bad.clone()).is_err(), "{bad}");
    }
}

fn noise(node: Node) -> i128 {
    let x = (node.index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(node.level) << 40);
    i128::from((x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) as i64 >> 30)
}

/// The noise of a release is `L z`, rounded twice by at most half a unit; seeking agrees.
#[test]
fn releases_are_the_rows_times_the_noise() {
    for found in several() {
        let mut cursor = found.cursor();
        let mut released = vec![0];
        for step in 1..=found.horizon() {
            let value = cursor.advance(&mut noise);
            let mut want = 0.0;
            found.visit_row(step, &mut |node, weight| want += weight * noise(node) as f64);
            assert!((value as f64 / 256.0 - want).abs() < 1.01 / 256.0, "{} step {step}", found.name());
            assert_eq!(cursor.step(), step);
            released.push(value);
        }
        for step in [found.horizon(), 0, found.horizon() / 2] {
            assert_eq!(found.cursor().seek(step, &mut noise), released[step as usize]);
            assert_eq!(cursor.seek(step, &mut noise), released[step as usize]);
        }
    }
}

/// The proof of the header, number by number: the measurements, data included, give the same discrepancies as the noise
/// alone, and the release computed from the measurements is the true sum plus the noise of the cursor.
#[test]
fn data_cancel_exactly() {
    for found in several() {
        let shape = &found.shape;
        let data: Vec<i128> =
            (0..found.horizon()).map(|j| noise(Node { level: 7, index: j }) * 12_345_678_901).collect();
        let own_noise: Vec<i128> = (0..found.horizon()).map(|index| noise(Node { level: 0, index })).collect();
        let bump_noise: Vec<i128> =
            (0..shape.bumps.len() as u64).map(|index| noise(Node { level: 1, index })).collect();
        let shares = |values: &mut dyn Iterator<Item = i128>| -> Vec<i128> {
            values.zip(&shape.diagonal).map(|(value, w)| share(value, *w)).collect()
        };
        let from_noise = shares(&mut own_noise.iter().copied());
        let measured = data.iter().zip(&own_noise).zip(&shape.diagonal).map(|((x, z), w)| x * i128::from(*w) + z);
        let from_measured = shares(&mut measured.into_iter());
        let sums = shape.bumps.iter().zip(&bump_noise).map(|(bump, z)| {
            let x = &data[usize::from(bump.first)..];
            bump.weights.iter().zip(x).map(|(w, x)| i128::from(*w) * x).sum::<i128>() + z
        });
        let discrepancies = shape.discrepancies(&from_measured, &sums.collect::<Vec<_>>());
        assert_eq!(discrepancies, shape.discrepancies(&from_noise, &bump_noise), "{}", found.name());
        // The release from the measurements.
        let corrections = shape.corrections(&discrepancies);
        let (mut cursor, mut sum, mut truth) = (found.cursor(), 0, 0);
        for ((share, x), correction) in from_measured.into_iter().zip(&data).zip(corrections) {
            (sum, truth) = (sum + share, truth + x);
            let release = ((sum + (1 << (DIGITS - FRACTION_BITS - 1))) >> (DIGITS - FRACTION_BITS)) + correction;
            assert_eq!(release, (truth << FRACTION_BITS) + cursor.advance(&mut noise), "{}", found.name());
        }
    }
}

/// Noise at the edge of what a plan accepts fits.
#[test]
fn the_loudest_noise_fits() {
    let found = found(41, Objective::Max);
    let mut loud = |node: Node| if noise(node) > 0 { 1i128 << 74 } else { -(1i128 << 74) };
    let mut cursor = found.cursor();
    for step in 1..=41 {
        let mut want = 0.0;
        found.visit_row(step, &mut |node, weight| want += weight * loud(node) as f64);
        let value = cursor.advance(&mut loud) as f64 / 256.0;
        assert!((value - want).abs() < 1e-9 * libm::exp2(74.0 - 10.0), "step {step}: {value} {want}");
    }
}

#[test]
fn bytes_round_trip_and_damage_is_refused() {
    for found in several() {
        let bytes = found.to_bytes();
        let back = DensePure::from_bytes(&bytes).unwrap();
        assert_eq!((back.name(), back.to_bytes()), (found.name(), bytes.clone()));
        assert_eq!(figures(&back), figures(&found));
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 4;
            assert!(DensePure::from_bytes(&damaged).unwrap_err().is_state(), "byte {place}");
            assert!(DensePure::from_bytes(&bytes[..place]).is_err());
        }
    }
    assert!(DensePure::from_bytes(b"").is_err());
}

/// Bumps that would make a sensitivity wrong, or the estimate ill conditioned, are rejected.
#[test]
fn senseless_bumps_and_horizons_are_refused() {
    let assemble = |first, weights: &[u16]| {
        DensePure::assemble(5, Objective::Mean, vec![Bump { first, weights: weights.to_vec() }; 2])
            .map(|found| found.name())
    };
    assert!(assemble(1, &[1, 0, 30000]).is_ok());
    for (first, weights) in
        [(1, &[][..]), (0, &[0, 1]), (0, &[1, 0]), (4, &[1, 1]), (6, &[1]), (0, &[40000]), (0, &[32600])]
    {
        assert!(assemble(first, weights).is_err(), "{first} {weights:?}");
    }
    assert!(DensePure::assemble(5, Objective::Mean, vec![Bump { first: 0, weights: vec![1] }; MAX_BUMPS + 1]).is_err());
    for horizon in [0, 513] {
        let refused = DensePure::search(horizon, Objective::Mean, &mut |_, _| ControlFlow::Continue(())).unwrap_err();
        assert!(refused.is_invalid());
    }
    let mut reports = 0;
    let mut cancel = |_, _| {
        reports += 1;
        if reports == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    assert!(DensePure::search(512, Objective::Mean, &mut cancel).unwrap_err().is_cancelled());
    assert_eq!(reports, 2);
}
