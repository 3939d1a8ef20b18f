//! The questions on a terminal: choices that a file does not decide.
//!
//! Everything is asked before the rows are counted, and of the file only what its first rows look like is shown: what
//! shapes a release must not depend on the data.

use super::columns::ColumnKind;
use super::config_file::EXISTS;
use super::roles::{self, SampledColumn};
use super::setup;
use super::shown::for_terminal;
use super::suggest::{MAX_EVENTS, STEP_WIDTH, Suggestion};
use super::times::{self, TimeGuess};
use crate::prompt;
use anyhow::Result;
use evertally_declare::declaration::{Parameter, Written};
use evertally_declare::error::refuse_if;
use evertally_declare::problem::Problem;
use evertally_declare::steps::{Instant, Zone};
use evertally_declare::words::{quoted, shorten};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The questions, and the answers so far.
pub(super) struct CheckQuestions<'q> {
    columns: &'q mut [SampledColumn],
    /// The declaration with the answers.
    written: Written,
    answers: Vec<Suggestion>,
    /// The columns of the time.
    times: Vec<String>,
    has_time: bool,
    protects_persons: bool,
}

/// The answers.
pub(super) struct CheckAnswers {
    flags: Vec<Suggestion>,
    /// Whether some column is the time.
    pub(super) has_time: bool,
    /// Whether a column of persons is wanted.
    pub(super) protects_persons: bool,
    /// The configuration file to write.
    pub(super) write: Option<PathBuf>,
}

impl CheckAnswers {
    /// Without questions.
    pub(super) fn none(write: Option<&Path>) -> Self {
        Self { flags: Vec::new(), has_time: true, protects_persons: true, write: write.map(PathBuf::from) }
    }

    /// Sets the answers in a declaration, as if they had been given as flags.
    pub(super) fn set_in(&self, written: &mut Written) {
        self.flags.iter().for_each(|flag| flag.set_in(written));
    }
}

/// Whether questions are wanted, and can be answered.
pub(super) fn are_wanted(given: &Written) -> bool {
    let files = &given.files;
    let is_silent = [files.json, files.quiet, files.yes].contains(&Some(true));
    // A pager would read the answers from the same terminal.
    !is_silent && prompt::is_possible() && prompt::has_room() && std::io::stdout().is_terminal()
}

impl<'q> CheckQuestions<'q> {
    pub(super) fn new(columns: &'q mut [SampledColumn], written: Written) -> Self {
        Self { columns, written, answers: Vec::new(), times: Vec::new(), has_time: true, protects_persons: true }
    }

    /// Asks for everything that is not declared.
    pub(super) fn ask(mut self, write: Option<&Path>, cancelled: &AtomicBool) -> Result<CheckAnswers> {
        // A request to end that came while the file was opened.
        refuse_if(cancelled)?;
        // Mistakes in the flags are reported before anything is asked.
        resolve(&self.written)?;
        eprintln!(
            "Enter takes the answer in brackets, or the marked one; without one, it leaves the question open. Nothing \
             is published. --yes asks nothing.\n"
        );
        self.ask_time()?;
        self.ask_person()?;
        self.ask_groups()?;
        self.ask_value()?;
        self.ask_steps()?;
        self.ask_budget()?;
        let write = match write {
            Some(path) => Some(path.to_path_buf()),
            None => prompt::ask("A configuration file to write (--write)", None, can_be_written)?.map(PathBuf::from),
        };
        eprintln!();
        Ok(CheckAnswers {
            flags: self.answers,
            has_time: self.has_time,
            protects_persons: self.protects_persons,
            write,
        })
    }

    fn set(&mut self, parameter: Parameter, value: impl Into<String>) {
        let answer = Suggestion { parameter, value: value.into(), why: String::new() };
        answer.set_in(&mut self.written);
        self.answers.push(answer);
    }

    /// Asks for a value until the parameter accepts it.
    fn ask_value_of(&mut self, parameter: Parameter, question: &str, default: Option<&str>) -> Result<()> {
        let question = format!("{question} (--{})", parameter.name());
        let answer = prompt::ask(&question, default, |text| {
            let mut trial = self.written.clone();
            let answer = Suggestion { parameter, value: text.to_owned(), why: String::new() };
            answer.try_set_in(&mut trial).map_err(|problem| format!("{}: {problem}", quoted(text)))?;
            check(parameter, text)?;
            resolve(&trial).map_err(|problem| problem.to_string())
        })?;
        answer.into_iter().for_each(|answer| self.set(parameter, answer));
        Ok(())
    }

    /// Asks for one of some columns; `None` for none of them.
    fn choose_column(
        &self,
        question: &str,
        names: Vec<String>,
        none: &str,
        none_first: bool,
    ) -> Result<Option<String>> {
        let mut answers: Vec<Option<String>> = names.into_iter().map(Some).collect();
        answers.insert(if none_first { 0 } else { answers.len() }, None);
        let show =
            |answer: &Option<String>| answer.as_ref().map_or(none.to_owned(), |name| for_terminal(&shorten(name)));
        let shown: Vec<String> = answers.iter().map(show).collect();
        Ok(answers.swap_remove(prompt::choose(question, &shown)?))
    }

    fn is_declared(&self, parameter: Parameter) -> bool {
        self.written.has(parameter)
    }

    /// Asks for the column of the time, if several may be it, and for its format, if several read it.
    fn ask_time(&mut self) -> Result<()> {
        let known = roles::known_time(&self.written.declaration, self.columns);
        let candidates = roles::times(self.columns).iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        let (name, is_chosen) = match (known, &candidates[..]) {
            (Some(name), _) => (Some(name), false),
            (None, [only]) => (Some(only.clone()), false),
            (None, []) => (self.choose_time(self.columns.iter().map(|column| column.name.clone()).collect())?, true),
            (None, _) => (self.choose_time(candidates)?, true),
        };
        let Some(name) = name else {
            self.has_time = false;
            return Ok(());
        };
        self.ask_format(&name)?;
        let column = self.columns.iter().find(|column| column.name == name);
        let clock = column.and_then(|column| roles::time_of_day(column, self.columns)).map(|clock| clock.name.clone());
        self.times = clock.iter().chain([&name]).cloned().collect();
        match clock {
            _ if !is_chosen => {}
            Some(clock) => {
                self.set(Parameter::Date, name);
                self.set(Parameter::TimeOfDay, clock);
            }
            None => self.set(Parameter::Time, name),
        }
        Ok(())
    }

    fn choose_time(&self, names: Vec<String>) -> Result<Option<String>> {
        self.choose_column("The column of the time of an event (--time)", names, "none of these", false)
    }

    fn ask_format(&mut self, name: &str) -> Result<()> {
        let zone = self.written.declaration.time_zone.clone().unwrap_or_default();
        let is_open = !self.is_declared(Parameter::TimeFormat);
        let Some(column) = self.columns.iter_mut().find(|column| column.name == name) else { return Ok(()) };
        let Some(TimeGuess::Ambiguous { formats }) = column.time.clone().filter(|_| is_open) else { return Ok(()) };
        let cell = column.example.clone().unwrap_or_default();
        let mut answers: Vec<String> =
            formats.iter().map(|format| format!("{}  {format}", read_as(&cell, format, &zone))).collect();
        answers.push("not known".to_owned());
        let question = format!("In column {}, `{}` means (--time-format)", for_terminal(name), for_terminal(&cell));
        let place = prompt::choose(&question, &answers)?;
        let Some(format) = formats.get(place) else { return Ok(()) };
        column.time = Some(TimeGuess::Ambiguous { formats: vec![format.clone()] }.settled());
        self.set(Parameter::TimeFormat, format.clone());
        Ok(())
    }

    /// The columns that have a role already.
    fn taken(&self) -> Vec<&str> {
        let declared = roles::declared(&self.written.declaration);
        declared.into_iter().chain(self.times.iter().map(String::as_str)).collect()
    }

    /// Asks for the column of the person: those whose name says so, then those with many different cells.
    fn ask_person(&mut self) -> Result<()> {
        if self.is_declared(Parameter::Person) {
            return Ok(());
        }
        let taken = self.taken();
        let mut names: Vec<String> = roles::persons(self.columns, &taken).iter().map(|c| c.name.clone()).collect();
        let none_first = names.is_empty();
        let ids = self.columns.iter().filter(|column| column.kind() == ColumnKind::Id).map(|column| &column.name);
        let others: Vec<String> =
            ids.filter(|name| !names.contains(*name) && !taken.contains(&name.as_str())).cloned().collect();
        names.extend(others);
        if names.is_empty() {
            return Ok(());
        }
        let question = "The column of the person, household or device to protect (--person)";
        match self.choose_column(question, names, "none: protect single events", none_first)? {
            Some(name) => {
                self.set(Parameter::Person, name);
                let question = "Events of one person that count, at most";
                if !setup::is_bounded(&self.written.declaration) {
                    self.ask_value_of(Parameter::MaxEvents, question, Some(MAX_EVENTS))?;
                }
            }
            None => self.protects_persons = false,
        }
        Ok(())
    }

    /// Asks for a column of groups, and for their names.
    fn ask_groups(&mut self) -> Result<()> {
        let declared = &self.written.declaration;
        let has_groups = declared.groups.is_some() || self.is_declared(Parameter::GroupsFile);
        if has_groups || declared.discover_groups == Some(true) {
            return Ok(());
        }
        if declared.group_by.is_none() {
            let taken = self.taken();
            // A flag separates columns by commas.
            let is_free = |column: &&SampledColumn| !taken.contains(&&*column.name) && !column.name.contains(',');
            let categories = self.columns.iter().filter(|column| column.kind() == ColumnKind::Category).filter(is_free);
            let names: Vec<String> = categories.map(|column| column.name.clone()).collect();
            if names.is_empty() {
                return Ok(());
            }
            let question = "A separate count for each value of a column (--group-by)";
            let chosen = self.choose_column(question, names, "none: one count of all events", true)?;
            let Some(name) = chosen else { return Ok(()) };
            self.set(Parameter::GroupBy, name);
        }
        let question = "Its values, with commas, from a public list and not from the data";
        self.ask_value_of(Parameter::Groups, question, None)
    }

    /// Asks for the bounds of a declared value.
    fn ask_value(&mut self) -> Result<()> {
        let declared = &self.written.declaration;
        if declared.value.is_some() && declared.bounds.is_none() {
            let question = "The smallest and the largest value that can occur, such as 0,100";
            self.ask_value_of(Parameter::Bounds, question, None)?;
        }
        Ok(())
    }

    /// Asks for the width, the beginning and the end of the steps.
    fn ask_steps(&mut self) -> Result<()> {
        let declared = &self.written.declaration;
        let needs_start = declared.start.is_none();
        let needs_end = declared.end.is_none() && declared.steps.is_none() && declared.unbounded != Some(true);
        if declared.every.is_none() {
            self.ask_value_of(Parameter::Every, "The width of a step, such as 1h, 1d, 1w or 1mo", Some(STEP_WIDTH))?;
        }
        if needs_start {
            self.ask_value_of(Parameter::Start, "The beginning of the first step, such as 2026-01-01", None)?;
        }
        if needs_end && self.is_declared(Parameter::Start) {
            self.ask_value_of(Parameter::End, "The end of the last step, such as 2027-01-01", None)?;
        }
        Ok(())
    }

    fn ask_budget(&mut self) -> Result<()> {
        if !self.is_declared(Parameter::Rho) && !self.is_declared(Parameter::Epsilon) {
            self.ask_value_of(Parameter::Rho, "The privacy budget ρ, such as 0.5", None)?;
        }
        Ok(())
    }
}

/// Refuses values that a release refuses, and that have no part in reading.
fn check(parameter: Parameter, text: &str) -> Result<(), String> {
    match parameter {
        Parameter::Rho if !text.parse().is_ok_and(|rho: f64| rho > 0.0 && rho.is_finite()) => {
            Err("the budget must be more than 0".to_owned())
        }
        Parameter::MaxEvents if text.parse() == Ok(0) => Err("at least one event must count".to_owned()),
        Parameter::Groups if text.contains('"') => {
            Err("write names without quotes; names with commas need --groups-file".to_owned())
        }
        _ => Ok(()),
    }
}

/// Whether events can be read under a declaration, as far as it is known.
fn resolve(written: &Written) -> Result<(), Problem> {
    let mut known = written.clone();
    let declared = &mut known.declaration;
    // A beginning alone is checked, too.
    if declared.start.is_some() && declared.every.is_some() && !setup::has_horizon(declared) {
        declared.steps = Some(1);
    }
    let has_horizon = setup::has_horizon(&known.declaration);
    setup::reading(&known, has_horizon).resolve().map(|_| ())
}

/// Whether a configuration file can be written at a path.
fn can_be_written(path: &str) -> Result<(), String> {
    let path = Path::new(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.is_none_or(Path::is_dir) {
        _ if path == Path::new("-") => Err("name a file".to_owned()),
        _ if path.exists() => Err(EXISTS.to_owned()),
        false => Err("its folder does not exist".to_owned()),
        true => Ok(()),
    }
}

/// A cell as a format reads it, in words.
fn read_as(cell: &str, format: &str, zone: &Zone) -> String {
    let instant = times::parser(format, zone).and_then(|mut parser| parser.parse_text(cell).ok());
    let time = instant.and_then(Instant::timestamp);
    time.map_or("?".to_owned(), |time| {
        time.to_zoned(zone.time_zone().clone()).strftime("%-d %B %Y %H:%M:%S").to_string()
    })
}
