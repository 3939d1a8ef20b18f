//! Closed forms, dense twins, cursors and units of the endless mechanism, on tiny epochs and on the real ones.

use super::grids::WEIGHT_BITS;
use super::*;
use crate::mechanism::{Blt, ColumnScaling, Criterion, Hats, MAX_HORIZON, NoiseKind, Objective, Participation};
use crate::number::timed::timed;
use epoch::Inner;

mod cancelled;
mod growing_memory;
mod least_ratio;
mod release;

/// Tiny epochs that end at these steps, with these shares of their totals.
fn small(inside: Inside, ends: &[(u64, u32)]) -> Endless {
    let columns = if inside == Inside::Normalized { ColumnScaling::Normalized } else { ColumnScaling::Plain };
    let mut epochs: Vec<Epoch> = vec![];
    for (last, own) in ends {
        let steps = last - epochs.last().map_or(0, |epoch| epoch.last);
        let inner = match inside {
            Inside::Hats => tiny_hats(steps),
            Inside::Growing => {
                let runs = Participation::new(3, 1).unwrap();
                Inner::Growing(Box::new(growing::Growing::new(steps, runs, SearchWatch::NONE).unwrap()))
            }
            Inside::Trees => Inner::tree(steps, 3, |levels| f64::from((1 << WEIGHT_BITS) - own) / levels).unwrap(),
            _ => {
                let buffers = Blt::optimised(steps, columns, 1, Objective::Max).unwrap().buffers();
                Inner::Filter(epoch::part(steps, columns, buffers, *own).unwrap())
            }
        };
        let own = if matches!(inside, Inside::Hats | Inside::Growing) { 0 } else { *own };
        epochs.push(Epoch::after(epochs.last(), *last, inner, own).unwrap());
    }
    let runs = (inside == Inside::Growing).then(|| Participation::new(3, 1).unwrap());
    Endless::from_epochs(ends[ends.len() - 1].0, inside, runs, epochs.into())
}

fn tiny_hats(steps: u64) -> Inner {
    let levels = if steps > 4 { "spacing=3,first=300,last=400" } else { "spacing=none" }.parse().unwrap();
    let hats = Hats::with_total(steps, &levels, 1 << NOISE_BITS).unwrap();
    let last = hats.row_norm_squared(steps) * libm::exp2(2.0 * f64::from(NOISE_BITS));
    Inner::hats(steps, &levels, last).unwrap()
}

fn examples() -> Vec<Endless> {
    let ends = [(3, 5000), (8, 9000), (9, 3000), (24, 4000)];
    let real = |inside| Endless::new(40, inside).unwrap();
    ALL.into_iter().flat_map(|i| [small(i, &ends), real(i)]).collect()
}

const ALL: [Inside; 5] = [Inside::Plain, Inside::Normalized, Inside::Trees, Inside::Hats, Inside::Growing];

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

#[test]
fn closed_forms_are_those_of_the_dense_twin() {
    for endless in examples() {
        let (name, pair, horizon) = (endless.name(), endless.dense(), endless.horizon());
        assert!(pair.prefix_sum_error() < 1e-9, "{name}: {}", pair.prefix_sum_error());
        let (ours, twin) = (endless.column_norms(), pair.column_norms());
        // The epoch that is not over, and totals that nothing reads yet, make the twin's columns shorter.
        let whole = endless.epochs.len() == 4;
        let within = |ours: f64, twin: f64| ours >= twin * (1.0 - 1e-9) && (!whole || ours <= twin * 1.6);
        assert!(within(ours.l1, twin.l1) && within(ours.l2_squared, twin.l2_squared), "{name}: {ours:?} {twin:?}");
        assert!(if endless.inside.is_laplace() { ours.l1 <= 1.0 } else { ours.l2_squared <= 1.0 }, "{name} {ours:?}");
        let covariance = pair.l.times(&pair.l.transpose());
        for later in 1..=horizon {
            for earlier in 1..=later {
                let want = covariance.row(later as usize - 1)[earlier as usize - 1];
                assert!(close(endless.row_product(earlier, later), want), "{name} {earlier} {later}");
            }
            assert!(close(endless.row_product(later, later), endless.row_norm_squared(later)), "{name} {later}");
        }
        let rows = pair.row_norms_squared();
        let max = rows.iter().copied().fold(0.0, f64::max);
        // With trees and hats inside the largest is that of their whole horizon.
        let (most, tree) = (endless.max_row_norm_squared(), endless.inside.is_laplace());
        assert!(most >= max * (1.0 - 1e-7) && (tree || close(most, max)), "{name}: {most} {max}");
        assert!(tree || close(endless.mean_row_norm_squared(), rows.iter().sum::<f64>() / horizon as f64), "{name}");
    }
}

/// The information of the releases about one event, `wᵀ C⁻¹ w` over every column of the prefix sums, is within the
/// budget.
#[test]
fn releases_reveal_no_more_than_the_columns_say() {
    for endless in examples().into_iter().filter(|endless| !endless.inside.is_laplace()) {
        let exact = endless.dense().exact_l2_squared().unwrap();
        assert!(exact <= 1.0 && exact <= endless.column_norms().l2_squared + 1e-12, "{}: {exact}", endless.name());
    }
}

/// Every placement of a unit's events over tiny epochs, by enumeration.
#[test]
fn units_across_epochs_by_enumeration() {
    for inside in ALL {
        let endless = small(inside, &[(2, 5000), (5, 9000), (9, 3000)]);
        let r = endless.dense().r;
        let unit = libm::exp2(f64::from(NOISE_BITS));
        for (total, per_step) in [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (4, 2), (5, 1)] {
            let mut counts = [0u64; 9];
            let mut largest = 0.0f64;
            placements(&mut counts, 0, total, per_step, &mut |counts| {
                let sum = |row: &[f64]| row.iter().zip(counts).map(|(entry, n)| entry * *n as f64).sum::<f64>();
                largest = largest.max((0..r.shape().0).map(|row| sum(r.row(row)).powi(2)).sum());
            });
            let bound = endless.spread_squared(Spread::new(total, per_step)) as f64 / unit / unit;
            assert!(bound >= largest, "{inside:?} {total} {per_step}: {bound} {largest}");
            let all = (total * total) as f64 * endless.column_norms().l2_squared;
            assert!(bound <= all * 1.001, "{inside:?} {total} {per_step}: {bound} {all}");
        }
    }
}

/// Visits all counts of at most `left` events, at most `each` in a step.
fn placements(counts: &mut [u64; 9], step: usize, left: u64, each: u64, visit: &mut dyn FnMut(&[u64; 9])) {
    if step == counts.len() {
        return visit(counts);
    }
    for here in 0..=each.min(left) {
        counts[step] = here;
        placements(counts, step + 1, left - here, each, visit);
    }
    counts[step] = 0;
}

/// People with events in several steps need less than all events in one step would. (Not by much: the total remembered
/// forever sees them together.)
#[test]
fn units_with_events_in_several_steps_gain() {
    let endless = Endless::new(MAX_HORIZON, Inside::Plain).unwrap();
    let unit = libm::exp2(2.0 * f64::from(NOISE_BITS));
    let spread = endless.spread_squared(Spread::new(30, 1)) as f64 / unit;
    assert!((30.0..0.92 * 900.0).contains(&spread), "{spread}");
}

/// For any number of events, steps with events and groups. Bounding them by chains over every step took minutes, which
/// is what this test would notice.
#[test]
fn every_unit_takes_little_time() {
    for endless in ALL.map(|inside| Endless::new(MAX_HORIZON, inside).unwrap()) {
        for total in [1u64, 35, 1825, 1 << 40] {
            for (per_step, separation) in [(1, 1), (1, 24), (total, 1)] {
                for per_group in [total, total.div_ceil(3)] {
                    let spread = Spread { per_group, separation, ..Spread::new(total, per_step.min(total)) };
                    let spread = spread.over(MAX_HORIZON);
                    let (took, squared) = timed(|| crate::mechanism::units::squared(&endless, spread));
                    assert!(squared >= 1 && took.as_secs() < 20, "{:?} {spread:?}: {took:?}", endless.inside);
                }
            }
        }
    }
}

#[test]
fn names_round_trip_and_foreign_digests_are_refused() {
    let criterion = Criterion::new(NoiseKind::Gaussian, Objective::Max);
    for open in [
        "endless",
        "endless(inside=plain)",
        "endless(inside=growing)",
        "endless(inside=growing,run=1)",
        "endless(inside=growing,run=10,gap=7)",
        "endless(inside=trees)",
        "endless(inside=hats)",
    ] {
        let name: MechanismName = open.parse().unwrap();
        assert_eq!(name.to_string(), open);
        let built = name.build(MAX_HORIZON, &criterion).unwrap();
        let whole = built.name().to_string();
        assert_eq!(whole.parse::<MechanismName>().unwrap().build(100, &criterion).unwrap().name(), built.name());
        let digest = whole.trim_end_matches(')').rsplit('=').next().unwrap();
        let other = whole.replace(digest, &"0".repeat(32));
        let refused = other.parse::<MechanismName>().unwrap().build(100, &criterion).unwrap_err();
        assert!(refused.to_string().contains("the version that made the plan"), "{refused}");
    }
    for bad in [
        "endless(inside=tree)",
        "endless(digest=1)",
        "endless(buffers=3)",
        "endless(run=3)",
        "endless(inside=hats,gap=2)",
        "endless(inside=growing,run=0)",
        "endless-hats",
        "endless-trees",
    ] {
        assert!(bad.parse::<MechanismName>().is_err(), "{bad}");
    }
    assert!("endless".parse::<MechanismName>().unwrap().build(0, &criterion).is_err());
}

/// The refusal of patterns that are too long names their steps, which may follow from a unit instead of a name.
#[test]
fn long_patterns_are_refused_in_words_of_the_unit() {
    let spread = Spread { separation: 3, ..Spread::new(1 << 40, 1) };
    let criterion = Criterion::new(NoiseKind::Gaussian, Objective::Max).with_spread(spread);
    let refused = |name: &str| {
        let built = name.parse::<MechanismName>().unwrap().build(MAX_HORIZON, &criterion);
        built.unwrap_err().to_string()
    };
    let says = "events in 1099511627776 steps, at least 3 apart";
    assert!(refused("endless(inside=growing)").contains(says), "{}", refused("endless(inside=growing)"));
    assert!(refused("endless(inside=growing,run=4294967297)").contains("events in 4294967297 steps, at least 1 apart"));
}

/// Every machine builds the same mechanism: plans made on one are read on others.
#[test]
fn the_epochs_are_frozen() {
    for (inside, digest) in [
        (Inside::Plain, "8cfc9016d961e634c644dee83568fbc8"),
        (Inside::Normalized, "640f0c9edb97d2566e5daada6e2474ed"),
        (Inside::Trees, "697836e582c7f8b4c13e128d7e06da16"),
        (Inside::Hats, "5fe23a6c5cbe26b33bcc483a9a2fe96f"),
    ] {
        assert_eq!(Endless::new(MAX_HORIZON, inside).unwrap().digest.to_string(), digest, "{inside:?}");
    }
    let growing = [(1, 1, "29964a9612921957decf849f09902207"), (10, 7, "c860fae5f64839904b9c142e767d7cf5")];
    for (most, separation, digest) in growing {
        let endless = Endless::growing(MAX_HORIZON, Participation::new(most, separation).unwrap()).unwrap();
        assert_eq!(endless.digest.to_string(), digest, "{most} events, {separation} apart");
    }
}
