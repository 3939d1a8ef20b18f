//! Inner products of rows of `L`, against the dense twin for all pairs of steps, for every family.

use super::*;

const NAMED: [&str; 13] = [
    "kary(k=2)",
    "kary(k=7)",
    "subtract(k=3)",
    "subtract(k=4)",
    "subtract(k=8)",
    "smooth(h=12,zeros=6)",
    "path-sum(levels=unit)",
    "path-sum(levels=unit,root=false)",
    "consistent(k=2)",
    "consistent(k=3,levels=uniform)",
    "consistent(k=5,levels=uniform,root=false)",
    "normalized-blt(run=5)",
    "blt(buffers=2)",
];

/// Every family, and every example of a name, under its usual noise distribution.
fn every_family(horizon: u64) -> Vec<Arc<dyn Mechanism>> {
    let families = MechanismName::all_families();
    let own = families.flat_map(|family| family.examples.iter().copied().chain([family.stem]));
    let build = |text: &str| {
        let name: MechanismName = text.parse().ok()?;
        let law = name.usual_law();
        (horizon <= 20 || name.family().long_search.is_none()).then_some(())?; // it takes minutes
        let criterion = Criterion::new(law, Objective::Max);
        let is_for_windows = name.family().publishes == Publishes::Workloads && name != MechanismName::Input;
        let workload = if is_for_windows { Workload::Window(5) } else { Workload::Sum };
        name.build(horizon, &criterion.with_workload(workload)).ok()
    };
    own.chain(NAMED).filter_map(build).collect()
}

#[test]
fn products_are_those_of_the_dense_twin() {
    let mut families = std::collections::BTreeSet::new();
    for horizon in [1, 2, 3, 7, 16, 19, 50, 65, 130] {
        for mechanism in every_family(horizon) {
            families.insert(mechanism.name().family().stem);
            let rows = mechanism.dense().l;
            for later in 1..=horizon {
                for earlier in 1..=later {
                    let entries = rows.row(earlier as usize - 1).iter().zip(rows.row(later as usize - 1));
                    let want: f64 = entries.map(|(a, b)| a * b).sum();
                    let product = mechanism.row_product(earlier, later);
                    let size = (mechanism.row_norm_squared(earlier) * mechanism.row_norm_squared(later)).sqrt();
                    assert!(
                        (product - want).abs() <= 1e-9 * size,
                        "{} at {horizon}, steps {earlier} and {later}: {product} is not {want}",
                        mechanism.name()
                    );
                }
                let norm = mechanism.row_norm_squared(later);
                assert!((mechanism.row_product(later, later) - norm).abs() <= 1e-9 * norm, "{}", mechanism.name());
            }
        }
    }
    let left: Vec<_> = MechanismName::all_families().map(|f| f.stem).filter(|stem| !families.contains(stem)).collect();
    assert_eq!(left, [""; 0], "every family was compared");
}

/// In simulations as in releases, `L z` is the sum over the entries of every row.
#[test]
fn paths_are_those_of_the_rows() {
    for horizon in [1, 2, 7, 19, 50, 130] {
        for mechanism in every_family(horizon) {
            let value = |node| fingerprint(node) as f64 / 1e14;
            let path = mechanism.noise_path(&mut |node| value(node));
            assert_eq!(path.len() as u64, horizon);
            for (noise, step) in path.into_iter().zip(1..) {
                let (mut want, mut size) = (0.0, 0.0);
                mechanism.visit_row(step, &mut |node, weight| {
                    want += weight * value(node);
                    size += weight * weight;
                });
                let off = (noise - want).abs() / size.sqrt();
                assert!(off < 1e-3, "{} at {horizon}, step {step}: {noise} is not {want}", mechanism.name());
            }
        }
    }
}

/// Long horizons, where the closed forms meet large numbers: the increments of a release have a variance, and the
/// Cauchy-Schwarz inequality holds.
#[test]
fn products_of_far_steps_are_covariances() {
    for name in ["binary", "subtract(k=19)", "smooth", "path-sum", "honaker-online", "blt", "normalized-blt"] {
        let horizon = 1 << 36;
        let mechanism = name
            .parse::<MechanismName>()
            .unwrap()
            .build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max))
            .unwrap();
        let steps = [1, 2, 1000, 1 << 20, (1 << 20) + 1, (1 << 35) - 1, 1 << 35, horizon - 1, horizon];
        for (i, later) in steps.into_iter().enumerate() {
            for earlier in steps[..=i].iter().copied() {
                let product = mechanism.row_product(earlier, later);
                let norms = [earlier, later].map(|step| mechanism.row_norm_squared(step));
                assert!(product >= 0.0 && product <= (norms[0] * norms[1]).sqrt() * (1.0 + 1e-12), "{name}");
                assert!(earlier != later || (product / norms[0] - 1.0).abs() < 1e-12, "{name}");
            }
        }
    }
}
