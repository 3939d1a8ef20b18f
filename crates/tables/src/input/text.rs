//! Text inputs: their encoding and their format.

use std::io::{self, Cursor, Read};

use super::encoding::{self, DecodedText, text_error};
use super::opened::{Bytes, DETECTION_BYTES, Opened, read_head, recognise, refuse_unreadable};
use super::options::ReadOptions;
use super::{binary, json, log};
use evertally_declare::declaration::Parameter::InputFormat;
use evertally_declare::error::{InputError, Result, Unreadable, read_error};
use evertally_declare::format::Format;
use evertally_declare::problem::{SentencePart, sentence};

/// A head that is shorter by more than a byte order mark, or a part of a character, is the whole file.
const ENCODING_SLACK: usize = 4;

/// Opens a text in any encoding, and finds its format.
pub(super) fn open<'o>(
    name: &str,
    head: &[u8],
    mut reader: Box<dyn Read + Send + 'o>,
    options: &ReadOptions,
) -> Result<Opened<'o>> {
    if let Some(declared) = options.format.filter(|format| !format.has_lines() && !head.is_empty()) {
        let problem = format!("this is not in the format {declared} (it begins otherwise)");
        return Err(InputError::in_file(name, problem).remedy(recognise()).as_unreadable(Unreadable::Damaged).into());
    }
    refuse_unreadable(name, head)?;
    let found = encoding::find(name, head, options.encoding)?;
    io::copy(&mut reader.by_ref().take(found.mark as u64), &mut io::sink()).map_err(|e| read_error(name, e))?;
    let text = &head[found.mark..];
    let (text, reader) = match found.encoding {
        None => {
            refuse_binary(name, text)?;
            (text.to_vec(), reader)
        }
        Some(encoding) => {
            let mut reader = DecodedText::new(reader, encoding);
            let text = read_head(&mut reader).map_err(|e| text_error(name, e))?;
            (text.clone(), Box::new(Cursor::new(text).chain(reader)) as Box<dyn Read + Send + 'o>)
        }
    };
    let format = format_of_text(name, &text, options)?;
    match format.has_lines() {
        true => Ok(Opened::new(format, Bytes::Reader(reader))),
        false => Err(InputError::in_file(name, "the file is empty").into()),
    }
}

/// The declared format of a text, or the one its first lines show. Texts that cannot be events in it are refused.
fn format_of_text(name: &str, head: &[u8], options: &ReadOptions) -> Result<Format, InputError> {
    // Lines to skip say nothing about the format, and may have no end in the head.
    let Some(text) = after_lines(head, options.csv.skip_lines) else {
        return Ok(options.format.unwrap_or(Format::Csv));
    };
    let is_whole = head.len() < DETECTION_BYTES - ENCODING_SLACK;
    if is_whole && text.trim_ascii_start().is_empty() {
        // A file without a row is that of a quiet day, if it is declared to have no header: otherwise it may be one
        // that failed to be written.
        let has_no_header = options.csv.columns.is_some() || options.format.is_some_and(|format| format != Format::Csv);
        let problem = match text {
            _ if has_no_header => return Ok(options.format.unwrap_or(Format::Csv)),
            [] => "the file is empty: it has no header line",
            _ => "the file is empty: it contains only blank lines",
        };
        let declare =
            sentence!["if it may be empty, declare a format without a header, such as ", (InputFormat, "jsonl")];
        let remedy = SentencePart::Where(InputFormat, declare, "begin with a header line".into());
        return Err(InputError::in_file(name, problem).remedy(remedy));
    }
    if is_other_array(text) {
        let problem = "this is a JSON array whose first element is not an object; write each event as an object";
        return Err(InputError::in_file(name, problem));
    }
    if let Some(declared) = options.format {
        return Ok(declared);
    }
    let format = text_format(text);
    match log_format(text).filter(|_| format == Format::Csv && options.csv.columns.is_none()) {
        None => Ok(format),
        Some(log) => {
            let problem = format!("this is an access log of a web server, in the format {}", log.word());
            Err(InputError::in_file(name, problem).remedy(log::declare(log)))
        }
    }
}

/// The text after a number of lines; `None` if they do not end in it.
fn after_lines(text: &[u8], lines: u64) -> Option<&[u8]> {
    let mut rest = text;
    for _ in 0..lines {
        rest = &rest[memchr::memchr(b'\n', rest)? + 1..];
    }
    Some(rest)
}

/// Whether a text begins as an array of arrays or strings does. Lines of logs may begin with a bracket, too.
fn is_other_array(text: &[u8]) -> bool {
    let inner = text.trim_ascii_start().strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    inner.is_some_and(|inner| matches!(inner.first(), None | Some(b'[' | b'"')))
}

/// The format of a log whose first line is complete.
fn log_format(text: &[u8]) -> Option<Format> {
    let text = text.trim_ascii_start();
    let line = &text[..memchr::memchr(b'\n', text).unwrap_or(text.len())];
    log::format_of(std::str::from_utf8(line).ok()?.trim_ascii_end())
}

/// Refuses bytes that are not text in UTF-8 or a similar encoding.
fn refuse_binary(name: &str, head: &[u8]) -> Result<(), InputError> {
    binary::problem(head).map_or(Ok(()), |problem| Err(InputError::in_file(name, problem)))
}

/// The format of a text, by its first bytes that are not white space.
fn text_format(head: &[u8]) -> Format {
    if json::begins_array(head) {
        return Format::JsonLines;
    }
    let text = head.trim_ascii_start();
    let begins = |format: &Format| format.signatures().iter().any(|signature| text.starts_with(signature));
    Format::ALL.into_iter().filter(|format| format.has_lines()).find(begins).unwrap_or(Format::Csv)
}
