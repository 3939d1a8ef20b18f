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

/// `min { ‖v‖₁ : L v = a_i }` over all sums of zeros and ones along the paths, node by node, and the largest over `i`.
fn cheapest_shift(horizon: u64, levels: u32) -> u32 {
    let nodes: Vec<(u32, u64)> =
        (1..levels).flat_map(|level| (0..horizon.div_ceil(1 << level)).map(move |index| (level, index))).collect();
    let shift_to = |first: u64| {
        let cost = |inner: u32| {
            let sum = |level: u32, index: u64| match nodes.iter().position(|node| *node == (level, index)) {
                _ if level == 0 => u32::from(index + 1 >= first),
                Some(place) => inner >> place & 1,
                None => 0,
            };
            let leaves = (0..horizon).map(|index| (0, index));
            leaves.chain(nodes.iter().copied()).map(|(l, i)| sum(l, i).abs_diff(sum(l + 1, i >> 1))).sum::<u32>()
        };
        (0..1u32 << nodes.len()).map(cost).min().unwrap()
    };
    (1..=horizon).map(shift_to).max().unwrap()
}

#[test]
fn the_laplace_sensitivity_is_the_cheapest_shift() {
    for horizon in 1..=9u64 {
        let height = super::height(horizon);
        for levels in [height.max(1), height + 1, height + 2] {
            let ours = laplace::sensitivity(horizon, levels);
            assert_eq!(ours, cheapest_shift(horizon, levels), "{horizon} steps, {levels} levels");
        }
    }
    for height in 1..=62u32 {
        assert_eq!(laplace::sensitivity(1 << height, height + 1), height / 2 + 1);
    }
    let best = PathSum::best_for_laplace(1024).unwrap();
    assert_eq!(best.name().to_string(), "path-sum(levels=1*10)");
    assert_eq!(best.laplace().unwrap(), LaplaceShift::together(6));
    assert!(PathSum::best(1024).unwrap().laplace().is_err());
    assert_eq!(best.through(16).unwrap().column_norms().l1, 3.0);
}

/// The least shift for any differences of running sums, by trying all sums of inner nodes.
#[test]
fn least_shifts_are_those_of_enumeration() {
    for (horizon, levels) in [(1, 1), (2, 1), (2, 2), (3, 2), (3, 3), (4, 2), (4, 3), (4, 4)] {
        let inner: Vec<(u32, u64)> =
            (1..levels).flat_map(|level| (0..4u64.div_ceil(1 << level)).map(move |index| (level, index))).collect();
        let sums_of = |code: u32| move |place: usize| i64::from(code / 5u32.pow(place as u32) % 5) - 2;
        for target in 0..5u32.pow(horizon) {
            let cost = |code: u32| -> i64 {
                let sum = |level: u32, index: u64| match inner.iter().position(|node| *node == (level, index)) {
                    _ if level == 0 => sums_of(target)(index as usize),
                    Some(place) => sums_of(code)(place),
                    None => 0,
                };
                let nodes = (0..u64::from(horizon)).map(|index| (0, index)).chain(inner.iter().copied());
                nodes.map(|(level, index)| (sum(level, index) - sum(level + 1, index >> 1)).abs()).sum()
            };
            let want = (0..5u32.pow(inner.len() as u32)).map(cost).min().unwrap();
            let differences: Vec<f64> = (0..horizon as usize).map(|step| sums_of(target)(step) as f64).collect();
            let ours = laplace::least_shift(&differences, levels);
            assert_eq!(ours, want as f64, "{differences:?} on {levels} levels");
        }
    }
}

/// The greatest loss of the releases of four steps, from their exact law under discrete Laplace noise: never above
/// `s1/λ`, and close to it far out.
#[test]
fn the_laplace_sensitivity_is_the_loss_of_the_releases() {
    const REACH: i64 = 200;
    const SCALE: f64 = 2.0;
    let weights: Vec<f64> = (0..=2 * REACH).map(|x| libm::exp(-(x as f64) / SCALE)).collect();
    let p = |x: i64| weights[x.unsigned_abs() as usize];
    // Two leaves and the node above them, up to a factor.
    let size = 2 * REACH + 1;
    let pair = |y: i64, z: i64| (-REACH..=REACH).map(|node| p(node) * p(y - node) * p(z - node)).sum::<f64>();
    let table: Vec<f64> = (0..size * size).map(|at| pair(at / size - REACH, at % size - REACH)).collect();
    let pair = |y: i64, z: i64| table[((y + REACH) * size + z + REACH) as usize];
    for (root, s1) in [(true, 2.0), (false, 2.0)] {
        assert_eq!(PathSum::uniform(4, root).unwrap().column_norms().l1, s1);
        let law = |y: [i64; 4]| {
            let under = |noise: i64| pair(y[0] - noise, y[1] - noise) * pair(y[2] - noise, y[3] - noise);
            if root { (-120..=120).map(|noise| p(noise) * under(noise)).sum() } else { under(0) }
        };
        let mut greatest = f64::NEG_INFINITY;
        let values = [-60, -20, 0, 1, 20, 60];
        for at in 0..6i32.pow(4) {
            let y = [0, 1, 2, 3].map(|step| values[(at / 6i32.pow(step) % 6) as usize]);
            for first in 0..4 {
                let with = [0, 1, 2, 3].map(|step| y[step] - i64::from(step >= first));
                greatest = greatest.max(libm::log(law(y) / law(with)).abs());
            }
        }
        assert!(greatest * SCALE <= s1 + 1e-9 && greatest * SCALE > 0.95 * s1, "root {root}: {}", greatest * SCALE);
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
