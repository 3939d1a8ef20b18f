//! Splits files and tables into pieces of a few thousand rows, each of which can be read without the others.

use std::io::Read;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatchReader;
use evertally_declare::error::{PipelineError, Result, read_error, usage};
use evertally_declare::format::Format;

use super::arrow;
use super::batches::{RowBatch, TABLE_NAME, TableRows};
use super::blocks::{BlockReader, RecordBlock, whole_lines};
use super::csv::{CsvFile, RecordBuffers};
use super::json::{Findings, JsonFile};
use super::options::ReadOptions;
use super::parquet::ParquetRows;
use super::pass::Pass;
use super::source::{self, Opened};
use crate::progress::Progress;

/// The properties of a file before its rows.
pub(super) enum InputFile {
    Csv(CsvFile),
    JsonLines(JsonFile),
    /// A file that is not text, or a table in memory, with this name.
    Rows(String),
}

impl InputFile {
    /// The errors found by all pieces together.
    pub(super) fn finish(&self, findings: &Findings) -> Result<()> {
        if let InputFile::JsonLines(file) = self { file.finish(findings) } else { Ok(()) }
    }
}

/// Some rows of a file, or its end. Its buffers are reused for the next piece.
#[derive(Default)]
pub(super) struct Piece {
    pub(super) file: Option<Arc<InputFile>>,
    content: Content,
    block: RecordBlock,
}

#[derive(Default)]
enum Content {
    #[default]
    End,
    /// Lines of text, in the block.
    Lines,
    Rows(RowBatch),
}

impl Piece {
    /// Whether it is the end of its file.
    pub(super) fn is_end(&self) -> bool {
        matches!(self.content, Content::End)
    }

    /// The size of its text buffer.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.block.buffer_bytes()
    }

    /// Frees the memory of its text.
    pub(super) fn drop_buffer(&mut self) {
        self.block = RecordBlock::default();
    }

    /// Passes on its rows, and returns their findings.
    pub(super) fn visit<E: From<PipelineError>>(
        &self,
        cut: &mut RecordBuffers,
        pass: &mut Pass<'_, E>,
    ) -> Result<Findings, E> {
        let nothing = |()| Findings::default();
        match (self.file.as_deref(), &self.content) {
            (Some(InputFile::Csv(file)), Content::Lines) => file.visit(&self.block, cut, pass).map(nothing),
            (Some(InputFile::JsonLines(file)), Content::Lines) => file.visit(&self.block, pass),
            (Some(InputFile::Rows(name)), Content::Rows(rows)) => rows.visit(name, pass).map(nothing),
            _ => Ok(Findings::default()),
        }
    }
}

/// The remaining part of some files, or of a table in memory.
pub(super) struct InputPieces<'o> {
    pub(super) wanted: Vec<String>,
    pub(super) options: &'o ReadOptions,
    pub(super) progress: &'o dyn Progress,
    /// Ends the waiting for a silent pipe.
    pub(super) stopped: &'o AtomicBool,
    /// Files that are not open yet, in reverse order.
    pub(super) sources: Vec<PathBuf>,
    pub(super) open: Option<Open<'o>>,
}

/// A file that is being read.
pub(super) struct Open<'o> {
    file: Arc<InputFile>,
    rows: PieceRows<'o>,
}

enum PieceRows<'o> {
    Text(Text<'o>),
    Parquet(ParquetRows),
    Table(TableRows<'o>),
}

/// The blocks of a text.
struct Text<'o> {
    blocks: BlockReader<Box<dyn Read + Send + 'o>>,
    /// The rest of the block in which the header was found.
    first: Option<RecordBlock>,
}

impl<'o> Open<'o> {
    /// A table in memory.
    pub(super) fn table(table: &'o mut (dyn RecordBatchReader + Send), wanted: &[String]) -> Result<Self> {
        let rows = PieceRows::Table(TableRows::open(TABLE_NAME, &table.schema(), Box::new(table), wanted)?);
        Ok(Open { file: Arc::new(InputFile::Rows(TABLE_NAME.into())), rows })
    }

    /// Starts with an opened input and its name.
    pub(super) fn new(
        opened: Opened<'o>,
        name: &str,
        options: &ReadOptions,
        wanted: &[String],
        cancelled: &AtomicBool,
    ) -> Result<Self> {
        let Opened { format, bytes, .. } = opened;
        let rows = match format {
            Format::Csv => return Open::csv(name, bytes.into_reader(), options, wanted),
            Format::JsonLines => {
                let blocks = BlockReader::new(bytes.into_reader(), options);
                let file = Arc::new(InputFile::JsonLines(JsonFile::new(name, wanted, options.format)));
                return Ok(Open { file, rows: PieceRows::Text(Text { blocks, first: None }) });
            }
            Format::Parquet => {
                PieceRows::Parquet(ParquetRows::open(name, bytes.into_file(name, cancelled)?, options, wanted)?)
            }
            Format::Arrow => {
                PieceRows::Table(arrow::open(name, bytes.into_file(name, cancelled)?.file, options, wanted)?)
            }
            Format::Json => return Err(usage(format!("{name}: rows are not read as {format}"))),
        };
        Ok(Open { file: Arc::new(InputFile::Rows(name.to_owned())), rows })
    }

    /// A CSV file, with its header read.
    pub(super) fn csv(
        name: &str,
        reader: Box<dyn Read + Send + 'o>,
        options: &ReadOptions,
        wanted: &[String],
    ) -> Result<Self> {
        let mut blocks = BlockReader::new(reader, options);
        let mut block = RecordBlock::default();
        loop {
            let whole = |data: &[u8]| CsvFile::whole_records(data, options.delimiter);
            if !blocks.next(&mut block, whole).map_err(|e| read_error(name, e))? {
                return Err(CsvFile::empty(name).into());
            }
            if let Some(file) = CsvFile::open(name, &mut block, options.delimiter, wanted)? {
                let rows = PieceRows::Text(Text { blocks, first: Some(block) });
                return Ok(Open { file: Arc::new(InputFile::Csv(file)), rows });
            }
        }
    }

    /// The columns of a CSV file; empty for other inputs.
    pub(super) fn csv_columns(&self) -> &[String] {
        if let InputFile::Csv(file) = &*self.file { file.columns() } else { &[] }
    }

    fn next(&mut self, piece: &mut Piece, options: &ReadOptions, progress: &dyn Progress) -> Result<()> {
        let rows = match &mut self.rows {
            PieceRows::Text(text) => {
                let more = text.next(&self.file, options, &mut piece.block)?;
                piece.content = if more { Content::Lines } else { Content::End };
                return Ok(());
            }
            PieceRows::Parquet(rows) => rows.next(progress)?,
            PieceRows::Table(rows) => rows.next()?,
        };
        piece.content = rows.map_or(Content::End, Content::Rows);
        Ok(())
    }
}

impl Text<'_> {
    fn next(&mut self, file: &InputFile, options: &ReadOptions, block: &mut RecordBlock) -> Result<bool> {
        if let Some(first) = self.first.take() {
            *block = first;
            return Ok(true);
        }
        let (name, next) = match file {
            InputFile::Csv(file) => {
                let whole = |data: &[u8]| CsvFile::whole_records(data, options.delimiter);
                (file.name(), self.blocks.next(block, whole))
            }
            InputFile::JsonLines(file) => (file.name(), self.blocks.next(block, whole_lines)),
            InputFile::Rows(_) => unreachable!("rows are not text"),
        };
        next.map_err(|e| read_error(name, e))
    }
}

impl<'o> InputPieces<'o> {
    /// Reads the next piece; false if there are none left.
    pub(super) fn next(&mut self, piece: &mut Piece) -> Result<bool> {
        let Some(mut open) = mem::take(&mut self.open).map_or_else(|| self.open_next(), |open| Ok(Some(open)))? else {
            return Ok(false);
        };
        open.next(piece, self.options, self.progress)?;
        piece.file = Some(Arc::clone(&open.file));
        self.open = Some(open).filter(|_| !piece.is_end());
        Ok(true)
    }

    fn open_next(&mut self) -> Result<Option<Open<'o>>> {
        let Some(path) = self.sources.pop() else { return Ok(None) };
        let (name, wanted) = (source::display_name(&path), &self.wanted);
        let opened = source::open(&path, &name, self.options, self.progress, self.stopped)?;
        Open::new(opened, &name, self.options, wanted, self.stopped).map(Some)
    }
}
