//! The characters that structure a CSV text, and the ends of its records.

use crate::input::blocks::{whole_lines, without_end};

/// The characters that structure a CSV text.
#[derive(Clone, Debug)]
pub(in crate::input) struct Dialect {
    pub(super) delimiter: u8,
    /// `None` if quotes are ordinary characters.
    pub(super) quote: Option<u8>,
    /// The beginning of lines that are not records.
    pub(super) comment: Option<Vec<u8>>,
}

impl Dialect {
    /// The position of the first quote.
    #[inline]
    pub(super) fn find_quote(&self, bytes: &[u8]) -> Option<usize> {
        self.quote.and_then(|quote| memchr::memchr(quote, bytes))
    }

    /// Whether a line at the start of a record is a comment.
    #[inline]
    pub(super) fn is_comment(&self, line: &[u8]) -> bool {
        self.comment.as_ref().is_some_and(|comment| line.starts_with(comment))
    }

    /// Whether every line of a text is a record without quotes, or blank.
    pub(super) fn is_plain(&self, bytes: &[u8]) -> bool {
        let has_comment = |comment: &Vec<u8>| memchr::memmem::find(bytes, comment).is_some();
        self.find_quote(bytes).is_none() && !self.comment.as_ref().is_some_and(has_comment)
    }

    /// The number of bytes at the front that are whole records, as
    /// [`BlockReader::next`](crate::input::blocks::BlockReader::next) expects it.
    pub(in crate::input) fn whole_records(&self, data: &[u8]) -> usize {
        let mut at = 0;
        loop {
            // A line without a quote, at the start of a record, is a record.
            let rest = &data[at..];
            let Some(quote) = self.find_quote(rest) else { return at + whole_lines(rest) };
            at += whole_lines(&rest[..quote]);
            if self.is_comment(&data[at..]) {
                let Some(end) = memchr::memchr(b'\n', &data[at..]) else { return at };
                at += end + 1;
                continue;
            }
            match self.unquote(&data[at..], false, &mut ()) {
                UnquoteResult::Record(len) => at += len,
                UnquoteResult::More => return at,
                UnquoteResult::Unclosed | UnquoteResult::AfterQuote => return data.len(),
            }
        }
    }

    /// Reads one record that may have quotes from the front of `data`.
    pub(super) fn unquote(&self, data: &[u8], at_eof: bool, out: &mut impl Unquote) -> UnquoteResult {
        let mut at = 0;
        loop {
            let cell = match data.get(at) {
                Some(byte) if self.quote == Some(*byte) => quoted_cell(data, at + 1, at_eof, *byte, out),
                _ => plain_cell(data, at, at_eof, self.delimiter, out),
            };
            at = match cell {
                Ok(end) => end,
                Err(stop) => return stop,
            };
            out.end_cell();
            match &data[at..] {
                [] => return if at_eof { UnquoteResult::Record(at) } else { UnquoteResult::More },
                [b, ..] if *b == self.delimiter => at += 1,
                [b'\n', ..] => return UnquoteResult::Record(at + 1),
                [b'\r', b'\n', ..] => return UnquoteResult::Record(at + 2),
                [b'\r'] => return if at_eof { UnquoteResult::Record(at + 1) } else { UnquoteResult::More },
                _ => return UnquoteResult::AfterQuote,
            }
        }
    }
}

/// Receives the parts of a record with quotes.
pub(super) trait Unquote {
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

/// The result of [`Dialect::unquote`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum UnquoteResult {
    /// A whole record of this number of bytes.
    Record(usize),
    /// The record continues after the bytes.
    More,
    /// The stream ends inside quotes.
    Unclosed,
    /// Something other than a delimiter or a line end follows a closing quote.
    AfterQuote,
}

/// Reads the cell after an opening quote; returns the position after its closing quote.
fn quoted_cell(
    data: &[u8],
    mut at: usize,
    at_eof: bool,
    quote: u8,
    out: &mut impl Unquote,
) -> Result<usize, UnquoteResult> {
    loop {
        let Some(i) = memchr::memchr(quote, &data[at..]) else {
            return Err(if at_eof { UnquoteResult::Unclosed } else { UnquoteResult::More });
        };
        out.text(&data[at..at + i]);
        at += i + 1;
        match data.get(at) {
            Some(next) if *next == quote => {
                out.text(&[quote]);
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
