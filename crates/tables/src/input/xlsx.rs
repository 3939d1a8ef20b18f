//! Excel workbooks (Office Open XML, ISO/IEC 29500): one sheet is a table.
//!
//! A workbook is a zip archive of XML parts. The parts that all sheets share are in memory within a limit, and the rows
//! of the sheet are read one after another. All sizes are those of the bytes that were read: the sizes and counts that
//! a workbook states are ignored.

mod batch;
mod cells;
mod number;
mod part;
mod rows;
mod serials;
mod strings;
mod styles;
mod workbook;

#[cfg(test)]
pub(super) mod tests;

use std::collections::HashSet;
use std::fs::File;
use std::sync::atomic::AtomicBool;

use super::header::missing_column;
use super::opened::SeekableFile;
use super::options::ReadOptions;
pub(super) use batch::SheetBatch;
use cells::{RawCell, SheetItem, SheetXml, letters_of};
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{InputError, Result, refuse_if};
use evertally_declare::problem::{SentencePart, sentence};
use evertally_declare::words::quoted;
pub(super) use rows::SheetRows;
use rows::{CellValues, SheetColumns};
use strings::SharedStrings;
use styles::CellFormats;
use workbook::{SheetEntry, Workbook};

/// The maximum number of sheets that a message lists.
const MAX_LISTED: usize = 30;

/// Items of a sheet between two checks of the cancellation flag.
const ITEMS_PER_CHECK: u32 = 4096;

/// The rows of the sheet that is read.
///
/// # Errors
/// If the workbook is damaged, if it has several sheets and none is declared, or lacks a wanted column.
pub(super) fn open(
    name: &str,
    source: SeekableFile,
    options: &ReadOptions,
    wanted: &[String],
    cancelled: &AtomicBool,
) -> Result<SheetRows> {
    let OpenSheet { file, sheet, values, header } = OpenSheet::new(name, source.file, options, cancelled)?;
    let columns = columns_of(&file, &header, options, wanted)?;
    Ok(SheetRows::new(file, sheet, values, columns, options).with_bytes_to_report(source.bytes_to_report))
}

/// The columns of the sheet that is read, in their order.
pub(super) fn columns(name: &str, file: File, options: &ReadOptions) -> Result<Vec<(String, Option<String>)>> {
    let sheet = OpenSheet::new(name, file, options, &AtomicBool::new(false))?;
    Ok(sheet.header.into_iter().map(|(_, name)| (name, None)).collect())
}

/// A sheet whose header was read, if it has one.
struct OpenSheet {
    /// The name of the file, and of the sheet unless it is the first.
    file: String,
    sheet: SheetXml,
    values: CellValues,
    /// The names of the columns that have one, with their places.
    header: Vec<(usize, String)>,
}

impl OpenSheet {
    fn new(name: &str, file: File, options: &ReadOptions, cancelled: &AtomicBool) -> Result<Self> {
        let workbook = Workbook::open(name, file, options.memory, cancelled)?;
        let entry = chosen(name, &workbook, options, cancelled)?;
        let is_first = workbook.sheets.first().is_some_and(|first| first.name == entry.name);
        let file = if is_first { name.to_owned() } else { format!("{name}, sheet {}", quoted(&entry.name)) };
        let values = CellValues {
            strings: SharedStrings::read(name, &workbook, options.memory, cancelled)?,
            formats: CellFormats::read(&workbook, cancelled)?,
            is_1904: workbook.is_1904,
            has_open_results: workbook.has_open_results,
        };
        let mut sheet = SheetXml::new(workbook.part(&entry.part)?);
        let header = match &options.csv.columns {
            Some(names) => names.iter().cloned().enumerate().filter(|(_, name)| !name.is_empty()).collect(),
            None => rows::header(&file, &mut sheet, &values, options, &mut checked(cancelled))?,
        };
        if header.is_empty() {
            return Err(InputError::in_file(file, "the sheet is empty: it has no row with the names of columns").into());
        }
        Ok(Self { file, sheet, values, header })
    }
}

/// A check of the cancellation flag from time to time.
fn checked(cancelled: &AtomicBool) -> impl FnMut() -> Result<()> {
    let mut items: u32 = 0;
    move || {
        items = items.wrapping_add(1);
        if items.is_multiple_of(ITEMS_PER_CHECK) {
            refuse_if(cancelled)?;
        }
        Ok(())
    }
}

/// The declared sheet, or the only visible one that has cells.
fn chosen<'w>(
    name: &str,
    workbook: &'w Workbook,
    options: &ReadOptions,
    cancelled: &AtomicBool,
) -> Result<&'w SheetEntry> {
    let all: Vec<&SheetEntry> = workbook.sheets.iter().collect();
    if let Some(declared) = &options.sheet {
        return all.iter().copied().find(|sheet| sheet.name == *declared).ok_or_else(|| {
            let problem = format!("there is no sheet {}; it has {}", quoted(declared), listed(&all));
            InputError::in_file(name, problem).into()
        });
    }
    let visible: Vec<&SheetEntry> = all.iter().copied().filter(|sheet| sheet.is_visible).collect();
    let Some(first) = visible.first() else {
        let problem = format!("it has no visible sheet with cells; it has {}", listed(&all));
        let remedy = sentence!["name a sheet with ", SentencePart::Example(Parameter::Sheet)];
        return Err(InputError::in_file(name, problem).remedy(remedy).into());
    };
    if visible.len() == 1 {
        return Ok(first);
    }
    let mut filled = Vec::new();
    for sheet in &visible {
        if has_cells(workbook, sheet, cancelled)? {
            filled.push(*sheet);
        }
    }
    match &filled[..] {
        [] => Ok(first),
        [only] => Ok(only),
        several => {
            let problem = format!("it has {} sheets with cells: {}", several.len(), listed(several));
            let remedy = sentence!["name the one with the events with ", SentencePart::Example(Parameter::Sheet)];
            Err(InputError::in_file(name, problem).remedy(remedy).into())
        }
    }
}

fn listed(sheets: &[&SheetEntry]) -> String {
    if sheets.is_empty() {
        return "no sheets".to_owned();
    }
    let names: Vec<String> = sheets.iter().take(MAX_LISTED).map(|sheet| quoted(&sheet.name)).collect();
    let more = sheets.len().saturating_sub(MAX_LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", names.join(", "))
}

/// Whether a sheet has a cell that is not empty.
fn has_cells(workbook: &Workbook, entry: &SheetEntry, cancelled: &AtomicBool) -> Result<bool> {
    let (mut sheet, mut raw) = (SheetXml::new(workbook.part(&entry.part)?), RawCell::default());
    let mut check = checked(cancelled);
    loop {
        check()?;
        match sheet.next(&mut raw)? {
            SheetItem::Cell if !raw.text.is_empty() => return Ok(true),
            SheetItem::End => return Ok(false),
            _ => {}
        }
    }
}

/// The places of the wanted columns, each of which must occur exactly once.
fn columns_of(
    file: &str,
    header: &[(usize, String)],
    options: &ReadOptions,
    wanted: &[String],
) -> Result<SheetColumns, InputError> {
    let width = header.iter().map(|(place, _)| place + 1).max().unwrap_or_default();
    let (mut slots, mut has_name) = (vec![None; width], vec![false; width]);
    header.iter().for_each(|(place, _)| has_name[*place] = true);
    let mut names = wanted.to_vec();
    for (slot, name) in wanted.iter().enumerate() {
        let mut places = header.iter().filter(|(_, other)| other == name).map(|(place, _)| *place);
        let Some(first) = places.next() else {
            let present: Vec<&str> = header.iter().map(|(_, name)| &**name).collect();
            return Err(missing_column(file, name, &present));
        };
        if let Some(second) = places.next() {
            let places = format!("columns {} and {}", letters_of(first), letters_of(second));
            return Err(super::header::repeated_column(file, name, &places));
        }
        slots[first] = Some(slot);
    }
    if options.whole_rows {
        let mut seen: HashSet<&str> = HashSet::new();
        let twice: HashSet<&str> = header.iter().map(|(_, name)| &**name).filter(|name| !seen.insert(name)).collect();
        for (place, name) in header.iter().filter(|(_, name)| !twice.contains(&**name)) {
            if slots[*place].is_none() {
                slots[*place] = Some(names.len());
                names.push(name.clone());
            }
        }
    }
    Ok(SheetColumns { names: names.into(), slots, has_name, declared: options.csv.columns.clone() })
}
