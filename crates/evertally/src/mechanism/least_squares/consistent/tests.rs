//! The consistent tree against dense algebra, golden figures, and exact rational estimation.

use super::*;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::{NoiseKind, Objective};
use nalgebra::DMatrix;

fn trees(horizon: u64) -> Vec<Consistent> {
    let mut trees = vec![];
    for k in [2, 3, 5, 12] {
        for root in [true, false] {
            trees.push(Consistent::uniform(horizon, k, root).unwrap());
        }
    }
    for shape in [
        Criterion::new(NoiseKind::Laplace, Objective::Max),
        Criterion::new(NoiseKind::Laplace, Objective::Mean),
        Criterion::new(NoiseKind::Gaussian, Objective::Max),
    ] {
        trees.push(Consistent::best(horizon, &shape).unwrap());
    }
    let levels = block_counts(horizon, 2).len();
    trees.push(Consistent::new(horizon, 2, Levels::new(&vec![3; levels.div_ceil(2)]).unwrap()).unwrap());
    trees
}

/// `A R⁺` by another library's linear algebra, with `R` written down from the definition.
fn dense(tree: &Consistent) -> (DMatrix<f64>, DMatrix<f64>, Vec<Node>) {
    let (shape, steps) = (&tree.shape, tree.horizon() as usize);
    let mut rows = vec![];
    for (level, weight) in shape.weights.as_slice().iter().enumerate() {
        let width = (shape.arity as usize).pow(level as u32);
        for (index, first) in (0..steps).step_by(width).enumerate() {
            let row = (0..steps).map(|t| if (first..first + width).contains(&t) { f64::from(*weight) } else { 0.0 });
            rows.push((Node { level: level as u32, index: index as u64 }, row.collect::<Vec<_>>()));
        }
    }
    let r = DMatrix::from_fn(rows.len(), steps, |i, j| rows[i].1[j]);
    let a = DMatrix::from_fn(steps, steps, |i, j| if j <= i { 1.0 } else { 0.0 });
    let l = a * (r.transpose() * &r).try_inverse().unwrap() * r.transpose();
    (l, r, rows.into_iter().map(|(node, _)| node).collect())
}

#[test]
fn figures_rows_and_sensitivity_match_dense_linear_algebra() {
    for horizon in [1, 2, 3, 7, 12, 40, 64] {
        for tree in trees(horizon) {
            let name = tree.name();
            let one_by_one: Vec<f64> = (1..=horizon).map(|step| tree.row_norm_squared(step)).collect();
            let mean = one_by_one.iter().sum::<f64>() / horizon as f64;
            let max = one_by_one.iter().copied().fold(0.0, f64::max);
            assert_eq!((tree.max, tree.mean), (max, mean), "{name} at {horizon}, to the last bit");
            let (l, r, nodes) = dense(&tree);
            for step in 1..=horizon {
                let row = l.row(step as usize - 1);
                let want = row.norm_squared();
                assert!((tree.row_norm_squared(step) / want - 1.0).abs() < 1e-9, "{name} at {horizon}, step {step}");
                let (law, mut fourth) = (tree.row_law(step), 0.0);
                tree.visit_row(step, &mut |node, weight| {
                    fourth += weight.powi(4);
                    let column = nodes.iter().position(|n| *n == node).unwrap();
                    assert!((weight - row[column]).abs() < 1e-9, "{name} at {horizon}, step {step}, {node:?}");
                });
                let allowed: f64 = match law {
                    RowLaw::Sum(terms) => terms.iter().map(|(w, n)| w.powi(4) * *n as f64).sum(),
                    RowLaw::Like { norm_squared, terms } => norm_squared * norm_squared / terms as f64,
                };
                assert!(fourth <= allowed * (1.0 + 1e-9), "{name} at {horizon}, step {step}: heavier tails");
            }
            let columns = |norm: fn(f64) -> f64| {
                (0..horizon as usize).map(|j| r.column(j).iter().map(|x| norm(*x)).sum::<f64>()).fold(0.0, f64::max)
            };
            assert_eq!(tree.column_norms(), ColumnNorms { l1: columns(f64::abs), l2_squared: columns(|x| x * x) });
            assert_eq!(tree.spread_squared(Spread::ONE) as f64, tree.column_norms().l2_squared, "{name}");
            let twin = tree.dense();
            assert!(twin.prefix_sum_error() < 1e-9, "{name} at {horizon}");
            assert_eq!(twin.column_norms(), tree.column_norms(), "{name} at {horizon}");
        }
    }
}

#[test]
fn golden_figures() {
    let golden: serde_json::Value = serde_json::from_str(include_str!("../../golden.json")).unwrap();
    for (horizon, table) in golden["horizons"].as_object().unwrap() {
        for (name, k, root) in [
            ("consistent(k=2, no root)", 2, false),
            ("consistent(k=8, with root)", 8, true),
            ("consistent(k=12, with root)", 12, true),
        ] {
            let tree = Consistent::uniform(horizon.parse().unwrap(), k, root).unwrap();
            let (norms, want) = (tree.column_norms(), &table[name]);
            let (max, mean) = (tree.max_row_norm_squared(), tree.mean_row_norm_squared());
            for (key, ours) in [
                ("s1", norms.l1),
                ("zcdp_max", norms.l2_squared * max),
                ("zcdp_mean", norms.l2_squared * mean),
                ("pure_max", 2.0 * norms.l1 * norms.l1 * max),
                ("pure_mean", 2.0 * norms.l1 * norms.l1 * mean),
            ] {
                let want = want[key].as_f64().unwrap();
                assert!((ours - want).abs() < 1e-8 * want.max(1.0), "{name} at {horizon}: {key} {ours}, want {want}");
            }
        }
    }
}

/// A mean of 90 and a max of 135 are known for T = 512 with blocks; optimising the weights must not be worse.
#[test]
fn optimised_weights_beat_equal_ones() {
    let (by_max, by_mean) =
        (Criterion::new(NoiseKind::Laplace, Objective::Max), Criterion::new(NoiseKind::Laplace, Objective::Mean));
    let uniform = by_mean.figure(&Consistent::uniform(512, 12, false).unwrap());
    assert!((uniform - 91.0).abs() < 0.5, "{uniform}");
    let best = |shape: &Criterion| shape.figure(&Consistent::best(512, shape).unwrap());
    assert!(best(&by_mean) <= 90.5, "{}", best(&by_mean));
    assert!(best(&by_max) <= 135.5, "{}", best(&by_max));
}

/// The search must give the same weights on every machine: a plan that names its mechanism can be read anywhere, and a
/// plan that leaves it open is found again.
#[test]
fn found_weights_are_frozen() {
    assert_eq!(
        Consistent::best(365, &Criterion::new(NoiseKind::Laplace, Objective::Max)).unwrap().name().to_string(),
        "consistent(k=12,levels=256:210:185)"
    );
    assert_eq!(
        Consistent::best(1000, &Criterion::new(NoiseKind::Laplace, Objective::Mean)).unwrap().name().to_string(),
        "consistent(k=15,levels=256:235:223)"
    );
}

fn noise(node: Node) -> i128 {
    let x = (node.index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(node.level) << 40);
    i128::from((x ^ (x >> 29)) as i64 >> 30)
}

/// The release is the definition's: the exact rational estimate, floored after adding √2 - 1 in output units.
#[test]
fn releases_are_correctly_rounded() {
    use num_rational::BigRational;
    let whole = |x: i128| BigRational::from_integer(BigInt::from(x));
    let offset = BigRational::new(
        "414213562373095048801688724209698078569671875376948073176679".parse().unwrap(),
        BigInt::from(10).pow(60),
    );
    for tree in trees(20) {
        let shape = &tree.shape;
        let precision = |level: usize| whole(shape.weight(level).map_or(0, |w| i128::from(w).pow(2)));
        let measured = |level: usize, index: u64| {
            whole(noise(Node { level: level as u32, index })) / whole(shape.weight(level).unwrap_or(1).into())
        };
        let mut variances: Vec<Vec<BigRational>> = vec![vec![whole(1) / precision(0); 20]];
        let mut inside: Vec<Vec<BigRational>> = vec![(0..20).map(|i| measured(0, i)).collect()];
        let sum = |values: &Vec<BigRational>, range: std::ops::Range<u64>| {
            range.map(|c| values[c as usize].clone()).sum::<BigRational>()
        };
        for level in 1..shape.levels() {
            let (mut v, mut u) = (vec![], vec![]);
            for index in 0..shape.blocks[level] {
                let total = sum(&variances[level - 1], shape.children(level, index));
                let s = sum(&inside[level - 1], shape.children(level, index));
                let gain = &total * precision(level);
                u.push((measured(level, index) * &gain + s) / (whole(1) + &gain));
                v.push(&total / (whole(1) + gain));
            }
            variances.push(v);
            inside.push(u);
        }
        let mut last = inside.last().unwrap().clone();
        for level in (1..shape.levels()).rev() {
            let mut below = inside[level - 1].clone();
            for index in 0..shape.blocks[level] {
                let children = shape.children(level, index);
                let (s, all) =
                    (sum(&inside[level - 1], children.clone()), sum(&variances[level - 1], children.clone()));
                for c in children {
                    below[c as usize] += (&last[index as usize] - &s) * &variances[level - 1][c as usize] / &all;
                }
            }
            last = below;
        }
        let mut cursor = tree.cursor();
        let mut prefix = whole(0);
        for (step, leaf) in last.into_iter().enumerate() {
            prefix += leaf;
            let want = (&prefix * whole(1 << FRACTION_BITS) + &offset).floor().to_integer();
            assert_eq!(BigInt::from(cursor.advance(&mut noise)), want, "{} step {step}", tree.name());
        }
        assert_eq!(cursor.seek(7, &mut noise), tree.cursor().seek(7, &mut noise));
    }
}

use num_bigint::BigInt;

/// The memory of a cursor grows with the arity and the logarithm of the horizon, and so does the number of draws;
/// earlier positions make no difference.
#[test]
fn cursors_keep_little_and_stand_anywhere() {
    for (horizon, k) in [(1 << 20, 16), (250_000, 24), (40_000, 3)] {
        let tree = Consistent::uniform(horizon, k, false).unwrap();
        let draws = std::cell::Cell::new(0u64);
        let mut counted = |node| {
            draws.set(draws.get() + 1);
            noise(node)
        };
        let mut cursor = path::PathCursor::new(tree.shape.clone());
        let steps = if horizon > 1 << 18 { 3 * k.pow(4).min(horizon / 8) } else { horizon };
        let last = (0..steps).map(|_| cursor.advance(&mut counted)).last();
        assert!(draws.get() as f64 <= tree.cost().draws_per_step * horizon as f64 * 1.001, "{}", draws.get());
        assert!(cursor.words() <= tree.cost().memory_words && tree.cost().memory_words < horizon / 2);
        let mut other = tree.cursor();
        for step in [1, steps / 2, steps - 1, 5, steps] {
            other.seek(step, &mut noise);
        }
        assert_eq!(Some(other.seek(steps, &mut noise)), last);
    }
}

#[test]
fn weights_must_fit_the_tree() {
    assert!(Consistent::new(10, 3, "1:1:1:1".parse().unwrap()).is_ok());
    assert!(Consistent::new(10, 3, "1:1".parse().unwrap()).is_ok());
    assert!(Consistent::new(10, 3, "1:1:1:1:1".parse().unwrap()).is_err());
    for wrong in ["", "0", "1:0", "1:x", "70000"] {
        assert!(wrong.parse::<Levels>().is_err(), "{wrong}");
    }
    assert!(Consistent::uniform(10, 1, true).is_err() && Consistent::uniform(0, 2, true).is_err());
}
