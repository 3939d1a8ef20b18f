//! The same events in every format and compression.

use std::sync::Arc;

use arrow_array::*;
use arrow_schema::{DataType, TimeUnit};
use evertally_declare::event::{ColumnRole, Field};
use evertally_declare::identity::Identities;

use super::super::xlsx::tests::{Book, texts};
use super::*;

const CSV: &str = "\
time,airport,carrier,tail,delay,note
2013-01-01T05:00:00Z,JFK,UA,N1,2.50,x
2013-01-01T06:00:00Z,LGA,\"A, A\",,-4,\"two
lines\"
2013-01-02,Zürich,ß,N3,NA,
";

const ROWS: [&str; 3] = [
    "line 2|2013-01-01T05:00:00Z|JFK|UA|N1|2.50",
    "line 3|2013-01-01T06:00:00Z|LGA|A, A||-4",
    "line 5|2013-01-02|Zürich|ß|N3|",
];

const JSON: &str = concat!(
    r#"{"time":"2013-01-01T05:00:00Z","airport":"JFK","carrier":"UA","tail":"N1","delay":2.50,"#,
    r#""note":{"a":[1]}}"#,
    "\n\n",
    r#" { "delay" : "-4", "carrier":"A, A","tail":null, "time":"2013-01-01T06:00:00Z" , "airport":"\u004cGA"}"#,
    "\n",
    r#"{"time":"2013-01-02","airport":"Zürich","carrier":"ß","tail":"N3","delay":"NA"}"#,
);

const JSON_ROWS: [&str; 3] = [
    "line 1|2013-01-01T05:00:00Z|JFK|UA|N1|2.50",
    "line 3|2013-01-01T06:00:00Z|LGA|A, A||-4",
    "line 4|2013-01-02|Zürich|ß|N3|",
];

fn na() -> ReadOptions {
    ReadOptions { missing: vec!["NA".into()], ..ReadOptions::default() }
}

fn wrappings(data: &[u8]) -> Vec<Vec<u8>> {
    let middle = data.len() / 2;
    let twice = [gzip(&data[..middle]), gzip(&data[middle..])].concat();
    let frames = [zst(&data[..middle]), zst(&data[middle..])].concat();
    let marked = [b"\xef\xbb\xbf", data].concat();
    vec![data.to_vec(), gzip(data), twice, zst(data), frames, marked.clone(), gzip(&marked)]
}

#[test]
fn csv_in_every_wrapping() {
    let fixture = Fixture::new().options(na());
    for data in wrappings(CSV.as_bytes()) {
        assert_eq!(fixture.read_bytes(&data).unwrap(), ROWS);
    }
}

#[test]
fn csv_with_windows_line_ends() {
    let data = CSV.replace('\n', "\r\n");
    let fixture = Fixture::new().options(na());
    assert_eq!(fixture.read_bytes(data.as_bytes()).unwrap(), ROWS);
    assert_eq!(fixture.read_bytes(data.trim_end().as_bytes()).unwrap(), ROWS);
}

#[test]
fn csv_with_another_delimiter() {
    let options = ReadOptions { csv: CsvOptions { delimiter: Some(b';'), ..CsvOptions::default() }, ..na() };
    let fixture = Fixture::new().options(options);
    let data = "time;airport;carrier;tail;delay\n2013-01-01;A,B;C;;1\n";
    assert_eq!(fixture.read_bytes(data.as_bytes()).unwrap(), ["line 2|2013-01-01|A,B|C||1"]);
}

#[test]
fn json_lines_in_every_wrapping() {
    let fixture = Fixture::new().options(na());
    for data in wrappings(JSON.as_bytes()) {
        assert_eq!(fixture.read_bytes(&data).unwrap(), JSON_ROWS);
    }
    assert_eq!(fixture.read_bytes(JSON.replace('\n', "\r\n").as_bytes()).unwrap(), JSON_ROWS);
}

#[test]
fn several_files_of_different_formats_in_order() {
    let fixture = Fixture::new().options(na());
    let sources = [
        fixture.file("a", CSV.as_bytes()),
        fixture.file("b", &zst(JSON.as_bytes())),
        fixture.file("c", &parquet_file()),
    ];
    let rows = fixture.read(&sources).unwrap();
    assert_eq!(rows[..3], ROWS);
    assert_eq!(rows[3..6], JSON_ROWS);
    assert_eq!(rows[6..], PARQUET_ROWS);
}

#[test]
fn one_column_may_have_two_roles() {
    let fixture = Fixture::new().columns("time", &["tail"], Some("tail"), None);
    assert_eq!(fixture.read_bytes(b"tail,time\nN1,2013\n").unwrap(), ["line 2|2013|N1|N1|"]);
}

const PARQUET_ROWS: [&str; 2] = ["row 1|2013-01-01T05:00:00Z|JFK|UA|N1|2.5", "row 2|2013-01-01T06:00:00Z|LGA|A, A||"];

pub(in crate::input) fn parquet_file() -> Vec<u8> {
    let time = TimestampMillisecondArray::from(vec![1_357_016_400_000, 1_357_020_000_000]).with_timezone("UTC");
    let carrier: DictionaryArray<types::Int32Type> = ["UA", "A, A"].into_iter().collect();
    parquet_of(vec![
        ("unused", Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef),
        ("delay", Arc::new(Float64Array::from(vec![Some(2.5), None]))),
        ("time", Arc::new(time)),
        ("airport", Arc::new(LargeStringArray::from(vec!["JFK", "LGA"]))),
        ("carrier", Arc::new(carrier)),
        ("tail", Arc::new(StringArray::from(vec![Some("N1"), Some("")]))),
    ])
}

pub(in crate::input) fn parquet_of(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    let mut writer = ::parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn parquet_in_place_and_compressed() {
    let fixture = Fixture::new();
    for data in [parquet_file(), gzip(&parquet_file()), zst(&parquet_file())] {
        assert_eq!(fixture.read_bytes(&data).unwrap(), PARQUET_ROWS);
    }
}

/// An array over several lines, objects over several lines, and an array on one line.
#[test]
fn json_in_every_layout() {
    let fixture = Fixture::new().options(na());
    let objects: Vec<&str> = JSON.split('\n').filter(|line| !line.is_empty()).collect();
    let rows = |lines: [u64; 3]| {
        let without_line = JSON_ROWS.map(|row| row.split_once('|').unwrap().1);
        std::array::from_fn::<_, 3, _>(|i| format!("line {}|{}", lines[i], without_line[i]))
    };
    let array = format!("[{}\n]\n", objects.join(",\n"));
    let pretty =
        objects.iter().map(|object| object.replacen(',', ",\n", 1).replacen('{', "{\n", 1)).collect::<Vec<_>>();
    for (text, lines) in [
        (array, [1, 2, 3]),
        (format!(" [{}] ", objects.join(" , ")), [1, 1, 1]),
        (pretty.join("\n"), [1, 4, 7]),
        (format!("\n[ {} ]", pretty.join("\n,")), [2, 5, 8]),
    ] {
        for data in wrappings(text.as_bytes()) {
            for block_bytes in [1, 7, 128 * 1024] {
                let fixture = Fixture::new().options(ReadOptions { block_bytes, ..na() });
                assert_eq!(fixture.read_bytes(&data).unwrap(), rows(lines), "{text}");
            }
        }
    }
    assert_eq!(fixture.read_bytes(b" [ \n ] ").unwrap(), [""; 0]);
}

const NESTED_ROWS: [&str; 4] = ["2013|EWR|1|5", "2014||2|", "2015||3|", "2016|LGA||6"];

fn nested() -> Fixture {
    Fixture::new().columns("when.at", &["from.airport.code"], Some("tail"), Some("delay.minutes"))
}

#[test]
fn values_inside_of_objects_are_columns() {
    let json = [
        r#"{"when":{"at":"2013"},"from":{"airport":{"code":"EWR"}},"tail":1,"delay":{"minutes":5}}"#,
        r#"{"when":{"at":"2014"},"from":{"airport":null},"tail":2,"delay":null}"#,
        r#"{"when":{"x":[],"at":"2015"},"from":null,"tail":3}"#,
        r#"{"when.at":"2016","from":{"airport.code":"LGA"},"delay":{"minutes":6}}"#,
    ];
    let rows = nested().read_bytes(json.join("\n").as_bytes()).unwrap();
    assert_eq!(rows, std::array::from_fn::<_, 4, _>(|i| format!("line {}|{}", i + 1, NESTED_ROWS[i])));
}

#[test]
fn elements_of_arrays_are_columns() {
    let fixture = Fixture::new().columns("t[1]", &["items[0].id"], Some("items.1.id"), None);
    let json = r#"{"t":[0,1],"items":[{"id":"a"},{"id":"b"},3]}
        {"t":[[],2],"items":[]}
        {"t":[0,3],"items":[null]}"#;
    assert_eq!(fixture.read_bytes(json.as_bytes()).unwrap(), ["line 1|1|a|b|", "line 2|2|||", "line 3|3|||"]);
}

fn structs() -> RecordBatch {
    let text = |texts: [Option<&str>; 4]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
    let of = |name: &str, inner: ArrayRef, nulls: [bool; 4]| -> ArrayRef {
        let field = Arc::new(arrow_schema::Field::new(name, inner.data_type().clone(), true));
        let other = Arc::new(arrow_schema::Field::new("other", DataType::Utf8, true));
        let arrays = vec![text([Some("x"); 4]), inner];
        Arc::new(StructArray::new(vec![other, field].into(), arrays, Some(nulls.to_vec().into())))
    };
    let times = of("at", text([Some("2013"), Some("2014"), Some("2015"), Some("2016")]), [true; 4]);
    let codes = of("code", text([Some("EWR"), Some("JFK"), Some("JFK"), Some("LGA")]), [true, false, true, true]);
    let minutes: ArrayRef = Arc::new(Float64Array::from(vec![5.0, 7.0, 7.0, 6.0]));
    let columns = [
        ("when", times),
        ("from", of("airport", codes, [true, true, false, true])),
        ("tail", Arc::new(Int32Array::from(vec![Some(1), Some(2), Some(3), None]))),
        ("delay", of("minutes", minutes, [true, false, false, true])),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

#[test]
fn fields_of_structs_are_columns() {
    let batch = structs();
    let expected = std::array::from_fn::<_, 4, _>(|i| format!("row {}|{}", i + 1, NESTED_ROWS[i]));
    let mut parquet = ::parquet::arrow::ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    for data in [parquet.into_inner().unwrap(), arrow_stream(&batch, None), arrow_file(&batch, None)] {
        assert_eq!(nested().read_bytes(&data).unwrap(), expected);
        let refused = Fixture::new().columns("when", &[], None, None).error(&data);
        assert!(refused.contains("column `when`: it is a struct") && refused.contains("`other` or `at`"), "{refused}");
        let missing = Fixture::new().columns("when.time", &[], None, None).error(&data);
        assert!(missing.contains("no column `when.time`") && missing.contains("`from.airport.code`"), "{missing}");
    }
}

type Compression = Option<arrow_ipc::CompressionType>;

fn ipc_options(compression: Compression) -> arrow_ipc::writer::IpcWriteOptions {
    arrow_ipc::writer::IpcWriteOptions::default().try_with_compression(compression).unwrap()
}

pub(in crate::input) fn arrow_stream(batch: &RecordBatch, compression: Compression) -> Vec<u8> {
    let options = ipc_options(compression);
    let mut writer =
        arrow_ipc::writer::StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.write(&batch.slice(0, 0)).unwrap();
    writer.into_inner().unwrap()
}

pub(in crate::input) fn arrow_file(batch: &RecordBatch, compression: Compression) -> Vec<u8> {
    let options = ipc_options(compression);
    let mut writer = arrow_ipc::writer::FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn arrow_streams_and_files() {
    let carrier: DictionaryArray<types::Int32Type> = ["UA", "A, A"].into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("unused", Arc::new(StringViewArray::from(vec!["a long text that is not in its view", "x"]))),
        (
            "time",
            Arc::new(TimestampMillisecondArray::from(vec![1_357_016_400_000, 1_357_020_000_000]).with_timezone("UTC")),
        ),
        ("airport", Arc::new(StringArray::from(vec!["JFK", "LGA"]))),
        ("carrier", Arc::new(carrier)),
        ("tail", Arc::new(StringArray::from(vec![Some("N1"), None]))),
        ("delay", Arc::new(Float64Array::from(vec![Some(2.5), None]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap();
    let fixture = Fixture::new();
    for compression in [None, Some(arrow_ipc::CompressionType::LZ4_FRAME), Some(arrow_ipc::CompressionType::ZSTD)] {
        for data in [arrow_stream(&batch, compression), arrow_file(&batch, compression)] {
            assert_eq!(fixture.read_bytes(&data).unwrap(), PARQUET_ROWS);
            assert_eq!(fixture.read_bytes(&gzip(&data)).unwrap(), PARQUET_ROWS);
        }
    }
}

#[test]
fn workbooks_in_place_and_compressed() {
    let fixture = Fixture::new().options(na());
    let mut sheet = texts(1, &["note", "delay", "time", "airport", "carrier", "tail"]);
    sheet += &texts(2, &["x", "", "2013-01-01T05:00:00Z", "JFK", "UA", "N1"])
        .replace("<c r=\"C2\"", "<c r=\"B2\"><v>2.50</v></c><c r=\"C2\"");
    sheet += &texts(3, &["two\nlines", "-4", "2013-01-01T06:00:00Z", "LGA", "A, A"]);
    sheet += &texts(5, &["", "NA", "2013-01-02", "Zürich", "ß", "N3"]);
    let book = Book::of(&sheet);
    let rows = ROWS.map(|row| row.replace("line ", "row "));
    for data in [book.clone(), gzip(&book), zst(&book)] {
        assert_eq!(fixture.read_bytes(&data).unwrap(), rows);
    }
}

#[test]
fn the_only_file_of_an_archive_in_any_format() {
    use crate::input::zip::tests::zip;
    use rawzip::CompressionMethod;
    let fixture = Fixture::new().options(na());
    for method in [CompressionMethod::STORE, CompressionMethod::DEFLATE] {
        let of = |data: &[u8]| zip(&[("events", data, method)]);
        assert_eq!(fixture.read_bytes(&of(CSV.as_bytes())).unwrap(), ROWS);
        assert_eq!(fixture.read_bytes(&of(&gzip(JSON.as_bytes()))).unwrap(), JSON_ROWS);
        assert_eq!(fixture.read_bytes(&gzip(&of(&parquet_file()))).unwrap(), PARQUET_ROWS);
        assert!(fixture.error(&of(&of(CSV.as_bytes()))).contains("unpack it first"));
    }
}

#[test]
fn parquet_columns_of_every_type() {
    let second = 1_357_016_400i64;
    let times: Vec<(ArrayRef, &str)> = vec![
        (Arc::new(TimestampSecondArray::from(vec![second]).with_timezone("UTC")), "2013-01-01T05:00:00Z"),
        (Arc::new(TimestampMicrosecondArray::from(vec![second * 1_000_000])), "2013-01-01T05:00:00"),
        (Arc::new(TimestampNanosecondArray::from(vec![second * 1_000_000_000 + 1999])), "2013-01-01T05:00:00.000001"),
        (Arc::new(TimestampNanosecondArray::from(vec![-1]).with_timezone("+02:00")), "1969-12-31T23:59:59.999999Z"),
        (Arc::new(Date32Array::from(vec![15_706])), "2013-01-01"),
        (Arc::new(Date64Array::from(vec![15_706 * 86_400_000])), "2013-01-01T00:00:00"),
        (Arc::new(Int64Array::from(vec![second])), "1357016400"),
        (Arc::new(Int32Array::from(vec![1_357_016_400])), "1357016400"),
        (Arc::new(StringViewArray::from(vec!["2013-01-01"])), "2013-01-01"),
        (Arc::new(BinaryArray::from(vec![b"2013-01-01".as_slice()])), "2013-01-01"),
        (Arc::new(Float32Array::from(vec![0.1])), "0.1"),
        (Arc::new(Decimal128Array::from(vec![1234]).with_precision_and_scale(10, 2).unwrap()), "12.34"),
        (Arc::new(BooleanArray::from(vec![true])), "true"),
        (Arc::new(UInt8Array::from(vec![200])), "200"),
    ];
    for (array, text) in times {
        let kind = array.data_type().clone();
        let fixture = Fixture::new().columns("t", &[], None, None);
        let rows = fixture.read_bytes(&parquet_of(vec![("t", array)])).unwrap();
        assert_eq!(rows, [format!("row 1|{text}||")], "{kind}");
    }
    assert_eq!(DataType::Timestamp(TimeUnit::Second, None).to_string(), "Timestamp(s)");
}

#[test]
fn text_of_fields_is_borrowed_where_it_can_be() {
    let mut scratch = String::new();
    assert_eq!(Field::Text("a").text(&mut scratch), Some("a"));
    assert_eq!(Field::Missing.text(&mut scratch), None);
    assert_eq!(Field::Integer(-3).text(&mut scratch), Some("-3"));
    assert_eq!(Field::Float(0.1).text(&mut scratch), Some("0.1"));
    assert_eq!(Field::Date(0).text(&mut scratch), Some("1970-01-01"));
    assert_eq!(Field::Instant(i64::MAX).text(&mut scratch), Some("9223372036854775807 µs"));
}

#[test]
fn one_person_has_one_name_whatever_the_type_of_its_number() {
    let fixture = Fixture::new().columns("time", &["airport"], Some("tail"), None);
    let decimals = Decimal128Array::from(vec![Some(1700), None, Some(0)]).with_precision_and_scale(10, 2).unwrap();
    let ids: Vec<(ArrayRef, [&str; 3])> = vec![
        (Arc::new(Int64Array::from(vec![Some(17), None, Some(0)])), ["17", "", "0"]),
        (Arc::new(Float64Array::from(vec![17.0, f64::NAN, -0.0])), ["17", "", "0"]),
        (Arc::new(Float32Array::from(vec![17.0, f32::NAN, -0.0])), ["17", "", "0"]),
        (Arc::new(decimals), ["17", "", "0"]),
        (Arc::new(StringArray::from(vec!["17.0", "", "-0.0"])), ["17", "", "0"]),
    ];
    for (tail, names) in ids {
        let time = Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef;
        let kind = tail.data_type().to_string();
        let airport = Arc::new(Float64Array::from(vec![f64::NAN, 1.5, 2.0])) as ArrayRef;
        let data = parquet_of(vec![("time", time), ("airport", airport), ("tail", tail)]);
        let expected = [["", names[0]], ["1.5", names[1]], ["2", names[2]]].map(|row| row.map(str::to_owned));
        assert_eq!(identities(&fixture, &data), expected, "{kind}");
    }
    let csv = "time,airport,tail\n1,1.0,17.0\n2,NaN,NaN\n";
    assert_eq!(identities(&fixture, csv.as_bytes()), [["1", "17"], ["", ""]].map(|row| row.map(str::to_owned)));
}

/// Group and person of each row, empty if missing.
fn identities(fixture: &Fixture, contents: &[u8]) -> Vec<[String; 2]> {
    let (mut rows, mut scratch) = (Vec::new(), String::new());
    let path = fixture.file("events.csv", contents);
    let visited = fixture.visit(&[path], &AtomicBool::new(false), &mut |event| {
        let mut of =
            |role| event.identity(role, Identities::default(), &mut scratch).map(|id| id.unwrap_or("").to_owned());
        rows.push([of(ColumnRole::Label(0))?, of(ColumnRole::Person)?]);
        Ok(())
    });
    visited.unwrap();
    rows
}
