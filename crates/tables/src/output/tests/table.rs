use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType, UInt64Type};
use arrow_schema::{DataType, TimeUnit};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::output::{TableSpec, TableWriter, format_of};
use evertally_declare::format::Format;
use evertally_declare::steps::Instant;
use evertally_publish::rows::{ReleaseRow, ReleasedValue};

fn row<'a>(groups: &'a [&'a str], step: u64, text: &'a str) -> ReleaseRow<'a> {
    let value = ReleasedValue { text, number: text.parse().unwrap() };
    let span = (Instant::from_micros(1_356_998_400_000_000), Instant::from_micros(1_357_084_800_000_000));
    ReleaseRow { time: "2013-01-01", span, groups, step, value, std_error: 2.5, lower: -1.0, upper: 1e20, view: None }
}

fn spec(integral: bool) -> TableSpec {
    TableSpec::new(vec!["airport".into(), "Flug \"Nr\"".into()], integral).unwrap()
}

fn written(format: Format, integral: bool) -> Vec<u8> {
    let mut table = TableWriter::new(format, &spec(integral), Vec::new()).unwrap();
    table.write(&row(&["Zürich", "a,\"b\"\n"], 1, if integral { "-3" } else { "-3.50" })).unwrap();
    let odd = ReleaseRow { std_error: f64::NAN, lower: f64::NEG_INFINITY, upper: 1e-7, ..row(&["", "x"], 2, "0") };
    table.write(&odd).unwrap();
    table.finish().unwrap()
}

#[test]
fn csv_is_quoted_where_needed() {
    let text = String::from_utf8(written(Format::Csv, false)).unwrap();
    let expected = "time,airport,\"Flug \"\"Nr\"\"\",step,value,std_error,lower,upper\n\
        2013-01-01,Zürich,\"a,\"\"b\"\"\n\",1,-3.50,2.5,-1,1e20\n\
        2013-01-01,,x,2,0,,,1e-7\n";
    assert_eq!(text, expected);
}

#[test]
fn json_lines_keep_the_order_of_columns() {
    let text = String::from_utf8(written(Format::JsonLines, true)).unwrap();
    let expected = concat!(
        r#"{"time":"2013-01-01","airport":"Zürich","Flug \"Nr\"":"a,\"b\"\n","step":1,"value":-3,"#,
        r#""std_error":2.5,"lower":-1,"upper":1e20}"#,
        "\n",
        r#"{"time":"2013-01-01","airport":"","Flug \"Nr\"":"x","step":2,"value":0,"#,
        r#""std_error":null,"lower":null,"upper":1e-7}"#,
        "\n",
    );
    assert_eq!(text, expected);
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn parquet_has_typed_columns() {
    for integral in [true, false] {
        let data = written(Format::Parquet, integral);
        let file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut &file, &data).unwrap();
        let mut batches = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let batch = batches.next().unwrap().unwrap();
        let schema = batch.schema();
        let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names, ["time", "airport", "Flug \"Nr\"", "step", "value", "std_error", "lower", "upper"]);
        assert_eq!(batch.column(1).as_string::<i32>().value(0), "Zürich");
        assert_eq!(batch.column(3).as_primitive::<UInt64Type>().value(1), 2);
        if integral {
            assert_eq!(batch.column(4).as_primitive::<Int64Type>().value(0), -3);
        } else {
            assert_eq!(batch.column(4).as_primitive::<Float64Type>().value(0), -3.5);
        }
        assert_eq!(batch.column(5).null_count(), 1);
    }
}

#[test]
fn parquet_has_instants_of_the_zone_and_the_end_of_each_step() {
    let spec = spec(true).with_instants(&"Europe/Copenhagen".parse().unwrap());
    let mut table = TableWriter::new(Format::Parquet, &spec, tempfile::tempfile().unwrap()).unwrap();
    table.write(&row(&["a", "b"], 1, "5")).unwrap();
    let mut batches = ParquetRecordBatchReaderBuilder::try_new(table.finish().unwrap()).unwrap().build().unwrap();
    let batch = batches.next().unwrap().unwrap();
    for (column, name, micros) in [(0, "time", 1_356_998_400_000_000), (8, "end", 1_357_084_800_000_000)] {
        assert_eq!(batch.schema().field(column).name(), name);
        let zone = Some("Europe/Copenhagen".into());
        assert_eq!(*batch.column(column).data_type(), DataType::Timestamp(TimeUnit::Microsecond, zone));
        assert_eq!(batch.column(column).as_primitive::<TimestampMicrosecondType>().value(0), micros);
    }
    // Text formats keep their columns, and a group column may be called `end` there.
    let ends = TableSpec::new(vec!["end".into()], true).unwrap().with_instants(&"UTC".parse().unwrap());
    let refused = TableWriter::new(Format::Parquet, &ends, Vec::new()).err().unwrap().to_string();
    assert!(refused.contains("`end`") && refused.contains("CSV"), "{refused}");
    let csv = TableWriter::new(Format::Csv, &ends, Vec::new()).unwrap().finish().unwrap();
    assert_eq!(csv, b"time,end,step,value,std_error,lower,upper\n");
}

#[test]
fn parquet_writes_many_row_groups() {
    let spec = TableSpec::new(vec!["g".into()], true).unwrap();
    let mut table = TableWriter::new(Format::Parquet, &spec, tempfile::tempfile().unwrap()).unwrap();
    let rows = 300_000;
    for step in 1..=rows {
        let text = step.to_string();
        table.write(&row(&["a"], step, &text)).unwrap();
    }
    let builder = ParquetRecordBatchReaderBuilder::try_new(table.finish().unwrap()).unwrap();
    assert_eq!(builder.metadata().num_row_groups(), 2);
    let sum: i64 = builder
        .build()
        .unwrap()
        .map(|b| b.unwrap().column(3).as_primitive::<Int64Type>().values().iter().sum::<i64>())
        .sum();
    assert_eq!(sum, (rows * (rows + 1) / 2) as i64);
}

#[test]
fn parquet_refuses_integers_it_cannot_hold() {
    let mut table = TableWriter::new(Format::Parquet, &spec(true), Vec::new()).unwrap();
    let error = table.write(&row(&["", ""], 1, "9223372036854775808")).unwrap_err().to_string();
    assert!(error.contains("9223372036854775808 does not fit") && error.contains("CSV"), "{error}");
}

#[test]
fn group_columns_must_not_clash() {
    let error = TableSpec::new(vec!["step".into()], true).unwrap_err();
    assert!(error.contains("`step`") && error.contains("rename"), "{error}");
    let error = TableSpec::new(vec!["a".into(), "a".into()], true).unwrap_err();
    assert!(error.contains("`a` is named twice"), "{error}");
}

#[test]
fn an_empty_table_still_has_its_columns() {
    let csv = TableWriter::new(Format::Csv, &spec(true), Vec::new()).unwrap().finish().unwrap();
    assert!(csv.starts_with(b"time,airport"));
    let parquet = TableWriter::new(Format::Parquet, &spec(true), Vec::new()).unwrap().finish().unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
}

#[test]
fn formats_by_extension() {
    for (path, format) in [
        ("a.csv", Format::Csv),
        ("a.b.JSONL", Format::JsonLines),
        ("a.ndjson", Format::JsonLines),
        ("x/a.parquet", Format::Parquet),
        ("-", Format::Csv),
    ] {
        assert_eq!(format_of(path.as_ref()).unwrap(), format);
    }
    let error = format_of("a.xls".as_ref()).unwrap_err().to_string();
    assert!(error.contains("a.xls") && error.contains(".jsonl"), "{error}");
    assert!(format_of("csv".as_ref()).is_err());
}
