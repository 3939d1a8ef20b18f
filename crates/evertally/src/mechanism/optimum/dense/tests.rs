//! The dual bound against singular values and random factorizations, the optimum against brute force, the integer
//! matrix and its releases against their definitions.

use super::*;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::toeplitz::filter::tests::{by_rationals, every_placement_stays_below_the_bound, noise};
use crate::mechanism::{Criterion, MechanismName, NoiseKind, Objective};
use crate::plan::gaussian_lower_bound;
use nalgebra::DMatrix;

fn both(horizon: u64) -> [Dense; 2] {
    Objective::BOTH.map(|objective| Dense::solve(horizon, objective).unwrap())
}

/// Numbers between 0 and 1 that look random.
fn numbers(seed: u64) -> impl Iterator<Item = f64> {
    (1..).map(move |i: u64| {
        let x = (seed << 32 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let x = (x ^ (x >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (x >> 11) as f64 / (1u64 << 53) as f64
    })
}

fn random_weights(seed: u64, steps: usize) -> Vec<f64> {
    // Spread over several orders of magnitude.
    let weights: Vec<f64> = numbers(seed).take(steps).map(|x| x.powi(4) + 1e-3).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| w / sum).collect()
}

fn prefix_sums(steps: usize) -> DMatrix<f64> {
    DMatrix::from_fn(steps, steps, |i, j| f64::from(u8::from(j <= i)))
}

/// `‖P^½ A V^½‖_*` and `X`, by another library.
fn by_singular_values(rows: &[f64], columns: &[f64]) -> (f64, DMatrix<f64>) {
    let a = prefix_sums(rows.len());
    let scaled = DMatrix::from_fn(rows.len(), rows.len(), |i, j| rows[i].sqrt() * a[(i, j)] * columns[j].sqrt());
    let svd = scaled.svd(false, true);
    let v = svd.v_t.unwrap();
    let root = v.transpose() * DMatrix::from_diagonal(&svd.singular_values) * v;
    (svd.singular_values.sum(), root.map_with_location(|i, j, x| x / (columns[i] * columns[j]).sqrt()))
}

#[test]
fn the_dual_value_is_a_nuclear_norm() {
    for (seed, steps) in [1, 2, 3, 10, 60].into_iter().enumerate() {
        let (rows, columns) = (random_weights(seed as u64, steps), random_weights(seed as u64 + 50, steps));
        let weights = Weights::evaluate(rows.clone(), columns.clone());
        let (nuclear, x) = by_singular_values(&rows, &columns);
        assert!((weights.nuclear / nuclear - 1.0).abs() < 1e-11, "{steps}: {} {nuclear}", weights.nuclear);
        for (i, ours) in weights.diagonal.iter().enumerate() {
            assert!((ours / x[(i, i)] - 1.0).abs() < 1e-9, "{steps}, {i}: {ours} {}", x[(i, i)]);
        }
    }
}

/// Weak duality, and by it the certificate: no bound from any weights exceeds the variance of any factorization.
#[test]
fn no_bound_exceeds_any_factorization() {
    for seed in 0..40u64 {
        let steps = 1 + seed as usize % 12;
        let mut entries = numbers(seed + 1000);
        let mut r = DMatrix::from_fn(steps, steps, |i, j| {
            let x = entries.next().unwrap();
            if j < i { 2.0 * x - 0.5 } else { f64::from(u8::from(i == j)) * (x + 0.2) }
        });
        r.column_iter_mut().for_each(|mut column| column /= column.norm());
        let l = prefix_sums(steps) * r.try_inverse().unwrap();
        let norms: Vec<f64> = l.row_iter().map(|row| row.norm_squared()).collect();
        let columns = random_weights(seed, steps);
        let rows = random_weights(seed + 500, steps);
        let weighted: f64 = norms.iter().zip(&rows).map(|(n, p)| n * p).sum();
        assert!(Weights::evaluate(rows, columns.clone()).nuclear.powi(2) <= weighted * (1.0 + 1e-12));
        let uniform = vec![1.0 / steps as f64; steps];
        let mean = norms.iter().sum::<f64>() / steps as f64;
        assert!(Weights::evaluate(uniform, columns).nuclear.powi(2) <= mean * (1.0 + 1e-12));
        let [max_optimum, mean_optimum] = both(steps as u64).map(|optimum| optimum.certificate().bound);
        assert!(max_optimum <= norms.iter().copied().fold(0.0, f64::max) && mean_optimum <= mean);
    }
}

/// Two steps by hand: `R` has the columns `(√(1-s²), s)` and `(0, 1)`, hence the rows of `L` the squared norms
/// `1/(1-s²)` and `1 + (1-s)/(1+s)`. The larger is least for `s = 1/2`, the sum for `s² - 3s + 1 = 0`.
#[test]
fn two_steps_are_solved_by_hand() {
    let [max, mean] = both(2).map(|optimum| optimum.certificate().reached);
    assert!((max - 4.0 / 3.0).abs() < 1e-9 && (mean - (3.0 + 5.0f64.sqrt()) / 4.0).abs() < 1e-9, "{max} {mean}");
}

/// Three steps by a random search over the three angles of `R`, with smaller steps if it finds nothing.
#[test]
fn three_steps_are_solved_by_brute_force() {
    let figure = |angles: &[f64; 3], objective: Objective| {
        let [a, b, c] = *angles;
        let r = nalgebra::Matrix3::new(
            a.cos(),
            0.0,
            0.0, //
            a.sin() * b.cos(),
            c.cos(),
            0.0, //
            a.sin() * b.sin(),
            c.sin(),
            1.0,
        );
        let Some(inverse) = r.try_inverse() else { return f64::INFINITY };
        let l = nalgebra::Matrix3::new(1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0) * inverse;
        let norms: Vec<f64> = l.row_iter().map(|row| row.norm_squared()).collect();
        objective.of(norms.iter().copied().fold(0.0, f64::max), norms.iter().sum::<f64>() / 3.0)
    };
    for optimum in both(3) {
        let (mut best, mut width, mut steps) = ([0.5; 3], 0.5, numbers(7));
        while width > 1e-8 {
            let mut tries = (0..1000).map(|_| best.map(|angle| angle + (2.0 * steps.next().unwrap() - 1.0) * width));
            match tries.find(|tried| figure(tried, optimum.objective) < figure(&best, optimum.objective)) {
                Some(better) => best = better,
                None => width *= 0.5,
            }
        }
        let (found, ours) = (figure(&best, optimum.objective), optimum.certificate().reached);
        // The search ends in the narrow valley of three equal rows: near the optimum, and never below it.
        assert!(found > ours - 1e-9 && found < ours * (1.0 + 1e-4), "{}: {found} {ours}", optimum.name());
    }
}

/// The gap closes; the optimum lies between the known bound and every mechanism in the registry.
#[test]
fn the_gap_is_closed_and_nothing_is_better() {
    for horizon in [1u64, 2, 5, 16, 100, 257, 700] {
        let known = gaussian_lower_bound(horizon).powi(2);
        let [max, mean] = both(horizon);
        for optimum in [&max, &mean] {
            let Certificate { reached, bound } = optimum.certificate();
            assert!(optimum.certificate().gap() < 1e-9, "{} at {horizon}: {reached} {bound}", optimum.name());
            assert!(bound <= reached && reached >= known * (1.0 - 1e-9), "{horizon}: {reached} {known}");
        }
        assert!(mean.certificate().reached <= max.certificate().reached);
        for name in MechanismName::FAMILIES {
            let other = name.build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).unwrap();
            let norm = other.exact_l2_squared().unwrap_or(other.column_norms().l2_squared);
            assert!(max.certificate().bound <= norm * other.max_row_norm_squared(), "{name} at {horizon}");
            assert!(mean.certificate().bound <= norm * other.mean_row_norm_squared(), "{name} at {horizon}");
        }
    }
}

#[test]
fn closed_forms_are_those_of_the_dense_twin() {
    for horizon in [1, 2, 3, 7, 40, 100] {
        for optimum in both(horizon) {
            let (name, dense) = (optimum.name(), optimum.dense());
            assert!(dense.prefix_sum_error() < 1e-11, "{name} at {horizon}: L R is not A");
            let (ours, want) = (optimum.column_norms(), dense.column_norms());
            assert!((ours.l1 - want.l1).abs() < 1e-12 * want.l1, "{name} at {horizon}");
            assert!((ours.l2_squared - 1.0).abs() < 1e-12 && (want.l2_squared - 1.0).abs() < 1e-12);
            for (row, step) in dense.row_norms_squared().iter().zip(1..) {
                assert!((row - optimum.row_norm_squared(step)).abs() < 1e-12 * row, "{name} at {horizon}, step {step}");
                let max = optimum.certificate().reached;
                assert!(
                    optimum.objective == Objective::Mean || (row / max - 1.0).abs() < 1e-8,
                    "all rows are equally long: {row} {max}"
                );
            }
            let exact = dense.exact_l2_squared().unwrap();
            assert!((optimum.exact_l2_squared().unwrap() - exact).abs() < 1e-9 * exact, "{name} at {horizon}");
        }
    }
}

/// The factor in states is a factor of `X`.
#[test]
fn the_factor_is_one_of_x() {
    for (seed, steps) in [1, 2, 9, 50].into_iter().enumerate() {
        let seed = seed as u64;
        let weights = Weights::evaluate(random_weights(seed, steps), random_weights(seed + 9, steps));
        let (_, x) = by_singular_values(&weights.rows, &weights.columns);
        let factor = StateFactor::of(&weights);
        let r = DMatrix::from_fn(steps, steps, |i, j| if j <= i { factor.row(i)[j] } else { 0.0 });
        let error = (r.transpose() * r - &x / x.diagonal().max()).amax();
        assert!(error < 1e-9, "{steps}: {error}");
    }
}

/// The protected integer matrix.
fn integer_matrix(optimum: &Dense) -> Vec<Vec<u128>> {
    let steps = optimum.factor.steps();
    let row = |t: usize| (0..steps).map(|j| if j <= t { optimum.matrix[packed(t) + j].into() } else { 0 }).collect();
    (0..steps).map(row).collect()
}

/// `R̃` is `2^30 R` to the nearest integer, and nothing was cut off at 0; the sensitivities are those of `R̃` itself,
/// by brute force.
#[test]
fn sensitivities_are_exact_for_the_integer_matrix() {
    for horizon in [1, 2, 5, 33, 80] {
        for optimum in both(horizon) {
            let matrix = integer_matrix(&optimum);
            for (t, row) in matrix.iter().enumerate() {
                for (ours, ideal) in row.iter().zip(optimum.factor.row(t)) {
                    assert!((*ours as f64 - ideal * f64::from(1 << MATRIX_BITS)).abs() <= 0.5);
                }
            }
            let sum = |power: u32| {
                let column = |j: usize| matrix.iter().map(|row| row[j].pow(power)).sum::<u128>();
                (0..matrix.len()).map(column).max().unwrap()
            };
            assert_eq!(optimum.l1_column_sum(), sum(1));
            assert_eq!(optimum.spread_squared(Spread::ONE), sum(2));
            let unit = libm::exp2(-f64::from(optimum.noise_bits()));
            assert!((sum(1) as f64 * unit / optimum.column_norms().l1 - 1.0).abs() < 1e-7);
            assert!((sum(2) as f64 * unit * unit - 1.0).abs() < 1e-7);
        }
    }
}

#[test]
fn spread_events_stay_below_the_bound() {
    for optimum in both(7) {
        every_placement_stays_below_the_bound(&optimum, &integer_matrix(&optimum));
    }
    // The rounding of the products costs little: a unit of one event a step, everywhere.
    for optimum in both(60) {
        let matrix = integer_matrix(&optimum);
        let everywhere: u128 = matrix.iter().map(|row| row.iter().sum::<u128>().pow(2)).sum();
        let bound = optimum.spread_squared(Spread::new(60, 1));
        assert!(everywhere <= bound && bound < 2 * everywhere, "{everywhere} {bound}");
        assert!(bound < 60 * 60 * optimum.l2_squared);
        let huge = Spread::new(u64::MAX, u64::MAX / 60);
        assert_eq!(optimum.spread_squared(huge), u128::MAX, "nothing wraps around");
    }
}

/// The release is the one of the definition, whichever precision decides it.
#[test]
fn releases_are_correctly_rounded() {
    for optimum in both(40) {
        let want = by_rationals(&integer_matrix(&optimum));
        let coarse = || TriangularCursor::with_guard(FilterRows::Packed(optimum.matrix.clone()), None, 10);
        let (mut usual, mut narrow) = (optimum.cursor(), coarse());
        for (step, want) in want.into_iter().enumerate() {
            assert_eq!(usual.advance(&mut noise), want, "{} step {step}", optimum.name());
            assert_eq!(narrow.advance(&mut noise), want, "{} step {step}, coarse", optimum.name());
        }
        // A large value in the middle lowers the guard on the way.
        let mut loud = |node: Node| if node.index == 20 { 1 << 74 } else { noise(node) };
        let (mut fast, mut slow) = (optimum.cursor(), coarse());
        for step in 0..40 {
            assert_eq!(fast.advance(&mut loud), slow.advance(&mut loud), "{} step {step}, loud", optimum.name());
        }
        for start in [0, 1, 20, 40] {
            let mut other = optimum.cursor();
            assert_eq!(other.seek(start, &mut noise), usual.seek(start, &mut noise), "{} {start}", optimum.name());
        }
    }
}

/// The noise of a release is `L z` of the ideal matrices, up to the rounding of `R`.
#[test]
fn the_filter_applies_the_ideal_matrix() {
    for optimum in both(200) {
        let mut cursor = optimum.cursor();
        let unit = libm::exp2(-f64::from(optimum.noise_bits()));
        for step in 1..=200 {
            let released = cursor.advance(&mut |node| noise(node) << 10) as f64 / f64::from(1 << FRACTION_BITS);
            let (mut ideal, mut size) = (0.0, 0.0f64);
            optimum.visit_row(step, &mut |node, weight| {
                let term = weight * (noise(node) << 10) as f64 * unit;
                (ideal, size) = (ideal + term, size + term * term);
            });
            assert!((released - ideal).abs() < 1e-6 * size.sqrt() + 0.01, "{} step {step}", optimum.name());
        }
    }
}

/// Frozen: a plan names the digest, so another matrix is another mechanism.
#[test]
fn the_matrices_are_frozen() {
    for (horizon, max, mean) in
        [(1, 0x4813_27a9u32, 0xee01_72b3u32), (16, 0x240e_2e3b, 0x27c5_be0b), (1024, 0x4d7b_28b9, 0x56ae_269f)]
    {
        let [by_max, by_mean] = both(horizon);
        let (max, mean) = (format!("{max:08x}"), format!("{mean:08x}"));
        let begins = [&by_max, &by_mean].map(|found| found.digest().to_string()[..8].to_owned());
        assert_eq!(begins, [max.clone(), mean], "{horizon}");
        assert!(by_max.name().to_string().starts_with(&format!("dense(objective=max,digest={max}")));
        assert_eq!(by_max.name().to_string().len(), "dense(objective=max,digest=)".len() + 32);
        assert_eq!(Dense::with_digest(horizon, Objective::Max, by_max.digest()).unwrap().name(), by_max.name());
        let unknown = format!("{:032x}", 1).parse().unwrap();
        assert!(Dense::with_digest(horizon, Objective::Max, unknown).is_err());
        let other = by_mean.digest();
        assert!(horizon == 1 || Dense::with_digest(horizon, Objective::Max, other).is_err());
    }
}

/// The bound without the matrices is nearly that of the optimum, and better than the one from uniform weights.
#[test]
fn the_bound_alone_is_close() {
    for horizon in [1u64, 2, 30, 500] {
        for optimum in both(horizon) {
            let (quick, best) = (Dense::lower_bound(horizon, optimum.objective).unwrap(), optimum.certificate().bound);
            assert!(quick <= best * (1.0 + 1e-11) && quick > best * (1.0 - 1e-5), "{}: {quick} {best}", optimum.name());
            assert!(quick >= gaussian_lower_bound(horizon).powi(2) * (1.0 - 1e-11), "{}: {quick}", optimum.name());
        }
    }
}

#[test]
fn horizons_out_of_range_are_refused() {
    assert!(Dense::solve(0, Objective::Max).is_err() && Dense::solve(MAX_HORIZON + 1, Objective::Max).is_err());
}
