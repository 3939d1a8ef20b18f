//! Files of original rows that are not counted: late events, and rows that cannot be read. They are **not private**.

use anyhow::Result;
use evertally_declare::error::{PipelineError, Place, failure};
use evertally_declare::event::WholeRow;
use evertally_declare::words::count_of_rows;
use evertally_tables::input::BadRow;
use std::io::Write;

/// The columns of a file of rows that cannot be read.
const BAD_ROW_COLUMNS: [&str; 5] = ["file", "line", "column", "problem", "row"];

/// A CSV file of rows that cannot be read.
pub(super) struct BadRowsFile<W: Write> {
    writer: csv::Writer<W>,
    /// The number of rows so far.
    pub(super) count: u64,
}

impl<W: Write> BadRowsFile<W> {
    /// Starts with the header.
    pub(super) fn new(out: W) -> Result<Self> {
        let mut writer = csv::Writer::from_writer(out);
        writer.write_record(BAD_ROW_COLUMNS)?;
        Ok(Self { writer, count: 0 })
    }

    /// Adds a row.
    pub(super) fn push(&mut self, bad: &BadRow) -> Result<(), PipelineError> {
        let line = match bad.place {
            Some(Place::Line(number) | Place::Row(number)) => number.to_string(),
            None => String::new(),
        };
        let column = bad.column.as_deref().unwrap_or_default();
        let written = self.writer.write_record([&bad.file, &line, column, &bad.problem, &bad.row]);
        self.count += 1;
        written.map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(error) => error.into(),
            other => failure(format_args!("rows that cannot be read are not written ({other:?})")),
        })
    }

    /// The output and the number of rows.
    pub(super) fn finish(self) -> Result<(W, u64)> {
        Ok((self.writer.into_inner().map_err(|error| error.into_error())?, self.count))
    }
}

/// Reports the rows that cannot be read, if there are any.
pub(super) fn report_bad_rows(count: u64, path: &std::path::Path) {
    if count > 0 {
        let rows = count_of_rows(count);
        eprintln!("did not count {rows} that cannot be read: see {}, which is NOT PRIVATE", path.display());
    }
}

/// Whole rows as a CSV table. It has the columns of all rows, in the order in which they occur first.
pub(super) fn csv_of_rows(rows: &[WholeRow]) -> Result<Vec<u8>> {
    let mut names: Vec<&str> = Vec::new();
    let mut records = Vec::with_capacity(rows.len());
    for row in rows {
        let mut record: Vec<Option<&str>> = vec![None; names.len()];
        for (place, (name, text)) in row.cells.iter().enumerate() {
            // Nearly all rows have the same columns; names may occur twice.
            let is_free = |place: &usize| names.get(*place) == Some(&name.as_str()) && record[*place].is_none();
            let found = Some(place).filter(is_free).or_else(|| (0..names.len()).find(is_free));
            match found {
                Some(place) => record[place] = Some(text),
                None => {
                    names.push(name);
                    record.push(Some(text));
                }
            }
        }
        records.push(record);
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&names)?;
    for record in &records {
        let cells = record.iter().map(|cell| cell.unwrap_or_default());
        let padding = std::iter::repeat_n("", names.len() - record.len());
        writer.write_record(cells.chain(padding))?;
    }
    Ok(writer.into_inner().map_err(|error| error.into_error())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_different_files_share_a_table() {
        let row = |cells: &[(&str, &str)]| WholeRow {
            cells: cells.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect(),
            text: String::new(),
        };
        let rows = [
            row(&[("a", "1"), ("b", "2"), ("b", "3")]),
            row(&[("b", "4"), ("c", "x,y")]),
            row(&[("a", ""), ("b", "5"), ("b", "6")]),
        ];
        let csv = String::from_utf8(csv_of_rows(&rows).unwrap()).unwrap();
        assert_eq!(csv, "a,b,b,c\n1,2,3,\n,4,,\"x,y\"\n,5,6,\n");
    }
}
