//! The flags with which a release would read the files.
//!
//! What describes the files (their columns, formats and order) is taken from them. What shapes the release is not: a
//! horizon is a number of whole years, a bound is a number to be replaced, and groups, bounds of values and the budget
//! are left open, because choices made from the data reveal something about them.

use super::order::RowOrder;
use super::rows::RowCounts;
use super::setup::{is_bounded, reading};
use evertally_declare::declaration::{DeclaredGroups, Parameter, Use, ValueKind, Written};
use evertally_declare::policy::SortLimit;
use evertally_declare::steps::Instant;
use evertally_declare::url::without_secrets;
use evertally_declare::words::{count_of_rows, quoted};
use evertally_publish::session::EventRefusalReason;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::Path;

/// A number to be replaced by the operator.
pub(super) const MAX_EVENTS: &str = "10";

/// The width of a step if none was chosen.
pub(super) const STEP_WIDTH: &str = "1d";

/// A flag that was not given.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Suggestion {
    #[serde(rename = "flag", serialize_with = "as_flag")]
    pub(super) parameter: Parameter,
    /// Its value; empty for a switch.
    pub(super) value: String,
    pub(super) why: String,
}

impl Suggestion {
    /// Sets the flag in a declaration; it is known to be valid.
    pub(super) fn set_in(&self, written: &mut Written) {
        let set = self.try_set_in(written);
        debug_assert!(set.is_ok(), "{self:?}: {set:?}");
    }

    /// Sets the flag in a declaration.
    ///
    /// # Errors
    /// A description of the problem with the value.
    pub(super) fn try_set_in(&self, written: &mut Written) -> Result<(), String> {
        let Self { parameter, value, .. } = self;
        let texts: Vec<&OsStr> = match parameter.kind() {
            // Names of columns may have blanks around them.
            ValueKind::Texts => value.split(',').map(OsStr::new).collect(),
            ValueKind::Groups | ValueKind::Decimals => value.split(',').map(|text| OsStr::new(text.trim())).collect(),
            _ if value.is_empty() => vec![OsStr::new("true")],
            _ => vec![OsStr::new(value)],
        };
        written.set(*parameter, &texts)
    }
}

/// A flag whose value only the operator can choose.
#[derive(Clone, Debug, Serialize)]
pub(super) struct OpenChoice {
    #[serde(rename = "flag", serialize_with = "as_flag")]
    pub(super) parameter: Parameter,
    /// Stands for the value in the command.
    pub(super) placeholder: &'static str,
    pub(super) why: &'static str,
}

/// The suggested release.
#[derive(Serialize)]
pub(super) struct Suggestions {
    pub(super) flags: Vec<Suggestion>,
    pub(super) choices: Vec<OpenChoice>,
    /// What no flag solves.
    pub(super) notes: Vec<String>,
    pub(super) command: String,
    /// The declaration with these flags.
    #[serde(skip)]
    pub(super) written: Written,
}

fn as_flag<S: serde::Serializer>(parameter: &Parameter, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("--{}", parameter.name()))
}

impl Suggestions {
    /// Begins with a declaration.
    pub(super) fn new(written: Written) -> Self {
        Self { flags: Vec::new(), choices: Vec::new(), notes: Vec::new(), command: String::new(), written }
    }

    /// Adds a flag.
    pub(super) fn add(&mut self, parameter: Parameter, value: impl Into<String>, why: impl Into<String>) {
        self.push(Suggestion { parameter, value: value.into(), why: why.into() });
    }

    /// Adds a flag, and sets it in the declaration.
    pub(super) fn push(&mut self, suggestion: Suggestion) {
        suggestion.set_in(&mut self.written);
        self.flags.push(suggestion);
    }

    /// Adds the flags that follow from all rows.
    pub(super) fn complete(&mut self, counts: &RowCounts) {
        self.add_policies(counts);
        self.add_horizon(counts);
        self.add_groups(counts);
        match counts.order() {
            Some(RowOrder::Unsorted { buffer: Some(events) }) if !self.sorts(Some(events)) => {
                self.add(Parameter::SortBuffer, events.to_string(), "rows are not in order");
            }
            Some(RowOrder::Unsorted { buffer: None }) if !self.sorts(None) => {
                self.add(Parameter::SortBuffer, "all", "rows are not in order");
            }
            Some(RowOrder::NewestFirst) if !self.sorts(None) => {
                self.add(Parameter::SortBuffer, "all", "the newest row comes first");
            }
            _ => {}
        }
        self.add_person();
        self.add_choices();
        if !self.written.has(Parameter::Out) {
            self.add(Parameter::Out, "released.csv", "the table");
        }
        self.note_broken(counts);
    }

    /// Notes columns of cells of several lines: a quote that is not closed hides the rows after it.
    pub(super) fn note_line_breaks(&mut self, counts: &RowCounts) {
        for (name, profile) in counts.profiles.iter().filter(|(_, profile)| profile.with_line_breaks > 0) {
            let cells = match profile.with_line_breaks {
                1 => "1 cell of column".to_owned(),
                count => format!("{count} cells of column"),
            };
            let name = quoted(name);
            let remedy = "if a quote is not closed, rows are missing: read quotes as characters with --quote none";
            self.notes.push(format!("line breaks in {cells} {name}; {remedy}"));
        }
    }

    /// Notes that a release cannot read some of the files.
    pub(super) fn note_unreadable(&mut self, unreadable: usize, files: usize) {
        match unreadable {
            0 => {}
            1 if files == 1 => {
                self.notes.push("the file is not read to its end, so this release is refused: see above".to_owned());
            }
            _ => self.notes.push(format!(
                "{unreadable} of {files} files cannot be read in this way, so this release is refused: see above"
            )),
        }
    }

    /// Names what helps against rows that cannot be read.
    fn note_broken(&mut self, counts: &RowCounts) {
        let broken = counts.broken();
        if broken == 0 {
            return;
        }
        let rows = count_of_rows(broken);
        let note = match counts.counted {
            0 => format!("{rows} cannot be read: is it the right column? Declare its format with --time-format"),
            _ => format!("{rows} cannot be read: correct them, or set them aside with --bad-rows side-file"),
        };
        self.notes.push(note);
    }

    /// Whether the declared buffer sorts what needs one of `needed` events, or of all.
    fn sorts(&self, needed: Option<u64>) -> bool {
        match (self.written.declaration.sort_buffer, needed) {
            (Some(SortLimit::All), _) => true,
            (Some(SortLimit::Events(events)), Some(needed)) => events as u64 >= needed,
            _ => false,
        }
    }

    fn add_policies(&mut self, counts: &RowCounts) {
        let rows = |reason| counts.refused_for(reason);
        let marks: u64 = counts.marks().values().sum();
        if marks > 0 {
            let before = self.written.declaration.missing_text.clone().unwrap_or_default();
            let texts: Vec<String> = before.into_iter().chain(counts.marks().keys().cloned()).collect();
            let why =
                format!("marks {} as missing", if marks == 1 { "1 cell".into() } else { format!("{marks} cells") });
            self.add(Parameter::MissingText, texts.join(","), why);
        }
        let missing = rows(EventRefusalReason::Missing) + marks;
        if missing > 0 {
            self.add(Parameter::Missing, "skip", format!("leaves out {} with a missing cell", count_of_rows(missing)));
        }
        if rows(EventRefusalReason::Date) > 0 || (counts.dates > 0 && self.has_short_steps()) {
            self.add(Parameter::DateOnly, "midnight", "counts dates at their beginning; or take steps of a day");
        }
        let outside = rows(EventRefusalReason::Outside);
        if outside == 0 {
            return;
        }
        if counts.counted == 0 {
            self.notes.push("no row is inside the horizon: correct it, or the format of the times".to_owned());
        } else if counts.has_far_times() {
            let rows = count_of_rows(outside);
            let why = format!("leaves out {rows}, some decades outside the horizon: are they misread?");
            self.add(Parameter::Outside, "skip-any", why);
        } else {
            let why = format!("leaves out {} outside the horizon", count_of_rows(outside));
            self.add(Parameter::Outside, "skip", why);
        }
    }

    /// Whether steps are shorter than a day, and dates without a time of day are refused.
    fn has_short_steps(&self) -> bool {
        let declared = &self.written.declaration;
        declared.date_only.is_none() && declared.every.is_some_and(|every| !every.is_calendar())
    }

    fn add_horizon(&mut self, counts: &RowCounts) {
        let declared = &self.written.declaration;
        let zone = declared.time_zone.clone().unwrap_or_default();
        let year = |instant: Instant| Some(instant.timestamp()?.to_zoned(zone.time_zone().clone()).year());
        let years = counts.first.and_then(year).zip(counts.last.and_then(year));
        let Some((first, last)) = years else { return };
        let needs_end = declared.end.is_none() && declared.steps.is_none() && declared.unbounded != Some(true);
        let (needs_start, needs_every) = (declared.start.is_none(), declared.every.is_none());
        if needs_every {
            self.add(Parameter::Every, STEP_WIDTH, "a choice: the width of a step");
        }
        if needs_start {
            self.add(Parameter::Start, format!("{first:04}-01-01"), "a choice: whole years that contain the times");
        }
        if needs_end {
            self.add_end(last, counts.last);
        }
        let declared = &self.written.declaration;
        if declared.through.is_some() || declared.all.is_some() || declared.unbounded == Some(true) {
            return;
        }
        let Ok(settings) = reading(&self.written, true).resolve() else { return };
        if settings.calendar.end() <= Instant::from(jiff::Timestamp::now()) {
            self.add(Parameter::All, "", "all steps have ended; omit it, and set --through, if more data are to come");
        }
    }

    /// Adds the end of the last year, or the number of steps until then if no step ends there.
    fn add_end(&mut self, last_year: i16, last: Option<Instant>) {
        let end = format!("{:04}-01-01", last_year + 1);
        let mut with_end = self.written.clone();
        with_end.declaration.end = Some(end.clone());
        if reading(&with_end, true).resolve().is_ok() {
            return self.add(Parameter::End, end, "a choice: whole years that contain the times");
        }
        let mut endless = self.written.clone();
        endless.declaration.unbounded = Some(true);
        let calendar = reading(&endless, true).resolve().map(|settings| settings.calendar);
        if let Some(steps) = calendar.ok().zip(last).and_then(|(calendar, last)| calendar.step_of(last)) {
            self.add(Parameter::Steps, steps.to_string(), "a choice: at least as many steps as contain the times");
        }
    }

    fn add_groups(&mut self, counts: &RowCounts) {
        if counts.refused_for(EventRefusalReason::Group) == 0 {
            return;
        }
        let is_taken = |name: &str| match &self.written.declaration.groups {
            Some(DeclaredGroups::Names(names)) => names.iter().any(|group| group == name),
            _ => true,
        };
        if is_taken("other") {
            self.add(Parameter::UnknownGroup, "skip", "leaves out undeclared groups; or declare them");
        } else {
            self.add(Parameter::Rest, "other", "counts undeclared groups under this name; or declare them");
        }
    }

    fn add_person(&mut self) {
        let declared = &self.written.declaration;
        if declared.person.is_some() && !is_bounded(declared) {
            let why = "a choice: replace it, for example by what `evertally bounds` finds";
            self.add(Parameter::MaxEvents, MAX_EVENTS, why);
        }
    }

    fn add_choices(&mut self) {
        let declared = &self.written.declaration;
        let mut choices = Vec::new();
        let mut choose = |parameter, placeholder, why| choices.push(OpenChoice { parameter, placeholder, why });
        let groups = declared.groups.is_some() || self.written.has(Parameter::GroupsFile);
        if declared.group_by.is_some() && !groups && declared.discover_groups != Some(true) {
            choose(Parameter::Groups, "NAMES", "from a public list, never from the data");
        }
        if declared.value.is_some() && declared.bounds.is_none() {
            choose(Parameter::Bounds, "LOW,HIGH", "from what a value can be, not from the data");
        }
        if declared.epsilon.is_none() && declared.rho.is_none() {
            choose(Parameter::Rho, "RHO", "the privacy budget, such as 0.5; or --epsilon");
        }
        if !self.written.has(Parameter::Key) {
            choose(Parameter::Key, "KEYFILE", "made with `evertally key new KEYFILE`");
        }
        self.choices = choices;
    }

    /// Writes the command: the flags that were `given`, the suggested ones, and the choices.
    pub(super) fn write_command(&mut self, given: &Written) {
        let mut words = vec!["evertally".to_owned(), "release".to_owned()];
        let given = texts(given);
        let skipped = [Parameter::Json, Parameter::PlanOnly, Parameter::Quiet];
        for (parameter, values) in given.into_iter().filter(|(parameter, _)| !skipped.contains(parameter)) {
            // A suggestion replaces a flag: a larger buffer.
            if !self.flags.iter().any(|flag| flag.parameter == parameter) {
                words.extend(flag_words(parameter, &values));
            }
        }
        for flag in &self.flags {
            words.extend(flag_words(flag.parameter, std::slice::from_ref(&flag.value)));
        }
        for choice in &self.choices {
            words.extend([format!("--{}", choice.parameter.name()), choice.placeholder.to_owned()]);
        }
        self.command = words.join(" ");
    }
}

/// The words of a flag, quoted for a shell.
fn flag_words(parameter: Parameter, values: &[String]) -> Vec<String> {
    let name = format!("--{}", parameter.name());
    match parameter.kind() {
        _ if parameter == Parameter::Input => {
            values.iter().map(|value| in_shell(&without_secrets(Path::new(value)))).collect()
        }
        ValueKind::Switch => match values.first().map(String::as_str) {
            Some("false") => vec![format!("{name}=false")],
            _ => vec![name],
        },
        // A separate flag for each: they may contain commas.
        ValueKind::Measures | ValueKind::Workloads => {
            values.iter().flat_map(|value| [name.clone(), in_shell(value)]).collect()
        }
        // Otherwise it would be taken for a flag.
        _ if values.first().is_some_and(|value| value.starts_with('-')) => {
            vec![format!("{name}={}", in_shell(&values.join(",")))]
        }
        _ => vec![name, in_shell(&values.join(","))],
    }
}

/// A word that a shell passes on unchanged.
fn in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:=+@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if word.contains(char::is_control) {
        let escaped = |c: char| match c {
            '\'' | '\\' => format!("\\{c}"),
            c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        };
        return format!("$'{}'", word.chars().map(escaped).collect::<String>());
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The declaration, as values of a configuration file, in the order of the parameters.
pub(super) fn values(written: &Written) -> Vec<(Parameter, toml::Value)> {
    let tables = [table(&written.declaration), table(&written.files), table(&written.questions)];
    let value = |parameter: Parameter| tables.iter().find_map(|table| table.get(parameter.name()).cloned());
    Parameter::used_by(Use::Release).filter_map(|parameter| Some((parameter, value(parameter)?))).collect()
}

fn table(part: &impl Serialize) -> toml::Table {
    toml::Table::try_from(part).unwrap_or_default()
}

/// The values that were given, in the order of the parameters.
fn texts(written: &Written) -> Vec<(Parameter, Vec<String>)> {
    let values = values(written);
    let text = |value: &toml::Value| match value {
        toml::Value::String(text) if text == "\t" => "tab".to_owned(),
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let list = |value: &toml::Value| match value {
        toml::Value::Array(values) => values.iter().map(text).collect(),
        toml::Value::Float(number) => vec![number.to_string()],
        value => vec![text(value)],
    };
    values.into_iter().map(|(parameter, value)| (parameter, list(&value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        let values = |values: &[&str]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
        let words = |parameter, of: &[&str]| flag_words(parameter, &values(of)).join(" ");
        assert_eq!(words(Parameter::Input, &["a.csv", "it's.csv"]), r"a.csv 'it'\''s.csv'");
        assert_eq!(words(Parameter::Delimiter, &[";"]), "--delimiter ';'");
        assert_eq!(words(Parameter::TimeFormat, &["%d/%m/%Y %H:%M"]), "--time-format '%d/%m/%Y %H:%M'");
        assert_eq!(words(Parameter::Time, &["t\u{1b}'[0m"]), r"--time $'t\u001b\'[0m'");
        assert_eq!(words(Parameter::All, &[""]), "--all");
        assert_eq!(words(Parameter::All, &["false"]), "--all=false");
        assert_eq!(words(Parameter::Groups, &["a", "b c"]), "--groups 'a,b c'");
        assert_eq!(words(Parameter::Groups, &["-5", "a"]), "--groups=-5,a");
        assert_eq!(words(Parameter::Measure, &["mean", "count"]), "--measure mean --measure count");
    }
}
