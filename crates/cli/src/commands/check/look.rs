//! Opens inputs: the head of the first decides about columns and formats, and all are read under them.

use super::csv::{self, CsvTrial};
use super::questions::CheckAnswers;
use super::report::{FileReport, TimesReport};
use super::roles::{self, SampledColumn};
use super::rows::RowCounts;
use super::sample::{MOST_ROWS, SampleRow};
use super::suggest::{Suggestion, Suggestions};
use super::times::{self, TimeGuess};
use evertally_declare::declaration::{Parameter, Written};
use evertally_declare::error::{PipelineError, Result};
use evertally_declare::event::{ColumnLayout, Columns, Event};
use evertally_declare::format::Format;
use evertally_declare::steps::{TimeParser, Zone};
use evertally_declare::url::without_secrets;
use evertally_tables::input::{CsvOptions, HeadColumn, InputHead, ReadOptions, TextEncoding};
use evertally_tables::progress::Progress;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The rows on which ways of reading are tried.
const TRIED_ROWS: usize = 500;

/// The encoding of most text files that are not UTF-8.
const WESTERN: &str = "windows-1252";

/// How inputs are read.
pub(super) struct FileReader<'r> {
    pub(super) options: &'r ReadOptions,
    /// Whether the delimiter was declared.
    pub(super) is_delimited: bool,
    /// Whether other ways of reading a CSV file are tried; the first file decides for all.
    pub(super) tries_variants: bool,
    /// The zone of times without one.
    pub(super) zone: &'r Zone,
    pub(super) progress: &'r dyn Progress,
    pub(super) cancelled: &'r AtomicBool,
}

/// An input whose head was looked at.
pub(super) struct LookedAt<'r> {
    head: InputHead<'r>,
    /// The options with which its rows are found.
    options: ReadOptions,
    columns: Vec<HeadColumn>,
    /// The flags that make these options of the declared ones.
    flags: Vec<Suggestion>,
}

/// The first input that can be read.
pub(super) struct FirstLook<'r> {
    /// Its place among the inputs, and itself.
    pub(super) head: Option<(usize, LookedAt<'r>)>,
    pub(super) columns: Vec<SampledColumn>,
}

/// A declaration, completed from the first rows.
pub(super) struct FoundRoles {
    pub(super) suggested: Suggestions,
    pub(super) times: TimesReport,
    /// Columns that may name persons.
    pub(super) persons: Vec<String>,
}

impl LookedAt<'_> {
    /// The columns that can be read.
    fn names(&self) -> Vec<String> {
        let readable = self.columns.iter().filter(|column| column.problem.is_none());
        readable.map(|column| column.name.clone()).collect()
    }

    /// Whether the first line of a CSV file is an event: the name of a column of times is a time.
    fn has_no_header(&self, columns: &[SampledColumn], zone: &Zone) -> bool {
        let is_time = |column: &SampledColumn| {
            let Some(TimeGuess::Format { format, .. }) = &column.time else { return false };
            times::parser(format, zone).is_some_and(|mut parser| parser.reads_as_recent(&column.name))
        };
        let may_lack_header = matches!(self.head.format, Format::Csv | Format::Xlsx);
        may_lack_header && self.options.csv.columns.is_none() && columns.iter().any(is_time)
    }

    /// Gives names to the columns of a file without a header.
    fn name_columns(&mut self) {
        let names: Vec<String> = (1..=self.columns.len()).map(|number| format!("column{number}")).collect();
        let why = "the first line is an event, not a header; give the names that you like".to_owned();
        self.flags.push(Suggestion { parameter: Parameter::Columns, value: names.join(","), why });
        self.columns = names.iter().map(|name| HeadColumn { name: name.clone(), problem: None }).collect();
        self.options.csv.columns = Some(names);
    }
}

/// Whether an input can be opened again. The name `-` is standard input, whatever else there is.
fn is_file(path: &Path) -> bool {
    path != Path::new("-") && path.is_file()
}

/// The layout of columns without roles. Without columns, rows are read all the same, for their problems.
fn layout_of(names: &[String]) -> ColumnLayout {
    let time = names.first().map_or("time", String::as_str).to_owned();
    ColumnLayout::new(&Columns { time, ..Columns::default() }).with_others(names.iter().cloned())
}

impl<'r> FileReader<'r> {
    /// The first rows of the first input that can be read.
    pub(super) fn first(&self, inputs: &[PathBuf]) -> Result<FirstLook<'r>> {
        for (place, path) in inputs.iter().enumerate() {
            match self.open(path) {
                Ok(mut looked_at) => {
                    let mut columns = self.sampled(&looked_at)?;
                    if looked_at.has_no_header(&columns, self.zone) {
                        looked_at.name_columns();
                        columns = self.sampled(&looked_at)?;
                    }
                    return Ok(FirstLook { columns, head: Some((place, looked_at)) });
                }
                Err(error) if error.is_cancelled() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(FirstLook { head: None, columns: Vec::new() })
    }

    fn sampled(&self, looked_at: &LookedAt<'_>) -> Result<Vec<SampledColumn>> {
        let names = looked_at.names();
        let (rows, _) = self.sample(&looked_at.head, &looked_at.options, &names, MOST_ROWS)?;
        Ok(SampledColumn::of_rows(&names, &rows, self.zone))
    }

    /// Opens an input, and finds how to read it.
    fn open(&self, path: &Path) -> Result<LookedAt<'r>> {
        let (head, options, mut flags) = self.open_text(path)?;
        if options.json_records.is_none()
            && let [array, others @ ..] = &head.arrays()[..]
        {
            let more = if others.is_empty() { String::new() } else { format!("; others are {}", others.join(", ")) };
            let why = format!("the events are in an array of objects{more}");
            flags.push(Suggestion { parameter: Parameter::JsonRecords, value: array.clone(), why });
            let options = ReadOptions { json_records: Some(array.clone()), ..options };
            let columns = head.columns(&options)?;
            return Ok(LookedAt { head, options, columns, flags });
        }
        let mut options = options;
        if head.format == Format::Csv && self.tries_variants {
            let with = |csv: &CsvOptions| ReadOptions { csv: csv.clone(), ..options.clone() };
            let read = |csv: &CsvOptions| self.trial(&head, &with(csv));
            let variants = csv::variants(&options.csv, self.is_delimited);
            if let Some(best) = csv::best(variants, || head.first_lines(), self.zone, read) {
                options = with(&best.options);
                flags.extend(best.flags);
            }
        }
        let columns = head.columns(&options)?;
        Ok(LookedAt { head, options, columns, flags })
    }

    /// Opens an input, and finds its encoding, or the format of its lines if they are those of a log.
    fn open_text(&self, path: &Path) -> Result<(InputHead<'r>, ReadOptions, Vec<Suggestion>)> {
        let open = |options: &ReadOptions| InputHead::open(path, options, self.progress, self.cancelled);
        let plain = open(self.options);
        // A pipe can be opened only once.
        let is_file = is_file(path);
        let flag = |parameter, value: &str, why: &str| {
            vec![Suggestion { parameter, value: value.to_owned(), why: why.to_owned() }]
        };
        match plain {
            Ok(head) if is_file && self.options.encoding.is_none() && !head.is_utf8() => {
                let options = ReadOptions { encoding: TextEncoding::from_label(WESTERN), ..self.options.clone() };
                let why = "not UTF-8, and probably of Western Europe or America; check the letters with accents";
                Ok((open(&options)?, options, flag(Parameter::Encoding, WESTERN, why)))
            }
            Err(error) if is_file && self.options.format.is_none() && !error.is_cancelled() => {
                for format in [Format::CombinedLog, Format::CommonLog] {
                    let options = ReadOptions { format: Some(format), ..self.options.clone() };
                    let Ok(head) = open(&options) else { continue };
                    if self.trial(&head, &options).is_some_and(|trial| trial.is_good()) {
                        let flags = flag(Parameter::InputFormat, format.word(), "the access log of a web server");
                        return Ok((head, options, flags));
                    }
                }
                Err(error)
            }
            plain => Ok((plain?, self.options.clone(), Vec::new())),
        }
    }

    /// The first rows under some options, if there are columns.
    fn trial(&self, head: &InputHead<'_>, options: &ReadOptions) -> Option<CsvTrial> {
        let columns = head.columns(options).ok()?;
        let names: Vec<String> = columns.into_iter().filter(|c| c.problem.is_none()).map(|c| c.name).collect();
        let (rows, refused) = self.sample(head, options, &names, TRIED_ROWS).ok()?;
        Some(CsvTrial { names, rows, refused })
    }

    /// The first rows of a head, and the number of broken rows among them. Damage ends the sample.
    fn sample(
        &self,
        head: &InputHead<'_>,
        options: &ReadOptions,
        names: &[String],
        most: usize,
    ) -> Result<(Vec<SampleRow>, u64)> {
        let layout = layout_of(names);
        let (mut rows, mut refused) = (Vec::new(), 0);
        let mut events = head.rows(&layout, options, self.cancelled)?;
        while rows.len() < most {
            let mut visit = |event: &Event<'_>| -> Result<()> {
                if rows.len() < most {
                    rows.push(SampleRow::new(event, names.len()));
                }
                Ok(())
            };
            match events.next_batch_with_refused(&mut visit, &mut |_| refused += 1) {
                Ok(true) => {}
                Err(error) if error.is_cancelled() => return Err(error),
                Ok(false) | Err(_) => break,
            }
        }
        Ok((rows, refused))
    }

    /// Removes formats of times that a cell of an input contradicts, until one is left: what the first rows leave open,
    /// a later one may decide. An input that can be read only once is left alone.
    fn settle(&self, input: &Path, options: &ReadOptions, column: &str, formats: &mut Vec<String>) -> Result<()> {
        if !is_file(input) {
            return Ok(());
        }
        let mut open: Vec<(String, TimeParser)> =
            formats.iter().filter_map(|format| Some((format.clone(), times::parser(format, self.zone)?))).collect();
        let head = InputHead::open(input, options, &(), self.cancelled)?;
        let layout = layout_of(&[column.to_owned()]);
        let mut events = head.into_rows(&layout, options, &(), self.cancelled)?;
        let mut visit = |event: &Event<'_>| -> Result<()> {
            let reads: Vec<bool> = open.iter_mut().map(|(_, parser)| parser.read(event.time()).is_ok()).collect();
            // A cell that no format reads decides nothing.
            if reads.contains(&true) && reads.contains(&false) {
                let mut reads = reads.into_iter();
                open.retain(|_| reads.next() == Some(true));
            }
            Ok(())
        };
        while events.next_batch_with_refused::<PipelineError>(&mut visit, &mut |_| {})? {}
        *formats = open.into_iter().map(|(format, _)| format).collect();
        Ok(())
    }

    /// Reads all inputs; the head of one of them has been looked at.
    pub(super) fn read(
        &self,
        inputs: &[PathBuf],
        mut first: Option<(usize, LookedAt<'r>)>,
        counts: &mut RowCounts,
    ) -> Result<Vec<FileReport>> {
        let mut reports = Vec::new();
        for (place, path) in inputs.iter().enumerate() {
            let opened = match first.take_if(|(of, _)| *of == place) {
                Some((_, looked_at)) => Ok(looked_at),
                None => self.open(path),
            };
            let report = match opened {
                Ok(looked_at) => self.read_one(looked_at, counts),
                Err(error) => Err(error),
            };
            reports.push(match report {
                Err(error) if error.is_cancelled() => return Err(error),
                Err(error) => FileReport::unreadable(path, &error),
                Ok(report) => report,
            });
        }
        Ok(reports)
    }

    fn read_one(&self, looked_at: LookedAt<'r>, counts: &mut RowCounts) -> Result<FileReport> {
        let names = looked_at.names();
        let layout = match &counts.check {
            Some(check) => ColumnLayout::new(&check.settings().columns).with_others(names.iter().cloned()),
            None => layout_of(&names),
        };
        let LookedAt { head, options, columns, .. } = looked_at;
        let mut report = FileReport::new(&head, &options, &columns);
        // Columns that other files have.
        let known = counts.profiles.iter().map(|(name, _)| name.clone());
        report.missing_columns = known.filter(|name| !names.contains(name)).collect();
        let before = counts.rows;
        let read = (|| -> Result<()> {
            let mut events = head.into_rows(&layout, &options, self.progress, self.cancelled)?;
            let profiles = if names.is_empty() { Vec::new() } else { counts.profiles_of(&layout) };
            loop {
                let mut broken = Vec::new();
                let counted = &mut *counts;
                let mut visit = |event: &Event<'_>| -> Result<()> {
                    counted.add(event, &profiles);
                    Ok(())
                };
                let more = events.next_batch_with_refused::<PipelineError>(&mut visit, &mut |error| broken.push(error));
                broken.into_iter().for_each(|error| counts.add_unreadable(error));
                if !more? {
                    return Ok(());
                }
            }
        })();
        report.rows = counts.rows - before;
        match read {
            Err(error) if error.is_cancelled() => Err(error),
            Err(error) => Ok(FileReport { problem: Some(error.to_string()), ..report }),
            Ok(()) => Ok(report),
        }
    }
}

impl FileReport {
    fn new(head: &InputHead<'_>, options: &ReadOptions, columns: &[HeadColumn]) -> Self {
        let problems = columns.iter().filter_map(|column| Some((column.name.clone(), column.problem.clone()?)));
        let delimiter = char::from(options.csv.delimiter.unwrap_or(b','));
        Self {
            name: head.name.clone(),
            format: Some(head.format.to_string()),
            compression: head.compression,
            bytes: head.bytes,
            delimiter: (head.format == Format::Csv)
                .then(|| if delimiter == '\t' { "tab".to_owned() } else { delimiter.to_string() }),
            rows: 0,
            missing_columns: Vec::new(),
            unreadable_columns: problems.collect(),
            problem: None,
        }
    }

    fn unreadable(path: &Path, error: &PipelineError) -> Self {
        Self {
            name: without_secrets(path),
            format: None,
            compression: None,
            bytes: None,
            delimiter: None,
            rows: 0,
            missing_columns: Vec::new(),
            unreadable_columns: Vec::new(),
            problem: Some(error.to_string()),
        }
    }
}

impl FirstLook<'_> {
    /// How the other inputs are read: as the first.
    pub(super) fn options(&self, declared: &ReadOptions) -> ReadOptions {
        self.head.as_ref().map_or(declared, |(_, looked_at)| &looked_at.options).clone()
    }

    /// Decides between formats of times by later rows, where the first ones leave it open.
    ///
    /// # Errors
    /// If later rows are needed, and cannot be read.
    pub(super) fn settle(&mut self, reader: &FileReader<'_>, inputs: &[PathBuf]) -> Result<()> {
        let Some((place, looked_at)) = &self.head else { return Ok(()) };
        for column in &mut self.columns {
            if let Some(TimeGuess::Ambiguous { formats }) = &mut column.time {
                reader.settle(&inputs[*place], &looked_at.options, &column.name, formats)?;
                column.time = column.time.take().map(TimeGuess::settled);
            }
        }
        Ok(())
    }

    /// Completes a declaration from the first rows.
    pub(super) fn found(&self, written: Written, answers: &CheckAnswers) -> FoundRoles {
        let (suggested, persons) = (Suggestions::new(written), Vec::new());
        let mut found = FoundRoles { suggested, times: TimesReport::default(), persons };
        if let Some((_, looked_at)) = &self.head {
            looked_at.flags.iter().for_each(|flag| found.suggested.push(flag.clone()));
        }
        if answers.has_time {
            found.find_times(&self.columns);
        } else {
            found.note_no_time();
        }
        if answers.protects_persons {
            found.find_person(&self.columns);
        }
        found
    }
}

impl FoundRoles {
    fn find_times(&mut self, columns: &[SampledColumn]) {
        let declared = &self.suggested.written.declaration;
        let named = roles::named_time(declared);
        let candidates = roles::times(columns);
        let column = match roles::known_time(declared, columns) {
            Some(name) => columns.iter().find(|column| column.name == name),
            None => candidates.first().copied(),
        };
        let Some(column) = column else {
            self.times.columns = named.into_iter().chain(declared.time_of_day.clone()).collect();
            self.times.is_declared = !self.times.columns.is_empty();
            if self.times.columns.is_empty() {
                self.note_no_time();
            }
            return;
        };
        self.times.columns = vec![column.name.clone()];
        self.times.is_declared = named.is_some() || column.name == "time";
        match (roles::time_of_day(column, columns), declared.time_of_day.clone()) {
            (_, Some(clock)) => self.times.columns.push(clock),
            (Some(clock), None) if named.is_none() => {
                self.times.columns.push(clock.name.clone());
                self.suggested.add(Parameter::Date, &column.name, "a column of dates");
                self.suggested.add(Parameter::TimeOfDay, &clock.name, "a column of times of day");
            }
            _ if named.is_none() && column.name != "time" => {
                self.suggested.add(
                    Parameter::Time,
                    &column.name,
                    "a column of times; check that it is the time of the event",
                );
            }
            _ => {}
        }
        let others: Vec<&str> = candidates.iter().map(|column| &*column.name).collect();
        let others: Vec<&str> =
            others.into_iter().filter(|name| !self.times.columns.iter().any(|c| c == name)).collect();
        if named.is_none() && !others.is_empty() {
            self.suggested.notes.push(format!("other columns of times: {}", others.join(", ")));
        }
        self.find_format(column);
    }

    fn note_no_time(&mut self) {
        self.suggested.notes.push("no column is known to be the time of an event: name it with --time".to_owned());
    }

    fn find_format(&mut self, column: &SampledColumn) {
        if let Some(format) = &self.suggested.written.declaration.time_format {
            self.times.format = Some(format.to_string());
            return;
        }
        match &column.time {
            Some(TimeGuess::Format { format, .. }) => {
                self.times.format = Some(format.clone());
                if format != "auto" {
                    self.suggested.add(
                        Parameter::TimeFormat,
                        format,
                        "reads the first times, and no other format does",
                    );
                }
            }
            Some(TimeGuess::Ambiguous { formats }) => {
                self.times.ambiguous = formats.clone();
                let formats: Vec<String> = formats.iter().map(|format| format!("'{format}'")).collect();
                let which = formats.join(" or ");
                let note = format!("the times can be read in several ways: check again with --time-format {which}");
                self.suggested.notes.push(note);
            }
            None => self.times.format = Some("auto".to_owned()),
        }
    }

    fn find_person(&mut self, columns: &[SampledColumn]) {
        let declared = &self.suggested.written.declaration;
        let taken: Vec<&str> =
            roles::declared(declared).into_iter().chain(self.times.columns.iter().map(String::as_str)).collect();
        let found: Vec<String> = roles::persons(columns, &taken).iter().map(|column| column.name.clone()).collect();
        self.persons = found;
        if self.suggested.written.has(Parameter::Person) {
            return;
        }
        match self.persons.first().cloned() {
            Some(name) => {
                self.suggested.add(
                    Parameter::Person,
                    &name,
                    "by its name, a column of persons: protects all events of each",
                );
            }
            None => {
                let note = "no column looks like a person: without --person only single events are protected";
                self.suggested.notes.push(note.to_owned());
            }
        }
    }
}
