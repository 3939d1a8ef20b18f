//! CSV with a header line (RFC 4180, `\n` or `\r\n`), without an allocation per row.
//!
//! Unlike a lenient reader, this one refuses what would silently swallow or shift data: a quote that is never closed,
//! text behind a closing quote, a row that is longer or shorter than the header.

use std::io::Read;
use std::ops::Range;

use super::header;
use super::lines::{LONGEST_RECORD, LineLen, Lines, without_end};
use super::{BATCH_ROWS, Pass, text_field};
use evertally_publish::error::{Error, InputError, Place, Result, read_error};
use evertally_publish::event::{Cells, Field};
use evertally_publish::problem::Sentence;

/// The rows of one file.
pub(super) struct CsvRows<R> {
    records: Records<R>,
    /// Where the wanted columns are.
    slots: Vec<usize>,
    /// How many columns the header has.
    width: usize,
}

impl<R: Read> CsvRows<R> {
    /// Reads the header.
    pub(super) fn open(file: &str, reader: R, delimiter: u8, wanted: &[String]) -> Result<Self> {
        let mut records = Records::new(file, reader, delimiter);
        if !records.advance()? {
            return Err(InputError::of_file(file, "the file is empty: it holds nothing but blank lines").into());
        }
        let names = records.text()?;
        let names: Vec<&str> = records.fields.iter().map(|f| &names[range(f)]).collect();
        if names.iter().any(|name| name.contains('\r')) {
            let problem = "its lines end in bare carriage returns; convert them (tr '\\r' '\\n')";
            return Err(InputError::of_file(file, problem).into());
        }
        let slots = header::locate(file, wanted, &names)?;
        let width = names.len();
        Ok(CsvRows { records, slots, width })
    }

    /// Hands on the next rows; false at the end of the file.
    pub(super) fn batch<E: From<Error>>(&mut self, pass: &mut Pass<'_, E>) -> Result<bool, E> {
        let Self { records, slots, width } = self;
        for _ in 0..BATCH_ROWS {
            if !records.advance()? {
                return Ok(false);
            }
            if records.fields.len() != *width {
                let found = records.fields.len();
                return Err(Error::from(ragged(&records.file, records.line, found, *width)).into());
            }
            let text = records.text().map_err(Error::from)?;
            let row = Row { text, fields: &records.fields, slots, missing: &pass.options.missing };
            pass.emit(&records.file, Place::Line(records.line), &row)?;
        }
        Ok(true)
    }
}

fn ragged(file: &str, line: u64, found: usize, width: usize) -> InputError {
    let plural = |n: usize| if n == 1 { "1 cell".to_string() } else { format!("{n} cells") };
    let problem = format!(
        "it has {}, but the header has {}; put quotes around cells that hold the delimiter, and complete short rows",
        plural(found),
        plural(width)
    );
    InputError::of_file(file, problem).at(Place::Line(line))
}

/// One row: ranges into its text.
struct Row<'r> {
    text: &'r str,
    fields: &'r [(u32, u32)],
    slots: &'r [usize],
    missing: &'r [String],
}

impl Cells for Row<'_> {
    #[inline]
    fn cell(&self, slot: usize) -> Field<'_> {
        text_field(&self.text[range(&self.fields[self.slots[slot]])], self.missing)
    }
}

#[inline]
fn range(field: &(u32, u32)) -> Range<usize> {
    field.0 as usize..field.1 as usize
}

/// The records of a stream, one at a time.
struct Records<R> {
    file: String,
    lines: Lines<R>,
    delimiter: u8,
    /// Where the cells of the current record are in its text.
    fields: Vec<(u32, u32)>,
    /// The text of a record with quotes, without them.
    unquoted: Vec<u8>,
    quoted: bool,
    /// Length of the current record in the window when it has no quotes.
    plain_len: usize,
    /// Bytes of the window that the current record takes.
    taken: usize,
    /// First line of the current record.
    line: u64,
    next_line: u64,
}

impl<R: Read> Records<R> {
    fn new(file: &str, reader: R, delimiter: u8) -> Self {
        Records {
            file: file.to_owned(),
            lines: Lines::new(reader),
            delimiter,
            fields: Vec::new(),
            unquoted: Vec::new(),
            quoted: false,
            plain_len: 0,
            taken: 0,
            line: 0,
            next_line: 1,
        }
    }

    /// Goes to the next record that is not blank; false at the end.
    fn advance(&mut self) -> Result<bool> {
        loop {
            self.lines.consume(std::mem::take(&mut self.taken));
            self.line = self.next_line;
            let len = match self.lines.line_len().map_err(|e| read_error(&self.file, e))? {
                LineLen::Line(0) => return Ok(false),
                LineLen::Line(len) => len,
                LineLen::TooLong => {
                    return Err(self.fault("this line is longer than 16 MiB; is this a CSV file?").into());
                }
            };
            self.fields.clear();
            let line = without_end(&self.lines.window()[..len]);
            if memchr::memchr(b'"', line).is_some() {
                self.advance_quoted()?;
                return Ok(true);
            }
            self.next_line += 1;
            self.taken = len;
            if !line.is_empty() {
                self.quoted = false;
                self.plain_len = line.len();
                split(line, self.delimiter, &mut self.fields);
                return Ok(true);
            }
        }
    }

    fn advance_quoted(&mut self) -> Result<()> {
        self.quoted = true;
        loop {
            let window = self.lines.window();
            match unquote(window, self.lines.at_eof(), self.delimiter, &mut self.unquoted, &mut self.fields) {
                Unquoted::Record(len) => {
                    self.taken = len;
                    self.next_line += memchr::memchr_iter(b'\n', &window[..len]).count() as u64;
                    return Ok(());
                }
                Unquoted::Unclosed => {
                    return Err(self
                        .fault("a quote that opens in this row is never closed; close or remove it")
                        .into());
                }
                Unquoted::Behind => {
                    let problem = "text follows a closing quote; write a quote inside a quoted cell twice";
                    return Err(self.fault(problem).into());
                }
                Unquoted::More if window.len() > LONGEST_RECORD => {
                    let problem = "a quote that opens in this row is not closed within 16 MiB; close or remove it";
                    return Err(self.fault(problem).into());
                }
                Unquoted::More => self.lines.fill().map_err(|e| read_error(&self.file, e))?,
            }
        }
    }

    /// The current record's text, in which [`fields`](Self::fields) are ranges.
    #[inline]
    fn text(&self) -> Result<&str, InputError> {
        let bytes = if self.quoted { &self.unquoted[..] } else { &self.lines.window()[..self.plain_len] };
        std::str::from_utf8(bytes)
            .map_err(|_| self.fault("this row is not UTF-8 text; convert the file (iconv -f LATIN1 -t UTF-8)"))
    }

    fn fault(&self, problem: impl Into<Sentence>) -> InputError {
        InputError::of_file(&*self.file, problem).at(Place::Line(self.line))
    }
}

/// Cuts a line without quotes at its delimiters.
#[inline]
fn split(line: &[u8], delimiter: u8, fields: &mut Vec<(u32, u32)>) {
    let mut start = 0;
    for end in memchr::memchr_iter(delimiter, line) {
        fields.push((start as u32, end as u32));
        start = end + 1;
    }
    fields.push((start as u32, line.len() as u32));
}

/// What [`unquote`] made of the bytes it has.
#[derive(Debug, PartialEq, Eq)]
enum Unquoted {
    /// A whole record of so many bytes.
    Record(usize),
    /// The record goes on behind the bytes.
    More,
    /// The stream ends inside quotes.
    Unclosed,
    /// Something other than a delimiter or a line end follows a closing quote.
    Behind,
}

/// Reads one record that may have quotes from the front of `data`.
fn unquote(data: &[u8], at_eof: bool, delimiter: u8, out: &mut Vec<u8>, fields: &mut Vec<(u32, u32)>) -> Unquoted {
    out.clear();
    fields.clear();
    let mut at = 0;
    loop {
        let start = out.len();
        let cell = if data.get(at) == Some(&b'"') {
            quoted_cell(data, at + 1, at_eof, out)
        } else {
            plain_cell(data, at, at_eof, delimiter, out)
        };
        at = match cell {
            Ok(end) => end,
            Err(stop) => return stop,
        };
        fields.push((start as u32, out.len() as u32));
        match &data[at..] {
            [] => return if at_eof { Unquoted::Record(at) } else { Unquoted::More },
            [b, ..] if *b == delimiter => at += 1,
            [b'\n', ..] => return Unquoted::Record(at + 1),
            [b'\r', b'\n', ..] => return Unquoted::Record(at + 2),
            [b'\r'] => return if at_eof { Unquoted::Record(at + 1) } else { Unquoted::More },
            _ => return Unquoted::Behind,
        }
    }
}

/// The cell behind an opening quote; the place behind its closing one.
fn quoted_cell(data: &[u8], mut at: usize, at_eof: bool, out: &mut Vec<u8>) -> Result<usize, Unquoted> {
    loop {
        let Some(i) = memchr::memchr(b'"', &data[at..]) else {
            return Err(if at_eof { Unquoted::Unclosed } else { Unquoted::More });
        };
        out.extend_from_slice(&data[at..at + i]);
        at += i + 1;
        match data.get(at) {
            Some(b'"') => {
                out.push(b'"');
                at += 1;
            }
            None if !at_eof => return Err(Unquoted::More),
            _ => return Ok(at),
        }
    }
}

/// A cell that does not begin with a quote; the place of the delimiter or line end behind it.
fn plain_cell(data: &[u8], at: usize, at_eof: bool, delimiter: u8, out: &mut Vec<u8>) -> Result<usize, Unquoted> {
    let rest = &data[at..];
    let len = match memchr::memchr2(delimiter, b'\n', rest) {
        Some(i) if rest[i] == delimiter => i,
        Some(i) => without_end(&rest[..=i]).len(),
        None if at_eof => without_end(rest).len(),
        None => return Err(Unquoted::More),
    };
    out.extend_from_slice(&rest[..len]);
    Ok(at + len)
}

#[cfg(test)]
mod tests;
