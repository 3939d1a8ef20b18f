//! Queries on a released history: the value of an interval of steps, for several groups, and compared with another
//! interval or other groups, each with its confidence interval.
//!
//! A query uses only the released table and its plan: no key, no events, no budget. The noise of a difference is that
//! of two releases that share most of their noise, so its variance comes from the plan's covariances, not from the
//! columns of the table. Groups, and streams that follow one another, have independent noise. The confidence set of a
//! ratio is that of Fieller, which can be an interval, the outside of one, or everything.

mod rows;
mod steps;
mod values;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use evertally::plan::{Combination, Plan, RatioIntervals, RatioSet};
use evertally_declare::error::{Result, failure, refuse_if, usage};
use evertally_declare::event::{Columns, Event};
use evertally_declare::settings::Assertion;
use evertally_declare::words::quoted;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::input::{Events, ReadOptions, for_each_event};
use rows::HistoryVisitor;
use steps::TableSteps;
use values::StepValues;

/// A query on a history.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// Start of the stretch: a time at which a step begins, or the number of its first step; by default, the start of
    /// the history.
    pub from: Option<String>,
    /// End of the stretch: a time at which a step ends, or the number of its last step; by default, the end of the
    /// table.
    pub to: Option<String>,
    /// The groups, each with its texts joined by `/`; all groups of the table if none are named.
    pub groups: Vec<String>,
    /// The comparison.
    pub compared_with: ComparedWith,
    /// Confidence of all intervals.
    pub confidence: f64,
}

/// The denominator of ratios.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ComparedWith {
    /// Nothing.
    #[default]
    Nothing,
    /// Another stretch of the same groups, from and to.
    Stretch(String, String),
    /// The same stretch, summed over other groups.
    Groups(Vec<String>),
    /// The same stretch, summed over all groups of the table.
    All,
}

/// The answer to a query.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// First and last step of the stretch.
    pub steps: [u64; 2],
    /// Its start and end times.
    pub times: [String; 2],
    /// The same for the stretch of the comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside_steps: Option<[u64; 2]>,
    /// Confidence of each interval on its own.
    pub confidence: f64,
    /// The group columns.
    pub group_columns: Vec<String>,
    /// One row per group; with several groups, a last row for their total.
    pub rows: Vec<HistoryRow>,
    /// Caveats about the rows.
    pub notes: Vec<String>,
}

/// The value of one group, or of several together.
#[doc(alias = "Row")]
#[derive(Clone, Debug, Serialize)]
pub struct HistoryRow {
    /// The group's texts; `None` for several together.
    pub group: Option<Vec<String>>,
    /// The released estimate.
    pub value: f64,
    /// Its standard error.
    pub std_error: f64,
    /// Lower end of its interval.
    pub lower: f64,
    /// Upper end of its interval.
    pub upper: f64,
    /// Its ratio to the comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<RatioInterval>,
}

/// A ratio with its confidence set.
#[doc(alias = "Ratio")]
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RatioInterval {
    /// The ratio of the released estimates.
    pub value: f64,
    /// Whether the true ratio is `between` two numbers, `outside` of them, or `anything`.
    pub set: &'static str,
    /// The lower of the two.
    pub lower: Option<f64>,
    /// The upper one.
    pub upper: Option<f64>,
}

impl RatioInterval {
    fn new(value: f64, set: RatioSet) -> Self {
        let (set, ends) = match set {
            RatioSet::Between(lower, upper) => ("between", Some((lower, upper))),
            RatioSet::Outside(lower, upper) => ("outside", Some((lower, upper))),
            RatioSet::Everything => ("anything", None),
        };
        Self { value, set, lower: ends.map(|ends| ends.0), upper: ends.map(|ends| ends.1) }
    }
}

impl Answer {
    /// The rows as a table: the group columns (missing in the row of the total), `value`, `std_error`, `lower`,
    /// `upper`, and, if there are ratios, `ratio`, `ratio_set`, `ratio_lower` and `ratio_upper`.
    ///
    /// # Errors
    /// None is expected.
    pub fn table(&self) -> Result<RecordBatch> {
        let mut fields = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        for (place, name) in self.group_columns.iter().enumerate() {
            fields.push(Field::new(name, DataType::Utf8, true));
            let texts = self.rows.iter().map(|row| row.group.as_ref().map(|group| group[place].clone()));
            columns.push(Arc::new(StringArray::from_iter(texts)));
        }
        let mut put = |name: &str, of: &dyn Fn(&HistoryRow) -> Option<f64>| {
            fields.push(Field::new(name, DataType::Float64, true));
            columns.push(Arc::new(Float64Array::from_iter(self.rows.iter().map(of))));
        };
        put("value", &|row| Some(row.value));
        put("std_error", &|row| Some(row.std_error));
        put("lower", &|row| Some(row.lower));
        put("upper", &|row| Some(row.upper));
        if self.rows.iter().any(|row| row.ratio.is_some()) {
            put("ratio", &|row| row.ratio.map(|ratio| ratio.value));
            put("ratio_lower", &|row| row.ratio.and_then(|ratio| ratio.lower));
            put("ratio_upper", &|row| row.ratio.and_then(|ratio| ratio.upper));
            fields.push(Field::new("ratio_set", DataType::Utf8, true));
            columns
                .push(Arc::new(StringArray::from_iter(self.rows.iter().map(|row| row.ratio.map(|ratio| ratio.set)))));
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(failure)
    }
}

/// Queries a table in files: CSV, JSON lines or Parquet, or a folder of these.
///
/// # Errors
/// If the table does not belong to the plan, or lacks the requested groups or steps.
pub fn ask_files(table: &Path, plan: &Plan, question: &HistoryQuery, cancelled: &AtomicBool) -> Result<Answer> {
    let files: Vec<PathBuf> = crate::output::files_of(&evertally_ledger::disk::RealDisk, table)?;
    if files.is_empty() {
        return Err(usage(format!("{}: there is no such table", table.display())));
    }
    let rows = |columns: &Columns, visit: &mut dyn FnMut(&Event<'_>) -> Result<()>| -> Result<()> {
        for_each_event(&files, columns, &ReadOptions::default(), &(), cancelled, visit).map(drop)
    };
    ask(&rows, plan, question)
}

/// Queries a table in memory.
///
/// # Errors
/// As [`ask_files`].
pub fn ask_batches(
    batches: &[RecordBatch],
    plan: &Plan,
    question: &HistoryQuery,
    cancelled: &AtomicBool,
) -> Result<Answer> {
    let rows = |columns: &Columns, visit: &mut dyn FnMut(&Event<'_>) -> Result<()>| -> Result<()> {
        let Some(first) = batches.first() else { return Ok(()) };
        let all = batches.iter().cloned().map(Ok);
        let mut reader = arrow_array::RecordBatchIterator::new(all, first.schema());
        let options = ReadOptions::default();
        let mut events = Events::from_table(&mut reader, columns, &options, cancelled)?;
        while events.next_batch(visit)? {
            refuse_if(cancelled)?;
        }
        Ok(())
    };
    ask(&rows, plan, question)
}

fn ask(rows: &HistoryVisitor<'_>, plan: &Plan, question: &HistoryQuery) -> Result<Answer> {
    let group_columns = group_columns(plan)?;
    let steps = TableSteps::read(rows, plan)?;
    let stretch = steps.stretch(question.from.as_deref(), question.to.as_deref())?;
    let compared_with = match &question.compared_with {
        ComparedWith::Stretch(from, to) => Some(steps.stretch(Some(from), Some(to))?),
        _ => None,
    };
    let wanted = [Some(stretch), compared_with].into_iter().flatten().flatten();
    let values = StepValues::read(rows, plan, &group_columns, wanted.filter(|step| *step > 0).collect())?;

    let chosen = values.chosen(&question.groups)?;
    let others = match &question.compared_with {
        ComparedWith::Groups(names) if names.is_empty() => return Err(usage("name a group to compare with")),
        ComparedWith::Groups(names) => Some(values.chosen(names)?),
        ComparedWith::All => Some(values.chosen(&[])?),
        ComparedWith::Nothing | ComparedWith::Stretch(..) => None,
    };
    let mut intervals = RatioIntervals::new(question.confidence)?;
    let mut row = |group: Option<Vec<String>>, places: &[usize]| -> Result<HistoryRow> {
        let (value, combination) = values.total(places, stretch)?;
        let half_width = plan.half_width_of(&combination, question.confidence)?;
        let denominator = match (&others, compared_with) {
            (Some(others), _) => Some(values.total(others, stretch)?),
            (None, Some(compared_with)) => Some(values.total(places, compared_with)?),
            (None, None) => None,
        };
        let ratio = |(other, of_other): (f64, Combination)| {
            let pair = plan.pair((value, &combination), (other, &of_other));
            RatioInterval::new(value / other, intervals.of(&pair))
        };
        let std_error = plan.variance_of(&combination).sqrt();
        let (lower, upper) = (value - half_width, value + half_width);
        Ok(HistoryRow { group, value, std_error, lower, upper, ratio: denominator.map(ratio) })
    };
    let mut answers = Vec::new();
    for place in &chosen {
        answers.push(row(Some(values.group(*place).to_vec()), &[*place])?);
    }
    if chosen.len() > 1 {
        answers.push(row(None, &chosen)?);
    }
    let numbers = |[after, through]: [u64; 2]| [after + 1, through];
    Ok(Answer {
        steps: numbers(stretch),
        times: steps.times(stretch),
        beside_steps: compared_with.map(numbers),
        confidence: question.confidence,
        group_columns,
        rows: answers,
        notes: notes(plan, chosen.len()),
    })
}

fn notes(plan: &Plan, groups: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if Assertion::is_in(plan.request().meaning()) {
        notes.push("the bounds on a person are an assumption about the data, which nothing enforces".to_owned());
    } else if let Some(bounds) = plan.request().unit().bounds() {
        let period = if bounds.period.is_some() { " in each period" } else { "" };
        notes.push(format!("values count the kept events alone: up to {} of each person{period}", bounds.max_events));
    }
    if groups > 1 {
        notes.push(format!("each interval holds on its own; with {groups} groups, some may miss"));
    }
    if plan.threshold().is_some() {
        let why = "groups near the threshold are shown only if their noise was high";
        notes.push(format!("the groups were found by their released values: {why}"));
    }
    notes
}

/// The group columns, as recorded in the plan.
fn group_columns(plan: &Plan) -> Result<Vec<String>> {
    let (meaning, workload) = (plan.request().meaning(), plan.request().workload());
    if !workload.is_sum() {
        let has = format!("the table has {workload} at every step, with its own intervals");
        return Err(usage(format!("{has}; differences, totals and ratios need running sums")));
    }
    if meaning.contains_key("key-columns") {
        return Err(usage("the plan is for a sketch, whose estimates are not separated by step"));
    }
    Ok(match meaning.get("group-by") {
        None => Vec::new(),
        // A JSON text where groups are discovered.
        Some(text) if text.starts_with('[') => serde_json::from_str(text)
            .map_err(|_| usage(format!("cannot read the group columns in the plan: {}", quoted(text))))?,
        Some(text) => text.split(',').map(str::to_owned).collect(),
    })
}
