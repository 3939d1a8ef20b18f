//! The outputs of a run: table, pictures, report and plan, written together.

use super::counting::Answer;
use super::questions::{Asked, Questions};
use super::setup::Setup;
use crate::output::{Amount, OutputFile, Publication, ReleaseRow, TableWriter};
use crate::plot::{MAX_SHOWN, Plot, Point, Ranked, Ranking, Series, TimeLabels, ranking_svg, svg};
use crate::publish::{Beside, Extent, Report, SketchFacts};
use anyhow::{Context, Result};
use evertally::decimal::Grid;
use evertally::noise::SecretKey;
use evertally::plan::Intervals;
use evertally::sketch::CountSketch;

/// How many items a ranking shows at most.
const MOST_RANKED: usize = 30;
/// Decimal digits of an estimate behind those of the grid, where noise is finer than the grid: as [`Release`] has them.
///
/// [`Release`]: evertally::stream::Release
const EXTRA_DIGITS: u8 = 4;
/// Numbers up to here count units without gaps in a double.
const EXACT: f64 = (1u64 << 53) as f64;

/// An answer as it is published.
struct Row {
    item: usize,
    step: u64,
    text: String,
    value: f64,
    std_error: f64,
    lower: f64,
    upper: f64,
    half_width: f64,
}

/// Writes all outputs of a run.
pub(super) fn write(
    setup: &Setup,
    questions: &Questions,
    key: &SecretKey,
    mut answers: Vec<Answer>,
    collisions: Option<f64>,
    table: TableWriter<OutputFile>,
    publication: &mut Publication,
) -> Result<()> {
    if matches!(questions.asked, Asked::Each) {
        // Answers stand in the order of the questions; of one item, in order of time.
        answers.sort_by_key(|answer| answer.item);
    }
    let mut intervals = CountSketch::intervals(&setup.plan, setup.stream.confidence)?;
    let rows = answers.iter().map(|answer| row(setup, &mut intervals, answer)).collect::<Result<Vec<Row>>>()?;
    write_table(setup, questions, &rows, table)?;
    if setup.stream.out.as_os_str() == "-" {
        return Ok(());
    }
    let report =
        Report::new(&setup.stream, key, Extent { groups: None, sketch: Some(facts(setup, questions, collisions)?) });
    let mut beside = Beside { setup: &setup.stream, publication };
    beside.put_report(&report)?;
    if setup.stream.plot {
        let picture = match questions.is_series() && matches!(questions.asked, Asked::Each) {
            true => svg(&curves(setup, questions, &report, &rows))?,
            false => ranking_svg(&ranking(setup, questions, &report, &rows))?,
        };
        beside.put_picture("", &picture)?;
    }
    Ok(())
}

fn row(setup: &Setup, intervals: &mut Intervals, answer: &Answer) -> Result<Row> {
    let estimate = answer.estimate;
    let half = i128::try_from(intervals.half_width(estimate.step)).context("the interval is too wide to write")?;
    let grid = setup.stream.plan.request().grid;
    let (unit, fine) = match grid.finer(EXTRA_DIGITS) {
        Some(finer) if setup.plan.lazy().fraction_bits() > 0 => (finer, 10i128.pow(EXTRA_DIGITS.into())),
        _ => (grid, 1),
    };
    let (value, half_width) = (estimate.value, grid.to_f64(half));
    let (text, value, lower, upper) = match multiple_of(unit, value) {
        Some(multiple) => {
            let shifted = |by: i128| unit.to_f64(multiple.saturating_add(by.saturating_mul(fine)));
            (unit.format(multiple), shifted(0), shifted(-half), shifted(half))
        }
        None => (value.to_string(), value, value - half_width, value + half_width),
    };
    let (item, step, std_error) = (answer.item, estimate.step, estimate.noise_std_error);
    Ok(Row { item, step, text, value, std_error, lower, upper, half_width })
}

/// Which multiple of the unit a double stands for; `None` beyond those that it tells apart.
fn multiple_of(unit: Grid, value: f64) -> Option<i128> {
    let multiple = (value / unit.to_f64(1)).round();
    (multiple.abs() < EXACT).then_some(multiple as i128)
}

fn write_table(setup: &Setup, questions: &Questions, rows: &[Row], mut table: TableWriter<OutputFile>) -> Result<()> {
    let calendar = &setup.stream.calendar;
    let mut time = String::new();
    for row in rows {
        time.clear();
        calendar.write_time(calendar.start_of(row.step), &mut time);
        let texts: Vec<&str> = questions.tuples[row.item].iter().map(String::as_str).collect();
        table.write(&ReleaseRow {
            time: &time,
            groups: &texts,
            step: row.step,
            value: Amount { text: &row.text, number: row.value },
            std_error: row.std_error,
            lower: row.lower,
            upper: row.upper,
        })?;
    }
    Ok(table.finish()?.finish()?)
}

/// What the report says of the sketch.
fn facts(setup: &Setup, questions: &Questions, collisions: Option<f64>) -> Result<SketchFacts> {
    Ok(SketchFacts {
        kind: "count sketch".to_owned(),
        rows: setup.rows.rows(),
        width: setup.rows.width(),
        key_columns: setup.stream.columns.groups.clone(),
        hashing: "functions that only the secret key tells",
        max_cell_std_error: setup.stream.plan.max_std_error(),
        answers: questions.in_words(),
        collision_std_error: collisions,
        error: setup.errors()?,
    })
}

fn name(questions: &Questions, item: usize) -> String {
    questions.tuples[item].join(", ")
}

/// The first items as curves over time.
fn curves(setup: &Setup, questions: &Questions, report: &Report, rows: &[Row]) -> Plot {
    let calendar = &setup.stream.calendar;
    let point = |row: &Row| Point {
        at: calendar.end_of(row.step).micros() as f64 / 1e6,
        value: row.value,
        lower: row.lower,
        upper: row.upper,
        truth: None,
    };
    // Rows of an item stand together.
    let of_items = rows.chunk_by(|a, b| a.item == b.item).take(MAX_SHOWN);
    let series =
        of_items.map(|rows| Series { name: name(questions, rows[0].item), points: rows.iter().map(point).collect() });
    Plot {
        title: setup.stream.title.clone(),
        subtitle: report.headline(),
        y_label: format!("Estimated {} since {}", setup.stream.quantity(), setup.stream.start_in_words()),
        footer: report.promise(),
        time_labels: TimeLabels::Calendar(calendar.zone().time_zone().clone()),
        confidence: setup.stream.confidence,
        series: series.collect(),
        total_groups: questions.items.len(),
        unsafe_truth: false,
    }
}

/// The first answers of the last step, below each other.
fn ranking(setup: &Setup, questions: &Questions, report: &Report, rows: &[Row]) -> Ranking {
    let calendar = &setup.stream.calendar;
    // Queries may each have a time of their own; candidates are compared at the last.
    let of_last = |row: &&Row| matches!(questions.asked, Asked::Each) || row.step == questions.last_step();
    let shown: Vec<&Row> = rows.iter().filter(of_last).collect();
    let ranked = shown.iter().take(MOST_RANKED).map(|row| Ranked {
        name: name(questions, row.item),
        value: row.value,
        half_width: row.half_width,
    });
    let one_step = questions.step_count() == 1 || !matches!(questions.asked, Asked::Each);
    let last = calendar.format(calendar.start_of(questions.last_step()));
    let when = if one_step { format!(" up to the end of {last}") } else { String::new() };
    Ranking {
        title: setup.stream.title.clone(),
        subtitle: report.headline(),
        label: format!("Estimated {} since {}{when}", setup.stream.quantity(), setup.stream.start_in_words()),
        footer: report.promise(),
        confidence: setup.stream.confidence,
        items: ranked.collect(),
        total: shown.len(),
    }
}
