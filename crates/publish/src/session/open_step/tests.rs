//! The kept events of a step as a function of the set of its events, and what one person changes.

use crate::session::tests::{Row, STEPS, a_row, a_unit, by_hand_of, key, push, session, stream_of};
use crate::session::{RunningSums, Session};
use evertally::privacy::{Unit, Values};
use evertally_ledger::ledger::Ledger;
use proptest::prelude::*;

/// The exact sums of all steps, and the digest of the history.
fn sums_of(unit: Unit, rows: &[Row]) -> (Vec<Vec<i64>>, [u8; 32]) {
    let (stream, key) = (stream_of(unit, 0), key());
    let ledger = Ledger::in_memory(&key);
    let mut session = session(&stream, STEPS, &ledger, &key);
    let mut sums = Vec::new();
    let mut take = |session: &mut Session<RunningSums>| {
        while let Some(step) = session.next_step().unwrap() {
            sums.push(step.unsafe_exact_sums().to_vec());
        }
    };
    for (number, row) in (1..).zip(rows) {
        push(&mut session, number, row).unwrap();
        take(&mut session);
    }
    session.close_through(STEPS).unwrap();
    take(&mut session);
    let chain = session.complete_digest().unwrap().chain();
    (sums, chain)
}

/// Rows in few steps, so that bounds matter.
fn crowded_rows() -> impl Strategy<Value = Vec<Row>> {
    let rows = prop::collection::vec((a_row(), 1..=3u64), 0..60);
    rows.prop_map(|rows| rows.into_iter().map(|(row, step)| Row { step: step * 2, ..row }).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Any order of the rows within steps gives the same sums and the same digest, and those of a dense calculation:
    /// all rows sorted, and each person's first ones kept.
    #[test]
    fn order_within_a_step_changes_nothing(
        (rows, shuffled) in crowded_rows().prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
        unit in a_unit(),
    ) {
        let (mut rows, mut shuffled) = (rows, shuffled);
        rows.sort_by_key(|row| row.step);
        shuffled.sort_by_key(|row| row.step);
        let found = sums_of(unit, &rows);
        prop_assert_eq!(&found.0, &by_hand_of(unit, &rows, STEPS));
        prop_assert_eq!(sums_of(unit, &shuffled), found);
    }

    /// One person, added in any place, changes the sums by what the bounds admit: in all, in one step, in one group, in
    /// the number of groups, and in the sum of values.
    #[test]
    fn one_person_changes_what_the_bounds_admit(
        rows in crowded_rows(),
        unit in a_unit(),
    ) {
        let mut rows = rows;
        rows.sort_by_key(|row| row.step);
        let others: Vec<Row> = rows.iter().filter(|row| row.person != 0).cloned().collect();
        let ((with, _), (without, _)) = (sums_of(unit, &rows), sums_of(unit, &others));
        let bounds = unit.bounds().unwrap();
        let difference = |step: usize, group: usize| (with[step][group] - without[step][group]).unsigned_abs();
        let largest = Values::Sum { lower: -5, upper: 5 }.bounds().1.unsigned_abs();
        let period = bounds.period.map_or(STEPS as usize, |steps| steps as usize);
        for steps in (0..STEPS as usize).collect::<Vec<_>>().chunks(period) {
            let of_group = |group: usize| steps.iter().map(|step| difference(*step, group)).sum::<u64>();
            let total = of_group(0) + of_group(1);
            prop_assert!(total <= bounds.max_events * largest);
            prop_assert!(bounds.max_total.is_none_or(|cap| total <= cap));
            for step in steps {
                let most = bounds.max_events_per_step.unwrap_or(bounds.max_events);
                prop_assert!(difference(*step, 0) + difference(*step, 1) <= most * largest);
            }
            let most = bounds.max_events_per_group.unwrap_or(bounds.max_events);
            prop_assert!((0..2).all(|group| of_group(group) <= most * largest));
            let groups = (0..2).filter(|group| of_group(*group) > 0).count() as u64;
            prop_assert!(bounds.max_groups.is_none_or(|most| groups <= most));
        }
    }
}

/// The persons of a step are read ahead in blocks; their number and the ends of blocks change nothing.
#[test]
fn any_number_of_persons_is_counted() {
    let unit = Unit::person(3).per_step(2);
    for persons in [1, 63, 64, 65, 127, 128, 129, 200] {
        let row = |number: usize| Row {
            step: 1 + (number / (2 * persons)) as u64,
            quarter: (number % 4) as i64,
            group: number % 2,
            person: number % persons,
            value: (number % 9) as i64 - 4,
        };
        let rows: Vec<Row> = (0..4 * persons).map(row).collect();
        assert_eq!(sums_of(unit, &rows).0, by_hand_of(unit, &rows, STEPS), "{persons} persons");
    }
}

/// Memory follows the allowances, not the number of events: half a million events of two persons leave few.
#[test]
fn a_step_holds_no_more_than_the_allowances() {
    for (unit, most) in [
        (Unit::person(3).per_step(2), 2 * 2),
        (Unit::person(4).per_group(2), 2 * 4),
        (Unit::person(4).in_groups(1), 2 * 2 * 4),
        (Unit::person(5).with_max_total(7), 2 * 5),
    ] {
        let (stream, key) = (stream_of(unit, 0), key());
        let ledger = Ledger::in_memory(&key);
        let mut session = session(&stream, STEPS, &ledger, &key);
        let (mut placer, mut longest) = (session.placer(), 0);
        for number in 0..5_000u64 {
            let (group, person) = (number as usize % 2, number as usize / 2 % 2);
            let row = Row { step: 1, quarter: (number % 4) as i64, group, person, value: (number % 9) as i64 - 4 };
            let placed = crate::session::tests::place(&mut placer, number, &row).unwrap().unwrap();
            session.arrive(placed).unwrap();
            longest = longest.max(session.open.as_ref().unwrap().events.len());
        }
        assert!(longest <= 4 * most, "{unit:?}: {longest} events in memory");
    }
}
