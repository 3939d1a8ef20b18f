//! Views in continued runs: the values shown by earlier runs are read back from the table.

use super::setup::ReleaseSetup;
use crate::failure::usage;
use crate::stream::Files;
use anyhow::Result;
use evertally_declare::declaration::Parameter::{Rebuild, View as ViewOf};
use evertally_declare::declaration::follows_no_stream;
use evertally_declare::error::PipelineError;
use evertally_declare::event::{Columns, Event};
use evertally_declare::format::Format;
use evertally_declare::problem::sentence;
use evertally_ledger::disk::RealDisk;
use evertally_publish::session::{RunningSums, Session};
use evertally_publish::views::{View, ViewValue};
use evertally_tables::input::{ReadOptions, for_each_event};
use evertally_tables::output::{AppendTarget, files_of};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Whether a view of this run depends on values shown before.
fn looks_back(setup: &ReleaseSetup) -> bool {
    setup.stream.views.contains(&View::NonDecreasing)
}

/// Refuses a view that depends on earlier steps across streams: a band holds for the steps of one stream only.
pub(super) fn check(setup: &ReleaseSetup) -> Result<()> {
    if looks_back(setup) && setup.names.len() > 1 { Err(follows_no_stream().into()) } else { Ok(()) }
}

/// Refuses rows whose columns differ from those of the table to which they are appended.
pub(super) fn check_columns(setup: &ReleaseSetup, files: &Files, target: &AppendTarget) -> Result<()> {
    let AppendTarget::Append { path, .. } = target else { return Ok(()) };
    let mut line = String::new();
    BufReader::new(File::open(path)?).read_line(&mut line)?;
    let has_views = match files.output_format {
        Format::Csv => {
            let header =
                csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes()).into_records().next();
            header.transpose()?.is_some_and(|header| header.iter().any(|name| name == "view_value"))
        }
        Format::JsonLines => serde_json::from_str::<serde_json::Value>(&line)?.get("view_value").is_some(),
        _ => return Ok(()), // a separate file
    };
    if has_views == setup.stream.views.is_empty() {
        let (has, would) = if has_views { ("has", "would have none") } else { ("has no", "would have them") };
        let problem =
            format!("{}: the table {has} columns for views, but the rows of this run {would}", path.display());
        return Err(usage(sentence![
            problem,
            "; declare ",
            ViewOf,
            " as before, or write all rows again with ",
            Rebuild
        ]));
    }
    Ok(())
}

/// Reads the last shown value of every group, if a view looks back and the run does not begin at the first step.
pub(super) fn recall(setup: &ReleaseSetup, out: &Path, before: u64, session: &mut Session<RunningSums>) -> Result<()> {
    if !looks_back(setup) || before == 0 {
        return Ok(());
    }
    let table = files_of(&RealDisk, out)?;
    if table.is_empty() {
        let problem = format!("{}: the rows of earlier steps are missing; ", out.display());
        let why = " non-decreasing needs them. Give the table that contains them, or write all rows again with ";
        return Err(usage(sentence![problem, ViewOf, why, Rebuild]));
    }
    let groups = setup.table.groups();
    let labels = groups.iter().map(String::as_str).chain(["step", "view_value", "view_lower", "view_upper"]);
    let columns = Columns { time: "time".into(), labels: labels.map(str::to_owned).collect(), ..Columns::default() };
    let mut shown: HashMap<Vec<String>, (u64, ViewValue)> = HashMap::new();
    let mut visit = |event: &Event<'_>| -> Result<(), PipelineError> {
        let mut group: Vec<String> = event.labels().map(|label| label.to_string()).collect();
        let figures = group.split_off(groups.len());
        // The table was written by this program.
        let number = |text: &String| text.parse().unwrap_or(f64::NAN);
        let step = figures[0].parse().unwrap_or(0);
        let view = ViewValue {
            text: figures[1].clone(),
            number: number(&figures[1]),
            lower: number(&figures[2]),
            upper: number(&figures[3]),
        };
        // Rows of a group discovered late follow those of other groups, but are in order of steps.
        shown.insert(group, (step, view));
        Ok(())
    };
    for_each_event(&table, &columns, &ReadOptions::default(), &(), &AtomicBool::new(false), &mut visit)?;
    for (group, (step, view)) in shown {
        if step == before {
            session.restore_view(group, view);
        }
    }
    Ok(())
}
