use super::*;
use crate::mechanism::rounding::FRACTION_BITS;
use crate::mechanism::{Criterion, NoiseKind, Objective};
use crate::privacy::Signs;

const ONCE: Participation = Participation::ONCE;

fn window(width: u64, horizon: u64) -> Banded {
    Banded::new(horizon, Workload::Window(width), ONCE).unwrap()
}

/// `2ρ · variance` of the last step.
fn figure(mechanism: &dyn Mechanism) -> f64 {
    mechanism.column_norms().l2_squared * mechanism.max_row_norm_squared()
}

/// Compared with the squares of the Lebesgue constants, at every late step of a stream without end.
#[test]
fn windows_are_within_a_hundredth_of_the_optimum() {
    for (width, optimum) in
        [(2, 1.6211), (3, 2.0623), (7, 3.1624), (30, 5.6069), (168, 9.4009), (365, 11.428), (8760, 21.80)]
    {
        let built = window(width, MAX_HORIZON);
        let ratio = figure(&built) / optimum;
        assert!((0.9999..1.01).contains(&ratio), "window({width}): {ratio}");
        let late = built.row_norm_squared(1_000_000);
        assert!(late <= built.max_row_norm_squared() && late > 0.9999 * built.max_row_norm_squared());
    }
}

/// `((2/π) K(λ))²`, the elliptic integral by the arithmetic-geometric mean.
#[test]
fn decays_are_within_a_hundredth_of_the_optimum() {
    for half_life in [1, 2, 7, 30, 365, 8760] {
        let factor = Workload::decay(half_life);
        let (mut a, mut b) = (1.0, libm::sqrt((1.0 - factor) * (1.0 + factor)));
        for _ in 0..40 {
            (a, b) = ((a + b) / 2.0, libm::sqrt(a * b));
        }
        let ratio = figure(&Banded::new(MAX_HORIZON, Workload::Decay(half_life), ONCE).unwrap()) * a * a;
        assert!((0.9999..1.01).contains(&ratio), "decay({half_life}): {ratio}");
    }
}

fn all() -> Vec<Banded> {
    let of = |workload: Workload| Banded::new(40, workload, ONCE).unwrap();
    let runs = Participation::new(3, 2).unwrap();
    let on_steps = |workload| Banded::for_steps(40, workload).unwrap();
    vec![
        of(Workload::Window(2)),
        of(Workload::Window(7)),
        of(Workload::Window(12)),
        of(Workload::Decay(1)),
        of(Workload::Decay(9)),
        Banded::new(40, Workload::Window(7), runs).unwrap(),
        on_steps(Workload::Window(7)),
        on_steps(Workload::Decay(3)),
        on_steps(Workload::Increments),
    ]
}

/// `L R` is the workload, and the norms are those of the matrices.
#[test]
fn the_dense_twin_has_the_figures() {
    for built in all() {
        let (pair, steps) = (built.dense(), built.horizon() as usize);
        let product = pair.l.times(&pair.r);
        for t in 0..steps {
            for j in 0..steps {
                let want = if j <= t { built.workload().coefficient((t - j) as u64) } else { 0.0 };
                assert!((product.row(t)[j] - want).abs() < 1e-9, "{} {t} {j}", built.workload());
            }
        }
        let norms = pair.column_norms();
        assert!((norms.l2_squared / built.column_norms().l2_squared - 1.0).abs() < 1e-12);
        let rows = pair.row_norms_squared();
        for (t, norm) in (1..).zip(&rows) {
            assert!((built.row_norm_squared(t) - norm).abs() < 1e-9);
        }
        let mean = rows.iter().sum::<f64>() / steps as f64;
        assert!((built.mean_row_norm_squared() / mean - 1.0).abs() < 1e-9);
    }
}

/// Every placement of events of every unit over a short horizon, of one sign, of either, and exchanged.
#[test]
fn units_by_enumeration() {
    const STEPS: usize = 7;
    for workload in [Workload::Window(2), Workload::Window(3), Workload::Window(5), Workload::Decay(2)] {
        for runs in [ONCE, Participation::new(2, 1).unwrap(), Participation::new(3, 1).unwrap()] {
            let built = Banded::new(STEPS as u64, workload, runs).unwrap();
            let r = built.dense().r;
            let unit = libm::exp2(2.0 * f64::from(built.noise_bits()));
            let squared = |u: &[f64]| -> f64 {
                let sum = |n: usize| r.row(n).iter().zip(u).map(|(r, u)| r * u).sum::<f64>();
                (0..STEPS).map(|n| sum(n).powi(2)).sum()
            };
            for (total, per_step, separation) in
                [(1, 1, 1), (2, 1, 1), (3, 1, 2), (3, 2, 1), (4, 2, 2), (4, 1, 1), (5, 3, 1)]
            {
                let spread = Spread { separation, ..Spread::new(total, per_step) };
                let all = placements(STEPS, spread);
                let largest = |us: &mut dyn Iterator<Item = Vec<f64>>| us.map(|u| squared(&u)).fold(0.0, f64::max);
                let place = format!("{workload} {runs:?} {total} {per_step} {separation}");
                let one = largest(&mut all.iter().cloned());
                let bound = |signs| built.spread_squared(Spread { signs, ..spread }) as f64 / unit * (1.0 + 1e-12);
                assert!(one <= bound(Signs::One), "{place}: {one}");
                let signed = all.iter().flat_map(|u| (0..1u32 << STEPS).map(move |signs| flipped(u, signs)));
                let either = largest(&mut { signed });
                assert!(either <= bound(Signs::Either), "{place}, of either sign: {either}");
                let pairs =
                    all.iter().flat_map(|p| all.iter().map(move |n| p.iter().zip(n).map(|(p, n)| p - n).collect()));
                let exchanged = largest(&mut { pairs });
                assert!(exchanged <= 2.0 * bound(Signs::Exchanged), "{place}, exchanged: {exchanged}");
                // Half of it would be refuted here, where the horizon is long enough for the worst.
                assert!(total > 1 || one > bound(Signs::One) * 0.9);
            }
        }
    }
}

fn flipped(u: &[f64], signs: u32) -> Vec<f64> {
    u.iter().enumerate().map(|(t, u)| if signs >> t & 1 == 1 { -u } else { *u }).collect()
}

fn placements(steps: usize, spread: Spread) -> Vec<Vec<f64>> {
    let mut all: Vec<Vec<f64>> = vec![vec![]];
    for t in 0..steps {
        let mut longer = vec![];
        for u in &all {
            for events in 0..=spread.per_step {
                let near = u.iter().skip((t + 1).saturating_sub(spread.separation as usize)).any(|u| *u > 0.0);
                let total = u.iter().sum::<f64>() as u64 + events;
                if total <= spread.total && (events == 0 || !near) {
                    longer.push(u.iter().copied().chain([events as f64]).collect());
                }
            }
        }
        all = longer;
    }
    all
}

/// Noise of both signs, large and small.
fn noise(steps: usize, bits: u32) -> Vec<i128> {
    (0..steps as i128)
        .map(|t| (((t + 3) * 0x9e37_79b9_7f4a_7c15 % 2_000_003) - 1_000_001) << bits.saturating_sub(16))
        .collect()
}

fn releases(built: &Banded, data: &[i64], noise: &[i128]) -> Vec<i128> {
    let mut cursor = built.cursor();
    let fraction = built.fraction_bits();
    let mut sum = 0;
    (0..data.len())
        .map(|t| {
            sum += data[t];
            let noise = cursor.advance_with(data[t], sum, &mut |node| noise[node.index as usize]);
            let exact: i64 = match built.workload() {
                Workload::Window(width) => data[(t + 1).saturating_sub(width as usize)..=t].iter().sum(),
                Workload::Increments => data[t],
                _ => 0,
            };
            (i128::from(exact) << fraction) + noise
        })
        .collect()
}

/// Releases are those of the matrices, rounded.
#[test]
fn releases_are_those_of_the_matrices() {
    let data: Vec<i64> = (0..40).map(|t| (t * t * 7919) % 1000 - 300).collect();
    for built in all() {
        let noise = noise(40, built.noise_bits());
        let (pair, unit) = (built.dense(), libm::exp2(f64::from(built.noise_bits())));
        let published = releases(&built, &data, &noise);
        for (t, published) in published.into_iter().enumerate() {
            let noisy: f64 = pair.l.row(t).iter().zip(&noise).map(|(l, z)| l * *z as f64 / unit).sum();
            let exact: f64 = (0..=t).map(|j| built.workload().coefficient((t - j) as u64) * data[j] as f64).sum();
            let value = published as f64 / libm::exp2(f64::from(built.fraction_bits()));
            let slack = if built.fraction_bits() == FRACTION_BITS { 0.6 / 256.0 } else { 1e-9 };
            assert!((value - noisy - exact).abs() < slack, "{} {t}: {value} {noisy} {exact}", built.workload());
        }
    }
}

/// Data and noise that give the same protected sums give the same releases, to the last bit: nothing else is read.
#[test]
fn releases_are_a_function_of_what_is_protected() {
    let (data, other): (Vec<i64>, Vec<i64>) =
        (0..40i64).map(|t| (t % 5, (t * 31) % 7 + if t == 11 { 1 << 40 } else { 0 })).unzip();
    for built in all() {
        let scale = built.noise_bits();
        let r = built.dense().r;
        let noise = noise(40, scale);
        // z' = z + R̃ (x - x')
        let moved: Vec<i128> = (0..40)
            .map(|t| {
                let shift = (0..=t).map(|j| {
                    let entry = libm::round(r.row(t)[j] * libm::exp2(f64::from(scale))) as i128;
                    entry * i128::from(data[j] - other[j])
                });
                noise[t] + shift.sum::<i128>()
            })
            .collect();
        assert_eq!(releases(&built, &data, &noise), releases(&built, &other, &moved), "{}", built.workload());
    }
}

/// A cursor that was saved and restored continues as if it had not been, and does not grow.
#[test]
fn memories_continue() {
    for built in all() {
        let noise = noise(40, built.noise_bits());
        let draw = &mut |node: Node| noise[node.index as usize];
        let (mut whole, mut kept) = (built.cursor(), built.cursor());
        let size = kept.memory().unwrap().len();
        for t in 0..40i64 {
            let last = whole.advance_with(t, 0, draw);
            let memory = kept.memory().unwrap();
            assert_eq!(memory.len(), size);
            let mut again = built.cursor();
            again.recall(t as u64, &memory).unwrap();
            assert_eq!(again.advance_with(t, 0, draw), last, "{} {t}", built.workload());
            assert_eq!(again.recall(t as u64 + 1, &whole.memory().unwrap()).unwrap(), last);
            kept = again;
        }
        assert!(built.cursor().recall(3, &[0; 16]).is_err());
    }
}

#[test]
fn names_go_both_ways_and_name_the_bands() {
    let criterion = Criterion::new(NoiseKind::Gaussian, Objective::Max).with_workload(Workload::Window(7));
    let built = "banded".parse::<MechanismName>().unwrap().build(100, &criterion).unwrap();
    let name = built.name().to_string();
    let again = name.parse::<MechanismName>().unwrap();
    assert_eq!(again.build(100, &criterion).unwrap().name(), built.name());
    let other = criterion.with_workload(Workload::Window(8));
    assert!(again.build(100, &other).unwrap_err().to_string().contains("digest"));
    assert_eq!(built.name().brief().to_string(), "banded");
    let sums = criterion.with_workload(Workload::Sum);
    assert!("banded".parse::<MechanismName>().unwrap().build(100, &sums).is_err());
}

/// Frozen: plans name these bands.
#[test]
fn bands_are_frozen() {
    assert_eq!(window(7, 100).name().to_string(), "banded(digest=c2c6810637b4f0fac4947da8d490bb1a)");
}
