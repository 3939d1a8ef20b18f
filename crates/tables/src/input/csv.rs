//! CSV (RFC 4180, `\n` or `\r\n`), without an allocation per row.
//!
//! Unlike a lenient reader, this one refuses input that would silently swallow or shift data: a quote that is never
//! closed, text after a closing quote, a row that is longer or shorter than the header.

mod dialect;
mod records;
mod start;

use std::ops::Range;

use super::blocks::{RecordBlock, without_end};
use super::header;
use super::limits::{MAX_CELL_BYTES, MOST_COLUMNS, refuse_long_cells};
use super::pass::{Pass, text_field};
pub(super) use dialect::Dialect;
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{InputError, Place, Result};
use evertally_declare::event::{Cells, Field, WholeRow};
use evertally_declare::problem::{Sentence, SentencePart, sentence};
use records::CsvRecords;
pub(super) use records::RecordBuffers;
pub(super) use start::CsvStart;

/// A file whose columns are known.
pub(super) struct CsvFile {
    name: String,
    dialect: Dialect,
    /// The names of all columns.
    columns: Vec<String>,
    /// The positions of the wanted columns.
    slots: Vec<usize>,
    /// Whether the names of the columns are declared, because the file has no header.
    is_headless: bool,
}

impl CsvFile {
    /// Takes the header from the first block that has a record; `None` if this one holds only blank lines and comments.
    pub(super) fn open(
        name: &str,
        block: &mut RecordBlock,
        dialect: &Dialect,
        wanted: &[String],
    ) -> Result<Option<Self>> {
        let mut cut = RecordBuffers::default();
        let mut records = CsvRecords::new(name, block, dialect, &mut cut);
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
        refuse_carriage_returns(name, &text)?;
        let file = Self::new(name, dialect, &names, wanted).map_err(|error| match header_hint(&names) {
            Some(hint) if error.remedies().is_none() => error.remedy(hint),
            _ => error,
        });
        Ok(Some(file?))
    }

    /// The same for a file without a header, with declared names. Its first record must not be these names.
    pub(super) fn open_headless(
        name: &str,
        block: &RecordBlock,
        dialect: &Dialect,
        names: &[String],
        wanted: &[String],
    ) -> Result<Option<Self>> {
        let mut cut = RecordBuffers::default();
        let mut records = CsvRecords::new(name, block, dialect, &mut cut);
        if !records.advance()? {
            return Ok(None);
        }
        let (text, line, is_plain) = (records.text()?.to_owned(), records.line, records.is_plain());
        if is_plain {
            refuse_carriage_returns(name, &text)?;
        }
        if cut.fields.iter().map(|f| &text[range(f)]).eq(names.iter().map(String::as_str)) {
            let problem = sentence!["this row is a header with the same names as ", Parameter::Columns];
            let error = InputError::in_file(name, problem).at(Place::Line(line));
            return Err(error.remedy(sentence!["omit ", Parameter::Columns]).into());
        }
        Self::headless(name, dialect, names, wanted).map(Some)
    }

    /// A file without a header, with declared names.
    pub(super) fn headless(name: &str, dialect: &Dialect, names: &[String], wanted: &[String]) -> Result<Self> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(CsvFile { is_headless: true, ..Self::new(name, dialect, &names, wanted)? })
    }

    fn new(name: &str, dialect: &Dialect, names: &[&str], wanted: &[String]) -> Result<Self, InputError> {
        let slots = header::locate(name, wanted, names)?;
        let columns = names.iter().map(|name| (*name).to_owned()).collect();
        Ok(CsvFile { name: name.to_owned(), dialect: dialect.clone(), columns, slots, is_headless: false })
    }

    /// The error for a file without a header.
    pub(super) fn empty(name: &str) -> InputError {
        InputError::in_file(name, "the file is empty: it contains only blank lines")
    }

    /// The number of bytes at the front that are whole records, as [`Blocks::next`](super::blocks::BlockReader::next)
    /// expects it.
    pub(super) fn whole_records(&self, data: &[u8]) -> usize {
        self.dialect.whole_records(data)
    }

    /// The name of the file in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The names of all columns.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Passes on the rows of a block.
    pub(super) fn visit(&self, block: &RecordBlock, cut: &mut RecordBuffers, pass: &mut Pass<'_>) -> Result<()> {
        match std::str::from_utf8(block.bytes()) {
            Ok(text) if self.dialect.is_plain(block.bytes()) => self.visit_plain(text, block.first_line, cut, pass),
            _ => self.visit_each(block, cut, pass),
        }
    }

    /// Passes on the rows of a text without quotes.
    fn visit_plain(&self, text: &str, mut line: u64, cut: &mut RecordBuffers, pass: &mut Pass<'_>) -> Result<()> {
        let bytes = text.as_bytes();
        let (mut row_start, mut start) = (0, 0);
        cut.clear();
        let ends = memchr::memchr2_iter(self.dialect.delimiter, b'\n', bytes);
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
    fn visit_each(&self, block: &RecordBlock, cut: &mut RecordBuffers, pass: &mut Pass<'_>) -> Result<()> {
        let mut records = CsvRecords::new(&self.name, block, &self.dialect, cut);
        while records.advance()? {
            let text = records.text()?;
            self.emit(text, records.line, records.cut, pass)?;
        }
        Ok(())
    }

    #[inline]
    fn emit(&self, text: &str, line: u64, cut: &RecordBuffers, pass: &mut Pass<'_>) -> Result<()> {
        let fields = &cut.fields[..];
        let row = CsvRow { file: self, text, fields, missing: pass.missing };
        if fields.len() != self.columns.len() {
            return pass.refuse(self.ragged(line, cut.count()), || row.record());
        }
        if (fields[fields.len() - 1].1 - fields[0].0) as usize > MAX_CELL_BYTES {
            refuse_long_cells(&self.name, Place::Line(line), pass.layout, &row)?;
        }
        pass.emit(&self.name, Place::Line(line), &row)
    }

    /// The error for a row of another width.
    #[cold]
    fn ragged(&self, line: u64, found: usize) -> InputError {
        let plural = |n: usize| if n == 1 { "1 cell".to_string() } else { format!("{n} cells") };
        let (found, width) = (plural(found), self.columns.len());
        let problem = match self.is_headless {
            true => sentence![format!("it has {found}, but "), Parameter::Columns, format!(" has {width} names")],
            false => format!("it has {found}, but the header has {}", plural(width)).into(),
        };
        let remedy = match self.dialect.quote {
            Some(_) => "put quotes around cells that hold the delimiter, and complete short rows",
            None => "remove the delimiter from cells that hold it, and complete short rows",
        };
        InputError::in_file(&*self.name, problem).at(Place::Line(line)).remedy(remedy)
    }
}

/// Refuses lines that only a carriage return ends: all of them would be one record.
fn refuse_carriage_returns(name: &str, record: &str) -> Result<(), InputError> {
    match record.contains('\r') {
        true => Err(InputError::in_file(name, "its lines end in bare carriage returns; convert them (tr '\\r' '\\n')")),
        false => Ok(()),
    }
}

/// The likely remedy if the first record does not have the columns.
fn header_hint(names: &[&str]) -> Option<Sentence> {
    let first = names.first()?.trim_start();
    let begins = |name: &&str| name.starts_with(|c: char| c.is_ascii_digit() || c == '[');
    let (declare, change) = if first.starts_with('#') {
        let comment = (Parameter::Comment, "'#'");
        (sentence!["if lines that begin with # are comments, declare ", comment], "remove the lines before the header")
    } else if names.iter().any(begins) {
        let columns = SentencePart::Example(Parameter::Columns);
        (
            sentence!["if the file has no header line, name its columns with ", columns, ", separated by commas"],
            "begin with a header line that names the columns",
        )
    } else if names.len() == 1 || names.iter().skip(1).all(|name| name.is_empty()) {
        let skip = SentencePart::Example(Parameter::SkipLines);
        (sentence!["if other lines precede the header, skip them with ", skip], "remove the lines before the header")
    } else {
        return None;
    };
    Some(SentencePart::Where(Parameter::Columns, declare, change.into()).into())
}

/// One row: ranges into a text.
struct CsvRow<'r> {
    file: &'r CsvFile,
    text: &'r str,
    fields: &'r [(u32, u32)],
    missing: &'r [String],
}

impl CsvRow<'_> {
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| &self.text[range(field)])
    }

    /// The record, with quotes where they are needed.
    fn record(&self) -> String {
        let Dialect { delimiter, quote, .. } = self.file.dialect;
        let needs_quotes = |text: &str| text.bytes().any(|byte| byte == delimiter || b"\r\n".contains(&byte));
        let mut record = String::new();
        for (place, text) in self.texts().enumerate() {
            if place > 0 {
                record.push(char::from(delimiter));
            }
            match quote.map(char::from) {
                Some(quote) if text.contains(quote) || needs_quotes(text) => {
                    record.push(quote);
                    record.push_str(&text.replace(quote, &format!("{quote}{quote}")));
                    record.push(quote);
                }
                _ => record.push_str(text),
            }
        }
        record
    }
}

impl Cells for CsvRow<'_> {
    #[inline]
    fn cell(&self, slot: usize) -> Field<'_> {
        text_field(&self.text[range(&self.fields[self.file.slots[slot]])], self.missing)
    }

    fn whole(&self) -> WholeRow {
        let cells = self.file.columns.iter().cloned().zip(self.texts().map(str::to_owned)).collect();
        WholeRow { cells, text: self.record() }
    }
}

#[inline]
fn range(field: &(u32, u32)) -> Range<usize> {
    field.0 as usize..field.1 as usize
}

#[cfg(test)]
mod tests;
