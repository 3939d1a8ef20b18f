//! Events as rows of files.

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use evertally_declare::format::Format;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// One row: a text or nothing in each column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The time of the event, as written in the file.
    pub time: String,
    /// The columns that label it.
    pub labels: Vec<Option<String>>,
    /// The person.
    pub person: Option<String>,
    /// The value.
    pub value: Option<String>,
    /// Its step: 0 before the horizon, and the number of steps plus one after it.
    pub step: u64,
    /// Its place in the data, which identifies the rows of a unit.
    pub number: usize,
}

/// The label columns of all cases, in order.
pub(super) const LABELS: [&str; 2] = ["site", "kind"];

/// Writes rows to a new file.
///
/// # Panics
/// If it cannot be written, or no file of events is in this format.
pub fn write_file(path: &Path, format: Format, rows: &[Row]) {
    let mut names = vec!["time"];
    names.extend(LABELS);
    names.extend(["who", "amount"]);
    let cells = |row: &Row| -> Vec<Option<String>> {
        let label = |place: usize| row.labels.get(place).cloned().flatten();
        vec![Some(row.time.clone()), label(0), label(1), row.person.clone(), row.value.clone()]
    };
    let mut file = std::fs::File::create(path).expect("a new file in a temporary folder");
    match format {
        Format::Csv => {
            let line = |cells: Vec<String>| cells.join(",") + "\n";
            let mut text = line(names.iter().map(|name| (*name).to_owned()).collect());
            for row in rows {
                text += &line(cells(row).into_iter().map(Option::unwrap_or_default).collect());
            }
            file.write_all(text.as_bytes()).expect("written");
        }
        Format::JsonLines => {
            for row in rows {
                let entry = |(name, cell): (&&str, Option<String>)| ((*name).to_owned(), cell.into());
                let object: serde_json::Map<_, serde_json::Value> = names.iter().zip(cells(row)).map(entry).collect();
                writeln!(file, "{}", serde_json::Value::Object(object)).expect("written");
            }
        }
        Format::Parquet => {
            let fields = names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect::<Vec<_>>();
            let schema = Arc::new(Schema::new(fields));
            let column = |place: usize| -> ArrayRef {
                Arc::new(rows.iter().map(|row| cells(row)[place].clone()).collect::<StringArray>())
            };
            let columns = (0..names.len()).map(column).collect();
            let batch = RecordBatch::try_new(schema.clone(), columns).expect("columns of equal length");
            let mut writer = parquet::arrow::ArrowWriter::try_new(file, schema, None).expect("a writer");
            writer.write(&batch).expect("written");
            writer.close().expect("closed");
        }
        Format::Arrow | Format::Xes | Format::Xlsx | Format::Json | Format::CommonLog | Format::CombinedLog => {
            panic!("no file of these rows is in {format}")
        }
    }
}
