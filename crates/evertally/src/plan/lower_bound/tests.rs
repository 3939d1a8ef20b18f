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

/// Panels of terms are below the sum of all terms, and close to it.
#[test]
fn panels_bound_the_sum_of_all_terms() {
    for (horizon, per_group, separation) in
        [(1 << 15, 1, 1), (1 << 15, 10, 1), (1 << 16, 2, 30), (1 << 16, 1001, 1), (1 << 16, 100, 7), (5000, 9999, 1)]
    {
        let spread = spread(per_group, 1, separation);
        let (all, panels) = (waves::by_terms(horizon, spread), waves::by_panels(horizon, spread));
        assert!(panels <= all && panels > 0.9985 * all, "{spread:?} over {horizon}: {panels} of {all}");
    }
}

/// The bound keeps growing: with the logarithm of the horizon, times the number of events.
#[test]
fn the_bound_grows_at_every_horizon() {
    for events in [1, 10, 1000] {
        let bounds: Vec<f64> =
            (17..=45).step_by(4).map(|power| unit_lower_bound(1 << power, spread(events, 1, 1))).collect();
        let grown = 4.0 * std::f64::consts::LN_2 / std::f64::consts::PI * events as f64;
        for pair in bounds.windows(2) {
            assert!(pair[1] - pair[0] > 0.9 * grown && pair[1] - pair[0] < 1.1 * grown, "{events}: {bounds:?}");
        }
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
    for power in [10u32, 13, 15, 17] {
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
            if total / per_step <= 1 << power {
                print_ratio(power, total, per_step);
            }
        }
    }
}

/// The same over long horizons.
#[test]
#[ignore = "a minute; prints a table"]
fn long_ratios_to_the_bound() {
    for power in [20u32, 24, 32] {
        for (total, per_step) in [(2, 1), (10, 1), (100, 1), (300, 3), (1000, 1), (10_000, 1)] {
            print_ratio(power, total, per_step);
        }
    }
}

fn print_ratio(power: u32, total: u64, per_step: u64) {
    use crate::plan::PlanRequest;
    use crate::privacy::{Budget, Rho, Unit};
    let horizon = 1u64 << power;
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
