//! CSV with a header line (RFC 4180, `\n` or `\r\n`), without an allocation per row.
//!
//! Unlike a lenient reader, this one refuses input that would silently swallow or shift data: a quote that is never
//! closed, text after a closing quote, a row that is longer or shorter than the header.

use std::ops::Range;

use super::blocks::{RecordBlock, count_lines, whole_lines, without_end};
use super::header;
use super::limits::{MAX_CELL_BYTES, MOST_COLUMNS, mebibytes, refuse_long_cells};
use super::pass::{Pass, text_field};
use evertally_declare::error::{InputError, PipelineError, Place, Result};
use evertally_declare::event::{Cells, Field};
use evertally_declare::problem::Sentence;

/// The header of a file.
pub(super) struct CsvFile {
    name: String,
    delimiter: u8,
    /// The positions of the wanted columns.
    slots: Vec<usize>,
    /// The columns of the header.
    columns: Vec<String>,
}

/// Buffers for one record.
#[derive(Default)]
pub(super) struct RecordBuffers {
    /// The ranges of the record's cells in its text.
    fields: Vec<(u32, u32)>,
    /// The number of further cells that are not kept: more than any valid row has.
    beyond: usize,
    /// The unquoted text of a record with quotes.
    unquoted: Vec<u8>,
}

impl RecordBuffers {
    #[inline]
    fn clear(&mut self) {
        self.fields.clear();
        self.beyond = 0;
    }

    /// Records the range of a cell if there is room: a line can hold millions.
    #[inline]
    fn push(&mut self, start: usize, end: usize) {
        if self.fields.len() <= MOST_COLUMNS {
            self.fields.push((start as u32, end as u32));
        } else {
            self.beyond += 1;
        }
    }

    fn count(&self) -> usize {
        self.fields.len() + self.beyond
    }
}

impl CsvFile {
    /// Takes the header from the first block that has a record; `None` if this one holds only blank lines.
    pub(super) fn open(name: &str, block: &mut RecordBlock, delimiter: u8, wanted: &[String]) -> Result<Option<Self>> {
        let mut cut = RecordBuffers::default();
        let mut records = CsvRecords::new(name, block, delimiter, &mut cut);
        if !records.advance()? {
            return Ok(None);
        }
        let (text, len) = (records.text()?.to_owned(), records.at);
        block.skip(len);
        if cut.count() > MOST_COLUMNS {
            let problem = format!("its header has {} columns, but at most {MOST_COLUMNS} are allowed", cut.count());
            return Err(InputError::in_file(name, problem).into());
        }
        let names: Vec<&str> = cut.fields.iter().map(|f| &text[range(f)]).collect();
        if names.iter().any(|name| name.contains('\r')) {
            let problem = "its lines end in bare carriage returns; convert them (tr '\\r' '\\n')";
            return Err(InputError::in_file(name, problem).into());
        }
        let slots = header::locate(name, wanted, &names)?;
        Ok(Some(CsvFile {
            name: name.to_owned(),
            delimiter,
            slots,
            columns: names.into_iter().map(str::to_owned).collect(),
        }))
    }

    /// The error for a file without a header.
    pub(super) fn empty(name: &str) -> InputError {
        InputError::in_file(name, "the file is empty: it contains only blank lines")
    }

    /// The number of bytes at the front that are whole records, as [`Blocks::next`](super::blocks::BlockReader::next)
    /// expects it.
    pub(super) fn whole_records(data: &[u8], delimiter: u8) -> usize {
        let mut at = 0;
        loop {
            // A line without a quote, at the start of a record, is a record.
            let rest = &data[at..];
            let Some(quote) = memchr::memchr(b'"', rest) else { return at + whole_lines(rest) };
            at += whole_lines(&rest[..quote]);
            match unquote(&data[at..], false, delimiter, &mut ()) {
                UnquoteResult::Record(len) => at += len,
                UnquoteResult::More => return at,
                UnquoteResult::Unclosed | UnquoteResult::AfterQuote => return data.len(),
            }
        }
    }

    /// The name of the file in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The columns of the header.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Passes on the rows of a block.
    pub(super) fn visit<E: From<PipelineError>>(
        &self,
        block: &RecordBlock,
        cut: &mut RecordBuffers,
        pass: &mut Pass<'_, E>,
    ) -> Result<(), E> {
        match std::str::from_utf8(block.bytes()) {
            Ok(text) if memchr::memchr(b'"', block.bytes()).is_none() => {
                self.visit_plain(text, block.first_line, cut, pass)
            }
            _ => self.visit_each(block, cut, pass),
        }
    }

    /// Passes on the rows of a text without quotes.
    fn visit_plain<E: From<PipelineError>>(
        &self,
        text: &str,
        mut line: u64,
        cut: &mut RecordBuffers,
        pass: &mut Pass<'_, E>,
    ) -> Result<(), E> {
        let bytes = text.as_bytes();
        let (mut row_start, mut start) = (0, 0);
        cut.clear();
        let ends = memchr::memchr2_iter(self.delimiter, b'\n', bytes);
        let last = if bytes.last() == Some(&b'\n') { None } else { Some(bytes.len()) };
        for end in ends.chain(last) {
            if end < bytes.len() && bytes[end] != b'\n' {
                cut.push(start, end);
                start = end + 1;
                continue;
            }
            let row_end = row_start + without_end(&bytes[row_start..end]).len();
            if row_end > row_start {
                cut.push(start, row_end);
                self.emit(text, line, cut, pass)?;
            }
            cut.clear();
            (row_start, start, line) = (end + 1, end + 1, line + 1);
        }
        Ok(())
    }

    /// Passes on the rows of a block one by one, and reports the first broken one.
    fn visit_each<E: From<PipelineError>>(
        &self,
        block: &RecordBlock,
        cut: &mut RecordBuffers,
        pass: &mut Pass<'_, E>,
    ) -> Result<(), E> {
        let mut records = CsvRecords::new(&self.name, block, self.delimiter, cut);
        while records.advance().map_err(PipelineError::from)? {
            match records.text() {
                Ok(text) => self.emit(text, records.line, records.cut, pass)?,
                Err(fault) => pass.refuse(fault)?,
            }
        }
        Ok(())
    }

    #[inline]
    fn emit<E: From<PipelineError>>(
        &self,
        text: &str,
        line: u64,
        cut: &RecordBuffers,
        pass: &mut Pass<'_, E>,
    ) -> Result<(), E> {
        let (fields, width) = (&cut.fields[..], self.columns.len());
        if fields.len() != width {
            return pass.refuse(ragged(&self.name, line, cut.count(), width));
        }
        let row = CsvRow { text, fields, slots: &self.slots, missing: pass.missing };
        if (fields[fields.len() - 1].1 - fields[0].0) as usize > MAX_CELL_BYTES
            && let Err(fault) = refuse_long_cells(&self.name, Place::Line(line), pass.layout, &row)
        {
            return pass.refuse(fault);
        }
        pass.emit(&self.name, Place::Line(line), &row)
    }
}

fn ragged(file: &str, line: u64, found: usize, width: usize) -> InputError {
    let plural = |n: usize| if n == 1 { "1 cell".to_string() } else { format!("{n} cells") };
    let problem = format!(
        "it has {}, but the header has {}; put quotes around cells that hold the delimiter, and complete short rows",
        plural(found),
        plural(width)
    );
    InputError::in_file(file, problem).at(Place::Line(line))
}

/// One row: ranges into a text.
struct CsvRow<'r> {
    text: &'r str,
    fields: &'r [(u32, u32)],
    slots: &'r [usize],
    missing: &'r [String],
}

impl Cells for CsvRow<'_> {
    #[inline]
    fn cell(&self, slot: usize) -> Field<'_> {
        text_field(&self.text[range(&self.fields[self.slots[slot]])], self.missing)
    }
}

#[inline]
fn range(field: &(u32, u32)) -> Range<usize> {
    field.0 as usize..field.1 as usize
}

/// The records of a block, one at a time.
struct CsvRecords<'b> {
    file: &'b str,
    bytes: &'b [u8],
    is_last: bool,
    delimiter: u8,
    cut: &'b mut RecordBuffers,
    /// Start of the next record.
    at: usize,
    /// The range of the current record's text, unless it has quotes.
    plain: Option<Range<usize>>,
    /// The maximum length of a record, for messages.
    longest: String,
    /// First line of the current record, and of the next one.
    line: u64,
    next_line: u64,
}

impl<'b> CsvRecords<'b> {
    fn new(file: &'b str, block: &'b RecordBlock, delimiter: u8, cut: &'b mut RecordBuffers) -> Self {
        let (bytes, is_last, line) = (block.bytes(), block.is_last, block.first_line);
        let longest = mebibytes(block.longest as u64);
        CsvRecords { file, bytes, is_last, delimiter, cut, longest, at: 0, plain: None, line, next_line: line }
    }

    /// Moves to the next record that is not blank; false at the end.
    fn advance(&mut self) -> Result<bool, InputError> {
        loop {
            self.line = self.next_line;
            let rest = &self.bytes[self.at..];
            let len = match memchr::memchr(b'\n', rest) {
                Some(end) => end + 1,
                None if rest.is_empty() => return Ok(false),
                None if self.is_last || memchr::memchr(b'"', rest).is_some() => rest.len(),
                None => {
                    return Err(self.fault(format!("this line is longer than {}; is this a CSV file?", self.longest)));
                }
            };
            let line = without_end(&rest[..len]);
            if memchr::memchr(b'"', line).is_some() {
                return self.advance_quoted().map(|()| true);
            }
            self.next_line += 1;
            if !line.is_empty() {
                self.plain = Some(self.at..self.at + line.len());
                split(line, self.delimiter, self.cut);
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
        let problem = match unquote(rest, self.is_last, self.delimiter, self.cut) {
            UnquoteResult::Record(len) => {
                self.at += len;
                self.next_line += count_lines(&rest[..len]);
                return Ok(());
            }
            UnquoteResult::Unclosed => "a quote that opens in this row is never closed; close or remove it".to_owned(),
            UnquoteResult::AfterQuote => {
                "text follows a closing quote; write a quote inside a quoted cell twice".to_owned()
            }
            // The block would end with a whole record if this one were not too long.
            UnquoteResult::More => {
                format!("a quote that opens in this row is not closed within {}; close or remove it", self.longest)
            }
        };
        Err(self.fault(problem))
    }

    /// The current record's text, in which the fields are ranges.
    fn text(&self) -> Result<&str, InputError> {
        let bytes = self.plain.clone().map_or(&self.cut.unquoted[..], |plain| &self.bytes[plain]);
        // Without the delimiters between them, halves of a character in two cells can form one.
        let is_whole = |text: &&str| self.cut.fields.iter().all(|field| text.is_char_boundary(field.1 as usize));
        let text = std::str::from_utf8(bytes).ok().filter(|text| self.plain.is_some() || is_whole(text));
        text.ok_or_else(|| self.fault("this row is not UTF-8 text; convert the file (iconv -f LATIN1 -t UTF-8)"))
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

/// Receives the parts of a record with quotes.
trait Unquote {
    /// A part of the cell's text.
    fn text(&mut self, piece: &[u8]);
    /// The cell ends.
    fn end_cell(&mut self);
}

/// For callers that only need the end of the record.
impl Unquote for () {
    fn text(&mut self, _: &[u8]) {}
    fn end_cell(&mut self) {}
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

/// The result of [`unquote`].
#[derive(Debug, PartialEq, Eq)]
enum UnquoteResult {
    /// A whole record of this number of bytes.
    Record(usize),
    /// The record continues after the bytes.
    More,
    /// The stream ends inside quotes.
    Unclosed,
    /// Something other than a delimiter or a line end follows a closing quote.
    AfterQuote,
}

/// Reads one record that may have quotes from the front of `data`.
fn unquote(data: &[u8], at_eof: bool, delimiter: u8, out: &mut impl Unquote) -> UnquoteResult {
    let mut at = 0;
    loop {
        let cell = if data.get(at) == Some(&b'"') {
            quoted_cell(data, at + 1, at_eof, out)
        } else {
            plain_cell(data, at, at_eof, delimiter, out)
        };
        at = match cell {
            Ok(end) => end,
            Err(stop) => return stop,
        };
        out.end_cell();
        match &data[at..] {
            [] => return if at_eof { UnquoteResult::Record(at) } else { UnquoteResult::More },
            [b, ..] if *b == delimiter => at += 1,
            [b'\n', ..] => return UnquoteResult::Record(at + 1),
            [b'\r', b'\n', ..] => return UnquoteResult::Record(at + 2),
            [b'\r'] => return if at_eof { UnquoteResult::Record(at + 1) } else { UnquoteResult::More },
            _ => return UnquoteResult::AfterQuote,
        }
    }
}

/// Reads the cell after an opening quote; returns the position after its closing quote.
fn quoted_cell(data: &[u8], mut at: usize, at_eof: bool, out: &mut impl Unquote) -> Result<usize, UnquoteResult> {
    loop {
        let Some(i) = memchr::memchr(b'"', &data[at..]) else {
            return Err(if at_eof { UnquoteResult::Unclosed } else { UnquoteResult::More });
        };
        out.text(&data[at..at + i]);
        at += i + 1;
        match data.get(at) {
            Some(b'"') => {
                out.text(b"\"");
                at += 1;
            }
            None if !at_eof => return Err(UnquoteResult::More),
            _ => return Ok(at),
        }
    }
}

/// Reads a cell that does not begin with a quote; returns the position of the delimiter or line end after it.
fn plain_cell(
    data: &[u8],
    at: usize,
    at_eof: bool,
    delimiter: u8,
    out: &mut impl Unquote,
) -> Result<usize, UnquoteResult> {
    let rest = &data[at..];
    let len = match memchr::memchr2(delimiter, b'\n', rest) {
        Some(i) if rest[i] == delimiter => i,
        Some(i) => without_end(&rest[..=i]).len(),
        None if at_eof => without_end(rest).len(),
        None => return Err(UnquoteResult::More),
    };
    out.text(&rest[..len]);
    Ok(at + len)
}

#[cfg(test)]
mod tests;
