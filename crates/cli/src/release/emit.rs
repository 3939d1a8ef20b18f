//! The outputs of a run: table, pictures, report and plan, written together.

use super::releases::Outlet;
use super::rows::Rows;
use super::setup::Setup;
use crate::stream::Beside;
use anyhow::Result;
use evertally::noise::SecretKey;
use evertally::stream::Release;
use evertally_plot::{Curve, MAX_SHOWN, Point, ReleasePlot, TimeLabels};
use evertally_publish::groups::GroupTable;
use evertally_publish::report::{Extent, Report};
use evertally_tables::output::{OutputFile, Publication, TableWriter};

/// Points kept of each drawn group; pictures are narrower than this.
const MAX_POINTS: u64 = 16_384;

/// Writes rows as steps close, and keeps what the picture needs.
pub(super) struct Emitter {
    table: TableWriter<OutputFile>,
    rows: Rows,
    picture: Vec<Curve>,
    /// Every how many steps a point is drawn.
    stride: u64,
    /// True running sums of the drawn groups: only under `--unsafe-show-truth`.
    truth: Option<Vec<i64>>,
}

impl Emitter {
    pub(super) fn new(setup: &Setup, publication: &mut Publication) -> Result<Self> {
        let out = publication.add(&setup.files.out)?;
        let rows = Rows::new(setup)?;
        let drawn = if setup.files.plot { rows.tuples().len().min(MAX_SHOWN) } else { 0 };
        let name = |tuple: &Vec<String>| tuple.join(", ");
        Ok(Self {
            table: TableWriter::new(setup.files.output_format, &setup.table, out)?,
            picture: rows.tuples()[..drawn].iter().map(|tuple| Curve { name: name(tuple), points: vec![] }).collect(),
            rows,
            stride: setup.stream.last_step.div_ceil(MAX_POINTS),
            truth: setup.show_truth.then(|| vec![0; drawn]),
        })
    }
}

impl Outlet for Emitter {
    fn step(&mut self, setup: &Setup, releases: &[Release], sums: &[i64]) -> Result<()> {
        let (step, plan) = (releases[0].step(), &setup.stream.plan);
        if let Some(truth) = &mut self.truth {
            truth.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
        }
        let drawn = step.is_multiple_of(self.stride) || step == setup.stream.last_step;
        self.rows.of_step(setup, releases, |group, row| {
            self.table.write(row)?;
            if drawn && let Some(curve) = self.picture.get_mut(group) {
                let truth = self.truth.as_ref().map(|t| plan.request().grid().to_f64(t[group].into()));
                let at = setup.stream.calendar.end_of(step).micros() as f64 / 1e6;
                let (value, lower, upper) = (row.value.number, row.lower, row.upper);
                curve.points.push(Point { at, value, lower, upper, truth });
            }
            Ok(())
        })
    }
}

impl Emitter {
    /// Ends the table and writes everything beside it.
    pub(super) fn finish(self, setup: &Setup, key: &SecretKey, publication: &mut Publication) -> Result<()> {
        self.table.finish()?.finish()?;
        if setup.files.is_stdout() {
            return Ok(());
        }
        let groups = setup.groups.as_ref().map(GroupTable::facts);
        let report = Report::new(&setup.stream, key, Extent { groups, sketch: None });
        let mut beside = Beside { stream: &setup.stream, files: &setup.files, publication };
        beside.put_report(&report)?;
        if setup.files.plot {
            let mut plot = picture(setup, &report, self.picture, self.rows.tuples().len());
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
