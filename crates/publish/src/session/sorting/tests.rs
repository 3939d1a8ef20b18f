//! Unsorted input, compared with a calculation by hand.

use super::*;
use crate::session::tests::{STEPS, a_row, by_hand_of, key, push, session, stream_of};
use crate::session::{RunningSums, Session};
use evertally::privacy::Unit;
use evertally_declare::policy::SortLimit;
use evertally_ledger::ledger::Ledger;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Rows in any order give the sums of sorted ones, with a memory for a few of them and the others in a file, also
    /// if some steps are closed while later rows are still to come.
    #[test]
    fn any_order_is_sorted(
        rows in prop::collection::vec(a_row(), 0..60),
        closed in 0..STEPS,
        most in 1..9usize,
        with_persons in any::<bool>(),
    ) {
        let unit = Unit::person(if with_persons { 3 } else { 1000 }).per_step(2);
        let (mut stream, key) = (stream_of(unit, 0), key());
        stream.sort_buffer = SortLimit::All;
        let ledger = Ledger::in_memory(&key);
        let mut session = session(&stream, STEPS, &ledger, &key);
        session.sorted = Some(ExternalSort::new().with_buffer(most));
        let mut sums = Vec::new();
        let mut take = |session: &mut Session<RunningSums>| {
            while let Some(step) = session.next_step().unwrap() {
                sums.push(step.unsafe_exact_sums().to_vec());
            }
        };
        let (first, later): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.step <= closed || row.step % 2 == 0);
        for (number, row) in (1..).zip(first) {
            push(&mut session, number, row).unwrap();
            take(&mut session);
        }
        session.close_through(closed).unwrap();
        take(&mut session);
        for (number, row) in (1..).zip(later) {
            push(&mut session, number, row).unwrap();
            take(&mut session);
        }
        session.close_through(STEPS).unwrap();
        take(&mut session);
        prop_assert_eq!(sums, by_hand_of(unit, &rows, STEPS));
    }
}
