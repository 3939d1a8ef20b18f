//! Hats against dense algebra.

use super::*;
use nalgebra::DMatrix;

/// Many shapes: the best ones, single hats longer than half the horizon, and spacings that do not divide anything.
fn shapes(horizon: u64) -> Vec<Hats> {
    let mut shapes = vec![Hats::best(horizon, true).unwrap(), Hats::best(horizon, false).unwrap()];
    for text in [
        "spacing=none",
        "spacing=2,first=500,last=300",
        "spacing=3/7,first=400/300,last=500/200",
        "spacing=4/8/16,first=400/300/200,last=300/200/100",
        "spacing=5/40,first=100/600,last=600/20",
        "spacing=7/61,first=500/999,last=500/1",
        "spacing=64,first=400,last=300",
        "spacing=2/3/4/5/6/7,first=500/300/250/200/160/140,last=500/300/250/200/160/140",
    ] {
        shapes.extend(Hats::new(horizon, &text.parse().unwrap()).ok());
    }
    shapes
}

/// `A R⁺` by another library's linear algebra, with `R` written down from the definition.
fn dense(hats: &Hats) -> (DMatrix<f64>, DMatrix<f64>, Vec<Node>) {
    let (shape, steps) = (&hats.shape, hats.horizon() as usize);
    let mut rows: Vec<(Node, Vec<f64>)> = vec![];
    for (level, spacing) in shape.levels.spacings().iter().enumerate() {
        let w = f64::from(*spacing);
        let count = (1..).take_while(|n| f64::from(*n) * w <= steps as f64 - 0.2 * w).last().unwrap_or(1);
        for hat in 0..count {
            let knot = steps as f64 + 1.0 - f64::from(count - hat) * w;
            let slope = shape.height(level, hat as usize) as f64 / w;
            let value = |j: f64| if hat == 0 && j < knot { w } else { (w - (j - knot).abs()).max(0.0) };
            let row = (1..=steps).map(|j| slope * value(j as f64)).collect();
            rows.push((hat_node(level, hat as usize), row));
        }
    }
    for j in 0..steps {
        let mut row = vec![0.0; steps];
        row[j] = shape.total as f64 - rows.iter().take(shape.hat_count()).map(|hat| hat.1[j]).sum::<f64>();
        rows.push((step_node(j as u64 + 1), row));
    }
    let r = DMatrix::from_fn(rows.len(), steps, |i, j| rows[i].1[j]);
    let a = DMatrix::from_fn(steps, steps, |i, j| if j <= i { 1.0 } else { 0.0 });
    let l = a * (r.transpose() * &r).try_inverse().unwrap() * r.transpose();
    (l, r, rows.into_iter().map(|(node, _)| node).collect())
}

#[test]
fn figures_rows_and_sensitivity_match_dense_linear_algebra() {
    for horizon in [1, 2, 3, 7, 12, 40, 64, 101] {
        for hats in shapes(horizon) {
            let name = hats.name();
            let (l, r, nodes) = dense(&hats);
            for step in 1..=horizon {
                let row = l.row(step as usize - 1);
                let want = row.norm_squared();
                let ours = hats.row_norm_squared(step);
                assert!((ours / want - 1.0).abs() < 1e-9, "{name} at {horizon}, step {step}: {ours} {want}");
                let mut visited = 0;
                hats.visit_row(step, &mut |node, weight| {
                    visited += 1;
                    let column = nodes.iter().position(|n| *n == node).unwrap();
                    let error = (weight - row[column]).abs() * hats.shape.total as f64;
                    assert!(error < 1e-9, "{name} at {horizon}, step {step}, {node:?}");
                });
                assert_eq!(visited, nodes.len(), "{name} at {horizon}: each node once");
            }
            let columns = |norm: fn(f64) -> f64| {
                (0..horizon as usize).map(|j| r.column(j).iter().map(|x| norm(*x)).sum::<f64>()).fold(0.0, f64::max)
            };
            assert_eq!(hats.column_norms(), ColumnNorms { l1: columns(f64::abs), l2_squared: columns(|x| x * x) });
            for j in 0..horizon as usize {
                assert_eq!(
                    r.column(j).sum() as u64,
                    hats.shape.total,
                    "{name} at {horizon}: every column has the sum s1"
                );
            }
            let twin = hats.dense();
            assert!(twin.prefix_sum_error() < 1e-9, "{name} at {horizon}");
            assert_eq!(twin.column_norms(), hats.column_norms(), "{name} at {horizon}");
        }
    }
}
