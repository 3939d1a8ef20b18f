//! How a run reads its event files.

use crate::failure::usage;
use anyhow::Result;
use evertally_declare::declaration::{Delimiter, Files, Parameter, Quote};
use evertally_declare::problem::sentence;
use evertally_declare::words::quoted;
use evertally_tables::input::{CsvOptions, DEFAULT_MEMORY, ReadOptions, TextEncoding};
use std::num::NonZero;

/// More than any machine can use.
const MAX_THREADS: u64 = 1024;

/// In MiB. With less, not even common files can be read.
const MIN_MEMORY_MIB: u64 = 16;

/// The options of reading among those of the files.
pub(super) fn reading(named: &Files, missing_text: Vec<String>) -> Result<ReadOptions> {
    let quote = named.quote.map_or(Some('"'), |Quote(quote)| quote);
    Ok(ReadOptions {
        format: named.input_format.map(|format| format.0),
        csv: CsvOptions {
            delimiter: named.delimiter.map(|delimiter| separator(delimiter, quote)).transpose()?,
            quote: quote.map(|quote| quote as u8), // fits: one of two ASCII characters
            skip_lines: named.skip_lines.unwrap_or(0),
            comment: named.comment.clone().map(|comment| checked_comment(comment, quote)).transpose()?,
            columns: named.columns.clone().map(checked_columns).transpose()?,
        },
        json_records: named.json_records.clone(),
        sheet: named.sheet.clone(),
        encoding: named.encoding.as_deref().map(encoding).transpose()?,
        missing: missing_text,
        threads: threads(named.threads)?,
        memory: memory(named.read_memory)?,
        ..ReadOptions::default()
    })
}

fn threads(given: Option<u64>) -> Result<Option<NonZero<usize>>> {
    let fits = |threads: u64| Some(threads as usize).filter(|_| threads <= MAX_THREADS).and_then(NonZero::new);
    given.map_or(Ok(None), |threads| {
        let problem = format!(" {threads} is not a number of threads from 1 to {MAX_THREADS}");
        fits(threads).map(Some).ok_or_else(|| usage(sentence![Parameter::Threads, problem]))
    })
}

/// Bytes of memory for reading.
fn memory(given: Option<u64>) -> Result<u64> {
    let Some(mebibytes) = given else { return Ok(DEFAULT_MEMORY) };
    let bytes = mebibytes.checked_mul(1 << 20).filter(|_| mebibytes >= MIN_MEMORY_MIB);
    let problem = format!(" {mebibytes} is not a valid number of MiB; give at least {MIN_MEMORY_MIB}");
    bytes.ok_or_else(|| usage(sentence![Parameter::ReadMemory, problem]))
}

fn separator(Delimiter(c): Delimiter, quote: Option<char>) -> Result<u8> {
    if c.is_ascii() && c != '\n' && c != '\r' && Some(c) != quote {
        return Ok(c as u8);
    }
    let problem = format!(" {} is not an ASCII character that can separate cells", quoted(&c.to_string()));
    Err(usage(sentence![Parameter::Delimiter, problem]))
}

fn checked_comment(text: String, quote: Option<char>) -> Result<String> {
    let is_forbidden = |c: char| c == '\n' || c == '\r' || Some(c) == quote;
    if text.is_empty() || text.contains(is_forbidden) {
        let problem = format!(" {} cannot begin a comment line: give a text without quotes", quoted(&text));
        return Err(usage(sentence![Parameter::Comment, problem]));
    }
    Ok(text)
}

fn checked_columns(names: Vec<String>) -> Result<Vec<String>> {
    match names.iter().all(String::is_empty) {
        true => Err(usage(sentence![Parameter::Columns, " names no column: give the names in the order of the cells"])),
        false => Ok(names),
    }
}

fn encoding(label: &str) -> Result<TextEncoding> {
    TextEncoding::from_label(label).ok_or_else(|| {
        let problem = format!(
            " {} is not the label of an encoding: use one of https://encoding.spec.whatwg.org/#names-and-labels, such \
             as windows-1252, utf-16le or shift_jis",
            quoted(label)
        );
        usage(sentence![Parameter::Encoding, problem])
    })
}
