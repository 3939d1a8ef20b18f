//! The square root compared with dense algebra, its integer form, and its correctly rounded release.

use super::*;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::toeplitz::filter::tests::{by_rationals, every_placement_stays_below_the_bound, noise};
use crate::mechanism::{Criterion, Input, MechanismName, NoiseKind, Objective, Participation};

fn both(horizon: u64) -> [SquareRoot; 2] {
    [SquareRoot::new(horizon).unwrap(), SquareRoot::normalized(horizon).unwrap()]
}

fn all(horizon: u64) -> Vec<SquareRoot> {
    let mut all = both(horizon).to_vec();
    for bands in [1, 2, 3, 10, 37, horizon] {
        all.extend(SquareRoot::banded(horizon, bands).ok());
        all.extend(SquareRoot::banded_inverse(horizon, bands).ok());
        for exponent in ["0.2", "0.9"] {
            all.extend(SquareRoot::banded_inverse_power(horizon, bands, exponent.parse().unwrap()).ok());
        }
    }
    all
}

#[test]
fn closed_forms_are_those_of_the_dense_twin() {
    for horizon in [1, 2, 3, 7, 40, 100] {
        for mechanism in all(horizon) {
            let (name, dense) = (mechanism.name(), mechanism.dense());
            assert!(dense.prefix_sum_error() < 1e-12, "{name} at {horizon}: L R is not A");
            let (ours, want) = (mechanism.column_norms(), dense.column_norms());
            assert!((ours.l1 - want.l1).abs() < 1e-12 * want.l1, "{name} at {horizon}");
            assert!((ours.l2_squared - want.l2_squared).abs() < 1e-12 * want.l2_squared, "{name} at {horizon}");
            for (row, step) in dense.row_norms_squared().iter().zip(1..) {
                assert!(
                    (row - mechanism.row_norm_squared(step)).abs() < 1e-12 * row,
                    "{name} at {horizon}, step {step}"
                );
            }
            let exact = dense.exact_l2_squared().unwrap();
            assert!((mechanism.exact_l2_squared().unwrap() - exact).abs() < 1e-9 * exact, "{name} at {horizon}");
        }
    }
}

/// The protected integer matrix.
fn integer_matrix(mechanism: &SquareRoot) -> Vec<Vec<u128>> {
    let (f, w) = (&mechanism.rounded, &mechanism.weights);
    (0..f.len()).map(|t| (0..=t).map(|j| u128::from(f[t - j]) * u128::from(w[j])).collect()).collect()
}

/// The sensitivities are those of the integer matrix, by brute force over its columns, and close to the ideal ones.
#[test]
fn sensitivities_are_exact_for_the_integer_matrix() {
    for horizon in [1, 2, 5, 33, 80] {
        for mechanism in all(horizon) {
            let matrix = integer_matrix(&mechanism);
            let column = |j: usize| matrix.iter().filter_map(move |row| row.get(j).copied());
            let l1 = (0..matrix.len()).map(|j| column(j).sum::<u128>()).max().unwrap();
            let l2 = (0..matrix.len()).map(|j| column(j).map(|x| x * x).sum::<u128>()).max().unwrap();
            assert_eq!(mechanism.l1_column_sum(), l1);
            assert_eq!(mechanism.spread_squared(Spread::ONE), l2);
            let unit = libm::exp2(f64::from(mechanism.noise_bits()));
            let ideal = mechanism.column_norms();
            assert!((l1 as f64 / unit / ideal.l1 - 1.0).abs() < 2e-3, "{} at {horizon}", mechanism.name());
            assert!(
                (l2 as f64 / unit / unit / ideal.l2_squared - 1.0).abs() < 2e-3,
                "{} at {horizon}",
                mechanism.name()
            );
        }
    }
}

/// The stated growth of the row norms covers `A R̃⁻¹` at every step and is reached at one, by forward substitution.
#[test]
fn errors_include_the_rounding_of_the_matrix() {
    for horizon in [1, 2, 3, 40, 100] {
        for mechanism in all(horizon) {
            let (name, matrix) = (mechanism.name(), integer_matrix(&mechanism));
            let unit = libm::exp2(f64::from(mechanism.noise_bits()));
            let mut norms = vec![0.0; matrix.len()];
            for column in 0..matrix.len() {
                // Column `column` of the inverse, and its running sums.
                let (mut inverse, mut sum) = (vec![0.0; matrix.len()], 0.0);
                for t in column..matrix.len() {
                    let known: f64 = (column..t).map(|k| matrix[t][k] as f64 * inverse[k]).sum();
                    inverse[t] = (if t == column { unit } else { 0.0 } - known) / matrix[t][t] as f64;
                    sum += inverse[t];
                    norms[t] += sum * sum;
                }
            }
            let ratios = norms.iter().zip(1..).map(|(norm, step)| norm / mechanism.row_norm_squared(step));
            let (largest, growth) = (ratios.fold(1.0, f64::max), mechanism.row_growth());
            assert!(growth >= largest && growth < largest * (1.0 + 1e-10), "{name} at {horizon}: {growth} {largest}");
            assert!(growth < 1.0 + 1e-3, "{name} at {horizon}: {growth}");
        }
    }
    let long = SquareRoot::new(5000).unwrap();
    let right: Vec<f64> = long.rounded.iter().map(|f| f64::from(*f) / 65536.0).collect();
    let newton = series::newton_reciprocal(&right, SearchWatch::NONE).unwrap();
    for (newton, direct) in newton.iter().zip(reciprocal(&right, right.len())) {
        assert!((newton - direct).abs() < 1e-15, "{newton} {direct}");
    }
}

/// Every placement of a unit's events stays below the bound, by enumeration on a short horizon.
#[test]
fn spread_events_stay_below_the_bound() {
    for mechanism in all(7) {
        every_placement_stays_below_the_bound(&mechanism, &integer_matrix(&mechanism));
    }
}

/// The bound used by the filter's error analysis.
#[test]
fn the_inverse_of_the_rounded_coefficients_is_summable() {
    let mut mechanisms = all(100);
    mechanisms.extend([2u64, 4000, 1 << 14].map(|horizon| SquareRoot::new(horizon).unwrap()));
    mechanisms.extend((1..=40).map(|bands| SquareRoot::banded(1000, bands).unwrap()));
    for bands in [1, 6, 100, 3000] {
        mechanisms.push(SquareRoot::banded(5000, bands).unwrap());
        mechanisms.push(SquareRoot::banded_inverse(5000, bands).unwrap());
        for (horizon, exponent) in [(5000, "0.3"), (5000, "0.95"), (1 << 14, "0.9999")] {
            mechanisms.push(SquareRoot::banded_inverse_power(horizon, bands, exponent.parse().unwrap()).unwrap());
        }
    }
    for mechanism in mechanisms {
        let f = &mechanism.rounded;
        let mut inverse: Vec<f64> = vec![];
        for t in 0..f.len() {
            let known: f64 = inverse.iter().zip(f[1..=t].iter().rev()).map(|(r, f)| r * f64::from(*f)).sum();
            inverse.push((f64::from(u8::from(t == 0)) * f64::from(f[0]) - known) / f64::from(f[0]));
        }
        let sum: f64 = inverse.iter().map(|r| r.abs()).sum();
        assert!(sum < 2.5, "{} at {}: {sum}", mechanism.name(), f.len());
    }
}

/// The release is the one of the definition, whichever precision decides it.
#[test]
fn releases_are_correctly_rounded() {
    for mechanism in all(60) {
        let want = by_rationals(&integer_matrix(&mechanism));
        let weights = || mechanism.is_normalized().then(|| mechanism.weights.clone());
        let mut usual = mechanism.cursor();
        // So few guard bits that the big integers nearly always decide.
        let mut coarse = TriangularCursor::with_guard(mechanism.rows.clone(), weights(), 10);
        for (step, want) in want.into_iter().enumerate() {
            assert_eq!(usual.advance(&mut noise), want, "{} step {step}", mechanism.name());
            assert_eq!(coarse.advance(&mut noise), want, "{} step {step}, coarse", mechanism.name());
        }
        // A large value in the middle lowers the guard on the way.
        let mut loud = |node: Node| if node.index == 30 { 1 << 70 } else { noise(node) };
        let (mut fast, mut slow) =
            (mechanism.cursor(), TriangularCursor::with_guard(mechanism.rows.clone(), weights(), 10));
        for step in 0..60 {
            assert_eq!(fast.advance(&mut loud), slow.advance(&mut loud), "{} step {step}, loud", mechanism.name());
        }
        for start in [0, 1, 30, 60] {
            let mut other = mechanism.cursor();
            let there = other.seek(start, &mut noise);
            assert_eq!(there, usual.seek(start, &mut noise), "{} seek {start}", mechanism.name());
        }
    }
}

/// The noise of a release is `L z` of the ideal matrices, up to the rounding of `R`.
#[test]
fn the_filter_applies_the_ideal_matrix() {
    for mechanism in all(200) {
        let mut cursor = mechanism.cursor();
        let unit = libm::exp2(-f64::from(mechanism.noise_bits()));
        for step in 1..=200 {
            let released = cursor.advance(&mut noise) as f64 / f64::from(1 << FRACTION_BITS);
            let (mut ideal, mut size) = (0.0, 0.0f64);
            mechanism.visit_row(step, &mut |node, weight| {
                ideal += weight * noise(node) as f64 * unit;
                size += (weight * noise(node) as f64 * unit).powi(2);
            });
            assert!(
                (released - ideal).abs() < 2e-3 * size.sqrt() + 0.01,
                "{} step {step}: {released} {ideal}",
                mechanism.name()
            );
        }
    }
}

#[test]
fn golden_figures_and_limits() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../../golden.json")).unwrap();
    for (horizon, table) in golden["horizons"].as_object().unwrap() {
        for mechanism in both(horizon.parse().unwrap()) {
            let want = &table[mechanism.name().to_string()];
            let norms = mechanism.column_norms();
            let (max, mean) = (mechanism.max_row_norm_squared(), mechanism.mean_row_norm_squared());
            for (key, ours) in [
                ("s1", norms.l1),
                ("s2", norms.l2_squared.sqrt()),
                ("zcdp_max", norms.l2_squared * max),
                ("zcdp_mean", norms.l2_squared * mean),
                ("pure_max", 2.0 * norms.l1 * norms.l1 * max),
                ("pure_mean", 2.0 * norms.l1 * norms.l1 * mean),
            ] {
                let want = want[key].as_f64().unwrap();
                assert!((ours - want).abs() < 1e-9 * want.max(1.0), "{} {key}: {ours}, want {want}", mechanism.name());
            }
        }
    }
    assert!(SquareRoot::new(MAX_HORIZON + 1).is_err() && SquareRoot::normalized(MAX_NORMALIZED + 1).is_err());
    let shape = Criterion::new(NoiseKind::Gaussian, Objective::Max);
    assert_eq!(
        "normalized-sqrt".parse::<MechanismName>().unwrap().build(9, &shape).unwrap().name().to_string(),
        "normalized-sqrt"
    );
}

/// One band is noise on every input, all bands are the square root; more or none are rejected.
#[test]
fn bands_lead_from_input_noise_to_the_square_root() {
    let (input, whole) = (Input::new(50).unwrap(), SquareRoot::new(50).unwrap());
    for build in [SquareRoot::banded, SquareRoot::banded_inverse] {
        let (least, most) = (build(50, 1).unwrap(), build(50, 50).unwrap());
        assert_eq!(least.column_norms(), input.column_norms());
        assert!((most.column_norms().l2_squared / whole.column_norms().l2_squared - 1.0).abs() < 1e-12);
        for step in [1, 7, 50] {
            assert_eq!(least.row_norm_squared(step), input.row_norm_squared(step));
            assert!((most.row_norm_squared(step) / whole.row_norm_squared(step) - 1.0).abs() < 1e-12);
        }
        assert!(build(50, 0).is_err() && build(50, 51).is_err() && build(MAX_BANDED + 1, 2).is_err());
        assert_ne!(build(50, 7).unwrap().name(), build(50, 8).unwrap().name());
    }
}

/// The filter of a banded matrix multiplies no more than its bands.
#[test]
fn bands_are_all_that_the_filter_keeps() {
    let FilterRows::Toeplitz(kept, _) = SquareRoot::banded(1000, 6).unwrap().rows else { panic!("a Toeplitz matrix") };
    assert_eq!(kept.row(999).len(), 6);
}

/// Longer horizons than those of counts, for vectors: the same first rows and columns.
#[test]
fn long_bands_are_for_vectors() {
    let name: MechanismName = "banded-sqrt(bands=3)".parse().unwrap();
    let vectors = Criterion::from_vectors(Objective::Mean, Participation::ONCE);
    let [long, short] = [MAX_BANDED + 1, MAX_BANDED].map(|steps| name.build(steps, &vectors).unwrap());
    assert_eq!(long.row_norm_squared(MAX_BANDED), short.row_norm_squared(MAX_BANDED));
    assert_eq!(long.bands().unwrap().squares[1..], short.bands().unwrap().squares);
    let counts = Criterion::new(NoiseKind::Gaussian, Objective::Mean);
    assert!(name.build(MAX_BANDED + 1, &counts).unwrap_err().to_string().contains("16384"));
    assert!(name.build((1 << 20) + 1, &vectors).is_err());
}
