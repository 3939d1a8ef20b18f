//! The lines of a block, for formats with one row per line.

use super::blocks::{RecordBlock, without_end};
use super::encoding::not_utf8;
use super::limits::mebibytes;
use evertally_declare::error::{InputError, Place};

/// The lines of a block that are not blank, with their numbers.
pub(super) struct TextLines<'b> {
    file: &'b str,
    block: &'b RecordBlock,
    /// What one line is, for a message.
    row: &'static str,
    at: usize,
    number: u64,
}

impl<'b> TextLines<'b> {
    /// Lines of which each is a `row`, such as "object".
    pub(super) fn new(file: &'b str, block: &'b RecordBlock, row: &'static str) -> Self {
        TextLines { file, block, row, at: 0, number: block.first_line }
    }

    fn check(&self, line: &'b [u8]) -> Result<&'b str, InputError> {
        if !line.ends_with(b"\n") && !self.block.is_last {
            let longest = mebibytes(self.block.longest as u64);
            let problem = format!("this line is longer than {longest}; write one {} per line", self.row);
            return Err(InputError::in_file(self.file, problem).at(Place::Line(self.number)));
        }
        let line = without_end(line);
        std::str::from_utf8(line).map_err(|_| not_utf8(self.file, self.number, "line", line))
    }
}

impl<'b> Iterator for TextLines<'b> {
    type Item = Result<(u64, &'b str), InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = &self.block.bytes()[self.at..];
            if rest.is_empty() {
                return None;
            }
            let len = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let (line, number) = (&rest[..len], self.number);
            let found = self.check(line);
            (self.at, self.number) = (self.at + len, number + 1);
            match found {
                Ok(text) if text.trim_ascii().is_empty() => {}
                found => return Some(found.map(|text| (number, text))),
            }
        }
    }
}
