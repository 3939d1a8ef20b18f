//! Streams: releases are prefix sums plus the named noise, states continue them, and all other input is refused.

use super::*;
use crate::mechanism::Workload;
use crate::noise::{GuardedKey, KeyedNoise, Purpose, StreamName, TestSeed};
use crate::plan::{Plan, PlanRequest};
use crate::privacy::Values;
use crate::privacy::{Budget, Epsilon, Rho};
use proptest::prelude::*;

mod endless;
mod steps;

fn key(seed: u64) -> GuardedKey {
    GuardedKey::insecure_from_test_seed(TestSeed(seed))
}

fn name(text: &str) -> StreamName {
    text.parse().unwrap()
}

const MECHANISMS: [&str; 13] = [
    "input",
    "output",
    "binary",
    "honaker-online",
    "kary(k=3)",
    "subtract(k=4)",
    "smooth",
    "sqrt",
    "normalized-sqrt",
    "consistent(k=3)",
    "path-sum",
    "blt(decay=3fd0000000000000/3800000000000000,echo=180000000000000/1800000000000000)",
    "normalized-blt(decay=3fd0000000000000/3800000000000000,echo=180000000000000/1800000000000000)",
];

fn plan(horizon: u64, mechanism: &str) -> Plan {
    let budget = Budget::Zcdp(Rho::new(0.5).unwrap());
    let values = Values::Sum { lower: -3, upper: 9 };
    PlanRequest::count(horizon, budget).with_mechanism(mechanism.parse().unwrap()).with_values(values).plan().unwrap()
}

/// The sum of a step's events at once gives the same releases, and sums that no events have are refused.
#[test]
fn a_step_may_be_added_as_one_sum() {
    for mechanism in MECHANISMS {
        let streams = || RunningSum::new(plan(40, mechanism), &key(7), name("s")).unwrap();
        let (mut single, mut whole) = (streams(), streams());
        for step in 0..40 {
            let values = [step % 10, -3, 9, -1];
            values.iter().for_each(|value| single.add(*value).unwrap());
            whole.add_sum(values.iter().sum()).unwrap();
            assert_eq!(single.tick().unwrap(), whole.tick().unwrap());
        }
        assert!(whole.add_sum(0).unwrap_err().is_horizon_exhausted());
    }
    let of = |lower, upper| {
        let values = Values::Sum { lower, upper };
        let request = PlanRequest::count(9, Budget::Zcdp(Rho::new(0.5).unwrap())).with_values(values);
        RunningSum::new(request.plan().unwrap(), &key(7), name("s")).unwrap()
    };
    for (lower, upper, fits, fails) in [(1, 5, 1000, -1), (0, 5, 0, -1), (-5, 0, -1000, 1), (-5, -1, -7, 7)] {
        let mut stream = of(lower, upper);
        stream.add_sum(fits).unwrap();
        assert!(stream.add_sum(fails).unwrap_err().is_invalid());
    }
    let mut stream = of(-1, 1);
    stream.add_sum(i64::MAX).unwrap();
    assert!(stream.add_sum(1).unwrap_err().is_overflow());
    stream.add_sum(i64::MIN).unwrap();
}

/// Every release is the exact prefix sum plus `Σ L_tn z_n` with `z_n` drawn from the node's own bits.
#[test]
fn releases_are_prefix_sums_plus_the_noise_of_their_nodes() {
    for mechanism in MECHANISMS {
        let plan = plan(40, mechanism);
        let noise = KeyedNoise::unrecorded(&key(7), &name("s"), &plan.digest(), Purpose::Total);
        let mut stream = RunningSum::new(plan.clone(), &key(7), name("s")).unwrap();
        let unit = 1.0 / plan.noise_divisor() as f64;
        let mut prefix = 0;
        for step in 1..=40 {
            for value in [step % 10, -1, 9] {
                stream.add(i64::from(value)).unwrap();
                prefix += i64::from(value);
            }
            let release = stream.tick().unwrap();
            let mut expected = prefix as f64;
            plan.mechanism().visit_row(step as u64, &mut |node, weight| {
                expected += weight * plan.law().sample(&mut noise.bits(node)) as f64 * unit;
            });
            // Square roots release with a rounded `R`, which differs a little from the ideal one.
            let slack = match (plan.mechanism().noise_bits(), plan.fraction_bits()) {
                (0, 0) => 0.0,
                // Rounded to the nearest multiple, and shown with four digits.
                (0, bits) if plan.mechanism().fraction_bits() == 0 => 2f64.powi(-(bits as i32) - 1) + 0.51e-4,
                (0, bits) => 2f64.powi(-(bits as i32)) + 1e-4,
                _ => 2e-3 * plan.std_error(step as u64) + 0.01,
            };
            assert!((release.value() - expected).abs() <= slack, "{mechanism}, step {step}");
            assert_eq!(stream.release(), Some(release));
        }
        assert!(stream.tick().unwrap_err().is_horizon_exhausted());
        assert!(stream.add(1).unwrap_err().is_horizon_exhausted());
    }
}

#[test]
fn groups_are_streams_of_their_own() {
    let plan = plan(20, "subtract(k=4)");
    let make = |names: &[&str]| {
        GroupedSums::new(plan.clone(), &key(1), name("g"), Groups::new(names.to_vec()).unwrap()).unwrap()
    };
    let (mut ab, mut ba) = (make(&["a", "b"]), make(&["b", "a"]));
    let mut differ = 0;
    for _ in 0..20 {
        ab.add(0, 2).unwrap();
        ba.add(1, 2).unwrap();
        let (x, y) = (ab.tick().unwrap().to_vec(), ba.tick().unwrap().to_vec());
        // A group's release depends on its name, not on its place or on the other groups.
        assert_eq!((x[0], x[1]), (y[1], y[0]));
        differ += usize::from(x[0].multiple() - 2 * i128::from(x[0].step() as i64) != x[1].multiple());
    }
    assert!(differ > 10, "groups share their noise");
    assert!(ab.add(2, 1).is_err());
    assert!(Groups::new(Vec::<String>::new()).is_err());
}

/// Skipping to a step gives what ticking to it gives.
#[test]
fn skipped_steps_do_not_change_the_last() {
    for mechanism in MECHANISMS {
        let make = || RunningSum::new(plan(60, mechanism), &key(2), name("s")).unwrap();
        let (mut ticked, mut skipped) = (make(), make());
        for target in [1, 2, 9, 10, 33, 60] {
            ticked.add(3).unwrap();
            skipped.add(3).unwrap();
            while ticked.step() < target {
                ticked.tick().unwrap();
            }
            assert_eq!(Some(skipped.tick_through(target).unwrap()), ticked.release(), "{mechanism} to {target}");
            assert_eq!(skipped.save(), ticked.save());
        }
        assert!(skipped.tick_through(60).is_err() && skipped.tick_through(61).unwrap_err().is_horizon_exhausted());
    }
}

/// Across gaps that noise leaps over, both short enough for a twin that goes step by step and far longer.
#[test]
fn leaps_give_what_steps_give() {
    let budget = Budget::Pure(Epsilon::new(1.0).unwrap());
    let windows = PlanRequest::count(1 << 62, budget).with_workload(Workload::Window(40));
    let windows = windows.with_mechanism("rolling-hats(spacing=12,share=440)".parse().unwrap());
    let trees = PlanRequest::unbounded(budget).with_mechanism("endless(inside=trees)".parse().unwrap());
    for plan in [windows.plan().unwrap(), trees.plan().unwrap()] {
        let mut ticked = RunningSum::new(plan.clone(), &key(1), name("s")).unwrap();
        let mut skipped = RunningSum::new(plan.clone(), &key(1), name("s")).unwrap();
        for target in [3, 30, 41, 300, 301, 20_000] {
            ticked.add(1).unwrap();
            skipped.add(1).unwrap();
            while ticked.step() < target {
                ticked.tick().unwrap();
            }
            assert_eq!(Some(skipped.tick_through(target).unwrap()), ticked.release(), "to {target}");
            assert_eq!(skipped.save(), ticked.save(), "to {target}");
        }
        // Too far for a twin that goes step by step.
        assert_eq!(skipped.tick_through(1 << 60).unwrap().step(), 1 << 60);
        let state = skipped.save();
        let mut other = RunningSum::restore(plan, &key(1), name("s"), &state).unwrap();
        assert_eq!(other.tick().unwrap(), skipped.tick().unwrap());
    }
}

#[test]
fn values_outside_the_bounds_and_overflow_change_nothing() {
    let mut stream = RunningSum::new(plan(3, "binary"), &key(1), name("s")).unwrap();
    let before = stream.save();
    assert!(stream.add(10).unwrap_err().is_invalid() && stream.add(-4).unwrap_err().is_invalid());
    assert_eq!(stream.save(), before);

    let values = Values::Sum { lower: 0, upper: 1 << 58 };
    let budget = Budget::Pure(Epsilon::new(1.0).unwrap());
    let huge = PlanRequest::count(3, budget).with_values(values).plan().unwrap();
    let mut stream = RunningSum::new(huge, &key(1), name("s")).unwrap();
    (0..31).for_each(|_| stream.add(1 << 58).unwrap());
    assert!(stream.add(1 << 58).unwrap_err().is_overflow());
    stream.tick().unwrap();
    assert!(stream.add(1 << 58).unwrap_err().is_overflow());
    stream.tick().unwrap();
}

#[test]
fn foreign_and_damaged_states_are_refused() {
    let stream = {
        let mut stream = RunningSum::new(plan(30, "smooth"), &key(1), name("s")).unwrap();
        stream.add(5).unwrap();
        stream.tick().unwrap();
        stream
    };
    let state = stream.save();
    let restore = |plan, seed, text: &str, bytes: &[u8]| RunningSum::restore(plan, &key(seed), name(text), bytes);
    assert!(restore(plan(30, "smooth"), 1, "s", &state).is_ok());
    let message = |result: crate::Result<RunningSum>| {
        let error = result.unwrap_err();
        assert!(error.is_state());
        error.to_string()
    };
    assert!(message(restore(plan(31, "smooth"), 1, "s", &state)).contains("another plan"));
    assert!(message(restore(plan(30, "smooth"), 2, "s", &state)).contains("another key"));
    assert!(message(restore(plan(30, "smooth"), 1, "t", &state)).contains("stream \"s\""));
    let groups = Groups::new(["x"]).unwrap();
    let grouped = GroupedSums::restore(plan(30, "smooth"), &key(1), name("s"), groups, &state);
    assert!(grouped.unwrap_err().to_string().contains("groups"));
    // Every single damaged byte, every truncation, and an appended byte are noticed.
    for i in 0..state.len() {
        let mut damaged = state.clone();
        damaged[i] ^= 0x40;
        assert!(restore(plan(30, "smooth"), 1, "s", &damaged).unwrap_err().is_state(), "byte {i}");
        assert!(restore(plan(30, "smooth"), 1, "s", &state[..i]).unwrap_err().is_state(), "cut at {i}");
    }
    let longer = [&state[..], &[0]].concat();
    assert!(restore(plan(30, "smooth"), 1, "s", &longer).is_err());
}

/// The bytes of a state are a format: they must not change within version 1.
#[test]
fn the_state_format_is_frozen() {
    let mut stream = RunningSum::new(plan(30, "binary"), &key(1), name("s")).unwrap();
    stream.add(5).unwrap();
    stream.tick().unwrap();
    stream.add(-2).unwrap();
    let digest = blake3::hash(&stream.save()).to_hex();
    assert_eq!(&digest[..16], "243e6f6b4b2492ce");
}

/// A state that holds a memory of its mechanism is frozen too; other versions and kinds are refused.
#[test]
fn the_state_format_with_memories_is_frozen() {
    let blt = MECHANISMS[12];
    let mut stream = RunningSum::new(plan(30, blt), &key(1), name("s")).unwrap();
    stream.add(5).unwrap();
    stream.tick().unwrap();
    stream.add(-2).unwrap();
    let state = stream.save();
    assert_eq!(state[16..20], 1u32.to_le_bytes());
    let digest = blake3::hash(&state).to_hex();
    assert_eq!(&digest[..16], "5f3c03d234578134");
    for i in 0..state.len() {
        let mut damaged = state.clone();
        damaged[i] ^= 0x40;
        let restored = RunningSum::restore(plan(30, blt), &key(1), name("s"), &damaged);
        assert!(restored.unwrap_err().is_state(), "byte {i}");
        let cut = RunningSum::restore(plan(30, blt), &key(1), name("s"), &state[..i]);
        assert!(cut.unwrap_err().is_state(), "cut at {i}");
    }
    let mut other = state.clone();
    for version in [0u32, 2, 3] {
        other[16..20].copy_from_slice(&version.to_le_bytes());
        let refused = RunningSum::restore(plan(30, blt), &key(1), name("s"), &other).unwrap_err();
        assert!(refused.is_state() && refused.to_string().contains("has version"), "{refused}");
    }
    let groups = Groups::new(["a"]).unwrap();
    let refused = GroupedSums::restore(plan(30, blt), &key(1), name("s"), groups.clone(), &state).unwrap_err();
    assert!(refused.is_state() && refused.to_string().contains("other groups"), "{refused}");
    let grouped = GroupedSums::new(plan(30, blt), &key(1), name("s"), groups).unwrap().save();
    assert!(RunningSum::restore(plan(30, blt), &key(1), name("s"), &grouped).unwrap_err().is_state());
    // A memory for a mechanism without one, and no memory for a mechanism with one.
    let plain = RunningSum::new(plan(30, "binary"), &key(1), name("s")).unwrap().save();
    assert!(RunningSum::restore(plan(30, blt), &key(1), name("s"), &plain).unwrap_err().is_state());
    assert!(RunningSum::restore(plan(30, "binary"), &key(1), name("s"), &state).unwrap_err().is_state());
}

/// Each group has its own memory.
#[test]
fn groups_continue_with_their_memories() {
    for mechanism in MECHANISMS {
        let plan = plan(30, mechanism);
        let groups = || Groups::new(["a", "b", "c"]).unwrap();
        let mut whole = GroupedSums::new(plan.clone(), &key(1), name("g"), groups()).unwrap();
        let mut cut = GroupedSums::new(plan.clone(), &key(1), name("g"), groups()).unwrap();
        for step in 0..30 {
            for stream in [&mut whole, &mut cut] {
                stream.add(step % 3, step as i64 % 9).unwrap();
                stream.add(1, -1).unwrap();
            }
            cut = GroupedSums::restore(plan.clone(), &key(1), name("g"), groups(), &cut.save()).unwrap();
            assert_eq!(whole.tick().unwrap(), cut.tick().unwrap(), "{mechanism}");
            assert_eq!((whole.releases(), whole.save()), (cut.releases(), cut.save()), "{mechanism}");
        }
    }
}

/// A group that joins has the noise of a group declared from the first step on, and does not affect other groups.
#[test]
fn groups_that_join_change_nobody_else() {
    for mechanism in MECHANISMS {
        let plan = plan(30, mechanism);
        let all = || Groups::new(["a", "b", "c"]).unwrap();
        let mut whole = GroupedSums::new(plan.clone(), &key(1), name("g"), all()).unwrap();
        let mut grown = GroupedSums::new(plan.clone(), &key(1), name("g"), all().first(1).unwrap()).unwrap();
        for step in 0..30 {
            for (at, count) in [(7, 2), (11, 3)] {
                if step == at {
                    grown.join(&key(1), name("g"), all().first(count).unwrap()).unwrap();
                    let present = all().first(count).unwrap();
                    grown = GroupedSums::restore(plan.clone(), &key(1), name("g"), present, &grown.save()).unwrap();
                }
            }
            let joined = grown.releases().map_or(1, |releases| releases.len());
            for stream in [&mut whole, &mut grown] {
                stream.add(0, step % 9).unwrap();
                if joined == 3 {
                    stream.add(2, 1).unwrap();
                }
            }
            let (whole, grown) = (whole.tick().unwrap(), grown.tick().unwrap());
            assert_eq!(whole[..grown.len()], *grown, "{mechanism}, step {step}");
        }
        assert!(grown.join(&key(1), name("g"), Groups::new(["a", "c", "b", "d"]).unwrap()).is_err());
        assert!(grown.join(&key(1), name("g"), Groups::new(["a", "b"]).unwrap()).is_err());
        assert!(grown.join(&key(2), name("g"), Groups::new(["a", "b", "c", "d"]).unwrap()).is_err());
    }
}

/// The releases of an all-zero stream, one line per mechanism, recorded when the format was fixed. The output of a
/// key must never change, or releases could not be repeated or continued.
#[test]
fn the_releases_of_a_key_are_frozen() {
    let released: Vec<String> = MECHANISMS
        .iter()
        .zip(FROZEN_DIGESTS)
        .map(|(mechanism, digest)| {
            let plan = plan(9, mechanism).with_digest(digest);
            let mut stream = RunningSum::new(plan, &key(3), name("frozen")).unwrap();
            (0..9).map(|_| stream.tick().unwrap().to_string()).collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(released, FROZEN_RELEASES);
}

/// The digests of plans under which these releases were recorded: noise is a function of key, stream name, digest,
/// purpose and node.
const FROZEN_DIGESTS: [&str; 13] = [
    "82e445ee53d63506567fbd8d56e96817384ff8fbe1e145ae8be763e5d1d2b4c1",
    "f7162a7be282f58741636c34935a77f3ed2afc298adf009ac9e6fca87b9517ed",
    "68fe6235536b612035ba564131dbba2183782fc9992e31a9be6bb6ef8d5091d6",
    "b0a340c46a864986b60da6a9b5a4cd64a0dab43c4ae297956aeb6f2bedcf2041",
    "5be740a18a6ffcafb1602e20f4af05cd9a86adc13003c075da57d03fc69d1ff3",
    "05878bfe9e84170f4ab6059af60d07715cd02e4c891febb004c739898d97a535",
    "596e31b3452b365bc0f65ec004718ad5aebf1468c18c8cc21d6fce04cd60ab74",
    "f91d3e1397de51d98623f45a54b8b6206de4f705e6dcf4b217148514185050be",
    "6e3a35494b03674c0e4402e21e0d67de84daf4897f575f450e80bf97b2d8eef8",
    "800bdb2e6c48edc7a256c27ac65fdfe6839b6131cbc0c7b324b64cfcc540df33",
    "5dece797127bc70493b4ecd0fadd8c54eddce7017e283c23914c6de49f0eb2b3",
    "d0d6955658265e2834bd297cf370509093203a3e318ecf000fd9089a6f7792f3",
    "77acc667a87ac68325bc40c07be56a08fdcf5e4a34e8bfc941c28eb67f356586",
];

const FROZEN_RELEASES: [&str; 13] = [
    "11 2 -6 -21 -18 -10 -16 -17 -20",
    "106 15 22 -20 44 -3 -58 -12 -6",
    "15 -18 -34 -24 -22 -61 -79 4 9",
    "-14.0000 -19.3333 -39.3333 -12.4286 -14.4286 -14.7619 -42.7619 -7.0000 -25.0000",
    "-5 -11 -6 -6 21 -6 -6 0 1",
    "-17 -13 -10 10 24 20 35 27 42",
    "-1.0859 9.2617 -3.7930 6.3359 -7.6289 -20.0859 -16.2969 -12.0156 -5.5469",
    "-23.3516 -7.0234 12.7734 8.9805 12.1406 -27.0781 26.4883 19.5352 -0.7773",
    "7.8477 4.0469 -19.7969 25.3789 -0.0703 12.8516 0.8984 1.3828 3.5078",
    "19.9766 14.8164 -5.1914 1.8320 1.4492 1.4375 -4.2656 9.0781 -5.8242",
    "-0.2500 6.2109 14.5625 14.4453 -26.4727 20.7148 43.9492 6.7148 4.7109",
    "11.4609 4.2227 27.6523 34.5703 3.9805 16.0273 23.5273 26.7969 18.6172",
    "-2.7891 2.8750 -6.6406 9.0117 -16.2422 -3.8984 8.3906 -11.8594 -12.7031",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Saving and restoring anywhere, any number of times, gives the releases of the uninterrupted stream.
    #[test]
    fn restored_streams_continue_bit_for_bit(
        steps in prop::collection::vec(prop::collection::vec(-3i64..=9, 0..4), 1..60),
        stops in prop::collection::vec(any::<bool>(), 60),
        mechanism in 0..MECHANISMS.len(),
    ) {
        let plan = plan(steps.len() as u64, MECHANISMS[mechanism]);
        let mut whole = RunningSum::new(plan.clone(), &key(5), name("s")).unwrap();
        let mut cut = RunningSum::new(plan.clone(), &key(5), name("s")).unwrap();
        for (events, stop) in steps.iter().zip(&stops) {
            for value in events {
                whole.add(*value).unwrap();
                cut.add(*value).unwrap();
                if *stop {
                    cut = RunningSum::restore(plan.clone(), &key(5), name("s"), &cut.save()).unwrap();
                }
            }
            prop_assert_eq!(whole.tick().unwrap(), cut.tick().unwrap());
            prop_assert_eq!(whole.release(), cut.release());
            prop_assert_eq!(whole.save(), cut.save());
        }
    }
}

/// An endless stream of windows, saved and restored now and then, continues as if nothing had happened.
#[test]
fn windows_of_hats_go_on_after_a_restart() {
    let request = PlanRequest::count(1 << 40, Budget::Pure(Epsilon::new(1.0).unwrap()));
    let request = request.with_workload(crate::mechanism::Workload::Window(30));
    let plan = request.with_mechanism("rolling-hats(spacing=5/20,share=250/333)".parse().unwrap()).plan().unwrap();
    let new = || RunningSum::new(plan.clone(), &key(1), name("windows")).unwrap();
    let (mut whole, mut parts) = (new(), new());
    for step in 0..200i64 {
        for stream in [&mut whole, &mut parts] {
            stream.add_sum(step * step % 17).unwrap();
        }
        assert_eq!(whole.tick().unwrap(), parts.tick().unwrap(), "{step}");
        if step % 13 == 5 {
            parts = RunningSum::restore(plan.clone(), &key(1), name("windows"), &parts.save()).unwrap();
        }
    }
}
