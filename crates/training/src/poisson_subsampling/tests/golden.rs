//! Noise multipliers found by other programs.

use super::*;

/// Sampling rate, ε, and the noise multipliers for δ = 10⁻⁵ and 2000 steps by two programs.
///
/// The first column is by a few lines of NumPy: "connect the dots" on 2²⁰ points, an untilted transform, without
/// error bounds; the error is about 10⁻⁶. The second is by `dp-accounting` 0.6.0 (`from_gaussian_mechanism`,
/// pessimistic), with intervals of 4·10⁻⁵ for the smallest rate, 5·10⁻⁴ for the largest and 10⁻⁴ for the others; a
/// finer one, 2·10⁻⁵, gives 0.66262565, 0.59398516 and 0.52524169 for the first three.
const NOISES: [(f64, f64, f64, f64); 25] = [
    (0.0005, 0.5, 0.66262554, 0.66262609),
    (0.0005, 1.0, 0.59398511, 0.59398525),
    (0.0005, 2.0, 0.52524168, 0.52524173),
    (0.0005, 4.0, 0.44797075, 0.44797077),
    (0.0005, 8.0, 0.36718413, 0.36718413),
    (0.002, 0.5, 0.94806201, 0.94809451),
    (0.002, 1.0, 0.75990868, 0.75991154),
    (0.002, 2.0, 0.64594998, 0.64595058),
    (0.002, 4.0, 0.54094010, 0.54094029),
    (0.002, 8.0, 0.44667545, 0.44667549),
    (0.005, 0.5, 1.75389448, 1.75401083),
    (0.005, 1.0, 1.10470881, 1.10472345),
    (0.005, 2.0, 0.81184687, 0.81184850),
    (0.005, 4.0, 0.65315975, 0.65316004),
    (0.005, 8.0, 0.53395280, 0.53395286),
    (0.01, 0.5, 3.25864765, 3.25889746),
    (0.01, 1.0, 1.84277791, 1.84281290),
    (0.01, 2.0, 1.14933014, 1.14933473),
    (0.01, 4.0, 0.82251720, 0.82251779),
    (0.01, 8.0, 0.64333394, 0.64333404),
    (0.1, 0.5, 31.48836629, 31.55323777),
    (0.1, 1.0, 16.73216097, 16.74181119),
    (0.1, 2.0, 8.97671503, 8.97818106),
    (0.1, 4.0, 4.91500825, 4.91523949),
    (0.1, 8.0, 2.79572971, 2.79576824),
];

#[test]
fn noises_are_those_of_other_programs() {
    for (rate, at, own, other) in NOISES {
        let found = steps(rate, 1.0, 2000).noise_factor_for(epsilon(at), delta(1e-5)).unwrap();
        let what = format!("q = {rate}, ε = {at}: {found}");
        assert!(found > own * (1.0 - 3e-6) && found < own * (1.0 + 6e-5), "{what}, a twin {own}");
        assert!(found < other * 1.0001, "{what}, dp-accounting {other}");
    }
}

/// The found noise is the minimum: half a per cent less, or more, is noticed.
#[test]
fn noise_is_neither_wasted_nor_spared() {
    for (rate, at, own, _) in NOISES.into_iter().step_by(3) {
        let of = |noise: f64| steps(rate, noise, 2000).delta(epsilon(at));
        assert!(of(own * 0.995) > 1e-5 && of(own * 0.9999) > 1e-5, "q = {rate}, ε = {at}");
        assert!(of(own * 1.005) < 1e-5 && of(own * 1.0001) < 1e-5, "q = {rate}, ε = {at}");
        let found = steps(rate, own, 2000).epsilon(delta(1e-5));
        assert!((found / at - 1.0).abs() < 1e-3, "q = {rate}, ε = {at}: {found}");
        assert!(of(own) > 1e-5 * (1.0 - 1e-4));
        assert!(steps(rate, own, 2000).delta(epsilon(found)) <= 1e-5);
    }
}

/// Sampling rate, steps, ε, and the noise multiplier for δ = 10⁻¹² by the twin in NumPy, tilted.
const SMALL: [(f64, u64, f64, f64); 4] = [
    (0.001, 100000, 1.0, 2.1972693),
    (0.5, 2000, 16.0, 11.0042463),
    (0.1, 100000, 0.1, 1946.0537604),
    (0.001, 2000, 16.0, 0.4307663),
];

#[test]
fn small_deltas_cost_what_they_must() {
    for (rate, times, at, own) in SMALL {
        let found = steps(rate, 1.0, times).noise_factor_for(epsilon(at), delta(1e-12)).unwrap();
        assert!((-1e-6..1e-4).contains(&(found / own - 1.0)), "q = {rate}, ε = {at}: {found}, a twin {own}");
    }
}
