//! The queries of a sketch: which items, and at which steps.

use crate::failure::usage;
use anyhow::Result;
use evertally_declare::declaration::{Parameter, Questions as Asking, parse_time};
use evertally_declare::event::{ColumnRole, Columns, Event};
use evertally_declare::identity::Identities;
use evertally_declare::steps::{Instant, StepCalendar, TimeParser};
use evertally_declare::tuples::push_encoded;
use evertally_tables::input::{CsvOptions, ReadOptions, for_each_event};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The maximum number of answers of a run.
const MAX_ANSWERS: u64 = 20_000_000;

/// The kind of query.
#[derive(Clone, Debug)]
pub(super) enum QueryKind {
    /// The count of every listed item.
    Each,
    /// The heaviest items: at most `top`, with an estimate of at least `threshold`.
    Heaviest { top: Option<usize>, threshold: Option<f64> },
}

/// Items and the steps at which they are queried.
#[derive(Debug)]
pub(super) struct Questions {
    pub(super) asked: QueryKind,
    /// The texts of every item, one per key column.
    pub(super) tuples: Vec<Vec<String>>,
    /// Their bytes, different for different tuples.
    pub(super) items: Vec<Box<[u8]>>,
    /// The items that are queried at each step.
    schedule: QuerySchedule,
}

#[derive(Debug)]
enum QuerySchedule {
    /// All items, at all of these steps.
    All(Vec<u64>),
    /// Each item at its own step.
    Own(BTreeMap<u64, Vec<usize>>),
}

impl Questions {
    /// Whether each query has its own time.
    pub(super) fn has_own_times(&self) -> bool {
        matches!(self.schedule, QuerySchedule::Own(_))
    }

    /// The kind of query and the file of items that the flags name; `None` if they name none.
    pub(super) fn asked(args: &Asking) -> Option<(QueryKind, PathBuf)> {
        let heaviest = QueryKind::Heaviest { top: args.top, threshold: args.threshold };
        let each = args.queries.clone().map(|path| (QueryKind::Each, path));
        each.or_else(|| args.candidates.clone().map(|path| (heaviest, path)))
    }

    /// Reads the items and determines the steps; no step after the last of `span` can be queried.
    pub(super) fn read(
        args: &Asking,
        (asked, path): (QueryKind, PathBuf),
        (columns, ids): (&[String], Identities),
        span: QuerySpan<'_>,
        times: TimeParsers,
        reading: &ReadOptions,
    ) -> Result<Self> {
        let TimeParsers { mut declared, of_files: times } = times;
        let steps = steps(args, span, &mut declared)?;
        let distinct = matches!(asked, QueryKind::Heaviest { .. });
        let reader = ItemReader {
            distinct,
            at_column: args.at_column.as_ref(),
            span,
            times,
            seen: HashSet::new(),
            found: vec![],
            ids,
        };
        let found = reader.read(&path, columns, reading)?;
        if found.is_empty() {
            return Err(usage(format!("{}: the file contains no item", path.display())));
        }
        let schedule = if args.at_column.is_some() {
            let mut own = BTreeMap::<u64, Vec<usize>>::new();
            found.iter().enumerate().for_each(|(item, found)| own.entry(found.step).or_default().push(item));
            QuerySchedule::Own(own)
        } else {
            let answers = steps.len() as u64 * found.len() as u64; // fits: both are in memory, and steps are limited
            if answers > MAX_ANSWERS {
                return Err(usage(format!(
                    "{answers} answers are more than the maximum of {MAX_ANSWERS}; query fewer steps or items"
                )));
            }
            QuerySchedule::All(steps)
        };
        let (tuples, items) = found.into_iter().map(|found| (found.tuple, found.item)).unzip();
        Ok(Self { asked, tuples, items, schedule })
    }

    /// Queries for heavy keys at some steps, without a list.
    pub(super) fn for_heavy_keys(args: &Asking, span: QuerySpan<'_>, mut times: TimeParser) -> Result<Self> {
        let asked = QueryKind::Heaviest { top: args.top, threshold: args.threshold };
        let schedule = QuerySchedule::All(steps(args, span, &mut times)?);
        Ok(Self { asked, tuples: Vec::new(), items: Vec::new(), schedule })
    }

    /// Whether there is a query at a step.
    pub(super) fn is_asked_at(&self, step: u64) -> bool {
        match &self.schedule {
            QuerySchedule::All(steps) => steps.binary_search(&step).is_ok(),
            QuerySchedule::Own(steps) => steps.contains_key(&step),
        }
    }

    /// The last queried step.
    pub(super) fn last_step(&self) -> u64 {
        match &self.schedule {
            QuerySchedule::All(steps) => *steps.last().expect("some step is asked for"),
            QuerySchedule::Own(steps) => *steps.keys().next_back().expect("some item is asked for"),
        }
    }

    /// The number of queried steps.
    pub(super) fn step_count(&self) -> usize {
        match &self.schedule {
            QuerySchedule::All(steps) => steps.len(),
            QuerySchedule::Own(steps) => steps.len(),
        }
    }

    /// Whether each item is queried at several steps.
    pub(super) fn is_series(&self) -> bool {
        matches!(&self.schedule, QuerySchedule::All(steps) if steps.len() > 1)
    }

    /// The queried steps, rising.
    pub(super) fn steps(&self) -> Vec<u64> {
        match &self.schedule {
            QuerySchedule::All(steps) => steps.clone(),
            QuerySchedule::Own(steps) => steps.keys().copied().collect(),
        }
    }

    /// The items that are queried at a step, by index in the file.
    pub(super) fn items_at(&self, step: u64) -> Vec<usize> {
        match &self.schedule {
            QuerySchedule::All(steps) if steps.binary_search(&step).is_ok() => (0..self.items.len()).collect(),
            QuerySchedule::All(_) => vec![],
            QuerySchedule::Own(steps) => steps.get(&step).cloned().unwrap_or_default(),
        }
    }

    /// The queries, in words.
    pub(super) fn in_words(&self) -> String {
        let plural = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
        let (items, steps) = (self.items.len(), plural(self.step_count(), "step"));
        match &self.asked {
            QueryKind::Each if self.is_series() => format!("{} at {steps} each", plural(items, "item")),
            QueryKind::Each => format!("{} at {steps}", plural(items, "item")),
            QueryKind::Heaviest { top, threshold } => {
                let most = top.map_or("those".to_owned(), |top| format!("the {top} heaviest"));
                let least = threshold.map_or(String::new(), |x| format!(" with an estimate of at least {x}"));
                let of = if items == 0 { "all keys".to_owned() } else { plural(items, "candidate") };
                format!("{most} of {of}{least}, at {steps}")
            }
        }
    }
}

/// Parsers for declared times and for times in files of items.
pub(super) struct TimeParsers {
    pub(super) declared: TimeParser,
    pub(super) of_files: TimeParser,
}

/// The steps that can be queried.
#[derive(Clone, Copy)]
pub(super) struct QuerySpan<'a> {
    pub(super) calendar: &'a StepCalendar,
    pub(super) last_step: u64,
}

/// The steps named by the flags, rising.
fn steps(args: &Asking, span: QuerySpan<'_>, times: &mut TimeParser) -> Result<Vec<u64>> {
    let last_step = span.last_step;
    let mut steps = match (&args.at, args.every_query, &args.at_column) {
        (None, None, _) => vec![last_step],
        (Some(texts), ..) => {
            let of = |text: &String| {
                let instant = parse_time(Parameter::At, text, times)?;
                span.step_at(instant).map_err(|problem| usage(format!("--at `{text}` {problem}")))
            };
            texts.iter().map(of).collect::<Result<Vec<u64>>>()?
        }
        (None, Some(every), _) => {
            if last_step / every > MAX_ANSWERS {
                return Err(usage(format!("--every-query {every} queries more than {MAX_ANSWERS} steps")));
            }
            // fits: the last multiple is at most the last step, which is below 2^63.
            (1..=last_step / every).map(|k| k * every).chain([last_step]).collect()
        }
    };
    steps.sort_unstable();
    steps.dedup();
    Ok(steps)
}

impl QuerySpan<'_> {
    /// The step that contains a time, or the problem in words if it cannot be queried.
    fn step_at(self, instant: Instant) -> std::result::Result<u64, String> {
        match self.calendar.step_of(instant) {
            Some(step) if step <= self.last_step => Ok(step),
            Some(_) => Err("is after the last step that --through publishes".to_owned()),
            None => {
                let time = |instant| self.calendar.format(instant);
                let (start, end) = (time(self.calendar.start()), time(self.calendar.end()));
                Err(format!("is outside the horizon, {start} to {end}"))
            }
        }
    }
}

/// Reads a file of items.
struct ItemReader<'a> {
    /// Whether the items of the file must be distinct.
    distinct: bool,
    /// The column with the time of each item, if items have their own times.
    at_column: Option<&'a String>,
    span: QuerySpan<'a>,
    times: TimeParser,
    seen: HashSet<Vec<u8>>,
    found: Vec<ItemRow>,
    /// How cells become items.
    ids: Identities,
}

/// A row of a file of items.
struct ItemRow {
    /// The texts as in the file.
    tuple: Vec<String>,
    /// The bytes of the item.
    item: Box<[u8]>,
    /// Its own step, or 0.
    step: u64,
}

impl ItemReader<'_> {
    /// The items of a file.
    fn read(mut self, path: &Path, columns: &[String], reading: &ReadOptions) -> Result<Vec<ItemRow>> {
        // The reader needs a time column; if there is none, a key column takes its place and the cell is ignored.
        let time = self.at_column.unwrap_or(&columns[0]).clone();
        let columns = Columns { time, labels: columns.to_vec(), ..Columns::default() };
        // Delimiter, quote and encoding are those of the events. The lines of this file are its own.
        let csv = CsvOptions { skip_lines: 0, comment: None, columns: None, ..reading.csv.clone() };
        let reading = ReadOptions { format: None, csv, json_records: None, sheet: None, ..reading.clone() };
        let running = AtomicBool::new(false);
        for_each_event(&[path.to_owned()], &columns, &reading, &(), &running, &mut |row| self.row(row))?;
        Ok(self.found)
    }

    fn row(&mut self, row: &Event<'_>) -> Result<()> {
        let (mut item, mut text) = (Vec::new(), String::new());
        for column in 0..row.label_count() {
            let Some(cell) = row.identity(ColumnRole::Label(column), self.ids, &mut text)? else {
                return Err(row.error(ColumnRole::Label(column), "the item has no value in this column").into());
            };
            push_encoded(&mut item, cell);
        }
        if self.distinct && !self.seen.insert(item.clone()) {
            return Err(row.error(ColumnRole::Label(0), "this candidate is in the file twice; list it once").into());
        }
        let step = match self.at_column {
            None => 0,
            Some(_) => {
                let instant = self.times.parse_event(row)?;
                self.span.step_at(instant).map_err(|problem| row.bad_cell(ColumnRole::Time, problem))?
            }
        };
        let tuple = row.labels().map(|label| label.to_string()).collect();
        self.found.push(ItemRow { tuple, item: item.into(), step });
        Ok(())
    }
}
