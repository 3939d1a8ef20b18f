//! Closed forms, dense twins, cursors, random access and golden values, compared with each other.

use super::*;
use crate::noise::Node;
use std::collections::HashMap;
use std::sync::Arc;

fn all(horizon: u64) -> Vec<Arc<dyn Mechanism>> {
    let gaussian = Criterion::new(NoiseKind::Gaussian, Objective::Max);
    let mut names: Vec<String> = ["input", "output", "binary", "honaker-online", "smooth", "kary", "subtract"]
        .iter()
        .map(ToString::to_string)
        .collect();
    for k in [2, 3, 4, 5, 7, 8, 17] {
        names.push(format!("kary(k={k})"));
    }
    for k in [3, 4, 5, 6, 7, 8, 13, 19, 20] {
        names.push(format!("subtract(k={k})"));
    }
    let build = |name: &String| name.parse::<MechanismName>().unwrap().build(horizon, &gaussian).unwrap();
    let mut mechanisms: Vec<_> = names.iter().map(build).collect();
    mechanisms.push(Arc::new(Smooth::published(horizon).unwrap()));
    mechanisms.push(
        MechanismName::Smooth(ShapeChoice::Best)
            .build(horizon, &Criterion::new(NoiseKind::Laplace, Objective::Max))
            .unwrap(),
    );
    for (height, zeros) in [(8, 3), (9, 6), (12, 6), (20, 2), (20, 18)] {
        mechanisms.extend(Smooth::new(horizon, height, zeros).ok().map(|m| Arc::new(m) as Arc<dyn Mechanism>));
    }
    mechanisms
}

/// Mechanisms without a 0/1 matrix `R`.
fn all_cursors(horizon: u64) -> Vec<Arc<dyn Mechanism>> {
    let mut mechanisms = all(horizon);
    for name in ["path-sum", "path-sum(levels=unit)", "path-sum(levels=unit,root=false)"] {
        mechanisms.push(
            name.parse::<MechanismName>()
                .unwrap()
                .build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max))
                .unwrap(),
        );
    }
    mechanisms
}

const HORIZONS: [u64; 16] = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 31, 40, 64, 65, 100, 127];

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// The closed forms of a mechanism are those of its dense twin.
fn closed_forms_agree(mechanism: &dyn Mechanism) {
    let horizon = mechanism.horizon();
    let (name, dense) = (mechanism.name(), mechanism.dense());
    assert!(dense.prefix_sum_error() < 1e-12, "{name} at {horizon}: L R is not A");
    assert_eq!(mechanism.column_norms(), dense.column_norms(), "{name} at {horizon}");
    let rows = dense.row_norms_squared();
    for (row, step) in rows.iter().zip(1..) {
        assert!(close(*row, mechanism.row_norm_squared(step)), "{name} at {horizon}, step {step}");
        let RowLaw::Sum(terms) = mechanism.row_law(step) else { panic!("{name}: a tree is a sum") };
        let grouped: f64 = terms.iter().map(|(w, n)| w * w * *n as f64).sum();
        assert!(close(*row, grouped), "{name} at {horizon}, step {step}: magnitudes");
    }
    let max = rows.iter().copied().fold(0.0, f64::max);
    assert!(close(max, mechanism.max_row_norm_squared()), "{name} at {horizon}: max");
    let mean = rows.iter().sum::<f64>() / horizon as f64;
    assert!(close(mean, mechanism.mean_row_norm_squared()), "{name} at {horizon}: mean");
}

/// The tests of a family with 0/1 matrices and any horizon: closed forms, cursor, and bounds for units.
pub(super) fn check(build: impl Fn(u64) -> crate::Result<Arc<dyn Mechanism>>) {
    for horizon in HORIZONS {
        let mechanism = build(horizon).unwrap();
        assert_eq!(mechanism.horizon(), horizon);
        closed_forms_agree(&*mechanism);
        column_norms_agree(&*mechanism);
        cursor_agrees(&*mechanism);
        units::check(&*mechanism);
    }
    let far = build(1 << 40).unwrap();
    assert!(far.max_row_norm_squared() >= far.mean_row_norm_squared(), "{}", far.name());
    assert!(build(0).is_err() && build(MAX_HORIZON + 1).is_err());
}

#[test]
fn closed_forms_are_those_of_the_dense_twin() {
    for horizon in HORIZONS.into_iter().chain([250]) {
        for mechanism in all(horizon) {
            closed_forms_agree(&*mechanism);
        }
    }
}

/// The definition of the sensitivity, by brute force: add one unit to one step and see which node sums that are ever
/// read change. Independent of the matrices: reads are traced from a cursor.
fn column_norms_agree(mechanism: &dyn Mechanism) {
    let horizon = mechanism.horizon();
    let mut drawn = std::collections::BTreeSet::new();
    let mut cursor = mechanism.cursor();
    for _ in 0..horizon {
        cursor.advance(&mut |node| {
            drawn.insert(node);
            0
        });
    }
    let covering =
        |step: u64| drawn.iter().map(|n| mechanism.node_span(*n)).filter(|s| s.0 <= step && step <= s.1).count();
    let most = (1..=horizon).map(covering).max().unwrap() as f64;
    let name = mechanism.name();
    assert_eq!(mechanism.column_norms().l1, most, "{name} at {horizon}");
    // Laplace noise is calibrated to the sum of a column's magnitudes.
    if let Ok(shift) = mechanism.laplace() {
        let classes: u64 = shift.classes.iter().map(|(weight, count)| weight * count).sum();
        assert!(shift.column_sum as f64 >= most && classes as f64 >= most, "{name} at {horizon}: {shift:?} of {most}");
    }
}

#[test]
fn column_norms_count_exactly_the_nodes_a_cursor_draws() {
    for horizon in HORIZONS {
        for mechanism in all(horizon) {
            column_norms_agree(&*mechanism);
        }
    }
}

/// A value for a node that no short signed sum of others can imitate.
fn fingerprint(node: Node) -> i128 {
    let mut x = (u64::from(node.level) << 48) ^ node.index ^ 0x9e37_79b9_7f4a_7c15;
    for _ in 0..3 {
        x ^= x >> 31;
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^= x >> 29;
    }
    i128::from(x >> 16) - (1 << 47)
}

/// A cursor gives the rows of `L`, and continues from wherever it seeks to.
fn cursor_agrees(mechanism: &dyn Mechanism) {
    let horizon = mechanism.horizon();
    let name = mechanism.name();
    let mut cursor = mechanism.cursor();
    let scale = libm::exp2(f64::from(mechanism.fraction_bits()));
    let mut noises = vec![0];
    for step in 1..=horizon {
        let noise = cursor.advance(&mut fingerprint);
        let (mut exact, mut size) = (0.0, 0.0);
        mechanism.visit_row(step, &mut |node, weight| {
            exact += weight * fingerprint(node) as f64;
            size += (weight * fingerprint(node) as f64).abs();
        });
        let rounding = 1e-15 * size;
        let slack = match scale > 1.0 {
            true => 1e-3 + rounding,
            // Whole numbers are exact in a double up to 2^53.
            false if size < 9e15 => 0.0,
            false => rounding,
        };
        assert!((noise as f64 / scale - exact).abs() <= slack, "{name} at {horizon}, step {step}");
        assert_eq!(cursor.step(), step);
        noises.push(noise);
    }
    for start in [0, horizon / 3, horizon / 2, horizon] {
        let mut other = mechanism.cursor();
        assert_eq!(other.seek(start, &mut fingerprint), noises[start as usize], "{name} seek {start}");
        for step in start + 1..=horizon {
            assert_eq!(other.advance(&mut fingerprint), noises[step as usize], "{name} after seek {start}");
        }
        assert_eq!(cursor.seek(start, &mut fingerprint), noises[start as usize], "{name} seek back {start}");
    }
}

#[test]
fn cursors_follow_the_rows_and_seeking_agrees() {
    for horizon in HORIZONS.into_iter().chain([1000]) {
        for mechanism in all_cursors(horizon) {
            cursor_agrees(&*mechanism);
        }
    }
}

/// The predicted nodes are the ones requested, from every position of a cursor.
#[test]
fn nodes_are_asked_for_as_foretold() {
    let mut foretold_at_all = 0;
    for (name, horizon) in [("smooth(h=10,zeros=4)", 209), ("smooth", 1000), ("smooth", 5), ("kary(k=3)", 100)] {
        let gaussian = Criterion::new(NoiseKind::Gaussian, Objective::Max);
        let mechanism = name.parse::<MechanismName>().unwrap().build(horizon, &gaussian).unwrap();
        for start in [0, 1, horizon / 2, horizon - 1] {
            let mut cursor = mechanism.cursor();
            cursor.seek(start, &mut |_| 0);
            for room in [1, 16] {
                let mut nodes = [Node { level: 0, index: 0 }; 16];
                let count = cursor.foretell(&mut nodes[..room]);
                foretold_at_all += count;
                let mut asked = vec![];
                while cursor.step() < horizon && asked.len() < count {
                    cursor.advance(&mut |node| {
                        asked.push(node);
                        0
                    });
                }
                let common = count.min(asked.len());
                assert_eq!(nodes[..common], asked[..common], "{name} from {start}");
            }
        }
    }
    assert!(foretold_at_all > 50);
}

/// Amortized draws: about one per step for the digit trees, two for Honaker, a small constant for smooth; the stated
/// memory bounds the memory in use.
#[test]
fn draws_are_constant_per_step() {
    let horizon = 1 << 14;
    for mechanism in all_cursors(horizon) {
        let mut cursor = mechanism.cursor();
        let mut draws = 0u64;
        for _ in 0..horizon {
            cursor.advance(&mut |_| {
                draws += 1;
                0
            });
        }
        let per_step = draws as f64 / horizon as f64;
        assert!(per_step <= mechanism.cost().draws_per_step * 2.0 + 0.01, "{}: {per_step}", mechanism.name());
        assert!(per_step >= mechanism.cost().draws_per_step * 0.5, "{}: {per_step}", mechanism.name());
    }
}

/// Horizons to 2^40 and beyond cost neither memory nor time: norms, random access and streaming from the far end.
#[test]
fn long_horizons_do_not_allocate_with_the_horizon() {
    for horizon in [(1 << 20) + 3, 1 << 40] {
        for mechanism in all_cursors(horizon) {
            let name = mechanism.name();
            assert!(mechanism.max_row_norm_squared() >= mechanism.mean_row_norm_squared() * 0.999_999, "{name}");
            if name == MechanismName::Input || name == MechanismName::HonakerOnline && horizon == 1 << 40 {
                continue; // their prefixes read every node: a seek takes T draws
            }
            let mut far = mechanism.cursor();
            far.seek(horizon - 70, &mut fingerprint);
            for step in horizon - 69..=horizon {
                let noise = far.advance(&mut fingerprint);
                if name != MechanismName::HonakerOnline {
                    assert_eq!(noise, mechanism.cursor().seek(step, &mut fingerprint), "{name}");
                }
            }
        }
    }
    assert!(MechanismName::Binary.build(MAX_HORIZON, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).is_ok());
}

#[test]
fn golden_values() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("golden.json")).unwrap();
    let mut checked = 0;
    for (horizon, table) in golden["horizons"].as_object().unwrap() {
        let horizon: u64 = horizon.parse().unwrap();
        for (name, want) in table.as_object().unwrap() {
            let mechanism: Arc<dyn Mechanism> = match name.as_str() {
                "smooth(published shape)" => Arc::new(Smooth::published(horizon).unwrap()),
                "smooth(best zCDP shape)" => MechanismName::Smooth(ShapeChoice::Best)
                    .build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max))
                    .unwrap(),
                "smooth(best pure shape)" => MechanismName::Smooth(ShapeChoice::Best)
                    .build(horizon, &Criterion::new(NoiseKind::Laplace, Objective::Max))
                    .unwrap(),
                name => match name.parse::<MechanismName>() {
                    Ok(name) => name.build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).unwrap(),
                    Err(_) => continue, // families that are not part of this library yet
                },
            };
            let ColumnNorms { l1, l2_squared } = mechanism.column_norms();
            let (max, mean) = (mechanism.max_row_norm_squared(), mechanism.mean_row_norm_squared());
            let ours: HashMap<&str, f64> = [
                ("s1", l1),
                ("s2", l2_squared.sqrt()),
                ("zcdp_max", l2_squared * max),
                ("zcdp_mean", l2_squared * mean),
                ("pure_max", 2.0 * l1 * l1 * max),
                ("pure_mean", 2.0 * l1 * l1 * mean),
            ]
            .into();
            for (key, want) in want.as_object().unwrap() {
                let (want, ours) = (want.as_f64().unwrap(), ours[key.as_str()]);
                assert!((want - ours).abs() < 1e-9 * want.max(1.0), "{name} at {horizon}: {key} {ours}, want {want}");
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 5 * 17 * 6, "every golden mechanism of these families was compared");
}

#[test]
fn names_round_trip_and_bad_ones_are_refused() {
    for name in [
        "input",
        "binary",
        "kary(k=5)",
        "subtract(k=19)",
        "subtract",
        "smooth",
        "smooth(h=6,zeros=3)",
        "consistent",
        "consistent(k=12)",
        "consistent(k=12,levels=uniform,root=false)",
        "consistent(k=2,levels=3:2:1)",
    ] {
        assert_eq!(name.parse::<MechanismName>().unwrap().to_string(), name);
    }
    assert_eq!(" smooth( h = 6 , zeros=3 )".parse::<MechanismName>().unwrap().to_string(), "smooth(h=6,zeros=3)");
    let build = |name: &str| {
        name.parse::<MechanismName>().and_then(|n| n.build(100, &Criterion::new(NoiseKind::Gaussian, Objective::Max)))
    };
    for bad in [
        "",
        "sqrt(k=2)",
        "tree",
        "binary(k=2)",
        "kary(k=)",
        "kary(k=1)",
        "kary(k=-3)",
        "kary(h=3)",
        "subtract(k=2)",
        "smooth(h=6)",
        "smooth(h=6,zeros=6)",
        "smooth(h=6,zeros=3)",
        "smooth(h=200,zeros=3)",
        "kary(k=5",
        "kary(k=99999999)",
    ] {
        assert!(build(bad).is_err(), "{bad} was accepted");
    }
    assert!(MechanismName::Binary.build(0, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).is_err());
    assert!(
        MechanismName::Binary.build(MAX_HORIZON + 1, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).is_err()
    );
}

mod products;
mod units;
mod windows;
