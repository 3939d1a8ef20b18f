//! The outputs of a run: table, pictures, report and plan, written together.

use super::setup::Setup;
use crate::stream::SideFiles;
use anyhow::Result;
use evertally::number::Grid;
use evertally_plot::{Curve, Point, ReleasePlot, TimeLabels};
use evertally_publish::groups::GroupTable;
use evertally_publish::ledger::OpenKey;
use evertally_publish::report::{Released, Report};
use evertally_publish::session::ClosedStep;
use evertally_publish::steps::StepCalendar;
use evertally_tables::output::{OutputFile, Publication, TableWriter};

/// Points kept of each drawn group; pictures are narrower than this.
const MAX_POINTS: u64 = 16_384;

/// Writes rows as steps close, and keeps what the picture needs.
pub(super) struct Emitter {
    table: TableWriter<OutputFile>,
    picture: Vec<Curve>,
    /// The curve of each group, if it is drawn.
    curve_of: Vec<Option<usize>>,
    /// Every how many steps a point is drawn, and the last.
    stride: u64,
    last_step: u64,
    /// True running sums of all groups: only under `--unsafe-show-truth`.
    truth: Option<Vec<i64>>,
    calendar: StepCalendar,
    grid: Grid,
}

impl Emitter {
    pub(super) fn new(setup: &Setup, publication: &mut Publication) -> Result<Self> {
        let out = publication.add(&setup.files.out)?;
        let single = [vec![]];
        let tuples = setup.groups.as_ref().map_or(&single[..], GroupTable::tuples);
        let drawn = if setup.files.plot { &setup.drawn[..] } else { &[] };
        let mut curve_of = vec![None; tuples.len()];
        drawn.iter().enumerate().for_each(|(curve, group)| curve_of[*group] = Some(curve));
        let name = |tuple: &Vec<String>| tuple.join(", ");
        let stream = &setup.stream;
        Ok(Self {
            table: TableWriter::new(setup.files.output_format, &setup.table, out)?,
            picture: drawn.iter().map(|group| Curve { name: name(&tuples[*group]), points: vec![] }).collect(),
            curve_of,
            stride: stream.last_step.div_ceil(MAX_POINTS),
            last_step: stream.last_step,
            truth: setup.show_truth.then(|| vec![0; tuples.len()]),
            calendar: stream.calendar.clone(),
            grid: stream.plan.request().grid(),
        })
    }

    /// Writes the rows of a closed step.
    pub(super) fn write(&mut self, closed: &mut ClosedStep<'_>) -> Result<()> {
        let Self { table, picture, curve_of, truth, calendar, grid, .. } = self;
        let step = closed.step();
        if let Some(truth) = truth {
            truth.iter_mut().zip(closed.unsafe_exact_sums()).for_each(|(total, sum)| *total += sum);
        }
        let drawn = step.is_multiple_of(self.stride) || step == self.last_step;
        closed.for_each_row(|group, row| {
            table.write(row)?;
            if drawn && let Some(curve) = curve_of[group].map(|place| &mut picture[place]) {
                let truth = truth.as_ref().map(|t| grid.to_f64(t[group].into()));
                let at = calendar.end_of(step).micros() as f64 / 1e6;
                let (value, lower, upper) = (row.value.number, row.lower, row.upper);
                curve.points.push(Point { at, value, lower, upper, truth });
            }
            Ok(())
        })
    }

    /// Ends the table and writes everything beside it.
    pub(super) fn finish(self, setup: &Setup, open: &OpenKey, publication: &mut Publication) -> Result<()> {
        self.table.finish()?.finish()?;
        if setup.files.is_table_alone() {
            return Ok(());
        }
        let released = setup.groups.as_ref().map_or(Released::Sum, |groups| Released::Groups(groups.facts()));
        let place = open.ledger.place_of(&setup.stream.name, setup.stream.last_step);
        let report = Report::new(&setup.stream, &open.key, released).recorded_in(place);
        let mut beside = SideFiles { stream: &setup.stream, files: &setup.files, publication };
        beside.put_report(&report)?;
        if setup.files.plot {
            let mut plot = picture(setup, &report, self.picture, self.curve_of.len());
            if setup.show_truth {
                plot.unsafe_truth = true;
                beside.put_picture("NOT-PRIVATE.", &plot.svg()?)?;
                plot.unsafe_truth = false;
            }
            beside.put_picture("", &plot.svg()?)?;
        }
        Ok(())
    }
}

fn picture(setup: &Setup, report: &Report, curves: Vec<Curve>, total_groups: usize) -> ReleasePlot {
    ReleasePlot {
        title: setup.stream.title.clone(),
        subtitle: report.headline(),
        y_label: format!("{} since {}", setup.stream.quantity(), setup.stream.start_in_words()),
        footer: report.promise(),
        time_labels: TimeLabels::Calendar(setup.stream.calendar.zone().time_zone().clone()),
        confidence: setup.stream.confidence,
        curves,
        total_groups,
        group_word: "group",
        unsafe_truth: false,
    }
}
