//! Columns that Arrow's writer does not make: INT96, UUIDs, bytes of fixed size.

use std::sync::Arc;

use parquet::data_type::{ByteArray, DataType, FixedLenByteArray, FixedLenByteArrayType, Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::super::super::tests::Fixture;
use super::*;

/// A file of one column, declared as Parquet's schema language writes it.
fn column<T: DataType>(declared: &str, values: &[T::T]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(&format!("message m {{ required {declared}; }}")).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::new())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut of_column = group.next_column().unwrap().unwrap();
    of_column.typed::<T>().write_batch(values, None, None).unwrap();
    of_column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

fn cells(bytes: &[u8]) -> Vec<String> {
    let fixture = Fixture::new();
    rows_of(read_here(&fixture.file("f", bytes), &["c"], &ReadOptions::default()).unwrap().into_iter())
}

/// An INT96 of a day since 1970 and nanoseconds in it.
fn int96(day: i64, nanos: u64) -> Int96 {
    let mut value = Int96::new();
    value.set_data(nanos as u32, (nanos >> 32) as u32, (day + 2_440_588) as u32);
    value
}

/// INT96 is an instant, as Spark writes it, in every year of the calendar.
#[test]
fn int96_is_an_instant_in_any_year() {
    const DAY: i64 = 86_400_000_000;
    let noon = 12 * 3_600_000_000_000u64;
    // 0001-01-01, 1900-01-01, 1969-12-31, 1970-01-01, 2262-04-12, 2300-01-01, 9999-12-31
    let days = [-719_162, -25_567, -1, 0, 106_752, 120_530, 2_932_896];
    let values: Vec<Int96> = days.iter().map(|day| int96(*day, noon + 1_999)).collect();
    let expected: Vec<String> = days.iter().map(|day| format!("Instant({})|", day * DAY + DAY / 2 + 1)).collect();
    assert_eq!(cells(&column::<Int96Type>("int96 c", &values)), expected);
}

#[test]
fn uuids_and_bytes_of_fixed_size_are_hexadecimal() {
    let of = |bytes: &[u8]| FixedLenByteArray::from(ByteArray::from(bytes.to_vec()));
    let uuid: Vec<u8> = (0..16).map(|place| place * 16 + 15 - place).collect();
    let file = column::<FixedLenByteArrayType>("fixed_len_byte_array(16) c (UUID)", &[of(&uuid), of(&[0; 16])]);
    let nil = "Text(\"00000000-0000-0000-0000-000000000000\")|";
    assert_eq!(cells(&file), ["Text(\"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0\")|", nil]);
    let file = column::<FixedLenByteArrayType>("fixed_len_byte_array(16) c", &[of(&uuid)]);
    assert_eq!(cells(&file), ["Text(\"0f1e2d3c4b5a69788796a5b4c3d2e1f0\")|"]);
    let file = column::<FixedLenByteArrayType>("fixed_len_byte_array(64) c", &[of(&[0xab; 64])]);
    assert_eq!(cells(&file), [format!("Text(\"{}\")|", "ab".repeat(64))]);
    let file = column::<FixedLenByteArrayType>("fixed_len_byte_array(65) c", &[of(&[0xab; 65])]);
    let fixture = Fixture::new();
    let error = read_here(&fixture.file("f", &file), &["c"], &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("it has the type FixedSizeBinary(65)"), "{error}");
}

/// A column of JSON in the file does not change how others are read.
#[test]
fn uuids_stay_uuids_next_to_json() {
    let declared = "message m { required binary j (JSON); required fixed_len_byte_array(16) c (UUID); }";
    let schema = Arc::new(parse_message_type(declared).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::new())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut json = group.next_column().unwrap().unwrap();
    json.typed::<parquet::data_type::ByteArrayType>().write_batch(&[ByteArray::from("{}")], None, None).unwrap();
    json.close().unwrap();
    let mut uuids = group.next_column().unwrap().unwrap();
    let uuid = FixedLenByteArray::from(ByteArray::from(vec![0x11; 16]));
    uuids.typed::<FixedLenByteArrayType>().write_batch(&[uuid], None, None).unwrap();
    uuids.close().unwrap();
    group.close().unwrap();
    let fixture = Fixture::new();
    let path = fixture.file("f", &writer.into_inner().unwrap());
    let rows = rows_of(read_here(&path, &["j", "c"], &ReadOptions::default()).unwrap().into_iter());
    assert_eq!(rows, ["Text(\"{}\")|Text(\"11111111-1111-1111-1111-111111111111\")|"]);
}
