//! Runs that continue one another, compared with one run over everything.

use super::*;
use crate::session::tests::{
    Row, STEPS, a_row, a_unit, by_hand, by_hand_of, groups, key, push, session, stream, stream_of,
};
use evertally::number::Grid;
use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Epsilon, Unit, Values};
use evertally_declare::event::WholeRow;
use evertally_declare::policy::SortLimit;
use evertally_declare::publication::Publication;
use evertally_declare::records::Records;
use evertally_declare::steps::Period;
use evertally_declare::stream::Late;
use evertally_ledger::ledger::MemoryStore;
use proptest::prelude::*;

/// The rows and exact sums of all due steps.
fn take(session: &mut Session<RunningSums>, rows: &mut Vec<String>, sums: &mut Vec<Vec<i64>>) -> Result<()> {
    while let Some(mut step) = session.next_step()? {
        sums.push(step.unsafe_exact_sums().to_vec());
        step.for_each_row(|_, row| {
            rows.push(format!("{row:?}"));
            Ok::<(), evertally_declare::error::PipelineError>(())
        })?;
    }
    Ok(())
}

/// Continued streams, in a store.
struct Runs {
    store: MemoryStore,
    rows: Vec<String>,
    sums: Vec<Vec<i64>>,
    late: Vec<WholeRow>,
}

impl Runs {
    fn new() -> Self {
        let store = MemoryStore::default();
        Ledger::create(store.clone(), &key()).unwrap();
        Self { store, rows: Vec::new(), sums: Vec::new(), late: Vec::new() }
    }

    /// One run over new rows, through a step, with these groups.
    fn run(&mut self, stream: &Stream, groups: GroupTable, through: u64, new: &[Row]) -> Result<()> {
        let mut ledger = Ledger::open(self.store.clone(), &key())?;
        let joined = ledger.joined(&stream.name).iter().map(|joined| joined.groups.len()).sum::<usize>();
        let leg = Leg { last_step: through, stream: stream.clone(), groups: Some(groups.clone()) };
        let mut session = match ledger.state(&stream.name)? {
            Some(state) => Session::resume(leg, &key(), &ledger, &state)?,
            None => session(stream, through, &ledger, &key()).that_goes_on(),
        };
        let before = session.step();
        let (mut rows, mut sums) = (Vec::new(), Vec::new());
        for (number, row) in new.iter().enumerate() {
            push(&mut session, number as u64, row)?;
            take(&mut session, &mut rows, &mut sums)?;
        }
        session.close_through(through)?;
        take(&mut session, &mut rows, &mut sums)?;
        self.late.extend(session.drain_late());
        let leaving = RunRecord { joined: groups.joining(2 + joined, before), ..RunRecord::default() };
        session.record_continued(&mut ledger, leaving)?;
        self.rows.extend(rows);
        self.sums.extend(sums);
        Ok(())
    }
}

/// One run over everything, unaware of the others.
fn whole(stream: &Stream, rows: &[Row], through: u64) -> (Vec<String>, Vec<Vec<i64>>) {
    let ledger = Ledger::in_memory(&key());
    let mut session = session(stream, through, &ledger, &key());
    let (mut out, mut sums) = (Vec::new(), Vec::new());
    for (number, row) in rows.iter().enumerate() {
        push(&mut session, number as u64, row).unwrap();
        take(&mut session, &mut out, &mut sums).unwrap();
    }
    session.close_through(through).unwrap();
    take(&mut session, &mut out, &mut sums).unwrap();
    (out, sums)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// However the input is divided into runs, and whatever a file holds of steps that are still open, the rows are
    /// those of one run, persons are bounded over all runs, and the digests are the same.
    #[test]
    fn many_runs_give_what_one_gives(
        mut rows in prop::collection::vec(a_row(), 0..60),
        cuts in prop::collection::vec((1..=STEPS, 0..=3u64), 0..6),
        sort_buffer in prop_oneof![Just(SortLimit::Events(0)), Just(SortLimit::Events(100)), Just(SortLimit::All)],
        unit in a_unit(),
    ) {
        let mut stream = stream_of(unit, 0);
        stream.sort_buffer = sort_buffer;
        rows.sort_by_key(|row| row.step);
        let mut throughs: Vec<(u64, u64)> = cuts;
        throughs.sort_unstable();
        let mut runs = Runs::new();
        let mut from = 0;
        for (through, more) in throughs {
            // A file that reaches into the steps after the closed ones.
            let to = rows.partition_point(|row| row.step <= through + more).max(from);
            runs.run(&stream, groups(), through, &rows[from..to]).unwrap();
            prop_assert_eq!(runs.sums.len() as u64, through);
            from = to;
        }
        runs.run(&stream, groups(), STEPS, &rows[from..]).unwrap();
        let (out, sums) = whole(&stream, &rows, STEPS);
        prop_assert_eq!(&sums, &by_hand_of(unit, &rows, STEPS));
        prop_assert_eq!(&runs.sums, &sums);
        prop_assert_eq!(&runs.rows, &out);
        // One run over everything is compared with the records of the separate runs.
        let ledger = Ledger::open(runs.store.clone(), &key()).unwrap();
        let mut again = session(&stream, STEPS, &ledger, &key());
        for (number, row) in rows.iter().enumerate() {
            push(&mut again, number as u64, row).unwrap();
            while again.next_step().unwrap().is_some() {}
        }
        again.close_through(STEPS).unwrap();
        while again.next_step().unwrap().is_some() {}
    }
}

fn row(step: u64, group: usize, person: usize) -> Row {
    Row { step, quarter: 0, group, person, value: 1 }
}

/// The sums of a slot that has several steps are known only together; the ledger binds each step to its own.
#[test]
fn runs_may_end_between_publications() {
    let mut stream = stream(0);
    let published = Publication::new(&stream.calendar, Period::Steps(3)).unwrap();
    let unit = published.slots().unit(Unit::person(3).per_step(2), 3, None);
    let request = PlanRequest::count(published.slot_count(), Budget::Pure(Epsilon::new(1.0).unwrap()));
    let values = Values::Sum { lower: -5, upper: 5 };
    stream.plan = request.with_unit(unit).with_values(values).with_grid(Grid::ONE).plan().unwrap();
    stream.published = Some(published.into());
    let rows = [(1, 0, 0), (2, 0, 1), (2, 1, 2), (3, 0, 1), (5, 1, 0), (6, 1, 1), (6, 0, 2), (11, 0, 0), (12, 1, 2)];
    let rows = rows.map(|(step, group, person)| row(step, group, person));
    let mut runs = Runs::new();
    let mut from = 0;
    for through in [1, 2, 5, 8, 9, STEPS] {
        let to = rows.partition_point(|row| row.step <= through);
        runs.run(&stream, groups(), through, &rows[from..to]).unwrap();
        from = to;
    }
    let (out, sums) = whole(&stream, &rows, STEPS);
    assert_eq!(sums, by_hand(&rows, STEPS));
    assert_eq!(runs.sums, sums);
    assert_eq!(runs.rows, out);
    assert_eq!(out.len(), 8, "four publications of two groups");
}

#[test]
fn late_events_follow_the_declared_policy_which_may_change() {
    let mut runs = Runs::new();
    let mut stream = stream(0);
    runs.run(&stream, groups(), 3, &[row(1, 0, 0), row(3, 0, 1)]).unwrap();
    let refused = runs.run(&stream, groups(), 4, &[row(2, 1, 2)]).unwrap_err().to_string();
    assert!(refused.contains("an earlier run has closed") && refused.contains("--late next-step"), "{refused}");
    stream.late = Late::SideFile;
    runs.run(&stream, groups(), 4, &[row(2, 1, 2), row(4, 1, 0)]).unwrap();
    assert_eq!(runs.late.len(), 1);
    let texts: Vec<&str> = runs.late[0].cells.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(texts[1..], ["b", "r", "1"]);
    stream.late = Late::NextStep;
    // Person p has had two events; the late one and one in its own step fall into the first open step, and one is kept.
    runs.run(&stream, groups(), 6, &[row(2, 1, 0), row(5, 1, 0), row(6, 0, 0), row(6, 0, 1)]).unwrap();
    let sums = [[1, 0], [0, 0], [1, 0], [0, 1], [0, 1], [1, 0]];
    assert_eq!(runs.sums, sums.map(|sums| sums.to_vec()));
    // If events of this run have closed that step, no other step accepts them.
    let order = runs.run(&stream, groups(), 9, &[row(9, 0, 2), row(2, 0, 2)]).unwrap_err().to_string();
    assert!(order.contains("a later event has closed"), "{order}");
    assert_eq!(Ledger::open(runs.store.clone(), &key()).unwrap().runs_of(&stream.name).len(), 3);
}

#[test]
fn groups_join_at_any_run_and_go_on() {
    let more = |names: &[&str], rest: Option<&str>| {
        let names = names.iter().map(ToString::to_string).collect();
        let table =
            GroupTable::from_names(vec!["group".into()], names, rest.map(str::to_owned), Default::default()).unwrap();
        let began = groups().meaning();
        let joined: &[Joined] = &[];
        table.as_recorded(&began, false, joined).unwrap().table
    };
    let stream = stream(0);
    let (mut runs, mut plain) = (Runs::new(), Runs::new());
    for (through, table) in [(2, groups()), (5, more(&["a", "b", "c"], None)), (STEPS, more(&["a", "b", "c"], None))] {
        runs.run(&stream, table, through, &[row(through, 0, 0)]).unwrap();
        plain.run(&stream, groups(), through, &[row(through, 0, 0)]).unwrap();
    }
    // Two rows per step, then three; the rows of the other groups are unchanged.
    let of = |rows: &[String], group: &str| -> Vec<String> {
        rows.iter().filter(|row| row.contains(&format!("groups: [\"{group}\"]"))).cloned().collect()
    };
    assert_eq!(of(&runs.rows, "c").len() as u64, STEPS - 2);
    for group in ["a", "b"] {
        assert_eq!(of(&runs.rows, group), of(&plain.rows, group));
    }
    // A stream that has three groups cannot continue with two.
    assert!(runs.run(&stream, groups(), STEPS, &[]).is_err());
}

#[test]
fn foreign_older_and_damaged_states_are_refused() {
    let stream = stream(0);
    let mut runs = Runs::new();
    runs.run(&stream, groups(), 3, &[row(1, 0, 0)]).unwrap();
    let old = Ledger::open(runs.store.clone(), &key()).unwrap().state(&stream.name).unwrap().unwrap();
    runs.run(&stream, groups(), 5, &[row(4, 0, 0)]).unwrap();
    let mut ledger = Ledger::open(runs.store.clone(), &key()).unwrap();
    let state = ledger.state(&stream.name).unwrap().unwrap();
    let leg = || Leg { last_step: 6, stream: stream.clone(), groups: Some(groups()) };
    let refused = |leg: Leg, state: &[u8]| Session::resume(leg, &key(), &ledger, state).err().unwrap().to_string();
    assert!(refused(leg(), &old).contains("at step 3, but step 5 was the last one published"));
    for cut in [0, 1, state.len() / 2, state.len() - 1] {
        refused(leg(), &state[..cut]);
    }
    refused(leg(), &[&state[..], &[0]].concat());
    refused(Leg { groups: None, ..leg() }, &state);
    Session::resume(leg(), &key(), &ledger, &state).unwrap();
}
