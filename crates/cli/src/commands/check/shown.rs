//! The printed form of a report.

use super::columns::ColumnKind;
use super::order::RowOrder;
use super::persons::RowsPerPerson;
use super::report::{CheckReport, ColumnReport, FileReport, PersonsReport, WARNING};
use super::rows::RefusedRows;
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use evertally_declare::words::{count_of_rows, quoted, short, shorten};
use std::fmt::Write as _;
use std::io::Write as _;

/// Values of a category that are shown.
const SHOWN_VALUES: usize = 12;

pub(super) fn print_json(report: &CheckReport) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, report).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}

pub(super) fn print_text(report: &CheckReport) -> Result<()> {
    Ok(std::io::stdout().lock().write_all(for_terminal(&text(report)?).as_bytes())?)
}

/// A text in which control characters of the files are escaped: they could change what a terminal shows.
pub(super) fn for_terminal(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

fn text(report: &CheckReport) -> Result<String> {
    let mut out = String::new();
    writeln!(out, "{WARNING}\nNothing was published, and nothing was recorded.\n")?;
    report.files.iter().try_for_each(|file| write_file(&mut out, file))?;
    if !report.columns.is_empty() {
        writeln!(out, "\n{}", columns(&report.columns).trim_fmt())?;
    }
    write_rows(&mut out, report)?;
    if let Some(persons) = &report.persons {
        write_persons(&mut out, persons)?;
    }
    write_groups(&mut out, report)?;
    if !report.is_of_nothing() {
        write_suggested(&mut out, report)?;
    }
    if let Some(path) = &report.written {
        writeln!(out, "\nwrote {}: read it before you use it", path.display())?;
    }
    Ok(out)
}

fn write_file(out: &mut String, file: &FileReport) -> Result<()> {
    let delimiter = file.delimiter.as_ref().filter(|delimiter| *delimiter != ",").map(|d| format!("delimiter {d}"));
    let facts = [
        file.format.clone(),
        file.compression.map(str::to_owned),
        file.bytes.map(|bytes| format!("{bytes} bytes")),
        delimiter,
        file.format.as_ref().map(|_| format!("{} rows", file.rows)),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    match &file.problem {
        Some(problem) if facts.is_empty() => writeln!(out, "{problem}")?,
        Some(problem) => writeln!(out, "{}: {}; reading ended there:\n  {problem}", file.name, facts.join(", "))?,
        None => writeln!(out, "{}: {}", file.name, facts.join(", "))?,
    }
    if !file.missing_columns.is_empty() {
        writeln!(out, "  without the columns {}", file.missing_columns.join(", "))?;
    }
    for (name, problem) in &file.unreadable_columns {
        writeln!(out, "  column {}: {problem}", quoted(name))?;
    }
    Ok(())
}

fn columns(columns: &[ColumnReport]) -> Table {
    let mut table = table(&["column", "kind", "missing", "distinct", "cells"]);
    for column in columns {
        table.add_row([
            shorten(&column.name),
            column.kind.word().to_owned(),
            share(column.missing, column.cells),
            column.distinct.map_or("many".to_owned(), |distinct| distinct.to_string()),
            cells(column),
        ]);
    }
    align_right(&mut table, &[2, 3]);
    table
}

/// What the cells of a column are, in a few words.
fn cells(column: &ColumnReport) -> String {
    match (column.kind, &column.values, column.range) {
        (ColumnKind::Category, Some(values), _) => {
            let shown = values.iter().take(SHOWN_VALUES).map(|(text, count)| format!("{} ({count})", shorten(text)));
            let more = values.len().saturating_sub(SHOWN_VALUES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more}", shown.collect::<Vec<_>>().join(", "))
        }
        (ColumnKind::Number, ..) if column.has_comma_decimals => {
            "decimal commas: --decimal-mark , reads them".to_owned()
        }
        (ColumnKind::Number, _, Some((least, greatest))) => format!("from {least} to {greatest}"),
        _ => String::new(),
    }
}

fn write_rows(out: &mut String, report: &CheckReport) -> Result<()> {
    let times = &report.times;
    match times.is_known() {
        true => writeln!(out, "\nrows: {} read, {} of which a release can count", report.rows, report.counted)?,
        false => writeln!(out, "\nrows: {} read; none was checked, because their time is not known", report.rows)?,
    }
    if !times.columns.is_empty() {
        let guess = if times.is_declared { "" } else { " (a guess)" };
        let format = times.format.as_ref().map_or("not known".to_owned(), |format| quoted(format));
        writeln!(out, "time: {}{guess}, format {format}", times.columns.join(" and "))?;
    }
    if let (Some(first), Some(last)) = (&times.first, &times.last) {
        writeln!(out, "  from {first} to {last}")?;
    }
    if times.dates > 0 && times.columns.len() == 1 {
        let rows = count_of_rows(times.dates);
        writeln!(out, "  {rows} with a date and no time of day: steps cannot be shorter than a day")?;
    }
    let order = match report.order {
        None => None,
        Some(RowOrder::Sorted) => Some("sorted by time".to_owned()),
        Some(RowOrder::NewestFirst) => Some("the newest first; --sort-buffer all sorts them".to_owned()),
        Some(RowOrder::Unsorted { buffer: Some(events) }) => {
            Some(format!("not sorted; with these steps, --sort-buffer {events} is the smallest that sorts them"))
        }
        Some(RowOrder::Unsorted { buffer: None }) => Some("not sorted; --sort-buffer all sorts them".to_owned()),
    };
    if let Some(order) = order {
        writeln!(out, "order: {order}")?;
    }
    write_refused(out, "a release would refuse", &report.refused)?;
    write_refused(out, "left out by the declared policies", &report.skipped)
}

fn write_refused(out: &mut String, title: &str, refused: &[RefusedRows]) -> Result<()> {
    if refused.is_empty() {
        return Ok(());
    }
    writeln!(out, "{title}:")?;
    for rows in refused {
        let noun = if rows.count == 1 { "row" } else { "rows" };
        writeln!(out, "  {} {noun} {}", rows.count, rows.reason)?;
        for example in &rows.examples {
            writeln!(out, "    {}", example.message)?;
        }
    }
    Ok(())
}

fn write_persons(out: &mut String, persons: &PersonsReport) -> Result<()> {
    let guess = if persons.is_declared { "" } else { " (a guess)" };
    writeln!(out, "person: {}{guess}", persons.column)?;
    if !persons.others.is_empty() {
        writeln!(out, "  other columns that may name persons: {}", persons.others.join(", "))?;
    }
    if let Some(most) = persons.more_than {
        writeln!(out, "  more than {most} persons: their rows were not counted any further")?;
    }
    if let Some(rows) = &persons.rows {
        write_bounds(out, "persons", "", rows)?;
    }
    if let Some(rows) = &persons.rows_per_period {
        write_bounds(out, "persons and periods", " in a period", rows)?;
    }
    Ok(())
}

fn write_bounds(out: &mut String, what: &str, within: &str, rows: &RowsPerPerson) -> Result<()> {
    writeln!(
        out,
        "  {} {what}; rows of each{within}: half have at most {}, 90 % at most {}, 99 % at most {}, all at most {}",
        rows.count, rows.median, rows.quantile_90, rows.quantile_99, rows.max
    )?;
    let dropped = rows.bounds.iter().map(|bound| format!("{}: {}", bound.max_events, percent(bound.dropped_share)));
    Ok(writeln!(out, "  rows that --max-events would drop: {}", dropped.collect::<Vec<_>>().join(", "))?)
}

fn write_groups(out: &mut String, report: &CheckReport) -> Result<()> {
    let groups = &report.groups;
    if !groups.undeclared.is_empty() {
        let shown = groups.undeclared.iter().map(|(name, count)| format!("{} ({count})", shorten(name)));
        let more = if groups.has_more { ", and more" } else { "" };
        writeln!(out, "undeclared groups: {}{more}", shown.collect::<Vec<_>>().join(", "))?;
    }
    if !groups.candidates.is_empty() {
        writeln!(out, "columns that may name groups: {}", groups.candidates.join(", "))?;
    }
    Ok(())
}

fn write_suggested(out: &mut String, report: &CheckReport) -> Result<()> {
    let suggested = &report.suggested;
    writeln!(out, "\nA release that reads these files:\n\n  {}\n", suggested.command)?;
    let mut table = table(&["flag", "why"]);
    for flag in &suggested.flags {
        let value = if flag.value.is_empty() { String::new() } else { format!(" {}", flag.value) };
        table.add_row([format!("--{}{value}", flag.parameter.name()), flag.why.clone()]);
    }
    for choice in &suggested.choices {
        table.add_row([
            format!("--{} {}", choice.parameter.name(), choice.placeholder),
            format!("choose: {}", choice.why),
        ]);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    suggested.notes.iter().try_for_each(|note| writeln!(out, "note: {note}"))?;
    match &report.plan {
        Some(plan) => {
            if let Some(problem) = &plan.problem {
                writeln!(out, "it would be refused: {problem}")?;
            }
            plan.facts.iter().try_for_each(|fact| writeln!(out, "{fact}"))?;
        }
        None => writeln!(out, "with a budget and without open choices, this also shows the error of the release")?,
    }
    Ok(())
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table
}

fn align_right(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

fn share(part: u64, whole: u64) -> String {
    percent(if whole == 0 { 0.0 } else { part as f64 / whole as f64 })
}

/// A share in per cent.
fn percent(share: f64) -> String {
    format!("{} %", short(100.0 * share))
}
