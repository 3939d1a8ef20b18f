//! The head of an input: its format, its columns and its first rows, before it is known which of them are events.
//!
//! A look at a file has to try options on its first bytes: another delimiter, another format of times. So the head is
//! read once, kept, and read again under each; then the rest follows. An input that can be read only once, such as a
//! pipe, is treated in the same way.

use super::opened::{Bytes, Opened, SeekableFile};
use super::options::ReadOptions;
use super::pieces::{InputPieces, Open};
use super::source;
use super::{Events, arrow, json, log, parquet, xes, xlsx};
use crate::progress::Progress;
use evertally_declare::error::{Result, read_error};
use evertally_declare::event::ColumnLayout;
use evertally_declare::format::Format;
use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The size of the head of a text.
const HEAD_BYTES: u64 = 1 << 20;

/// The number of objects whose values are columns.
const MOST_OBJECTS: usize = 1000;

/// The most columns of JSON.
const MOST_NAMES: usize = 1000;

/// An input whose head was read.
pub struct InputHead<'o> {
    /// The name of the input in messages.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// The name of its compression, if it is compressed.
    pub compression: Option<&'static str>,
    /// Its size in bytes before decompression, if it is a file.
    pub bytes: Option<u64>,
    content: HeadContent<'o>,
}

enum HeadContent<'o> {
    /// The first bytes of a text, and the rest.
    Text(Vec<u8>, Box<dyn Read + Send + 'o>),
    /// A file that is not text.
    File(SeekableFile),
}

/// A column of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadColumn {
    /// Its name.
    pub name: String,
    /// Why it cannot be read as cells, if it cannot.
    pub problem: Option<String>,
}

impl HeadColumn {
    fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), problem: None }
    }
}

impl<'o> InputHead<'o> {
    /// Opens a file, or standard input (`-`).
    ///
    /// # Errors
    /// If it cannot be read, or is in no format of events.
    pub fn open(
        path: &Path,
        options: &ReadOptions,
        progress: &'o dyn Progress,
        cancelled: &'o AtomicBool,
    ) -> Result<Self> {
        let name = source::display_name(path);
        let Opened { format, compression, bytes } = source::open(path, &name, options, progress, cancelled)?;
        let content = match bytes {
            bytes if !format.has_lines() => HeadContent::File(bytes.into_file(&name, cancelled)?),
            bytes => {
                let (mut head, mut rest) = (Vec::new(), bytes.into_reader());
                rest.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(|error| read_error(&name, error))?;
                HeadContent::Text(head, rest)
            }
        };
        let bytes = source::total_bytes(&[path.to_owned()]);
        Ok(Self { name, format, compression, bytes, content })
    }

    /// The columns under these options. Columns whose name occurs twice, or whose cells are nested, have a problem.
    ///
    /// # Errors
    /// If the head cannot be read.
    pub fn columns(&self, options: &ReadOptions) -> Result<Vec<HeadColumn>> {
        let mut columns: Vec<HeadColumn> = match &self.content {
            HeadContent::Text(head, _) if self.format == Format::Csv => {
                let open = Open::csv(&self.name, Box::new(Cursor::new(head.clone())), options, &[])?;
                open.csv_columns().iter().map(HeadColumn::new).collect()
            }
            HeadContent::Text(head, _) if self.format == Format::JsonLines => {
                // The head may end inside of the array, which the reading of its rows reports.
                let mut text = Vec::new();
                let _ = json::objects_text(Box::new(Cursor::new(&head[..])), options).read_to_end(&mut text);
                names(&text)
            }
            HeadContent::Text(..) => log::columns_of(self.format).iter().map(|name| HeadColumn::new(*name)).collect(),
            HeadContent::File(file) => {
                let file = self.reopened(&file.file)?;
                let columns = match self.format {
                    Format::Parquet => parquet::columns(&self.name, file, options.memory)?,
                    Format::Xlsx => xlsx::columns(&self.name, file, options)?,
                    Format::Xes => {
                        let names = xes::columns(&self.name, file, options)?;
                        names.into_iter().map(|name| (name, None)).collect()
                    }
                    _ => arrow::columns(&self.name, file, options.memory)?,
                };
                columns.into_iter().map(|(name, problem)| HeadColumn { name, problem }).collect()
            }
        };
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        for column in &mut columns {
            if names.iter().filter(|name| **name == column.name).count() > 1 {
                column.problem = Some("several columns have this name; rename all but one".to_owned());
            }
        }
        Ok(columns)
    }

    /// The lines at the beginning of a text, roughly decoded: to see what options leave out.
    pub fn first_lines(&self) -> impl Iterator<Item = String> {
        let bytes = if let HeadContent::Text(bytes, _) = &self.content { &bytes[..] } else { &[] };
        // Of UTF-16, every other byte.
        bytes.split(|byte| *byte == b'\n').map(|line| String::from_utf8_lossy(line).replace('\0', ""))
    }

    /// Whether the head is UTF-8 text, or not text at all.
    pub fn is_utf8(&self) -> bool {
        let HeadContent::Text(head, _) = &self.content else { return true };
        // The last character may be cut.
        std::str::from_utf8(head).err().is_none_or(|error| error.error_len().is_none())
    }

    /// The paths of the arrays of objects in the only object of a JSON text, the longest array first.
    pub fn arrays(&self) -> Vec<String> {
        match &self.content {
            HeadContent::Text(head, _) if self.format == Format::JsonLines => json::arrays_of(head),
            _ => Vec::new(),
        }
    }

    /// The rows of the head: all that a text has in its first mebibyte, or all rows of a file that is not text. The
    /// last row of a text may be incomplete.
    ///
    /// # Errors
    /// If the head cannot be read, or lacks a column of the layout.
    pub fn rows<'r>(
        &'r self,
        layout: &ColumnLayout,
        options: &'r ReadOptions,
        cancelled: &'r AtomicBool,
    ) -> Result<Events<'r>> {
        let bytes = match &self.content {
            HeadContent::Text(head, _) => Bytes::Reader(Box::new(Cursor::new(&head[..]))),
            HeadContent::File(file) => {
                Bytes::File(SeekableFile { file: self.reopened(&file.file)?, bytes_to_report: 0 })
            }
        };
        self.events(bytes, layout, options, (&(), cancelled))
    }

    /// All rows of the input.
    ///
    /// # Errors
    /// If it cannot be read, or lacks a column of the layout.
    pub fn into_rows(
        mut self,
        layout: &ColumnLayout,
        options: &'o ReadOptions,
        progress: &'o dyn Progress,
        cancelled: &'o AtomicBool,
    ) -> Result<Events<'o>> {
        let content = std::mem::replace(&mut self.content, HeadContent::Text(Vec::new(), Box::new(std::io::empty())));
        let bytes = match content {
            HeadContent::Text(head, rest) => Bytes::Reader(Box::new(Cursor::new(head).chain(rest))),
            // Its columns and first rows may have been read.
            HeadContent::File(file) => Bytes::File(SeekableFile { file: self.reopened(&file.file)?, ..file }),
        };
        self.events(bytes, layout, options, (progress, cancelled))
    }

    fn events<'r>(
        &self,
        bytes: Bytes<'r>,
        layout: &ColumnLayout,
        options: &'r ReadOptions,
        (progress, cancelled): (&'r dyn Progress, &'r AtomicBool),
    ) -> Result<Events<'r>> {
        let (layout, wanted) = (layout.clone(), layout.names().to_vec());
        let opened = Opened { format: self.format, compression: None, bytes };
        let open = Some(Open::new(opened, &self.name, options, &wanted, cancelled)?);
        let pieces = InputPieces { wanted, options, progress, stopped: cancelled, sources: Vec::new(), open };
        Ok(Events::new(layout, pieces))
    }

    /// Another handle of a file, at its start. Both have the same position, which readers of these formats set.
    fn reopened(&self, file: &File) -> Result<File> {
        let again = || -> std::io::Result<File> {
            let mut again = file.try_clone()?;
            again.rewind()?;
            Ok(again)
        };
        again().map_err(|error| read_error(&self.name, error))
    }
}

/// The names of the values in the first objects, in the order in which they occur.
fn names(head: &[u8]) -> Vec<HeadColumn> {
    let mut names: Vec<String> = Vec::new();
    for object in json::objects(head).take(MOST_OBJECTS) {
        for name in json::names_of(object) {
            if names.len() < MOST_NAMES && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names.into_iter().map(HeadColumn::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally_declare::error::PipelineError;
    use evertally_declare::event::Columns;

    /// Reads a file of these bytes: its columns, its rows, and the errors of rows.
    fn read(bytes: &[u8]) -> (Vec<HeadColumn>, Vec<String>, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let (path, running) = (folder.path().join("f"), AtomicBool::new(false));
        std::fs::write(&path, bytes).unwrap();
        let options = ReadOptions::default();
        let head = InputHead::open(&path, &options, &(), &running).unwrap();
        let columns = head.columns(&options).unwrap();
        let columns_of_time = Columns { time: "time".to_owned(), ..Columns::default() };
        let layout = ColumnLayout::new(&columns_of_time).with_others(["time".to_owned(), "n".to_owned()]);
        let collect = |mut events: Events<'_>| {
            let (mut rows, mut refused) = (Vec::new(), Vec::new());
            while events
                .next_batch_with_refused::<PipelineError>(
                    &mut |event| {
                        rows.push(format!("{} {}", event.time(), event.cell(1)));
                        Ok(())
                    },
                    &mut |error| refused.push(error.without_place().to_string()),
                )
                .unwrap()
            {}
            (rows, refused)
        };
        let of_head = collect(head.rows(&layout, &options, &running).unwrap());
        let all = collect(head.into_rows(&layout, &options, &(), &running).unwrap());
        assert_eq!(of_head, all);
        (columns, all.0, all.1)
    }

    #[test]
    fn broken_rows_are_passed_over() {
        let (columns, rows, refused) = read(b"time,n,n2\n1,a,x\n2\n\"4\",b,x\n");
        assert_eq!(columns, ["time", "n", "n2"].map(HeadColumn::new));
        assert_eq!(rows, ["1 a", "4 b"]);
        assert!(refused.len() == 1 && refused[0].contains("1 cell"), "{refused:?}");
        let lines = b"{\"time\": 1, \"n\": 2, \"d\": {\"x\": 1}}\n{\"time\": }\n{\"n\": 5, \"e\": 1}\n";
        let (columns, rows, refused) = read(lines);
        assert_eq!(columns.iter().map(|c| &c.name[..]).collect::<Vec<_>>(), ["time", "n", "d.x", "e"]);
        assert_eq!(rows, ["1 2", " 5"]);
        assert!(refused.len() == 1 && refused[0].contains("not a JSON object"), "{refused:?}");
    }

    #[test]
    fn columns_of_the_same_name_have_a_problem() {
        let (columns, ..) = read(b"time,n,x,x\n1,2,3,4\n");
        assert_eq!(columns.iter().map(|c| c.problem.is_some()).collect::<Vec<_>>(), [false, false, true, true]);
    }
}
