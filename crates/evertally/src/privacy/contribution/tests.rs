//! Bounding by brute force: every short history of two persons.

use super::*;

/// A history: who, and in which step.
type History = Vec<(usize, u64)>;

/// Which events are kept, by counting afresh for each.
fn by_counting(history: &[(usize, u64)], total: u64, per_step: u64) -> Vec<bool> {
    let mut kept: Vec<bool> = Vec::new();
    for (place, (person, step)) in history.iter().enumerate() {
        let before = history[..place].iter().zip(&kept).filter(|((other, _), kept)| **kept && other == person);
        let in_all = before.clone().count() as u64;
        let in_step = before.filter(|((_, other), _)| other == step).count() as u64;
        kept.push(in_all < total && in_step < per_step);
    }
    kept
}

fn by_contributions(history: &[(usize, u64)], unit: Unit) -> Vec<bool> {
    let mut contributions = Contributions::new(unit).unwrap();
    let persons = [contributions.add_person(), contributions.add_person()];
    assert_eq!(contributions.person_count(), 2);
    history.iter().map(|(person, step)| contributions.keep(persons[*person], *step)).collect()
}

/// All histories of so many events of two persons over three steps, in order of time.
fn histories(events: usize) -> Vec<History> {
    let mut all: Vec<History> = vec![vec![]];
    for _ in 0..events {
        let longer = |history: History| {
            let from = history.last().map_or(1, |(_, step)| *step);
            (from..=3).flat_map(|step| [0, 1].map(|person| (person, step))).map(move |event| {
                let mut longer = history.clone();
                longer.push(event);
                longer
            })
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

#[test]
fn as_counting_by_hand() {
    for (total, per_step) in [(1, None), (2, None), (2, Some(1)), (3, Some(2)), (5, Some(1)), (2, Some(9))] {
        let unit = per_step.map_or(Unit::person(total), |most| Unit::person(total).per_step(most));
        for history in (0..=6).flat_map(histories) {
            let kept = by_contributions(&history, unit);
            assert_eq!(kept, by_counting(&history, total, per_step.unwrap_or(total)), "{history:?} {unit:?}");
        }
    }
}

/// What the guarantee rests on: one person's events decide nothing about those of another, and what is kept fits the
/// bounds.
#[test]
fn persons_do_not_touch_each_other() {
    let unit = Unit::person(3).per_step(2);
    for history in histories(6) {
        let kept = by_contributions(&history, unit);
        for person in [0, 1] {
            let alone: History = history.iter().copied().filter(|(other, _)| *other == person).collect();
            let of_both: Vec<bool> =
                history.iter().zip(&kept).filter(|((other, _), _)| *other == person).map(|(_, kept)| *kept).collect();
            assert_eq!(by_contributions(&alone, unit), of_both, "{history:?}");
            let steps = alone.iter().zip(&of_both).filter(|(_, kept)| **kept).map(|((_, step), _)| *step);
            assert!(steps.clone().count() <= 3);
            assert!((1..=3).all(|step| steps.clone().filter(|other| *other == step).count() <= 2));
        }
    }
}

/// Single events are each a unit, and a bound of 0 keeps nothing.
#[test]
fn bounds_of_nothing_are_refused() {
    assert!(Contributions::new(Unit::person(0)).is_err());
    assert!(Contributions::new(Unit::person(2).per_step(0)).is_err());
    let mut events = Contributions::new(Unit::Event).unwrap();
    let (one, other) = (events.add_person(), events.add_person());
    assert!(events.keep(one, 1) && events.keep(other, 1));
}

#[test]
#[should_panic(expected = "steps never go back")]
fn steps_never_go_back() {
    let mut contributions = Contributions::new(Unit::person(2)).unwrap();
    let person = contributions.add_person();
    contributions.keep(person, 2);
    contributions.keep(person, 1);
}

/// What an earlier run left goes on as if there had been no break, wherever the break is.
#[test]
fn what_was_kept_is_restored() {
    for (total, per_step) in [(1, 1), (2, 1), (3, 2), (4, 9)] {
        let bound = ContributionBound::new(Unit::person(total).per_step(per_step)).unwrap();
        for history in (1..=5).flat_map(histories) {
            let steps: Vec<u64> = history.iter().filter(|(person, _)| *person == 0).map(|(_, step)| *step).collect();
            let (mut whole, mut broken) = (Kept::default(), Kept::default());
            for step in steps {
                assert_eq!(bound.keep(&mut broken, step), bound.keep(&mut whole, step));
                broken = bound.restore(broken.step(), broken.total(), broken.in_step()).unwrap();
                assert_eq!(broken, whole);
            }
        }
        let (total, per_step) = (total as u32, per_step as u32);
        for (step, kept, in_step) in [(0, 1, 1), (1, 0, 0), (1, total + 1, 1), (1, total, per_step.min(total) + 1)] {
            assert!(bound.restore(step, kept, in_step).is_err(), "{step} {kept} {in_step}");
        }
        assert!(total == 1 || bound.restore(3, total - 1, 0).is_err());
    }
}

/// Bounds beyond 32 bits keep as many as 32 bits can count, and no more.
#[test]
fn wide_bounds_are_narrowed() {
    let bound = ContributionBound::new(Unit::person(1 << 40)).unwrap();
    let mut kept = bound.restore(7, u32::MAX - 1, 5).unwrap();
    assert_eq!([8, 8, 9].map(|step| bound.keep(&mut kept, step)), [true, false, false]);
    assert_eq!(kept.total(), u32::MAX);
}
