//! The rows of a sheet.

use std::sync::Arc;

use super::super::options::ReadOptions;
use super::batch::{RowMark, SheetBatch, SheetCell};
use super::cells::{CellType, MAX_COLUMNS, RawCell, SheetItem, SheetXml};
use super::number::{self, CellNumber};
use super::part::too_long;
use super::serials;
use super::strings::{SharedStrings, unescaped};
use super::styles::{CellFormat, CellFormats};
use crate::progress::Progress;
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{InputError, Place, Result};
use evertally_declare::problem::sentence;
use evertally_declare::words::quoted;

/// Rows that are passed on together.
const ROWS: usize = 4096;

/// Bytes of cells after which rows are passed on, too.
const CELL_BYTES: usize = 4 << 20;

/// Items of a sheet after which its reader returns, so that a run can be cancelled.
const ITEMS: u32 = 1 << 18;

/// What the cells of a workbook refer to.
pub(super) struct CellValues {
    pub(super) strings: SharedStrings,
    pub(super) formats: CellFormats,
    pub(super) is_1904: bool,
    pub(super) has_open_results: bool,
}

impl CellValues {
    /// The value of a cell, whose text is added to a batch.
    ///
    /// # Errors
    /// If the cell is damaged.
    pub(super) fn of(&self, sheet: &SheetXml, raw: &RawCell, batch: &mut SheetBatch) -> Result<SheetCell> {
        if raw.lacks_result() || raw.has_formula && self.has_open_results {
            return Ok(SheetCell::NoResult);
        }
        if self.is_empty(raw) {
            return Ok(SheetCell::Missing);
        }
        Ok(match raw.kind {
            CellType::Text => SheetCell::Text(batch.push_text(&unescaped(&raw.text))),
            CellType::Shared => match self.shared(raw) {
                Some(text) => SheetCell::Text(batch.push_text(text)),
                None => return Err(sheet.damaged("a cell refers to a text that is not there")),
            },
            CellType::Boolean => match &*raw.text {
                "1" | "true" => SheetCell::Text(batch.push_text("true")),
                "0" | "false" => SheetCell::Text(batch.push_text("false")),
                _ => return Err(sheet.damaged("a cell is neither true nor false")),
            },
            CellType::Error => SheetCell::Error(batch.push_text(&raw.text)),
            CellType::IsoTime => {
                let text = match self.formats.of_style(raw.style) {
                    Some(CellFormat::DateTime) => &*raw.text,
                    _ => raw
                        .text
                        .split_once("T00:00:00")
                        .filter(|(_, rest)| rest.trim_matches(['.', '0']).is_empty())
                        .map_or(&*raw.text, |(date, _)| date),
                };
                SheetCell::Text(batch.push_text(text))
            }
            CellType::Number => return self.number(sheet, raw, batch),
        })
    }

    fn number(&self, sheet: &SheetXml, raw: &RawCell, batch: &mut SheetBatch) -> Result<SheetCell> {
        let Some(number) = number::read(&raw.text) else {
            return Err(sheet.damaged(format_args!("the number {} is not one", quoted(&raw.text))));
        };
        let Some(format) = self.formats.of_style(raw.style) else {
            return Err(sheet.damaged("a cell has a style that is not there"));
        };
        if format != CellFormat::Number {
            let serial = raw.text.trim_ascii().parse().ok();
            return Ok(match serial.and_then(|serial| serials::value_of(serial, format, self.is_1904)) {
                Some(value) => batch.serial(value),
                None => SheetCell::NoDate(batch.push_text(raw.text.trim_ascii())),
            });
        }
        Ok(match number {
            CellNumber::Text(text) => SheetCell::Number(batch.push_text(&text)),
            CellNumber::Rounded(value) => SheetCell::Rounded(value),
        })
    }

    fn shared(&self, raw: &RawCell) -> Option<&str> {
        self.strings.get(raw.text.trim_ascii().parse().ok()?)
    }

    /// Whether a cell is empty, or a text without characters.
    pub(super) fn is_empty(&self, raw: &RawCell) -> bool {
        raw.text.is_empty() && !raw.lacks_result() || raw.kind == CellType::Shared && self.shared(raw) == Some("")
    }
}

/// The columns of a sheet that are read.
pub(super) struct SheetColumns {
    /// The names of the wanted columns, then of others.
    pub(super) names: Arc<[String]>,
    /// For each column of the sheet the index of its name.
    pub(super) slots: Vec<Option<usize>>,
    /// The columns of the sheet that have a name. A row without cells in them is empty.
    pub(super) has_name: Vec<bool>,
    /// The names that are declared for a sheet without a header.
    pub(super) declared: Option<Vec<String>>,
}

/// The rows of a sheet after its header.
pub(in crate::input) struct SheetRows {
    file: String,
    sheet: SheetXml,
    values: CellValues,
    columns: SheetColumns,
    skipped: u64,
    raw: RawCell,
    batch: SheetBatch,
    row: CurrentRow,
    has_rows: bool,
    has_ended: bool,
    bytes_to_report: u64,
}

/// The row that is being read.
#[derive(Default)]
struct CurrentRow {
    number: u32,
    cells: Vec<SheetCell>,
    /// The length of the batch's text before it.
    start: usize,
    width: usize,
    has_values: bool,
    /// The cells that equal the declared name of their column.
    like_names: usize,
}

impl SheetRows {
    pub(super) fn new(
        file: String,
        sheet: SheetXml,
        values: CellValues,
        columns: SheetColumns,
        options: &ReadOptions,
    ) -> Self {
        let batch = SheetBatch::new(columns.names.clone(), columns.declared.as_ref().map(Vec::len));
        let (raw, row) = (RawCell::default(), CurrentRow::default());
        let skipped = options.csv.skip_lines;
        let (has_rows, has_ended, bytes_to_report) = (false, false, 0);
        Self { file, sheet, values, columns, skipped, raw, batch, row, has_rows, has_ended, bytes_to_report }
    }

    /// These rows, which count as some bytes of progress at their end.
    pub(super) fn with_bytes_to_report(self, bytes_to_report: u64) -> Self {
        Self { bytes_to_report, ..self }
    }

    /// The name of the file and its sheet in messages.
    pub(in crate::input) fn file(&self) -> &str {
        &self.file
    }

    /// The next rows, which may be none; `None` at the end of the sheet.
    pub(in crate::input) fn next(&mut self, progress: &dyn Progress) -> Result<Option<SheetBatch>> {
        for _ in 0..ITEMS {
            if self.has_ended || self.batch.rows.len() >= ROWS || self.batch.text.len() >= CELL_BYTES {
                break;
            }
            match self.sheet.next(&mut self.raw)? {
                SheetItem::Row(number) => self.begin_row(number),
                SheetItem::Cell if u64::from(self.row.number) > self.skipped => self.add_cell()?,
                SheetItem::RowEnd => self.end_row()?,
                SheetItem::End => {
                    self.has_ended = true;
                    progress.advance(std::mem::take(&mut self.bytes_to_report));
                }
                SheetItem::Cell | SheetItem::Nothing => {}
            }
        }
        let next = SheetBatch::new(self.columns.names.clone(), self.batch.declared);
        if self.row.has_begun() {
            return Ok(Some(next)); // the rest of the row follows
        }
        let batch = std::mem::replace(&mut self.batch, next);
        Ok(Some(batch).filter(|batch| !self.has_ended || !batch.rows.is_empty()))
    }

    fn begin_row(&mut self, number: u32) {
        let (start, mut cells) = (self.batch.text.len(), std::mem::take(&mut self.row.cells));
        cells.clear();
        cells.resize(self.columns.names.len(), SheetCell::Missing);
        self.row = CurrentRow { number, cells, start, ..CurrentRow::default() };
    }

    fn add_cell(&mut self) -> Result<()> {
        let column = self.raw.column;
        let is_named = self.columns.has_name.get(column) == Some(&true);
        if self.values.is_empty(&self.raw) || !is_named && self.columns.declared.is_none() {
            return Ok(());
        }
        (self.row.has_values, self.row.width) = (true, column + 1);
        if let Some(slot) = self.columns.slots.get(column).copied().flatten() {
            self.row.cells[slot] = self.values.of(&self.sheet, &self.raw, &mut self.batch)?;
        }
        if let Some(declared) = self.columns.declared.as_ref().filter(|_| !self.has_rows) {
            let mut one = SheetBatch::new(Arc::new([]), None);
            let cell = self.values.of(&self.sheet, &self.raw, &mut one)?;
            self.row.like_names += usize::from(declared.get(column) == Some(&one.shown(&cell)));
        }
        if (self.batch.text.len() - self.row.start) as u64 > self.sheet.longest() {
            return Err(too_long(&self.file, self.sheet.longest()).at(Place::Row(self.row.number.into())).into());
        }
        Ok(())
    }

    fn end_row(&mut self) -> Result<()> {
        let row = std::mem::take(&mut self.row);
        if !row.has_values {
            self.row.cells = row.cells;
            return Ok(());
        }
        let names = self.columns.declared.as_ref().map(|names| names.iter().filter(|name| !name.is_empty()).count());
        if !self.has_rows && names == Some(row.like_names) {
            let problem = sentence!["this row is a header with the same names as ", Parameter::Columns];
            let error = InputError::in_file(&*self.file, problem).at(Place::Row(row.number.into()));
            return Err(error.remedy(sentence!["omit ", Parameter::Columns]).into());
        }
        self.has_rows = true;
        self.batch.cells.extend(row.cells);
        self.batch.rows.push(RowMark { number: row.number, width: row.width });
        Ok(())
    }
}

impl CurrentRow {
    /// Whether it has begun and not ended.
    fn has_begun(&self) -> bool {
        self.number > 0
    }
}

/// The first row with cells after the skipped ones: its cells, with their columns.
pub(super) fn header(
    file: &str,
    sheet: &mut SheetXml,
    values: &CellValues,
    options: &ReadOptions,
    check: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<(usize, String)>> {
    let (mut raw, mut number, mut cells, mut bytes) = (RawCell::default(), 0, Vec::new(), 0);
    loop {
        check()?;
        match sheet.next(&mut raw)? {
            SheetItem::Row(next) => number = next,
            SheetItem::Cell if u64::from(number) > options.csv.skip_lines => {
                let mut one = SheetBatch::new(Arc::new([]), None);
                let cell = values.of(sheet, &raw, &mut one)?;
                let text = one.shown(&cell);
                bytes += text.len() as u64;
                if bytes > sheet.longest() || cells.len() > MAX_COLUMNS {
                    return Err(too_long(file, sheet.longest()).at(Place::Row(number.into())).into());
                }
                if !text.is_empty() {
                    cells.push((raw.column, text));
                }
            }
            SheetItem::RowEnd if !cells.is_empty() => return Ok(cells),
            SheetItem::End => return Ok(cells),
            SheetItem::Cell | SheetItem::RowEnd | SheetItem::Nothing => {}
        }
    }
}
