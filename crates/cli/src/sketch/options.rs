//! Flags of `evertally sketch`, and the same names in a TOML file.

use crate::stream::{ConfigFile, StreamArgs, resolve};
use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;

/// Flags of `evertally sketch`. Every long flag can also stand in the `--config` file under its own name; a flag on the
/// command line wins.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct SketchArgs {
    /// The flags that every published stream has.
    #[command(flatten)]
    #[serde(skip)]
    pub stream: StreamArgs,

    /// Columns that together name the item of an event, separated by commas.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', help_heading = "Sketch")]
    pub key_columns: Option<Vec<String>>,
    /// Rows of the sketch, an odd number: more make it rarer that an answer is far off, and cost noise [default: 5].
    #[arg(long, value_name = "R", help_heading = "Sketch")]
    pub rows: Option<u32>,
    /// Cells of a row: more make items collide less, and cost nothing but memory [default: 65536].
    #[arg(long, value_name = "W", help_heading = "Sketch")]
    pub width: Option<u64>,

    /// File with the key columns, CSV, JSON lines or Parquet: an answer for each row. Items that do not occur get one like all
    /// others. The list must be known to the public, and never be made from the data: being on it would tell.
    #[arg(long, value_name = "FILE", help_heading = "Questions")]
    pub queries: Option<PathBuf>,
    /// File with the key columns: the heaviest of these items, by --top or --threshold. The list must be known to the
    /// public, as that of --queries.
    #[arg(long, value_name = "FILE", help_heading = "Questions")]
    pub candidates: Option<PathBuf>,
    /// The so many heaviest candidates.
    #[arg(long, value_name = "N", help_heading = "Questions")]
    pub top: Option<usize>,
    /// The candidates whose estimate is at least this.
    #[arg(long, value_name = "X", allow_negative_numbers = true, help_heading = "Questions")]
    pub threshold: Option<f64>,
    /// Answer for the steps that these times are in, separated by commas [default: the last step].
    #[arg(long, value_name = "TIME", value_delimiter = ',', help_heading = "Questions")]
    pub at: Option<Vec<String>>,
    /// Answer each query for the step that the time in this column of its file is in, written as the events' times.
    #[arg(long, value_name = "COLUMN", help_heading = "Questions")]
    pub at_column: Option<String>,
    /// Answer for every so many steps, and for the last.
    #[arg(long, value_name = "STEPS", help_heading = "Questions")]
    pub every_query: Option<u64>,

    /// Say as JSON on standard output what was done.
    #[arg(long, help_heading = "Output", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub json: Option<bool>,
}

impl SketchArgs {
    /// Fills what the command line leaves open from the configuration file, if one is named.
    pub fn with_config(self) -> Result<Self> {
        let Some(path) = &self.stream.config else { return Ok(self) };
        let config = ConfigFile::read::<Self>(path)?;
        let mut file: Self = config.part()?;
        file.stream = config.stream()?;
        let paths = [&mut file.queries, &mut file.candidates];
        paths.into_iter().flatten().for_each(|path| resolve(path, config.folder()));
        // What is asked is one thing, and so is when.
        let asked = if self.queries.is_some() || self.candidates.is_some() { &self } else { &file };
        let (queries, candidates) = (asked.queries.clone(), asked.candidates.clone());
        let same_kind = candidates.is_some() == file.candidates.is_some();
        let own_limit = self.top.is_some() || self.threshold.is_some();
        let limit = if own_limit || !same_kind { &self } else { &file };
        let (top, threshold) = (limit.top, limit.threshold);
        let own_time = self.at.is_some() || self.at_column.is_some() || self.every_query.is_some();
        let when = if own_time { &self } else { &file };
        let (at, at_column, every_query) = (when.at.clone(), when.at_column.clone(), when.every_query);
        Ok(Self {
            stream: self.stream.or(file.stream),
            key_columns: self.key_columns.or(file.key_columns),
            rows: self.rows.or(file.rows),
            width: self.width.or(file.width),
            queries,
            candidates,
            top,
            threshold,
            at,
            at_column,
            every_query,
            json: self.json.or(file.json),
        })
    }
}
