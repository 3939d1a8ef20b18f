//! The outputs of a run: table, pictures, report and plan, written together.

use super::heavy::tree_of;
use super::querier::{AnswerError, ItemAnswer};
use super::questions::{QueryKind, Questions};
use super::setup::SketchSetup;
use crate::stream::SideFiles;
use anyhow::Result;
use evertally::number::Grid;
use evertally::sketch::Table;
use evertally_ledger::ledger::OpenKey;
use evertally_plot::{Curve, MAX_SHOWN, Point, RankedItem, RankingChart, ReleasePlot, TimeLabels};
use evertally_publish::report::{ReleaseKind, Report, SketchFacts};
use evertally_publish::rows::{ReleaseRow, ReleasedValue, seven_digits};
use evertally_tables::output::{OutputFile, RunOutputs, TableWriter};

/// The maximum number of items in a ranking.
const MAX_RANKED_ITEMS: usize = 30;
/// Points kept of each drawn curve; pictures are narrower than this.
const MAX_POINTS: usize = 16_384;
/// Up to this number, a double represents every whole number of units.
const MAX_EXACT_MULTIPLE: f64 = (1u64 << 53) as f64;

/// Writes the table, and keeps the points for the picture.
pub(super) struct AnswerEmitter<'a> {
    setup: &'a SketchSetup,
    questions: &'a Questions,
    /// The texts of the items, by index.
    names: &'a [Vec<String>],
    table: TableWriter<OutputFile>,
    /// The grid of the written values.
    unit: Grid,
    picture: Picture,
    time: String,
}

/// The content of the picture.
enum Picture {
    /// Items over time; of each item every `stride`-th answer is kept as a point.
    Curves { curves: Vec<Drawn>, stride: usize },
    /// Answers listed one below the other, and their total number.
    Ranking { items: Vec<RankedItem>, total: usize },
}

/// An item whose answers are drawn over time.
struct Drawn {
    item: usize,
    curve: Curve,
    /// Answers seen so far, drawn or not.
    passed: usize,
}

/// An answer as it is published.
struct PublishedAnswer {
    text: String,
    value: f64,
    lower: f64,
    upper: f64,
}

impl<'a> AnswerEmitter<'a> {
    pub(super) fn new(
        setup: &'a SketchSetup,
        questions: &'a Questions,
        names: &'a [Vec<String>],
        out: OutputFile,
    ) -> Result<Self> {
        Ok(Self {
            table: TableWriter::new(setup.files.output_format, &setup.table, out)?,
            unit: setup.unit(),
            picture: Picture::Ranking { items: Vec::new(), total: 0 },
            time: String::new(),
            setup,
            questions,
            names,
        })
    }

    /// Writes all answers, in the order of the queries and, for each item, in order of time; the heaviest items of a
    /// step in their own order.
    pub(super) fn answers(&mut self, answers: &[ItemAnswer]) -> Result<()> {
        let mut answers = answers.to_vec();
        if matches!(self.questions.asked, QueryKind::Each) {
            answers.sort_by_key(|answer| answer.item); // stable: steps stay in order
        }
        if self.questions.is_series() {
            self.draw_over_time(&answers);
        }
        answers.iter().try_for_each(|answer| self.answer(answer))
    }

    /// Draws the first items over time: those listed at the last step, if the heaviest are selected.
    fn draw_over_time(&mut self, answers: &[ItemAnswer]) {
        let last = self.questions.last_step();
        let shown = answers.iter().filter(|answer| answer.step == last).take(MAX_SHOWN);
        let drawn = |answer: &ItemAnswer| {
            let curve = Curve { name: self.names[answer.item].join(", "), ..Curve::default() };
            Drawn { item: answer.item, curve, passed: 0 }
        };
        let curves: Vec<Drawn> = shown.map(drawn).collect();
        if !curves.is_empty() {
            self.picture = Picture::Curves { curves, stride: self.questions.step_count().div_ceil(MAX_POINTS) };
        }
    }

    fn answer(&mut self, answer: &ItemAnswer) -> Result<()> {
        let calendar = &self.setup.stream.calendar;
        let (row, step) = (self.row(answer), answer.step);
        self.time.clear();
        calendar.write_time(calendar.start_of(step), &mut self.time);
        let tuple = &self.names[answer.item];
        let texts: Vec<&str> = tuple.iter().map(String::as_str).collect();
        self.table.write(&ReleaseRow {
            time: &self.time,
            span: (calendar.start_of(step), calendar.end_of(step)),
            groups: &texts,
            step,
            value: ReleasedValue { text: &row.text, number: row.value },
            std_error: seven_digits(answer.std_error),
            lower: row.lower,
            upper: row.upper,
            view: None,
        })?;
        let last = step == self.questions.last_step();
        match &mut self.picture {
            Picture::Curves { curves, stride } => {
                if let Some(drawn) = curves.iter_mut().find(|drawn| drawn.item == answer.item) {
                    drawn.passed += 1;
                    if drawn.passed.is_multiple_of(*stride) || last {
                        let at = calendar.end_of(step).micros() as f64 / 1e6;
                        let PublishedAnswer { value, lower, upper, .. } = row;
                        drawn.curve.points.push(Point { at, value, lower, upper, truth: None });
                    }
                }
            }
            // Queries may have different times; candidates are compared at the last step.
            Picture::Ranking { items, total } if last || matches!(self.questions.asked, QueryKind::Each) => {
                *total += 1;
                if items.len() < MAX_RANKED_ITEMS {
                    let mut name = tuple.join(", ");
                    if self.questions.has_own_times() {
                        name = format!("{name}, {}", self.time);
                    }
                    items.push(RankedItem { name, value: row.value, lower: row.lower, upper: row.upper });
                }
            }
            Picture::Ranking { .. } => {}
        }
        Ok(())
    }

    /// An answer in units of the table, its interval rounded outwards.
    fn row(&self, answer: &ItemAnswer) -> PublishedAnswer {
        let (unit, value) = (self.unit, answer.value);
        match multiple_of(unit, value) {
            Some(multiple) => {
                let step = unit.to_f64(1);
                // Infinite ends stay infinite.
                let outwards = |distance: f64| (distance / step).ceil() as i128;
                let shifted = |by: i128| unit.to_f64(multiple.saturating_add(by));
                let (lower, upper) = (-outwards(value - answer.lower), outwards(answer.upper - value));
                let [value, lower, upper] = [0, lower, upper].map(shifted);
                PublishedAnswer { text: unit.format(multiple), value, lower, upper }
            }
            None => PublishedAnswer { text: value.to_string(), value, lower: answer.lower, upper: answer.upper },
        }
    }

    /// Ends the table and writes all files next to it.
    pub(super) fn finish(
        self,
        open: &OpenKey,
        last_step: u64,
        off: AnswerError,
        publication: &mut RunOutputs,
    ) -> Result<()> {
        let setup = self.setup;
        self.table.finish()?.finish()?;
        if setup.files.is_table_alone() {
            return Ok(());
        }
        let released = ReleaseKind::Sketch(facts(setup, self.questions, off)?);
        let place = open.ledger.place_of(&setup.stream.name, last_step);
        let report = Report::new(&setup.stream, &open.key, released).recorded_in(place);
        let mut side_files = SideFiles { stream: &setup.stream, files: &setup.files, publication };
        side_files.write_report(&report)?;
        if setup.files.plot {
            let picture = match self.picture {
                Picture::Curves { curves, .. } => over_time(setup, self.names.len(), &report, curves).svg()?,
                Picture::Ranking { items, total } => ranking(setup, self.questions, &report, items, total).svg()?,
            };
            side_files.write_picture("", &picture)?;
        }
        Ok(())
    }
}

/// The multiple of the unit that a double represents; `None` beyond the multiples that doubles distinguish.
fn multiple_of(unit: Grid, value: f64) -> Option<i128> {
    let multiple = (value / unit.to_f64(1)).round();
    (multiple.abs() < MAX_EXACT_MULTIPLE).then_some(multiple as i128)
}

/// The facts of the sketch for the report.
fn facts(setup: &SketchSetup, questions: &Questions, off: AnswerError) -> Result<SketchFacts> {
    Ok(SketchFacts {
        kind: match tree_of(&setup.plan) {
            Some(tree) => {
                format!("tree of counts over {}-bit keys, {} children per block", tree.bits(), tree.branching())
            }
            None => "count sketch".to_owned(),
        },
        rows: setup.rows.map(Table::rows),
        width: setup.rows.map(Table::width),
        key_columns: setup.stream.columns.labels.clone(),
        hashing: setup.rows.map(|_| "functions known only to holders of the secret key".to_owned()),
        max_cell_std_error: setup.stream.plan.max_std_error(),
        answers: questions.in_words(),
        collision_std_error: off.collisions,
        answer_std_error: off.std_error,
        answer_half_width: off.half_width,
        release_std_error: setup.instead.as_ref().map(|instead| instead.max_std_error),
        chosen: matches!(questions.asked, QueryKind::Heaviest { .. }),
        error: setup.errors()?,
    })
}

/// Items as curves over time.
fn over_time(setup: &SketchSetup, items: usize, report: &Report, curves: Vec<Drawn>) -> ReleasePlot {
    ReleasePlot {
        title: setup.stream.title.clone(),
        subtitle: report.headline(),
        y_label: format!("Estimated {} since {}", setup.stream.quantity(), setup.stream.start_in_words()),
        footer: report.promise(),
        time_labels: TimeLabels::Calendar(setup.stream.calendar.zone().time_zone().clone()),
        confidence: setup.stream.confidence,
        curves: curves.into_iter().map(|drawn| drawn.curve).collect(),
        total_groups: items,
        group_word: "item",
        apart: false,
        at_once: false,
        unsafe_truth: false,
    }
}

/// The first answers of the last step, one below the other.
fn ranking(
    setup: &SketchSetup,
    questions: &Questions,
    report: &Report,
    items: Vec<RankedItem>,
    total: usize,
) -> RankingChart {
    let calendar = &setup.stream.calendar;
    let one_step = questions.step_count() == 1 || !matches!(questions.asked, QueryKind::Each);
    let last = calendar.format(calendar.end_of(questions.last_step()));
    let when = if one_step { format!(", up to {last}") } else { String::new() };
    RankingChart {
        title: setup.stream.title.clone(),
        subtitle: report.headline(),
        label: format!("Estimated {} since {}{when}", setup.stream.quantity(), setup.stream.start_in_words()),
        footer: report.promise(),
        confidence: setup.stream.confidence,
        items,
        total,
        item_word: "item",
        value_word: "estimate",
    }
}
