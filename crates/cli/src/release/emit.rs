//! The outputs of a run: table, pictures, report and plan, written together.

use super::setup::Setup;
use crate::stream::{Files, SideFiles};
use anyhow::Result;
use evertally::number::Grid;
use evertally_plot::{Curve, Point, ReleasePlot, TimeLabels};
use evertally_publish::error::Error;
use evertally_publish::event::{Columns, Event};
use evertally_publish::groups::GroupTable;
use evertally_publish::ledger::OpenKey;
use evertally_publish::report::{Released, Report};
use evertally_publish::session::ClosedStep;
use evertally_publish::steps::StepCalendar;
use evertally_tables::input::{ReadOptions, for_each_event};
use evertally_tables::output::{Publication, TableWriter};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Points kept of each drawn group; pictures are narrower than this.
const MAX_POINTS: u64 = 16_384;

/// Writes rows as steps close, and keeps what the picture needs.
pub(super) struct Emitter<W: Write + Send> {
    table: TableWriter<W>,
    picture: Vec<Curve>,
    /// The curve of each group, if it is drawn.
    curve_of: Vec<Option<usize>>,
    /// Every how many steps a point is drawn, and the last.
    stride: u64,
    last_step: u64,
    /// How many steps were before those of the stream; steps to be drawn count through.
    steps_before: u64,
    /// True running sums of all groups: only under `--unsafe-show-truth`.
    truth: Option<Vec<i64>>,
    calendar: StepCalendar,
    /// The grid of every group.
    grids: Vec<Grid>,
}

impl<W: Write + Send> Emitter<W> {
    /// Rows go to `table`.
    pub(super) fn new(setup: &Setup, files: &Files, table: TableWriter<W>) -> Self {
        let single = [vec![]];
        let tuples = setup.groups.as_ref().map_or(&single[..], GroupTable::tuples);
        let drawn = if files.plot { &setup.drawn[..] } else { &[] };
        let mut curve_of = vec![None; tuples.len()];
        drawn.iter().enumerate().for_each(|(curve, group)| curve_of[*group] = Some(curve));
        let name = |tuple: &Vec<String>| tuple.join(", ");
        let stream = &setup.stream;
        let grid = stream.plan.request().grid();
        let grids = setup.groups.as_ref().map_or_else(|| Ok(vec![grid]), |table| table.grids(grid));
        let grids = grids.expect("checked when the groups were declared");
        Self {
            table,
            picture: drawn.iter().map(|group| Curve { name: name(&tuples[*group]), points: vec![] }).collect(),
            curve_of,
            stride: (setup.steps_before() + stream.last_step).div_ceil(MAX_POINTS),
            last_step: setup.steps_before() + stream.last_step,
            steps_before: setup.steps_before(),
            truth: setup.show_truth.then(|| vec![0; tuples.len()]),
            calendar: stream.calendar.clone(),
            grids,
        }
    }

    /// Takes into the picture what a table holds that earlier runs have written.
    pub(super) fn recall(&mut self, setup: &Setup, table: &[PathBuf]) -> Result<()> {
        if self.picture.is_empty() || table.is_empty() {
            return Ok(());
        }
        let labels = setup.table.groups().iter().map(String::as_str).chain(["step", "value", "lower", "upper"]);
        let columns =
            Columns { time: "time".into(), labels: labels.map(str::to_owned).collect(), ..Columns::default() };
        let options = ReadOptions::default();
        let Self { picture, stride, last_step, .. } = self;
        let mut visit = |event: &Event<'_>| -> Result<(), Error> {
            let texts: Vec<String> = event.labels().map(|label| label.to_string()).collect();
            let (names, figures) = texts.split_at(setup.table.groups().len());
            let figures: Vec<f64> = figures.iter().map(|text| text.parse().unwrap_or(f64::NAN)).collect();
            let step = figures[0] as u64; // fits: steps are below 2^40, and a table is what this program wrote
            let drawn = step.is_multiple_of(*stride) || step == *last_step;
            if drawn
                && let Some(end) = setup.end_of(step)
                && let Some(curve) = picture.iter_mut().find(|curve| curve.name == names.join(", "))
            {
                let at = end.micros() as f64 / 1e6;
                curve.points.push(Point { at, value: figures[1], lower: figures[2], upper: figures[3], truth: None });
            }
            Ok(())
        };
        for_each_event(table, &columns, &options, &(), &AtomicBool::new(false), &mut visit)?;
        Ok(())
    }

    /// Writes the rows of a closed step.
    pub(super) fn write(&mut self, closed: &mut ClosedStep<'_>) -> Result<()> {
        let Self { table, picture, curve_of, truth, calendar, grids, .. } = self;
        let step = closed.step();
        if let Some(truth) = truth {
            truth.iter_mut().zip(closed.unsafe_exact_sums()).for_each(|(total, sum)| *total += sum);
        }
        let shown = self.steps_before + step;
        let drawn = shown.is_multiple_of(self.stride) || shown == self.last_step;
        closed.for_each_row(|group, row| {
            table.write(row)?;
            if drawn && let Some(curve) = curve_of[group].map(|place| &mut picture[place]) {
                let truth = truth.as_ref().map(|t| grids[group].to_f64(t[group].into()));
                let at = calendar.end_of(step).micros() as f64 / 1e6;
                let (value, lower, upper) = (row.value.number, row.lower, row.upper);
                curve.points.push(Point { at, value, lower, upper, truth });
            }
            Ok(())
        })
    }

    /// Ends the table, and writes everything beside it. Gives back what the table was written to.
    pub(super) fn finish(
        self,
        setup: &Setup,
        files: &Files,
        open: &OpenKey,
        publication: &mut Publication,
    ) -> Result<W> {
        let table = self.table.finish()?;
        if files.is_table_alone() {
            return Ok(table);
        }
        let released = setup.groups.as_ref().map_or(Released::Sum, |groups| Released::Groups(groups.facts()));
        let place = open.ledger.place_of(&setup.stream.name, setup.stream.last_step);
        let report = Report::new(&setup.stream, &open.key, released).recorded_in(place);
        let mut beside = SideFiles { stream: &setup.stream, files, publication };
        beside.put_report(&report)?;
        if files.plot {
            let mut plot = picture(setup, &report, self.picture, self.curve_of.len());
            if setup.show_truth {
                plot.unsafe_truth = true;
                beside.put_picture("NOT-PRIVATE.", &plot.svg()?)?;
                plot.unsafe_truth = false;
            }
            beside.put_picture("", &plot.svg()?)?;
        }
        Ok(table)
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
