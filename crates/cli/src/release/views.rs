//! Views in runs that go on: what earlier runs have shown is read back from the table.

use super::setup::Setup;
use crate::failure::usage;
use crate::stream::Files;
use anyhow::Result;
use evertally_declare::declaration::Parameter::{Rebuild, View as ViewOf};
use evertally_declare::error::Error;
use evertally_declare::event::{Columns, Event};
use evertally_declare::problem::sentence;
use evertally_ledger::disk::RealDisk;
use evertally_publish::session::{RunningSums, Session};
use evertally_publish::views::{View, Viewed};
use evertally_tables::input::{ReadOptions, for_each_event};
use evertally_tables::output::{OutputFormat, Target, files_of};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Whether a view of this run depends on what was shown before.
fn looks_back(setup: &Setup) -> bool {
    setup.stream.views.contains(&View::NonDecreasing)
}

/// Views go on where a stream does, but not from one stream to the next, whose bands do not hold together.
pub(super) fn check(setup: &Setup, files: &Files) -> Result<()> {
    if looks_back(setup) && (setup.names.len() > 1 || files.going_on.extend) {
        let why = " non-decreasing does not go on from one stream to the next: its band holds at all steps of one";
        return Err(usage(sentence![ViewOf, why, "; declare a longer horizon"]));
    }
    Ok(())
}

/// Refuses rows with other columns than those of the table they go behind.
pub(super) fn check_columns(setup: &Setup, files: &Files, target: &Target) -> Result<()> {
    let Target::Behind { path, .. } = target else { return Ok(()) };
    let mut line = String::new();
    BufReader::new(File::open(path)?).read_line(&mut line)?;
    let has_views = match files.output_format {
        OutputFormat::Csv => {
            let header =
                csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes()).into_records().next();
            header.transpose()?.is_some_and(|header| header.iter().any(|name| name == "view_value"))
        }
        OutputFormat::JsonLines => serde_json::from_str::<serde_json::Value>(&line)?.get("view_value").is_some(),
        OutputFormat::Parquet => return Ok(()), // a file of its own
    };
    if has_views == setup.stream.views.is_empty() {
        let (has, would) = if has_views { ("has", "would have none") } else { ("has no", "would have them") };
        let problem =
            format!("{}: the table {has} columns of a view, and the rows of this run {would}", path.display());
        return Err(usage(sentence![problem, "; declare ", ViewOf, " as before, or write all again with ", Rebuild]));
    }
    Ok(())
}

/// Reads what was shown last of every group, where a view looks back and the run does not begin at the first step.
pub(super) fn recall(setup: &Setup, out: &Path, before: u64, session: &mut Session<RunningSums>) -> Result<()> {
    if !looks_back(setup) || before == 0 {
        return Ok(());
    }
    let table = files_of(&RealDisk, out)?;
    if table.is_empty() {
        let problem = format!("{}: there are no rows of earlier steps, which ", out.display());
        let why = " non-decreasing goes on from; give the table that they are in, or write all again with ";
        return Err(usage(sentence![problem, ViewOf, why, Rebuild]));
    }
    let groups = setup.table.groups();
    let labels = groups.iter().map(String::as_str).chain(["step", "view_value", "view_lower", "view_upper"]);
    let columns = Columns { time: "time".into(), labels: labels.map(str::to_owned).collect(), ..Columns::default() };
    let mut shown: HashMap<Vec<String>, (u64, Viewed)> = HashMap::new();
    let mut visit = |event: &Event<'_>| -> Result<(), Error> {
        let mut group: Vec<String> = event.labels().map(|label| label.to_string()).collect();
        let figures = group.split_off(groups.len());
        // A table is what this program wrote.
        let number = |text: &String| text.parse().unwrap_or(f64::NAN);
        let step = figures[0].parse().unwrap_or(0);
        let view = Viewed {
            text: figures[1].clone(),
            number: number(&figures[1]),
            lower: number(&figures[2]),
            upper: number(&figures[3]),
        };
        // Rows of a group that was discovered late stand behind those of others, but in the order of steps.
        shown.insert(group, (step, view));
        Ok(())
    };
    for_each_event(&table, &columns, &ReadOptions::default(), &(), &AtomicBool::new(false), &mut visit)?;
    for (group, (step, view)) in shown {
        if step == before {
            session.recall_view(group, view);
        }
    }
    Ok(())
}
