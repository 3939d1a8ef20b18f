//! From flags to validated parts, before any event is read.

use super::options::SketchArgs;
use super::questions::{Questions, Span};
use crate::failure::usage;
use crate::stream::{Files, calendar, needed, request, stream};
use anyhow::{Context, Result};
use evertally::number::Grid;
use evertally::plan::{Intervals, PlanRequest};
use evertally::privacy::Values;
use evertally::sketch::{CountSketch, Shape, SketchPlan, Table};
use evertally::stream::Sampling;
use evertally_publish::report::ErrorFacts;
use evertally_publish::stream::Stream;
use evertally_tables::output::TableSpec;
use std::path::{Path, PathBuf};

const ROWS: u32 = 5;
const WIDTH: u64 = 1 << 16;
/// Decimal digits of an estimate behind those of the grid, where noise is finer than the grid: as those of a release.
const EXTRA_DIGITS: u8 = 4;

/// Everything a run needs to know, checked.
pub(super) struct Setup {
    pub(super) stream: Stream,
    pub(super) files: Files,
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
        let integral = plan.plan().request().grid().is_integral() && plan.lazy().fraction_bits() == 0;
        let table = TableSpec::of_estimates(columns.clone(), integral).map_err(usage)?;
        let mut stream = stream(args.stream.clone(), calendar, plan.plan().clone(), columns.clone())?;
        let mut files = Files::new(&args.stream)?;
        if json && files.is_stdout() && !files.plan_only {
            return Err(usage("--json and --out - both go to standard output; give --out a file name"));
        }
        let mut questions = None;
        if let Some((asked, path)) = asked {
            if path.as_os_str() == "-" && files.inputs.contains(&path) {
                return Err(usage("events and items cannot both come from standard input; give one a file name"));
            }
            if is_one_of(&path, &files.inputs) {
                return Err(usage(format!(
                    "{}: the events themselves cannot be the list of items; ask for a list that is known to the public",
                    path.display()
                )));
            }
            files.has_read(path.clone());
            let span = Span { calendar: &stream.calendar, last_step: stream.last_step };
            let read = Questions::read(&args, (asked, path), &columns, span, &files.reading)?;
            stream.last_step = read.last_step();
            questions = Some(read);
        }
        Ok(Self { stream, files, plan, rows, table, questions, json })
    }

    pub(super) fn half_widths(&self) -> Result<HalfWidths> {
        let (grid, bits) = (self.plan.plan().request().grid(), self.plan.lazy().fraction_bits());
        let (unit, parts) = match grid.finer(EXTRA_DIGITS) {
            Some(finer) if bits > 0 => (finer, 10u32.pow(EXTRA_DIGITS.into())),
            _ => (grid, 1),
        };
        let intervals = CountSketch::fine_intervals(&self.plan, self.stream.confidence, parts)?;
        let rounding = if bits > 0 { u128::from(parts >> (bits + 1)) + 1 } else { 0 };
        Ok(HalfWidths { intervals, unit, rounding })
    }

    /// What the noise does to answers.
    pub(super) fn errors(&self) -> Result<ErrorFacts> {
        let plan = self.plan.plan();
        let last = self.stream.last_step;
        let max_std_error = CountSketch::max_noise_std_error(&self.plan)?;
        let mut half_widths = self.half_widths()?;
        Ok(ErrorFacts {
            max_std_error,
            mean_std_error: max_std_error / plan.max_std_error() * plan.mean_std_error(),
            confidence: self.stream.confidence,
            last_step_half_width: half_widths.unit.to_f64(half_widths.at(last)?),
        })
    }
}

/// Half-widths of the intervals of answers, in units that are as fine as what is written.
pub(super) struct HalfWidths {
    intervals: Intervals,
    /// The grid of an answer as it is written.
    pub(super) unit: Grid,
    /// What rounding a release to its units can add.
    rounding: u128,
}

impl HalfWidths {
    /// In units, at a step.
    pub(super) fn at(&mut self, step: u64) -> Result<i128> {
        let half = self.intervals.half_width(step).saturating_add(self.rounding);
        i128::try_from(half).context("the interval is too wide to write")
    }
}

/// Whether a list of items is one of the event files: a list made of the events would tell who is in them.
fn is_one_of(list: &Path, inputs: &[PathBuf]) -> bool {
    let whole = |path: &Path| path.canonicalize().ok();
    whole(list).is_some_and(|list| inputs.iter().any(|input| whole(input).as_ref() == Some(&list)))
}

fn plan(mut request: PlanRequest, columns: &[String], table: Table) -> Result<SketchPlan> {
    // What names an item, and where values are clamped: the plan itself only says how far they can be from 0.
    request = request.with_meaning("key-columns", serde_json::to_string(columns)?);
    if let Values::Sum { lower, upper } = request.values() {
        let grid = request.grid();
        let bounds = format!("{},{}", grid.format(lower.into()), grid.format(upper.into()));
        request = request.with_meaning("bounds", bounds);
    }
    Ok(SketchPlan::new(request, Shape::CountSketch(table), Sampling::Keyed)?)
}
