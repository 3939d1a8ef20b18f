//! From a declaration to its plan, files and questions, before any event is read.

use super::questions::{Questions, Span, Times};
use crate::failure::usage;
use crate::stream::{Files, SketchFlags, with_config};
use anyhow::{Context, Result};
use evertally::number::Grid;
use evertally::plan::Intervals;
use evertally::sketch::{CountSketch, Shape, SketchPlan, Table};
use evertally::stream::Sampling;
use evertally_publish::closing;
use evertally_publish::declaration::{Items, Labels, Parameter, Use, Written, needed};
use evertally_publish::report::ErrorFacts;
use evertally_publish::stream::Stream;
use evertally_tables::input::is_same_source;
use evertally_tables::output::TableSpec;

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
}

impl Setup {
    pub(super) fn new(flags: SketchFlags) -> Result<Self> {
        let Written { declaration, files, questions } = with_config(flags, Use::Sketch)?;
        let mut settings = declaration.resolve()?;
        if files.plan_only != Some(true) {
            let (closing, asked, now) = (settings.closing, settings.last_step, jiff::Timestamp::now().into());
            settings.last_step = closing::last_step(&settings.calendar, closing, asked, 0, now)?;
        }
        let items = match settings.labels.clone() {
            Labels::Items(items) => Some(items),
            Labels::None | Labels::Groups(_) | Labels::Discovered { .. } => None,
        };
        let why = "the columns that name the item of an event";
        let Items { columns, table: rows } = needed(items, Parameter::KeyColumns, why)?;
        let plan = SketchPlan::new(settings.request.clone(), Shape::CountSketch(rows), Sampling::Keyed)?;
        let asked = Questions::asked(&questions)?;
        if asked.is_none() && files.plan_only != Some(true) {
            return Err(usage("nothing is asked: name the items in --queries or --candidates"));
        }
        let integral = plan.plan().request().grid().is_integral() && plan.lazy().fraction_bits() == 0;
        let table = TableSpec::of_estimates(columns.clone(), integral).map_err(usage)?;
        let (declared, file_times) = (settings.times(), settings.file_times());
        let mut files = Files::new(files, settings.missing_text.clone())?;
        let mut stream = settings.planned(plan.plan().clone())?;
        let table = table.with_instants(stream.calendar.zone());
        let mut read = None;
        if let Some((asked, path)) = asked {
            if path.as_os_str() == "-" && files.inputs.contains(&path) {
                return Err(usage("events and items cannot both come from standard input; give one a file name"));
            }
            // A list made of the events would tell who is in them.
            if files.inputs.iter().any(|input| is_same_source(input, &path)) {
                return Err(usage(format!(
                    "{}: the events themselves cannot be the list of items; ask for a list that is known to the public",
                    path.display()
                )));
            }
            files.has_read(path.clone());
            let span = Span { calendar: &stream.calendar, last_step: stream.last_step };
            let times = Times { declared, of_files: file_times };
            let questions = Questions::read(&questions, (asked, path), &columns, span, times, &files.reading)?;
            stream.last_step = questions.last_step();
            read = Some(questions);
        }
        Ok(Self { stream, files, plan, rows, table, questions: read })
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
