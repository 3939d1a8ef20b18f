//! Path sums compared with the Haar formula, dense linear algebra, and independently known values.

use super::*;
use crate::mechanism::{Criterion, MechanismName, NoiseKind, Objective};

fn build(name: &str, horizon: u64) -> std::sync::Arc<dyn Mechanism> {
    name.parse::<MechanismName>().unwrap().build(horizon, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).unwrap()
}

fn tree(horizon: u64, weights: &str) -> PathSum {
    PathSum::new(horizon, weights.parse().unwrap()).unwrap()
}

/// The Haar formula of the module for the cut before step `i` of `2^h` steps.
fn haar(weights: &[u16], height: u32, i: u64) -> f64 {
    let r = (1u64 << height) - i + 1;
    let (mut sum, mut e) = (0.0, 0.0);
    for j in 1..=height {
        let w = f64::from(weights[j as usize - 1]);
        let block = 1u64 << j;
        e += (block / 2) as f64 * w * w;
        let within = (r % block).min(block - r % block) as f64;
        sum += within * within / (block as f64 * e);
    }
    let root = weights.get(height as usize).map_or(0.0, |w| f64::from(*w));
    let leaves = (1u64 << height) as f64;
    sum + (r as f64) * (r as f64) / (leaves * (e + leaves * root * root))
}

#[test]
fn full_trees_follow_the_haar_formula() {
    for height in [1u32, 2, 3, 5, 8, 11] {
        let given: Vec<u16> = (0..=height as u16).map(|l| [12, 3, 8, 6, 4][usize::from(l) % 5]).collect();
        for weights in [&given[..], &given[..height as usize], &vec![1; height as usize + 1]] {
            let tree = PathSum::new(1 << height, Levels::new(weights).unwrap()).unwrap();
            let want = (1..=1 << height).map(|i| haar(weights, height, i)).fold(0.0, f64::max);
            let ours = tree.exact_l2_squared().unwrap();
            assert!(ours >= want * (1.0 - 1e-14) && ours <= want * (1.0 + 1e-11), "{tree:?}: {ours}, want {want}");
        }
    }
}

/// Any horizon: the dense twin's `L R` is `A`, its columns have the norms of our recursion, and every row norm is
/// correct.
#[test]
fn dense_twins_agree() {
    for horizon in [1, 2, 3, 4, 5, 7, 8, 9, 21, 33, 64, 65, 100] {
        let mut trees = vec![PathSum::best(horizon).unwrap(), PathSum::uniform(horizon, true).unwrap()];
        trees.push(PathSum::uniform(horizon, false).unwrap());
        for tree in trees {
            let (name, pair) = (tree.name(), tree.dense());
            assert!(pair.prefix_sum_error() < 1e-9, "{name} at {horizon}");
            let (ours, dense) = (tree.column_norms().l2_squared, pair.column_norms().l2_squared);
            assert!((ours / dense - 1.0).abs() < 1e-9, "{name} at {horizon}: {ours}, {dense}");
            for (row, step) in pair.row_norms_squared().iter().zip(1..) {
                assert_eq!((*row, *row), (tree.row_norm_squared(step), tree.max_row_norm_squared()));
                let RowLaw::Sum(terms) = tree.row_law(step) else { panic!("a sum") };
                assert_eq!(*row, terms.iter().map(|(w, n)| w * w * *n as f64).sum::<f64>());
            }
        }
    }
}

/// 2ρ·variance from an independent computation, and the values of the golden file.
#[test]
fn known_figures() {
    let figure = |name: &str, horizon| {
        let tree = build(name, horizon);
        tree.exact_l2_squared().unwrap() * tree.max_row_norm_squared()
    };
    let golden: serde_json::Value = serde_json::from_str(include_str!("../../golden.json")).unwrap();
    for (name, key) in [
        ("path-sum(levels=unit)", "path-sum(unit levels)"),
        ("path-sum(levels=unit,root=false)", "path-sum(unit levels, no root)"),
    ] {
        for horizon in [64, 1024] {
            let want = &golden["horizons"][horizon.to_string()][key];
            let (squared, max) = (want["s2_squared"].as_f64().unwrap(), want["zcdp_max"].as_f64().unwrap());
            assert!((build(name, horizon).exact_l2_squared().unwrap() / squared - 1.0).abs() < 1e-9, "{name}");
            assert!((figure(name, horizon) / max - 1.0).abs() < 1e-9, "{name}");
        }
    }
    assert!((figure("path-sum(levels=unit)", 256) - 14.12).abs() < 0.005);
    for (horizon, want) in [(256, 12.03), (1024, 17.10)] {
        let ours = figure("path-sum", horizon);
        assert!((ours - want).abs() < 0.01, "{horizon}: {ours}");
    }
}

/// The best weights beat unit weights at any horizon, and are found instantly.
#[test]
fn best_weights_beat_equal_ones() {
    for horizon in [2, 3, 100, 5000, 10_000, 1 << 20, (1 << 20) + 1, 1 << 40, (1 << 61) + (1 << 58), MAX_HORIZON] {
        let figure = |tree: PathSum| tree.squared * tree.variance();
        let (best, unit) = (figure(PathSum::best(horizon).unwrap()), figure(PathSum::uniform(horizon, true).unwrap()));
        assert!(best <= unit * (1.0 + 1e-12), "{horizon}: {best} {unit}");
        assert!(best < 0.97 * unit || horizon == 2, "{horizon}: {best} {unit}");
    }
}

#[test]
fn names_and_refusals() {
    for name in ["path-sum", "path-sum(levels=unit)", "path-sum(levels=unit,root=false)", "path-sum(levels=4:2:2:3*3)"]
    {
        assert_eq!(name.parse::<MechanismName>().unwrap().to_string(), name);
    }
    assert_eq!(tree(4, "4:2:3").name().to_string(), "path-sum(levels=4:2:3)");
    assert_eq!(tree(16, "4:2:2:2:3").name().to_string(), "path-sum(levels=4:2*3:3)");
    let longest = PathSum::best(MAX_HORIZON).unwrap().name().to_string();
    assert!(longest.len() < 60 && longest == build(&longest, MAX_HORIZON).name().to_string(), "{longest}");
    for (horizon, weights) in [(4, "1"), (4, "1:1:1:1"), (3, "65521:65519"), (5, "1:1")] {
        assert!(PathSum::new(horizon, weights.parse().unwrap()).is_err(), "{horizon} {weights}");
    }
    for bad in [
        "path-sum(levels=uniform)",
        "path-sum(root=false)",
        "path-sum(k=2)",
        "path-sum(levels=0:1)",
        "path-sum(levels=1*0)",
        "path-sum(levels=1*64)",
        "path-sum(levels=1*)",
    ] {
        assert!(bad.parse::<MechanismName>().is_err(), "{bad}");
    }
    assert!(PathSum::best(0).is_err() && PathSum::best(MAX_HORIZON + 1).is_err());
}
