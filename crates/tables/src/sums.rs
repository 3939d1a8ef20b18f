//! Releases exact sums that the caller has computed: for engines that count by themselves.
//!
//! No state is kept between calls. **The caller must make sure that one step of one group has only one sum**, ever: two
//! releases of it with different sums have the same noise, and their difference is exact. [`Publisher`] ensures that,
//! with a ledger of every release; the functions here do not.
//!
//! [`Publisher`]: evertally_cluster::Publisher

use crate::input::{Events, ReadOptions};
use crate::output::TableSpec;
use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use evertally::noise::{GuardedKey, StreamName};
use evertally::number::Grid;
use evertally::plan::{Intervals, Plan};
use evertally::stream::{Release, StatelessSum, StatelessSums, StepPass};
use evertally_declare::error::{PipelineError, Result, failure, usage};
use evertally_declare::event::{ColumnRole, Columns, Event};
use evertally_declare::groups::GroupTable;
use evertally_declare::identity::Identities;
use evertally_declare::problem::Sentence;
use evertally_declare::tuples::encode;
use evertally_declare::words::quoted;
use evertally_publish::rows::seven_digits;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The columns of a table of sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumColumns {
    /// The columns that name the group; empty for a stream without groups.
    pub groups: Vec<String>,
    /// The step, from 1.
    pub step: String,
    /// The sum, in units of the data.
    pub sum: String,
}

/// Released sums, and the exact release that each noise was issued for. Record `issued` before anyone sees the table:
/// other sums with the same noise would show their exact difference.
pub struct ReleasedSums {
    /// The rows.
    pub table: RecordBatch,
    /// For each group, by its labels: steps and [exact](Release::exact) releases, in the order of the rows.
    pub issued: HashMap<Vec<String>, Vec<(u64, i128)>>,
}

/// The stream whose sums are released.
#[doc(alias = "Stream")]
#[derive(Debug)]
pub struct SumsStream<'s> {
    /// The plan.
    pub plan: &'s Plan,
    /// The key.
    pub key: &'s GuardedKey,
    /// The name under the key.
    pub name: &'s StreamName,
    /// Confidence of the intervals.
    pub confidence: f64,
}

/// Releases exact running sums (or the plan's workload), one row for each row of the table, in order: a pure function
/// of each row on its own, in `O(log T)`.
///
/// The values equal those of a [release](crate::released) in which all groups have the same weight and every step is
/// published. If `declared` groups are named, a row of another group is refused; otherwise all groups are released.
///
/// If the plan correlates the noise of groups, all of them are declared, in the plan's order, the same in every call.
///
/// # Errors
/// If the plan's mechanism has no random access, or a row has no valid step and sum, or belongs to a group that is not
/// declared.
pub fn release_sums(
    stream: &SumsStream<'_>,
    table: &mut (dyn RecordBatchReader + Send),
    columns: &SumColumns,
    declared: Option<&[Vec<String>]>,
    cancelled: &AtomicBool,
) -> Result<ReleasedSums> {
    check_correlation(stream.plan, columns, declared)?;
    let sums = StatelessSums::new(stream.plan.clone(), stream.key, stream.name.clone())?;
    let mut rows = ReleasedColumns::new(stream, columns)?;
    let names = Names::new(stream, declared)?;
    // For each group its part of the mechanism, and the sums of its steps in this table.
    let mut groups: HashMap<Vec<String>, (StatelessSum<'_>, HashMap<u64, i64>)> = HashMap::new();
    for_each_sum(stream, table, columns, &names, cancelled, |event, group, step, sum| {
        if !groups.contains_key(group) {
            let cell = match group {
                [] => sums.total()?,
                group => sums.of_group(&name_of(group)),
            };
            groups.insert(group.to_vec(), (cell, HashMap::new()));
        }
        let (cell, seen) = groups.get_mut(group).expect("it is there");
        if *seen.entry(step).or_insert(sum) != sum {
            let problem = "the table has this step of this group with another sum; a step can have only one sum";
            return Err(event.error(ColumnRole::Value, problem).into());
        }
        let release = cell.release(step, sum).map_err(|error| at(event, error))?;
        rows.push(group, &release)
    })?;
    rows.finish()
}

/// Releases increments of single steps, for every mechanism: all steps from the first through one, for each of these
/// groups, in the order in which they are named. Rows of one step and group are added up, and may be in any order.
///
/// # Errors
/// If a row has no valid step and sum, or belongs to a group that is not among them, or a running sum leaves 64 bits.
pub fn release_steps(
    stream: &SumsStream<'_>,
    table: &mut (dyn RecordBatchReader + Send),
    columns: &SumColumns,
    groups: &[Vec<String>],
    through: u64,
    cancelled: &AtomicBool,
) -> Result<ReleasedSums> {
    if through == 0 || through > stream.plan.horizon() {
        let horizon = stream.plan.horizon();
        return Err(usage(format!("there is no step {through}: they are numbered 1 to {horizon}")));
    }
    let of_all = [Vec::new()];
    let groups = if columns.groups.is_empty() { &of_all[..] } else { groups };
    check_correlation(stream.plan, columns, Some(groups))?;
    let mut added: HashMap<&[String], BTreeMap<u64, i64>> = HashMap::new();
    for group in groups {
        if added.insert(group, BTreeMap::new()).is_some() {
            return Err(usage(format!("group `{}` is named twice", group.join(", "))));
        }
    }
    let names = Names::new(stream, Some(groups))?;
    for_each_sum(stream, table, columns, &names, cancelled, |event, group, step, sum| {
        if step == 0 || step > through {
            return Err(event.bad_cell(ColumnRole::Time, format!("is not a step from 1 through {through}")).into());
        }
        let steps = added.get_mut(group).expect("it is among the names");
        let total = steps.entry(step).or_default();
        *total = total.checked_add(sum).ok_or_else(|| usage("the sum of a step leaves 64 bits; use a coarser grid"))?;
        Ok(())
    })?;
    let mut rows = ReleasedColumns::new(stream, columns)?;
    for group in groups {
        let (plan, name) = (stream.plan.clone(), stream.name.clone());
        let mut pass = match group.as_slice() {
            [] => StepPass::total(plan, stream.key, name),
            group => StepPass::for_group(plan, stream.key, name, &name_of(group)),
        }?;
        for step in 1..=through {
            let sum = added[&group[..]].get(&step).copied().unwrap_or(0);
            rows.push(group, &pass.release(step, sum)?)?;
        }
    }
    rows.finish()
}

/// Refuses a plan whose noise is correlated between other groups than these. A plan that records no groups shows only
/// their number.
fn check_correlation(plan: &Plan, columns: &SumColumns, groups: Option<&[Vec<String>]>) -> Result<()> {
    let Some(correlation) = plan.correlation() else { return Ok(()) };
    let meaning = plan.request().meaning();
    if let Some(groups) = groups.filter(|groups| groups.len() as u64 == correlation.groups()) {
        let ids = Identities::from_meaning(meaning.get("normalise-ids").map(String::as_str));
        let table = GroupTable::from_tuples(columns.groups.clone(), groups.to_vec(), None, ids);
        let is_of_plan = |recorded: &String| table.as_ref().is_ok_and(|table| table.meaning() == *recorded);
        if meaning.get("groups").is_none_or(is_of_plan) {
            return Ok(());
        }
    }
    Err(usage(format!(
        "the plan correlates the noise of {} groups: name exactly these in every call, in the order of the plan (the \
         rest last), or use a plan without correlated groups",
        correlation.groups()
    )))
}

fn not_declared(row: &Event<'_>, group: &[String]) -> PipelineError {
    row.error(ColumnRole::Label(0), format!("`{}` is not among the groups", group.join(", "))).into()
}

/// The library's name for a declared group.
fn name_of(group: &[String]) -> Vec<u8> {
    [vec![0], encode(group)].concat()
}

fn at(event: &Event<'_>, error: evertally::Error) -> PipelineError {
    match error.is_invalid() {
        true => event.error(ColumnRole::Value, error.to_string()).into(),
        false => error.into(),
    }
}

/// Maps rows to their groups.
struct Names<'g> {
    ids: Identities,
    /// From the identities of declared groups to their names.
    declared: Option<HashMap<Vec<String>, &'g [String]>>,
}

impl<'g> Names<'g> {
    fn new(stream: &SumsStream<'_>, declared: Option<&'g [Vec<String>]>) -> Result<Self> {
        let ids = Identities::from_meaning(stream.plan.request().meaning().get("normalise-ids").map(String::as_str));
        let mut names = HashMap::new();
        for group in declared.into_iter().flatten() {
            let part =
                |name: &String| ids.canonical_name(name).map_err(|why| usage(Sentence::from("group ").then(why)));
            let identity = group.iter().map(part).collect::<Result<Vec<_>>>()?;
            let first = names.insert(identity, group.as_slice());
            if let Some(first) = first.filter(|first| first != group) {
                let (first, group) = (first.join(", "), group.join(", "));
                return Err(usage(format!("group `{group}` is named twice: `{first}` is another spelling of it")));
            }
        }
        Ok(Self { ids, declared: declared.map(|_| names) })
    }

    /// The name of a row's group, as declared.
    fn of(&self, row: &Event<'_>) -> Result<Vec<String>> {
        let part = |column| {
            let (role, mut scratch) = (ColumnRole::Label(column), String::new());
            let name = row.identity(role, self.ids, &mut scratch)?;
            let name = name.ok_or_else(|| row.error(role, "the row has no group"))?;
            // One group under two names would be released twice, with independent noise.
            if self.declared.is_none() && name != row.label(column).to_string() {
                let remedy = format!("write it as {}, or name the groups", quoted(name));
                return Err(row.bad_cell(role, "is not the canonical form of this group").remedy(remedy).into());
            }
            Ok(name.to_owned())
        };
        let identity = (0..row.label_count()).map(part).collect::<Result<Vec<_>>>()?;
        let Some(declared) = &self.declared else { return Ok(identity) };
        declared.get(&identity).map(|name| name.to_vec()).ok_or_else(|| not_declared(row, &identity))
    }
}

/// Visits step, group and sum of every row.
fn for_each_sum(
    stream: &SumsStream<'_>,
    table: &mut (dyn RecordBatchReader + Send),
    columns: &SumColumns,
    names: &Names<'_>,
    cancelled: &AtomicBool,
    mut visit: impl FnMut(&Event<'_>, &[String], u64, i64) -> Result<()>,
) -> Result<()> {
    let SumColumns { groups, step, sum } = columns.clone();
    let wanted =
        Columns { time: step, time_of_day: None, labels: groups, person: None, value: Some(sum), filter: Vec::new() };
    let grid = stream.plan.request().grid();
    let options = ReadOptions::default();
    let mut rows = Events::from_table(table, &wanted, &options, cancelled)?;
    while rows.next_batch::<PipelineError>(&mut |row| {
        let step = row.step_number().ok_or_else(|| row.bad_cell(ColumnRole::Time, "is not a step number"))?;
        let sum = row.sum_on(grid)?.ok_or_else(|| row.error(ColumnRole::Value, "the row has no sum"))?;
        visit(row, &names.of(row)?, step, sum)
    })? {}
    Ok(())
}

/// Released rows as columns.
struct ReleasedColumns<'s> {
    plan: &'s Plan,
    intervals: Intervals,
    names: Vec<String>,
    groups: Vec<StringBuilder>,
    steps: Int64Builder,
    whole: Option<Int64Builder>,
    figures: [Float64Builder; 4],
    errors: HashMap<u64, (f64, i128)>,
    issued: HashMap<Vec<String>, Vec<(u64, i128)>>,
}

impl<'s> ReleasedColumns<'s> {
    fn new(stream: &SumsStream<'s>, columns: &SumColumns) -> Result<Self> {
        TableSpec::new(columns.groups.clone(), true).map_err(usage)?;
        let has_groups = stream.plan.request().meaning().contains_key("groups") || stream.plan.threshold().is_some();
        if has_groups && columns.groups.is_empty() {
            // All groups would get the noise of the one sum, and their differences would be exact.
            return Err(usage("the plan is for groups: name the columns of the group"));
        }
        if stream.plan.threshold().is_some() {
            return Err(usage("the plan discovers groups, which needs all of their steps; release the events instead"));
        }
        let plan = stream.plan;
        let is_whole = plan.request().grid() == Grid::ONE && plan.fraction_bits() == 0;
        Ok(Self {
            plan,
            intervals: plan.intervals(stream.confidence)?,
            names: columns.groups.clone(),
            groups: columns.groups.iter().map(|_| StringBuilder::new()).collect(),
            steps: Int64Builder::new(),
            whole: is_whole.then(Int64Builder::new),
            figures: Default::default(),
            errors: HashMap::new(),
            issued: HashMap::new(),
        })
    }

    fn push(&mut self, group: &[String], release: &Release) -> Result<()> {
        let step = release.step();
        let known = self.errors.get(&step).copied();
        let (std_error, half_width) = match known {
            Some(known) => known,
            None => {
                let half = i128::try_from(self.intervals.half_width(step));
                let half = half.map_err(|_| failure("the interval is too wide to write"))?;
                let errors = (seven_digits(self.plan.std_error(step)), half);
                self.errors.insert(step, errors);
                errors
            }
        };
        match self.issued.get_mut(group) {
            Some(issued) => issued.push((step, release.exact())),
            None => drop(self.issued.insert(group.to_vec(), vec![(step, release.exact())])),
        }
        self.groups.iter_mut().zip(group).for_each(|(column, text)| column.append_value(text));
        self.steps.append_value(step as i64); // fits: below 2^62
        if let Some(whole) = &mut self.whole {
            let value = i64::try_from(release.multiple());
            whole.append_value(value.map_err(|_| failure("a value does not fit 64 bits"))?);
        }
        let (lower, upper) = (release.shifted(-half_width).value(), release.shifted(half_width).value());
        for (column, number) in self.figures.iter_mut().zip([release.value(), std_error, lower, upper]) {
            column.append_value(number);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<ReleasedSums> {
        let [mut value, figures @ ..] = self.figures;
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for (name, column) in self.names.into_iter().zip(&mut self.groups) {
            columns.push((name, Arc::new(column.finish())));
        }
        columns.push(("step".to_owned(), Arc::new(self.steps.finish())));
        let value: ArrayRef = match self.whole {
            Some(mut whole) => Arc::new(whole.finish()),
            None => Arc::new(value.finish()),
        };
        columns.push(("value".to_owned(), value));
        for (name, mut column) in ["std_error", "lower", "upper"].into_iter().zip(figures) {
            columns.push((name.to_owned(), Arc::new(column.finish())));
        }
        let table = RecordBatch::try_from_iter(columns).map_err(failure)?;
        Ok(ReleasedSums { table, issued: self.issued })
    }
}
