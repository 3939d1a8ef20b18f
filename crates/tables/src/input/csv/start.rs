//! The beginning of a CSV file: the lines before its header, and the dialect of the rest.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use super::dialect::Dialect;
use crate::input::encoding::text_error;
use crate::input::options::CsvOptions;
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{InputError, Place, Result};
use evertally_declare::problem::sentence;
use evertally_declare::words::quoted;

/// More than a line `sep=;` has.
const SEPARATOR_BYTES: u64 = 16;

/// Small, so that later reads bypass the buffer.
const BUFFER: usize = 4096;

/// A CSV file after the lines before its header.
pub(in crate::input) struct CsvStart<'o> {
    pub(in crate::input) dialect: Dialect,
    /// The number of lines before the header.
    pub(in crate::input) lines: u64,
    /// The rest.
    pub(in crate::input) reader: Box<dyn Read + Send + 'o>,
}

impl<'o> CsvStart<'o> {
    /// Reads the lines before the header. The first line of the file may be `sep=;`, which Excel writes and reads: it
    /// declares the delimiter, is never data, and counts as one of the lines to skip.
    pub(in crate::input) fn read(
        name: &str,
        reader: Box<dyn Read + Send + 'o>,
        options: &CsvOptions,
    ) -> Result<CsvStart<'o>> {
        let failed = |error: io::Error| text_error(name, error);
        let mut reader = BufReader::with_capacity(BUFFER, reader);
        let mut first = Vec::new();
        reader.by_ref().take(SEPARATOR_BYTES).read_until(b'\n', &mut first).map_err(failed)?;
        let separator = separator(&first);
        let delimiter = match (options.delimiter, separator) {
            (Some(declared), Some(found)) if declared != found => return Err(contradiction(name, &first).into()),
            (declared, found) => declared.or(found).unwrap_or(b','),
        };
        let mut reader = Cursor::new(first).chain(reader);
        let lines = options.skip_lines.max(separator.map_or(0, |_| 1));
        for skipped in 0..lines {
            if reader.skip_until(b'\n').map_err(failed)? == 0 {
                let many = if skipped == 1 { "1 line".to_owned() } else { format!("{skipped} lines") };
                let skip = (Parameter::SkipLines, options.skip_lines.to_string());
                let problem = sentence![format!("it has only {many}, but "), skip, " was declared"];
                return Err(InputError::in_file(name, problem).remedy("give fewer lines, or check the file").into());
            }
        }
        let comment = options.comment.as_ref().map(|comment| comment.as_bytes().to_vec());
        let dialect = Dialect { delimiter, quote: options.quote, comment };
        Ok(CsvStart { dialect, lines, reader: Box::new(reader) })
    }
}

/// The delimiter that a first line `sep=;` declares.
fn separator(line: &[u8]) -> Option<u8> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let (word, value) = line.split_at_checked(b"sep=".len())?;
    match value {
        [one] if word.eq_ignore_ascii_case(b"sep=") && is_delimiter(*one) => Some(*one),
        _ => None,
    }
}

fn is_delimiter(byte: u8) -> bool {
    byte == b'\t' || byte == b' ' || (byte.is_ascii_punctuation() && byte != b'"')
}

fn contradiction(name: &str, line: &[u8]) -> InputError {
    let line = quoted(String::from_utf8_lossy(line).trim_end());
    let problem = sentence![format!("the line {line} contradicts "), Parameter::Delimiter];
    let remedy = sentence!["omit ", Parameter::Delimiter, ", or correct the line"];
    InputError::in_file(name, problem).at(Place::Line(1)).remedy(remedy)
}
