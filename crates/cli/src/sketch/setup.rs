//! From flags to validated parts, before any event is read.

use super::options::SketchArgs;
use super::questions::{Questions, Span};
use crate::failure::usage;
use crate::output::TableSpec;
use crate::publish::{ErrorFacts, StreamSetup, calendar, needed, request};
use anyhow::Result;
use evertally::plan::{PlanRequest, Values};
use evertally::sketch::{CountSketch, Shape, SketchPlan, Table};
use evertally::stream::Sampling;
use std::path::{Path, PathBuf};

const ROWS: u32 = 5;
const WIDTH: u64 = 1 << 16;

/// Everything a run needs to know, checked.
pub(super) struct Setup {
    pub(super) stream: StreamSetup,
    pub(super) plan: SketchPlan,
    pub(super) rows: Table,
    pub(super) table: TableSpec,
    /// `None` where only the plan is wanted and nothing is asked.
    pub(super) questions: Option<Questions>,
    pub(super) json: bool,
}

impl Setup {
    pub(super) fn new(args: SketchArgs) -> Result<Self> {
        let args = args.with_config()?;
        let json = args.json == Some(true);
        let calendar = calendar(&args.stream)?;
        let columns = needed(args.key_columns.clone(), "--key-columns", "the columns that name the item of an event")?;
        if columns.iter().any(String::is_empty) {
            return Err(usage("--key-columns has an empty name"));
        }
        let rows = Table::new(args.rows.unwrap_or(ROWS), args.width.unwrap_or(WIDTH))?;
        let plan = plan(request(&args.stream, &calendar)?, &columns, rows)?;
        let asked = Questions::asked(&args)?;
        if asked.is_none() && !args.stream.is_plan_only() {
            return Err(usage("nothing is asked: name the items in --queries or --candidates"));
        }
        let integral = plan.plan().request().grid.is_integral() && plan.lazy().fraction_bits() == 0;
        let table = TableSpec::of_estimates(columns.clone(), integral).map_err(usage)?;
        let mut stream = StreamSetup::new(args.stream.clone(), calendar, plan.plan().clone(), columns.clone())?;
        if json && stream.out.as_os_str() == "-" && !stream.plan_only {
            return Err(usage("--json and --out - both go to standard output; give --out a file name"));
        }
        let mut questions = None;
        if let Some((asked, path)) = asked {
            if path.as_os_str() == "-" && stream.inputs.contains(&path) {
                return Err(usage("events and items cannot both come from standard input; give one a file name"));
            }
            if is_one_of(&path, &stream.inputs) {
                return Err(usage(format!(
                    "{}: the events themselves cannot be the list of items; ask for a list that is known to the public",
                    path.display()
                )));
            }
            stream.has_read(path.clone());
            let span = Span { calendar: &stream.calendar, last_step: stream.last_step };
            let read = Questions::read(&args, (asked, path), &columns, span, &stream.reading)?;
            stream.last_step = read.last_step();
            questions = Some(read);
        }
        Ok(Self { stream, plan, rows, table, questions, json })
    }

    /// What the noise does to answers.
    pub(super) fn errors(&self) -> Result<ErrorFacts> {
        let plan = self.plan.plan();
        let last = self.stream.last_step;
        let max_std_error = CountSketch::max_noise_std_error(&self.plan)?;
        let mut intervals = CountSketch::intervals(&self.plan, self.stream.confidence)?;
        Ok(ErrorFacts {
            max_std_error,
            mean_std_error: max_std_error / plan.max_std_error() * plan.mean_std_error(),
            confidence: self.stream.confidence,
            last_step_half_width: plan.request().grid.to_f64(intervals.half_width(last) as i128),
        })
    }
}

/// Whether a list of items is one of the event files: a list made of the events would tell who is in them.
fn is_one_of(list: &Path, inputs: &[PathBuf]) -> bool {
    let whole = |path: &Path| path.canonicalize().ok();
    whole(list).is_some_and(|list| inputs.iter().any(|input| whole(input).as_ref() == Some(&list)))
}

fn plan(mut request: PlanRequest, columns: &[String], table: Table) -> Result<SketchPlan> {
    // What names an item, and where values are clamped: the plan itself only says how far they can be from 0.
    request.meaning.insert("key-columns".to_owned(), serde_json::to_string(columns)?);
    if let Values::Sum { lower, upper } = request.values {
        let bound = |multiple: i64| request.grid.format(multiple.into());
        request.meaning.insert("bounds".to_owned(), format!("{},{}", bound(lower), bound(upper)));
    }
    Ok(SketchPlan::new(request, Shape::CountSketch(table), Sampling::Keyed)?)
}
