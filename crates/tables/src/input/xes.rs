//! Event logs in XES (IEEE 1849), the XML format of process mining: one event is one row.
//!
//! Columns are the keys of the event's attributes, such as `time:timestamp`, and those of its trace after `trace:`,
//! such as `trace:concept:name`. Cells are the texts of the attributes. Attributes of attributes are not read.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event as XmlEvent};

use super::batches::RowBatch;
use super::header;
use super::limits::{max_record_bytes, mebibytes};
use super::options::ReadOptions;
use super::xml::{LimitedXml, TooLong};
use evertally_declare::error::{
    Cancelled, InputError, PipelineError, Place, ReadProblem, Result, Unreadable, read_error,
};
use evertally_declare::words::quoted;

/// The beginning of the name of a column that belongs to the trace.
const TRACE: &str = "trace:";

/// Rows that are passed on together.
const ROWS: u64 = 4096;

/// Bytes of cells after which rows are passed on, too.
const CELL_BYTES: usize = 4 << 20;

/// The maximum number of keys that are kept, and the number of events whose keys they are, for a message.
const MAX_KEYS: usize = 1000;
const EVENTS_WITH_KEYS: u64 = 100;

/// Whether a text begins as an event log does.
pub(super) fn begins_log(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start();
    text.starts_with(b"<") && memchr::memmem::find(text, b"<log").is_some()
}

/// The keys of the attributes of the first events.
pub(super) fn columns(file: &str, inner: impl Read, options: &ReadOptions) -> Result<Vec<String>> {
    let (mut rows, mut buffer) = (XesRows::new(file, inner, options, &[]), Vec::new());
    while rows.row < EVENTS_WITH_KEYS {
        buffer.clear();
        match rows.read(&mut buffer)? {
            Ended::Nothing => {}
            Ended::Event => rows.row += 1,
            Ended::Log => break,
        }
    }
    Ok(rows.keys)
}

/// The parts of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum XesPart {
    Log,
    Trace,
    Event { in_trace: bool },
}

/// The events of a log.
pub(super) struct XesRows<R> {
    file: String,
    wanted: Vec<String>,
    reader: LimitedXml<R>,
    longest: u64,
    inside: Option<XesPart>,
    /// The depth inside of an element that is not needed.
    ignored: u64,
    has_log: bool,
    /// The values of the wanted columns in the trace and in the event.
    trace: Vec<Option<String>>,
    event: Vec<Option<String>>,
    /// Whether the trace has had an event.
    has_events: bool,
    /// Which wanted columns occurred.
    seen: Vec<bool>,
    /// The keys of the first events, for a message.
    keys: Vec<String>,
    row: u64,
    has_ended: bool,
}

/// What a piece of the text ends.
enum Ended {
    Nothing,
    Event,
    Log,
}

impl<R: Read> XesRows<R> {
    /// A log with these options.
    pub(super) fn new(file: &str, inner: R, options: &ReadOptions, wanted: &[String]) -> Self {
        let longest = max_record_bytes(options.memory) as u64;
        XesRows {
            file: file.to_owned(),
            wanted: wanted.to_vec(),
            reader: LimitedXml::new(inner, longest),
            longest,
            inside: None,
            ignored: 0,
            has_log: false,
            trace: vec![None; wanted.len()],
            event: vec![None; wanted.len()],
            has_events: false,
            seen: vec![false; wanted.len()],
            keys: Vec::new(),
            row: 0,
            has_ended: false,
        }
    }

    /// The next rows; `None` at the end of the log.
    pub(super) fn next(&mut self) -> Result<Option<RowBatch>> {
        let mut columns: Vec<StringBuilder> = self.wanted.iter().map(|_| StringBuilder::new()).collect();
        let (before, mut bytes, mut buffer) = (self.row, 0, Vec::new());
        while !self.has_ended && self.row - before < ROWS && bytes < CELL_BYTES {
            match self.read(&mut buffer)? {
                Ended::Nothing => {}
                Ended::Event => {
                    self.row += 1;
                    for (slot, column) in columns.iter_mut().enumerate() {
                        let cell = self.event[slot].take().or_else(|| self.trace[slot].clone());
                        bytes += cell.as_ref().map_or(0, String::len);
                        column.append_option(cell);
                    }
                }
                Ended::Log => self.finish()?,
            }
        }
        if self.row == before {
            return Ok(None);
        }
        let columns = columns.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef);
        let batch = RecordBatch::try_from_iter_with_nullable(
            self.wanted.iter().zip(columns).map(|(name, column)| (name, column, true)),
        );
        Ok(Some(RowBatch::whole(batch.map_err(|e| self.damaged(&e))?, before)))
    }

    /// Reads the next piece of the text.
    fn read(&mut self, buffer: &mut Vec<u8>) -> Result<Ended> {
        let piece = self.reader.next(buffer).map_err(|e| self.unreadable(&e))?;
        match piece {
            XmlEvent::Start(tag) => self.begin(&tag).map(|()| Ended::Nothing),
            XmlEvent::End(_) if self.ignored > 0 => {
                self.ignored -= 1;
                Ok(Ended::Nothing)
            }
            XmlEvent::End(_) => Ok(self.end()),
            XmlEvent::Eof => Ok(Ended::Log),
            XmlEvent::Decl(declaration) => {
                let encoding = declaration.encoding().transpose().map_err(|e| self.damaged(&e))?;
                match encoding.as_deref().unwrap_or("UTF-8") {
                    name if ["utf-8", "us-ascii"].contains(&&*name.to_ascii_lowercase()) => Ok(Ended::Nothing),
                    other => {
                        let problem = format!(
                            "this XML is encoded as {}; convert it to UTF-8 (iconv), and declare that",
                            quoted(other)
                        );
                        Err(InputError::in_file(&*self.file, problem).into())
                    }
                }
            }
            _ => Ok(Ended::Nothing),
        }
    }

    fn begin(&mut self, tag: &BytesStart<'_>) -> Result<()> {
        if self.ignored > 0 {
            self.ignored += 1;
            return Ok(());
        }
        let name = tag.local_name();
        match (self.inside, name.as_ref()) {
            (None, "log") if !self.has_log => (self.inside, self.has_log) = (Some(XesPart::Log), true),
            (None, _) => {
                let problem = "this XML is not one event log in XES, which is all inside of one `<log>`";
                return Err(InputError::in_file(&*self.file, problem.to_owned()).into());
            }
            (Some(XesPart::Log), "trace") => {
                (self.inside, self.has_events) = (Some(XesPart::Trace), false);
                self.trace.fill(None);
            }
            (Some(part @ (XesPart::Log | XesPart::Trace)), "event") => {
                (self.inside, self.has_events) = (Some(XesPart::Event { in_trace: part == XesPart::Trace }), true);
                self.event.fill(None);
            }
            (Some(XesPart::Trace | XesPart::Event { .. }), "string" | "date" | "int" | "float" | "boolean" | "id") => {
                self.attribute(tag)?;
                self.ignored = 1;
            }
            _ => self.ignored = 1,
        }
        Ok(())
    }

    fn end(&mut self) -> Ended {
        match self.inside {
            Some(XesPart::Event { in_trace }) => {
                self.inside = Some(if in_trace { XesPart::Trace } else { XesPart::Log });
                Ended::Event
            }
            Some(XesPart::Trace) => {
                self.trace.fill(None);
                self.inside = Some(XesPart::Log);
                Ended::Nothing
            }
            Some(XesPart::Log) | None => {
                self.inside = None;
                Ended::Nothing
            }
        }
    }

    /// Keeps the value of an attribute if it is wanted.
    fn attribute(&mut self, tag: &BytesStart<'_>) -> Result<()> {
        let (mut key, mut value) = (None, None);
        for attribute in tag.attributes() {
            let attribute = attribute.map_err(|e| self.damaged(&e))?;
            let text = || attribute.normalized_value(XmlVersion::Implicit1_0);
            match attribute.key.as_ref() {
                "key" => key = Some(text().map_err(|e| self.damaged(&e))?),
                "value" => value = Some(text().map_err(|e| self.damaged(&e))?),
                _ => {}
            }
        }
        let (Some(key), Some(value)) = (key, value) else {
            return Err(self.damaged(&"an attribute lacks its key or its value").into());
        };
        let is_of_trace = self.inside == Some(XesPart::Trace);
        let name = if is_of_trace { format!("{TRACE}{key}") } else { key.into_owned() };
        if self.row < EVENTS_WITH_KEYS && self.keys.len() < MAX_KEYS && !self.keys.contains(&name) {
            self.keys.push(name.clone());
        }
        let Some(slot) = self.wanted.iter().position(|wanted| *wanted == name) else { return Ok(()) };
        let refused = |problem: &str| {
            let error = InputError::in_file(&*self.file, problem.to_owned()).at(Place::Row(self.row + 1));
            error.in_column(name.clone())
        };
        if self.event[slot].is_some() || self.trace[slot].is_some() {
            return Err(refused("the event or its trace has this attribute twice; keep one of them").into());
        }
        if is_of_trace && self.has_events {
            return Err(refused("the trace has this attribute after its events; write it before them").into());
        }
        self.seen[slot] = true;
        let values = if is_of_trace { &mut self.trace } else { &mut self.event };
        values[slot] = Some(value.into_owned());
        Ok(())
    }

    /// The errors found in the log as a whole.
    fn finish(&mut self) -> Result<()> {
        self.has_ended = true;
        if self.inside.is_some() || !self.has_log {
            return Err(self.damaged(&"it ends before `</log>`").into());
        }
        match self.seen.iter().position(|seen| !seen) {
            Some(slot) if self.row > 0 => {
                let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
                Err(header::missing_column(&self.file, &self.wanted[slot], &keys).into())
            }
            _ => Ok(()),
        }
    }

    fn damaged(&self, problem: &dyn fmt::Display) -> InputError {
        let problem = format!("this event log cannot be read ({problem}); it may be cut short or damaged");
        let error = InputError::in_file(&*self.file, problem).at(Place::Row(self.row + 1));
        error.as_unreadable(Unreadable::Damaged)
    }

    fn unreadable(&self, error: &quick_xml::Error) -> PipelineError {
        let quick_xml::Error::Io(io) = error else { return self.damaged(error).into() };
        match io.get_ref() {
            Some(inner) if inner.is::<Cancelled>() => Cancelled.into(),
            Some(inner) if inner.is::<TooLong>() => {
                let problem = format!("a tag or text in it is longer than {}", mebibytes(self.longest));
                let error = InputError::in_file(&*self.file, problem).at(Place::Row(self.row + 1));
                error.as_unreadable(Unreadable::TooLarge).into()
            }
            Some(inner) if inner.is::<ReadProblem>() => read_error(&self.file, ReadProblem(inner.to_string()).into()),
            _ => read_error(&self.file, io::Error::new(io.kind(), io.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::input::ReadOptions;
    use crate::input::tests::{Fixture, gzip};
    use evertally_declare::format::Format;

    const LOG: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- A log. -->
<log xes.version="1.0" xmlns="http://www.xes-standard.org/">
  <extension name="Concept" prefix="concept" uri="http://www.xes-standard.org/concept.xesext"/>
  <global scope="event"><string key="org:resource" value="UNKNOWN"/></global>
  <string key="concept:name" value="the log"/>
  <trace>
    <string key="concept:name" value="case 1"/>
    <event>
      <date key="time:timestamp" value="2011-10-01T00:38:44.546+02:00"/>
      <string key="org:resource" value="A &amp; B"><string key="concept:name" value="nested"/></string>
      <float key="cost" value="2.50"/>
    </event>
    <event><date key="time:timestamp" value="2011-10-02T00:00:00Z"/><int key="cost" value="3"/></event>
  </trace>
  <trace><event><date key="time:timestamp" value="2011-10-03"/></event></trace>
  <event><date key="time:timestamp" value="2011-10-04"/><string key="org:resource" value=""/></event>
</log>
"#;

    const ROWS: [&str; 4] = [
        "row 1|2011-10-01T00:38:44.546+02:00|A & B|case 1|2.50",
        "row 2|2011-10-02T00:00:00Z||case 1|3",
        "row 3|2011-10-03|||",
        "row 4|2011-10-04|||",
    ];

    fn fixture() -> Fixture {
        Fixture::new().columns("time:timestamp", &["org:resource"], Some("trace:concept:name"), Some("cost"))
    }

    #[test]
    fn events_are_rows() {
        for data in [LOG.as_bytes().to_vec(), gzip(LOG.as_bytes()), format!("\u{feff}{LOG}").into_bytes()] {
            assert_eq!(fixture().read_bytes(&data).unwrap(), ROWS);
        }
        let declared = ReadOptions { format: Some(Format::Xes), ..ReadOptions::default() };
        assert_eq!(fixture().options(declared).read_bytes(LOG.as_bytes()).unwrap(), ROWS);
        assert_eq!(fixture().read_bytes(b"<log/>").unwrap(), [""; 0]);
        let columns = super::columns("log", LOG.as_bytes(), &ReadOptions::default()).unwrap();
        assert_eq!(columns, ["trace:concept:name", "time:timestamp", "org:resource", "cost"]);
    }

    #[test]
    fn many_events_are_several_batches() {
        let event = r#"<event><date key="time" value="2011"/></event>"#;
        let log = format!("<log><trace>{}</trace></log>", event.repeat(10_000));
        let rows = Fixture::new().columns("time", &[], None, None).read_bytes(log.as_bytes()).unwrap();
        assert_eq!((rows.len(), &*rows[9_999]), (10_000, "row 10000|2011||"));
    }

    #[test]
    fn faults_name_the_event() {
        let error = |from: &str, to: &str| {
            assert!(LOG.contains(from), "{from}");
            fixture().error(LOG.replacen(from, to, 1).as_bytes())
        };
        for (from, to, parts) in [
            ("</log>", "", ["row 5", "before `</log>`"]),
            ("<int key=\"cost\" value=\"3\"/>", "<int key=\"cost\"/>", ["row 2", "lacks its key or its value"]),
            ("<int", "<int key=\"cost\" value=\"4\"/><int", ["row 2, column `cost`", "twice"]),
            ("&amp;", "&unknown;", ["row 1", "cannot be read"]),
            ("</event>", "</trace>", ["row 1", "cannot be read"]),
            ("</log>", "</log><log/>", ["events.csv", "not one event log"]),
            ("UTF-8", "ISO-8859-1", ["events.csv", "iconv"]),
            (
                "  </trace>",
                "<string key=\"concept:name\" value=\"late\"/></trace>",
                ["row 3, column `trace:concept:name`", "twice"],
            ),
        ] {
            let message = error(from, to);
            assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        }
        let late = LOG.replace("<string key=\"concept:name\" value=\"case 1\"/>", "").replacen(
            "  </trace>",
            "<string key=\"concept:name\" value=\"late\"/></trace>",
            1,
        );
        assert!(fixture().error(late.as_bytes()).contains("after its events"));
        let missing = Fixture::new().columns("time", &[], None, None).error(LOG.as_bytes());
        assert!(missing.contains("no column `time`") && missing.contains("`trace:concept:name`"), "{missing}");
        let long = LOG.replace("A &amp; B", &"x".repeat(2 << 20));
        let small = ReadOptions { memory: 1 << 24, ..ReadOptions::default() };
        let message = fixture().options(small).error(long.as_bytes());
        assert!(message.contains("row 1") && message.contains("longer than 1 MiB"), "{message}");
        let message = fixture().error(b"<?xml version=\"1.0\"?><html/>");
        assert!(message.contains("XML") && message.contains("CSV"), "{message}");
    }
}
