//! Live sessions compared with sessions that read everything.

use super::*;
use crate::session::tests::{STEPS, a_row, a_unit, groups, key, place, push, session, stream_of, thin_often};
use evertally_declare::error::PipelineError;
use proptest::prelude::*;

/// The rows of a closed step.
fn rows_of(mut closed: ClosedStep<'_>, into: &mut Vec<String>) {
    closed.for_each_row(|_, row| Ok::<(), PipelineError>(into.push(format!("{row:?}")))).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// A live session, saved and restored at any point (even in the middle of a step), with events that went through
    /// bytes, in another order within each step, releases the same as one session over everything, and has the same
    /// digest.
    #[test]
    fn a_live_session_is_a_session(
        mut rows in prop::collection::vec(a_row(), 0..60),
        stops in prop::collection::vec(any::<bool>(), 61),
        unit in a_unit(),
    ) {
        let stream = stream_of(unit, 0);
        rows.sort_by_key(|row| row.step);
        let (mut expected, ledger) = (Vec::new(), Ledger::in_memory(&key()));
        let mut whole = session(&stream, STEPS, &ledger, &key());
        for (number, row) in rows.iter().enumerate() {
            push(&mut whole, number as u64, row).unwrap();
            while let Some(closed) = whole.next_step().unwrap() {
                rows_of(closed, &mut expected);
            }
        }
        whole.close_through(STEPS).unwrap();
        while let Some(closed) = whole.next_step().unwrap() {
            rows_of(closed, &mut expected);
        }

        let mut ledger = Ledger::in_memory(&key());
        let mut live = Session::live(stream.clone(), Some(groups()), &key(), &ledger).unwrap();
        live.record_begun(&mut ledger).unwrap();
        rows.chunk_by_mut(|a, b| a.step == b.step).for_each(|of_step| of_step.reverse());
        let mut found = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            while live.open_step() < row.step {
                rows_of(live.close_open().unwrap(), &mut found);
            }
            let placed = place(&mut live.placer(), number as u64, row).unwrap().unwrap();
            let mut bytes = Vec::new();
            placed.write(true, &mut bytes);
            let mut rest = bytes.as_slice();
            let read = Placed::read(placed.step(), true, None, &mut rest).unwrap();
            prop_assert!(rest.is_empty());
            thin_often(&mut live);
            live.take(read).unwrap();
            if stops[number] {
                let state = live.live_state().unwrap().unwrap();
                live = Session::restore_live(stream.clone(), Some(groups()), &key(), &ledger, &state).unwrap();
            }
        }
        while live.open_step() <= STEPS {
            rows_of(live.close_open().unwrap(), &mut found);
        }
        prop_assert_eq!(found, expected);
        prop_assert_eq!(live.chain(), whole.digest.chain());
        prop_assert!(live.close_open().is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Erasing a person in the middle of a step gives the same releases as though the person's events of the step so
    /// far had never been taken. Closed steps and later events of the person stay.
    #[test]
    fn an_erased_person_was_never_in_the_open_step(
        mut rows in prop::collection::vec(a_row(), 0..60),
        erasures in prop::collection::vec(prop::option::weighted(0.1, 0..3usize), 61),
        unit in a_unit(),
    ) {
        let (stream, ledger) = (stream_of(unit, 0), Ledger::in_memory(&key()));
        rows.sort_by_key(|row| row.step);
        let is_erased = |place: usize| {
            let row = &rows[place];
            let later = rows.iter().enumerate().skip(place).take_while(|(_, later)| later.step == row.step);
            later.into_iter().any(|(place, _)| erasures[place] == Some(row.person))
        };
        let mut released = [Vec::new(), Vec::new()];
        for (with_erasures, found) in [true, false].into_iter().zip(&mut released) {
            let mut live = Session::live(stream.clone(), Some(groups()), &key(), &ledger).unwrap();
            for (number, row) in rows.iter().enumerate() {
                while live.open_step() < row.step {
                    rows_of(live.close_open().unwrap(), found);
                }
                if with_erasures || !is_erased(number) {
                    let placed = place(&mut live.placer(), number as u64, row).unwrap().unwrap();
                    thin_often(&mut live);
                    live.take(placed).unwrap();
                }
                if let (true, Some(person)) = (with_erasures, erasures[number]) {
                    prop_assert!(live.erase(["p", "q", "r"][person]).is_some());
                }
            }
            while live.open_step() <= STEPS {
                rows_of(live.close_open().unwrap(), found);
            }
            found.push(format!("{:?}", live.chain()));
        }
        prop_assert_eq!(&released[0], &released[1]);
    }
}

#[test]
fn events_that_nobody_has_written_are_none() {
    for bytes in [&[][..], &[0x80], &[0, 0x80], &[0, 2, 1, 2, 3], &[0; 25], &[0xff; 11]] {
        assert!(Placed::read(1, true, None, &mut &bytes[..]).is_none(), "{bytes:?}");
    }
    for value in [0, 1, -1, i64::MAX, i64::MIN] {
        let label = GroupRef::Place(300);
        let placed = Placed { step: 7, time: 0, value, person: Pseudonym::default(), label, mark: 0 };
        let mut bytes = Vec::new();
        placed.write(false, &mut bytes);
        let read = Placed::read(7, false, None, &mut bytes.as_slice()).unwrap();
        assert_eq!((read.value, read.label, read.step), (value, GroupRef::Place(300), 7));
        let (time, person) = (value / 3, Pseudonym::from_bytes([7; 16]));
        let placed = Placed { step: 7, time, value, person, label: GroupRef::Place(3), mark: 0 };
        bytes.clear();
        placed.write(true, &mut bytes);
        let read = Placed::read(7, true, None, &mut bytes.as_slice()).unwrap();
        assert_eq!((read.time, read.value, read.person), (time, value, person));
    }
}
