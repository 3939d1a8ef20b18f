use super::*;

/// All ways to put at most `events` into at most `keys` keys of at most `per_key` each.
fn best_split(f: &[f64], events: u64, keys: u64) -> f64 {
    if keys == 0 || events == 0 {
        return 0.0;
    }
    let more = (1..=f.len().min(events as usize)).map(|j| f[j - 1] + best_split(f, events - j as u64, keys - 1));
    more.fold(0.0, f64::max)
}

/// The bound is never below the worst split, for functions of any shape, and near it for the convex ones of tails.
#[test]
fn splits_are_bounded() {
    let tail = |j: usize| (0.9 * j as f64).exp();
    let shapes: [Box<dyn Fn(usize) -> f64>; 4] =
        [Box::new(tail), Box::new(|j| (j as f64).sqrt()), Box::new(|j| j.min(2) as f64), Box::new(|_| 1.0)];
    for (number, shape) in shapes.iter().enumerate() {
        for (events, keys, per_key) in [(1, 1, 1), (6, 1, 6), (6, 3, 2), (7, 3, 3), (6, 6, 6), (8, 3, 8), (9, 2, 4)] {
            let f: Vec<f64> = (1..=per_key).map(shape).collect();
            let counts = breakpoints(per_key as u64);
            let costs = std::iter::once(1.0).chain(counts.iter().map(|events| *events as f64 + 1.0));
            let table: Vec<(f64, f64)> = costs.zip(f.clone()).collect();
            let (bound, truth) = (worst_split(&table, events as f64, keys as f64), best_split(&f, events, keys));
            assert!(bound >= truth * (1.0 - 1e-9), "{number} {events} {keys} {per_key}: {bound} {truth}");
            assert!(bound <= truth * 1.5, "{number} {events} {keys} {per_key}: {bound} {truth}");
        }
    }
}

#[test]
fn breakpoints_cover_all_counts() {
    for most in [1, 2, 15, 16, 17, 40, 1000, 123_456] {
        let counts = breakpoints(most);
        assert!(counts.windows(2).all(|pair| pair[0] < pair[1] && pair[1] - pair[0] <= (pair[0] / 16).max(1)));
        assert_eq!((counts[0], *counts.last().unwrap()), (1, most));
    }
    assert!(breakpoints(u64::MAX >> 8).len() < 1000);
}

#[test]
fn times_end_with_the_horizon() {
    for (every, horizon) in [(1, 1), (1, 5), (5, 5), (7, 5), (31, 365), (4, 12)] {
        let times = SelectionTimes::every(every, horizon).unwrap();
        let by_step: Vec<u64> = (0..=horizon + 3).filter(|step| times.contains(*step)).collect();
        assert_eq!(times.iter().collect::<Vec<_>>(), by_step);
        assert_eq!(by_step.last(), Some(&horizon));
    }
    assert!(SelectionTimes::every(0, 5).is_err() && SelectionTimes::every(1, 0).is_err());
    assert!(SelectionTimes::every(1, 1 << 20).is_err());
    assert_eq!(SelectionTimes::twelve(5).unwrap().iter().count(), 5);
}

/// The events of a unit in a key by a step respect all its bounds.
#[test]
fn reach_follows_the_bounds() {
    let of = |unit, values| SelectionReach::of(unit, Neighbours::AddRemove, values, u64::MAX, 100).unwrap();
    let one = of(Unit::Event, Values::Count);
    assert_eq!((one.keys(), one.per_key(), one.moved(1, 1)), (1, 1, 1.0));
    let spread = of(Unit::person(60).per_step(2).apart(7), Values::Count);
    assert_eq!((spread.moved(60, 1), spread.moved(60, 8), spread.moved(5, 100)), (2.0, 4.0, 5.0));
    let groups = of(Unit::person(60).per_group(4).in_groups(3), Values::Count);
    assert_eq!((groups.keys(), groups.per_key(), groups.events), (3, 4, 12));
    let sums = of(Unit::person(9).of_total(50), Values::Sum { lower: -3, upper: 20 });
    assert_eq!((sums.moved(2, 9), sums.moved(9, 9)), (40.0, 50.0));
    assert_eq!(of(Unit::person(3), Values::Sum { lower: -5, upper: -1 }).moved(3, 3), 0.0);
    // A floor counts persons, who may have been active in each period.
    let monthly = of(Unit::person(4).per_period(30), Values::Count);
    assert_eq!(
        (
            monthly.moved(4, 100),
            monthly.moved_by(3, 1, monthly.periods(1)),
            monthly.moved_by(3, 2, monthly.periods(2)),
            monthly.moved_by(3, 29, monthly.periods(29))
        ),
        (4.0, 12.0, 24.0, 36.0)
    );
    // For values, up to a total that also starts again in every period.
    let sums = of(Unit::person(4).of_total(6).per_period(30), Values::Sum { lower: 0, upper: 5 });
    assert_eq!((sums.moved_by(2, 29, 3), sums.moved_by(2, 29, 1)), (36.0, 12.0));
    let sums = of(Unit::person(4).per_period(30), Values::Sum { lower: 0, upper: 5 });
    assert_eq!(sums.moved_by(2, 29, 3), 120.0);
}

/// Windows, and sums from a start anywhere in the calendar, touch the number of periods that their width allows.
#[test]
fn steps_touch_the_periods_of_calendars() {
    const MONTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let months: Vec<usize> = (0..36).flat_map(|number| vec![number; MONTHS[number % 12] as usize]).collect();
    let unit = Unit::person(4).per_period(31);
    let of = |reads| SelectionReach::of(unit, Neighbours::AddRemove, Values::Count, reads, 1000).unwrap();
    for width in [1u64, 2, 7, 28, 29, 30, 31, 59, 62, 90, 365] {
        let touched = months.windows(width as usize).map(|days| 1 + days[days.len() - 1] - days[0]).max().unwrap();
        for (reach, step) in [(of(width), 700), (of(u64::MAX), width)] {
            let bound = reach.periods(step);
            assert!((touched as u64..=touched as u64 + 2).contains(&bound), "{width}: {bound} for {touched}");
            assert_eq!(reach.moved_by(3, step, bound), 12.0 * bound as f64);
        }
    }
}

/// For windows it is the largest number in any stretch of that many steps, by enumeration of every placement of a
/// unit's events.
#[test]
fn windows_hold_what_any_placement_puts_there() {
    const HORIZON: u64 = 9;
    for (events, per_step, apart) in [(4, 1, 1), (5, 2, 1), (4, 2, 3), (6, 3, 4), (3, 3, 1)] {
        let unit = Unit::person(events).per_step(per_step).apart(apart);
        for width in [1, 2, 4, 7] {
            let reach = SelectionReach::of(unit, Neighbours::AddRemove, Values::Count, width, HORIZON).unwrap();
            let mut largest = [0u64; HORIZON as usize + 1];
            let base = per_step + 1;
            for code in 0..base.pow(HORIZON as u32) {
                let counts: Vec<u64> = (0..HORIZON).map(|t| code / base.pow(t as u32) % base).collect();
                let held: Vec<u64> = (0..HORIZON).filter(|t| counts[*t as usize] > 0).collect();
                if counts.iter().sum::<u64>() > events || held.windows(2).any(|pair| pair[1] - pair[0] < apart) {
                    continue;
                }
                for step in 1..=HORIZON {
                    let read = &counts[step.saturating_sub(width) as usize..step as usize];
                    largest[step as usize] = largest[step as usize].max(read.iter().sum());
                }
            }
            for step in 1..=HORIZON {
                let (bound, most) = (reach.events_by(step), largest[step as usize]);
                assert_eq!(bound, most, "{events}/{per_step}/{apart}, the {width} steps to {step}");
                assert_eq!(reach.moved(events, step), most as f64);
            }
        }
    }
}

/// Bounds start again in every period: the minimum gap of a person's steps applies within a period but not across
/// its end, and the first period may end early.
#[test]
fn gaps_end_with_periods() {
    let values = Values::Count;
    let unit = Unit::person(4).per_step(4).apart(20).per_period(31);
    let month = SelectionReach::of(unit, Neighbours::AddRemove, values, 14, 366).unwrap();
    // Four on 31 January, four on 1 February.
    assert_eq!((month.moved(8, 40), month.moved_by(1, 40, month.periods(40))), (4.0, 8.0));
    let sums = SelectionReach::of(unit, Neighbours::AddRemove, values, u64::MAX, 366).unwrap();
    assert_eq!((sums.periods(1), sums.periods(2), sums.periods(31)), (1, 2, 3));
    let whole = SelectionReach::of(Unit::person(4).per_step(4).apart(20), Neighbours::AddRemove, values, u64::MAX, 366)
        .unwrap();
    assert_eq!(whole.moved_by(1, 40, 1), 4.0);
}
