//! From a declaration to its plan, files and queries, before any event is read.

use super::instead::ReleaseAlternative;
use super::questions::{QuerySpan, Questions, TimeParsers};
use crate::failure::usage;
use crate::stream::{Files, SketchFlags, with_config};
use anyhow::{Context, Result};
use evertally::number::Grid;
use evertally::sketch::{CountSketch, Shape, SketchPlan, Table};
use evertally::stream::LazySampling;
use evertally_declare::closing;
use evertally_declare::declaration::{Items, Labels, Use, Written};
use evertally_declare::stream::Stream;
use evertally_publish::report::ErrorFacts;
use evertally_tables::input::is_same_source;
use evertally_tables::output::TableSpec;

/// Decimal digits of an estimate beyond those of the grid, if noise is finer than the grid; the same as for a release.
const EXTRA_DIGITS: u8 = 4;

/// Everything that a run needs, validated.
pub(super) struct SketchSetup {
    pub(super) stream: Stream,
    pub(super) files: Files,
    pub(super) plan: SketchPlan,
    /// Rows and cells of the table; `None` for a tree.
    pub(super) rows: Option<Table>,
    pub(super) table: TableSpec,
    /// `None` if only the plan is wanted and there is no query.
    pub(super) questions: Option<Questions>,
    /// The same list as groups of a release, if there is a list.
    pub(super) instead: Option<ReleaseAlternative>,
}

impl SketchSetup {
    pub(super) fn new(flags: SketchFlags) -> Result<Self> {
        let written = with_config(flags, Use::Sketch)?;
        let mut settings = written.declaration.resolve()?;
        written.check_sketch()?;
        let Written { declaration, files, questions } = written;
        if files.plan_only != Some(true) {
            let (closing, asked, now) = (settings.closing, settings.last_step, jiff::Timestamp::now().into());
            settings.last_step = closing::last_step(&settings.calendar, closing, asked, 0, now)?;
        }
        let Labels::Items(Items { columns, shape }) = settings.labels.clone() else {
            unreachable!("checked: a sketch has items")
        };
        let plan = SketchPlan::new(settings.request.clone(), shape, LazySampling::Keyed)?;
        let rows = match shape {
            Shape::CountSketch(table) => Some(table),
            _ => None,
        };
        let asked = if rows.is_some() { Questions::asked(&questions) } else { None };
        let integral = plan.plan().request().grid().is_integral() && plan.lazy().fraction_bits() == 0;
        let table = TableSpec::from_estimates(columns.clone(), integral).map_err(usage)?;
        let (declared, file_times) = (settings.times(), settings.file_times());
        let (request, written) = (settings.request.clone(), files.clone());
        let mut files = Files::new(files, settings.missing_text.clone())?;
        let mut stream = settings.planned(plan.plan().clone())?;
        let table = table.with_instants(stream.calendar.zone());
        let (mut read, mut instead) = (None, None);
        if rows.is_none() && (!files.plan_only || questions.threshold.is_some()) {
            let span = QuerySpan { calendar: &stream.calendar, last_step: stream.last_step };
            let heavy = Questions::for_heavy_keys(&questions, span, declared.clone())?;
            stream.last_step = heavy.last_step();
            read = Some(heavy);
        }
        if let Some((asked, path)) = asked {
            if path.as_os_str() == "-" && files.inputs.contains(&path) {
                return Err(usage("events and items cannot both come from standard input; give one a file name"));
            }
            // A list made from the events would reveal who is in them.
            if files.inputs.iter().any(|input| is_same_source(input, &path)) {
                return Err(usage(format!(
                    "{}: the events themselves cannot be the list of items; use a list that is public knowledge",
                    path.display()
                )));
            }
            files.add_side_input(path.clone());
            let list = path.clone();
            let span = QuerySpan { calendar: &stream.calendar, last_step: stream.last_step };
            let times = TimeParsers { declared, of_files: file_times };
            let questions =
                Questions::read(&questions, (asked, path), (&columns, stream.ids), span, times, &files.reading)?;
            stream.last_step = questions.last_step();
            instead = ReleaseAlternative::new(&declaration, &written, &list, questions.items.len(), &request).ok();
            read = Some(questions);
        }
        Ok(Self { stream, files, plan, rows, table, questions: read, instead })
    }

    /// The grid of a written answer: finer than the data's if the noise is.
    pub(super) fn unit(&self) -> Grid {
        let grid = self.plan.plan().request().grid();
        grid.finer(EXTRA_DIGITS).filter(|_| self.plan.lazy().fraction_bits() > 0).unwrap_or(grid)
    }

    /// Half the width of the interval for the noise at the last step.
    fn noise_half_width(&self) -> Result<f64> {
        let (grid, bits, unit) = (self.plan.plan().request().grid(), self.plan.lazy().fraction_bits(), self.unit());
        let parts = if unit == grid { 1 } else { 10u32.pow(EXTRA_DIGITS.into()) };
        let confidence = self.stream.confidence;
        let mut intervals = match self.rows {
            Some(_) => CountSketch::fine_intervals(&self.plan, confidence, parts)?,
            None => self.plan.plan().fine_intervals(confidence, parts)?,
        };
        // The most that rounding a release to its units can add.
        let rounding = if bits > 0 { u128::from(parts >> (bits + 1)) + 1 } else { 0 };
        let half = intervals.half_width(self.stream.last_step).saturating_add(rounding);
        Ok(unit.to_f64(i128::try_from(half).context("the interval is too wide to write")?))
    }

    /// The error that noise adds to answers.
    pub(super) fn errors(&self) -> Result<ErrorFacts> {
        let plan = self.plan.plan();
        let max_std_error = match self.rows {
            Some(_) => CountSketch::max_noise_std_error(&self.plan)?,
            None => plan.max_std_error(),
        };
        Ok(ErrorFacts {
            max_std_error,
            mean_std_error: max_std_error / plan.max_std_error() * plan.mean_std_error(),
            confidence: self.stream.confidence,
            last_step_half_width: self.noise_half_width()?,
            band: None,
        })
    }
}
