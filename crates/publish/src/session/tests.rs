//! Sessions compared with counts by hand, in whatever order events arrive and steps are taken.

use super::*;
use evertally::noise::{SecretKey, TestSeed};
use evertally::number::Grid;
use evertally::plan::PlanRequest;
use evertally::privacy::contribution::{EventOrder, Pseudonyms};
use evertally::privacy::{Budget, Epsilon, Unit, Values};
use evertally_declare::error::Place;
use evertally_declare::event::{Cells, ColumnLayout, Columns, Field, Position, WholeRow};
use evertally_declare::groups::GroupTable;
use evertally_declare::policy::{Late, OutOfBounds, Outside, Refusable, SortLimit};
use evertally_declare::records::Records;
use evertally_declare::settings::{Closing, Labels, Settings};
use evertally_declare::steps::{Horizon, Instant, Period, Periods, StepCalendar, TimeFormat, Zone};
use evertally_ledger::ledger::MemoryStore;
use proptest::prelude::*;
use std::sync::LazyLock;

pub(super) const STEPS: u64 = 12;
const GROUPS: [&str; 2] = ["a", "b"];

/// A row: its step, the quarter of it, group, person and value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) step: u64,
    pub(super) quarter: i64,
    pub(super) group: usize,
    pub(super) person: usize,
    pub(super) value: i64,
}

pub(super) struct RowCells(pub(super) [Field<'static>; 4]);

impl Cells for RowCells {
    fn cell(&self, slot: usize) -> Field<'_> {
        self.0[slot]
    }

    fn whole(&self) -> WholeRow {
        let cells = columns().in_order().cloned().zip(self.0.iter().map(ToString::to_string)).collect();
        WholeRow { cells, text: String::new() }
    }
}

pub(super) fn columns() -> Columns {
    let named = |name: &str| Some(name.to_owned());
    Columns {
        time: "time".into(),
        time_of_day: None,
        labels: vec!["group".into()],
        person: named("person"),
        value: named("value"),
        filter: Vec::new(),
    }
}

/// One step per hour from 1970 on, each person bounded to three events, two in one step, of values from -5 to 5.
pub(super) fn stream(sort_buffer: usize) -> Stream {
    stream_of(Unit::person(3).per_step(2), sort_buffer)
}

/// The same for persons with other bounds.
pub(super) fn stream_of(unit: Unit, sort_buffer: usize) -> Stream {
    let every = "1h".parse().unwrap();
    let calendar = StepCalendar::new(Instant::from_micros(0), Horizon::Steps(STEPS), every, Zone::utc()).unwrap();
    let values = Values::Sum { lower: -5, upper: 5 };
    let period = unit.bounds().unwrap().period.map(Period::Steps);
    let periods = period.map_or(Periods::default(), |period| Periods::new(&calendar, period).unwrap());
    let budget = Budget::Pure(Epsilon::new(1.0).unwrap());
    let plan =
        PlanRequest::count(STEPS, budget).with_unit(unit).with_values(values).with_grid(Grid::ONE).plan().unwrap();
    let settings = Settings {
        name: "test".parse().unwrap(),
        title: "test".into(),
        columns: columns(),
        ids: Default::default(),
        time_format: TimeFormat::Auto,
        century_from: None,
        date_only: Default::default(),
        calendar,
        published: None,
        kept: unit,
        assertion: None,
        unit_name: None,
        periods,
        last_step: STEPS,
        values,
        out_of_bounds: OutOfBounds::Clamp,
        missing: Refusable::Refuse,
        outside: Outside::Refuse,
        unknown_group: Refusable::Refuse,
        missing_text: Vec::new(),
        numbers: Default::default(),
        filter: None,
        closing: Closing::Through,
        labels: Labels::None,
        request: plan.request().clone(),
        measures: Default::default(),
        late: Late::Refuse,
        sort_buffer: SortLimit::Events(sort_buffer),
        confidence: 0.95,
        band: Default::default(),
        views: Vec::new(),
    };
    settings.planned(plan).unwrap()
}

pub(super) fn groups() -> GroupTable {
    let names = GROUPS.map(str::to_owned).to_vec();
    GroupTable::from_names(vec!["group".into()], names, None, Default::default()).unwrap()
}

/// A session, and the ledger it goes into.
pub(super) fn session(stream: &Stream, last_step: u64, ledger: &Ledger, key: &SecretKey) -> Session<RunningSums> {
    let digest = ledger.stream(key, &stream.name, &stream.plan, last_step).unwrap();
    let sums = RunningSums::new(stream, Some(groups()), &digest.guarded(key).unwrap()).unwrap();
    let mut session = Session::new(stream.clone(), sums, key, digest, last_step).unwrap();
    thin_often(&mut session);
    session
}

/// Thins the events of a step when there are only a few.
pub(super) fn thin_often(session: &mut Session<RunningSums>) {
    session.open.iter_mut().for_each(|open| open.thin_at(3));
}

pub(super) fn key() -> SecretKey {
    SecretKey::insecure_from_test_seed(TestSeed(5))
}

/// Pushes one row.
pub(super) fn push(session: &mut Session<RunningSums>, number: u64, row: &Row) -> Result<()> {
    with_event(number, row, |event| session.push(event))
}

/// A row as a placer reads it.
pub(super) fn place(placer: &mut Placer<GroupAssigner>, number: u64, row: &Row) -> Result<Option<Placed<GroupRef>>> {
    with_event(number, row, |event| placer.place(event))
}

/// The names of persons.
static PERSONS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let numbered = (3..200).map(|number| number.to_string());
    ["p", "q", "r"].map(str::to_owned).into_iter().chain(numbered).collect()
});

fn micros(row: &Row) -> i64 {
    (row.step as i64 - 1) * 3_600_000_000 + row.quarter * 900_000_000
}

/// Shows a row as an event.
fn with_event<R>(number: u64, row: &Row, show: impl FnOnce(&Event<'_>) -> R) -> R {
    let micros = micros(row);
    let cells = RowCells([
        Field::Instant(micros),
        Field::Text(GROUPS[row.group]),
        Field::Text(&PERSONS[row.person]),
        Field::Integer(row.value),
    ]);
    let layout = ColumnLayout::new(&columns());
    show(&Event::new(Position { file: "rows", place: Place::Row(number) }, &cells, &layout))
}

/// The exact sums of all due closed steps.
pub(super) fn take(session: &mut Session<RunningSums>, sums: &mut Vec<Vec<i64>>) -> Result<()> {
    while let Some(step) = session.next_step()? {
        assert_eq!(step.step(), sums.len() as u64 + 1);
        sums.push(step.unsafe_exact_sums().to_vec());
    }
    Ok(())
}

/// Rows in the order in which they are kept: by time, and at one instant by a keyed hash.
fn in_order(unit: Unit, rows: &[Row]) -> Vec<Row> {
    let (stream, key) = (stream_of(unit, 0), key());
    let (name, digest) = (&stream.name, stream.plan.digest());
    let (pseudonyms, mut order) = (Pseudonyms::new(&key, name, &digest), EventOrder::new(&key, name, &digest));
    let mut rows = rows.to_vec();
    rows.sort_by_cached_key(|row| {
        let (person, value) = (pseudonyms.of(&PERSONS[row.person]), row.value.clamp(-5, 5));
        (micros(row), order.rank(person, micros(row), value, &(row.group as u32).to_be_bytes()))
    });
    rows
}

/// The sums of the steps through the last one.
pub(super) fn by_hand(rows: &[Row], last_step: u64) -> Vec<Vec<i64>> {
    by_hand_of(Unit::person(3).per_step(2), rows, last_step)
}

/// The same for persons with other bounds.
pub(super) fn by_hand_of(unit: Unit, rows: &[Row], last_step: u64) -> Vec<Vec<i64>> {
    let bounds = unit.bounds().unwrap();
    let below = |bound: Option<u64>, count: usize| bound.is_none_or(|bound| (count as u64) < bound);
    let period = |row: &Row| bounds.period.map_or(0, |steps| (row.step - 1) / steps);
    let mut sums = vec![vec![0; GROUPS.len()]; last_step as usize];
    let mut kept: Vec<(&Row, i64)> = Vec::new();
    let rows = in_order(unit, rows);
    for row in rows.iter().filter(|row| row.step <= last_step) {
        let is_same = |other: &&(&Row, i64)| other.0.person == row.person && period(other.0) == period(row);
        let same: Vec<_> = kept.iter().filter(is_same).collect();
        let count = |which: &dyn Fn(&Row) -> bool| same.iter().filter(|(other, _)| which(other)).count();
        let spent: u64 = same.iter().map(|(_, value)| value.unsigned_abs()).sum();
        let left = bounds.max_total.map_or(u64::MAX, |cap| cap - spent);
        let is_new_group = count(&|other| other.group == row.group) == 0;
        let groups = (0..GROUPS.len()).filter(|group| count(&|other| other.group == *group) > 0).count();
        if below(Some(bounds.max_events), same.len())
            && below(bounds.max_events_per_step, count(&|other| other.step == row.step))
            && below(bounds.max_events_per_group, count(&|other| other.group == row.group))
            && (!is_new_group || below(bounds.max_groups, groups))
            && same.iter().all(|(o, _)| o.step == row.step || row.step - o.step >= bounds.min_gap.unwrap_or(1))
            && left > 0
        {
            let value = row.value.clamp(-5, 5);
            let value = value.signum() * value.unsigned_abs().min(left) as i64;
            kept.push((row, value));
            sums[row.step as usize - 1][row.group] += value;
        }
    }
    sums
}

/// Units with one bound or several.
pub(super) fn a_unit() -> impl Strategy<Value = Unit> {
    let base = Unit::person(3).per_step(2);
    prop::sample::select(vec![
        base,
        base.per_period(4),
        base.apart(3),
        Unit::person(4).per_group(2),
        Unit::person(4).in_groups(1).per_period(5),
        Unit::person(4).in_groups(1).with_max_total(6),
        Unit::person(4).per_step(3).per_group(2).with_max_total(6),
        Unit::person(5).with_max_total(7),
        Unit::person(4).per_step(2).per_group(2).in_groups(2).apart(2).with_max_total(9).per_period(6),
    ])
}

prop_compose! {
    pub(super) fn a_row()(
        step in 1..=STEPS,
        quarter in 0..4i64,
        group in 0..2usize,
        person in 0..3usize,
        value in -8..=8i64,
    ) -> Row {
        Row { step, quarter, group, person, value }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Sorted rows give the same sums, whether steps are taken as soon as they are due, sometimes, or at the end.
    #[test]
    fn when_steps_are_taken_changes_nothing(
        mut rows in prop::collection::vec(a_row(), 0..40),
        takes in prop::collection::vec(any::<bool>(), 40),
        last_step in 1..=STEPS,
        unit in a_unit(),
    ) {
        rows.sort_by_key(|row| row.step);
        let (stream, key) = (stream_of(unit, 0), key());
        let mut ledger = Ledger::create(MemoryStore::default(), &key).unwrap();
        let mut session = session(&stream, last_step, &ledger, &key);
        let mut sums = Vec::new();
        for ((number, row), taken) in (1..).zip(&rows).zip(takes) {
            push(&mut session, number, row).unwrap();
            if taken {
                take(&mut session, &mut sums).unwrap();
            }
        }
        session.close_through(STEPS).unwrap();
        take(&mut session, &mut sums).unwrap();
        prop_assert_eq!(&sums, &by_hand_of(unit, &rows, last_step));
        session.record(&mut ledger).unwrap();
        prop_assert_eq!(ledger.last_published(&stream.name), last_step);
    }

    /// Rows that were placed elsewhere and pushed in batches are equivalent to single rows: the same sums, and the same
    /// rows refused.
    #[test]
    fn batches_are_as_good_as_rows(
        mut rows in prop::collection::vec(a_row(), 0..80),
        sorted in any::<bool>(),
        buffer in 0..3usize,
        len in 1..50usize,
    ) {
        if sorted {
            rows.sort_by_key(|row| row.step);
        }
        let (stream, key) = (stream(buffer), key());
        let ledger = Ledger::in_memory(&key);
        let (mut one, mut other) = (session(&stream, 9, &ledger, &key), session(&stream, 9, &ledger, &key));
        let (mut one_sums, mut other_sums) = (Vec::new(), Vec::new());
        let mut refused = Vec::new();
        for (number, row) in (1..).zip(&rows) {
            if let Err(error) = push(&mut one, number, row) {
                refused.push(error.to_string());
            }
            take(&mut one, &mut one_sums).unwrap();
        }
        let (mut placer, mut batch, mut late) = (other.placer(), Batch::new(), Vec::new());
        for (part, rows) in rows.chunks(len).enumerate() {
            for (mark, row) in (0..).zip(rows) {
                let placed = with_event(0, row, |event| placer.place(event)).unwrap().unwrap();
                batch.push(mark, placed);
            }
            loop {
                match other.push_placed(&mut batch).unwrap() {
                    PushResult::All => break,
                    PushResult::StepsDue => take(&mut other, &mut other_sums).unwrap(),
                    PushResult::Late(mark) => {
                        let number = (part * len) as u64 + u64::from(mark) + 1;
                        let error = with_event(number, &rows[mark as usize], |event| other.late(event)).unwrap_err();
                        late.push(error.to_string());
                    }
                }
            }
            prop_assert!(batch.is_empty());
        }
        for (session, sums) in [(&mut one, &mut one_sums), (&mut other, &mut other_sums)] {
            session.close_through(9).unwrap();
            take(session, sums).unwrap();
        }
        prop_assert_eq!(late, refused);
        prop_assert_eq!(one_sums, other_sums);
    }

    /// A sort buffer that is large enough makes any order equivalent to the sorted one.
    #[test]
    fn the_sort_buffer_sorts(rows in prop::collection::vec(a_row(), 0..30), closed in 0..STEPS) {
        let (stream, key) = (stream(30), key());
        let ledger = Ledger::in_memory(&key);
        let mut session = session(&stream, STEPS, &ledger, &key);
        let mut sums = Vec::new();
        for (number, row) in (1..).zip(&rows) {
            push(&mut session, number, row).unwrap();
        }
        // Closing twice is the same as closing once.
        session.close_through(closed).unwrap();
        take(&mut session, &mut sums).unwrap();
        prop_assert!(sums.len() as u64 >= closed);
        session.close_through(STEPS).unwrap();
        take(&mut session, &mut sums).unwrap();
        prop_assert_eq!(sums, by_hand(&rows, STEPS));
    }

    /// Without a buffer, or with one that is too small, a row of a due step is refused and leaves no trace.
    #[test]
    fn late_rows_are_refused_and_leave_no_trace(rows in prop::collection::vec(a_row(), 0..30), buffer in 0..3usize) {
        let (stream, key) = (stream(buffer), key());
        let ledger = Ledger::in_memory(&key);
        let mut session = session(&stream, STEPS, &ledger, &key);
        let (mut sums, mut taken) = (Vec::new(), Vec::new());
        for (number, row) in (1..).zip(&rows) {
            match push(&mut session, number, row) {
                Ok(()) => taken.push(row.clone()),
                Err(error) => {
                    let error = error.to_string();
                    prop_assert!(error.contains(&format!("rows, row {number}, column `time`")), "{}", error);
                    prop_assert!(error.contains("that a later event has closed"), "{}", error);
                }
            }
        }
        session.close_through(STEPS).unwrap();
        take(&mut session, &mut sums).unwrap();
        prop_assert_eq!(sums, by_hand(&taken, STEPS));
    }
}

/// A person's name that is not a number (NaN) is not a name: it is refused or skipped, and never a person called "NaN".
#[test]
fn nobody_is_called_nan() {
    let (mut stream, key) = (stream(0), key());
    let ledger = Ledger::in_memory(&key);
    for missing in [Refusable::Refuse, Refusable::Skip] {
        stream.missing = missing;
        let mut session = session(&stream, 1, &ledger, &key);
        let cells = RowCells([Field::Instant(0), Field::Text("a"), Field::Float(f64::NAN), Field::Integer(1)]);
        let layout = ColumnLayout::new(&columns());
        let pushed = session.push(&Event::new(Position { file: "rows", place: Place::Row(1) }, &cells, &layout));
        match missing {
            Refusable::Refuse => assert!(pushed.unwrap_err().to_string().contains("the event names no person")),
            Refusable::Skip => pushed.unwrap(),
        }
        session.close_through(1).unwrap();
        let mut sums = Vec::new();
        take(&mut session, &mut sums).unwrap();
        assert_eq!(sums, [[0, 0]]);
    }
}

/// Rows are returned after the digest has checked them: other data under the name are refused at the first step that
/// differs.
#[test]
fn other_data_are_refused_where_they_differ() {
    let (stream, key) = (stream(0), key());
    let mut ledger = Ledger::in_memory(&key);
    let row = |step, value| Row { step, quarter: 0, group: 0, person: 0, value };
    let run = |ledger: &mut Ledger, rows: &[Row]| -> Result<u64> {
        let mut session = session(&stream, 4, ledger, &key);
        rows.iter().try_for_each(|row| push(&mut session, 1, row))?;
        session.close_through(4)?;
        while session.next_step()?.is_some() {}
        session.record(ledger)?;
        Ok(session.step())
    };
    assert_eq!(run(&mut ledger, &[row(1, 2), row(3, 1)]).unwrap(), 4);
    assert_eq!(run(&mut ledger, &[row(1, 2), row(3, 1), row(5, 1)]).unwrap(), 4);
    let error = run(&mut ledger, &[row(1, 2), row(3, 2)]).unwrap_err().to_string();
    assert!(error.contains("different data"), "{error}");
}

/// A refused step is not returned on a second request, and nothing is recorded after it.
#[test]
fn a_refusal_ends_the_session() {
    let (stream, key) = (stream(0), key());
    let mut ledger = Ledger::in_memory(&key);
    let mut first = session(&stream, 3, &ledger, &key);
    first.close_through(3).unwrap();
    while first.next_step().unwrap().is_some() {}
    first.record(&mut ledger).unwrap();
    let mut other = session(&stream, 6, &ledger, &key);
    let row = |step| Row { step, quarter: 0, group: 0, person: 0, value: 2 };
    push(&mut other, 1, &row(2)).unwrap();
    other.close_through(6).unwrap();
    assert!(other.next_step().unwrap().is_some() && other.next_step().unwrap().is_some());
    assert!(other.next_step().err().unwrap().to_string().contains("different data"));
    for _ in 0..3 {
        let error = other.next_step().err().unwrap().to_string();
        assert!(error.contains("was refused earlier") && other.step() == 2, "{error}");
    }
    assert!(push(&mut other, 2, &row(7)).is_err() && other.close_through(6).is_err());
    assert!(other.record(&mut ledger).is_err());
    assert_eq!(ledger.last_published(&stream.name), 3);
}

#[test]
#[should_panic(expected = "due but were not taken")]
fn what_was_not_taken_is_not_recorded() {
    let (stream, key) = (stream(0), key());
    let mut ledger = Ledger::in_memory(&key);
    let mut session = session(&stream, 2, &ledger, &key);
    session.close_through(1).unwrap();
    let _ = session.record(&mut ledger);
}

/// The noise of a group is proportional to its scale: sample variances of 400 groups of each scale stay within bounds
/// that hold with probability 1 - 10⁻⁶ each (by the fourth moment of the law, for a variance of this many groups).
#[test]
fn noise_is_in_proportion_to_scales() {
    let names = (0..800).map(|number| number.to_string()).collect();
    let scales: Vec<Grid> =
        (0..800).map(|number| if number % 2 == 0 { "0.5" } else { "300" }.parse().unwrap()).collect();
    let table = GroupTable::from_names(vec!["group".into()], names, None, Default::default()).unwrap();
    let table = table.with_scales(Some(scales), None).unwrap();
    let (stream, ledger) = (stream(0), Ledger::in_memory(&key()));
    let mut session = Session::new_sums(stream.clone(), Some(table), &key(), &ledger).unwrap();
    session.close_through(1).unwrap();
    let mut closed = session.next_step().unwrap().unwrap();
    let (mut values, mut errors) = ([Vec::new(), Vec::new()], [0.0; 2]);
    closed
        .for_each_row(|group, row| {
            values[group % 2].push(row.value.number);
            errors[group % 2] = row.std_error;
            Ok::<(), evertally_declare::error::PipelineError>(())
        })
        .unwrap();
    assert!((errors[1] / errors[0] - 600.0).abs() < 1e-3);
    for (values, error) in values.iter().zip(errors) {
        let count = values.len() as f64;
        let variance = values.iter().map(|value| value * value).sum::<f64>() / count;
        // Laplace: the variance of a square is five times the square of the variance.
        let spread = 4.9 * (5.0 / count).sqrt();
        assert!((variance / (error * error) - 1.0).abs() < spread, "{variance} against {}", error * error);
    }
}
