//! With so large a budget that noise is negligible, and without collisions, answers are exact counts.

use super::*;
use crate::sketch::Item;
use crate::sketch::baselines::{BufferedSketch, EagerSketch};

#[test]
fn estimates_are_counts_where_noise_and_collisions_are_none() {
    for sampling in [LazySampling::Float, LazySampling::Keyed] {
        let table = "rows=5,width=1000000";
        let signed = plan(&format!("count-sketch({table})"), 100, plenty(), sampling);
        let unsigned = plan(&format!("count-min({table})"), 100, plenty(), sampling);
        let mut signed = CountSketch::new(signed, &key(1), named("items")).unwrap();
        let mut unsigned = CountMin::new(unsigned, &key(1), named("items")).unwrap();
        let items: [(Item<'_>, u64); 4] =
            [("zebra".into(), 3), (b"\0\xff".into(), 50), (77u64.into(), 8), (b"".into(), 1)];
        for step in [1u64, 2, 60, 100] {
            for (item, count) in items {
                for _ in 0..count {
                    signed.add(item, 1).unwrap();
                    unsigned.add(item, 1).unwrap();
                }
            }
            signed.tick_through(step).unwrap();
            unsigned.tick_through(step).unwrap();
            let times = [1u64, 2, 60, 100].iter().position(|t| *t == step).unwrap() as u64 + 1;
            let near = |value: f64, count: u64| (value - count as f64).abs() < 0.1;
            for (item, count) in items {
                let estimate = signed.estimate(item).unwrap();
                assert!(estimate.step == step && near(estimate.value, count * times));
                assert!(near(unsigned.estimate(item).unwrap().value, count * times));
                assert!(unsigned.upper_end(item, 0.9).unwrap().value() >= (count * times) as f64 - 0.1);
            }
            assert!(near(unsigned.total().unwrap().value, 62 * times));
            assert!(near(signed.estimate("lion").unwrap().value, 0));
            let heavy = signed.heavy_hitters([77u64, 78, 79], 0.5).unwrap();
            assert!(heavy.len() == 1 && heavy[0].key == 77 && near(heavy[0].estimate.value, 8 * times));
            let heavy = signed.heavy_hitters(["zebra", "lion"], -1.0).unwrap();
            assert!(heavy.len() == 2 && heavy[0].key == "zebra");
        }
        assert!(signed.tick().unwrap_err().is_horizon_exhausted());
    }
}

/// The eager baseline has the releases of the lazy sketch at every step, and the buffered one has those of the last
/// batch.
#[test]
fn baselines_are_the_same_sketch() {
    for budget in [gaussian(), pure()] {
        let plan = plan("count-sketch(rows=3,width=20)", 60, budget, LazySampling::Keyed);
        let mut eager = EagerSketch::new(plan.clone(), &key(2), named("items")).unwrap();
        let mut buffered = BufferedSketch::new(plan.clone(), &key(2), named("items"), Some(7)).unwrap();
        let mut lazy = CountSketch::new(plan, &key(2), named("items")).unwrap();
        let mut at_batch = vec![0.0; 30];
        for step in 1..=60u64 {
            for item in [step % 5, step % 3] {
                eager.add(item, 1).unwrap();
                buffered.add(item, 1).unwrap();
                lazy.add(item, 1).unwrap();
            }
            eager.tick().unwrap();
            buffered.tick().unwrap();
            lazy.tick().unwrap();
            for item in 0..30u64 {
                let estimate = lazy.estimate(item).unwrap().value;
                assert!((eager.estimate(item).unwrap() - estimate).abs() < 1e-4, "{step} {item}");
                if step % 7 == 0 {
                    at_batch[item as usize] = estimate;
                }
                assert_eq!(buffered.estimate(item), at_batch[item as usize]);
            }
            assert_eq!(buffered.applied(), step / 7 * 7);
        }
        assert!(eager.tick().unwrap_err().is_horizon_exhausted());
        assert!(buffered.tick().unwrap_err().is_horizon_exhausted());
    }
}

/// A short output and a long one of the hash function begin alike: tables of few and of many rows share their first
/// rows.
#[test]
fn rows_do_not_depend_on_their_number() {
    let places = |rows| {
        let table = crate::sketch::Table::new(rows, 1000).unwrap();
        let mut places = vec![];
        crate::sketch::Hashing::new(&key(1), &named("hash"), table)
            .each_place(b"zebra", |row, bucket, sign| places.push((row, bucket, sign)));
        places
    };
    let all = places(31);
    for rows in [1, 3, 5, 7, 9, 17] {
        assert_eq!(places(rows), all[..rows as usize]);
    }
    let mut rows: Vec<_> = all.iter().map(|(_, bucket, _)| bucket).collect();
    rows.sort_unstable();
    rows.dedup();
    assert!(rows.len() > 25);
}

/// A roster's answers equal single estimates, at every step and in every sampling, and the roster is refused with
/// other hash functions.
#[test]
fn rosters_answer_as_single_estimates() {
    for (budget, sampling) in
        [(gaussian(), LazySampling::Keyed), (pure(), LazySampling::Keyed), (gaussian(), LazySampling::Float)]
    {
        let plan = plan("count-sketch(rows=5,width=300)", 64, budget, sampling);
        let sketch = |seed| CountSketch::new(plan.clone(), &key(seed), named("roster")).unwrap();
        let (mut ours, mut other) = (sketch(1), sketch(1));
        let roster = ours.roster(0..2000u64).unwrap();
        assert!(roster.len() == 2000 && !roster.is_empty() && roster.cells() == 1500);
        assert!(ours.answer(&roster).is_err(), "no step is closed yet");
        for step in [1, 2, 7, 64] {
            for sketch in [&mut ours, &mut other] {
                (0..50).for_each(|item| sketch.add(item % 7, 1).unwrap());
                sketch.tick_through(step).unwrap();
            }
            let answers = ours.answer(&roster).unwrap();
            for item in 0..2000 {
                assert_eq!(answers.estimate(item as usize), other.estimate(item).unwrap());
            }
            // All cells are read, so both have the same law.
            let nobody = ours.roster::<u64>([]).unwrap();
            assert!(nobody.is_empty());
            assert_eq!(ours.answer(&nobody).unwrap().errors, answers.errors);
        }
        assert!(sketch(2).answer(&roster).unwrap_err().to_string().contains("other hash functions"));
    }
}
