//! Cutting what was read into batches of whole rows.

use super::memory::{Mark, Pending, Window};
use super::sending::BadRow;
use evertally_declare::error::{Result, usage};
use std::collections::BTreeSet;
use std::ops::Range;

/// Bytes of a batch at most, where rows can be cut.
pub(super) const MOST_BYTES: usize = 4 << 20;

/// How a source holds its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    JsonLines,
    /// Files that are sent whole: their content type, and their compression.
    Whole(&'static str, Option<&'static str>),
}

impl Format {
    pub(super) fn of_name(name: &str) -> Result<Self> {
        match name {
            "csv" => Ok(Self::Csv),
            "jsonl" | "ndjson" => Ok(Self::JsonLines),
            other => Err(usage(format!("`{other}` is no format that can be followed; choose csv or jsonl"))),
        }
    }

    /// By the ending of a file's name.
    pub(super) fn of_path(path: &std::path::Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let (name, coding) = match (name.strip_suffix(".gz"), name.strip_suffix(".zst")) {
            (Some(name), _) => (name.to_owned(), Some("gzip")),
            (_, Some(name)) => (name.to_owned(), Some("zstd")),
            (None, None) => (name, None),
        };
        let (_, ending) = name.rsplit_once('.')?;
        match (ending, coding) {
            ("csv", None) => Some(Self::Csv),
            ("jsonl" | "ndjson", None) => Some(Self::JsonLines),
            ("csv", coding) => Some(Self::Whole("text/csv", coding)),
            ("jsonl" | "ndjson", coding) => Some(Self::Whole("application/x-ndjson", coding)),
            ("parquet", None) => Some(Self::Whole("application/vnd.apache.parquet", None)),
            ("arrows", None) => Some(Self::Whole("application/vnd.apache.arrow.stream", None)),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv",
            Self::JsonLines => "application/x-ndjson",
            Self::Whole(kind, _) => kind,
        }
    }

    pub(super) fn coding(self) -> Option<&'static str> {
        if let Self::Whole(_, coding) = self { coding } else { None }
    }

    /// Whether rows can be cut off it while it grows.
    pub(super) fn grows(self) -> bool {
        !matches!(self, Self::Whole(..))
    }
}

/// Where the next row of a text ends, behind its line end; `None` where it does not yet. A line end inside of quotes ends
/// no row of CSV.
pub(super) fn row_end(format: Format, bytes: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    for (place, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' if format == Format::Csv => is_quoted = !is_quoted,
            b'\n' if !is_quoted => return Some(place + 1),
            _ => {}
        }
    }
    None
}

/// Whole rows of a source that are one batch.
pub(super) struct Piece {
    pub(super) format: Format,
    /// What is remembered of the source.
    pub(super) source: String,
    /// Where it begins and ends, in bytes of the source.
    pub(super) range: Range<u64>,
    /// The line of its first row.
    pub(super) line: u64,
    /// The header line of CSV.
    pub(super) header: Vec<u8>,
    /// Its bytes, all of them.
    pub(super) bytes: Vec<u8>,
    /// By what the source is known again, for its mark.
    pub(super) windows: Vec<Window>,
    body: Vec<u8>,
    /// The lines of the source that the lines of the body are, where some were left out.
    lines: Vec<u64>,
}

/// What tells bytes from others.
pub(super) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

impl Piece {
    pub(super) fn new(format: Format, source: String, from: u64, line: u64, header: Vec<u8>, bytes: Vec<u8>) -> Self {
        let range = from..from + bytes.len() as u64;
        let windows = Vec::new();
        let mut piece =
            Self { format, source, range, line, header, bytes, windows, body: Vec::new(), lines: Vec::new() };
        piece.leave_out(&[]);
        piece
    }

    /// What was to be sent, from where it was kept.
    pub(super) fn again(bytes: Vec<u8>, pending: &Pending) -> Result<Self> {
        let format = Format::of_name(&pending.format)?;
        let header = pending.header.clone().into_bytes();
        if digest(&bytes) != pending.digest {
            return Err(usage("what was to be sent is not what was kept; the folder of the memory was changed"));
        }
        Ok(Self::new(format, pending.source.clone(), pending.from, pending.line, header, bytes))
    }

    /// What is to be remembered before it is sent.
    pub(super) fn pending(&self) -> Pending {
        let format = match self.format {
            Format::Csv => "csv",
            Format::JsonLines => "jsonl",
            Format::Whole(..) => "whole",
        };
        Pending {
            source: self.source.clone(),
            from: self.range.start,
            to: self.range.end,
            line: self.line,
            digest: digest(&self.bytes),
            format: format.to_owned(),
            header: String::from_utf8_lossy(&self.header).into_owned(),
            left_out: Vec::new(),
        }
    }

    /// What is to be remembered once it was taken.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            source: self.source.clone(),
            offset: self.range.end,
            line: self.line + count_lines(&self.bytes),
            header: String::from_utf8_lossy(&self.header).into_owned(),
            windows: self.windows.clone(),
        }
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn place(&self) -> String {
        self.source.clone()
    }

    /// Makes the body again, without the rows that begin in some lines of the source.
    pub(super) fn leave_out(&mut self, lines: &[u64]) {
        let left_out: BTreeSet<u64> = lines.iter().copied().collect();
        self.body = self.header.clone();
        self.lines = vec![0; count_lines(&self.header) as usize];
        if !self.format.grows() {
            self.body.extend_from_slice(&self.bytes);
            return;
        }
        for (line, row) in rows_of(self.format, self.line, &self.bytes) {
            if left_out.contains(&line) {
                continue;
            }
            self.body.extend_from_slice(row);
            self.lines.extend(line..line + count_lines(row).max(1));
        }
    }

    /// The line of the source in which a row begins that the service has named; of a file that is sent whole its row.
    pub(super) fn line_of(&self, row: &BadRow) -> Option<u64> {
        let named = row.row?;
        if !self.format.grows() {
            return Some(named);
        }
        let line = *self.lines.get(usize::try_from(named).ok()?.checked_sub(1)?)?;
        rows_of(self.format, self.line, &self.bytes)
            .find(|(begins, text)| (*begins..begins + count_lines(text).max(1)).contains(&line))
            .map(|(begins, _)| begins)
    }

    /// The row that begins in a line of the source.
    pub(super) fn text_of(&self, line: u64) -> Option<String> {
        let mut rows = rows_of(self.format, self.line, &self.bytes);
        let row = rows.find(|(begins, _)| *begins == line && self.format.grows())?.1;
        Some(String::from_utf8_lossy(row).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// What is wrong with a row, with its place in the source.
    pub(super) fn describe(&self, row: &BadRow) -> String {
        let line = self.line_of(row).map_or(String::new(), |line| format!(", line {line}"));
        let field = row.field.as_ref().map_or(String::new(), |field| format!(", field {field}"));
        let remedy = row.remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}"));
        format!("{}{line}{field}: {}{remedy}", self.source, row.problem)
    }
}

/// The rows of some bytes, each with the line in which it begins.
fn rows_of(format: Format, line: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let (mut line, mut rest) = (line, bytes);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (row, behind) = rest.split_at(row_end(format, rest).unwrap_or(rest.len()));
        let begins = line;
        line += count_lines(row);
        rest = behind;
        Some((begins, row))
    })
}

pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
