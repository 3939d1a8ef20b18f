//! Bounds compared with nuclear norms by another library, and with mechanisms.

use super::symmetric::Symmetric;
use super::*;
use crate::mechanism::{Criterion, MechanismName, NoiseKind, units};
use nalgebra::DMatrix;

fn spread(per_group: u64, per_step: u64, separation: u64) -> Spread {
    Spread { separation, ..Spread::new(per_group, per_step) }
}

/// The counts of a pattern around a step (from 0).
fn around(horizon: usize, centre: usize, spread: Spread) -> Vec<f64> {
    let steps = spread.total as f64 / spread.per_step as f64;
    let side = ((steps - 1.0) / 2.0).floor() as i64;
    let outside = (steps - 1.0) / 2.0 - side as f64;
    let mut counts = vec![0.0; horizon];
    for i in -side - 1..=side + 1 {
        let place = centre as i64 + i * spread.separation as i64;
        if (0..horizon as i64).contains(&place) {
            counts[place as usize] += spread.per_step as f64 * if i.abs() > side { outside } else { 1.0 };
        }
    }
    counts
}

fn nuclear(matrix: &DMatrix<f64>) -> f64 {
    matrix.singular_values().iter().sum()
}

#[test]
fn waves_are_inner_products_of_singular_vectors() {
    for (horizon, total, per_step, separation) in
        [(40, 7, 1, 1), (40, 8, 1, 1), (33, 10, 3, 1), (40, 5, 2, 4), (20, 99, 1, 1)]
    {
        let spread = spread(total, per_step, separation);
        let sums = DMatrix::from_fn(horizon, horizon, |i, j| if j <= i { 1.0 } else { 0.0 });
        // As long as all steps on a side fit.
        let short = Spread { per_group: total.min(per_step * (2 * horizon as u64 - 1)), ..spread };
        let patterns = DMatrix::from_fn(horizon, horizon, |t, i| around(horizon, i, short)[t]);
        let exact = nuclear(&(sums * &patterns)) / horizon as f64;
        let ours = waves::bound(horizon as u64, spread);
        assert!(ours <= exact * (1.0 + 1e-9), "{spread:?}: {ours} of {exact}");
        assert!(ours >= 0.93 * exact, "{spread:?}: {ours} of {exact}");
    }
}

#[test]
fn eigenvalues_are_those_of_another_library() {
    let entry = |i: usize, j: usize| 1.0 / (1.0 + i as f64 + j as f64) - if i == j { 0.3 } else { 0.0 };
    let ours = Symmetric::new(12, entry).diagonalised(None);
    let again =
        Symmetric::new(12, entry).diagonalised(Some(Symmetric::new(12, |i, j| entry(i, j).abs()).diagonalised(None)));
    let mut want: Vec<f64> = DMatrix::from_fn(12, 12, entry).symmetric_eigenvalues().iter().copied().collect();
    want.sort_by(f64::total_cmp);
    for spectrum in [ours, again] {
        let mut values = spectrum.values.clone();
        values.sort_by(f64::total_cmp);
        assert!(values.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12), "{values:?} {want:?}");
        for k in 0..12 {
            let moved = |i: usize| (0..12).map(|j| entry(i, j) * spectrum.vector(k)[j]).sum::<f64>();
            assert!((0..12).all(|i| (moved(i) - spectrum.values[k] * spectrum.vector(k)[i]).abs() < 1e-10));
        }
    }
}

/// No mechanism is below the bound of its unit, and the best are close.
#[test]
fn nothing_beats_the_bound_of_a_unit() {
    for (horizon, total, per_step, separation) in
        [(64, 8, 1, 1), (200, 9, 3, 1), (200, 40, 1, 1), (128, 128, 1, 1), (150, 10, 2, 7), (60, 7, 3, 1)]
    {
        let spread = spread(total, per_step, separation);
        let bound = unit_lower_bound(horizon, spread);
        let criterion = Criterion::new(NoiseKind::Gaussian, Objective::Max).with_spread(spread);
        let mut best = f64::INFINITY;
        for name in MechanismName::FAMILIES {
            if !name.serves(NoiseKind::Gaussian) {
                continue;
            }
            let mechanism = name.build(horizon, &criterion).unwrap();
            let squared = units::squared(&*mechanism, spread);
            if squared < u128::MAX {
                let unit = libm::exp2(-f64::from(mechanism.noise_bits()));
                let error = libm::sqrt(squared as f64 * mechanism.max_row_norm_squared()) * unit;
                assert!(error >= bound, "{name}, {spread:?}: {error} below {bound}");
                best = best.min(error);
            }
        }
        // For events with a minimum distance the bound is weak.
        let near = if separation == 1 { 1.12 } else { 1.25 };
        assert!(best <= near * bound, "{spread:?} over {horizon}: {best} is {} times {bound}", best / bound);
    }
}

/// A table of the distance of plans from the bound, by units and horizons, for manual inspection.
#[test]
#[ignore = "minutes; prints a table"]
fn ratios_to_the_bound() {
    use crate::plan::PlanRequest;
    use crate::privacy::{Budget, Rho, Unit};
    for power in [10u32, 13, 15, 17] {
        let horizon = 1u64 << power;
        for (total, per_step) in [
            (1, 1),
            (2, 1),
            (4, 1),
            (10, 1),
            (30, 3),
            (100, 1),
            (300, 3),
            (1000, 1),
            (1000, 10),
            (10_000, 1),
            (10_000, 10),
        ] {
            if total / per_step > horizon {
                continue;
            }
            let start = std::time::Instant::now();
            let request = PlanRequest::count(horizon, Budget::Zcdp(Rho::new(0.5).unwrap()));
            let plan = request.with_unit(Unit::person(total).per_step(per_step)).plan().unwrap();
            let took = start.elapsed();
            let bound = unit_lower_bound(horizon, Spread::new(total, per_step));
            let (error, name) = (plan.max_std_error(), plan.mechanism().name().brief());
            println!(
                "| 2^{power} | {total} | {per_step} | {error:.2} | {bound:.2} | {:.3} | {name} | {took:.1?}, {:.1?} |",
                error / bound,
                start.elapsed() - took
            );
        }
    }
}
