//! Nested hats against dense algebra and brute force.

use super::*;
use crate::mechanism::least_squares::test_noise::of_node as noise;
use crate::mechanism::{Hats, MechanismName, Objective};

/// Shapes of every kind that fit: one level and three, first knots far from the first step and near it, steep shares.
fn shapes(horizon: u64) -> Vec<NestedHats> {
    let texts = [
        "spacing=none",
        "spacing=4,first=500,last=300",
        "spacing=8,first=900,last=4",
        "spacing=32,first=300,last=700",
        "spacing=4/32,first=300/350,last=320/240",
        "spacing=4/64,first=100/700,last=600/20",
        "spacing=4/32/256,first=240/242/300,last=300/300/160",
    ];
    let given = texts.iter().filter_map(|text| NestedHats::new(horizon, text.parse().unwrap()).ok());
    let best = [Objective::Mean, Objective::Max].map(|objective| NestedHats::best(horizon, objective).ok());
    given.chain(best.into_iter().flatten()).collect()
}

const HORIZONS: [u64; 9] = [1, 2, 5, 7, 16, 33, 64, 100, 310];

/// An entry of `R`, from the hats over the step.
fn entry(hats: &NestedHats, node: Node, step: u64) -> u64 {
    match (node.level as usize).checked_sub(1) {
        None => hats.shape.single(step) * u64::from(node.index + 1 == step),
        Some(level) => {
            let mut over = hats.shape.over(step);
            over.find(|(other, hat, _)| (*other, *hat) == (level, node.index)).map_or(0, |(_, _, entry)| entry)
        }
    }
}

/// `R` written down from the definition: single steps, then hats.
fn dense(hats: &NestedHats) -> Vec<(Node, Vec<f64>)> {
    let (shape, steps) = (&hats.shape, hats.horizon());
    let mut rows: Vec<(Node, Vec<f64>)> = vec![];
    let [first, last] = shape.levels.shares();
    for (level, spacing) in shape.levels.spacings().iter().enumerate() {
        let w = *spacing as f64;
        let count = (1..).take_while(|n| *n as f64 * w <= steps as f64 - 0.2 * w).last().unwrap_or(1);
        for hat in 0..count {
            let knot = steps as f64 + 1.0 - (count - hat) as f64 * w;
            let part = (knot - 1.0) / steps as f64;
            let share = f64::from(first[level]) * (1.0 - part) + f64::from(last[level]) * part;
            let slope = (shape.total as f64 * share / 1000.0 / w + 1e-9).floor();
            let value = |j: f64| if hat == 0 && j < knot { w } else { (w - (j - knot).abs()).max(0.0) };
            rows.push((hat_node(level, hat), (1..=steps).map(|j| slope * value(j as f64)).collect()));
        }
    }
    let count = rows.len();
    for j in 0..steps as usize {
        let mut row = vec![0.0; steps as usize];
        row[j] = shape.total as f64 - rows[..count].iter().map(|hat| hat.1[j]).sum::<f64>();
        rows.push((step_node(j as u64 + 1), row));
    }
    rows
}

/// Every column of `R` has the sum `s1`, counted from the definition and from the entries that releases read; `L R` is
/// the prefix sums, and variances and covariances are those of the rows.
#[test]
fn figures_rows_and_sensitivity_match_dense_matrices() {
    for horizon in HORIZONS {
        for hats in shapes(horizon) {
            let name = hats.name();
            let r: BTreeMap<Node, Vec<f64>> = dense(&hats).into_iter().collect();
            for j in 0..horizon as usize {
                let column: f64 = r.values().map(|row| row[j]).sum();
                assert_eq!(column, hats.column_norms().l1, "{name} at {horizon}: column {j}");
                assert!(r.values().all(|row| row[j] >= 0.0));
                let squares: f64 = r.values().map(|row| row[j] * row[j]).sum();
                assert!(squares <= hats.column_norms().l2_squared, "{name} at {horizon}: column {j}");
                for (node, row) in &r {
                    assert_eq!(entry(&hats, *node, j as u64 + 1) as f64, row[j], "{name} at {horizon}: {node:?}");
                }
            }
            let l: Vec<BTreeMap<Node, f64>> = (1..=horizon)
                .map(|step| {
                    let mut row = BTreeMap::new();
                    hats.visit_row(step, &mut |node, weight| {
                        assert!(row.insert(node, weight).is_none(), "{name} at {horizon}: {node:?} twice");
                    });
                    row
                })
                .collect();
            for (t, row) in l.iter().enumerate() {
                let mut product = vec![0.0; horizon as usize];
                for (node, weight) in row {
                    product.iter_mut().zip(&r[node]).for_each(|(sum, entry)| *sum += weight * entry);
                }
                for (j, entry) in product.iter().enumerate() {
                    let want = if j <= t { 1.0 } else { 0.0 };
                    assert!((entry - want).abs() < 1e-12, "{name} at {horizon}: {t} {j} {entry}");
                }
                for (s, other) in l.iter().enumerate().take(t + 1).filter(|(s, _)| *s == t || (s + t) % 11 == 0) {
                    let want: f64 = row.iter().map(|(node, w)| w * other.get(node).unwrap_or(&0.0)).sum();
                    let ours = hats.row_product(s as u64 + 1, t as u64 + 1);
                    assert!((ours - want).abs() <= 1e-12 * want.abs().max(ours.abs()), "{name} at {horizon}: {s} {t}");
                }
                let norm: f64 = row.values().map(|weight| weight * weight).sum();
                assert!((hats.row_norm_squared(t as u64 + 1) / norm - 1.0).abs() < 1e-12, "{name} at {horizon}: {t}");
            }
            let norms: Vec<f64> = (1..=horizon).map(|step| hats.row_norm_squared(step)).collect();
            let (max, mean) = (norms.iter().copied().fold(0.0, f64::max), norms.iter().sum::<f64>() / horizon as f64);
            assert_eq!(hats.max_row_norm_squared(), max);
            assert!((hats.mean_row_norm_squared() / mean - 1.0).abs() < 1e-12);
        }
    }
}

/// The definition of the sensitivity by brute force, from the releases alone: one event more in a step moves the node
/// sums by a column, and the release of every stream is the same function of node sums. Noise that cancels an event's
/// column gives the release of the data without it, to the last bit.
#[test]
fn releases_are_a_function_of_the_protected_sums() {
    for horizon in [7, 33, 64, 301] {
        for hats in shapes(horizon) {
            let scale = 1i128 << FRACTION_BITS;
            let mut plain = hats.cursor();
            let noises: Vec<i128> = (0..horizon).map(|_| plain.advance(&mut |node| noise(node, 30))).collect();
            for event in [1, 2, horizon / 2, horizon - 1, horizon] {
                let (mut moved, mut column) = (hats.cursor(), BTreeMap::new());
                for step in 1..=horizon {
                    let ours = moved.advance(&mut |node| {
                        let entry = i128::from(entry(&hats, node, event));
                        column.insert(node, entry);
                        noise(node, 30) - entry
                    });
                    let sum = if step >= event { scale } else { 0 };
                    assert_eq!(ours + sum, noises[step as usize - 1], "{} at {horizon}: {event} {step}", hats.name());
                }
                // Everything that releases read moves by the hidden sum at most, and all of it is read.
                let shift: i128 = column.values().sum();
                assert_eq!(shift, i128::from(hats.laplace().unwrap().column_sum as u64), "{}: {event}", hats.name());
            }
        }
    }
}

/// Single releases are those of the steps in order, follow the rows, and draw few nodes.
#[test]
fn any_step_is_read_by_itself() {
    let far = "spacing=16/256/4096/65536/1048576/16777216/268435456/4294967296/68719476736";
    let shares = "90/90/90/90/90/90/90/110/150";
    let long = format!("{far},first={shares},last={shares}");
    for (horizon, text, bits) in [
        (5000, "spacing=16/256/2048,first=205/242/312,last=321/358/161", 72),
        ((1 << 38) - 12345, long.as_str(), 72),
        (1 << 23, "spacing=8/128/2048/32768/1048576,first=120/120/130/220/230,last=200/200/200/200/140", 40),
    ] {
        let hats = NestedHats::new(horizon, text.parse().unwrap()).unwrap();
        let mut in_order = hats.cursor();
        for start in [0, horizon / 3, horizon - 40] {
            in_order.seek(start, &mut |node| noise(node, bits));
            let mut draws = 0;
            for step in start + 1..=start + 40 {
                let release = in_order.advance(&mut |node| {
                    draws += u32::from(step > start + 1);
                    noise(node, bits)
                });
                let mut alone = 0;
                let single = hats.cursor().seek(step, &mut |node| {
                    alone += 1;
                    noise(node, bits)
                });
                assert_eq!(release, single, "{text}: {step}");
                assert!(alone < 1200, "{text}: {alone} draws");
                let (mut exact, mut size) = (0.0, 0.0);
                hats.visit_row(step, &mut |node, weight| {
                    exact += weight * noise(node, bits) as f64;
                    size += (weight * noise(node, bits) as f64).abs();
                });
                assert!((release as f64 / 256.0 - exact).abs() < 0.004 + 1e-9 * size, "{text}: {step}");
            }
            assert!(draws < 500, "{text}: {draws} draws after the first");
        }
        let (cost, mut most) = (hats.cost(), 0);
        let mut cursor = NestedCursor::new(hats.shape.clone());
        for step in [1, horizon / 7, horizon / 2, horizon] {
            cursor.seek(step, &mut |_| 0);
            most = most.max(cursor.words());
        }
        assert!(cost.memory_words >= most && most < 4000, "{text}: {} {most}", cost.memory_words);
    }
}

/// A search finds shapes near `hats`, and far below the trees.
#[test]
fn the_best_shape_is_near_the_solution_for_all_steps() {
    let largest =
        |mechanism: &dyn Mechanism| 2.0 * mechanism.column_norms().l1.powi(2) * mechanism.max_row_norm_squared();
    let build = |name: &str, horizon| {
        let criterion = Criterion::new(crate::mechanism::NoiseKind::Laplace, Objective::Max);
        name.parse::<MechanismName>().unwrap().build(horizon, &criterion).unwrap()
    };
    let (hats, nested) = (Hats::best(4096, Objective::Mean).unwrap(), NestedHats::best(4096, Objective::Mean).unwrap());
    let mean = |mechanism: &dyn Mechanism| mechanism.column_norms().l1.powi(2) * mechanism.mean_row_norm_squared();
    assert!((1.0..1.1).contains(&(mean(&nested) / mean(&hats))), "{nested:?}");
    assert!((1.0..1.4).contains(&(largest(&nested) / largest(&hats))), "{nested:?}");
    for horizon in [(1 << 22) + 1, 1 << 32] {
        let (nested, smooth) = (largest(&*build("nested-hats", horizon)), largest(&*build("smooth", horizon)));
        assert!(nested < 0.6 * smooth, "{horizon}: {nested} {smooth}");
    }
}

/// Over more than 2^14 steps the largest and the mean variance are bounds: never below the true ones, and close.
#[test]
fn variances_over_long_horizons_are_bounded() {
    for (horizon, text) in [
        (20_000, "spacing=8/128/2048,first=205/242/312,last=221/258/161"),
        (16_500, "spacing=4/64/1024/8192,first=50/50/80/120,last=240/240/240/190"),
        (40_001, "spacing=4/256/8192,first=105/142/212,last=171/458/261"),
    ] {
        let hats = NestedHats::new(horizon, text.parse().unwrap()).unwrap();
        let norms: Vec<f64> = (1..=horizon).map(|step| hats.row_norm_squared(step)).collect();
        let (max, mean) = (norms.iter().copied().fold(0.0, f64::max), norms.iter().sum::<f64>() / horizon as f64);
        let ratios = (hats.max_row_norm_squared() / max, hats.mean_row_norm_squared() / mean);
        assert!((1.0..1.05).contains(&ratios.0) && (1.0..1.03).contains(&ratios.1), "{horizon} {text}: {ratios:?}");
    }
}

#[test]
fn bounds_for_units_hold_by_enumeration() {
    for hats in shapes(9) {
        let r: Vec<Vec<f64>> = dense(&hats).into_iter().map(|(_, row)| row).collect();
        for (total, per_step) in [(1, 1), (2, 1), (2, 2), (3, 1), (4, 2)] {
            let bound = hats.spread_squared(Spread::new(total, per_step)) as f64;
            for code in 0..3u32.pow(9) {
                let counts: Vec<u64> = (0..9).map(|step| u64::from(code / 3u32.pow(step) % 3)).collect();
                if counts.iter().sum::<u64>() > total || counts.iter().any(|count| *count > per_step) {
                    continue;
                }
                let of = |row: &Vec<f64>| row.iter().zip(&counts).map(|(entry, n)| entry * *n as f64).sum::<f64>();
                let squares: f64 = r.iter().map(|row| of(row).powi(2)).sum();
                assert!(bound >= squares, "{} {total} {per_step} {counts:?}", hats.name());
            }
        }
    }
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    for (horizon, text) in [
        (4, "spacing=4,first=400,last=400"),
        (37, "spacing=4/32,first=300/300,last=300/300"),
        (300, "spacing=4,first=400,last=400"),
        (100, "spacing=4/32,first=700/600,last=300/300"),
        (100, "spacing=4/32,first=300/300,last=600/399"),
        (MAX_HORIZON + 1, "spacing=16,first=400,last=400"),
    ] {
        assert!(NestedHats::new(horizon, text.parse().unwrap()).is_err(), "{horizon} {text}");
    }
    assert!(NestedHats::new(65, NestedLevels::NONE).is_err());
    for bad in [
        "nested-hats(spacing=16)",
        "nested-hats(spacing=12,first=400,last=400)",
        "nested-hats(spacing=16/64,first=300/300,last=300/300)",
        "nested-hats(spacing=16/4096,first=300/300,last=300/300)",
        "nested-hats(spacing=16,first=400/200,last=400/200)",
        "nested-hats(spacing=16,first=3,last=400)",
    ] {
        assert!(bad.parse::<MechanismName>().is_err(), "{bad}");
    }
}
