//! Some rows of a sheet, and their cells.

use std::ops::Range;
use std::sync::Arc;

use super::super::limits::{MAX_CELL_BYTES, refuse_long_cells};
use super::super::pass::{Pass, text_field};
use super::serials::SerialValue;
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{InputError, Place, Result};
use evertally_declare::event::{Cells, Field, WholeRow};
use evertally_declare::problem::sentence;
use evertally_declare::words::{quoted, shorten};

/// A cell of a batch. Texts are ranges of the batch's text.
#[derive(Clone, Debug, Default)]
pub(super) enum SheetCell {
    #[default]
    Missing,
    Text(Range<usize>),
    Number(Range<usize>),
    /// A number that may have been rounded.
    Rounded(f64),
    Date(i32),
    DateTime(i64),
    /// The result of a formula that failed, such as `#N/A`.
    Error(Range<usize>),
    /// A number whose format is that of a date, although it is not one.
    NoDate(Range<usize>),
    /// A formula whose result is not in the file.
    NoResult,
}

impl SheetCell {
    fn is_long(&self) -> bool {
        matches!(self, Self::Text(text) | Self::Number(text) if text.len() > MAX_CELL_BYTES)
    }
}

/// Some rows of a sheet.
pub(in crate::input) struct SheetBatch {
    pub(super) names: Arc<[String]>,
    /// The columns that are declared for a sheet without a header.
    pub(super) declared: Option<usize>,
    pub(super) text: String,
    /// The cells of all rows, one for each name.
    pub(super) cells: Vec<SheetCell>,
    pub(super) rows: Vec<RowMark>,
}

/// A row of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowMark {
    /// Its number, as Excel shows it.
    pub(super) number: u32,
    /// The number of its columns up to the last cell.
    pub(super) width: usize,
}

impl SheetBatch {
    pub(super) fn new(names: Arc<[String]>, declared: Option<usize>) -> Self {
        Self { names, declared, text: String::new(), cells: Vec::new(), rows: Vec::new() }
    }

    /// Adds a text.
    pub(super) fn push_text(&mut self, text: &str) -> Range<usize> {
        let start = self.text.len();
        self.text.push_str(text);
        start..self.text.len()
    }

    /// The cell of a serial number.
    pub(super) fn serial(&mut self, value: SerialValue) -> SheetCell {
        match value {
            SerialValue::Date(days) => SheetCell::Date(days),
            SerialValue::DateTime(micros) => SheetCell::DateTime(micros),
            SerialValue::Clock(text) => SheetCell::Text(self.push_text(&text)),
        }
    }

    /// A cell as text.
    pub(super) fn shown(&self, cell: &SheetCell) -> String {
        match cell {
            SheetCell::Error(text) | SheetCell::NoDate(text) => self.text[text.clone()].to_owned(),
            other => self.field(other, &[]).to_string(),
        }
    }

    #[inline]
    fn field(&self, cell: &SheetCell, missing: &[String]) -> Field<'_> {
        match cell {
            SheetCell::Text(text) => text_field(&self.text[text.clone()], missing),
            SheetCell::Number(text) => match text_field(&self.text[text.clone()], missing) {
                Field::Text(number) => Field::Number(number),
                other => other,
            },
            SheetCell::Rounded(value) => Field::Float(*value),
            SheetCell::Date(days) => Field::Date(*days),
            SheetCell::DateTime(micros) => Field::Civil(*micros),
            // Rows with other such cells are refused.
            SheetCell::Missing | SheetCell::Error(_) | SheetCell::NoDate(_) | SheetCell::NoResult => Field::Missing,
        }
    }

    /// Passes on the rows.
    pub(in crate::input) fn visit(&self, file: &str, pass: &mut Pass<'_>) -> Result<()> {
        for (index, mark) in self.rows.iter().enumerate() {
            let place = Place::Row(mark.number.into());
            let cells = &self.cells[index * self.names.len()..][..self.names.len()];
            let row = SheetRow { batch: self, cells, missing: pass.missing };
            let wanted = pass.layout.names().len();
            if let Some(error) = row.fault(file, *mark, wanted) {
                pass.refuse(error.at(place), || row.json())?;
                continue;
            }
            if cells[..wanted].iter().any(SheetCell::is_long) {
                refuse_long_cells(file, place, pass.layout, &row)?;
            }
            pass.emit(file, place, &row)?;
        }
        Ok(())
    }
}

/// One row of a batch.
struct SheetRow<'r> {
    batch: &'r SheetBatch,
    cells: &'r [SheetCell],
    missing: &'r [String],
}

impl<'r> SheetRow<'r> {
    fn text(&self, range: &Range<usize>) -> &'r str {
        &self.batch.text[range.clone()]
    }

    /// Why the row cannot be read, if it cannot.
    fn fault(&self, file: &str, mark: RowMark, wanted: usize) -> Option<InputError> {
        if let Some(declared) = self.batch.declared.filter(|declared| mark.width > *declared) {
            let problem = sentence![
                format!("it has {} cells, but ", mark.width),
                Parameter::Columns,
                format!(" has {declared} names")
            ];
            return Some(InputError::in_file(file, problem).remedy("name all columns, or remove the other cells"));
        }
        self.cells[..wanted].iter().zip(&*self.batch.names).find_map(|(cell, name)| {
            let (problem, remedy) = match cell {
                SheetCell::Error(text) if !text_field(self.text(text), self.missing).is_missing() => {
                    let text = self.text(text).to_owned();
                    let is_common = text.bytes().all(|b| b.is_ascii_uppercase() || b"#/!?0".contains(&b));
                    let declare = match is_common {
                        true => sentence!["correct it, or declare ", (Parameter::MissingText, format!("'{text}'"))],
                        false => "correct it".into(),
                    };
                    (format!("the cell holds the error {}", shorten(&text)), declare)
                }
                SheetCell::NoDate(text) => {
                    let text = quoted(self.text(text));
                    let problem = format!("the cell holds {text} in a format of dates, but no date has that number");
                    (problem, "correct it, or format it as a number".into())
                }
                SheetCell::NoResult => {
                    let problem = "the cell has a formula, but its computed result is not in the file".to_owned();
                    (
                        problem,
                        "open it in Excel, or in LibreOffice and compute it there (Ctrl+Shift+F9), and save it".into(),
                    )
                }
                _ => return None,
            };
            Some(InputError::in_file(file, problem).in_column(name.clone()).remedy(remedy))
        })
    }

    fn pairs(&self) -> Vec<(String, String)> {
        self.batch.names.iter().cloned().zip(self.cells.iter().map(|cell| self.batch.shown(cell))).collect()
    }

    /// The row as a JSON object.
    fn json(&self) -> String {
        // Texts and strings are JSON, so that neither can fail.
        let json = |text: &String| serde_json::to_string(text).unwrap_or_default();
        let pairs: Vec<String> =
            self.pairs().iter().map(|(name, text)| format!("{}: {}", json(name), json(text))).collect();
        format!("{{{}}}", pairs.join(", "))
    }
}

impl Cells for SheetRow<'_> {
    #[inline]
    fn cell(&self, slot: usize) -> Field<'_> {
        self.batch.field(&self.cells[slot], self.missing)
    }

    fn whole(&self) -> WholeRow {
        WholeRow { cells: self.pairs(), text: self.json() }
    }
}
