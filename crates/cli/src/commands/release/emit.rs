//! The outputs of a run: table, pictures, report and plan, written together.

use super::drawing::ReleaseCurves;
use super::leaders::Leaders;
use super::setup::ReleaseSetup;
use crate::stream::{Files, SideFiles};
use anyhow::Result;
use evertally::number::Grid;
use evertally_declare::error::PipelineError;
use evertally_declare::event::{Columns, Event};
use evertally_declare::groups::GroupFacts;
use evertally_declare::line::GroupLine;
use evertally_declare::steps::Instant;
use evertally_declare::stream::Coverage;
use evertally_ledger::ledger::OpenKey;
use evertally_plot::{Curve, Point, ReleasePlot, TimeLabels};
use evertally_publish::report::{ReleaseKind, Report};
use evertally_publish::session::ClosedStep;
use evertally_tables::input::{ReadOptions, for_each_event};
use evertally_tables::output::{RunOutputs, TableWriter};
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Points kept of each drawn group; pictures are narrower than this.
const MAX_POINTS: u64 = 16_384;

/// Writes rows as steps close, and keeps the points for the picture.
pub(super) struct RowEmitter<W: Write + Send> {
    table: TableWriter<W>,
    picture: ReleaseCurves,
    leaders: Option<Leaders>,
    /// A point is drawn every `stride` rows, and for the last row.
    stride: u64,
    last_step: u64,
    /// True running sums of all groups; only with `--unsafe-show-truth`.
    truth: Option<Vec<i64>>,
    /// The grid of every group.
    grids: Vec<Grid>,
}

impl<W: Write + Send> RowEmitter<W> {
    /// Rows go to `table`.
    pub(super) fn new(setup: &ReleaseSetup, files: &Files, table: TableWriter<W>) -> Self {
        let stream = &setup.stream;
        let grid = stream.plan.request().grid();
        let grids = setup.groups.as_ref().map_or_else(|| Ok(vec![grid]), |table| table.grids(grid));
        let grids = grids.expect("checked when the groups were declared");
        let groups = setup.group_count();
        Self {
            table,
            picture: ReleaseCurves::new(setup, files),
            leaders: setup.top.filter(|_| !files.is_table_alone()).map(Leaders::new),
            stride: (setup.steps_before() + stream.last_row()).div_ceil(MAX_POINTS).max(1),
            last_step: setup.steps_before() + stream.last_row(),
            truth: setup.show_truth.then(|| vec![0; groups]),
            grids,
        }
    }

    /// Adds the rows of a table written by earlier runs to the picture.
    pub(super) fn recall(&mut self, setup: &ReleaseSetup, table: &[PathBuf]) -> Result<()> {
        if (self.picture.is_off() && self.leaders.is_none()) || table.is_empty() {
            return Ok(());
        }
        let labels = setup.table.groups().iter().map(String::as_str).chain(["step", "value", "lower", "upper"]);
        let columns =
            Columns { time: "time".into(), labels: labels.map(str::to_owned).collect(), ..Columns::default() };
        let options = ReadOptions::default();
        let Self { picture, leaders, stride, last_step, .. } = self;
        let mut visit = |event: &Event<'_>| -> Result<(), PipelineError> {
            let texts: Vec<String> = event.labels().map(|label| label.to_string()).collect();
            let (names, figures) = texts.split_at(setup.table.groups().len());
            let figures: Vec<f64> = figures.iter().map(|text| text.parse().unwrap_or(f64::NAN)).collect();
            let step = figures[0] as u64; // fits: steps are below 2^40, and a table is what this program wrote
            if let Some(leaders) = leaders {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                leaders.row(&event.time().to_string(), &names, step, figures[1]);
            }
            let drawn = step.is_multiple_of(*stride) || step == *last_step;
            let curve = picture.curve_named(&names.join(", "));
            // A missing value leaves a gap.
            let drawn = drawn && figures[1..].iter().all(|figure| figure.is_finite());
            if let Some(curve) = curve.filter(|_| drawn)
                && let Some(span) = setup.span_of(step)
            {
                let at = place_of(curve, span);
                curve.points.push(Point { at, value: figures[1], lower: figures[2], upper: figures[3], truth: None });
            }
            Ok(())
        };
        for_each_event(table, &columns, &options, &(), &AtomicBool::new(false), &mut visit)?;
        Ok(())
    }

    /// Writes the rows of a closed step.
    pub(super) fn write(&mut self, closed: &mut ClosedStep<'_>) -> Result<()> {
        let Self { table, picture, leaders, truth, grids, stride, last_step, .. } = self;
        if let Some(truth) = truth {
            truth.iter_mut().zip(closed.unsafe_exact_sums()).for_each(|(total, sum)| *total += sum);
        }
        closed.for_each_row(|group, row| {
            table.write(row)?;
            if let Some(leaders) = leaders {
                leaders.row(row.time, row.groups, row.step, row.value.number);
            }
            let drawn = row.step.is_multiple_of(*stride) || row.step == *last_step;
            let drawn = drawn && row.value.number.is_finite();
            let curve = picture.curve_of(group, row.groups);
            if let Some(curve) = curve.filter(|_| drawn) {
                let truth = truth.as_ref().map(|t| grids[group].to_f64(t[group].into()));
                let at = place_of(curve, row.span);
                let (value, lower, upper) = (row.value.number, row.lower, row.upper);
                curve.points.push(Point { at, value, lower, upper, truth });
            }
            Ok(())
        })
    }

    /// Ends the table and writes all files next to it. Returns the writer of the table.
    pub(super) fn finish(
        self,
        setup: &ReleaseSetup,
        files: &Files,
        open: &OpenKey,
        publication: &mut RunOutputs,
    ) -> Result<W> {
        let table = self.table.finish()?;
        if files.is_table_alone() {
            return Ok(table);
        }
        let released = match (&setup.groups, setup.stream.plan.threshold()) {
            (Some(groups), _) => ReleaseKind::Groups(GroupFacts { joined: setup.later.clone(), ..groups.facts() }),
            (None, Some(_)) => ReleaseKind::Discovered,
            (None, None) => ReleaseKind::Sum,
        };
        let place = open.ledger.place_of(&setup.stream.name, setup.stream.last_step);
        let mut report = Report::new(&setup.stream, &open.key, released).recorded_in(place);
        if files.bad_file.is_some() {
            report = report.with_policy("bad-rows", "side-file");
        }
        let mut side_files = SideFiles { stream: &setup.stream, files, publication };
        side_files.write_report(&report)?;
        if let Some(leaders) = &self.leaders {
            let stream = &setup.stream;
            let table = leaders
                .csv(&stream.columns.labels, &stream.plan, setup.steps_before(), &|row| stream.slot_of_row(row))?;
            side_files.put("top.csv", &table)?;
        }
        if files.plot {
            let (curves, groups) = self.picture.finish();
            if curves.iter().all(|curve| curve.points.is_empty()) {
                return Ok(table); // no group is shown yet, no row has a value, or no row has ended
            }
            let mut plot = picture(setup, &report, curves, groups);
            if setup.show_truth {
                plot.unsafe_truth = true;
                side_files.write_picture("NOT-PRIVATE.", &plot.svg()?)?;
                plot.unsafe_truth = false;
            }
            side_files.write_picture("", &plot.svg()?)?;
        }
        Ok(table)
    }
}

/// The place of a point in its step, in seconds since 1970.
fn place_of(curve: &Curve, span: (Instant, Instant)) -> f64 {
    GroupLine { is_per_period: curve.is_per_period, ..GroupLine::default() }.seconds_in(span)
}

fn picture(setup: &ReleaseSetup, report: &Report, curves: Vec<Curve>, total_groups: usize) -> ReleasePlot {
    ReleasePlot {
        title: setup.stream.title.clone(),
        subtitle: report.headline(),
        y_label: setup.stream.quantity_since(),
        footer: format!("{} {}", report.promise(), setup.stream.points_in_words()),
        time_labels: TimeLabels::Calendar(setup.stream.calendar.zone().time_zone().clone()),
        confidence: setup.stream.confidence,
        at_once: setup.stream.band == Coverage::Simultaneous,
        curves,
        total_groups,
        group_word: if setup.stream.measures.is_some() { "line" } else { "group" },
        apart: setup.stream.measures.is_some(),
        unsafe_truth: false,
    }
}
