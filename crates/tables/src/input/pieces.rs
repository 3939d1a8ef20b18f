//! Splits files and tables into pieces of a few thousand rows, each of which can be read without the others.

use std::io::Read;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_array::RecordBatchReader;
use evertally_declare::error::{Result, usage};
use evertally_declare::format::Format;

use super::arrow;
use super::batches::{RowBatch, TABLE_NAME, TableRows};
use super::blocks::{BlockReader, RecordBlock, whole_lines};
use super::columns;
use super::csv::{CsvFile, CsvStart, RecordBuffers};
use super::encoding::text_error;
use super::json::{Findings, JsonBlocks, JsonFile, ObjectLayout, objects_text};
use super::log::LogFile;
use super::opened::Opened;
use super::options::ReadOptions;
use super::parquet::ParquetRows;
use super::pass::Pass;
use super::source;
use super::xes::XesRows;
use super::xlsx::{self, SheetBatch, SheetRows};
use crate::progress::Progress;

/// The properties of a file before its rows.
pub(super) enum InputFile {
    Csv(CsvFile),
    Json(JsonFile),
    Log(LogFile),
    /// A file that is not text, or a table in memory, with this name.
    Rows(String),
}

impl InputFile {
    /// The errors found by all pieces together.
    pub(super) fn finish(&self, findings: &Findings) -> Result<()> {
        if let InputFile::Json(file) = self { file.finish(findings) } else { Ok(()) }
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
    /// Records or lines, in the block.
    Lines,
    /// JSON objects, in the block.
    Json(ObjectLayout),
    Rows(RowBatch),
    Sheet(SheetBatch),
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
    pub(super) fn visit(&self, cut: &mut RecordBuffers, pass: &mut Pass<'_>) -> Result<Findings> {
        let nothing = |()| Findings::default();
        match (self.file.as_deref(), &self.content) {
            (Some(InputFile::Csv(file)), Content::Lines) => file.visit(&self.block, cut, pass).map(nothing),
            (Some(InputFile::Log(file)), Content::Lines) => file.visit(&self.block, pass).map(nothing),
            (Some(InputFile::Json(file)), Content::Json(layout)) => file.visit(*layout, &self.block, pass),
            (Some(InputFile::Rows(name)), Content::Rows(rows)) => rows.visit(name, pass).map(nothing),
            (Some(InputFile::Rows(name)), Content::Sheet(rows)) => rows.visit(name, pass).map(nothing),
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
    Json(JsonBlocks<Box<dyn Read + Send + 'o>>),
    Parquet(ParquetRows),
    Table(TableRows<'o>),
    Xes(Box<XesRows<Box<dyn Read + Send + 'o>>>),
    Sheet(Box<SheetRows>),
}

/// The blocks of a CSV file or a log.
struct Text<'o> {
    blocks: BlockReader<Box<dyn Read + Send + 'o>>,
    /// The rest of the block in which the header was found.
    first: Option<RecordBlock>,
}

impl<'o> Open<'o> {
    /// A table in memory.
    pub(super) fn table(table: &'o mut (dyn RecordBatchReader + Send), wanted: &[String]) -> Result<Self> {
        let columns = columns::locate(TABLE_NAME, wanted, table.schema().fields())?;
        let rows = PieceRows::Table(TableRows::new(TABLE_NAME, Box::new(table), columns));
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
        options.refuse_for(name, format)?;
        let rows = match format {
            Format::Csv => return Open::csv(name, bytes.into_reader(), options, wanted),
            Format::JsonLines => {
                let blocks = JsonBlocks::new(objects_text(bytes.into_reader(), options), options);
                let file = Arc::new(InputFile::Json(JsonFile::new(name, wanted, options.format)));
                return Ok(Open { file, rows: PieceRows::Json(blocks) });
            }
            Format::CommonLog | Format::CombinedLog => {
                let file = Arc::new(InputFile::Log(LogFile::new(name, format, wanted)?));
                let blocks = BlockReader::new(bytes.into_reader(), options);
                return Ok(Open { file, rows: PieceRows::Text(Text { blocks, first: None }) });
            }
            Format::Parquet => {
                PieceRows::Parquet(ParquetRows::open(name, bytes.into_file(name, cancelled)?, options, wanted)?)
            }
            Format::Arrow => {
                PieceRows::Table(arrow::open(name, bytes.into_file(name, cancelled)?.file, options, wanted)?)
            }
            Format::Xes => PieceRows::Xes(Box::new(XesRows::new(name, bytes.into_reader(), options, wanted))),
            Format::Xlsx => {
                let rows = xlsx::open(name, bytes.into_file(name, cancelled)?, options, wanted, cancelled)?;
                let file = Arc::new(InputFile::Rows(rows.file().to_owned()));
                return Ok(Open { file, rows: PieceRows::Sheet(Box::new(rows)) });
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
        let CsvStart { dialect, lines, reader } = CsvStart::read(name, reader, &options.csv)?;
        let mut blocks = BlockReader::new(reader, options).after_lines(lines);
        let mut block = RecordBlock::default();
        let (file, first) = loop {
            let whole = |data: &[u8]| dialect.whole_records(data);
            let has_more = blocks.next(&mut block, whole).map_err(|e| text_error(name, e))?;
            let file = match &options.csv.columns {
                None if !has_more => return Err(CsvFile::empty(name).into()),
                None => CsvFile::open(name, &mut block, &dialect, wanted)?,
                Some(columns) if !has_more => break (CsvFile::headless(name, &dialect, columns, wanted)?, None),
                Some(columns) => CsvFile::open_headless(name, &block, &dialect, columns, wanted)?,
            };
            if let Some(file) = file {
                break (file, Some(block));
            }
        };
        Ok(Open { file: Arc::new(InputFile::Csv(file)), rows: PieceRows::Text(Text { blocks, first }) })
    }

    /// The columns of a CSV file; empty for other inputs.
    pub(super) fn csv_columns(&self) -> &[String] {
        if let InputFile::Csv(file) = &*self.file { file.columns() } else { &[] }
    }

    fn next(&mut self, piece: &mut Piece, progress: &dyn Progress) -> Result<()> {
        let rows = match (&mut self.rows, &*self.file) {
            (PieceRows::Text(text), file) => {
                let has_more = text.next(file, &mut piece.block)?;
                piece.content = if has_more { Content::Lines } else { Content::End };
                return Ok(());
            }
            (PieceRows::Json(blocks), InputFile::Json(file)) => {
                let layout = blocks.next(file.name(), &mut piece.block)?;
                piece.content = layout.map_or(Content::End, Content::Json);
                return Ok(());
            }
            (PieceRows::Parquet(rows), _) => rows.next(progress)?,
            (PieceRows::Table(rows), _) => rows.next()?,
            (PieceRows::Xes(rows), _) => rows.next()?,
            (PieceRows::Sheet(rows), _) => {
                piece.content = rows.next(progress)?.map_or(Content::End, Content::Sheet);
                return Ok(());
            }
            (PieceRows::Json(_), _) => unreachable!("opened together with its file"),
        };
        piece.content = rows.map_or(Content::End, Content::Rows);
        Ok(())
    }
}

impl Text<'_> {
    fn next(&mut self, file: &InputFile, block: &mut RecordBlock) -> Result<bool> {
        if let Some(first) = self.first.take() {
            *block = first;
            return Ok(true);
        }
        let (name, next) = match file {
            InputFile::Csv(file) => (file.name(), self.blocks.next(block, |data| file.whole_records(data))),
            InputFile::Log(file) => (file.name(), self.blocks.next(block, whole_lines)),
            InputFile::Json(_) | InputFile::Rows(_) => unreachable!("they have other readers"),
        };
        next.map_err(|e| text_error(name, e))
    }
}

impl<'o> InputPieces<'o> {
    /// Reads the next piece; false if there are none left.
    pub(super) fn next(&mut self, piece: &mut Piece) -> Result<bool> {
        let Some(mut open) = mem::take(&mut self.open).map_or_else(|| self.open_next(), |open| Ok(Some(open)))? else {
            return Ok(false);
        };
        open.next(piece, self.progress)?;
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
