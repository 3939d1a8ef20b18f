//! Flags that `release` and `sketch` share, and the same names in a TOML file.

use super::possible::{Possible, possible};
use crate::commands::{BudgetFlags, kebab};
use clap::Args;
use evertally::mechanism::MechanismName;
use evertally::number::Grid;
use evertally::plan::{NoiseKind, Objective};
use evertally::privacy::Neighbours;
use evertally_publish::steps::{Every, TimeFormat, Zone};
use evertally_publish::stream::{OutOfBounds, Refusable};
use evertally_tables::input::InputFormat;
use evertally_tables::output::OutputFormat;
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};

/// Flags of every command that publishes a stream of events. Each can also stand in the `--config` file under its own name;
/// a flag on the command line wins.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct StreamArgs {
    /// Event files in order of time: CSV, JSON lines or Parquet, plain or compressed with gzip or zstd; `-` is standard
    /// input.
    #[arg(value_name = "FILE")]
    #[serde(rename = "input", deserialize_with = "one_or_many_paths")]
    pub inputs: Vec<PathBuf>,

    /// TOML file with any of these flags, without the dashes in front.
    #[arg(long, value_name = "FILE.toml")]
    #[serde(skip)]
    pub config: Option<PathBuf>,

    /// Column with the time of an event [default: time].
    #[arg(long, value_name = "COLUMN", help_heading = "Events")]
    pub time: Option<String>,
    /// How times are written [default: auto, which refuses bare numbers].
    #[arg(long, value_parser = possible::<TimeFormat>(), help_heading = "Events")]
    pub time_format: Option<TimeFormat>,
    /// Zone of times without an offset, and of calendar steps [default: UTC].
    #[arg(long, value_name = "ZONE", help_heading = "Events")]
    pub time_zone: Option<Zone>,
    /// Input format [default: found out from the first bytes].
    #[arg(long, value_parser = possible::<InputFormat>(), help_heading = "Events")]
    #[serde(deserialize_with = "from_value_enum")]
    pub input_format: Option<InputFormat>,
    /// What separates the cells of a CSV line, such as ';' [default: ','].
    #[arg(long, value_name = "CHARACTER", help_heading = "Events")]
    pub delimiter: Option<char>,
    /// Texts that stand for a missing cell, such as NA; separated by commas.
    #[arg(long, value_name = "TEXT", value_delimiter = ',', help_heading = "Events")]
    pub missing_text: Option<Vec<String>>,
    /// What to do with an event whose person, value or key column is missing [default: refuse].
    #[arg(long, value_parser = possible::<Refusable>(), help_heading = "Events")]
    pub missing: Option<Refusable>,
    /// What to do with an event outside the horizon [default: refuse].
    #[arg(long, value_parser = possible::<Refusable>(), help_heading = "Events")]
    pub outside: Option<Refusable>,
    /// Put events in order of time while reading, holding back so many [default: 0, unsorted events are refused].
    #[arg(long, value_name = "EVENTS", help_heading = "Events")]
    pub sort_buffer: Option<usize>,

    /// Width of a step: 15m, 1h, 1d, 1w, 1mo, 1y, …
    #[arg(long, value_name = "WIDTH", help_heading = "Steps")]
    pub every: Option<Every>,
    /// Beginning of the first step.
    #[arg(long, value_name = "TIME", help_heading = "Steps")]
    pub start: Option<String>,
    /// End of the last step; the time itself no longer belongs to it: 2025-01-01 for all of 2024.
    #[arg(long, value_name = "TIME", help_heading = "Steps")]
    pub end: Option<String>,
    /// Number of steps, instead of --end.
    #[arg(long, value_name = "T", help_heading = "Steps")]
    pub steps: Option<u64>,
    /// Publish only the steps that end by this time; the rest can follow later from the same, longer data.
    #[arg(long, value_name = "TIME", help_heading = "Steps")]
    pub through: Option<String>,

    /// Sum this column instead of counting events.
    #[arg(long, value_name = "COLUMN", help_heading = "Values")]
    pub value: Option<String>,
    /// Least and greatest value of one event; others are clamped.
    #[arg(long, value_name = "LOW,HIGH", value_delimiter = ',', allow_hyphen_values = true, help_heading = "Values")]
    #[serde(deserialize_with = "decimal_texts")]
    pub bounds: Option<Vec<String>>,
    /// Distance between neighbouring values, such as 0.01; finer values are rounded [default: 1].
    #[arg(long, value_name = "G", help_heading = "Values")]
    #[serde(deserialize_with = "grid_text")]
    pub grid: Option<Grid>,
    /// What to do with a value outside the bounds [default: clamp].
    #[arg(long, value_parser = possible::<OutOfBounds>(), help_heading = "Values")]
    pub out_of_bounds: Option<OutOfBounds>,

    /// The privacy budget.
    #[command(flatten)]
    #[serde(skip)]
    pub budget: BudgetFlags,
    /// Protect all events of a person, named by this column, together. Without it only single events are protected.
    #[arg(long, value_name = "COLUMN", help_heading = "Privacy unit")]
    pub person: Option<String>,
    /// Keep the first so many events of a person, over all steps and groups or keys.
    #[arg(long, value_name = "M", help_heading = "Privacy unit")]
    pub max_events: Option<u64>,
    /// Keep the first so many of them in one step (over all groups or keys); Gaussian noise shrinks with it [default: as many as in
    /// all].
    #[arg(long, value_name = "C", help_heading = "Privacy unit")]
    pub max_events_per_step: Option<u64>,
    /// Whether the unit's events are added or removed, or replaced by others [default: add-remove].
    #[arg(long, value_parser = kebab::<Neighbours>, value_name = "add-remove|replace-one", help_heading = "Privacy unit")]
    pub neighbours: Option<Neighbours>,

    /// Mechanism, such as subtract(k=13) [default: the one with the least error].
    #[arg(long, value_name = "NAME", help_heading = "Mechanism")]
    pub mechanism: Option<MechanismName>,
    /// Noise law [default: the one with the least error that the budget allows].
    #[arg(long, value_parser = kebab::<NoiseKind>, value_name = "laplace|gaussian", help_heading = "Mechanism")]
    pub noise: Option<NoiseKind>,
    /// Minimise the maximal or the mean error over the steps [default: max].
    #[arg(long, value_parser = kebab::<Objective>, value_name = "max|mean", help_heading = "Mechanism")]
    pub objective: Option<Objective>,

    /// Secret key, made by `evertally key new`.
    #[arg(long, value_name = "FILE", help_heading = "Key")]
    pub key: Option<PathBuf>,
    /// Make the key file if there is none yet.
    #[arg(long, help_heading = "Key", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub create_key: Option<bool>,
    /// Name of this stream: one name serves one data set [default: main].
    #[arg(long, value_name = "NAME", help_heading = "Key")]
    pub stream: Option<String>,

    /// Where the table goes: .csv, .jsonl or .parquet; `-` is standard output. Picture and report go beside it.
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Format of the table [default: by the name].
    #[arg(long, value_parser = possible::<OutputFormat>(), help_heading = "Output")]
    #[serde(deserialize_with = "from_value_enum")]
    pub output_format: Option<OutputFormat>,
    /// Confidence of the intervals [default: 0.95].
    #[arg(long, value_name = "P", help_heading = "Output")]
    pub confidence: Option<f64>,
    /// Headline of picture and report [default: the stream's name].
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    pub title: Option<String>,
    /// Draw no picture.
    #[arg(long, help_heading = "Output", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub no_plot: Option<bool>,
    /// Only print the plan and its error, without reading any event.
    #[arg(long, help_heading = "Output", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub plan_only: Option<bool>,
    /// No progress bar and no summary.
    #[arg(long, short, help_heading = "Output", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub quiet: Option<bool>,

    /// Events and releases are tables in memory, and the key is at hand: no file is named. No flag, and not in files.
    #[arg(skip)]
    #[serde(skip)]
    pub in_memory: bool,
}

impl StreamArgs {
    /// Whether only the plan is wanted, before any event is read.
    pub(crate) fn is_plan_only(&self) -> bool {
        self.plan_only == Some(true)
    }

    /// Whether input, key and output must be named.
    pub(crate) fn needs_files(&self) -> bool {
        !self.is_plan_only() && !self.in_memory
    }

    /// Paths in a configuration file are relative to it.
    pub(crate) fn resolve_paths(&mut self, folder: &Path) {
        let paths = [&mut self.key, &mut self.out].into_iter().flatten().chain(&mut self.inputs);
        paths.for_each(|path| resolve(path, folder));
    }

    /// Fills what is open from a configuration file.
    pub(crate) fn or(self, file: Self) -> Self {
        // A budget is one thing: numbers from two places would mix currencies.
        let mut budget = if self.budget.is_empty() { file.budget } else { self.budget.clone() };
        budget.allow_weak_budget = self.budget.allow_weak_budget.or(budget.allow_weak_budget);
        // So are the two ways to say where the horizon ends.
        let own_length = self.end.is_some() || self.steps.is_some();
        let (end, steps) = if own_length { (self.end, self.steps) } else { (file.end, file.steps) };
        Self {
            inputs: if self.inputs.is_empty() { file.inputs } else { self.inputs },
            config: self.config,
            time: self.time.or(file.time),
            time_format: self.time_format.or(file.time_format),
            time_zone: self.time_zone.or(file.time_zone),
            input_format: self.input_format.or(file.input_format),
            delimiter: self.delimiter.or(file.delimiter),
            missing_text: self.missing_text.or(file.missing_text),
            missing: self.missing.or(file.missing),
            outside: self.outside.or(file.outside),
            sort_buffer: self.sort_buffer.or(file.sort_buffer),
            every: self.every.or(file.every),
            start: self.start.or(file.start),
            end,
            steps,
            through: self.through.or(file.through),
            value: self.value.or(file.value),
            bounds: self.bounds.or(file.bounds),
            grid: self.grid.or(file.grid),
            out_of_bounds: self.out_of_bounds.or(file.out_of_bounds),
            budget,
            person: self.person.or(file.person),
            max_events: self.max_events.or(file.max_events),
            max_events_per_step: self.max_events_per_step.or(file.max_events_per_step),
            neighbours: self.neighbours.or(file.neighbours),
            mechanism: self.mechanism.or(file.mechanism),
            noise: self.noise.or(file.noise),
            objective: self.objective.or(file.objective),
            key: self.key.or(file.key),
            create_key: self.create_key.or(file.create_key),
            stream: self.stream.or(file.stream),
            out: self.out.or(file.out),
            output_format: self.output_format.or(file.output_format),
            confidence: self.confidence.or(file.confidence),
            title: self.title.or(file.title),
            no_plot: self.no_plot.or(file.no_plot),
            plan_only: self.plan_only.or(file.plan_only),
            quiet: self.quiet.or(file.quiet),
            in_memory: self.in_memory,
        }
    }
}

/// A path of a configuration file: relative to its folder, unless it is standard input or output.
pub(crate) fn resolve(path: &mut PathBuf, folder: &Path) {
    if path.as_os_str() != "-" {
        *path = folder.join(&path);
    }
}

fn from_value_enum<'de, T: Possible, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    T::of_text(&text).map(Some).ok_or_else(|| {
        let known: Vec<_> = T::VALUES.iter().map(|value| value.name).collect();
        serde::de::Error::custom(format!("`{text}` is none of {}", known.join(", ")))
    })
}

/// A decimal number, quoted or not; unquoted ones are read back from their shortest text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Decimal {
    Text(String),
    Integer(i64),
    Float(f64),
}

impl Decimal {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
        }
    }
}

fn decimal_texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    Ok(Some(Vec::<Decimal>::deserialize(deserializer)?.into_iter().map(Decimal::text).collect()))
}

fn grid_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Grid>, D::Error> {
    Decimal::deserialize(deserializer)?.text().parse().map(Some).map_err(serde::de::Error::custom)
}

fn one_or_many_paths<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Paths {
        One(PathBuf),
        Many(Vec<PathBuf>),
    }
    Ok(match Paths::deserialize(deserializer)? {
        Paths::One(path) => vec![path],
        Paths::Many(paths) => paths,
    })
}
