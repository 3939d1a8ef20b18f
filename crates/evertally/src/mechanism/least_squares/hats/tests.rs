//! Hats against dense algebra.

use super::*;
use crate::mechanism::Objective;
use crate::mechanism::least_squares::at_once::AtOnce;
use crate::mechanism::least_squares::test_noise::of_node as noise;
use crate::mechanism::rounding::FRACTION_BITS;
use nalgebra::DMatrix;

/// Shapes of every kind that fit: single hats longer than half the horizon, spacings that do not divide anything, steep
/// shares.
fn given(horizon: u64) -> Vec<Hats> {
    let texts = [
        "spacing=none",
        "spacing=2,first=500,last=300",
        "spacing=3/7,first=400/300,last=500/200",
        "spacing=4/8/16,first=400/300/200,last=300/200/100",
        "spacing=5/40,first=100/600,last=600/20",
        "spacing=7/61,first=500/999,last=500/1",
        "spacing=64,first=400,last=300",
        "spacing=2/3/4/5/6/7,first=500/300/250/200/160/140,last=500/300/250/200/160/140",
    ];
    texts.iter().filter_map(|text| Hats::new(horizon, &text.parse().unwrap()).ok()).collect()
}

/// The same shapes and the best ones.
fn shapes(horizon: u64) -> Vec<Hats> {
    let best = [Objective::Mean, Objective::Max].map(|objective| Hats::best(horizon, objective).unwrap());
    given(horizon).into_iter().chain(best).collect()
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

/// The promise of `row_law` about the fourth moments, for every row.
#[test]
fn tails_are_not_heavier_than_promised() {
    for horizon in [2, 12, 64, 101, 256] {
        for hats in shapes(horizon) {
            let (l, ..) = dense(&hats);
            for step in 1..=horizon {
                let RowLaw::Like { norm_squared, terms } = hats.row_law(step) else { panic!("one law for all rows") };
                let fourth: f64 = l.row(step as usize - 1).iter().map(|x| x.powi(4)).sum();
                let allowed = norm_squared * norm_squared / terms as f64;
                assert!(fourth <= allowed * (1.0 + 1e-9), "{} at {horizon}, step {step}: heavier tails", hats.name());
            }
        }
    }
    let long = Hats::best(1 << 16, Objective::Mean).unwrap();
    assert!(matches!(long.row_law(1 << 15), RowLaw::Like { terms: 2.., .. }), "more than one term where it matters");
}

/// The recursions keep their digits over many steps: norms against the sum of squares of single rows, releases against
/// these rows.
#[test]
fn long_horizons_keep_their_digits() {
    for text in
        ["spacing=13/164/2092/26749,first=485/323/243/236,last=485/323/243/138", "spacing=9000,first=500,last=300"]
    {
        let hats = Hats::new(1 << 16, &text.parse().unwrap()).unwrap();
        let mut cursor = hats.cursor();
        for step in [1, 77, 12_345, 39_999, 65_535, 65_536] {
            let (mut squares, mut exact) = (0.0, 0.0);
            hats.visit_row(step, &mut |node, weight| {
                squares += weight * weight;
                exact += weight * noise(node, 40) as f64;
            });
            let ours = hats.row_norm_squared(step);
            assert!((ours / squares - 1.0).abs() < 1e-9, "{text}, step {step}: {ours} {squares}");
            let release = cursor.seek(step, &mut |node| noise(node, 40)) as f64 / 256.0;
            let deviation = squares.sqrt() * libm::exp2(40.0);
            assert!((release - exact).abs() < 0.01 + 1e-9 * deviation, "{text}, step {step}: {release} {exact}");
        }
    }
}

/// Recomputed noise gives the same releases, to the bit, however stretches are cut, and the memory does not grow with
/// the horizon.
#[test]
fn stretches_give_the_releases_of_all_at_once() {
    for horizon in [1, 2, 30, 200, 700] {
        for hats in shapes(horizon) {
            let mut draw = |node| noise(node, 40);
            let mut at_once = AtOnce::new(hats.shape.clone());
            let wanted: Vec<i128> = (0..horizon).map(|_| at_once.advance(&mut draw)).collect();
            for parts in [2, 3, 7, 64] {
                let mut cursor = stretches::CheckpointedCursor::with_parts(hats.shape.clone(), parts);
                let got: Vec<i128> = (0..horizon).map(|_| cursor.advance(&mut draw)).collect();
                assert_eq!(got, wanted, "{} at {horizon} by {parts}", hats.name());
                for step in [horizon, 1, horizon / 2, 0, horizon.min(3)] {
                    let release = if step == 0 { 0 } else { wanted[step as usize - 1] };
                    assert_eq!(cursor.seek(step, &mut draw), release, "{} at {horizon}: {step}", hats.name());
                }
            }
        }
    }
    let long =
        Hats::new(1 << 18, &"spacing=12/180/2500/40000,first=400/350/300/300,last=400/350/300/200".parse().unwrap());
    let long = long.unwrap();
    let (draws, cost) = (std::cell::Cell::new(0u64), long.cost());
    let mut counted = |node| {
        draws.set(draws.get() + 1);
        noise(node, 40)
    };
    let mut cursor = long.cursor();
    let last = (0..1 << 18).map(|_| cursor.advance(&mut counted)).last();
    assert!(
        draws.get() as f64 <= cost.draws_per_step * f64::from(1 << 18),
        "{} of {}",
        draws.get(),
        cost.draws_per_step
    );
    assert_eq!(last, Some(AtOnce::new(long.shape.clone()).seek(1 << 18, &mut |node| noise(node, 40))));
    assert!(cost.memory_words < 1 << 16);
}

#[test]
fn the_cursor_follows_the_rows() {
    for horizon in [1, 2, 7, 64, 300] {
        for hats in shapes(horizon) {
            let name = hats.name();
            let (mut cursor, mut drawn) = (hats.cursor(), vec![]);
            let mut draw = |node| {
                drawn.push(node);
                noise(node, 40)
            };
            let releases: Vec<i128> = (0..horizon).map(|_| cursor.advance(&mut draw)).collect();
            assert_eq!(cursor.step(), horizon);
            for (step, release) in (1..).zip(&releases) {
                let (mut exact, mut size) = (0.0, 0.0);
                hats.visit_row(step, &mut |node, weight| {
                    exact += weight * noise(node, 40) as f64;
                    size += (weight * noise(node, 40) as f64).abs();
                });
                let ours = *release as f64 / 256.0;
                assert!(
                    (ours - exact).abs() <= 1.0 / 128.0 + 1e-13 * size,
                    "{name} at {horizon}, {step}: {ours} {exact}"
                );
            }
            // Every node of R is drawn once; any step can be reached.
            drawn.sort_unstable();
            assert_eq!(drawn, hats.dense().nodes, "{name} at {horizon}");
            assert_eq!(hats.cost().draws_per_step, drawn.len() as f64 / horizon as f64);
            let seek = |cursor: &mut dyn Cursor, step| cursor.seek(step, &mut |node| noise(node, 40));
            assert_eq!(seek(&mut *hats.cursor(), horizon / 2 + 1), releases[horizon as usize / 2]);
            assert_eq!(seek(&mut *cursor, 0), 0);
            assert_eq!(cursor.advance(&mut |node| noise(node, 40)), releases[0]);
        }
    }
}

proptest::proptest! {
    /// Post-processing: from the protected sums `y = R x + z` instead of the noise `z`, the discrepancies are the same
    /// numbers, and the release is `A x` more, to the last bit. So the release is a function of `y` alone.
    #[test]
    fn the_release_is_a_function_of_the_protected_sums(
        horizon in 1u64..150,
        choice in 0usize..8,
        bits in 1u32..74,
        data in proptest::collection::vec(-1_000_000i64..1_000_000, 150),
    ) {
        let shapes = given(horizon);
        let shape = &shapes[choice % shapes.len()].shape;
        let mut sums: std::collections::BTreeMap<Node, i128> = Default::default();
        for step in 1..=horizon {
            let x = i128::from(data[step as usize - 1]);
            *sums.entry(step_node(step)).or_default() += x * i128::from(shape.identity(step));
            for (level, hat, entry) in shape.over(step) {
                *sums.entry(hat_node(level, hat)).or_default() += x * i128::from(entry);
            }
        }
        let mut protected = |node: Node| sums[&node] + noise(node, bits);
        let mut alone = |node: Node| noise(node, bits);
        let with_data = cursor::discrepancies(shape, &mut protected);
        let without = cursor::discrepancies(shape, &mut alone);
        proptest::prop_assert_eq!(with_data.1, without.1);
        let (mut seen, mut hidden) = (AtOnce::new(shape.clone()), AtOnce::new(shape.clone()));
        let mut count = 0i128;
        for x in &data[..horizon as usize] {
            count += i128::from(*x);
            let release = hidden.advance(&mut alone) + (count << FRACTION_BITS);
            proptest::prop_assert_eq!(seen.advance(&mut protected), release);
        }
    }
}

/// Every way to put at most 4 events into the steps, at most 2 in one; and `s2²` for one event.
#[test]
fn spread_squareds_bound_every_placement() {
    for horizon in [1, 2, 5, 8] {
        for hats in shapes(horizon) {
            let (name, (_, r, _)) = (hats.name(), dense(&hats));
            assert_eq!(hats.spread_squared(Spread::ONE) as f64, hats.column_norms().l2_squared, "{name}");
            assert_eq!(hats.laplace().unwrap().column_sum as f64, hats.column_norms().l1);
            let largest = |total: u32, per_step: u32| {
                let placement =
                    |code: u32| (0..horizon as u32).map(move |t| code / (per_step + 1).pow(t) % (per_step + 1));
                let allowed = (0..(per_step + 1).pow(horizon as u32)).filter(|c| placement(*c).sum::<u32>() <= total);
                let vector = |code| nalgebra::DVector::from_iterator(horizon as usize, placement(code).map(f64::from));
                allowed.map(|code| (&r * vector(code)).norm_squared()).fold(0.0, f64::max)
            };
            for (total, per_step) in [(4, 2), (3, 1), (2, 2)] {
                let spread = Spread::new(total.into(), per_step.into());
                let (bound, reached) = (hats.spread_squared(spread) as f64, largest(total, per_step));
                assert!(reached <= bound, "{name} at {horizon}: {reached} > {bound}");
                assert!(reached >= bound / 4.0, "{name} at {horizon}: {reached} of {bound}");
            }
        }
    }
}

fn laplace_figures(hats: &Hats) -> (f64, f64) {
    let norms = hats.column_norms();
    let factor = 2.0 * norms.l1 * norms.l1;
    (factor * hats.mean_row_norm_squared(), factor * hats.max_row_norm_squared())
}

/// Blocks (`consistent`) have mean 90 and max 131 at T = 512, and mean 749 at 2^20.
#[test]
fn the_search_finds_figures_known_to_be_good() {
    for (horizon, mean, max) in [(64, 28.5, 36.6), (512, 71.8, 87.8), (4096, 147.7, 181.5), (1 << 20, 564.5, 714.0)] {
        let by = |objective| laplace_figures(&Hats::best(horizon, objective).unwrap());
        assert!(
            by(Objective::Mean).0 <= mean && by(Objective::Max).1 <= max,
            "{horizon}: {} {}",
            by(Objective::Mean).0,
            by(Objective::Max).1
        );
    }
    let given = |objective| laplace_figures(&Hats::with_spacings(512, &[12, 150], objective).unwrap());
    assert!(
        given(Objective::Mean).0 <= 72.2 && given(Objective::Max).1 <= 90.0,
        "{:?} {:?}",
        given(Objective::Mean),
        given(Objective::Max)
    );
}

/// The search must give the same parameters on every machine: a plan that leaves them open is found again.
#[test]
fn found_parameters_are_frozen() {
    let name = |horizon, objective| Hats::best(horizon, objective).unwrap().name().to_string();
    assert_eq!(name(365, Objective::Mean), "hats(spacing=12/152,first=485/393,last=525/230)");
    assert_eq!(name(365, Objective::Max), "hats(spacing=12/114,first=391/484,last=508/236)");
    assert_eq!(
        name(100_000, Objective::Mean),
        "hats(spacing=14/202/2872/40816,first=485/323/243/236,last=485/323/292/115)"
    );
    assert_eq!(name(4, Objective::Mean), "hats(spacing=none)");
    let given = Hats::with_spacings(1000, &[20, 300], Objective::Mean).unwrap();
    assert_eq!(given.name().to_string(), "hats(spacing=20/300,first=443/396,last=503/232)");
    assert_eq!(Hats::with_spacings(9, &[], Objective::Mean).unwrap().name().to_string(), "hats(spacing=none)");
}

#[test]
fn names_round_trip_and_bad_ones_are_refused() {
    for text in ["spacing=none", "spacing=12/150,first=480/417,last=516/257", "spacing=2,first=1,last=999"] {
        assert_eq!(text.parse::<HatLevels>().unwrap().to_string(), text);
    }
    assert!(" spacing= 12 /150 , first=480/417,last=516/257".parse::<HatLevels>().is_ok());
    for wrong in [
        "",
        "spacing=",
        "spacing=12",
        "spacing=12,first=500",
        "spacing=12,first=500,last=500,more=1",
        "first=500,spacing=12,last=500",
        "spacing=12/150,first=500,last=500",
        "spacing=1,first=500,last=500",
        "spacing=12/12,first=300/300,last=300/300",
        "spacing=150/12,first=300/300,last=300/300",
        "spacing=12,first=0,last=500",
        "spacing=12,first=500,last=1000",
        "spacing=12,first=x,last=500",
        "spacing=2/3/4/5/6/7/8,first=1/1/1/1/1/1/1,last=1/1/1/1/1/1/1",
    ] {
        assert!(wrong.parse::<HatLevels>().is_err(), "{wrong}");
    }
    let build = |horizon, text: &str| Hats::new(horizon, &text.parse().unwrap());
    assert!(build(12, "spacing=12,first=500,last=500").is_ok());
    assert!(build(11, "spacing=12,first=500,last=500").is_err(), "a hat longer than the horizon");
    assert!(build(100, "spacing=12/24,first=999/999,last=999/999").is_err(), "nothing left for single steps");
    assert!(build(0, "spacing=none").is_err() && build((1 << 22) + 1, "spacing=none").is_err());
    assert!(Hats::best(0, Objective::Mean).is_err() && Hats::with_spacings(9, &[10], Objective::Mean).is_err());
    assert!(Hats::with_spacings(9, &[3, 3], Objective::Mean).is_err());
}

/// A name always means the same integer matrix: the noise is bound to the name, and two matrices must never share it.
#[test]
fn the_matrix_of_a_name_is_frozen() {
    let hats = Hats::new(200, &"spacing=7/41,first=480/417,last=516/257".parse().unwrap()).unwrap();
    let r = hats.dense().r;
    let mut hasher = blake3::Hasher::new();
    (0..r.shape().0).flat_map(|row| r.row(row)).for_each(|entry| {
        assert_eq!(entry.fract(), 0.0);
        hasher.update(&(*entry as i64).to_le_bytes());
    });
    assert_eq!(&hasher.finalize().to_hex()[..16], "2761a3ca5baefc5b");
}
