//! How to read the files.

use std::num::NonZero;

use super::encoding::TextEncoding;
use super::limits::DEFAULT_MEMORY;
use evertally_declare::declaration::Parameter;
use evertally_declare::error::InputError;
use evertally_declare::format::Format;
use evertally_declare::problem::sentence;

/// The maximum number of threads by default: the single thread that reads and consumes cannot keep more busy.
const MOST_BY_ITSELF: usize = 16;

/// Bytes requested at once, and so the usual size of a block.
const BLOCK_BYTES: usize = 128 * 1024;

/// How to read the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// The format of every file; detected from its first bytes if `None`.
    pub format: Option<Format>,
    /// The layout of CSV files. Lines before the header, and names of columns, apply to workbooks, too.
    pub csv: CsvOptions,
    /// The path of keys to the array with the objects of a JSON text, if it is inside of another object.
    pub json_records: Option<String>,
    /// The sheet of workbooks. If `None`, the only visible one that has cells.
    pub sheet: Option<String>,
    /// The encoding of text files. If `None`, UTF-8, or the encoding of a byte order mark.
    pub encoding: Option<TextEncoding>,
    /// Texts that mean a missing cell, such as `NA`. Empty cells, nulls and absent keys are always missing.
    pub missing: Vec<String>,
    /// Whether rows are read with the columns that are not used, so that they can be written to a side file.
    pub whole_rows: bool,
    /// The number of threads that read cells. If `None`, the number of cores, at most 16. Changes no result.
    pub threads: Option<NonZero<usize>>,
    /// The approximate memory for reading, in bytes: input that needs more is refused before it is expanded. The
    /// default is [`DEFAULT_MEMORY`]. Changes no result.
    pub memory: u64,
    /// Bytes that are requested at once. Changes no result; tests make it small.
    #[doc(hidden)]
    pub block_bytes: usize,
}

/// The layout of CSV files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// The separator of cells. If `None`, a comma, or the separator that a first line `sep=;` declares.
    pub delimiter: Option<u8>,
    /// The character around cells that contain delimiters or line ends; `None` if quotes are ordinary characters.
    pub quote: Option<u8>,
    /// The number of lines before the header.
    pub skip_lines: u64,
    /// The beginning of comment lines. It is not empty, and contains neither quotes nor line ends.
    pub comment: Option<String>,
    /// The names of the columns of files without a header line.
    pub columns: Option<Vec<String>>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions { delimiter: None, quote: Some(b'"'), skip_lines: 0, comment: None, columns: None }
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            format: None,
            csv: CsvOptions::default(),
            json_records: None,
            sheet: None,
            encoding: None,
            missing: Vec::new(),
            whole_rows: false,
            threads: None,
            memory: DEFAULT_MEMORY,
            block_bytes: BLOCK_BYTES,
        }
    }
}

impl ReadOptions {
    /// Refuses options that would be ignored in a file of another format, although rows depend on them.
    pub(super) fn refuse_for(&self, name: &str, format: Format) -> Result<(), InputError> {
        let given = [
            (Parameter::SkipLines, self.csv.skip_lines > 0, &[Format::Csv, Format::Xlsx][..]),
            (Parameter::Comment, self.csv.comment.is_some(), &[Format::Csv]),
            (Parameter::Columns, self.csv.columns.is_some(), &[Format::Csv, Format::Xlsx]),
            (Parameter::JsonRecords, self.json_records.is_some(), &[Format::JsonLines]),
            (Parameter::Sheet, self.sheet.is_some(), &[Format::Xlsx]),
        ];
        match given.into_iter().find(|(_, is_given, formats)| *is_given && !formats.contains(&format)) {
            None => Ok(()),
            Some((parameter, _, formats)) => {
                let problem = format!("this is not {} but {format}, to which ", formats[0]);
                let error = InputError::in_file(name, sentence![problem, parameter, " does not apply"]);
                Err(error.remedy(sentence!["omit ", parameter]))
            }
        }
    }

    /// The number of threads that read cells.
    pub(super) fn thread_count(&self) -> usize {
        match self.threads {
            Some(threads) => threads.get(),
            None => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_BY_ITSELF)),
        }
    }

    /// The maximum number of pieces in memory at once: for each thread one that waits for it, one in work, and one that
    /// waits to be consumed; plus one being read, and one being consumed.
    pub(super) fn pieces_at_once(&self) -> u64 {
        3 * self.thread_count() as u64 + 2
    }
}
