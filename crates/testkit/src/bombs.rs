//! Small inputs that expand to a great deal of memory, in every input format.
//!
//! Columns are `time` and `person`. Each input must be read or refused within a fixed amount of
//! memory: see the tests of the program, which run it and the service under a limit.

use arrow_array::builder::StringViewBuilder;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use std::io::Write;
use std::sync::Arc;

/// A small input.
pub struct Bomb {
    /// Its effect.
    pub name: &'static str,
    /// The value of `Content-Type`.
    pub format: &'static str,
    /// The value of `Content-Encoding`: the compression of the bytes, if any.
    pub coding: Option<&'static str>,
    /// The body.
    pub bytes: Vec<u8>,
    /// Whether its rows can be read.
    pub is_readable: bool,
}

const PARQUET: &str = "application/vnd.apache.parquet";
const ARROW: &str = "application/vnd.apache.arrow.stream";
const CSV: &str = "text/csv";
const JSON: &str = "application/x-ndjson";

/// Longer than the limit of a cell.
const TOO_LONG: usize = 260_000;
/// About the limit of a cell.
const LONG: usize = 60_000;
/// Longer than a batch.
const ROWS: usize = 20_000;

/// All bombs.
pub fn all() -> Vec<Bomb> {
    let text = |name, format, bytes: Vec<u8>| Bomb {
        name,
        format,
        coding: Some("gzip"),
        bytes: gzip(&bytes),
        is_readable: false,
    };
    let parquet = |name, bytes, is_readable| Bomb { name, format: PARQUET, coding: None, bytes, is_readable };
    let zipped = |name, format, bytes: Vec<u8>, is_readable| Bomb {
        name,
        format,
        coding: Some("gzip"),
        bytes: gzip(&bytes),
        is_readable,
    };
    vec![
        parquet("Parquet: a dictionary with a value that is too long", dictionary_parquet(TOO_LONG), false),
        parquet("Parquet: a dictionary with a long value", dictionary_parquet(LONG), true),
        parquet("Parquet: values that share their beginnings", delta_parquet(), false),
        parquet("Parquet: a page of 300 MB", large_page(Compression::GZIP(Default::default())), false),
        parquet("Parquet: a page of 300 MB, with zstd", large_page(Compression::ZSTD(Default::default())), false),
        parquet("Parquet: pages of few rows", many_pages(), true),
        zipped("Parquet: a footer with many row groups", PARQUET, footer_of_row_groups(), false),
        zipped("Parquet: a footer that claims more than it has", PARQUET, footer_that_claims(), false),
        zipped("Parquet: a schema of many levels", PARQUET, deep_schema(), false),
        zipped("Arrow: a dictionary with a value that is too long", ARROW, arrow(dictionary(TOO_LONG)), false),
        zipped("Arrow: a dictionary with a long value", ARROW, arrow(dictionary(LONG)), true),
        zipped("Arrow: views of one long text", ARROW, arrow(views()), true),
        text("CSV: a header of 15 million columns", CSV, vec![b','; 15 << 20]),
        text("CSV: a row of 15 million cells", CSV, [&b"time,person\n"[..], &vec![b','; 15 << 20]].concat()),
        text("CSV: a line without an end", CSV, [&b"time,person\n"[..], &vec![b'x'; 300 << 20]].concat()),
        text("CSV: a quote without an end", CSV, [&b"time,person\n\""[..], &vec![b'\n'; 40 << 20]].concat()),
        text("CSV: a long cell", CSV, format!("time,person\n2026-01-01,{}\n", "x".repeat(TOO_LONG)).into_bytes()),
        text("JSON: a line without an end", JSON, [&b"{\"time\":\""[..], &vec![b'x'; 40 << 20]].concat()),
        text("JSON: an object of many keys", JSON, format!("{{{}\"z\":0}}", "\"a\":0,".repeat(2_500_000)).into_bytes()),
        text("JSON: arrays inside of arrays", JSON, format!("{{\"x\":{}}}", "[".repeat(8 << 20)).into_bytes()),
    ]
}

/// Compressed with gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn times(rows: usize) -> ArrayRef {
    Arc::new(StringArray::from(vec!["2026-01-01T00:30:00Z"; rows]))
}

fn batch(persons: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter([("time", times(persons.len())), ("person", persons)]).expect("two columns")
}

fn dictionary(length: usize) -> ArrayRef {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(length)]));
    Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![0; ROWS]), texts))
}

fn views() -> ArrayRef {
    let mut views = StringViewBuilder::new();
    let block = views.append_block("y".repeat(LONG).into_bytes().into());
    (0..ROWS).for_each(|_| views.try_append_view(block, 0, LONG as u32).expect("inside the block"));
    Arc::new(views.finish())
}

fn parquet_of(batch: &RecordBatch, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).expect("a schema");
    writer.write(batch).expect("rows");
    writer.close().expect("memory");
    bytes
}

fn dictionary_parquet(length: usize) -> Vec<u8> {
    parquet_of(&batch(dictionary(length)), WriterProperties::builder())
}

fn delta_parquet() -> Vec<u8> {
    let person = "person".into();
    let properties = WriterProperties::builder()
        .set_column_dictionary_enabled(person, false)
        .set_column_encoding("person".into(), Encoding::DELTA_BYTE_ARRAY)
        .set_writer_version(parquet::file::properties::WriterVersion::PARQUET_2_0);
    parquet_of(&batch(dictionary(LONG)), properties)
}

fn large_page(compression: Compression) -> Vec<u8> {
    let persons: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(300 << 20)]));
    let properties = WriterProperties::builder().set_compression(compression).set_dictionary_enabled(false);
    parquet_of(&batch(persons), properties.set_statistics_enabled(parquet::file::properties::EnabledStatistics::None))
}

fn many_pages() -> Vec<u8> {
    let zeros = "0".repeat(LONG - 8);
    let persons = (0..8000).map(|number| format!("{zeros}{number:08}"));
    let persons: ArrayRef = Arc::new(StringArray::from_iter_values(persons));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(Default::default()))
        .set_dictionary_enabled(false)
        .set_data_page_size_limit(1 << 16);
    parquet_of(&batch(persons), properties)
}

fn arrow(persons: ArrayRef) -> Vec<u8> {
    let batch = batch(persons);
    let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a schema");
    writer.write(&batch).expect("rows");
    writer.into_inner().expect("memory")
}

/// A file that consists of a footer only.
fn footer_only(footer: &[u8]) -> Vec<u8> {
    [b"PAR1", footer, &u32::try_from(footer.len()).expect("short").to_le_bytes(), b"PAR1"].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// The head of a footer: a version, and a schema of one column.
fn footer_head() -> Vec<u8> {
    let root = [0x48, 1, b's', 0x15, 2, 0]; // the name, one child
    let column = [0x15, 2, 0x25, 0, 0x18, 1, b't', 0]; // a 32-bit integer, required
    [&[0x15, 2, 0x19, 0x2c][..], &root, &column, &[0x16, 0]].concat()
}

fn footer_of_row_groups() -> Vec<u8> {
    const GROUPS: usize = 20 << 20;
    let list = [&[0x19, 0xfc][..], &varint(GROUPS as u64)].concat();
    footer_only(&[&footer_head()[..], &list, &vec![0; GROUPS], &[0]].concat())
}

fn footer_that_claims() -> Vec<u8> {
    let list = [&[0x19, 0xfc][..], &varint(i32::MAX as u64)].concat();
    footer_only(&[&footer_head()[..], &list, &[0; 100]].concat())
}

fn deep_schema() -> Vec<u8> {
    const LEVELS: usize = 1 << 20;
    let group = [0x35, 0, 0x18, 1, b'g', 0x15, 2, 0]; // required, of one child
    let list = [&[0x15, 2, 0x19, 0xfc][..], &varint(LEVELS as u64)].concat();
    footer_only(&[&list[..], &group.repeat(LEVELS), &[0x16, 0, 0x19, 0x0c, 0]].concat())
}
