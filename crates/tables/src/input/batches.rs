//! Rows of Arrow record batches, from a file or in memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float32Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Date32Array, Float32Array, Float64Array, Int64Array, LargeStringArray, RecordBatch, StringArray,
    StringViewArray,
};
use arrow_buffer::NullBuffer;
use arrow_cast::display::array_value_to_string;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, TimeUnit};

use super::columns::WantedColumn;
use super::limits::{MAX_CELL_BYTES, refuse_long_cells};
use super::pass::{BATCH_ROWS, Pass, text_field};
use evertally_declare::error::{InputError, Place, Result, Unreadable};
use evertally_declare::event::{Cells, Field, WholeRow};
use evertally_declare::words::{any_of, quoted};

/// The name of a table in memory, in messages.
pub(super) const TABLE_NAME: &str = "the table";

/// The metadata key of a column's extension type.
pub(super) const EXTENSION: &str = "ARROW:extension:name";

/// The extension type of UUIDs, which are stored as 16 bytes.
pub(super) const UUID: &str = "arrow.uuid";

/// The most bytes of a value of fixed size: those of the longest hashes in use.
pub(super) const MAX_FIXED_BYTES: i32 = 64;

/// The maximum number of fields of a struct that a message lists.
const MAX_LISTED_FIELDS: usize = 10;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// Significant bits of a half.
const HALF_BITS: u32 = 11;

/// The batches of a table.
type RecordBatches<'t> = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 't>;

/// The rows of a table in memory, or of a stream of record batches. Its columns are used in place; those of types
/// without a cell type are converted a few thousand rows at a time.
pub(super) struct TableRows<'t> {
    name: String,
    batches: RecordBatches<'t>,
    columns: Vec<WantedColumn>,
    /// Rows that were taken from the table but not passed on yet.
    left: Option<RowBatch>,
    row: u64,
}

impl<'t> TableRows<'t> {
    /// A table that has these columns.
    pub(super) fn new(name: &str, batches: RecordBatches<'t>, columns: Vec<WantedColumn>) -> Self {
        TableRows { name: name.to_owned(), batches, columns, left: None, row: 0 }
    }

    /// The next rows; `None` at the end of the table.
    pub(super) fn next(&mut self) -> Result<Option<RowBatch>> {
        let mut rows = match self.left.take() {
            Some(left) => left,
            None => {
                let Some(batch) = self.batches.next() else { return Ok(None) };
                let rows = batch.and_then(|batch| RowBatch::new(&batch, &self.columns, self.row));
                rows.map_err(|e| {
                    InputError::in_file(&*self.name, format!("it cannot be read ({e})"))
                        .at(Place::Row(self.row + 1))
                        .as_unreadable(Unreadable::Damaged)
                })?
            }
        };
        self.left = rows.split_off(BATCH_ROWS);
        self.row += rows.batch.num_rows() as u64;
        Ok(Some(rows))
    }
}

/// Some rows of a file or table, and the number of rows before them.
pub(super) struct RowBatch {
    /// The wanted columns, in their order and under their names in the declaration; then others, for [`WholeRow`].
    pub(super) batch: RecordBatch,
    /// For each column the rows in which it is not missing because a struct around it is null.
    present: Vec<Option<NullBuffer>>,
    before: u64,
}

impl RowBatch {
    /// The wanted columns of a batch.
    pub(super) fn new(batch: &RecordBatch, columns: &[WantedColumn], before: u64) -> Result<Self, ArrowError> {
        let (mut fields, mut arrays, mut present) = (Vec::new(), Vec::new(), Vec::new());
        for wanted in columns {
            let absent = || ArrowError::SchemaError(format!("there is no column {}", quoted(&wanted.name)));
            let (field, array, rows) = wanted.of(batch).ok_or_else(absent)?;
            fields.push(field.as_ref().clone().with_name(&wanted.name).with_nullable(true));
            arrays.push(array);
            present.push(rows);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        Ok(RowBatch { batch, present, before })
    }

    /// Rows that have the wanted columns already.
    pub(super) fn whole(batch: RecordBatch, before: u64) -> Self {
        RowBatch { present: vec![None; batch.num_columns()], batch, before }
    }

    /// Keeps the first rows, and returns the others, if there are any.
    fn split_off(&mut self, rows: usize) -> Option<RowBatch> {
        let left = self.batch.num_rows().checked_sub(rows).filter(|left| *left > 0)?;
        let slice = |start, length| {
            let present = self.present.iter().map(|rows| rows.as_ref().map(|rows| rows.slice(start, length)));
            let before = self.before + start as u64;
            RowBatch { batch: self.batch.slice(start, length), present: present.collect(), before }
        };
        let (first, others) = (slice(0, rows), slice(rows, left));
        *self = first;
        Some(others)
    }

    /// Passes on the rows.
    pub(super) fn visit(&self, file: &str, pass: &mut Pass<'_>) -> Result<()> {
        let columns = self.columns(file, pass.layout.names().len())?;
        let has_long_cells = columns.iter().any(Column::has_long_cells);
        for index in 0..self.batch.num_rows() {
            let cells = BatchRow { batch: &self.batch, columns: &columns, index, missing: pass.missing };
            let place = Place::Row(self.before + index as u64 + 1);
            if has_long_cells {
                refuse_long_cells(file, place, pass.layout, &cells)?;
            }
            pass.emit(file, place, &cells)?;
        }
        Ok(())
    }

    /// The cells of the first columns: those that are wanted.
    fn columns(&self, file: &str, count: usize) -> Result<Vec<Column>, InputError> {
        let arrays = self.batch.schema_ref().fields().iter().zip(self.batch.columns()).zip(&self.present).take(count);
        let column = |((field, array), present): ((&FieldRef, &ArrayRef), &Option<NullBuffer>)| {
            let read = match field.metadata().get(EXTENSION) {
                Some(extension) if extension == UUID => Column::uuids(array),
                // The stored value differs from the logical one: a day's number, or -1 for true.
                Some(extension) => Err(format!(
                    "it has the unsupported extension type {}; convert it to text, numbers, booleans or times",
                    quoted(extension)
                )),
                None => Column::new(array),
            };
            let read = read.map_err(|problem| InputError::in_file(file, problem).in_column(field.name().clone()))?;
            Ok(match present {
                Some(present) => Column::InStruct(present.clone(), Box::new(read)),
                None => read,
            })
        };
        arrays.map(column).collect()
    }
}

/// A column in one of the few cell types. Texts are not copied, and dictionaries are not expanded: a few bytes could
/// stand for any number of copies of a long text.
enum Column {
    Text(StringArray),
    LargeText(LargeStringArray),
    TextView(StringViewArray),
    /// The index of each row's text.
    Dictionary(Int64Array, Box<Column>),
    Integer(Int64Array),
    Float(Float64Array),
    /// A separate variant: the decimal text of a single differs from that of the nearest double. Contains the
    /// significant bits of the column's type, which may be a half.
    Single(Float32Array, u32),
    /// As text, to stay exact.
    Decimal(StringArray),
    Ticks(Ticks),
    Date(Date32Array),
    Null,
    /// Inside of structs, which are present in these rows.
    InStruct(NullBuffer, Box<Column>),
}

/// Times as counts of a unit.
struct Ticks {
    counts: Int64Array,
    unit: TimeUnit,
    is_instant: bool,
}

impl Column {
    fn new(array: &ArrayRef) -> Result<Column, String> {
        use DataType::*;
        Ok(match array.data_type() {
            Utf8 => Column::Text(array.as_string::<i32>().clone()),
            LargeUtf8 => Column::LargeText(array.as_string::<i64>().clone()),
            Utf8View => Column::TextView(array.as_string_view().clone()),
            // Bytes are validated as text, and not copied.
            Binary => return Column::new(&cast(array, &Utf8)?),
            LargeBinary => return Column::new(&cast(array, &LargeUtf8)?),
            BinaryView => return Column::new(&cast(array, &Utf8View)?),
            Boolean | Time32(_) | Time64(_) => Column::text(array)?,
            Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => Column::Decimal(Column::strings(array)?),
            Dictionary(_, values) if is_text(values) => {
                let dictionary = array.as_any_dictionary();
                let keys = cast(&dictionary.keys().slice(0, array.len()), &Int64)?;
                let texts = Column::new(dictionary.values())?;
                Column::Dictionary(keys.as_primitive::<Int64Type>().clone(), Box::new(texts))
            }
            // Values that are not text have at most a few bytes per row.
            Dictionary(_, values) => return Column::new(&cast(array, values)?),
            // Values that do not fit signed 64 bits are read from their digits.
            UInt64 if cast(array, &Int64).is_err() => Column::text(array)?,
            Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 => {
                Column::Integer(cast(array, &Int64)?.as_primitive::<Int64Type>().clone())
            }
            Float16 => Column::Single(cast(array, &Float32)?.as_primitive::<Float32Type>().clone(), HALF_BITS),
            Float32 => Column::Single(array.as_primitive::<Float32Type>().clone(), f32::MANTISSA_DIGITS),
            Float64 => Column::Float(array.as_primitive::<Float64Type>().clone()),
            Timestamp(unit, zone) => Column::ticks(array, *unit, zone.is_some())?,
            Date64 => Column::ticks(array, TimeUnit::Millisecond, false)?,
            Date32 => Column::Date(array.as_primitive::<Date32Type>().clone()),
            FixedSizeBinary(1..=MAX_FIXED_BYTES) => Column::fixed(array, "")?,
            Null => Column::Null,
            other => return Err(unreadable_type(other)),
        })
    }

    /// UUIDs, as programs write them: `123e4567-e89b-12d3-a456-426614174000`.
    fn uuids(array: &ArrayRef) -> Result<Column, String> {
        match array.data_type() {
            DataType::FixedSizeBinary(16) => Column::fixed(array, "-"),
            DataType::Dictionary(_, values) if **values == DataType::FixedSizeBinary(16) => {
                Column::fixed(&cast(array, values)?, "-")
            }
            other => Err(unreadable_type(other)),
        }
    }

    /// Bytes of fixed size as hexadecimal digits, with a separator between the parts of a UUID.
    fn fixed(array: &ArrayRef, separator: &str) -> Result<Column, String> {
        let hex = |bytes: &[u8]| {
            let mut text = String::with_capacity(2 * bytes.len() + 4);
            for (place, byte) in bytes.iter().enumerate() {
                if matches!(place, 4 | 6 | 8 | 10) {
                    text.push_str(separator);
                }
                text.extend([byte >> 4, byte & 15].map(|digit| char::from_digit(digit.into(), 16).expect("four bits")));
            }
            text
        };
        let values = array.as_fixed_size_binary().iter();
        Ok(Column::Text(values.map(|value| value.map(hex)).collect()))
    }

    fn text(array: &ArrayRef) -> Result<Column, String> {
        Self::strings(array).map(Column::Text)
    }

    fn strings(array: &ArrayRef) -> Result<StringArray, String> {
        Ok(cast(array, &DataType::Utf8)?.as_string::<i32>().clone())
    }

    fn ticks(array: &ArrayRef, unit: TimeUnit, is_instant: bool) -> Result<Column, String> {
        let counts = cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone();
        Ok(Column::Ticks(Ticks { counts, unit, is_instant }))
    }

    /// Whether a row has a text that is longer than the limit of a cell.
    fn has_long_cells(&self) -> bool {
        match self {
            Column::Text(a) => a.offsets().windows(2).any(|ends| (ends[1] - ends[0]) as usize > MAX_CELL_BYTES),
            Column::LargeText(a) => a.offsets().windows(2).any(|ends| (ends[1] - ends[0]) as usize > MAX_CELL_BYTES),
            // The lower half of a view is the length of the text.
            Column::TextView(a) => a.views().iter().any(|view| *view as u32 as usize > MAX_CELL_BYTES),
            Column::Dictionary(keys, texts) => keys.iter().flatten().any(|key| texts.text_len(key) > MAX_CELL_BYTES),
            Column::InStruct(_, column) => column.has_long_cells(),
            _ => false,
        }
    }

    /// The length of a text.
    fn text_len(&self, key: i64) -> usize {
        if let Field::Text(text) = self.field(key as usize, &[]) { text.len() } else { 0 }
    }

    #[inline]
    fn field(&self, index: usize, missing: &[String]) -> Field<'_> {
        match self {
            Column::Text(a) if a.is_valid(index) => text_field(a.value(index), missing),
            Column::LargeText(a) if a.is_valid(index) => text_field(a.value(index), missing),
            Column::TextView(a) if a.is_valid(index) => text_field(a.value(index), missing),
            Column::Dictionary(keys, texts) if keys.is_valid(index) => texts.field(keys.value(index) as usize, missing),
            Column::Integer(a) if a.is_valid(index) => Field::Integer(a.value(index)),
            Column::Float(a) if a.is_valid(index) => Field::Float(a.value(index)),
            Column::Single(a, bits) if a.is_valid(index) => {
                Field::Short { value: widened(a.value(index)), bits: *bits }
            }
            Column::Decimal(a) if a.is_valid(index) => Field::Decimal(a.value(index)),
            Column::Ticks(t) if t.counts.is_valid(index) && t.is_instant => Field::Instant(t.micros(index)),
            Column::Ticks(t) if t.counts.is_valid(index) => Field::Civil(t.micros(index)),
            Column::Date(a) if a.is_valid(index) => Field::Date(a.value(index)),
            Column::InStruct(present, column) if present.is_valid(index) => column.field(index, missing),
            _ => Field::Missing,
        }
    }
}

/// Whether values of a type are texts, or bytes that may be texts.
pub(super) fn is_text(kind: &DataType) -> bool {
    use DataType::*;
    matches!(kind, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// Why a column cannot be read.
pub(super) fn unreadable_type(kind: &DataType) -> String {
    match kind {
        DataType::Struct(fields) if !fields.is_empty() => {
            let names: Vec<String> = fields.iter().take(MAX_LISTED_FIELDS).map(|field| quoted(field.name())).collect();
            let names = any_of(names.iter().map(String::as_str));
            format!("it is a struct; name a value in it: this column, a dot, and {names}")
        }
        _ => format!("it has the type {kind}; only plain text, numbers and times can be read"),
    }
}

impl Ticks {
    /// Microseconds, rounded down; clamped to 64 bits, whose ends no calendar reaches.
    fn micros(&self, index: usize) -> i64 {
        let count = self.counts.value(index);
        match self.unit {
            TimeUnit::Second => count.saturating_mul(MICROS_PER_SECOND),
            TimeUnit::Millisecond => count.saturating_mul(1000),
            TimeUnit::Microsecond => count,
            TimeUnit::Nanosecond => count.div_euclid(1000),
        }
    }
}

fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options)
        .map_err(|e| format!("its type {} cannot be read as {to} ({e})", quoted(&array.data_type().to_string())))
}

/// One row of a batch.
struct BatchRow<'r> {
    batch: &'r RecordBatch,
    columns: &'r [Column],
    index: usize,
    missing: &'r [String],
}

impl Cells for BatchRow<'_> {
    #[inline]
    fn cell(&self, slot: usize) -> Field<'_> {
        self.columns[slot].field(self.index, self.missing)
    }

    fn whole(&self) -> WholeRow {
        let schema = self.batch.schema_ref();
        let text = |(place, array): (usize, &ArrayRef)| match self.columns.get(place) {
            Some(column) => column.field(self.index, &[]).to_string(),
            None => shown_cell(array, self.index),
        };
        let texts = self.batch.columns().iter().enumerate().map(text);
        let cells: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).zip(texts).collect();
        // Texts and strings are JSON, so that neither can fail.
        let json = |text: &String| serde_json::to_string(text).unwrap_or_default();
        let pairs: Vec<String> = cells.iter().map(|(name, text)| format!("{}: {}", json(name), json(text))).collect();
        let text = format!("{{{}}}", pairs.join(", "));
        WholeRow { cells, text }
    }
}

/// A cell of any column as text; as its bytes or parts if it has no cell type.
fn shown_cell(column: &ArrayRef, index: usize) -> String {
    match Column::new(&column.slice(index, 1)) {
        Ok(column) => column.field(0, &[]).to_string(),
        Err(_) => array_value_to_string(column, index).unwrap_or_default(),
    }
}

/// The double with the same shortest decimal text: 0.1 stays 0.1 and does not become 0.10000000149011612.
fn widened(value: f32) -> f64 {
    if value == value.trunc() || !value.is_finite() {
        return f64::from(value);
    }
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// The cells of a batch as texts, one list per row.
#[cfg(test)]
pub(super) fn shown(batch: &RecordBatch, names: &[String], missing: &[String]) -> Vec<String> {
    let wanted = super::columns::locate("f", names, batch.schema().fields()).unwrap();
    let columns = RowBatch::new(batch, &wanted, 0).unwrap().columns("f", names.len()).unwrap();
    let row = |index| columns.iter().map(|column| format!("{:?}|", column.field(index, missing))).collect();
    (0..batch.num_rows()).map(row).collect()
}
