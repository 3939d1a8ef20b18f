use super::*;
use crate::mechanism::Workload;
use crate::noise::TestSeed;
use crate::plan::PlanRequest;
use crate::privacy::selection::{Selection, SelectionTimes};
use crate::privacy::{Budget, Delta, Rho, Unit, Values};
use crate::stream::{GroupedSums, Groups};

fn secret() -> GuardedKey {
    GuardedKey::insecure_from_test_seed(TestSeed(13))
}

fn selection(delta: f64, every: u64, horizon: u64) -> Selection {
    Selection::new(Delta::new(delta).unwrap(), SelectionTimes::every(every, horizon).unwrap())
}

/// A mechanism, and its window, if any.
type Case = (&'static str, u64);

fn plan((mechanism, window): Case, horizon: u64, every: u64) -> Plan {
    let request = PlanRequest::count(horizon, Budget::Zcdp(Rho::new(0.5).unwrap()));
    let workload = if window == 0 { Workload::Sum } else { Workload::Window(window) };
    let request = request
        .with_workload(workload)
        .with_values(Values::Sum { lower: -1, upper: 3 })
        .with_mechanism(mechanism.parse().unwrap());
    request.with_selection(selection(1e-6, every, horizon)).plan().unwrap()
}

fn stream(plan: &Plan) -> DiscoveredSums {
    DiscoveredSums::new(plan.clone(), &secret(), "keys".parse().unwrap()).unwrap()
}

/// Events of a step: many for some keys, few for others, of either sign.
fn events(step: u64) -> Vec<(String, i64)> {
    let mut state = step.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let events = 300 + next(60);
    (0..events)
        .map(|_| {
            let kinds = next(40) + 1;
            (format!("key {}", next(kinds)), next(5) as i64 - 1)
        })
        .collect()
}

/// The published values of a stream, in order: name, step and value.
fn published(stream: &DiscoveredSums, rows: &mut Vec<(Vec<u8>, Release)>) {
    for shown in stream.entering() {
        rows.extend(stream.earlier(shown).map(|release| (stream.name(shown).to_vec(), release)));
    }
    rows.extend(stream.releases().iter().enumerate().map(|(shown, release)| (stream.name(shown).to_vec(), *release)));
}

const MECHANISMS: [Case; 15] = [
    ("output", 0),
    ("binary", 0),
    ("subtract(k=3)", 0),
    ("smooth", 0),
    ("path-sum", 0),
    ("honaker-online", 0),
    ("normalized-blt(buffers=2)", 0),
    ("input", 3),
    ("banded", 3),
    ("banded", 5),
    ("input", 1),
    ("output", 2),
    ("smooth", 5),
    ("subtract(k=3)", 3),
    ("path-sum", 4),
];

/// A key is released as the declared group of its name would be, at every step, and enters at the first selection time
/// at which that release reaches the threshold.
#[test]
fn keys_are_released_as_groups_of_their_names() {
    for mechanism in MECHANISMS {
        let plan = plan(mechanism, 12, 4);
        let names: Vec<String> = (0..40).map(|number| format!("key {number}")).collect();
        let groups = Groups::new(names.iter().map(String::as_str)).unwrap();
        let mut declared = GroupedSums::new(plan.clone(), &secret(), "keys".parse().unwrap(), groups).unwrap();
        let mut discovered = stream(&plan);
        let (mut occurred, mut expected, mut released, mut rows) = (vec![false; 40], vec![], vec![], vec![]);
        let mut order: Vec<usize> = vec![];
        for step in 1..=12 {
            for (name, value) in events(step) {
                let place = names.iter().position(|other| *other == name).unwrap();
                occurred[place] = true;
                declared.add(place, value).unwrap();
                discovered.add(name.as_bytes(), value).unwrap();
            }
            released.push(declared.tick().unwrap().to_vec());
            discovered.tick().unwrap();
            published(&discovered, &mut rows);
            let last = &released[step as usize - 1];
            if step.is_multiple_of(4) {
                let reaches = |place: &usize| {
                    occurred[*place]
                        && !order.contains(place)
                        && last[*place].exact() >= i128::from(discovered.threshold().value()) << plan.fraction_bits()
                };
                let mut found: Vec<usize> = (0..40).filter(reaches).collect();
                found.sort_by_key(|place| names[*place].clone());
                for place in &found {
                    let before = released[..step as usize - 1].iter();
                    expected.extend(before.map(|step| (names[*place].clone().into_bytes(), step[*place])));
                }
                order.extend(found);
            }
            expected.extend(order.iter().map(|place| (names[*place].clone().into_bytes(), last[*place])));
        }
        assert_eq!(rows, expected, "{mechanism:?}");
        let few = 1 + usize::from(mechanism.1 == 0);
        assert!(order.len() >= few && order.len() < 40, "{mechanism:?}: {}", order.len());
    }
}

/// Other keys do not affect a key.
#[test]
fn keys_do_not_touch_each_other() {
    for case in [("path-sum", 0), ("banded", 3), ("path-sum", 3)] {
        let plan = plan(case, 8, 2);
        let run = |others: bool| {
            let (mut stream, mut rows) = (stream(&plan), vec![]);
            for step in 1..=8 {
                (0..100).for_each(|_| stream.add(b"busy", 3).unwrap());
                if others {
                    (0..50 * step).for_each(|number| stream.add(format!("a{}", number % 70).as_bytes(), 3).unwrap());
                }
                stream.tick().unwrap();
                published(&stream, &mut rows);
            }
            rows
        };
        let (alone, mut among) = (run(false), run(true));
        assert!(among.len() > alone.len());
        among.retain(|(name, _)| name == b"busy");
        assert_eq!(alone, among, "{case:?}");
    }
}

/// If every key of only one person stays below the threshold, data with that person give the same output as data
/// without them. Keys whose windows are empty are checked like all others, by their noise.
#[test]
fn a_person_leaves_no_trace_in_windows() {
    let mut noisy = 0;
    for case in [("banded", 3), ("input", 3), ("smooth", 3)] {
        let plan = plan(case, 12, 3);
        let run = |others: u64| {
            let (mut with, mut rows) = (stream(&plan), vec![]);
            for step in 1..=12 {
                (0..80).for_each(|_| with.add(b"busy", 1).unwrap());
                if step == 2 {
                    (0..others).for_each(|number| with.add(format!("only {number}").as_bytes(), 1).unwrap());
                }
                with.tick().unwrap();
                published(&with, &mut rows);
            }
            (rows, with)
        };
        let ((without, _), (with, state)) = (run(0), run(3000));
        assert_eq!(without, with, "{case:?}");
        assert!(!with.is_empty() && state.save().len() > 3000);
        // With a low threshold, noise alone lets keys enter whose windows have long been empty.
        let mut low = state;
        low.step = 11;
        let look = KeySelection { threshold: plan.std_error(12).ceil() as i64, ..low.look() };
        let found = KeySelection { step: 12, ..look }.found().len();
        // A normal variable exceeds one standard deviation with probability about 1/6.
        assert!((300..700).contains(&found), "{case:?}: {found}");
        noisy += found;
    }
    assert!(noisy > 0);
}

/// Keys saved after any step, also between two steps, and restored continue as if nothing had happened; equal keys
/// have equal bytes, in whatever order they came.
#[test]
fn states_go_on() {
    for mechanism in MECHANISMS {
        let plan = plan(mechanism, 8, 3);
        let (mut whole, mut parts, mut sorted) = (stream(&plan), stream(&plan), stream(&plan));
        let (mut rows, mut again) = (vec![], vec![]);
        for step in 1..=8 {
            let mut of_step = events(step);
            of_step.iter().for_each(|(name, value)| whole.add(name.as_bytes(), *value).unwrap());
            let (first, second) = of_step.split_at(of_step.len() / 2);
            first.iter().for_each(|(name, value)| parts.add(name.as_bytes(), *value).unwrap());
            parts = restored(&plan, &parts.save()).unwrap();
            second.iter().for_each(|(name, value)| parts.add(name.as_bytes(), *value).unwrap());
            of_step.sort();
            of_step.iter().for_each(|(name, value)| sorted.add(name.as_bytes(), *value).unwrap());
            assert_eq!(parts.save(), whole.save());
            assert_eq!(sorted.save(), whole.save());
            let mut open: Vec<_> = parts.unsafe_open_sums().map(|(name, sum)| (name.to_vec(), sum)).collect();
            let mut same: Vec<_> = whole.unsafe_open_sums().map(|(name, sum)| (name.to_vec(), sum)).collect();
            open.sort();
            same.sort();
            assert_eq!(open, same);
            whole.tick().unwrap();
            parts.tick().unwrap();
            sorted.tick().unwrap();
            published(&whole, &mut rows);
            published(&parts, &mut again);
            let state = parts.save();
            parts = restored(&plan, &state).unwrap();
            assert_eq!((parts.save(), parts.releases()), (state, whole.releases()));
        }
        assert_eq!(rows, again);
        assert!(!rows.is_empty());
        assert!(whole.tick().unwrap_err().is_horizon_exhausted() && whole.add(b"x", 1).is_err());
    }
}

fn restored(plan: &Plan, state: &[u8]) -> Result<DiscoveredSums> {
    DiscoveredSums::restore(plan.clone(), &secret(), "keys".parse().unwrap(), state)
}

#[test]
fn foreign_and_damaged_states_are_refused() {
    let plan = plan(("binary", 0), 8, 3);
    let mut keys = stream(&plan);
    events(1).iter().for_each(|(name, value)| keys.add(name.as_bytes(), *value).unwrap());
    keys.tick().unwrap();
    let state = keys.save();
    for place in (0..state.len()).step_by(7) {
        let mut damaged = state.clone();
        damaged[place] ^= 1;
        assert!(restored(&plan, &damaged).unwrap_err().is_state(), "{place}");
    }
    // Keys selected with another threshold.
    for change in [-1, 1] {
        let threshold = keys.threshold.value() + change;
        let id = StateId::new(&plan, &secret(), "keys".parse().unwrap(), Layout::Keys { threshold });
        let other = id.seal(&keys.id.open::<SavedDiscovered>(&state).unwrap());
        assert!(restored(&plan, &other).unwrap_err().is_state(), "{change}");
    }
    // Another selection is another plan.
    assert!(restored(&self::plan(("binary", 0), 8, 4), &state).unwrap_err().is_state());
    assert!(restored(&plan, &state).is_ok());
    let without = PlanRequest::count(8, Budget::Zcdp(Rho::new(0.5).unwrap())).plan().unwrap();
    assert!(DiscoveredSums::new(without, &secret(), "keys".parse().unwrap()).is_err());
}

#[test]
fn sums_that_do_not_fit_are_refused() {
    let values = Values::Sum { lower: 0, upper: i64::MAX };
    let request = PlanRequest::count(3, Budget::Zcdp(Rho::new(0.5).unwrap())).with_values(values);
    // Such a wide bound needs too much noise for a plan: use the keys' table alone.
    assert!(request.plan().is_err());
    let mut keys = Keys::default();
    let place = keys.place(b"a").unwrap();
    assert!(keys.at(place).add(i64::MAX - 1) && !keys.at(place).add(1));
    assert!(keys.get(place).check_room(1).unwrap_err().is_overflow());
    keys.at(place).close(1);
    assert!(keys.get(place).check_room(1).unwrap_err().is_overflow() && keys.get(place).check_room(0).is_ok());
}

/// The frequency at which keys of one person are shown equals the exact tail: a million keys with independent noise,
/// at the smallest threshold for a δ that is often reached. The test allows five standard deviations, so a correct
/// program fails once in two million runs.
#[test]
fn a_million_keys_are_shown_as_often_as_the_tail_says() {
    const KEYS: [(&str, u64, u64); 3] = [("binary", 6, 1_000_000), ("path-sum", 6, 100_000), ("banded", 3, 100_000)];
    for (mechanism, window, keys) in KEYS {
        let request =
            PlanRequest::count(6, Budget::Zcdp(Rho::new(0.5).unwrap())).with_unit(Unit::person(4).in_groups(1));
        let workload = if window == 6 { Workload::Sum } else { Workload::Window(window) };
        let request = request.with_workload(workload).with_selection(selection(0.02, 6, 6));
        let plan = request.with_mechanism(mechanism.parse().unwrap()).plan().unwrap();
        let threshold = *plan.threshold().unwrap();
        let mut stream = stream(&plan);
        for number in 0..keys {
            stream.add(&number.to_le_bytes(), 1).unwrap();
        }
        assert!(stream.memory_bytes() as u64 <= 200 * keys, "{} bytes", stream.memory_bytes());
        (0..3).for_each(|_| stream.tick().unwrap());
        for number in 0..keys {
            // All four events are in the window that the selection reads, where the bound is attained.
            (0..if window == 6 { 3 } else { 4 }).for_each(|_| stream.add(&number.to_le_bytes(), 1).unwrap());
        }
        (0..3).for_each(|_| stream.tick().unwrap());
        let expected = threshold.failure() * keys as f64;
        let deviations = (stream.shown() as f64 - expected) / (expected * (1.0 - threshold.failure())).sqrt();
        assert!(deviations.abs() < 5.0, "{mechanism}({window}): {} {expected}", stream.shown());
    }
}

/// With several selection times and several keys per person, failures are at most as frequent as promised.
#[test]
fn failures_are_no_more_frequent_than_promised() {
    const PERSONS: u64 = 40_000;
    let request = PlanRequest::count(8, Budget::Zcdp(Rho::new(0.5).unwrap())).with_unit(Unit::person(6).in_groups(2));
    let request = request.with_selection(selection(0.05, 2, 8));
    let plan = request.with_mechanism("smooth".parse().unwrap()).plan().unwrap();
    let threshold = *plan.threshold().unwrap();
    for split in [vec![6], vec![5, 1], vec![3, 3]] {
        let mut stream = stream(&plan);
        let mut failed = std::collections::BTreeSet::new();
        for person in 0..PERSONS {
            for (number, events) in split.iter().enumerate() {
                let name = [&person.to_le_bytes()[..], &[number as u8]].concat();
                (0..*events).for_each(|_| stream.add(&name, 1).unwrap());
            }
        }
        (0..8).for_each(|_| stream.tick().unwrap());
        failed.extend((0..stream.shown()).map(|shown| stream.name(shown)[..8].to_vec()));
        let promised = threshold.failure() * PERSONS as f64;
        assert!((failed.len() as f64) < promised + 5.0 * promised.sqrt(), "{split:?}: {} {promised}", failed.len());
        if split == [6] {
            assert!(failed.len() as f64 > 0.2 * promised, "the bound is not loose: {} {promised}", failed.len());
        }
    }
}
