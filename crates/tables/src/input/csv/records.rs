//! The records of a block, one at a time.

use std::ops::Range;

use super::dialect::{Dialect, Unquote, UnquoteResult};
use crate::input::blocks::{RecordBlock, count_lines, without_end};
use crate::input::encoding::not_utf8;
use crate::input::limits::{MOST_COLUMNS, mebibytes};
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{InputError, Place};
use evertally_declare::problem::{Sentence, SentencePart, sentence};

/// The remedy for a quote that is not closed.
const CLOSE_IT: &str = "close or remove it";

/// Buffers for one record.
#[derive(Default)]
pub(in crate::input) struct RecordBuffers {
    /// The ranges of the record's cells in its text.
    pub(super) fields: Vec<(u32, u32)>,
    /// The number of further cells that are not kept: more than any valid row has.
    beyond: usize,
    /// The unquoted text of a record with quotes.
    unquoted: Vec<u8>,
}

impl RecordBuffers {
    #[inline]
    pub(super) fn clear(&mut self) {
        self.fields.clear();
        self.beyond = 0;
    }

    /// Records the range of a cell if there is room: a line can hold millions.
    #[inline]
    pub(super) fn push(&mut self, start: usize, end: usize) {
        if self.fields.len() <= MOST_COLUMNS {
            self.fields.push((start as u32, end as u32));
        } else {
            self.beyond += 1;
        }
    }

    pub(super) fn count(&self) -> usize {
        self.fields.len() + self.beyond
    }
}

impl Unquote for RecordBuffers {
    fn text(&mut self, piece: &[u8]) {
        self.unquoted.extend_from_slice(piece);
    }

    fn end_cell(&mut self) {
        let start = self.fields.last().map_or(0, |field| field.1 as usize);
        self.push(start, self.unquoted.len());
    }
}

/// The records of a block, one at a time.
pub(super) struct CsvRecords<'b> {
    file: &'b str,
    bytes: &'b [u8],
    is_last: bool,
    dialect: &'b Dialect,
    pub(super) cut: &'b mut RecordBuffers,
    /// Start of the next record.
    pub(super) at: usize,
    /// The range of the current record's text, unless it has quotes.
    plain: Option<Range<usize>>,
    /// The maximum length of a record, for messages.
    longest: String,
    /// First line of the current record, and of the next one.
    pub(super) line: u64,
    next_line: u64,
}

impl<'b> CsvRecords<'b> {
    pub(super) fn new(file: &'b str, block: &'b RecordBlock, dialect: &'b Dialect, cut: &'b mut RecordBuffers) -> Self {
        let (bytes, is_last, line) = (block.bytes(), block.is_last, block.first_line);
        let longest = mebibytes(block.longest as u64);
        CsvRecords { file, bytes, is_last, dialect, cut, longest, at: 0, plain: None, line, next_line: line }
    }

    /// Moves to the next record that is not blank; false at the end.
    pub(super) fn advance(&mut self) -> Result<bool, InputError> {
        loop {
            self.line = self.next_line;
            let rest = &self.bytes[self.at..];
            let len = match memchr::memchr(b'\n', rest) {
                Some(end) => end + 1,
                None if rest.is_empty() => return Ok(false),
                None if self.is_last => rest.len(),
                None if !self.dialect.is_comment(rest) && self.dialect.find_quote(rest).is_some() => rest.len(),
                None => {
                    return Err(self.fault(format!("this line is longer than {}; is this a CSV file?", self.longest)));
                }
            };
            let line = without_end(&rest[..len]);
            if self.dialect.is_comment(line) {
                (self.at, self.next_line) = (self.at + len, self.next_line + 1);
                continue;
            }
            if self.dialect.find_quote(line).is_some() {
                return self.advance_quoted().map(|()| true);
            }
            self.next_line += 1;
            if !line.is_empty() {
                self.plain = Some(self.at..self.at + line.len());
                split(line, self.dialect.delimiter, self.cut);
            }
            self.at += len;
            if !line.is_empty() {
                return Ok(true);
            }
        }
    }

    fn advance_quoted(&mut self) -> Result<(), InputError> {
        self.plain = None;
        let rest = &self.bytes[self.at..];
        self.cut.unquoted.clear();
        self.cut.clear();
        let (problem, remedy) = match self.dialect.unquote(rest, self.is_last, self.cut) {
            UnquoteResult::Record(len) => {
                self.at += len;
                self.next_line += count_lines(&rest[..len]);
                return Ok(());
            }
            UnquoteResult::Unclosed => ("a quote that opens in this row is never closed".to_owned(), CLOSE_IT),
            UnquoteResult::AfterQuote => {
                ("text follows a closing quote".to_owned(), "write a quote inside a quoted cell twice")
            }
            // The block would end with a whole record if this one were not too long.
            UnquoteResult::More => {
                (format!("a quote that opens in this row is not closed within {}", self.longest), CLOSE_IT)
            }
        };
        let ordinary =
            sentence![remedy, ", or, if quotes are ordinary characters, declare ", (Parameter::Quote, "none")];
        Err(self.fault(problem).remedy(SentencePart::Where(Parameter::Quote, ordinary, remedy.into())))
    }

    /// The current record's text, in which the fields are ranges.
    pub(super) fn text(&self) -> Result<&str, InputError> {
        let bytes = self.plain.clone().map_or(&self.cut.unquoted[..], |plain| &self.bytes[plain]);
        // Without the delimiters between them, halves of a character in two cells can form one.
        let is_whole = |text: &&str| self.cut.fields.iter().all(|field| text.is_char_boundary(field.1 as usize));
        let text = std::str::from_utf8(bytes).ok().filter(|text| self.plain.is_some() || is_whole(text));
        text.ok_or_else(|| not_utf8(self.file, self.line, "row", bytes))
    }

    /// Whether the current record has no quotes.
    pub(super) fn is_plain(&self) -> bool {
        self.plain.is_some()
    }

    fn fault(&self, problem: impl Into<Sentence>) -> InputError {
        InputError::in_file(self.file, problem).at(Place::Line(self.line))
    }
}

/// Splits a line without quotes at its delimiters.
#[inline]
fn split(line: &[u8], delimiter: u8, cut: &mut RecordBuffers) {
    cut.clear();
    let mut start = 0;
    for end in memchr::memchr_iter(delimiter, line) {
        cut.push(start, end);
        start = end + 1;
    }
    cut.push(start, line.len());
}
