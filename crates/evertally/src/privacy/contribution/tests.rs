//! Bounding by brute force: every short history under every combination of bounds.

use super::*;

/// An event: person, step, group and value.
type Event = (usize, u64, u64, i64);

/// The kept values, by recounting for each event the kept events of its person in its period.
fn by_counting(history: &[Event], unit: Unit) -> Vec<Option<i64>> {
    let bounds = unit.bounds().unwrap();
    let period = |step: u64| bounds.period.map_or(0, |steps| (step - 1) / steps);
    let mut kept: Vec<Option<i64>> = Vec::new();
    for (place, &(person, step, group, value)) in history.iter().enumerate() {
        let all = history[..place].iter().zip(&kept);
        let before: Vec<_> = all
            .filter(|((other, at, ..), kept)| kept.is_some() && *other == person && period(*at) == period(step))
            .collect();
        let count = |which: &dyn Fn(&Event) -> bool| before.iter().filter(|(event, _)| which(event)).count() as u64;
        let below = |bound: Option<u64>, count: u64| bound.is_none_or(|bound| count < bound);
        let mut groups: Vec<u64> = before.iter().map(|(event, _)| event.2).chain([group]).collect();
        groups.sort_unstable();
        groups.dedup();
        let spent: u64 = before.iter().map(|(_, kept)| kept.unwrap().unsigned_abs()).sum();
        let left = bounds.max_total.map_or(u64::MAX, |cap| cap - spent);
        let fits = count(&|_| true) < bounds.max_events
            && below(bounds.max_events_per_step, count(&|event| event.1 == step))
            && below(bounds.max_events_per_group, count(&|event| event.2 == group))
            && bounds.max_groups.is_none_or(|most| groups.len() as u64 <= most)
            && before.iter().all(|(event, _)| event.1 == step || step - event.1 >= bounds.min_gap.unwrap_or(1))
            && left > 0;
        let part = |value: i64| value.signum() * value.unsigned_abs().min(left) as i64;
        kept.push(fits.then(|| part(value)));
    }
    kept
}

fn by_contributions(history: &[Event], unit: Unit) -> Vec<Option<i64>> {
    let mut contributions = Contributions::new(unit).unwrap();
    let persons = [contributions.add_person(), contributions.add_person()];
    assert_eq!(contributions.person_count(), 2);
    let offer = |&(_, step, group, value): &Event| Offer::in_step(step).in_group(group).with_value(value);
    history.iter().map(|event| contributions.keep(persons[event.0], offer(event))).collect()
}

/// All histories with these numbers of events, persons, groups and steps, in order of time.
fn histories(events: usize, persons: usize, groups: u64, steps: u64) -> Vec<Vec<Event>> {
    let mut all: Vec<Vec<Event>> = vec![vec![]];
    for place in 0..events {
        let value = [2, -1, 3, 1, -2, 2][place];
        let longer = |history: Vec<Event>| {
            let from = history.last().map_or(1, |(_, step, ..)| *step);
            let of_step = move |step| (0..groups).flat_map(move |group| (0..persons).map(move |p| (p, step, group)));
            (from..=steps).flat_map(of_step).map(move |(person, step, group)| {
                let mut longer = history.clone();
                longer.push((person, step, group, value));
                longer
            })
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// Every combination of bounds, each left open or tight.
fn units() -> Vec<Unit> {
    let mut all: Vec<PersonBounds> =
        (1..=4).map(|max_events| PersonBounds { max_events, ..PersonBounds::default() }).collect();
    let mut with = |values: &[u64], set: fn(&mut PersonBounds, u64)| {
        let more = |bounds: &PersonBounds| {
            let bounds = *bounds;
            values.iter().map(move |value| {
                let mut changed = bounds;
                set(&mut changed, *value);
                changed
            })
        };
        let tighter: Vec<_> = all.iter().flat_map(more).collect();
        all.extend(tighter);
    };
    with(&[1, 2], |bounds, value| bounds.max_events_per_step = Some(value));
    with(&[1, 2], |bounds, value| bounds.max_events_per_group = Some(value));
    with(&[1], |bounds, value| bounds.max_groups = Some(value));
    with(&[2, 3], |bounds, value| bounds.min_gap = Some(value));
    with(&[4], |bounds, value| bounds.max_total = Some(value));
    with(&[2, 3], |bounds, value| bounds.period = Some(value));
    all.into_iter().map(Unit::Person).collect()
}

#[test]
fn as_counting_by_hand() {
    let histories: Vec<_> = (0..=5).flat_map(|events| histories(events, 1, 2, 4)).collect();
    for unit in units() {
        for history in &histories {
            assert_eq!(by_contributions(history, unit), by_counting(history, unit), "{history:?} {unit:?}");
        }
    }
}

/// The basis of the guarantee: a person's events do not affect those of another, a period's do not affect those of
/// another, and the kept events fit the bounds that plans are calibrated for.
#[test]
fn persons_and_periods_do_not_touch_each_other() {
    let base = Unit::person(3).per_step(2);
    let units = [base, base.per_group(1).per_period(2), base.in_groups(1), base.apart(2), base.with_max_total(4)];
    for unit in units {
        let spread = unit.spread().unwrap();
        let period = |step: u64| unit.bounds().unwrap().period.map_or(0, |steps| (step - 1) / steps);
        for history in histories(5, 2, 2, 3) {
            let kept = by_contributions(&history, unit);
            for (person, of) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let is_alone = |event: &Event| event.0 == person && period(event.1) == of;
                let alone: Vec<Event> = history.iter().copied().filter(is_alone).collect();
                let together = history.iter().zip(&kept).filter(|(event, _)| is_alone(event)).map(|(_, kept)| *kept);
                let together: Vec<_> = together.collect();
                assert_eq!(by_contributions(&alone, unit), together, "{history:?}");
                let steps: Vec<u64> =
                    alone.iter().zip(&together).filter(|(_, kept)| kept.is_some()).map(|(event, _)| event.1).collect();
                assert!(steps.len() as u64 <= spread.total);
                assert!((1..=3).all(|s| steps.iter().filter(|t| **t == s).count() as u64 <= spread.per_step));
                assert!(steps.windows(2).all(|pair| pair[0] == pair[1] || pair[1] - pair[0] >= spread.separation));
            }
        }
    }
}

/// Each single event is a unit, and a bound of 0 keeps nothing.
#[test]
fn bounds_of_nothing_are_refused() {
    for unit in [Unit::person(0), Unit::person(2).per_step(0), Unit::person(2).per_group(0), Unit::person(2).apart(0)] {
        assert!(Contributions::new(unit).is_err(), "{unit:?}");
    }
    let mut events = Contributions::new(Unit::Event).unwrap();
    let (one, other) = (events.add_person(), events.add_person());
    assert!([one, other].iter().all(|event| events.keep(*event, Offer::in_step(1)) == Some(1)));
}

/// Values at both ends of 64 bits count by their absolute value.
#[test]
fn the_largest_values_are_capped() {
    let size = 1u64 << 63;
    for (cap, kept) in [(u64::MAX, [Some(i64::MIN), Some(i64::MAX), None]), (size, [Some(i64::MIN), None, None])] {
        let mut contributions = Contributions::new(Unit::person(9).with_max_total(cap)).unwrap();
        let person = contributions.add_person();
        let keep = |value| contributions.keep(person, Offer::in_step(1).with_value(value));
        assert_eq!([i64::MIN, i64::MAX, 7].map(keep), kept);
    }
}

/// The rest of a total is kept if it is a value of the stream.
#[test]
fn no_part_is_outside_the_bounds_of_values() {
    for (lower, upper, values, kept) in [
        (0, 4, [4, 4, 1], [Some(4), Some(3), None]),
        (2, 4, [4, 2, 2], [Some(4), Some(2), None]),
        (3, 4, [4, 4, 4], [Some(4), Some(3), None]),
        (4, 4, [4, 4, 4], [Some(4), None, None]),
        (-4, -2, [-3, -3, -2], [Some(-3), Some(-3), None]),
        (-4, 4, [-4, 4, 1], [Some(-4), Some(3), None]),
        (-4, 0, [-4, 0, -4], [Some(-4), Some(0), Some(-3)]),
    ] {
        let contributions = Contributions::new(Unit::person(9).with_max_total(7)).unwrap();
        let mut contributions = contributions.with_values(Values::Sum { lower, upper });
        let person = contributions.add_person();
        let keep = |value| contributions.keep(person, Offer::in_step(1).with_value(value));
        assert_eq!(values.map(keep), kept, "{lower} {upper}");
    }
}

#[test]
#[should_panic(expected = "steps never go back")]
fn steps_never_go_back() {
    let mut contributions = Contributions::new(Unit::person(2)).unwrap();
    let person = contributions.add_person();
    contributions.keep(person, Offer::in_step(2));
    contributions.keep(person, Offer::in_step(1));
}

/// The record of an earlier run continues as if there had been no break, wherever the break is.
#[test]
fn what_was_kept_is_restored() {
    let histories: Vec<_> = (1..=4).flat_map(|events| histories(events, 1, 2, 3)).collect();
    for unit in units() {
        let bound = ContributionBound::new(unit).unwrap();
        for history in &histories {
            let (mut whole, mut broken) = Default::default();
            let (mut details, mut broken_details) = (Details::default(), Details::default());
            for &(_, step, group, value) in history {
                let since = unit.bounds().unwrap().period.map_or(1, |steps| step - (step - 1) % steps);
                let offer = Offer { step, since, group, value };
                let kept = bound.keep(&mut broken, &mut broken_details, offer);
                assert_eq!(kept, bound.keep(&mut whole, &mut details, offer));
                broken = bound.restore(broken.step(), broken.total(), broken.in_step()).unwrap();
                let groups = broken_details.groups().to_vec();
                broken_details = bound.restore_details(broken, broken_details.spent(), groups).unwrap();
                assert_eq!((broken, &broken_details), (whole, &details));
            }
        }
    }
}

/// Records that no history leads to are refused.
#[test]
fn what_nobody_can_have_is_refused() {
    for (total, per_step) in [(1u32, 1u32), (2, 1), (3, 2), (4, 9)] {
        let bound = ContributionBound::new(Unit::person(total.into()).per_step(per_step.into())).unwrap();
        for (step, kept, in_step) in [(0, 1, 1), (1, 0, 0), (1, total + 1, 1), (1, total, per_step.min(total) + 1)] {
            assert!(bound.restore(step, kept, in_step).is_err(), "{step} {kept} {in_step}");
        }
        assert!((1..=total).all(|kept| bound.restore(3, kept, 0).is_err()));
    }
    let bound = ContributionBound::new(Unit::person(4).per_group(2).in_groups(2).with_max_total(9)).unwrap();
    let kept = bound.restore(3, 3, 1).unwrap();
    let restored = |spent, groups: &[(u64, u32)]| bound.restore_details(kept, spent, groups.to_vec());
    assert!(restored(9, &[(0, 1), (7, 2)]).is_ok());
    for (spent, groups) in [
        (10, &[(0, 1), (7, 2)][..]),
        (1, &[(7, 2), (0, 1)]),
        (1, &[(0, 3)]),
        (1, &[(0, 1), (0, 2)]),
        (1, &[(0, 1), (7, 1)]),
        (1, &[(0, 0), (1, 1), (7, 2)]),
        (1, &[(0, 1), (1, 1), (7, 1)]),
    ] {
        assert!(restored(spent, groups).is_err(), "{spent} {groups:?}");
    }
    assert!(bound.restore_details(bound.restore(3, 4, 1).unwrap(), 1, vec![(0, 1), (7, 3)]).is_err());
    let simple = ContributionBound::new(Unit::person(4)).unwrap();
    assert!(simple.restore_details(kept, 1, vec![]).is_err() && simple.restore_details(kept, 0, vec![(0, 3)]).is_err());
}

/// Bounds beyond 32 bits keep as many events as 32 bits can count, and no more.
#[test]
fn wide_bounds_are_narrowed() {
    let bound = ContributionBound::new(Unit::person(1 << 40)).unwrap();
    let mut kept = bound.restore(7, u32::MAX - 1, 5).unwrap();
    let mut details = Details::default();
    let keeps = [8, 8, 9].map(|step| bound.keep(&mut kept, &mut details, Offer::in_step(step)));
    assert_eq!(keeps, [Some(1), None, None]);
    assert_eq!(kept.total(), u32::MAX);
}

/// A calendar's first period may be short: the bounds start again where the offer states that a period begins, and
/// nowhere else.
#[test]
fn named_periods_begin_where_the_calendar_says() {
    let mut contributions = Contributions::new(Unit::person(2).per_period(7)).unwrap();
    let ada = contributions.add_person();
    // Friday to Sunday are steps 1 to 3, and the following week is 4 to 10.
    let mut keep =
        |step: u64, since: u64| contributions.keep(ada, Offer::in_step(step).with_period_start(since)).is_some();
    assert_eq!([keep(1, 1), keep(3, 1), keep(3, 1)], [true, true, false]);
    assert_eq!([keep(4, 4), keep(7, 4), keep(8, 4), keep(10, 4)], [true, true, false, false]);
    assert_eq!([keep(11, 11), keep(12, 11), keep(15, 11)], [true, true, false]);
}

/// Which bounds can be thinned part by part, and which need details; bounds without effect change neither.
#[test]
fn bounds_say_what_they_need() {
    let base = Unit::person(5);
    for (unit, hereditary, details, alike) in [
        (base.per_step(3), true, false, 3),
        (base.per_step(9).apart(1), true, false, 5),
        (base.in_groups(5).per_group(5), true, false, 5),
        (base.per_group(2), false, true, 2),
        (base.in_groups(1), false, true, 5),
        (base.with_max_total(9), false, true, 5),
        (base.apart(2), false, false, 5),
    ] {
        let bound = ContributionBound::new(unit).unwrap();
        let found = (bound.is_hereditary(), bound.needs_details(), bound.most_alike());
        assert_eq!(found, (hereditary, details, alike), "{unit:?}");
    }
}

/// The allowance is the number of further events that a step admits, and the bound on the total cuts off the end of the
/// events that the others admit.
#[test]
fn allowances_are_what_a_step_admits() {
    let histories: Vec<_> = (0..=4).flat_map(|events| histories(events, 1, 3, 2)).collect();
    for unit in units() {
        let bound = ContributionBound::new(unit).unwrap();
        for history in &histories {
            let (mut kept, mut details) = (Kept::default(), Details::default());
            let since = |step: u64| unit.bounds().unwrap().period.map_or(1, |steps| step - (step - 1) % steps);
            for &(_, step, group, value) in history {
                bound.keep(&mut kept, &mut details, Offer { step, since: since(step), group, value });
            }
            for step in kept.step().max(1)..5 {
                let allowance = bound.allowance(&kept, step, since(step));
                // A new group for each event is admitted unless groups are bounded; value 0 spends nothing.
                let offers = (0..9).map(|group| Offer { step, since: since(step), group: 100 + group, value: 0 });
                let (mut next, mut next_details) = (kept, details.clone());
                let admitted = offers.filter(|offer| bound.keep(&mut next, &mut next_details, *offer).is_some());
                let admitted = admitted.count() as u32;
                assert!(admitted <= allowance, "{unit:?} {history:?} {step}");
                assert!(admitted == allowance || bound.needs_details(), "{unit:?} {history:?} {step}");
            }
            let free = bound.without_total();
            let (mut whole, mut loose) = ((Kept::default(), Details::default()), (Kept::default(), Details::default()));
            let keeps = |bound: ContributionBound, record: &mut (Kept, Details), (_, _, group, value)| {
                let offer = Offer { step: 1, since: 1, group, value };
                bound.keep(&mut record.0, &mut record.1, offer).is_some()
            };
            let kept: Vec<bool> = history.iter().map(|event| keeps(bound, &mut whole, *event)).collect();
            let admitted: Vec<bool> = history.iter().map(|event| keeps(free, &mut loose, *event)).collect();
            let among: Vec<bool> = (0..kept.len()).filter(|place| admitted[*place]).map(|place| kept[place]).collect();
            assert!(kept.iter().zip(&admitted).all(|(kept, admitted)| !kept || *admitted));
            assert!(among.is_sorted_by(|a, b| a >= b), "{unit:?} {history:?}");
        }
    }
}
