//! The outputs of a run: table, pictures, report and plan, written together.

use super::groups::GroupTable;
use super::setup::Setup;
use crate::output::{Amount, OutputFile, Publication, ReleaseRow, TableWriter};
use crate::plot::{MAX_SHOWN, Plot, Point, Series, TimeLabels, svg};
use crate::publish::{Beside, Extent, Report};
use anyhow::{Context, Result};
use evertally::noise::SecretKey;
use evertally::plan::Intervals;
use evertally::stream::Release;

/// Points kept of each drawn group; pictures are narrower than this.
const MAX_POINTS: u64 = 16_384;

/// Writes rows as steps close, and keeps what the picture needs.
pub(super) struct Emitter {
    table: TableWriter<OutputFile>,
    intervals: Intervals,
    /// Group texts of every row, in the order of the releases.
    tuples: Vec<Vec<String>>,
    picture: Vec<Series>,
    /// Every how many steps a point is drawn.
    stride: u64,
    /// True running sums of the drawn groups: only under `--unsafe-show-truth`.
    truth: Option<Vec<i64>>,
    time: String,
    value: String,
}

impl Emitter {
    pub(super) fn new(setup: &Setup, publication: &mut Publication) -> Result<Self> {
        let out = publication.add(&setup.stream.out)?;
        let tuples = setup.groups.as_ref().map_or(vec![vec![]], |table| table.tuples().to_vec());
        let drawn = if setup.stream.plot { tuples.len().min(MAX_SHOWN) } else { 0 };
        let name = |tuple: &Vec<String>| tuple.join(", ");
        Ok(Self {
            table: TableWriter::new(setup.stream.output_format, &setup.table, out)?,
            intervals: setup.stream.plan.intervals(setup.stream.confidence)?,
            picture: tuples[..drawn].iter().map(|tuple| Series { name: name(tuple), points: vec![] }).collect(),
            stride: setup.stream.last_step.div_ceil(MAX_POINTS),
            truth: setup.show_truth.then(|| vec![0; drawn]),
            tuples,
            time: String::new(),
            value: String::new(),
        })
    }

    /// The releases of one closed step, and the exact sums of that step.
    pub(super) fn step(&mut self, setup: &Setup, releases: &[Release], sums: &[i64]) -> Result<()> {
        let step = releases[0].step();
        let (plan, calendar) = (&setup.stream.plan, &setup.stream.calendar);
        let std_error = plan.std_error(step);
        let half_width =
            i128::try_from(self.intervals.half_width(step)).context("the interval is too wide to write")?;
        self.time.clear();
        calendar.write_time(calendar.start_of(step), &mut self.time);
        if let Some(truth) = &mut self.truth {
            truth.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
        }
        let drawn = step.is_multiple_of(self.stride) || step == setup.stream.last_step;
        for (group, release) in releases.iter().enumerate() {
            use std::fmt::Write;
            self.value.clear();
            write!(self.value, "{release}")?;
            let texts: Vec<&str> = self.tuples[group].iter().map(String::as_str).collect();
            let (value, lower, upper) =
                (release.value(), release.shifted(-half_width).value(), release.shifted(half_width).value());
            let amount = Amount { text: &self.value, number: value };
            self.table.write(&ReleaseRow {
                time: &self.time,
                groups: &texts,
                step,
                value: amount,
                std_error,
                lower,
                upper,
            })?;
            if drawn && let Some(series) = self.picture.get_mut(group) {
                let truth = self.truth.as_ref().map(|t| plan.request().grid.to_f64(t[group].into()));
                let at = calendar.end_of(step).micros() as f64 / 1e6;
                series.points.push(Point { at, value, lower, upper, truth });
            }
        }
        Ok(())
    }

    /// Ends the table and writes everything beside it.
    pub(super) fn finish(self, setup: &Setup, key: &SecretKey, publication: &mut Publication) -> Result<()> {
        self.table.finish()?.finish()?;
        if setup.stream.out.as_os_str() == "-" {
            return Ok(());
        }
        let groups = setup.groups.as_ref().map(GroupTable::facts);
        let report = Report::new(&setup.stream, key, Extent { groups, sketch: None });
        let mut beside = Beside { setup: &setup.stream, publication };
        beside.put_report(&report)?;
        if setup.stream.plot {
            let mut plot = picture(setup, &report, self.picture, self.tuples.len());
            if setup.show_truth {
                plot.unsafe_truth = true;
                beside.put_picture("NOT-PRIVATE.", &svg(&plot)?)?;
                plot.unsafe_truth = false;
            }
            beside.put_picture("", &svg(&plot)?)?;
        }
        Ok(())
    }
}

fn picture(setup: &Setup, report: &Report, series: Vec<Series>, total_groups: usize) -> Plot {
    Plot {
        title: setup.stream.title.clone(),
        subtitle: report.headline(),
        y_label: format!("{} since {}", setup.stream.quantity(), setup.stream.start_in_words()),
        footer: report.promise(),
        time_labels: TimeLabels::Calendar(setup.stream.calendar.zone().time_zone().clone()),
        confidence: setup.stream.confidence,
        series,
        total_groups,
        group_word: "group",
        unsafe_truth: false,
    }
}
