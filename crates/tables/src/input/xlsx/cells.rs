//! The cells of a sheet, in the order of its XML: row by row, from the left.

use quick_xml::events::{BytesStart, Event as XmlEvent};

use super::part::PartXml;
use evertally_declare::error::Result;

/// The maximum number of columns of a sheet.
pub(super) const MAX_COLUMNS: usize = 16_384;

/// The next item of a sheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SheetItem {
    /// The beginning of a row, with its number as Excel shows it.
    Row(u32),
    /// A cell.
    Cell,
    /// The end of a row.
    RowEnd,
    /// A tag or text that is part of an item, or of none.
    Nothing,
    /// The end of the sheet.
    End,
}

/// The type of a cell's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CellType {
    #[default]
    Number,
    /// The number of a shared text.
    Shared,
    Text,
    Boolean,
    Error,
    /// A date or time in ISO 8601.
    IsoTime,
}

/// A cell as its sheet has it.
#[derive(Debug, Default)]
pub(super) struct RawCell {
    /// Its column, counted from 0.
    pub(super) column: usize,
    pub(super) kind: CellType,
    /// The number of its style.
    pub(super) style: usize,
    /// Whether its text is in an element of the sheet, instead of a value.
    is_inline: bool,
    /// Whether its value is the stored result of a formula.
    pub(super) has_formula: bool,
    /// Its value, which is empty if it has none.
    pub(super) text: String,
}

/// The XML of a sheet.
pub(super) struct SheetXml {
    xml: PartXml,
    buffer: Vec<u8>,
    has_data: bool,
    is_in_data: bool,
    is_in_row: bool,
    row: u32,
    next_column: usize,
    /// The number of elements around the place in the sheet, from a cell on; 0 outside of cells.
    depth: u32,
    is_text: bool,
    is_phonetic: bool,
    /// The prefix of the elements of the table; others are not part of it.
    prefix: Option<String>,
    /// The number of elements around the place from a foreign element on.
    foreign: u32,
    has_value: bool,
}

impl RawCell {
    /// Whether it has a formula without a result: a formula whose result is an empty text has that one.
    pub(super) fn lacks_result(&self) -> bool {
        self.has_formula && self.text.is_empty() && self.kind == CellType::Number
    }
}

impl SheetXml {
    pub(super) fn new(xml: PartXml) -> Self {
        Self {
            xml,
            buffer: Vec::new(),
            has_data: false,
            is_in_data: false,
            is_in_row: false,
            row: 0,
            next_column: 0,
            depth: 0,
            is_text: false,
            is_phonetic: false,
            prefix: None,
            foreign: 0,
            has_value: false,
        }
    }

    /// The error for a damaged sheet, in the current row.
    pub(super) fn damaged(&self, problem: impl std::fmt::Display) -> evertally_declare::error::PipelineError {
        self.xml.damaged(format_args!("row {}: {problem}", self.row))
    }

    /// The maximum length of a row.
    pub(super) fn longest(&self) -> u64 {
        self.xml.longest()
    }

    /// The next item. A cell is complete at [`SheetItem::Cell`].
    pub(super) fn next(&mut self, cell: &mut RawCell) -> Result<SheetItem> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let item = match self.xml.next(&mut buffer)? {
            XmlEvent::Start(tag) => self.begin(&tag, cell)?,
            XmlEvent::End(tag) => self.end(tag.local_name().as_ref()),
            XmlEvent::Eof if !self.has_data || self.is_in_data => {
                return Err(self.xml.damaged("a sheet ends before its cells do"));
            }
            XmlEvent::Eof => SheetItem::End,
            event if self.is_text => {
                self.xml.push_text(&event, &mut cell.text)?;
                SheetItem::Nothing
            }
            _ => SheetItem::Nothing,
        };
        self.buffer = buffer;
        Ok(item)
    }

    fn begin(&mut self, tag: &BytesStart<'_>, cell: &mut RawCell) -> Result<SheetItem> {
        let name = tag.local_name();
        if self.is_in_data && (self.foreign > 0 || !self.is_of_table(tag)) {
            if name.as_ref() == "AlternateContent" {
                return Err(self.damaged("it has alternative cells, which are not read"));
            }
            self.foreign += 1;
            return Ok(SheetItem::Nothing);
        }
        if self.depth > 0 {
            self.depth += 1;
            match name.as_ref() {
                "v" if self.depth == 2 && std::mem::replace(&mut self.has_value, true) => {
                    return Err(self.damaged("a cell has two values"));
                }
                "v" => self.is_text = self.depth == 2 && !cell.is_inline,
                "t" => self.is_text = cell.is_inline && !self.is_phonetic,
                "rPh" => self.is_phonetic = true,
                "f" => cell.has_formula |= self.depth == 2,
                _ => {}
            }
            return Ok(SheetItem::Nothing);
        }
        match name.as_ref() {
            "sheetData" if self.has_data => return Err(self.xml.damaged("a sheet has its cells twice")),
            "sheetData" => {
                (self.has_data, self.is_in_data) = (true, true);
                self.prefix = prefix_of(tag);
            }
            "row" if self.is_in_row => return Err(self.damaged("it contains another row")),
            "row" if self.is_in_data => return self.begin_row(tag).map(SheetItem::Row),
            "c" if self.is_in_row => {
                self.begin_cell(tag, cell)?;
                (self.depth, self.has_value) = (1, false);
            }
            _ => {}
        }
        Ok(SheetItem::Nothing)
    }

    /// Whether an element is in the namespace of the table: whole sheets use one prefix for it.
    fn is_of_table(&self, tag: &BytesStart<'_>) -> bool {
        prefix_of(tag) == self.prefix
    }

    fn end(&mut self, name: &str) -> SheetItem {
        if self.foreign > 0 {
            self.foreign -= 1;
            return SheetItem::Nothing;
        }
        if self.depth > 0 {
            self.depth -= 1;
            match name {
                "v" | "t" => self.is_text = false,
                "rPh" => self.is_phonetic = false,
                _ if self.depth == 0 => return SheetItem::Cell,
                _ => {}
            }
            return SheetItem::Nothing;
        }
        match name {
            "sheetData" => self.is_in_data = false,
            "row" if self.is_in_row => {
                self.is_in_row = false;
                return SheetItem::RowEnd;
            }
            _ => {}
        }
        SheetItem::Nothing
    }

    fn begin_row(&mut self, tag: &BytesStart<'_>) -> Result<u32> {
        let number = match self.xml.attribute(tag, "r")? {
            Some(text) => text.parse().ok(),
            None => self.row.checked_add(1),
        };
        match number.filter(|number| *number > self.row) {
            Some(number) => (self.row, self.next_column, self.is_in_row) = (number, 0, true),
            None => return Err(self.damaged("the row after it has no number, or one that is not higher")),
        }
        Ok(self.row)
    }

    fn begin_cell(&mut self, tag: &BytesStart<'_>, cell: &mut RawCell) -> Result<()> {
        cell.text.clear();
        cell.has_formula = false;
        let [place, kind, style] = ["r", "t", "s"].map(|name| self.xml.attribute(tag, name));
        let column = match place? {
            None => Some(self.next_column),
            Some(place) => place_of(&place).filter(|(_, row)| *row == self.row).map(|(column, _)| column),
        };
        match column.filter(|column| (self.next_column..MAX_COLUMNS).contains(column)) {
            Some(column) => (cell.column, self.next_column) = (column, column + 1),
            None => return Err(self.damaged("a cell is not in this row, or not to the right of the one before it")),
        }
        let kind = kind?;
        (cell.kind, cell.is_inline) = match kind.as_deref() {
            None | Some("n") => (CellType::Number, false),
            Some("s") => (CellType::Shared, false),
            Some("str") => (CellType::Text, false),
            Some("inlineStr") => (CellType::Text, true),
            Some("b") => (CellType::Boolean, false),
            Some("e") => (CellType::Error, false),
            Some("d") => (CellType::IsoTime, false),
            Some(_) => return Err(self.damaged("a cell is of an unknown type")),
        };
        cell.style = match style? {
            None => 0,
            Some(style) => style.parse().map_err(|_| self.damaged("a cell has a style without a number"))?,
        };
        Ok(())
    }
}

fn prefix_of(tag: &BytesStart<'_>) -> Option<String> {
    tag.name().prefix().map(|prefix| prefix.as_ref().to_owned())
}

/// The column, counted from 0, and the row of a place such as `AB12`.
fn place_of(place: &str) -> Option<(usize, u32)> {
    let letters = place.bytes().take_while(u8::is_ascii_alphabetic).count();
    let digit = |letter: u8| usize::from(letter.to_ascii_uppercase() - b'A') + 1;
    let (letters, row) = place.split_at_checked(letters).filter(|(letters, _)| (1..=3).contains(&letters.len()))?;
    let column = letters.bytes().fold(0, |column, letter| column * 26 + digit(letter));
    let is_number = row.bytes().all(|byte| byte.is_ascii_digit());
    Some((column - 1, row.parse().ok().filter(|_| is_number)?))
}

/// The letters of a column, counted from 0.
pub(super) fn letters_of(mut column: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'A' + (column % 26) as u8)); // fits: below 26
        match column / 26 {
            0 => return letters.iter().rev().collect(),
            rest => column = rest - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_have_a_column_and_a_row() {
        for (place, column, row) in [("A1", 0, 1), ("Z9", 25, 9), ("AA10", 26, 10), ("XFD1048576", 16_383, 1_048_576)] {
            assert_eq!(place_of(place), Some((column, row)));
            assert!(place.starts_with(&letters_of(column)), "{place}");
        }
        for place in ["", "1", "A", "AAAA1", "A-1", "A+1", "A1B", "é1", "A99999999999"] {
            assert_eq!(place_of(place), None, "{place}");
        }
    }
}
