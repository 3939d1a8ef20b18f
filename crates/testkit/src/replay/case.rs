//! Generated declarations, events and neighbours.

mod terms;
mod wide;
mod wide_terms;

use super::pipeline::{Declared, Run};
use super::rows::Row;
use evertally::plan::Plan;
use evertally_declare::declaration::DeclaredGroups;
use evertally_declare::steps::Periods;
use evertally_declare::stream::{Late, Refusable};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::ops::Range;
use terms::{DECLARED, Raw, Terms, name_of, terms};
use wide_terms::wide_terms;

/// A stream, data, and the same data with one unit changed.
#[derive(Clone, Debug)]
pub struct Case {
    /// The stream and its runs.
    pub stream: Declared,
    /// The data, file by file.
    pub files: Vec<Vec<Row>>,
    /// The neighbouring data.
    pub neighbours: Vec<Vec<Row>>,
    /// The person whose rows are changed, if persons are protected.
    pub person: Option<usize>,
    /// The steps of the period of the change; all steps if there are no periods.
    pub period: Range<u64>,
    /// The periods of the horizon.
    pub periods: Periods,
    /// The changed row, if events are protected.
    pub row: usize,
    /// Whether rows are replaced or moved, and not only removed.
    pub replaces: bool,
    /// Whether values encode their person.
    pub codes: Codes,
}

/// The meaning of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// Plain numbers.
    Values,
    /// A power of 32 for every person, so that a sum shows whose events were kept.
    Persons,
}

/// The difference of the neighbour's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Removal,
    Replacement,
    Move,
}

/// A row, its position in its step, and whether it comes late.
#[derive(Clone, Debug)]
struct PlacedRow {
    row: Row,
    at: u8,
    late: bool,
}

impl Case {
    /// The number of persons in the data.
    pub const PERSONS: usize = 4;

    /// The number of events per person that a coded sum can hold.
    pub fn events_of(person: usize, sum: i128) -> u64 {
        (sum >> (5 * person)) as u64 & 31
    }

    /// Whether a row belongs to the changed unit.
    pub fn is_of_unit(&self, row: &Row) -> bool {
        match self.person {
            Some(person) => row.person.as_deref() == Some(name_of(person).as_str()) && self.period.contains(&row.step),
            None => row.number == self.row,
        }
    }

    /// The group in which a row is released, as written in tables.
    pub fn group_of(&self, row: &Row) -> String {
        let Some(columns) = &self.stream.declaration.group_by else { return String::new() };
        let texts: Vec<&str> = (0..columns.len()).map(|at| row.labels[at].as_deref().unwrap_or_default()).collect();
        if DECLARED.iter().any(|tuple| tuple[..columns.len()] == texts[..]) {
            return texts.join(",");
        }
        match &self.stream.declaration.rest {
            Some(rest) => vec![rest.as_str(); columns.len()].join(","),
            None => texts.join(","),
        }
    }

    /// The declared plan.
    ///
    /// # Panics
    /// If the declaration is refused.
    pub fn plan(&self) -> Plan {
        let settings = self.stream.declaration.resolve().expect("a sound declaration");
        evertally_ledger::planner::plan(settings, &mut |_| ()).expect("a plan").0.plan
    }
}

/// Any case: a declaration, its data, a unit and a change of it.
pub fn any_case() -> impl Strategy<Value = Case> {
    (terms(), prop::collection::vec(raw(), 1..28), prop::collection::vec(raw(), 28), any::<[u8; 4]>())
        .prop_map(|(terms, rows, others, picks)| build(&terms, &rows, &others, picks).expect("a sound declaration"))
}

/// The wide case of a number, always the same: see [`spends`](super::spends).
///
/// # Errors
/// The reason, if its declaration is refused.
///
/// # Panics
/// Never, unless cases cannot be generated.
pub fn nth_wide_case(number: u64) -> Result<Case, String> {
    let cases = (wide_terms(), prop::collection::vec(raw(), 1..28), prop::collection::vec(raw(), 28), any::<[u8; 4]>())
        .prop_map(|(terms, rows, others, picks)| build(&terms, &rows, &others, picks));
    nth(cases, number)
}

/// Always the same case for a number.
///
/// # Panics
/// Never, unless cases cannot be generated.
pub fn nth_case(number: u64) -> Case {
    nth(any_case(), number)
}

fn nth<S: Strategy>(cases: S, number: u64) -> S::Value {
    let mut seed = [7; 32];
    seed[..8].copy_from_slice(&number.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    cases.new_tree(&mut runner).expect("cases are never rejected").current()
}

fn raw() -> impl Strategy<Value = Raw> {
    let lacks = prop_oneof![24 => Just(0u8), 1 => 1..4u8];
    let value = prop_oneof![5 => -60..60i32, 1 => -9000..9000i32];
    let rare = (lacks, prop::bool::weighted(0.15));
    (1..1000u64, any::<u8>(), 0..15usize, prop_oneof![3 => Just(0usize), 2 => 0..Case::PERSONS], value, rare)
        .prop_map(|(step, at, group, person, value, (lacks, late))| Raw { step, at, group, person, value, lacks, late })
}

fn build(terms: &Terms, raws: &[Raw], others: &[Raw], picks: [u8; 4]) -> Result<Case, String> {
    let mut declaration = terms.declaration();
    let settings = declaration.resolve().map_err(|problem| problem.to_string())?;
    let (calendar, periods) = (settings.calendar.clone(), settings.periods);
    let placed =
        |number: usize, raw: &Raw| PlacedRow { row: terms.row(&calendar, number, raw), at: raw.at, late: raw.late };
    let rows: Vec<PlacedRow> = (0..).zip(raws).map(|(number, raw)| placed(number, raw)).collect();
    let row = usize::from(picks[0]) % rows.len();
    let person = terms.person.map(|_| raws[row].person);
    let period = match periods.longest() {
        Some(_) => periods.of(rows[row].row.step.clamp(1, terms.steps)),
        None => 0..u64::MAX,
    };
    let change = match picks[1] {
        pick if !terms.wide.is_wide => {
            if pick.is_multiple_of(2) {
                Change::Replacement
            } else {
                Change::Removal
            }
        }
        // Under replace-one no unit is removed.
        pick if terms.replace_one => [Change::Replacement, Change::Move][usize::from(pick) % 2],
        pick => [Change::Removal, Change::Replacement, Change::Move][usize::from(pick) % 3],
    };
    let is_of_unit = |at: usize| match person {
        Some(person) => {
            let Row { person: name, step, .. } = &rows[at].row;
            raws[at].person == person && name.is_some() && period.contains(step)
        }
        None => at == row,
    };
    // The replacement of an event is in the same period.
    let within = |step: u64| match periods.longest() {
        Some(_) => period.start + step % (period.end.min(terms.steps + 1) - period.start),
        None => step,
    };
    let mut changed = Vec::new();
    let mut has_moved = false;
    for (at, kept) in rows.iter().enumerate() {
        match change {
            _ if !is_of_unit(at) => changed.push(kept.clone()),
            Change::Removal => {}
            Change::Replacement => {
                let step = within(others[at].step);
                changed.push(placed(at, &Raw { person: raws[at].person, lacks: 0, step, ..others[at].clone() }));
            }
            // One event of the unit happens elsewhere.
            Change::Move if has_moved => changed.push(kept.clone()),
            Change::Move => {
                let (step, group) = (within(others[at].step), others[at].group);
                changed.push(placed(at, &Raw { step, group, ..raws[at].clone() }));
                has_moved = true;
            }
        }
    }
    let crowd = terms.crowd(&calendar, rows.len());
    let crowd: Vec<PlacedRow> = crowd.into_iter().map(|row| PlacedRow { row, at: 0, late: false }).collect();
    let rows = [rows, crowd.clone()].concat();
    changed.extend(crowd);
    // Files are cut where steps end, so that a run that publishes through that step has all its events.
    let mut cuts: Vec<u64> = (1..terms.runs).map(|at| u64::from(picks[1 + at]) % terms.steps + 1).collect();
    cuts.retain(|cut| *cut < terms.steps);
    cuts.sort_unstable();
    cuts.dedup();
    // All files in one run, or one run per file, which continues the previous one or repeats everything.
    let (in_one, continues) = (picks[0].is_multiple_of(4), picks[1] & 4 != 0 && terms.wide.may_continue());
    // A late event counts in a step other than its own, and belongs to the unit of that step's period.
    let has_periods = periods.longest().is_some();
    let counts_late = continues && !in_one && terms.counts_late && !cuts.is_empty() && !has_periods;
    let in_files = |rows: &[PlacedRow]| -> Vec<Vec<Row>> {
        let mut files = vec![Vec::new(); cuts.len() + 1];
        for placed in rows {
            let own = cuts.partition_point(|cut| *cut < placed.row.step);
            let is_late = counts_late && placed.late && own < cuts.len() && placed.row.step > 0;
            files[own + usize::from(is_late)].push(placed.clone());
        }
        let sorted = |(file, mut rows): (usize, Vec<PlacedRow>)| {
            if !terms.unsorted {
                rows.sort_by_key(|placed| (placed.row.step, placed.at));
            }
            let first_open = if counts_late && file > 0 { cuts[file - 1] + 1 } else { 0 };
            let counted = |placed: PlacedRow| Row { step: placed.row.step.max(first_open), ..placed.row };
            rows.into_iter().map(counted).collect()
        };
        files.into_iter().enumerate().map(sorted).collect()
    };
    declaration.late = counts_late.then_some(Late::NextStep);
    let (files, neighbours) = (in_files(&rows), in_files(&changed));
    let through = terms.wide.is_endless.then(|| calendar.format(calendar.end_of(terms.steps)));
    let last = Run { files: files.len(), through, groups: None };
    let each = cuts.iter().enumerate().map(|(at, cut)| Run {
        files: at + 1,
        through: Some(calendar.format(calendar.end_of(*cut))),
        groups: None,
    });
    let mut runs: Vec<Run> = if in_one { vec![last] } else { each.chain([last]).collect() };
    if let (true, true, Some(DeclaredGroups::Tuples(tuples))) = (terms.wide.joins, continues, &declaration.groups)
        && runs.len() > 1
        && tuples.len() > 1
    {
        runs[0].groups = Some(DeclaredGroups::Tuples(tuples[..tuples.len() - 1].to_vec()));
        declaration.unknown_group = declaration.rest.is_none().then_some(Refusable::Skip);
    }
    if terms.wide.is_wide {
        let settings = declaration.resolve().map_err(|problem| problem.to_string())?;
        evertally_ledger::planner::plan(settings, &mut |_| ()).map_err(|error| error.to_string())?;
    }
    let codes = if terms.codes { Codes::Persons } else { Codes::Values };
    Ok(Case {
        stream: Declared { declaration, format: terms.format, runs, continues, repeats: picks[2] & 4 != 0 },
        files,
        neighbours,
        person,
        period,
        periods,
        row,
        replaces: change != Change::Removal,
        codes,
    })
}
