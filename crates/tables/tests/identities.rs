//! Spellings of persons, groups and items in every format and column type: which are one identity, and which are
//! refused.
//!
//! The tables in `docs/reference/identities.md` are generated from this test.

use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_schema::{DataType, Field, Schema};
use evertally_declare::error::PipelineError;
use evertally_declare::event::{ColumnRole, Columns, Event};
use evertally_declare::groups::GroupTable;
use evertally_declare::identity::Identities;
use evertally_tables::input::{Events, ReadOptions};
use parquet::arrow::ArrowWriter;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod workbook;

const MISSING: &str = "missing";
const REFUSED: &str = "refused";

/// An identity and the texts that spell it, or texts that are refused or missing.
const SPELLINGS: &[(&str, &[&str])] = &[
    ("17", &["17", "17.0", "17.00", "17.", "+17", "1.7e1", "1.7E+01", "170e-1", "0.17e2", "17e0"]),
    ("017", &["017", "017.0"]),
    ("0017", &["0017"]),
    ("17 ", &["17 "]),
    (" 17", &[" 17"]),
    ("1_7", &["1_7"]),
    ("1,700", &["1,700"]),
    ("0x11", &["0x11"]),
    ("１７", &["１７"]),
    ("100000", &["100000", "1e5", "1e+05", "1E5", "1E+05", "1.0e5", "100000.0", "10e4", "0.1e6", "1e005"]),
    ("0", &["0", "0.0", "-0", "-0.0", "+0", "0e0", ".0", "0.", "0e999"]),
    ("00", &["00", "-00.0"]),
    ("-5", &["-5", "-5.0", "-5e0", "-0.5e1"]),
    ("0.1", &["0.1", ".1", "0.10", "0.100", "+0.1", "+.1", "1e-1", "1.0E-1", "1e-01"]),
    ("0.5", &["0.5", "0.5000", ".5", "5e-1", "5.0e-1"]),
    ("0.0000001", &["0.0000001", "1e-7", "1e-07", "1.0E-7"]),
    ("-0.25", &["-0.25", "-.25", "-25e-2"]),
    ("9007199254740991", &["9007199254740991", "9007199254740991.0", "9.007199254740991e15", "9.007199254740991E+15"]),
    ("9007199254740992", &["9007199254740992"]),
    ("9007199254740993", &["9007199254740993", "9007199254740993e0"]),
    (REFUSED, &["9007199254740992.0", "9007199254740993.0", "9.007199254740992e15", "-9007199254740992.0"]),
    ("1234567890123456789", &["1234567890123456789", "+1234567890123456789"]),
    (REFUSED, &["1.2345678901234568e+18", "1.2345678901234568e18", "1.2345678901234568E18", "1.23456789012346e+18"]),
    (REFUSED, &["1.23457E+11", "1.23457E+17", "1.23456789012346e+15"]),
    ("18446744073709551615", &["18446744073709551615"]),
    ("1000000000000000000000000000000", &["1e30", "1E30", "10e29", "1000000000000000000000000000000"]),
    (REFUSED, &["1e+30", "1.0E30", "1.0e30", "-1e+30"]),
    ("340282366920938463463374607431768211456", &["340282366920938463463374607431768211456"]),
    ("12e4567", &["12e4567", "12E4567", "120e4566"]),
    ("1e99999999999999999999", &["1e99999999999999999999"]),
    ("true", &["true", "True", "TRUE"]),
    ("false", &["false", "False", "FALSE"]),
    ("t", &["t"]),
    ("yes", &["yes"]),
    ("1", &["1", "1.0"]),
    ("inf", &["inf", "Inf", "INF", "+inf", "Infinity", "infinity"]),
    ("-inf", &["-inf", "-Inf", "-Infinity"]),
    (MISSING, &["NaN", "nan", "-nan"]),
    ("Nan", &["Nan"]),
    ("NA", &["NA"]),
    ("None", &["None"]),
    (
        "2024-01-01",
        &[
            "2024-01-01",
            "2024-01-01T00:00:00",
            "2024-01-01 00:00:00",
            "2024-01-01T00:00",
            "2024-01-01T00:00:00Z",
            "2024-01-01t00:00:00z",
            "2024-01-01T00:00:00.000",
            "2024-01-01T00:00:00.000000000Z",
            "2024-01-01 00:00:00+00:00",
            "2024-01-01 00:00:00+00",
            "2024-01-01 00:00:00 UTC",
            "2024-01-01T02:00:00+02:00",
            "2023-12-31T19:00:00-0500",
        ],
    ),
    (
        "2024-01-01T10:30:00.5",
        &["2024-01-01T10:30:00.5", "2024-01-01 10:30:00.500", "2024-01-01T10:30:00.5Z", "2024-01-01T12:30:00.50+02:00"],
    ),
    ("9999-12-31", &["9999-12-31", "9999-12-31 00:00:00"]),
    ("20240101", &["20240101", "20240101.0"]),
    ("01/01/2024", &["01/01/2024"]),
    ("2024-1-1", &["2024-1-1"]),
    ("2024-02-30", &["2024-02-30"]),
    ("ann", &["ann"]),
    ("Ann", &["Ann"]),
    ("ann ", &["ann "]),
    ("é", &["é"]),
    ("e\u{301}", &["e\u{301}"]),
    ("10.0.0.0", &["10.0.0.0"]),
    ("v1.10", &["v1.10"]),
    ("1e", &["1e"]),
    ("-", &["-"]),
];

/// Columns of one value: the value, and the array of its type.
fn typed() -> Vec<(&'static str, &'static str, ArrayRef)> {
    fn of<A: Array + 'static>(
        name: &'static str,
        shown: &'static str,
        array: A,
    ) -> (&'static str, &'static str, ArrayRef) {
        (name, shown, Arc::new(array))
    }
    let decimal = |digits: i128, precision, scale| {
        Decimal128Array::from(vec![digits]).with_precision_and_scale(precision, scale).unwrap()
    };
    let (noon, second) = (1_704_105_000_500i64, 1_704_067_200i64);
    let mut all = vec![
        of("17", "17", Int8Array::from(vec![17])),
        of("17", "17", Int16Array::from(vec![17])),
        of("17", "17", Int32Array::from(vec![17])),
        of("17", "17", Int64Array::from(vec![17])),
        of("17", "17", UInt8Array::from(vec![17])),
        of("17", "17", UInt16Array::from(vec![17])),
        of("17", "17", UInt32Array::from(vec![17])),
        of("17", "17", UInt64Array::from(vec![17])),
        of("17", "17", Float32Array::from(vec![17.0])),
        of("17", "17", Float64Array::from(vec![17.0])),
        of("17", "17.00", decimal(1700, 10, 2)),
        of("17", "17", decimal(17, 38, 0)),
        of("100000", "100000", Int32Array::from(vec![100_000])),
        of("100000", "100000", Float32Array::from(vec![1e5])),
        of("100000", "100000", Float64Array::from(vec![1e5])),
        of("0", "-0", Float64Array::from(vec![-0.0])),
        of("0", "-0", Float32Array::from(vec![-0.0])),
        of("-5", "-5", Int64Array::from(vec![-5])),
        of("-5", "-5", Float64Array::from(vec![-5.0])),
        of("0.1", "0.1", Float32Array::from(vec![0.1])),
        of("0.1", "0.1", Float64Array::from(vec![0.1])),
        of("0.1", "0.10", decimal(10, 10, 2)),
        of("0.0000001", "1e-7", Float64Array::from(vec![1e-7])),
        of("16777215", "2^24 - 1", Float32Array::from(vec![16_777_215.0])),
        of(REFUSED, "2^24", Float32Array::from(vec![16_777_216.0])),
        of("9007199254740991", "2^53 - 1", Int64Array::from(vec![(1 << 53) - 1])),
        of("9007199254740991", "2^53 - 1", Float64Array::from(vec![9_007_199_254_740_991.0])),
        of("9007199254740992", "2^53", Int64Array::from(vec![1 << 53])),
        of(REFUSED, "2^53", Float64Array::from(vec![9_007_199_254_740_992.0])),
        of("9007199254740993", "2^53 + 1", Int64Array::from(vec![(1 << 53) + 1])),
        of("9007199254740993", "2^53 + 1", UInt64Array::from(vec![(1 << 53) + 1])),
        of("9007199254740993", "2^53 + 1", decimal((1 << 53) + 1, 20, 0)),
        of("9007199254740993", "2^53 + 1", decimal(((1 << 53) + 1) * 100, 20, 2)),
        of("1234567890123456789", "1234567890123456789", Int64Array::from(vec![1_234_567_890_123_456_789])),
        of("1234567890123456790", "1234567890123456790", Int64Array::from(vec![1_234_567_890_123_456_790])),
        of(REFUSED, "1234567890123456789", Float64Array::from(vec![1_234_567_890_123_456_789i64 as f64])),
        of("9223372036854775807", "2^63 - 1", UInt64Array::from(vec![u64::MAX >> 1])),
        of("18446744073709551615", "2^64 - 1", UInt64Array::from(vec![u64::MAX])),
        of("18446744073709551615", "2^64 - 1", decimal(u64::MAX.into(), 38, 0)),
        of(REFUSED, "1e30", Float64Array::from(vec![1e30])),
        of("1000000000000000000000000000000", "1e30", decimal(10i128.pow(30), 38, 0)),
        of(REFUSED, "infinity", Float64Array::from(vec![f64::INFINITY])),
        of(REFUSED, "-infinity", Float32Array::from(vec![f32::NEG_INFINITY])),
        of(MISSING, "NaN", Float64Array::from(vec![f64::NAN])),
        of(MISSING, "NaN", Float32Array::from(vec![f32::NAN])),
        of(MISSING, "null", Int64Array::from(vec![None])),
        of(MISSING, "null", StringArray::from(vec![None::<&str>])),
        of("true", "true", BooleanArray::from(vec![true])),
        of("false", "false", BooleanArray::from(vec![false])),
        of("2024-01-01", "2024-01-01", Date32Array::from(vec![19_723])),
        of("2024-01-01", "2024-01-01", Date64Array::from(vec![second * 1000])),
        of("2024-01-01", "2024-01-01T00:00:00", TimestampSecondArray::from(vec![second])),
        of("2024-01-01", "2024-01-01T00:00:00", TimestampMillisecondArray::from(vec![second * 1000])),
        of("2024-01-01", "2024-01-01T00:00:00", TimestampMicrosecondArray::from(vec![second * 1_000_000])),
        of("2024-01-01", "2024-01-01T00:00:00", TimestampNanosecondArray::from(vec![second * 1_000_000_000])),
        of(
            "2024-01-01",
            "2024-01-01T00:00:00Z",
            TimestampMicrosecondArray::from(vec![second * 1_000_000]).with_timezone("UTC"),
        ),
        of(
            "2024-01-01",
            "2024-01-01T02:00:00+02:00",
            TimestampMillisecondArray::from(vec![second * 1000]).with_timezone("+02:00"),
        ),
        of("2024-01-01T10:30:00.5", "2024-01-01T10:30:00.5", TimestampMillisecondArray::from(vec![noon])),
        of(
            "2024-01-01T10:30:00.5",
            "2024-01-01T10:30:00.5Z",
            TimestampNanosecondArray::from(vec![noon * 1_000_000]).with_timezone("UTC"),
        ),
        of("00ff", "2 bytes 00 ff", FixedSizeBinaryArray::try_from_iter([[0u8, 255]].into_iter()).unwrap()),
        of("9999-12-31", "9999-12-31", Date32Array::from(vec![2_932_896])),
        of("9999-12-31", "9999-12-31T00:00:00", TimestampMillisecondArray::from(vec![2_932_896 * 86_400_000])),
    ];
    all.sort_by_key(|(name, ..)| SPELLINGS.iter().position(|(known, _)| known == name).unwrap_or(usize::MAX));
    all
}

/// The result of a cell: its identity, refused, or missing.
fn found(event: &Event<'_>) -> String {
    let as_role = |role: ColumnRole| {
        let mut scratch = String::new();
        match event.identity(role, Identities::default(), &mut scratch) {
            Ok(name) => name.unwrap_or(MISSING).to_owned(),
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains("column `id`") && text.ends_with("; write ids as integers or as text"), "{text}");
                REFUSED.to_owned()
            }
        }
    };
    let [person, group] = [ColumnRole::Person, ColumnRole::Label(0)].map(as_role);
    assert_eq!(person, group, "persons are known by the same rule as groups and items");
    check_groups(event, &person);
    person
}

/// Declared groups in every spelling: the cell of an event is in the group of its identity, however either is spelled
/// and stored. All other groups are the rest.
fn check_groups(event: &Event<'_>, identity: &str) {
    let place_of = |name: &str| {
        let table =
            GroupTable::from_names(vec!["id".into()], vec![name.into()], Some("rest".into()), Identities::default());
        table.unwrap().place_of(event).ok()
    };
    for (name, spellings) in SPELLINGS {
        // No group is declared by these names.
        let is_name = |spelling: &&&str| !matches!(*name, MISSING | REFUSED) && spelling.trim() == **spelling;
        for spelling in spellings.iter().filter(is_name).chain([&"unlike"]) {
            let expected = match identity {
                REFUSED => None,
                identity if identity == *name && *spelling != "unlike" => Some(Some(0)),
                _ => Some(Some(1)),
            };
            assert_eq!(place_of(spelling), expected, "{identity} in a table of {spelling}");
        }
    }
}

/// Reads identities from files of every format, and from tables in memory.
struct Formats {
    folder: tempfile::TempDir,
    columns: Columns,
    options: ReadOptions,
    running: AtomicBool,
    checks: usize,
}

impl Formats {
    fn new() -> Self {
        let id = || "id".to_owned();
        Self {
            folder: tempfile::tempdir().unwrap(),
            columns: Columns {
                time: "time".into(),
                time_of_day: None,
                labels: vec![id()],
                person: Some(id()),
                value: None,
                filter: Vec::new(),
            },
            options: ReadOptions::default(),
            running: AtomicBool::new(false),
            checks: 0,
        }
    }

    /// The identity in the column `id` of a file with one row.
    fn file(&mut self, contents: &[u8]) -> String {
        let path: PathBuf = self.folder.path().join("events");
        std::fs::write(&path, contents).unwrap();
        let events = Events::from_files(&[path], &self.columns, &self.options, &(), &self.running).unwrap();
        self.checks += 1;
        identity_in(events)
    }

    fn csv(&mut self, spelling: &str) -> String {
        self.file(format!("time,id\n2024-01-01,\"{spelling}\"\n").as_bytes())
    }

    fn json(&mut self, value: &str) -> String {
        self.file(format!("{{\"time\":\"2024-01-01\",\"id\":{value}}}\n").as_bytes())
    }

    /// A workbook with a cell of this XML.
    fn workbook(&mut self, cell: &str) -> String {
        let text = |text: &str| format!("<c t=\"inlineStr\"><is><t>{text}</t></is></c>");
        let header = format!("<row>{}{}</row>", text("time"), text("id"));
        let row = format!("<row>{}{cell}</row>", text("2024-01-01"));
        self.file(&workbook::workbook(&[], &[(&header, 1), (&row, 1)]))
    }

    fn parquet(&mut self, ids: &ArrayRef) -> String {
        self.parquet_batch(&with_times(ids))
    }

    fn parquet_batch(&mut self, batch: &RecordBatch) -> String {
        let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        writer.write(batch).unwrap();
        self.file(&writer.into_inner().unwrap())
    }

    fn arrow(&mut self, ids: &ArrayRef) -> String {
        self.arrow_batch(with_times(ids))
    }

    fn arrow_batch(&mut self, batch: RecordBatch) -> String {
        let schema = batch.schema();
        let mut table = RecordBatchIterator::new([Ok(batch)], schema);
        self.checks += 1;
        identity_in(Events::from_table(&mut table, &self.columns, &self.options, &self.running).unwrap())
    }
}

fn with_times(ids: &ArrayRef) -> RecordBatch {
    let time: ArrayRef = Arc::new(StringArray::from(vec!["2024-01-01"]));
    RecordBatch::try_from_iter_with_nullable([("time", time, true), ("id", Arc::clone(ids), true)]).unwrap()
}

/// The identity in the column `id` of an input with one row.
fn identity_in(mut events: Events<'_>) -> String {
    let mut name = None;
    while events.next_batch::<PipelineError>(&mut |event| Ok(name = Some(found(event)))).unwrap() {}
    assert_eq!(events.summary().rows, 1);
    name.expect("a row")
}

/// A text for display in the tables: escaped where it would be invisible.
fn shown(text: &str) -> String {
    let is_plain = text.is_ascii() && text.trim() == text;
    let escaped =
        |c: char| if c.is_ascii() || c.is_alphanumeric() { c.to_string() } else { format!("\\u{:04x}", c as u32) };
    if is_plain { format!("`{text}`") } else { format!("`\"{}\"`", text.chars().map(escaped).collect::<String>()) }
}

/// An outcome for display in the tables.
fn outcome(name: &str) -> String {
    if matches!(name, MISSING | REFUSED) { format!("*{name}*") } else { shown(name) }
}

fn type_of(array: &ArrayRef) -> String {
    match array.data_type() {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
            array.data_type().to_string().to_lowercase()
        }
        DataType::Timestamp(unit, zone) => {
            format!("timestamp[{unit}{}]", zone.as_ref().map_or(String::new(), |zone| format!(", {zone}")))
        }
        DataType::Decimal128(precision, scale) => format!("decimal({precision}, {scale})"),
        DataType::Boolean => "bool".into(),
        DataType::Utf8 => "text".into(),
        other => other.to_string().to_lowercase(),
    }
}

#[test]
fn spellings_have_one_identity_in_every_format() {
    let mut formats = Formats::new();
    let mut lines = vec![
        "| spelling | CSV | text in JSON, XLSX | JSON number, boolean | text column of Parquet, Arrow |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for (name, spellings) in SPELLINGS {
        for spelling in *spellings {
            let texts: [ArrayRef; 5] = [
                Arc::new(StringArray::from(vec![*spelling])),
                Arc::new(LargeStringArray::from(vec![*spelling])),
                Arc::new(StringViewArray::from(vec![*spelling])),
                Arc::new(BinaryArray::from(vec![spelling.as_bytes()])),
                Arc::new([*spelling].into_iter().collect::<DictionaryArray<Int32Type>>()),
            ];
            let csv = formats.csv(spelling);
            let text = formats.json(&serde_json::to_string(spelling).unwrap());
            let is_literal = spelling.trim() == *spelling
                && serde_json::from_str::<Box<serde_json::value::RawValue>>(spelling).is_ok();
            let literal = is_literal.then(|| formats.json(spelling));
            let parquet = formats.parquet(&texts[0]);
            let cell = formats.workbook(&format!("<c t=\"inlineStr\"><is><t>{spelling}</t></is></c>"));
            assert_eq!(cell, *name, "{spelling:?} as a text of a workbook");
            let number = spelling.parse::<f64>().ok().filter(|number| number.is_finite());
            if let Some(number) = number.filter(|_| spelling.trim() == *spelling) {
                // As doubles of Parquet.
                let expected = if number.abs() < 9_007_199_254_740_992.0 { *name } else { REFUSED };
                let cell = formats.workbook(&format!("<c><v>{spelling}</v></c>"));
                assert_eq!(cell, expected, "{spelling:?} as a number of a workbook");
            }
            for outcome in [&csv, &text, &parquet].into_iter().chain(&literal) {
                assert_eq!(outcome, name, "{spelling:?}");
            }
            for array in &texts {
                assert_eq!(formats.arrow(array), *name, "{spelling:?} as {}", array.data_type());
            }
            let literal = literal.map_or("–".to_owned(), |literal| outcome(&literal));
            let [csv, text, parquet] = [csv, text, parquet].map(|name| outcome(&name));
            lines.push(format!("| {} | {csv} | {text} | {literal} | {parquet} |", shown(spelling)));
        }
    }
    lines.extend([
        String::new(),
        "| value | type of the column | Parquet | Arrow |".into(),
        "|---|---|---|---|".into(),
    ]);
    for (name, value, array) in typed() {
        let [parquet, arrow] = [formats.parquet(&array), formats.arrow(&array)];
        assert_eq!((parquet.as_str(), arrow.as_str()), (name, name), "{value} as {}", array.data_type());
        let [parquet, arrow] = [parquet, arrow].map(|name| outcome(&name));
        lines.push(format!("| `{value}` | {} | {parquet} | {arrow} |", type_of(&array)));
    }
    assert_eq!(formats.json("null"), MISSING);
    assert!(formats.checks >= 800, "{} spellings and formats", formats.checks);
    in_the_guide(&(lines.join("\n") + "\n"));
}

/// Compares the tables with those of the guide, or writes them there.
fn in_the_guide(tables: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/identities.md");
    let guide = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- spellings -->\n", "<!-- end of spellings -->\n");
    let (before, rest) = guide.split_once(begin).expect("the guide has the place of the tables");
    let (written, after) = rest.split_once(end).expect("the guide has the end of the tables");
    if std::env::var_os("EVERTALLY_WRITE_SPELLINGS").is_some() {
        std::fs::write(path, [before, begin, tables, end, after].concat()).unwrap();
        return;
    }
    let how = "docs/reference/identities.md is stale: run this test with EVERTALLY_WRITE_SPELLINGS=1, and commit it";
    assert!(written == tables, "{how}");
}

/// Dates, booleans and numbers in the 17 digits of Excel have the identity of their texts.
#[test]
fn cells_of_workbooks_have_the_identity_of_their_texts() {
    let mut formats = Formats::new();
    for (name, cell) in [
        ("2024-01-01", r#"<c s="1"><v>45292</v></c>"#),
        ("2024-01-01T10:30:00.5", r#"<c s="1"><v>45292.437505787035</v></c>"#),
        ("2024-01-01", r#"<c t="d" s="1"><v>2024-01-01T00:00:00</v></c>"#),
        ("true", r#"<c t="b"><v>1</v></c>"#),
        ("0.1", "<c><v>0.10000000000000001</v></c>"),
        ("17", "<c><v>17.000000000000000</v></c>"),
        (REFUSED, "<c><v>1.2345678901234568E+18</v></c>"),
        (REFUSED, "<c><v>9007199254740992</v></c>"),
        (MISSING, "<c><v></v></c>"),
        (MISSING, r#"<c t="str"><v></v></c>"#),
    ] {
        assert_eq!(formats.workbook(cell), name, "{cell}");
    }
}

/// A UUID is one person as text, as bytes of Arrow's extension type, and in Parquet.
#[test]
fn a_uuid_is_one_identity_in_every_format() {
    let name = "123e4567-e89b-12d3-a456-426614174000";
    let bytes = u128::from_str_radix(&name.replace('-', ""), 16).unwrap().to_be_bytes();
    let uuids: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter([bytes].into_iter()).unwrap());
    let extension = HashMap::from([("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())]);
    let field = Field::new("id", uuids.data_type().clone(), true).with_metadata(extension);
    let time: ArrayRef = Arc::new(StringArray::from(vec!["2024-01-01"]));
    let schema = Arc::new(Schema::new(vec![Field::new("time", DataType::Utf8, true), field]));
    let batch = RecordBatch::try_new(schema, vec![time, uuids]).unwrap();
    let mut formats = Formats::new();
    assert_eq!(formats.csv(name), name);
    assert_eq!(formats.json(&format!("\"{name}\"")), name);
    assert_eq!(formats.arrow_batch(batch.clone()), name);
    assert_eq!(formats.parquet_batch(&batch), name);
}
