mod physical;

use super::super::tests::Fixture;
use super::inflate::Inflate;
use super::thrift::memory_of_footer;
use super::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    LargeStringArray, StringArray, TimestampMicrosecondArray,
};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
use proptest::prelude::*;

/// A column of every cell type, with and without nulls.
fn table(rows: usize) -> RecordBatch {
    let every = |some: usize| (0..rows).map(move |row| (row % some != 0).then_some(row));
    let text = |row: usize| format!("name {} {}", row % 17, "é".repeat(row % 40));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("short", Arc::new(StringArray::from_iter(every(5).map(|row| row.map(|row| format!("p{}", row % 7)))))),
        ("text", Arc::new(StringArray::from_iter_values((0..rows).map(text)))),
        ("large", Arc::new(LargeStringArray::from_iter(every(3).map(|row| row.map(text))))),
        ("bytes", Arc::new(BinaryArray::from_iter_values((0..rows).map(text)))),
        ("number", Arc::new(Int64Array::from_iter(every(4).map(|row| row.map(|row| row as i64 * 1_000_003 - 7))))),
        ("small", Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row as i32 % 3)))),
        ("real", Arc::new(Float64Array::from_iter(every(6).map(|row| row.map(|row| row as f64 / 3.0))))),
        ("truth", Arc::new(BooleanArray::from_iter(every(7).map(|row| row.map(|row| row % 2 == 0))))),
        ("time", Arc::new(TimestampMicrosecondArray::from_iter_values((0..rows).map(|row| row as i64 * 977)))),
        ("day", Arc::new(Date32Array::from_iter(every(9).map(|row| row.map(|row| row as i32))))),
        (
            "price",
            Arc::new(
                Decimal128Array::from_iter_values((0..rows).map(|row| row as i128 * 12345))
                    .with_precision_and_scale(30, 2)
                    .unwrap(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn bytes_of(table: &RecordBatch, properties: WriterProperties) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, table.schema(), Some(properties)).unwrap();
    writer.write(table).unwrap();
    writer.close().unwrap();
    bytes
}

/// All cells as the library reads them, through the columns that cells are read from.
fn rows_of(batches: impl Iterator<Item = RecordBatch>) -> Vec<String> {
    let (mut rows, missing) = (Vec::new(), []);
    for batch in batches {
        let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        rows.extend(super::super::batches::shown(&batch, &names, &missing));
    }
    rows
}

fn read_here(path: &std::path::Path, columns: &[&str], options: &ReadOptions) -> Result<Vec<RecordBatch>> {
    let file = SeekableFile { file: std::fs::File::open(path).unwrap(), bytes_to_report: 0 };
    let wanted: Vec<String> = columns.iter().map(|name| name.to_string()).collect();
    let mut rows = ParquetRows::open("f.parquet", file, options, &wanted)?;
    let mut all = Vec::new();
    while let Some(batch) = rows.next(&())? {
        all.push(batch.batch);
    }
    Ok(all)
}

#[test]
fn every_encoding_is_read_as_the_library_reads_it() {
    let fixture = Fixture::new();
    let table = table(3000);
    let names: Vec<&str> = table.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
    let codecs = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::ZSTD(Default::default()),
        Compression::LZ4_RAW,
        Compression::LZ4,
    ];
    let encodings = [
        ("text", Encoding::DELTA_BYTE_ARRAY),
        ("large", Encoding::DELTA_LENGTH_BYTE_ARRAY),
        ("bytes", Encoding::DELTA_BYTE_ARRAY),
        ("number", Encoding::DELTA_BINARY_PACKED),
        ("real", Encoding::BYTE_STREAM_SPLIT),
    ];
    for (number, codec) in codecs.into_iter().enumerate() {
        for (version, dictionary, groups) in [
            (WriterVersion::PARQUET_1_0, true, 3000),
            (WriterVersion::PARQUET_2_0, false, 700),
            (WriterVersion::PARQUET_1_0, false, 1),
            (WriterVersion::PARQUET_2_0, true, 3000),
        ] {
            let groups = if groups == 1 && number > 1 { 11 } else { groups };
            let mut properties = WriterProperties::builder()
                .set_compression(codec)
                .set_writer_version(version)
                .set_dictionary_enabled(dictionary)
                .set_max_row_group_row_count(Some(groups))
                .set_data_page_row_count_limit(400)
                .set_write_batch_size(100);
            if !dictionary {
                for (name, encoding) in encodings {
                    properties = properties.set_column_encoding(name.into(), encoding);
                }
            }
            let bytes = bytes_of(&table, properties.build());
            let path = fixture.file("f.parquet", &bytes);
            let theirs = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes)).unwrap().build().unwrap();
            let theirs = rows_of(theirs.map(|batch| batch.unwrap()));
            for threads in [1, 3] {
                let options = ReadOptions { threads: std::num::NonZero::new(threads), ..ReadOptions::default() };
                let ours = rows_of(read_here(&path, &names, &options).unwrap().into_iter());
                assert!(ours == theirs, "{codec:?} {version:?} {dictionary} {groups}");
            }
        }
    }
}

#[test]
fn batches_are_as_large_as_there_is_memory_for() {
    let texts = StringArray::from_iter_values((0..3000).map(|row| format!("{row:05}").repeat(2000)));
    let table = RecordBatch::try_from_iter([("text", Arc::new(texts) as ArrayRef)]).unwrap();
    let properties = WriterProperties::builder().set_dictionary_enabled(false).set_data_page_size_limit(1 << 16);
    let properties = properties.set_write_batch_size(1).set_compression(Compression::ZSTD(Default::default()));
    let fixture = Fixture::new();
    let path = fixture.file("f.parquet", &bytes_of(&table, properties.build()));
    let options = |memory| ReadOptions { memory, threads: std::num::NonZero::new(1), ..ReadOptions::default() };
    let sizes = |memory| -> Vec<usize> {
        let batches = read_here(&path, &["text"], &options(memory)).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 3000);
        batches.iter().map(RecordBatch::num_rows).collect()
    };
    assert_eq!(sizes(1 << 30), [3000]);
    let few = sizes(8 << 20);
    assert!(few[0] < 200 && few[0] >= 32, "{few:?}");
    let error = read_here(&path, &["text"], &options(100_000)).unwrap_err().to_string();
    assert!(error.contains("are allowed") && error.contains("--read-memory"), "{error}");
}

/// The files were written by pyarrow 26, with data pages of both versions: the library here has no compressor.
#[test]
fn brotli_is_read() {
    for (version, bytes) in [
        ("1", &include_bytes!("fixtures/brotli-v1.parquet")[..]),
        ("2", &include_bytes!("fixtures/brotli-v2.parquet")[..]),
    ] {
        let fixture = Fixture::new();
        let path = fixture.file("f.parquet", bytes);
        let batches = read_here(&path, &["name", "number"], &ReadOptions::default()).unwrap();
        let wanted: Vec<String> = (0..2000_i64)
            .map(|row| match row % 7 {
                0 => format!("|{}", row * row),
                _ => format!("name {}|{}", row % 97, row * row),
            })
            .collect();
        let read: Vec<String> = batches
            .iter()
            .flat_map(|batch| {
                let names = arrow_cast::cast(batch.column(0), &DataType::Utf8).unwrap();
                let (names, numbers) =
                    (names.as_string::<i32>().clone(), batch.column(1).as_primitive::<Int64Type>().clone());
                (0..batch.num_rows()).map(move |row| {
                    let name = if names.is_null(row) { "" } else { names.value(row) };
                    format!("{name}|{}", numbers.value(row))
                })
            })
            .collect();
        assert_eq!(read, wanted, "version {version}");
    }
}

#[test]
fn a_page_becomes_exactly_what_its_header_says() {
    let plain = vec![7; 3 << 20];
    let packed = |codec: Compression| -> Vec<u8> {
        match codec {
            Compression::GZIP(_) => super::super::tests::gzip(&plain),
            Compression::ZSTD(_) => super::super::tests::zst(&plain),
            Compression::SNAPPY => snap::raw::Encoder::new().compress_vec(&plain).unwrap(),
            Compression::LZ4_RAW => lz4_flex::block::compress(&plain),
            _ => unreachable!(),
        }
    };
    for codec in [
        Compression::GZIP(Default::default()),
        Compression::ZSTD(Default::default()),
        Compression::SNAPPY,
        Compression::LZ4_RAW,
    ] {
        let (packed, mut inflate) = (packed(codec), Inflate::new(codec));
        let mut bytes = vec![1, 2];
        inflate.append(&packed, plain.len(), &mut bytes).unwrap();
        assert!(bytes[..2] == [1, 2] && bytes[2..] == plain, "{codec:?}");
        for claimed in [0, 10, plain.len() - 1, plain.len() + 1] {
            let mut bytes = Vec::new();
            assert!(inflate.append(&packed, claimed, &mut bytes).is_err(), "{codec:?} {claimed}");
            assert!(bytes.capacity() <= 2 * claimed + 64, "{codec:?} {claimed}: {}", bytes.capacity());
        }
    }
}

#[test]
fn damaged_files_are_refused() {
    let fixture = Fixture::new().columns("time", &["short"], None, None);
    let bytes = bytes_of(&table(50), WriterProperties::builder().set_compression(Compression::SNAPPY).build());
    let mut read = 0;
    for place in (0..bytes.len()).step_by(3) {
        let mut changed = bytes.clone();
        changed[place] ^= 0x55;
        let path = fixture.file("f.parquet", &changed);
        let options = ReadOptions { memory: 1 << 20, ..ReadOptions::default() };
        // It may be readable if the change is in an unused part; nothing panics, and nothing takes much memory.
        read += u32::from(read_here(&path, &["time", "short"], &options).is_ok());
    }
    assert!(read > 0);
    for len in [0, 3, 4, 7, 8, 11, 12, bytes.len() / 2, bytes.len() - 1] {
        let path = fixture.file("f.parquet", &bytes[..len]);
        let error = read_here(&path, &["time"], &ReadOptions::default()).unwrap_err();
        assert_eq!(error.input().unwrap().unreadable(), Some(Unreadable::Damaged), "{len}: {error}");
    }
}

#[test]
fn footers_are_measured() {
    let bytes = bytes_of(&table(10), WriterProperties::builder().build());
    let length = u32::from_le_bytes(bytes[bytes.len() - 8..][..4].try_into().unwrap()) as usize;
    let footer = &bytes[bytes.len() - 8 - length..bytes.len() - 8];
    let takes = memory_of_footer(footer).unwrap();
    assert!((10_000..200_000).contains(&takes), "{takes}");
    for len in 0..length {
        assert_eq!(memory_of_footer(&footer[..len]), None, "{len}");
    }
}

proptest! {
    #[test]
    fn windows_take_as_much_as_their_pages(
        pages in prop::collection::vec((0u64..300, 0u64..(3 << 20)), 0..20),
        rows in 1u64..1000,
    ) {
        let mut sizes = Sizes::default();
        pages.iter().for_each(|(rows, bytes)| sizes.add(*rows, *bytes));
        let total: u64 = pages.iter().map(|page| page.0).sum();
        // The page of each row, and the bytes of all windows from one row on.
        let of_row: Vec<usize> =
            pages.iter().enumerate().flat_map(|(place, page)| vec![place; page.0 as usize]).collect();
        let window = |first: usize| {
            let last = (first + rows as usize).min(of_row.len()) - 1;
            pages[of_row[first]..=of_row[last]].iter().map(|page| page.1).sum::<u64>()
        };
        let exact = (0..of_row.len()).map(window).max().unwrap_or(0);
        let most = sizes.most(rows);
        prop_assert!(most >= exact);
        prop_assert!(most <= sizes.most(rows + 1));
        let all: u64 = pages.iter().map(|page| page.1).sum();
        prop_assert!(most <= all + rows.min(total) * ROW_BYTES);
    }
}
