//! `evertally interval`: queries a time range of a released history.

use crate::failure::usage;
use crate::stream::interruptible;
use anyhow::{Context, Result};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use evertally::plan::Plan;
use evertally_declare::words::short;
use evertally_tables::history::{Answer, Beside, HistoryQuery, RatioInterval, ask_files};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Flags of `evertally interval`.
#[derive(Args, Debug)]
pub(super) struct IntervalArgs {
    /// The released table: .csv, .jsonl or .parquet, or the folder of a growing table.
    #[arg(value_name = "TABLE")]
    table: PathBuf,
    /// Its plan, as `evertally release` writes it [default: next to the table]
    #[arg(long, value_name = "FILE.plan.toml")]
    plan: Option<PathBuf>,
    /// Start of the range: a time at which a step begins, or the number of its first step [default: the start]
    #[arg(long, value_name = "TIME|STEP")]
    from: Option<String>,
    /// End of the range: a time at which a step ends, or the number of its last step [default: the end of the table]
    #[arg(long, value_name = "TIME|STEP")]
    to: Option<String>,
    /// Only this group, with several columns joined by `/`; may be repeated. Several groups also get a total.
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Ratio to another range `FROM..TO` of the same groups, such as this week to last week.
    #[arg(long, value_name = "FROM..TO", group = "beside")]
    ratio_to: Option<String>,
    /// Ratio to this group over the same range; may be repeated, for the ratio to all these groups together.
    #[arg(long, value_name = "GROUP", group = "beside")]
    ratio_to_group: Vec<String>,
    /// Share of each group in the total of all groups of the table.
    #[arg(long, group = "beside")]
    share: bool,
    /// Confidence of every interval.
    #[arg(long, value_name = "P", default_value_t = 0.95)]
    confidence: f64,
    /// Also print the width of a band that holds at all steps of a history simultaneously.
    #[arg(long)]
    band: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl IntervalArgs {
    /// Prints the answer.
    pub(super) fn run(self) -> Result<()> {
        let plan = self.read_plan()?;
        let question = HistoryQuery {
            from: self.from.clone(),
            to: self.to.clone(),
            groups: self.group.clone(),
            beside: self.beside()?,
            confidence: self.confidence,
        };
        let answer = ask_files(&self.table, &plan, &question, &*interruptible()?)?;
        let band = if self.band { Some(plan.band(self.confidence)?) } else { None };
        let mut out = std::io::stdout().lock();
        if self.json {
            let mut answer = json!(answer);
            if let Some(band) = band {
                answer["band"] = json!(band);
            }
            serde_json::to_writer_pretty(&mut out, &answer).map_err(std::io::Error::from)?;
            return Ok(writeln!(out)?);
        }
        print(&mut out, &answer)?;
        match band.map(|band| band.standard_errors) {
            None => {}
            Some(Some(errors)) => {
                let percent = self.confidence * 100.0;
                writeln!(
                    out,
                    "All steps of one group simultaneously, with {percent} %: ± {} standard errors.",
                    short(errors)
                )?;
            }
            Some(None) => writeln!(out, "The horizon is too long for a band of equal standard errors.")?,
        }
        Ok(())
    }

    fn read_plan(&self) -> Result<Plan> {
        let path = self.plan.clone().unwrap_or_else(|| self.table.with_extension("plan.toml"));
        let shown = path.display();
        let text = std::fs::read_to_string(&path)
            .map_err(|e| usage(format!("cannot read the plan {shown}: {e}; name it with --plan")))?;
        let has_parts = |text: &str| toml::from_str::<toml::Table>(text).is_ok_and(|plan| plan.contains_key("part"));
        if has_parts(&text) {
            let rows = "each row of its table has its own interval, and measures of one step share noise";
            return Err(usage(format!(
                "{shown} is the plan of several measures: {rows}. Differences, totals and ratios need a single running \
                 count or sum: release that as a separate stream, without --measure"
            )));
        }
        toml::from_str(&text).with_context(|| format!("{shown} is not a plan"))
    }

    fn beside(&self) -> Result<Beside> {
        if let Some(stretch) = &self.ratio_to {
            let (from, to) = stretch.split_once("..").ok_or_else(|| {
                usage(format!(
                    "--ratio-to {stretch}: write a range as FROM..TO, such as 2024-01-01..2024-01-08 or 1..7"
                ))
            })?;
            return Ok(Beside::Stretch(from.to_owned(), to.to_owned()));
        }
        Ok(match (self.ratio_to_group.is_empty(), self.share) {
            (false, _) => Beside::Groups(self.ratio_to_group.clone()),
            (true, true) => Beside::All,
            (true, false) => Beside::Nothing,
        })
    }
}

fn print(out: &mut impl Write, answer: &Answer) -> Result<()> {
    let ([first, last], [from, to]) = (answer.steps, &answer.times);
    writeln!(out, "steps {first} to {last}, from {from} to {to}, at {} % confidence", answer.confidence * 100.0)?;
    let has_groups = !answer.group_columns.is_empty();
    let has_ratio = answer.rows.iter().any(|row| row.ratio.is_some());
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let mut header = vec!["value", "standard error", "from", "to"];
    if has_groups {
        header.insert(0, "group");
    }
    if has_ratio {
        header.extend(["ratio", "the true ratio is"]);
    }
    table.set_header(header);
    for row in &answer.rows {
        let mut cells = [row.value, row.std_error, row.lower, row.upper].map(number).to_vec();
        if has_groups {
            cells.insert(0, row.group.as_ref().map_or("together".to_owned(), |group| group.join("/")));
        }
        if let Some(ratio) = &row.ratio {
            cells.extend([short(ratio.value), in_words(ratio)]);
        }
        table.add_row(cells);
    }
    let numbers = table.column_iter_mut().skip(usize::from(has_groups)).take(4);
    numbers.for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    writeln!(out, "{table}")?;
    answer.notes.iter().try_for_each(|note| writeln!(out, "Note: {note}."))?;
    Ok(())
}

/// A number without trailing zeros.
fn number(x: f64) -> String {
    let text = format!("{x:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The confidence set of a ratio, in words.
fn in_words(ratio: &RatioInterval) -> String {
    match (ratio.set, ratio.lower.zip(ratio.upper)) {
        ("between", Some((lower, upper))) => format!("from {} to {}", short(lower), short(upper)),
        (_, Some((lower, upper))) => {
            format!("at most {} or at least {}: the denominator may be 0", short(lower), short(upper))
        }
        _ => "anything: both values may be 0".to_owned(),
    }
}
