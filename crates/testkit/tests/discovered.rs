//! Neighbour replay of undeclared groups: two data sets that differ in one person, under one key.
//!
//! With equal noise, a person can change only this: groups with the person's events move by those events, and may be
//! found earlier, later, or in only one of both. Groups of only other people are the same to the last byte and are
//! found at the same time. Groups of only the person are shown with the probability of selection, which is never here.

use evertally_declare::declaration::Declaration;
use evertally_declare::format::Format;
use evertally_testkit::replay::{Declared, InProcess, Pipeline, Row, Run, TableRow};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const STEPS: u64 = 9;
const PERSON: &str = "ann";

/// An event: step, group, person. The first person is the one who is present or absent.
type Event = (u64, usize, usize);

fn declared(every: u64, cuts: &[u64], mechanism: &str) -> Declared {
    let declaration = Declaration {
        steps: Some(STEPS),
        every: Some("1d".parse().unwrap()),
        start: Some("2024-01-01".into()),
        person: Some("who".into()),
        max_events: Some(4),
        max_events_per_step: Some(2),
        group_by: Some(vec!["site".into(), "kind".into()]),
        discover_groups: Some(true),
        selection_delta: Some(1e-12),
        select_every: Some(every),
        rho: Some(2.0),
        mechanism: Some(mechanism.parse().unwrap()),
        ..Declaration::default()
    };
    let calendar = declaration.resolve().unwrap().calendar;
    let last = Run { files: cuts.len() + 1, through: None, groups: None };
    let each = cuts.iter().enumerate();
    let each = each.map(|(at, cut)| Run {
        files: at + 1,
        through: Some(calendar.format(calendar.end_of(*cut))),
        groups: None,
    });
    Declared { declaration, format: Format::Csv, runs: each.chain([last]).collect(), continues: true, repeats: false }
}

/// Groups 0 to 3 are busy, each with a number of persons per step; others have only a few events.
fn rows(events: &[Event], with_person: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut push = |step: u64, group: usize, person: String| {
        let time = format!("2024-01-{step:02}T08:00:00Z");
        let labels = vec![Some(format!("site {group}")), Some(["x", "y"][group % 2].to_owned())];
        let number = rows.len();
        rows.push(Row { time, labels, person: Some(person), value: None, step, number });
    };
    for step in 1..=STEPS {
        for group in 0..4 {
            (0..10 * (group + 1)).for_each(|number| push(step, group, format!("{step}-{group}-{number}")));
        }
        for (_, group, person) in events.iter().filter(|(at, ..)| *at == step) {
            match person {
                0 if with_person => push(step, *group, PERSON.to_owned()),
                0 => {}
                other => push(step, *group, format!("other {other}")),
            }
        }
    }
    rows
}

fn files(rows: Vec<Row>, cuts: &[u64]) -> Vec<Vec<Row>> {
    let mut files = vec![Vec::new(); cuts.len() + 1];
    rows.into_iter().for_each(|row| files[cuts.partition_point(|cut| *cut < row.step)].push(row));
    files
}

fn by_group(table: &[TableRow]) -> BTreeMap<String, Vec<&TableRow>> {
    let mut groups: BTreeMap<String, Vec<&TableRow>> = BTreeMap::new();
    table.iter().for_each(|row| groups.entry(row.group.clone()).or_default().push(row));
    groups
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_person_moves_own_groups_and_nothing_else(
        events in prop::collection::vec((1..=STEPS, 0..12usize, 0..5usize), 0..40),
        every in 1..5u64,
        cuts in prop::collection::btree_set(1..STEPS, 0..3),
        mechanism in prop::sample::select(vec!["path-sum", "binary", "smooth", "sqrt"]),
    ) {
        let cuts: Vec<u64> = cuts.into_iter().collect();
        let stream = declared(every, &cuts, mechanism);
        let publish = |with_person| InProcess.publish(&stream, &files(rows(&events, with_person), &cuts));
        let (with, without) = (publish(true), publish(false));
        for outcome in with.iter().chain(&without) {
            prop_assert_eq!(&outcome.refusal, &None);
        }
        // However many runs there were: the result of one run.
        let run = Run { files: cuts.len() + 1, through: None, groups: None };
        let at_once = Declared { runs: vec![run], ..stream.clone() };
        let whole = InProcess.publish(&at_once, &files(rows(&events, true), &cuts));
        prop_assert!(whole[0].table == with.last().unwrap().table);
        for (with, without) in with.iter().zip(&without) {
            let of_person: BTreeSet<String> = events
                .iter()
                .filter(|(.., person)| *person == 0)
                .map(|(_, group, _)| format!("site {group},{}", ["x", "y"][group % 2]))
                .collect();
            let (ours, theirs) = (by_group(&with.table), by_group(&without.table));
            for group in ours.keys().chain(theirs.keys()).filter(|group| !of_person.contains(*group)) {
                prop_assert_eq!(ours.get(group), theirs.get(group), "{} changed", group);
            }
            let mut moved = 0;
            for (group, rows) in ours.iter().filter(|(group, _)| of_person.contains(*group)) {
                let Some(others) = theirs.get(group) else { continue };
                let mut before = 0;
                for (a, b) in rows.iter().zip(others) {
                    prop_assert_eq!(a.step, b.step);
                    let difference = a.value - b.value;
                    prop_assert!(difference >= before, "a sum falls");
                    before = difference;
                }
                moved += before;
            }
            // Four events of 1, in hundred-millionths.
            prop_assert!(moved <= 400_000_000, "{} moved", moved);
            // A group of only the person is not shown: 12 δ for all groups and times.
            let others: BTreeSet<usize> =
                (0..4).chain(events.iter().filter(|(.., person)| *person != 0).map(|(_, group, _)| *group)).collect();
            let own = |group: &String| !others.iter().any(|other| group.starts_with(&format!("site {other},")));
            prop_assert!(!ours.keys().any(own));
        }
        // Something is found.
        prop_assert!(with.last().unwrap().table.len() >= STEPS as usize);
    }
}
