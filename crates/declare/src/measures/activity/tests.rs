//! Checks toggles against their definition, and the change by a unit against all data sets of a small world.

use super::*;
use evertally::mechanism::{Mechanism, Workload};
use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Rho, Values};
use std::sync::Arc;

const STEPS: u64 = 7;
/// A mechanism of every kind of `R`: nodes that are intervals, weights that fall, and every column alone.
const MECHANISMS: [&str; 4] = ["binary", "subtract(k=3)", "smooth", "input"];

/// An event that is kept: its step, and its group.
type Kept = (u64, u32);

/// The toggles of one person in two groups, step by step, and whether they are active.
fn toggles(events: &[Kept], window: u64) -> [Vec<i64>; 2] {
    let member = |group| ([1; 16], group);
    let mut activity = Activity::new(window);
    let mut toggles = [vec![0; STEPS as usize], vec![0; STEPS as usize]];
    for step in 1..=STEPS {
        let place = step as usize - 1;
        for (_, group) in events.iter().filter(|(at, _)| *at == step) {
            toggles[*group as usize][place] += i64::from(activity.activate(member(*group), step));
        }
        for group in activity.downs(step) {
            toggles[group as usize][place] -= 1;
        }
        // Every run continues from the saved state of the previous one.
        activity = Activity::restore(window, step, activity.save()).expect("saved and restored");
    }
    toggles
}

fn is_active(events: &[Kept], window: u64, step: u64, group: u32) -> bool {
    events.iter().any(|(at, of)| *of == group && *at <= step && step < at + window)
}

/// All lists of at most the given number of events in steps of a range, in order of time.
fn lists(steps: std::ops::RangeInclusive<u64>, groups: u32, most: usize) -> Vec<Vec<Kept>> {
    let mut all = vec![vec![]];
    let mut from = 0;
    for _ in 0..most {
        let until = all.len();
        for place in from..until {
            let last = all[place].last().copied().unwrap_or((0, 0));
            for event in steps.clone().flat_map(|step| (0..groups).map(move |group| (step, group))) {
                if event >= last {
                    all.push([all[place].clone(), vec![event]].concat());
                }
            }
        }
        from = until;
    }
    all
}

#[test]
fn running_sums_of_toggles_are_who_is_active() {
    for window in 1..=4 {
        for events in lists(1..=STEPS, 2, 4) {
            for (group, toggles) in toggles(&events, window).iter().enumerate() {
                let mut sum = 0;
                for step in 1..=STEPS {
                    sum += toggles[step as usize - 1];
                    assert_eq!(sum == 1, is_active(&events, window, step, group as u32), "{events:?} at {step}");
                    assert!(sum == 0 || sum == 1);
                }
            }
        }
    }
}

/// How far the node sums of a mechanism move: L1 norm and squared L2 norm over both groups.
fn moved(mechanism: &dyn Mechanism, change: &[Vec<i64>; 2]) -> (f64, f64) {
    let r = mechanism.dense().r;
    let sums = change.iter().flat_map(|change| {
        let node = |row: usize| r.row(row).iter().zip(change).map(|(entry, by)| entry * *by as f64).sum::<f64>();
        (0..r.shape().0).map(node).collect::<Vec<_>>()
    });
    sums.fold((0.0, 0.0), |(l1, l2), by| (l1 + by.abs(), l2 + by * by))
}

fn difference(a: &[Vec<i64>; 2], b: &[Vec<i64>; 2]) -> [Vec<i64>; 2] {
    [0, 1].map(|group: usize| a[group].iter().zip(&b[group]).map(|(a, b)| a - b).collect())
}

/// What the toggles of a unit may move by the plan's own bound, for every mechanism.
fn bounds(declared: Unit, neighbours: Neighbours, window: u64, grouped: bool) -> Vec<(Arc<dyn Mechanism>, f64, f64)> {
    let unit = unit(declared, neighbours, window, STEPS, grouped).unwrap();
    let request = PlanRequest::count(STEPS, Budget::Zcdp(Rho::new(0.5).unwrap()))
        .with_unit(unit)
        .with_values(Values::Count)
        .with_neighbours(Neighbours::ReplaceOne);
    let sensitivity = request.sensitivity().unwrap();
    let of = |name: &&str| {
        let plan = request.clone().with_mechanism(name.parse().unwrap()).plan().unwrap();
        let mechanism = Arc::clone(plan.mechanism());
        let l1 = sensitivity.l1 as f64 * mechanism.column_norms().l1;
        let l2 = sensitivity.squared(&*mechanism);
        (mechanism, l1, l2)
    };
    MECHANISMS.iter().map(of).collect()
}

fn check(bounds: &[(Arc<dyn Mechanism>, f64, f64)], changes: &[[Vec<i64>; 2]], what: &str) {
    for (mechanism, l1, l2) in bounds {
        let mut worst = (0.0f64, 0.0f64);
        for change in changes {
            let (own_l1, own_l2) = moved(&**mechanism, change);
            worst = (worst.0.max(own_l1), worst.1.max(own_l2));
        }
        assert!(worst.0 <= l1 * (1.0 + 1e-9), "{what}, {}: L1 {} above {l1}", mechanism.name(), worst.0);
        assert!(worst.1 <= l2 * (1.0 + 1e-9), "{what}, {}: L2² {} above {l2}", mechanism.name(), worst.1);
    }
}

#[test]
fn one_person_moves_no_more_than_is_planned() {
    for window in 1..=3 {
        for most in 1..=3 {
            for groups in [1, 2] {
                let people: Vec<_> = lists(1..=STEPS, groups, most).iter().map(|e| toggles(e, window)).collect();
                let declared = Unit::person(most as u64);
                let plan = bounds(declared, Neighbours::AddRemove, window, groups > 1);
                check(&plan, &people, &format!("{most} events, window {window}, {groups} groups"));
                if most < 3 {
                    let pairs: Vec<_> =
                        people.iter().flat_map(|a| people.iter().map(move |b| difference(a, b))).collect();
                    let plan = bounds(declared, Neighbours::ReplaceOne, window, groups > 1);
                    check(&plan, &pairs, &format!("{most} events replaced, window {window}, {groups} groups"));
                }
            }
        }
    }
}

/// One event a step: bounds in a step are used in groups, too.
#[test]
fn bounds_in_a_step_and_in_a_group_hold_for_toggles() {
    for window in 1..=3 {
        let events = lists(1..=STEPS, 2, 3);
        let one_a_step = |events: &&Vec<Kept>| events.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let people: Vec<_> = events.iter().filter(one_a_step).map(|e| toggles(e, window)).collect();
        let declared = Unit::person(3).per_step(1).per_group(2);
        let two_a_group = |e: &&Vec<Kept>| (0..2).all(|group| e.iter().filter(|event| event.1 == group).count() <= 2);
        let of_groups: Vec<_> =
            events.iter().filter(one_a_step).filter(two_a_group).map(|e| toggles(e, window)).collect();
        check(&bounds(declared, Neighbours::AddRemove, window, true), &of_groups, "a step and a group");
        check(&bounds(Unit::person(3).per_step(1), Neighbours::AddRemove, window, true), &people, "a step");
    }
}

/// The events of one period go, those of all other periods stay.
#[test]
fn one_period_moves_no_more_than_is_planned() {
    for window in 1..=4 {
        for groups in [1, 2] {
            let others: Vec<Vec<Kept>> = lists(1..=2, groups, 1)
                .iter()
                .flat_map(|before| {
                    lists(5..=6, groups, 1).into_iter().map(move |after| [before.clone(), after].concat())
                })
                .collect();
            let mut changes = Vec::new();
            for other in &others {
                let without = toggles(other, window);
                for own in lists(3..=4, groups, 2) {
                    let mut all = [other.clone(), own].concat();
                    all.sort_unstable();
                    changes.push(difference(&toggles(&all, window), &without));
                }
            }
            for declared in [Unit::person(2).per_period(2), Unit::person(2).per_step(2).per_period(2)] {
                let plan = bounds(declared, Neighbours::AddRemove, window, groups > 1);
                check(&plan, &changes, &format!("a period, window {window}, {groups} groups"));
            }
        }
    }
}

/// In how many steps one unit is present instead of absent: as many events as are planned for.
#[test]
fn one_unit_is_present_in_no_more_steps_than_is_planned() {
    let present = |events: &[Kept], window| {
        let of = |group| (1..=STEPS).map(move |step| i64::from(is_active(events, window, step, group))).collect();
        [of(0), of(1)]
    };
    for window in 1..=3 {
        for groups in [1, 2] {
            for (declared, others, own) in [
                (Unit::person(2), vec![vec![]], lists(1..=STEPS, groups, 2)),
                (Unit::person(2).per_period(2), lists(1..=2, groups, 2), lists(3..=4, groups, 2)),
            ] {
                for neighbours in [Neighbours::AddRemove, Neighbours::ReplaceOne] {
                    let unit = presence(declared, window, STEPS, groups > 1).unwrap();
                    let request = PlanRequest::count(STEPS, Budget::Zcdp(Rho::new(0.5).unwrap())).with_unit(unit);
                    let request = request.with_neighbours(neighbours).with_workload(Workload::Increments);
                    let (bound, plan) = (request.sensitivity().unwrap(), request.plan().unwrap());
                    let squared = bound.squared(&evertally::mechanism::Input::new(STEPS).unwrap());
                    assert_eq!(plan.request().workload(), Workload::Increments);
                    let replaced = if neighbours == Neighbours::ReplaceOne { &own[..] } else { &own[..1] };
                    for (other, own, old) in others.iter().flat_map(|other| {
                        own.iter().flat_map(move |own| replaced.iter().map(move |old| (other, own, old)))
                    }) {
                        let with = |own: &Vec<Kept>| present(&[other.clone(), own.clone()].concat(), window);
                        let change = difference(&with(own), &with(old));
                        let steps = change.iter().flatten().map(|by| by * by).sum::<i64>();
                        assert!(
                            steps as u128 <= bound.l1 && steps as f64 <= squared,
                            "{other:?} {own:?} {old:?}: {steps}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn people_count_once_in_a_period() {
    let mut counted = CountedMembers::default();
    let member = |person: u8, group| ([person; 16], group);
    assert!(
        counted.is_first(member(1, 0), 1) && counted.is_first(member(1, 1), 1) && counted.is_first(member(2, 0), 1)
    );
    assert!(!counted.is_first(member(1, 0), 1));
    assert_eq!(CountedMembers::restore(counted.save()), counted);
    assert!(counted.is_first(member(1, 0), 8));
    assert_eq!(counted.save().1.len(), 1, "a new period forgets");
    assert!(Activity::restore(2, 5, vec![(member(1, 0), 6)]).is_none(), "of a step to come");
    assert!(Activity::restore(2, 5, vec![(member(1, 0), 3)]).is_none(), "not active any more");
    assert!(unit(Unit::Event, Neighbours::AddRemove, 3, 10, false).is_err());
}
