//! Many processes against one: the same rows, in whatever order and however the events are distributed.

use super::*;
use evertally::noise::TestSeed;
use evertally_declare::declaration::Declaration;
use evertally_declare::error::Place;
use evertally_declare::event::{Cells, ColumnLayout, Event, Field, Position};
use evertally_declare::problem::Wording;
use evertally_ledger::ledger::MemoryStore;
use evertally_publish::session::Session;
use std::collections::{BTreeMap, HashMap};

const STEPS: i64 = 12;
const GROUPS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// An event: minutes since the start, group, person, value.
#[derive(Clone, Debug)]
struct Happened {
    minute: i64,
    group: usize,
    person: u64,
    value: i64,
}

struct HappenedCells<'e>(&'e Happened, String);

impl Cells for HappenedCells<'_> {
    fn cell(&self, slot: usize) -> Field<'_> {
        match slot {
            0 => Field::Instant(1_704_067_200_000_000 + self.0.minute * 60_000_000),
            1 => Field::Text(GROUPS[self.0.group]),
            2 => Field::Text(&self.1),
            _ => Field::Integer(self.0.value),
        }
    }
}

/// Numbers that are the same in every run (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31) % end
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Declarations of all kinds: hourly steps, further parameters, and the columns of the events.
fn declarations() -> Vec<serde_json::Value> {
    let groups = r#""group": ["group"], "groups": [["a"], ["b"], ["c"], ["d"], ["e"]]"#;
    let persons = r#""person": "person""#;
    let values = r#""value": "value", "bounds": ["-3", "5"]"#;
    let fractions = r#""value": "value", "bounds": ["0", "1"], "grid": "0.5""#;
    let others = r#""group": ["group"], "groups": [["a"], ["c"]], "rest": "others""#;
    let discovered = r#""group": ["group"], "discover_groups": true, "selection_delta": 1e-6, "select_every": 3"#;
    let weak = r#""rho": 50, "allow_weak_budget": true"#;
    let distinct = r#"["count", "distinct", "distinct(3)"]"#;
    let distinct_and_mean = r#""measures": ["distinct", "mean"]"#;
    [
        r#""epsilon": 1.0"#.to_owned(),
        format!(r#"{groups}, "epsilon": 1.0"#),
        format!(r#"{groups}, {values}, "rho": 0.5"#),
        format!(r#"{groups}, {persons}, "max_events": 4, "max_events_per_step": 2, "rho": 0.5"#),
        format!(r#"{groups}, {persons}, {values}, "max_events": 4, "epsilon": 1.0, "view": ["whole-number"]"#),
        format!(r#"{groups}, {persons}, "max_events": 5, "max_groups": 2, "max_events_per_group": 3, "rho": 0.5"#),
        format!(r#"{groups}, {persons}, "max_events": 5, "max_events_per_step": 2, "min_gap": 3, "rho": 0.5"#),
        format!(r#"{groups}, {persons}, {values}, "max_events": 6, "max_total": "7", "rho": 0.5"#),
        format!(r#"{groups}, {persons}, "max_events": 2, "per": 4, "rho": 0.5"#),
        format!(r#"{persons}, "max_events": 2, "per": 4, "rho": 0.5, "workload": "window(3)""#),
        format!(r#"{others}, "epsilon": 1.0, "scales": ["2", "10"], {fractions}"#),
        format!(r#"{groups}, "rho": 0.5, "publish": 3"#),
        format!(r#"{groups}, {values}, "rho": 0.5, "measures": ["count", "mean", "histogram(0, 2)", "quantile(0.5)"]"#),
        format!(r#"{values}, "epsilon": 1.0, "measures": ["variance", "sum"]"#),
        format!(r#"{groups}, {persons}, "max_events": 6, "max_groups": 3, "rho": 0.5, "measures": {distinct}"#),
        format!(r#"{groups}, {persons}, {values}, "max_events": 5, "per": 4, "rho": 0.5, {distinct_and_mean}"#),
        format!(r#"{persons}, "max_events": 6, "epsilon": 1.0, "measures": ["distinct(2)", "distinct(5)"]"#),
        format!(r#"{groups}, {persons}, "max_events": 4, "rho": 0.5, "workload": ["sum", "window(3)"]"#),
        format!(r#"{groups}, {values}, "rho": 0.5, "workload": ["sum", "window(2)"]"#),
        format!(r#"{groups}, "rho": 0.5, "through": "2024-01-01T07:00:00""#),
        format!(r#"{discovered}, {weak}, {persons}, "max_events": 5, "max_groups": 2"#),
        format!("{discovered}, {weak}"),
    ]
    .into_iter()
    .map(|more| {
        let common = r#""name": "twin", "start": "2024-01-01", "steps": 12, "every": "1h", "time": "time""#;
        serde_json::from_str(&format!("{{{common}, {more}}}")).unwrap()
    })
    .collect()
}

fn planned(declared: &serde_json::Value) -> (Stream, Option<GroupTable>) {
    let declared = Declaration::from_names(declared.as_object().unwrap().clone(), Wording::Keywords).unwrap();
    evertally_ledger::planner::plan(declared.resolve().unwrap().truncated_to_complete_rows().unwrap(), &mut |_| ())
        .unwrap()
}

fn key() -> Arc<SecretKey> {
    Arc::new(SecretKey::insecure_from_test_seed(TestSeed(9)))
}

fn work(declared: &serde_json::Value) -> ClusterJob {
    let (stream, groups) = planned(declared);
    ClusterJob::new(stream, groups, key()).unwrap()
}

/// Events within few minutes, so that many share one instant; one person has a third of them.
fn events(dice: &mut Dice, count: usize) -> Vec<Happened> {
    let event = |_| Happened {
        minute: dice.below(STEPS as u64 * 6) as i64 * 10,
        group: (dice.below(5) * dice.below(2)) as usize,
        person: dice.below(12).saturating_sub(4),
        value: dice.below(14) as i64 - 6,
    };
    (0..count).map(event).collect()
}

fn show<R>(stream: &Stream, event: &Happened, show: impl FnOnce(&Event<'_>) -> R) -> R {
    // Slots are in the order of `HappenedCells`, whichever of them the stream reads.
    let columns = evertally_declare::event::Columns {
        time: "time".into(),
        time_of_day: None,
        labels: stream.columns.labels.clone(),
        person: stream.columns.person.clone(),
        value: stream.columns.value.clone(),
        filter: Vec::new(),
    };
    let layout = ColumnLayout::new(&columns);
    let places: Vec<usize> = layout
        .names()
        .iter()
        .map(|name| ["time", "group", "person", "value"].iter().position(|n| n == name).unwrap())
        .collect();
    struct Chosen<'c>(HappenedCells<'c>, &'c [usize]);
    impl Cells for Chosen<'_> {
        fn cell(&self, slot: usize) -> Field<'_> {
            self.0.cell(self.1[slot])
        }
    }
    let cells = Chosen(HappenedCells(event, format!("p{}", event.person)), &places);
    show(&Event::new(Position { file: "the table", place: Place::Row(1) }, &cells, &layout))
}

fn text(row: &ReleasedRow<'_>) -> String {
    format!("{row:?}")
}

use evertally_publish::rows::ReleaseRow as ReleasedRow;

/// The rows that one process publishes, of events that are unsorted within each step.
fn alone(work: &ClusterJob, events: &[Happened]) -> Vec<String> {
    let (stream, groups) = (work.stream().clone(), work.groups().cloned());
    let (key, mut events) = (key(), events.to_vec());
    events.sort_by_key(|event| event.minute / 60);
    let ledger = Ledger::in_memory(&key);
    let mut session = Session::new_sums(stream.clone(), groups, &key, &ledger).unwrap();
    let mut rows = Vec::new();
    let mut take = |session: &mut Session<evertally_publish::session::RunningSums>| {
        while let Some(mut step) = session.next_step().unwrap() {
            step.for_each_row(|_, row| Ok::<_, evertally_declare::error::PipelineError>(rows.push(text(row)))).unwrap();
        }
    };
    for event in &events {
        show(&stream, event, |event| session.push(event)).unwrap();
        take(&mut session);
    }
    session.close_through(session.last_step()).unwrap();
    take(&mut session);
    rows.sort();
    rows
}

/// The sums of events that reach processes at random, each working in its own order; rows that are not sums are
/// separate.
fn spread(
    work: &ClusterJob,
    dice: &mut Dice,
    events: &[Happened],
) -> (BTreeMap<(u64, Box<[u8]>), i64>, Vec<ShuffleRow>) {
    let mut events = events.to_vec();
    dice.shuffle(&mut events);
    let (mut rows, mut blocks) = (Vec::new(), Vec::new());
    let shards = 1 + dice.below(5) as u32;
    let mut readers: Vec<Reader> = (0..3).map(|_| work.reader(shards, Wording::Keywords).unwrap()).collect();
    for event in &events {
        let reader = &mut readers[dice.below(3) as usize];
        show(work.stream(), event, |event| reader.read(event));
        if dice.below(20) == 0 {
            taken(reader, &mut rows, &mut blocks);
        }
    }
    readers.iter_mut().for_each(|reader| taken(reader, &mut rows, &mut blocks));
    dice.shuffle(&mut blocks);
    // Each shard goes to one process, which may have several.
    let mut processes: HashMap<u32, Shard> = HashMap::new();
    for ShardBlock { shard, block, .. } in blocks {
        let process = processes.entry(shard % 2).or_insert_with(|| work.shard().unwrap());
        process.add(shard, block).unwrap();
    }
    for (_, process) in processes {
        process.finish(|more| Ok::<_, evertally_declare::error::PipelineError>(rows.extend(more))).unwrap();
    }
    let (mut sums, mut others) = (BTreeMap::new(), Vec::new());
    for row in rows {
        match ShuffleRow::says(&row.label).unwrap() {
            RowKind::Place(_) | RowKind::Cell(..) | RowKind::Name(_) => {
                *sums.entry((row.step, row.label)).or_insert(0) += row.sum;
            }
            _ => others.push(row),
        }
    }
    (sums, others)
}

fn taken(reader: &mut Reader, rows: &mut Vec<ShuffleRow>, blocks: &mut Vec<ShardBlock>) {
    match reader.take() {
        ReaderOutput::Sums(more) => rows.extend(more),
        ReaderOutput::Blocks(more) => blocks.extend(more),
    }
}

fn bucket_of(label: &[u8], buckets: u32) -> u32 {
    match ShuffleRow::says(label).unwrap() {
        RowKind::Place(place) | RowKind::Cell(place, _) => place % buckets,
        _ => u32::from(*label.last().unwrap()) % buckets,
    }
}

fn digests(work: &ClusterJob, sums: &BTreeMap<(u64, Box<[u8]>), i64>, buckets: u32) -> Digests {
    let (mut digests, mut digesting) = (Digests::default(), work.digesting());
    for ((step, label), sum) in sums {
        let digest = digesting.of(*step, label, *sum);
        digests.add_step(*step, digest);
        digests.add_bucket(bucket_of(label, buckets), digest);
    }
    digests
}

fn released(work: &ClusterJob, sums: &BTreeMap<(u64, Box<[u8]>), i64>, buckets: u32, digests: &Digests) -> Vec<String> {
    let mut rows = Vec::new();
    for number in 0..buckets {
        let mut bucket = work.bucket(number, buckets).unwrap();
        for ((step, label), sum) in sums.iter().filter(|((_, label), _)| bucket_of(label, buckets) == number) {
            bucket.add(*step, label, *sum).unwrap();
        }
        let mut steps = bucket.release(digests.of_bucket(number)).unwrap();
        while steps.next_step(|row| Ok(rows.push(text(row)))).unwrap() {}
    }
    rows.sort();
    rows
}

#[test]
fn many_processes_release_what_one_does() {
    for (number, declared) in declarations().iter().enumerate() {
        let (mut dice, work) = (Dice(number as u64), work(declared));
        for round in 0..12 {
            let count = [0, 1, 40, 400][round % 4];
            let events = events(&mut dice, count);
            let expected = alone(&work, &events);
            let (sums, others) = spread(&work, &mut dice, &events);
            assert!(
                others.iter().all(|row| matches!(ShuffleRow::says(&row.label), Ok(RowKind::Shard(_)))),
                "{declared}"
            );
            let buckets = 1 + dice.below(4) as u32;
            let digests = digests(&work, &sums, buckets);
            work.record(&digests, &mut Ledger::in_memory(&key())).unwrap();
            assert_eq!(released(&work, &sums, buckets, &digests), expected, "{declared}, round {round}");
            assert!(!expected.is_empty() || work.discovers());
        }
    }
}

#[test]
fn what_the_engine_has_counted_is_placed() {
    let declared = &declarations()[1];
    let (work, mut dice) = (work(declared), Dice(3));
    let events = events(&mut dice, 300);
    let (expected, _) = spread(&work, &mut dice, &events);
    let mut counted: BTreeMap<(i64, usize), i64> = BTreeMap::new();
    events.iter().for_each(|event| *counted.entry((event.minute, event.group)).or_default() += 1);
    let mut columns = work.stream().columns.clone();
    columns.value = Some("value".into());
    let mut reader = work.reader_of_counts(Wording::Keywords).unwrap();
    for ((minute, group), count) in counted {
        let event = Happened { minute, group, person: 0, value: count };
        let mut counted = work.stream().clone();
        counted.columns = columns.clone();
        show(&counted, &event, |event| reader.read_count(event));
    }
    let ReaderOutput::Sums(rows) = reader.take() else { panic!("counts have no shards") };
    let sums: BTreeMap<_, _> = rows.into_iter().map(|row| ((row.step, row.label), row.sum)).collect();
    assert_eq!(sums, expected);
}

/// A recorded stream can be released again from the same sums, and extended, but not from other sums.
#[test]
fn other_sums_are_refused() {
    let declared = &declarations()[3];
    let (work, mut dice) = (work(declared), Dice(4));
    let many = events(&mut dice, 300);
    let (sums, _) = spread(&work, &mut dice, &many);
    let digests_of = |sums: &BTreeMap<(u64, Box<[u8]>), i64>| digests(&work, sums, 3);
    let mut ledger = Ledger::open_or_begin(MemoryStore::default(), &key()).unwrap();
    let first = digests_of(&sums);
    work.record(&first, &mut ledger).unwrap();
    work.record(&first, &mut ledger).unwrap();
    // One count moved to another group or step, or removed; the totals may be the same.
    let (place, count) = sums.iter().next().map(|(place, count)| (place.clone(), *count)).unwrap();
    let mut changed = sums.clone();
    changed.insert(place.clone(), count + 1);
    let refused = work.record(&digests_of(&changed), &mut ledger).unwrap_err().to_string();
    assert!(refused.contains("from different data"), "{refused}");
    let mut gone = sums.clone();
    gone.remove(&place);
    assert!(work.record(&digests_of(&gone), &mut ledger).is_err());
    // Later releases must match the recorded sums.
    let mut bucket = work.bucket(bucket_of(&place.1, 3), 3).unwrap();
    bucket.add(place.0, &place.1, count + 1).unwrap();
    let refused = bucket.release(first.of_bucket(bucket_of(&place.1, 3))).err().unwrap().to_string();
    assert!(refused.contains("the events have changed"), "{refused}");
    // A release by one process cannot be compared with it, and the error says so.
    let mut session = Session::new_sums(work.stream().clone(), work.groups().cloned(), &key(), &ledger).unwrap();
    session.close_through(STEPS as u64).unwrap();
    let refused = loop {
        match session.next_step() {
            Err(error) => break error.to_string(),
            Ok(step) => assert!(step.is_some()),
        }
    };
    assert!(refused.contains("on a cluster up to step 12"), "{refused}");
}

/// A shorter release first, then all steps: as with one process.
#[test]
fn a_release_goes_on() {
    let mut declared = declarations()[1].clone();
    let whole = work(&declared);
    declared["through"] = "2024-01-01T07:00:00".into();
    let part = work(&declared);
    let mut dice = Dice(8);
    let many = events(&mut dice, 200);
    let mut ledger = Ledger::open_or_begin(MemoryStore::default(), &key()).unwrap();
    let (sums, _) = spread(&part, &mut dice, &many);
    assert!(sums.keys().all(|(step, _)| *step <= 7));
    part.record(&digests(&part, &sums, 2), &mut ledger).unwrap();
    let (sums, _) = spread(&whole, &mut dice, &many);
    whole.record(&digests(&whole, &sums, 5), &mut ledger).unwrap();
    let fewer: Vec<Happened> = many.iter().skip(1).cloned().collect();
    let (sums, _) = spread(&whole, &mut dice, &fewer);
    assert!(whole.record(&digests(&whole, &sums, 5), &mut ledger).is_err());
}

/// For two data sets that differ in one person, the sums differ by the kept events of that person alone, and by at most
/// their bounds: for every kind of bound, and however the events are distributed.
#[test]
fn one_person_moves_sums_by_what_is_kept_of_them() {
    for declared in declarations().iter().filter(|declared| declared.get("person").is_some()) {
        let (mut dice, work) = (Dice(77), work(declared));
        for _ in 0..10 {
            let all = events(&mut dice, 250);
            let without: Vec<Happened> = all.iter().filter(|event| event.person != 0).cloned().collect();
            let only: Vec<Happened> = all.iter().filter(|event| event.person == 0).cloned().collect();
            let (mut with, _) = spread(&work, &mut dice, &all);
            let (mut rest, _) = spread(&work, &mut dice, &without);
            let (own, _) = spread(&work, &mut dice, &only);
            for (place, sum) in own {
                *rest.entry(place).or_insert(0) += sum;
            }
            with.retain(|_, sum| *sum != 0);
            rest.retain(|_, sum| *sum != 0);
            assert_eq!(with, rest, "{declared}");
        }
    }
}

#[test]
fn refused_events_are_named_alike_however_they_are_spread() {
    let work = work(&declarations()[3]);
    let mut events = events(&mut Dice(6), 100);
    events.push(Happened { minute: -5, group: 0, person: 3, value: 1 });
    events.push(Happened { minute: STEPS * 60 + 3, group: 0, person: 3, value: 1 });
    let mut text = Vec::new();
    for seed in 0..8 {
        let (_, others) = spread(&work, &mut Dice(seed), &events);
        let mut why: Vec<String> = others
            .iter()
            .filter_map(|row| match ShuffleRow::says(&row.label).unwrap() {
                RowKind::Refused(why) => Some(why.to_owned()),
                _ => None,
            })
            .collect();
        why.sort();
        text.push(why.first().unwrap().clone());
    }
    text.dedup();
    assert_eq!(text.len(), 1, "{text:?}");
    assert!(text[0].starts_with("the table, column `time`: ") && text[0].contains("outside the horizon"), "{text:?}");
}

#[test]
fn damaged_rows_are_refused() {
    let work = work(&declarations()[3]);
    let mut reader = work.reader(1, Wording::Keywords).unwrap();
    events(&mut Dice(1), 50).iter().for_each(|event| show(work.stream(), event, |event| reader.read(event)));
    let ReaderOutput::Blocks(blocks) = reader.take() else { panic!("persons go to shards") };
    let block = &blocks[0].block;
    let finish = |bytes: Vec<u8>| -> Result<()> {
        let mut shard = work.shard()?;
        shard.add(0, bytes)?;
        shard.finish(|_| Ok(()))
    };
    finish(block.clone()).unwrap();
    assert!(finish(Vec::new()).is_err() && finish(vec![7]).is_err());
    for cut in 3..block.len() {
        let _ = finish(block[..cut].to_vec()); // never a panic; a cut between two persons leaves a whole block
    }
    assert!((3..block.len()).filter(|cut| finish(block[..*cut].to_vec()).is_ok()).count() < 20);
    assert!(ShuffleRow::says(b"").is_err() && ShuffleRow::says(b"g12").is_err());
    let mut bucket = work.bucket(1, 2).unwrap();
    assert!(bucket.add(1, &ShuffleRow::from_place(1, 0, 1).label, 1).is_err(), "of another bucket");
    assert!(bucket.add(13, &ShuffleRow::from_place(1, 1, 1).label, 1).is_err(), "after the last step");
    assert!(work.bucket(2, 2).is_err());
}

/// A stream closed step by step, from events in arbitrary batches: it has the rows of one process, even after a driver
/// dies at any point, or a query begins again from the first event.
mod live {
    use super::*;

    /// The shards, between batches.
    #[derive(Clone, Default)]
    struct Shards {
        persons: HashMap<u32, Vec<u8>>,
        waiting: HashMap<u32, Vec<Vec<u8>>>,
        closed: u64,
    }

    const SHARDS: u32 = 3;

    impl Shards {
        fn take_in(&mut self, work: &ClusterJob, dice: &mut Dice, events: &[Happened]) {
            let mut readers: Vec<Reader> =
                (0..2).map(|_| work.waiting_reader(SHARDS, Wording::Keywords).unwrap()).collect();
            for event in events {
                show(work.stream(), event, |event| readers[dice.below(2) as usize].read(event));
            }
            for reader in &mut readers {
                let ReaderOutput::Blocks(blocks) = reader.take() else { panic!("all goes to shards") };
                blocks
                    .into_iter()
                    .for_each(|for_shard| self.waiting.entry(for_shard.shard).or_default().push(for_shard.block));
            }
        }

        fn close(&mut self, work: &ClusterJob, through: u64) -> Vec<ShuffleRow> {
            let mut rows: BTreeMap<(u64, Box<[u8]>), i64> = BTreeMap::new();
            for shard in 0..SHARDS {
                let waiting = self.waiting.remove(&shard).unwrap_or_default();
                let left = work.close_shard(self.closed, through, self.persons.get(&shard).map(|p| &p[..]), waiting);
                let left = left.unwrap();
                left.persons.into_iter().for_each(|persons| drop(self.persons.insert(shard, persons)));
                self.waiting.insert(shard, left.waiting);
                left.rows.into_iter().for_each(|row| *rows.entry((row.step, row.label)).or_insert(0) += row.sum);
            }
            self.closed = through;
            rows.into_iter().map(|((step, label), sum)| ShuffleRow { step, label, sum }).collect()
        }
    }

    fn publisher(work: &ClusterJob, folder: &std::path::Path, ledger: &mut Ledger) -> Result<Publisher> {
        Publisher::open(work.clone(), Box::new(WriteOnceFolder::open(folder)?), ledger)
    }

    fn close(
        publisher: &mut Publisher,
        query: &str,
        (batch, through): (u64, u64),
        rows: &[ShuffleRow],
        shown: &mut BTreeMap<u64, Vec<String>>,
    ) -> Result<()> {
        let mut now: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        publisher.close(query, batch, through, rows, |step, row| Ok(now.entry(step).or_default().push(text(row))))?;
        for (step, rows) in now {
            let before = shown.entry(step).or_insert_with(|| rows.clone());
            assert_eq!(*before, rows, "step {step} once more");
        }
        Ok(())
    }

    fn all(shown: &BTreeMap<u64, Vec<String>>) -> Vec<String> {
        let mut rows: Vec<String> = shown.values().flatten().cloned().collect();
        rows.sort();
        rows
    }

    #[test]
    fn steps_are_closed_as_one_process_would() {
        for (number, declared) in declarations().iter().enumerate() {
            let (mut dice, work) = (Dice(number as u64 + 100), work(declared));
            let last = work.stream().last_step;
            let events = events(&mut dice, 300);
            let expected = alone(&work, &events);
            let folder = tempfile::tempdir().unwrap();
            let mut ledger = Ledger::in_memory(&key());
            let mut shown = BTreeMap::new();
            for query in ["first", "again"] {
                // Events arrive in batches, on time or some steps early.
                let mut shards = Shards::default();
                let mut left = events.clone();
                let mut publisher = publisher(&work, folder.path(), &mut ledger).unwrap();
                let (mut closed, mut batch) = (0, 0);
                while closed < last {
                    let next = (closed + dice.below(4)).min(last);
                    let (now, later): (Vec<_>, Vec<_>) =
                        left.into_iter().partition(|event| event.minute / 60 < next as i64 || dice.below(3) == 0);
                    left = later;
                    shards.take_in(&work, &mut dice, &now);
                    let checkpoint = shards.clone();
                    let rows = shards.close(&work, next);
                    close(&mut publisher, query, (batch, next), &rows, &mut shown).unwrap();
                    if dice.below(3) == 0 {
                        // The driver dies, and retries the batch from its checkpoint.
                        publisher = super::live::publisher(&work, folder.path(), &mut ledger).unwrap();
                        shards = checkpoint;
                        let rows = shards.close(&work, next);
                        close(&mut publisher, query, (batch, next), &rows, &mut shown).unwrap();
                    }
                    (closed, batch) = (next, batch + 1);
                }
                assert_eq!(all(&shown), expected, "{declared}, {query}");
            }
        }
    }

    #[test]
    fn other_sums_of_a_closed_step_are_refused() {
        let (mut dice, work) = (Dice(5), work(&declarations()[3]));
        let events = events(&mut dice, 200);
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::in_memory(&key());
        let mut publisher = publisher(&work, folder.path(), &mut ledger).unwrap();
        let mut shards = Shards::default();
        shards.take_in(&work, &mut dice, &events);
        let mut shown = BTreeMap::new();
        let rows = shards.close(&work, 4);
        close(&mut publisher, "q", (0, 4), &rows, &mut shown).unwrap();
        // The same batch with one more count, with the first event again, or with fewer steps and different sums.
        let mut more = rows.clone();
        more[0].sum += 1;
        for (through, rows) in [(4, &more), (12, &more)] {
            let refused = close(&mut publisher, "q", (0, through), rows, &mut shown).unwrap_err().to_string();
            assert!(refused.contains("from different data"), "{refused}");
        }
        // A query that begins again without some events is refused at the first step that differs.
        let refused = close(&mut publisher, "other", (0, 1), &[], &mut shown).unwrap_err().to_string();
        assert!(refused.contains("step 1 of stream `twin`"), "{refused}");
        // Sums of steps that are already closed: a window that fires twice.
        let late = [ShuffleRow { step: 2, ..rows[0].clone() }];
        let refused = close(&mut publisher, "q", (1, 6), &late, &mut shown).unwrap_err().to_string();
        assert!(refused.contains("already closed"), "{refused}");
        let early = [ShuffleRow { step: 9, ..rows[0].clone() }];
        assert!(close(&mut publisher, "q", (1, 6), &early, &mut shown).is_err(), "a window that is not over");
        let next = shards.close(&work, 6);
        close(&mut publisher, "q", (1, 6), &next, &mut shown).unwrap();
        assert!(close(&mut publisher, "q", (0, 4), &rows, &mut shown).is_err(), "an older checkpoint");
        // Another folder knows nothing of the stream, but the key's ledger does.
        let elsewhere = tempfile::tempdir().unwrap();
        let refused = super::live::publisher(&work, elsewhere.path(), &mut ledger).err().unwrap().to_string();
        assert!(refused.contains("is published by a cluster"), "{refused}");
        assert!(Session::new_sums(work.stream().clone(), work.groups().cloned(), &key(), &ledger).is_err());
        // A state that was changed, and one that is missing.
        let stream =
            std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
        let state = stream.unwrap().join("state/000000000006");
        let bytes = std::fs::read(&state).unwrap();
        let rows = shards.close(&work, 7);
        let mut refused = |bytes: Option<Vec<u8>>| {
            match bytes {
                Some(bytes) => std::fs::write(&state, bytes).unwrap(),
                None => std::fs::remove_file(&state).unwrap(),
            }
            let mut publisher = super::live::publisher(&work, folder.path(), &mut ledger).unwrap();
            close(&mut publisher, "q", (2, 7), &rows, &mut shown).unwrap_err().to_string()
        };
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        assert!(refused(Some(changed)).contains("damaged"));
        assert!(refused(None).contains("begin it again"));
    }

    /// The key's own ledger knows where the other ledger is, and its last step.
    #[cfg(unix)] // it runs `cp`
    #[test]
    fn a_ledger_that_is_elsewhere_older_or_lacks_a_part_is_refused() {
        let (mut dice, work) = (Dice(5), work(&declarations()[3]));
        let events = events(&mut dice, 200);
        let folder = tempfile::tempdir().unwrap();
        let (place, copy) = (folder.path().join("ledger"), folder.path().join("copy"));
        let mut ledger = Ledger::in_memory(&key());
        let mut shards = Shards::default();
        shards.take_in(&work, &mut dice, &events);
        let mut shown = BTreeMap::new();
        let mut step = |through: u64, batch: u64, place: &std::path::Path, ledger: &mut Ledger| -> Result<()> {
            let mut publisher = super::live::publisher(&work, place, ledger)?;
            let rows = shards.close(&work, through);
            close(&mut publisher, "q", (batch, through), &rows, &mut shown)?;
            let (step, chain) = publisher.head().unwrap();
            ledger.note_left(publisher.name(), step, &chain)
        };
        step(3, 0, &place, &mut ledger).unwrap();
        let copied = std::process::Command::new("cp").arg("-r").args([&place, &copy]).status().unwrap();
        assert!(copied.success());
        step(6, 1, &place, &mut ledger).unwrap();
        let mut refused =
            |place: &std::path::Path| super::live::publisher(&work, place, &mut ledger).err().unwrap().to_string();
        assert!(refused(&copy).contains("is published by a cluster"), "a copy");
        std::fs::rename(&place, folder.path().join("new")).unwrap();
        std::fs::rename(&copy, &place).unwrap();
        assert!(refused(&place).contains("lacks step 6"), "an older copy in its place");
        std::fs::remove_dir_all(&place).unwrap();
        assert!(refused(&place).contains("another has taken its place"), "a new one");
        std::fs::remove_dir_all(&place).unwrap();
        std::fs::rename(folder.path().join("new"), &place).unwrap();
        // A step in between is missing: nothing is written instead of it.
        let stream = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
        std::fs::remove_file(stream.unwrap().join("steps/000000000002")).unwrap();
        let mut publisher = super::live::publisher(&work, &place, &mut ledger).unwrap();
        let mut again = Shards::default();
        again.take_in(&work, &mut dice, &events);
        let rows = again.close(&work, 6);
        let refused =
            close(&mut publisher, "from the start", (0, 6), &rows, &mut BTreeMap::new()).unwrap_err().to_string();
        assert!(refused.contains("lacks step 2"), "{refused}");
    }

    /// A recount must count the same persons, or it cannot continue anywhere; equal sums alone would not reveal this.
    #[test]
    fn the_same_sums_of_other_persons_are_refused() {
        let work = work(&declarations()[3]);
        let rows = |person| {
            let mut shards = Shards::default();
            shards.take_in(&work, &mut Dice(1), &[Happened { minute: 10, group: 0, person, value: 1 }]);
            shards.close(&work, 1)
        };
        let sums = |rows: &[ShuffleRow]| -> Vec<ShuffleRow> {
            rows.iter().filter(|row| matches!(ShuffleRow::says(&row.label), Ok(RowKind::Place(_)))).cloned().collect()
        };
        let (one, other) = (rows(1), rows(2));
        assert_eq!(sums(&one), sums(&other));
        assert_eq!(work.evidence(&one), work.evidence(&rows(1)));
        assert_ne!(work.evidence(&one), work.evidence(&other));
        let (folder, mut ledger) = (tempfile::tempdir().unwrap(), Ledger::in_memory(&key()));
        let mut publisher = publisher(&work, folder.path(), &mut ledger).unwrap();
        let mut shown = BTreeMap::new();
        close(&mut publisher, "first", (0, 1), &one, &mut shown).unwrap();
        close(&mut publisher, "again", (0, 1), &rows(1), &mut shown).unwrap();
        let refused = close(&mut publisher, "others", (0, 1), &other, &mut shown).unwrap_err().to_string();
        assert!(refused.contains("from different data"), "{refused}");
    }

    /// Events of closed steps are dropped, and displace no others.
    #[test]
    fn late_events_are_left_out() {
        let (mut dice, work) = (Dice(6), work(&declarations()[3]));
        let events = events(&mut dice, 200);
        let (early, due): (Vec<_>, Vec<_>) = events.into_iter().partition(|event| event.minute < 240);
        let (mut with, mut without) =
            (Shards { closed: 4, ..Shards::default() }, Shards { closed: 4, ..Shards::default() });
        with.take_in(&work, &mut dice, &[early, due.clone()].concat());
        without.take_in(&work, &mut dice, &due);
        assert_eq!(with.close(&work, 12), without.close(&work, 12));
    }
}

/// Noise depends on the name, and so do digests: sums at other places are other sums.
#[test]
fn groups_in_another_order_have_other_digests() {
    let mut declared = declarations()[1].clone();
    let one = work(&declared);
    declared["groups"] = serde_json::json!([["a"], ["c"], ["b"], ["d"], ["e"]]);
    let other = work(&declared);
    // One key for both plans, which would normally have different ones.
    let names = |work: &ClusterJob| work.groups().unwrap().library_names();
    assert_ne!(names(&one), names(&other));
    let mut digesting = one.digesting();
    let (b, c) = (ShuffleRow::from_place(1, 1, 5).label, ShuffleRow::from_place(1, 2, 5).label);
    assert_ne!(digesting.of(1, &b, 5), digesting.of(1, &c, 5));
    assert_ne!(digesting.of(1, &b, 5), one.clone().digesting().of(2, &b, 5));
}
