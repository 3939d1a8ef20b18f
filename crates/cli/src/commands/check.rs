//! `evertally check`: looks at event files before they are published. It reads everything, and publishes and records
//! nothing. Its output is **not private**.
//!
//! [`look`] reads the head of the first file and [`roles`] guesses its columns; [`rows`] then reads all rows as a
//! release with these columns would; [`questions`] are asked in between if there is a terminal; [`suggest`] makes flags
//! of the result, and [`shown`] prints it.

mod columns;
mod config_file;
mod csv;
mod look;
mod order;
mod persons;
mod questions;
mod report;
mod roles;
mod rows;
mod sample;
mod setup;
mod shown;
mod suggest;
mod times;

use super::release;
use crate::failure::{usage, worded};
use crate::stream::{Files, ReleaseFlags, interruptible, with_config, with_groups_of_file};
use anyhow::Result;
use clap::Args;
use columns::ColumnKind;
use evertally_declare::declaration::{self, Parameter, Use, Written};
use evertally_declare::error::refuse_if;
use evertally_declare::steps::{Horizon, Instant, StepCalendar, TimeParser};
use evertally_publish::session::EventCheck;
use evertally_tables::input::{refuse_duplicates, total_bytes};
use jiff::tz::TimeZone;
use look::FileReader;
use questions::{CheckAnswers, CheckQuestions};
use report::{CheckReport, ColumnReport, GroupsReport, PersonsReport, PlanReport, TimesReport, WARNING};
use rows::RowCounts;
use std::path::PathBuf;
use suggest::Suggestions;

/// Flags of `evertally check`: any of `evertally release`, none of which is required, and its own.
#[derive(Args, Debug)]
pub(super) struct CheckArgs {
    /// Write a configuration file to start from; an existing file is never overwritten
    #[arg(long, value_name = "FILE.toml", help_heading = "Output")]
    write: Option<PathBuf>,
    #[command(flatten)]
    flags: ReleaseFlags,
}

impl CheckArgs {
    /// Reads the files, and prints the report.
    pub(super) fn run(self) -> Result<()> {
        let given = self.flags.0.clone();
        let written = with_config(self.flags, Use::Release)?;
        written.check_groups_file()?;
        if let Some(path) = self.write.as_ref().filter(|path| path.exists()) {
            let shown = path.display();
            return Err(usage(format!("--write {shown}: {}", config_file::EXISTS)));
        }
        let is_json = given.files.json == Some(true);
        let report = report(written, given, self.write.as_deref())?;
        if is_json {
            shown::print_json(&report)?;
        } else {
            shown::print_text(&report)?;
        }
        match report.is_of_nothing() {
            true => Err(usage("no file could be read: see the problem of each above")),
            false => Ok(()),
        }
    }
}

/// The check of the named files.
fn report(mut written: Written, mut given: Written, write: Option<&std::path::Path>) -> Result<CheckReport> {
    // A run that only plans needs no key and no output.
    let planned = declaration::Files { plan_only: Some(true), out: None, ..written.files.clone() };
    let missing = written.declaration.missing_text.clone().unwrap_or_default();
    let files = Files::new(planned, missing)?;
    if files.inputs.is_empty() {
        return Err(usage("no input file was given: name the files to check"));
    }
    refuse_duplicates(&files.inputs)?;
    let (cancelled, progress) = (interruptible()?, files.progress());
    let is_delimited = written.has(Parameter::Delimiter);
    let zone = written.declaration.time_zone.clone().unwrap_or_default();
    let reader = FileReader {
        options: &files.reading,
        is_delimited,
        tries_variants: true,
        zone: &zone,
        progress: &*progress,
        cancelled: &cancelled,
    };

    let mut first = reader.first(&files.inputs)?;
    first.settle(&reader, &files.inputs)?;
    let answers = match questions::are_wanted(&given) && !first.columns.is_empty() {
        true => CheckQuestions::new(&mut first.columns, written.clone()).ask(write, &cancelled)?,
        false => CheckAnswers::none(write),
    };
    [&mut written, &mut given].into_iter().for_each(|declared| answers.set_in(declared));
    progress.start(total_bytes(&files.inputs));
    let options = first.options(&files.reading);
    let found = first.found(written, &answers);
    let groups = found.suggested.written.files.groups_file.clone();
    let mut declared = found.suggested.written.clone();
    declared.declaration = with_groups_of_file(declared.declaration, groups.as_deref(), None)?;
    let has_horizon = setup::has_horizon(&declared.declaration);
    let settings = setup::reading(&declared, has_horizon).resolve()?;
    let order_by = if has_horizon { Some(settings.calendar.clone()) } else { days(&declared) };
    let check = found.times.is_known().then(|| EventCheck::new(settings, has_horizon));
    let mut counts = RowCounts::new(check, order_by, &declared.declaration);
    let reader = FileReader { options: &options, tries_variants: false, ..reader };
    let file_reports = reader.read(&files.inputs, first.head.take(), &mut counts)?;
    progress.finish();
    refuse_if(&cancelled)?;

    let mut suggested = found.suggested;
    suggested.complete(&counts);
    suggested.note_unreadable(file_reports.iter().filter(|file| file.problem.is_some()).count(), file_reports.len());
    suggested.note_line_breaks(&counts);
    suggested.write_command(&given);
    let columns = columns_of(&counts, &first.columns);
    let groups = groups_of(&counts, &columns, &suggested.written);
    let plan = plan_of(&suggested);
    let times = times_of(&counts, found.times);
    let persons = persons_of(&counts, &suggested.written, found.persons, &given);
    let (rows, counted, order) = (counts.rows, counts.counted, counts.order());
    let (refused, skipped) = counts.into_refused();
    let mut report = CheckReport {
        not_private: WARNING,
        files: file_reports,
        columns,
        rows,
        counted,
        times,
        order,
        refused,
        skipped,
        persons,
        groups,
        suggested,
        plan,
        written: None,
    };
    if let Some(path) = answers.write.filter(|_| !report.is_of_nothing()) {
        config_file::write(&path, &report.suggested, &report.groups.candidates)?;
        report.written = Some(path);
    }
    Ok(report)
}

/// Days of the declared zone, for files whose steps are not declared: rows sorted by day are sorted by all steps of
/// whole days. `None` if steps are shorter.
fn days(written: &Written) -> Option<StepCalendar> {
    let declared = &written.declaration;
    if declared.every.is_some_and(|every| !every.is_calendar()) {
        return None;
    }
    let zone = declared.time_zone.clone().unwrap_or_default();
    let start = TimeParser::new(Default::default(), zone.clone()).parse_text("1900-01-01").ok()?;
    StepCalendar::new(start, Horizon::Endless, "1d".parse().ok()?, zone).ok()
}

fn columns_of(counts: &RowCounts, sampled: &[roles::SampledColumn]) -> Vec<ColumnReport> {
    let time = |name: &str| sampled.iter().find(|column| column.name == name).and_then(|column| column.time.clone());
    // In the order of the file, although the columns in use were read first.
    let place = |name: &str| sampled.iter().position(|column| column.name == name).unwrap_or(usize::MAX);
    let mut profiles: Vec<_> = counts.profiles.iter().collect();
    profiles.sort_by_key(|(name, _)| place(name));
    profiles.into_iter().map(|(name, profile)| ColumnReport::new(name.clone(), profile, time(name))).collect()
}

fn times_of(counts: &RowCounts, found: TimesReport) -> TimesReport {
    let Some(check) = &counts.check else { return found };
    let zone = check.settings().calendar.zone().time_zone().clone();
    let shown = |instant: Instant| match instant.timestamp() {
        Some(time) if zone != TimeZone::UTC => time.display_with_offset(zone.to_offset(time)).to_string(),
        _ => instant.to_string(),
    };
    TimesReport { first: counts.first.map(shown), last: counts.last.map(shown), dates: counts.dates, ..found }
}

fn persons_of(
    counts: &RowCounts,
    written: &Written,
    candidates: Vec<String>,
    given: &Written,
) -> Option<PersonsReport> {
    let declared = &written.declaration;
    let column = declared.person.clone()?;
    let bound = given.declaration.max_events.or(declared.max_events);
    Some(PersonsReport {
        others: candidates.into_iter().filter(|other| *other != column).collect(),
        is_declared: given.declaration.person.is_some(),
        column,
        more_than: counts.persons.exceeded().map(|most| most as u64),
        rows: counts.persons.rows(bound),
        rows_per_period: counts.persons_in_periods.rows(bound),
    })
}

fn groups_of(counts: &RowCounts, columns: &[ColumnReport], written: &Written) -> GroupsReport {
    let declared = &written.declaration;
    let (undeclared, has_more) = counts.undeclared();
    let taken = roles::declared(declared);
    let is_free = |name: &String| !taken.contains(&name.as_str());
    let candidates = columns.iter().filter(|column| column.kind == ColumnKind::Category && is_free(&column.name));
    let candidates = match declared.group_by {
        Some(_) => Vec::new(),
        None => candidates.map(|column| column.name.clone()).collect(),
    };
    GroupsReport { undeclared, has_more, candidates }
}

/// The plan of the suggested release; `None` if it depends on open choices.
fn plan_of(suggested: &Suggestions) -> Option<PlanReport> {
    if suggested.choices.iter().any(|choice| choice.parameter != Parameter::Key) {
        return None;
    }
    let mut written = suggested.written.clone();
    (written.files.plan_only, written.files.json) = (Some(true), None);
    Some(match release::forecast(written) {
        Ok(facts) => PlanReport { facts, problem: None },
        Err(error) => PlanReport { facts: Vec::new(), problem: Some(worded(&error)) },
    })
}
