//! The formats of tables: of events, of sums and of released rows.
//!
//! One row of the table for each format. Flags, the schema, files, the service and the feeder read this table, so that
//! none of them has a list of formats.

use crate::words::{any_of, quoted};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A format of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON object per line.
    JsonLines,
    /// Apache Parquet.
    Parquet,
    /// Arrow record batches, as a stream or as a file.
    Arrow,
    /// An event log in XML (IEEE 1849).
    Xes,
    /// A sheet of an Excel workbook (Office Open XML).
    Xlsx,
    /// One JSON object for all rows.
    Json,
    /// The common log format of web servers.
    CommonLog,
    /// The combined log format of web servers.
    CombinedLog,
}

/// The properties of a format.
struct FormatRow {
    /// Its name in flags, declarations and queries.
    word: &'static str,
    /// A synonym in flags and declarations, which help does not show.
    alias: Option<&'static str>,
    /// Its name in sentences.
    name: &'static str,
    /// Its meaning, in one sentence without the full stop.
    help: &'static str,
    /// The endings of file names. The first one is the usual one.
    endings: &'static [&'static str],
    /// Further endings, by which only an output file is recognised.
    output_endings: &'static [&'static str],
    /// Its media type.
    media_type: &'static str,
    /// Further media types of request bodies.
    request_types: &'static [&'static str],
    /// Further media types that readers may ask for.
    accept_types: &'static [&'static str],
    /// The content type of answers.
    content_type: &'static str,
    /// Its possible first bytes, after white space if rows are lines. None if they do not reveal the format.
    signatures: &'static [&'static [u8]],
    /// Whether rows are lines of text: they can be cut off a file that grows, and are worth compressing.
    has_lines: bool,
    /// Whether files of events are read in it.
    is_readable: bool,
    /// Whether tables are written to files in it.
    is_writable: bool,
    /// Whether bodies of requests are read in it.
    is_for_requests: bool,
    /// Whether a service answers in it.
    is_for_answers: bool,
    /// Whether it can be written before all rows are known. Otherwise an answer is built in memory.
    is_streamable: bool,
}

const CSV: FormatRow = FormatRow {
    word: "csv",
    alias: None,
    name: "CSV",
    help: "Comma-separated values with a header line",
    endings: &["csv"],
    output_endings: &[],
    media_type: "text/csv",
    request_types: &[],
    accept_types: &[],
    content_type: "text/csv; charset=utf-8",
    signatures: &[],
    has_lines: true,
    is_readable: true,
    is_writable: true,
    is_for_requests: true,
    is_for_answers: true,
    is_streamable: true,
};

const JSON_LINES: FormatRow = FormatRow {
    word: "jsonl",
    alias: Some("ndjson"),
    name: "JSON lines",
    help: "One JSON object per line, or an array of objects",
    endings: &["jsonl", "ndjson"],
    output_endings: &[],
    media_type: "application/x-ndjson",
    request_types: &["application/jsonl", "application/jsonlines"],
    accept_types: &["application/jsonl"],
    content_type: "application/x-ndjson",
    signatures: &[b"{"],
    has_lines: true,
    is_readable: true,
    is_writable: true,
    is_for_requests: true,
    is_for_answers: true,
    is_streamable: true,
};

const PARQUET: FormatRow = FormatRow {
    word: "parquet",
    alias: None,
    name: "Parquet",
    help: "Apache Parquet",
    endings: &["parquet"],
    output_endings: &["pq"],
    media_type: "application/vnd.apache.parquet",
    request_types: &[],
    accept_types: &[],
    content_type: "application/vnd.apache.parquet",
    signatures: &[b"PAR1"],
    has_lines: false,
    is_readable: true,
    is_writable: true,
    is_for_requests: true,
    is_for_answers: true,
    is_streamable: false,
};

const ARROW: FormatRow = FormatRow {
    word: "arrow",
    alias: None,
    name: "Arrow",
    help: "Arrow record batches, as a stream or as a file (Feather version 2)",
    endings: &["arrows"],
    output_endings: &[],
    media_type: "application/vnd.apache.arrow.stream",
    request_types: &[],
    accept_types: &[],
    content_type: "application/vnd.apache.arrow.stream",
    signatures: &[b"ARROW1", b"\xff\xff\xff\xff"],
    has_lines: false,
    is_readable: true,
    is_writable: false,
    is_for_requests: true,
    is_for_answers: true,
    is_streamable: true,
};

const XES: FormatRow = FormatRow {
    word: "xes",
    alias: None,
    name: "XES",
    help: "An event log in XML",
    endings: &["xes"],
    output_endings: &[],
    media_type: "application/xml",
    request_types: &[],
    accept_types: &[],
    content_type: "application/xml",
    signatures: &[],
    has_lines: false,
    is_readable: true,
    is_writable: false,
    is_for_requests: false,
    is_for_answers: false,
    is_streamable: false,
};

const XLSX: FormatRow = FormatRow {
    word: "xlsx",
    alias: None,
    name: "XLSX",
    help: "A sheet of an Excel workbook",
    endings: &["xlsx", "xlsm"],
    output_endings: &[],
    media_type: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    request_types: &[],
    accept_types: &[],
    content_type: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    signatures: &[],
    has_lines: false,
    is_readable: true,
    is_writable: false,
    is_for_requests: false,
    is_for_answers: false,
    is_streamable: false,
};

const JSON: FormatRow = FormatRow {
    word: "json",
    alias: None,
    name: "JSON",
    help: "One JSON object for all rows",
    endings: &[],
    output_endings: &[],
    media_type: "application/json",
    request_types: &[],
    accept_types: &[],
    content_type: "application/json",
    signatures: &[],
    has_lines: false,
    is_readable: false,
    is_writable: false,
    is_for_requests: false,
    is_for_answers: true,
    is_streamable: true,
};

const COMMON_LOG: FormatRow = FormatRow {
    word: "common-log",
    alias: None,
    name: "common log",
    help: "Access log of a web server in the common format: no referer, no agent",
    endings: &[],
    output_endings: &[],
    media_type: "text/x-common-log",
    request_types: &[],
    accept_types: &[],
    content_type: "text/x-common-log",
    signatures: &[],
    has_lines: true,
    is_readable: true,
    is_writable: false,
    is_for_requests: true,
    is_for_answers: false,
    is_streamable: false,
};

const COMBINED_LOG: FormatRow = FormatRow {
    word: "combined-log",
    name: "combined log",
    help: "Access log of a web server in the combined format, the default of nginx",
    media_type: "text/x-combined-log",
    content_type: "text/x-combined-log",
    ..COMMON_LOG
};

impl Format {
    /// All formats.
    pub const ALL: [Self; 9] = [
        Self::Csv,
        Self::JsonLines,
        Self::Parquet,
        Self::Arrow,
        Self::Xes,
        Self::Xlsx,
        Self::Json,
        Self::CommonLog,
        Self::CombinedLog,
    ];

    const fn row(self) -> &'static FormatRow {
        match self {
            Self::Csv => &CSV,
            Self::JsonLines => &JSON_LINES,
            Self::Parquet => &PARQUET,
            Self::Arrow => &ARROW,
            Self::Xes => &XES,
            Self::Xlsx => &XLSX,
            Self::Json => &JSON,
            Self::CommonLog => &COMMON_LOG,
            Self::CombinedLog => &COMBINED_LOG,
        }
    }

    /// Its name in flags, declarations and queries.
    pub const fn word(self) -> &'static str {
        self.row().word
    }

    /// A synonym of its word, which help does not show.
    pub const fn alias(self) -> Option<&'static str> {
        self.row().alias
    }

    /// Its meaning, in one sentence without the full stop.
    pub const fn help(self) -> &'static str {
        self.row().help
    }

    /// Its media type.
    pub const fn media_type(self) -> &'static str {
        self.row().media_type
    }

    /// The content type of answers.
    pub const fn content_type(self) -> &'static str {
        self.row().content_type
    }

    /// Its possible first bytes, after white space if rows are [lines](Self::has_lines); none if they do not reveal the
    /// format.
    pub const fn signatures(self) -> &'static [&'static [u8]] {
        self.row().signatures
    }

    /// Whether rows are lines of text.
    pub const fn has_lines(self) -> bool {
        self.row().has_lines
    }

    /// Whether files of events are read in it.
    pub const fn is_readable(self) -> bool {
        self.row().is_readable
    }

    /// Whether tables are written to files in it.
    pub const fn is_writable(self) -> bool {
        self.row().is_writable
    }

    /// Whether the service reads batches and sums in it.
    pub const fn is_for_requests(self) -> bool {
        self.row().is_for_requests
    }

    /// Whether the service answers in it.
    pub const fn is_for_answers(self) -> bool {
        self.row().is_for_answers
    }

    /// Whether it can be written before all rows are known.
    pub const fn is_streamable(self) -> bool {
        self.row().is_streamable
    }

    /// The usual ending of file names, if it has one.
    pub fn ending(self) -> Option<&'static str> {
        self.row().endings.first().copied()
    }

    /// Whether a text is its word, or the synonym.
    pub fn is_called(self, text: &str) -> bool {
        self.word() == text || self.alias() == Some(text)
    }

    /// The format with this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.word() == word)
    }

    /// The format of files of events with this ending, in lower case.
    pub fn from_ending(ending: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.row().endings.contains(&ending))
    }

    /// The format of an output file with this ending, in lower case.
    pub fn from_output_ending(ending: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| {
            let row = format.row();
            row.is_writable && (row.endings.contains(&ending) || row.output_endings.contains(&ending))
        })
    }

    /// The format of a request body of this media type, without parameters.
    pub fn from_request_type(media_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| {
            let row = format.row();
            row.is_for_requests && (row.media_type == media_type || row.request_types.contains(&media_type))
        })
    }

    /// The format of answers that a reader accepts under this media type, without parameters.
    pub fn from_accept_type(media_type: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| {
            let row = format.row();
            row.is_for_answers && (row.media_type == media_type || row.accept_types.contains(&media_type))
        })
    }

    /// The words of some formats in a sentence: `csv, jsonl or parquet`.
    pub fn any_word_of(is_wanted: impl Fn(Self) -> bool) -> String {
        any_of(Self::ALL.into_iter().filter(|format| is_wanted(*format)).map(Self::word))
    }
}

/// The name in sentences.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

/// A format in which files of events are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct InputFormat(pub Format);

/// Reads the word of a format that tables are written in.
impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        from_text(text, "written as", Self::is_writable)
    }
}

/// Reads the word of a format that events are read in.
impl FromStr for InputFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        from_text(text, "read as", Format::is_readable).map(Self)
    }
}

fn from_text(text: &str, verb: &str, is_wanted: fn(Format) -> bool) -> Result<Format, String> {
    let word = text.to_ascii_lowercase();
    let found = Format::ALL.into_iter().find(|format| is_wanted(*format) && format.is_called(&word));
    let problem = || format!("tables are not {verb} {}: use {}", quoted(text), Format::any_word_of(is_wanted));
    found.ok_or_else(problem)
}

impl Serialize for Format {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

impl<'de> Deserialize<'de> for Format {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for InputFormat {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_text_names_one_format() {
        let mut seen = BTreeSet::new();
        for format in Format::ALL {
            let row = format.row();
            let words = [Some(row.word), row.alias].into_iter().flatten().map(|word| ("word", word));
            let endings = row.endings.iter().chain(row.output_endings).map(|ending| ("ending", *ending));
            let types = [row.media_type].into_iter().chain(row.request_types.iter().copied());
            for (kind, text) in words.chain(endings).chain(types.map(|text| ("media type", text))) {
                assert!(seen.insert((kind, text)), "the {kind} {text} names two formats");
            }
            assert!(row.content_type.starts_with(row.media_type), "{format}");
            assert_eq!(Format::from_accept_type(row.media_type), Some(format).filter(|_| row.is_for_answers));
        }
    }

    #[test]
    fn formats_are_found_by_word_ending_and_media_type() {
        for (text, format) in [("csv", Format::Csv), ("ndjson", Format::JsonLines), ("Parquet", Format::Parquet)] {
            assert_eq!(text.parse(), Ok(format));
        }
        for text in ["xls", "arrow", "json", "pq", "combined-log", ""] {
            let problem = text.parse::<Format>().unwrap_err();
            assert_eq!(problem, format!("tables are not written as `{text}`: use csv, jsonl or parquet"));
        }
        assert_eq!("arrow".parse(), Ok(InputFormat(Format::Arrow)));
        assert_eq!("combined-log".parse(), Ok(InputFormat(Format::CombinedLog)));
        let problem = "xls".parse::<InputFormat>().unwrap_err();
        let words = "csv, jsonl, parquet, arrow, xes, xlsx, common-log or combined-log";
        assert_eq!(problem, format!("tables are not read as `xls`: use {words}"));
        assert_eq!((Format::from_word("arrow"), Format::from_word("ndjson")), (Some(Format::Arrow), None));
        assert_eq!(Format::from_ending("arrows"), Some(Format::Arrow));
        assert_eq!(Format::from_ending("pq"), None);
        assert_eq!(Format::from_output_ending("arrows"), None);
        assert_eq!(Format::from_output_ending("pq"), Some(Format::Parquet));
        assert_eq!(Format::from_request_type("application/jsonlines"), Some(Format::JsonLines));
        assert_eq!(Format::from_request_type("application/json"), None);
        assert_eq!(Format::from_accept_type("application/jsonlines"), None);
        assert_eq!(Format::from_accept_type("application/jsonl"), Some(Format::JsonLines));
    }
}
