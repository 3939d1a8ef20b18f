use super::*;
use crate::mechanism::{Criterion, MechanismName, NoiseKind, Objective, units};

/// The squares of the Lebesgue constants, and of the elliptic integral.
#[test]
fn long_horizons_give_the_constants() {
    for (width, squared) in
        [(2u64, 1.6211), (3, 2.0623), (7, 3.1624), (30, 5.6069), (168, 9.4009), (365, 11.428), (8760, 21.80)]
    {
        let bound = workload_lower_bound(Workload::Window(width), 1 << 50, Spread::ONE).powi(2);
        assert!((bound / squared - 1.0).abs() < 3e-4, "{width}: {bound}");
    }
    let decay = workload_lower_bound(Workload::Decay(30), 1 << 50, Spread::ONE).powi(2);
    assert!((decay - 3.5448).abs() < 1e-3, "{decay}");
}

/// The bound is below the nuclear norm of the actual matrices, computed for single events by
/// another library.
#[test]
fn it_is_below_the_nuclear_norm() {
    for workload in
        [Workload::Window(2), Workload::Window(5), Workload::Window(20), Workload::Decay(1), Workload::Decay(8)]
    {
        for horizon in [1usize, 2, 4, 5, 6, 10, 40, 90] {
            let entry = |i: usize, j: usize| if j <= i { workload.coefficient((i - j) as u64) } else { 0.0 };
            let matrix = nalgebra::DMatrix::<f64>::from_fn(horizon, horizon, entry);
            let nuclear: f64 = matrix.singular_values().iter().sum::<f64>() / horizon as f64;
            let whole = mean(workload, horizon as u64, Patterns::ONE);
            assert!(whole <= nuclear * (1.0 + 1e-9), "{workload} {horizon}: {whole} {nuclear}");
            assert!(horizon < 40 || whole > 0.85 * nuclear, "{workload} {horizon}: {whole} {nuclear}");
        }
    }
}

/// No mechanism beats the bound, whatever the unit.
#[test]
fn nothing_beats_the_bound() {
    for workload in [Workload::Window(3), Workload::Window(7), Workload::Window(30), Workload::Decay(5)] {
        for horizon in [5u64, 20, 60, 365] {
            for (total, per_step, separation) in
                [(1, 1, 1), (3, 1, 1), (7, 1, 1), (30, 1, 1), (6, 3, 2), (5, 1, 7), (200, 1, 1)]
            {
                let spread = Spread { separation, ..Spread::new(total, per_step) };
                let room = per_step * horizon.div_ceil(separation);
                let spread = Spread { total: total.min(room), per_group: total.min(room), ..spread };
                let bound = workload_lower_bound(workload, horizon, spread).powi(2);
                let criterion =
                    Criterion::new(NoiseKind::Gaussian, Objective::Max).with_spread(spread).with_workload(workload);
                let names = ["input", "banded", "banded(run=3)", "banded(run=7)", "dense", "smooth", "binary", "sqrt"];
                for name in names {
                    let Ok(built) = name.parse::<MechanismName>().unwrap().build(horizon, &criterion) else { continue };
                    let unit = libm::exp2(-2.0 * f64::from(built.noise_bits()));
                    let reached = units::squared(&*built, spread) as f64 * unit * built.max_row_norm_squared();
                    assert!(
                        reached >= bound * (1.0 - 1e-9),
                        "{name} {workload} T={horizon} {spread:?}: {reached} below {bound}"
                    );
                }
            }
        }
    }
}
