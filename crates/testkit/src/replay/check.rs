//! Comparison of two replays.

use super::case::{Case, Codes};
use super::pipeline::{Declared, Outcome, Pipeline, REFUSALS, Run, TableRow};
use super::rows::Row;
use evertally::mechanism::LaplaceDistance;
use evertally::noise::DiscreteLaw;
use evertally::plan::Plan;
use evertally::privacy::{Neighbours, PersonBounds};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A violation that a replay shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Protected values move by more than the plan states.
    Moves(String),
    /// The data of other units differ.
    Others(String),
    /// Something other than values depends on the data.
    Visible(String),
    /// Several runs give another result than one.
    Runs(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moves(what) => write!(f, "moves too far: {what}"),
            Self::Others(what) => write!(f, "others change: {what}"),
            Self::Visible(what) => write!(f, "visible: {what}"),
            Self::Runs(what) => write!(f, "runs differ: {what}"),
        }
    }
}

/// The observations of a replay without fault, so that a test can check that there were any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// A run of either data set was refused.
    pub refused: bool,
    /// Sums of steps that differ.
    pub differing: usize,
    /// Units whose kept events were counted.
    pub decoded: usize,
}

/// The differences of one table's sums from another's, by step and group, in multiples of the grid.
type Sums = BTreeMap<(u64, String), i128>;

/// Replays a case.
///
/// # Errors
/// The first fault.
pub fn check(pipeline: &dyn Pipeline, case: &Case) -> Result<Findings, Fault> {
    let publish = |stream: &Declared, files: &[Vec<Row>]| pipeline.publish(stream, files);
    let nobody = vec![Vec::new(); case.files.len()];
    let ours = publish(&case.stream, &case.files);
    let theirs = publish(&case.stream, &case.neighbours);
    let empty = publish(&case.stream, &nobody);
    let mut findings = Findings::default();
    for (other, is_neighbour) in [(&theirs, true), (&empty, false)] {
        if outcomes_differ(&ours, other, is_neighbour)? {
            return Ok(Findings { refused: true, ..findings });
        }
    }
    if let Some(message) = ours.iter().find_map(|outcome| outcome.refusal.clone()) {
        return Err(Fault::Visible(format!("refused without any data: {message}")));
    }
    let (Some(ours), Some(theirs), Some(empty)) = (published(&ours)?, published(&theirs)?, published(&empty)?) else {
        return Ok(findings);
    };
    let plan = case.plan();
    let moved = sums(&plan, &ours, &theirs)?;
    findings.differing = moved.values().filter(|sum| **sum != 0).count();
    where_the_unit_is(case, &moved)?;
    spread(case, &plan, &moved)?;
    norms(case, &plan, &moved)?;
    if case.codes == Codes::Persons {
        findings.decoded = kept(case, &plan, &sums(&plan, &ours, &empty)?, &sums(&plan, &theirs, &empty)?)?;
    }
    check_single_run(pipeline, case, &ours)?;
    Ok(findings)
}

/// Whether either ends in a documented refusal; everything except values must be equal.
pub(super) fn outcomes_differ(ours: &[Outcome], theirs: &[Outcome], is_neighbour: bool) -> Result<bool, Fault> {
    for (number, (a, b)) in (1..).zip(ours.iter().zip(theirs)) {
        let refusals: Vec<&String> = [&a.refusal, &b.refusal].into_iter().flatten().collect();
        if let Some(message) = refusals.iter().find(|message| !REFUSALS.iter().any(|known| message.contains(known))) {
            if a.refusal != b.refusal {
                return Err(Fault::Visible(format!("run {number} ends in an undocumented refusal for one: {message}")));
            }
        } else if !refusals.is_empty() {
            let left = |outcome: &Outcome| outcome.refusal.is_some() && !outcome.table.is_empty();
            if left(a) || left(b) {
                return Err(Fault::Visible(format!("run {number} was refused and published")));
            }
            return Ok(true);
        }
        let what = if is_neighbour { "for its neighbour" } else { "without events" };
        if a.table.len() != b.table.len() {
            let (a, b) = (a.table.len(), b.table.len());
            return Err(Fault::Visible(format!("run {number} has {a} rows, and {b} {what}")));
        }
        if let Some((a, b)) = a.table.iter().zip(&b.table).find(|(a, b)| a.fixed != b.fixed) {
            return Err(Fault::Visible(format!("run {number} has a row {}, and {} {what}", a.fixed, b.fixed)));
        }
        let names = |outcome: &Outcome| outcome.files.keys().cloned().collect::<Vec<_>>();
        if names(a) != names(b) {
            return Err(Fault::Visible(format!("run {number} leaves {:?}, but {:?} {what}", names(a), names(b))));
        }
        if let Some((name, text)) = a.files.iter().find(|(name, text)| b.files[*name] != **text) {
            let mut lines = text.lines().zip(b.files[name].lines());
            let (ours, theirs) = lines.find(|(ours, theirs)| ours != theirs).unwrap_or(("longer or shorter", ""));
            return Err(Fault::Visible(format!("{name} of run {number} differs {what}: {ours:?}, {theirs:?}")));
        }
    }
    Ok(false)
}

/// The table of the last run, which must continue where the earlier ones ended.
pub(super) fn published(outcomes: &[Outcome]) -> Result<Option<Vec<TableRow>>, Fault> {
    let Some(last) = outcomes.last() else { return Ok(None) };
    for (number, outcome) in (1..).zip(outcomes) {
        if !last.table.starts_with(&outcome.table) {
            return Err(Fault::Runs(format!("the last run publishes other rows than run {number}")));
        }
    }
    Ok(Some(last.table.clone()))
}

/// However many runs there were, the result is that of one run over everything.
pub(super) fn check_single_run(pipeline: &dyn Pipeline, case: &Case, table: &[TableRow]) -> Result<(), Fault> {
    // In one run, an event that came late would have come in time.
    if case.stream.runs.len() == 1 || case.stream.declaration.late.is_some() {
        return Ok(());
    }
    let through = case.stream.runs.last().and_then(|run| run.through.clone());
    let runs = vec![Run { files: case.files.len(), through, groups: None }];
    let at_once =
        pipeline.publish(&Declared { runs, continues: false, repeats: false, ..case.stream.clone() }, &case.files);
    if at_once[0].refusal.is_some() || at_once[0].table != table {
        return Err(Fault::Runs("one run over everything publishes a different table".into()));
    }
    Ok(())
}

/// The difference of two tables, as sums of steps.
fn sums(plan: &Plan, ours: &[TableRow], theirs: &[TableRow]) -> Result<Sums, Fault> {
    let grid = (plan.request().grid().to_f64(1) * 1e8).round() as i128;
    let mut running: BTreeMap<&str, i128> = BTreeMap::new();
    let mut sums = Sums::new();
    for (a, b) in ours.iter().zip(theirs) {
        let difference = a.value - b.value;
        if difference % grid != 0 {
            return Err(Fault::Moves(format!(
                "step {} differs by {difference}e-8, not a multiple of the grid",
                a.step
            )));
        }
        let before = running.insert(&a.group, difference / grid).unwrap_or(0);
        sums.insert((a.step, a.group.clone()), difference / grid - before);
    }
    Ok(sums)
}

/// Nothing moves where the unit has no events in either data set.
fn where_the_unit_is(case: &Case, moved: &Sums) -> Result<(), Fault> {
    let rows = case.files.iter().chain(&case.neighbours).flatten().filter(|row| case.is_of_unit(row));
    let places: BTreeSet<(u64, String)> = rows.map(|row| (row.step, case.group_of(row))).collect();
    match moved.iter().find(|(place, sum)| **sum != 0 && !places.contains(place)) {
        Some(((step, group), sum)) => {
            Err(Fault::Others(format!("step {step} of `{group}` moves by {sum}, where the unit has no event")))
        }
        None => Ok(()),
    }
}

/// The case's change as a number of changes of the plan's unit: a replacement is two changes under add-remove.
pub(super) fn changes(case: &Case) -> u32 {
    if case.replaces { 2 } else { 1 }
}

/// Checks the numbers of events in total and per step, each within its bounds.
fn spread(case: &Case, plan: &Plan, moved: &Sums) -> Result<(), Fault> {
    let request = plan.request();
    let one = PersonBounds { max_events: 1, ..PersonBounds::default() };
    let bounds = request.unit().bounds().unwrap_or(one);
    let (total, per_step) = (bounds.max_events, bounds.max_events_per_step.unwrap_or(bounds.max_events));
    let (lower, upper) = request.values().bounds();
    let size = i128::from(lower.unsigned_abs().max(upper.unsigned_abs())) * i128::from(changes(case));
    let moves = moved.values().map(|sum| sum.abs()).sum::<i128>();
    if moves > i128::from(total) * size {
        return Err(Fault::Moves(format!("{total} events of size {size} cannot move sums by {moves}")));
    }
    let mut groups: BTreeMap<&String, i128> = BTreeMap::new();
    moved
        .iter()
        .filter(|(_, sum)| **sum != 0)
        .for_each(|((_, group), sum)| *groups.entry(group).or_default() += sum.abs());
    let per_group = bounds.max_events_per_group.unwrap_or(total);
    if let Some((group, moves)) = groups.iter().find(|(_, moves)| **moves > i128::from(per_group) * size) {
        return Err(Fault::Moves(format!("{per_group} events of size {size} cannot move group {group} by {moves}")));
    }
    if let Some(most) = bounds.max_groups.filter(|most| groups.len() as u64 > most * u64::from(changes(case))) {
        return Err(Fault::Moves(format!("{} groups move, but one person may be in at most {most}", groups.len())));
    }
    let mut steps: BTreeMap<u64, i128> = BTreeMap::new();
    moved.iter().for_each(|((step, _), sum)| *steps.entry(*step).or_default() += sum.abs());
    match steps.iter().find(|(_, moves)| **moves > i128::from(per_step) * size) {
        Some((step, moves)) => {
            Err(Fault::Moves(format!("{per_step} events of size {size} cannot move step {step} by {moves}")))
        }
        None => Ok(()),
    }
}

/// The nodes of the mechanism move no further than the norms that the noise was calibrated to, nor than the guarantee.
fn norms(case: &Case, plan: &Plan, moved: &Sums) -> Result<(), Fault> {
    const ROUNDING: f64 = 1.0 + 1e-9;
    let (mechanism, sensitivity) = (plan.mechanism(), plan.request().sensitivity().expect("planned"));
    let r = mechanism.dense().r;
    let distance = LaplaceDistance::new(mechanism.clone());
    let groups: BTreeSet<&String> = moved.keys().map(|(_, group)| group).collect();
    let (mut l1, mut squared) = (0.0, 0.0);
    for group in groups {
        let step = |step: usize| moved.get(&(step as u64 + 1, group.clone())).map_or(0.0, |sum| *sum as f64);
        let steps: Vec<f64> = (0..r.shape().1).map(step).collect();
        l1 += distance.of(&steps);
        for node in 0..r.shape().0 {
            let sum: f64 = r.row(node).iter().zip(&steps).map(|(weight, sum)| weight * sum).sum();
            squared += sum * sum;
        }
    }
    // A change under replace-one already is a replacement.
    let twice = if plan.request().neighbours() == Neighbours::ReplaceOne { 1.0 } else { f64::from(changes(case)) };
    let l1_bound = sensitivity.l1 as f64 * mechanism.column_norms().l1 * twice;
    let squared_bound = sensitivity.squared(&**mechanism) * twice * twice;
    if l1 > l1_bound * ROUNDING || squared > squared_bound * ROUNDING {
        return Err(Fault::Moves(format!("nodes by {l1} of {l1_bound} (L1), {squared} of {squared_bound} (squared)")));
    }
    let (guarantee, unit) = (plan.guarantee(), plan.noise_divisor() as f64);
    let (spent, promised) = match plan.law() {
        DiscreteLaw::Laplace(law) => {
            let epsilon = guarantee.pure_epsilon.expect("of Laplace noise").get();
            (l1 * unit / law.scale().to_f64(), epsilon * twice)
        }
        DiscreteLaw::Gaussian(law) if !plan.exact_accounting() => {
            (squared * unit * unit / (2.0 * law.parameter().to_f64()), guarantee.rho.get() * twice * twice)
        }
        DiscreteLaw::Gaussian(_) => return Ok(()),
    };
    if spent > promised * (1.0 + 1e-6) {
        return Err(Fault::Moves(format!("this pair spends {spent} of {promised}")));
    }
    Ok(())
}

/// Values are codes: a step's sum shows how many events of each person were kept. The unit's are within its bounds in
/// either data set, and those of all others are the same. Returns the number of counted units.
fn kept(case: &Case, plan: &Plan, ours: &Sums, theirs: &Sums) -> Result<usize, Fault> {
    let (Some(bounds), Some(changed)) = (plan.request().unit().bounds(), case.person) else { return Ok(0) };
    let mut counted = 0;
    for person in 0..Case::PERSONS {
        let mut of_person = [BTreeMap::new(), BTreeMap::new()];
        for (counts, sums) in of_person.iter_mut().zip([ours, theirs]) {
            let mut periods: BTreeMap<u64, Vec<(&(u64, String), u64)>> = BTreeMap::new();
            for (place, sum) in sums {
                if *sum < 0 {
                    return Err(Fault::Others(format!("the sum of step {} is negative: {sum}", place.0)));
                }
                let events = Case::events_of(person, *sum);
                periods.entry(case.periods.of(place.0).start).or_default().push((place, events));
                counts.insert(place.clone(), events);
            }
            for (first, events) in &periods {
                let events: Vec<_> = events.iter().filter(|(_, events)| *events > 0).copied().collect();
                if let Some(what) = beyond(bounds, &events) {
                    let period = format!("in the period since step {first}");
                    return Err(Fault::Moves(format!("events kept of person {person} {period}: {what}")));
                }
            }
            counted += usize::from(counts.values().any(|events| *events > 0));
        }
        let others = |counts: &BTreeMap<(u64, String), u64>| -> Vec<u64> {
            let is_other = |step: u64| person != changed || !case.period.contains(&step);
            counts.iter().filter(|((step, _), _)| is_other(*step)).map(|(_, events)| *events).collect()
        };
        if others(&of_person[0]) != others(&of_person[1]) {
            return Err(Fault::Others(format!("the neighbour keeps other events of person {person}")));
        }
    }
    Ok(counted)
}

/// The bound that a person's kept events exceed in one period, by step and group.
fn beyond(bounds: PersonBounds, events: &[(&(u64, String), u64)]) -> Option<String> {
    let (mut steps, mut groups) = (BTreeMap::new(), BTreeMap::new());
    for ((step, group), events) in events {
        *steps.entry(*step).or_insert(0) += events;
        *groups.entry(group).or_insert(0) += events;
    }
    let all: u64 = steps.values().sum();
    let above = |bound: Option<u64>, found: u64| bound.is_some_and(|bound| found > bound);
    let most = |counts: &mut dyn Iterator<Item = u64>| counts.max().unwrap_or(0);
    let gap = steps.keys().zip(steps.keys().skip(1)).map(|(step, next)| next - step).min();
    [
        (above(Some(bounds.max_events), all), format!("{all} events, at most {} allowed", bounds.max_events)),
        (above(bounds.max_events_per_step, most(&mut steps.values().copied())), "too many events in a step".into()),
        (above(bounds.max_events_per_group, most(&mut groups.values().copied())), "too many events in a group".into()),
        (above(bounds.max_groups, groups.len() as u64), "events in too many groups".into()),
        (gap.is_some_and(|gap| gap < bounds.min_gap.unwrap_or(1)), "events in steps too close to each other".into()),
    ]
    .into_iter()
    .find_map(|(is_beyond, what)| is_beyond.then_some(what))
}
