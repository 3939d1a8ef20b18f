//! Every error names the problem, its location, and a remedy, on one line.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, ListArray, StringArray, types};

use super::super::xlsx::tests::{Book, texts};
use super::golden::{arrow_file, arrow_stream, parquet_of};
use super::*;
use evertally::number::Grid;
use evertally_declare::error::{InputError, Place};
use evertally_declare::format::Format;
use evertally_declare::words::{quoted, shorten};

fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

const HEADER: &str = "time,airport,carrier,tail,delay\n";

#[test]
fn empty_files() {
    let fixture = Fixture::new();
    for data in [b"".to_vec(), b"\xef\xbb\xbf".to_vec(), b"\n \n".to_vec(), gzip(b""), zst(b"")] {
        assert_says(&fixture.error(&data), &["events.csv: the file is empty"]);
    }
}

/// An empty file of a day without events must not stop a nightly run.
#[test]
fn declared_json_lines_may_hold_nothing() {
    let mut fixture = Fixture::new();
    fixture.options.format = Some(Format::JsonLines);
    for data in [b"".to_vec(), b"\xef\xbb\xbf".to_vec(), b"\n \n".to_vec(), gzip(b""), zst(b"")] {
        assert_eq!(fixture.read_bytes(&data).unwrap(), [""; 0]);
    }
}

#[test]
fn header_only_has_no_events() {
    let fixture = Fixture::new();
    assert_eq!(fixture.read_bytes(HEADER.as_bytes()).unwrap(), [""; 0]);
    assert_eq!(fixture.read_bytes(HEADER.trim_end().as_bytes()).unwrap(), [""; 0]);
}

#[test]
fn missing_columns_are_suggested() {
    let fixture = Fixture::new();
    let message = fixture.error(b"Time,airport,carrier,tail,Delay\n");
    assert_says(&message, &["events.csv", "no column `time`", "did you mean `Time`?", "`airport`, `carrier`"]);
    let message = fixture.error(b"x,airport,carrier,tail,delay\n");
    assert!(!message.contains("did you mean"), "{message}");
    let message = fixture.error(b"time;airport;carrier;tail;delay\n");
    assert_says(&message, &["semicolon-separated", "another delimiter"]);
    let wide = (0..50).map(|i| format!("c{i}")).collect::<Vec<_>>().join(",");
    assert_says(&fixture.error(wide.as_bytes()), &["`c29` and 20 more"]);
    let message = fixture.error(b"{\"time\":1,\"airport\":2,\"carier\":3,\"tail\":4,\"delay\":5}\n");
    assert_says(&message, &["no column `carrier`", "did you mean `carier`?"]);
    let message = fixture.error(&Book::of(&texts(1, &["time", "airport", "carier", "tail", "delay"])));
    assert_says(&message, &["events.csv: there is no column `carrier` (did you mean `carier`?)"]);
    let message = fixture.error(&parquet_of(vec![("when", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]));
    assert_says(&message, &["no column `time`", "it has `when`"]);
}

#[test]
fn needed_columns_must_not_be_there_twice() {
    let fixture = Fixture::new();
    let message = fixture.error(b"time,airport,carrier,tail,delay,time\n");
    assert_says(&message, &["two columns named `time` (columns 1 and 6)", "rename"]);
    assert!(fixture.read_bytes(b"x,time,airport,carrier,tail,delay,x\n").is_ok());
}

#[test]
fn ragged_rows_name_their_line() {
    let fixture = Fixture::new();
    let message = fixture.error(format!("{HEADER}1,2,3,4,5\n1,2,3\n").as_bytes());
    assert_says(&message, &["events.csv, line 3", "3 cells", "header has 5"]);
    let message = fixture.error(format!("{HEADER}1,2,3,4,\"5\n\n\",6\n").as_bytes());
    assert_says(&message, &["events.csv, line 2", "6 cells"]);
}

#[test]
fn encodings_other_than_utf8() {
    let fixture = Fixture::new();
    let message = fixture.error(&[HEADER.as_bytes(), b"1,Z\xfcrich,3,4,5\n"].concat());
    assert_says(&message, &["events.csv, line 2", "not UTF-8", "declare", "--encoding windows-1252"]);
    // Halves of a character in two cells of a row with quotes: found by fuzzing.
    let message = fixture.error(&[HEADER.as_bytes(), b"1,\"x\",\xc6,\x89,5\n"].concat());
    assert_says(&message, &["events.csv, line 2", "not UTF-8"]);
    assert_says(&fixture.error(b"\xc6,\x89,\"x\"\n"), &["line 1", "not UTF-8"]);
    assert_says(&fixture.error(b"t\0i\0m\0e\0\n\0"), &["UTF-16", "--encoding utf-16le"]);
    assert_says(&fixture.error(b"\xff\xfe\0\0t\0\0\0"), &["UTF-32", "iconv"]);
    assert_says(&fixture.error(b"{\"time\":\"\xfc\"}\n"), &["line 1", "not UTF-8"]);
    assert_says(&fixture.error(b"time,airport\r1,2\r"), &["carriage returns"]);
}

/// A tar archive of one file, as version 7 of Unix wrote it: without the word `ustar`.
fn tar(contents: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..8].copy_from_slice(b"time,csv");
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", contents.len()).as_bytes());
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = [&header, contents].concat();
    archive.resize(10 * 1024, 0);
    archive
}

#[test]
fn other_kinds_of_files() {
    let fixture = Fixture::new();
    assert_says(&fixture.error(b"PK\x03\x04zip"), &["zip archive", "damaged"]);
    assert_says(&fixture.error(b"BZh91AY"), &["bzip2"]);
    assert_says(&fixture.error(b"\xfd7zXZ\0"), &["xz"]);
    assert_says(&fixture.error(&tar(b"time\n2024-01-01\n")), &["tar archive", "tar -xf"]);
    assert_says(&fixture.error(&gzip(&tar(b"time\n"))), &["tar archive"]);
    assert_says(&fixture.error(&zst(&tar(b"time\n"))), &["tar archive"]);
    assert_says(&fixture.error(&gzip(&gzip(b"time\n"))), &["compressed data"]);
    assert_says(&fixture.error(&gzip(&zst(b"time\n"))), &["compressed data"]);
    for array in [&b" [\"time\", 1]"[..], b"[", b"[[1]]"] {
        assert_says(&fixture.error(array), &["JSON array", "not an object"]);
    }
    for (bytes, kind) in
        [(&b"%PDF-1.7\n"[..], "PDF"), (b"\x89PNG\r\n\x1a\n\0", "PNG"), (b"a\x01\xff\x02", "binary data")]
    {
        let message = fixture.error(bytes);
        assert_says(&message, &[kind]);
        assert!(!message.contains("iconv") && !message.contains("--encoding"), "{message}");
    }
    // Binary data after the first block: no encoding is advised.
    let long = [HEADER.as_bytes(), &b"1,2,3,4,5\n".repeat(1000), b"1,\xff\x01,3,4,5\n"].concat();
    let message = fixture.error(&long);
    assert_says(&message, &["line 1002", "binary data"]);
    assert!(!message.contains("--encoding"), "{message}");
    assert_says(&fixture.error_of(&fixture.path("absent.csv")), &["absent.csv: there is no such file"]);
    std::fs::create_dir(fixture.path("folder")).unwrap();
    assert_says(&fixture.error_of(&fixture.path("folder")), &["folder: this is a directory"]);
}

#[test]
fn cut_and_damaged_files() {
    let fixture = Fixture::new();
    let text = format!("{HEADER}{}", "2013-01-01,a,b,c,1\n".repeat(100_000));
    for packed in [gzip(text.as_bytes()), zst(text.as_bytes())] {
        let message = fixture.error(&packed[..packed.len() / 2]);
        assert_says(&message, &["events.csv", "cut short"]);
    }
    let mut packed = gzip(text.as_bytes());
    // After the ten bytes of the header: no deflate block begins like this.
    packed[10] = 0xff;
    assert_says(&fixture.error(&packed), &["cannot be read", "damaged"]);
    assert_says(&fixture.error(b"PAR1 and then nothing"), &["Parquet file cannot be read"]);
}

#[test]
fn declared_formats_must_fit() {
    let fixture = Fixture::new().options(ReadOptions { format: Some(Format::Parquet), ..ReadOptions::default() });
    assert_says(&fixture.error(HEADER.as_bytes()), &["not in the format Parquet"]);
    let fixture = Fixture::new().options(ReadOptions { format: Some(Format::Csv), ..ReadOptions::default() });
    assert_says(&fixture.error(b"PAR1xx"), &["Parquet file, but CSV was declared"]);
    assert_says(&fixture.error(&gzip(b"PAR1xx")), &["Parquet file, but CSV was declared"]);
    assert_eq!("jsonl".parse(), Ok(Format::JsonLines));
    assert_eq!("ndjson".parse(), Ok(Format::JsonLines));
}

#[test]
fn json_faults_name_line_and_key() {
    let fixture = Fixture::new().columns("time", &[], None, Some("delay"));
    let good = "{\"time\":1,\"delay\":2}\n";
    let error = |line: &str| fixture.error(format!("{good}\n{line}\n").as_bytes());
    assert_says(&error("{\"time\":1,\"delay\":2,\"delay\":3}"), &["events.csv, line 3, column `delay`", "twice"]);
    assert_says(
        &error("{\"time\":{\"a\":1},\"delay\":2}"),
        &["line 3, column `time`", "`{\"a\":1}` is an object", "such as `time.a`"],
    );
    assert_says(&error("{\"time\":1,\"delay\":[2]}"), &["line 3, column `delay`", "nested"]);
    assert_says(&error("{\"time\":1,\"delay\":NaN}"), &["line 3", "not a JSON object", "character 19"]);
    assert_says(&error("{\"time\":1,"), &["line 3", "not a JSON object"]);
    assert_says(&error("{\"time\":1} trailing"), &["line 3", "not a JSON object"]);
    assert_says(&error("42"), &["line 3", "`42` is not a JSON object"]);
    assert_says(&error("{\"time\":\"\\ud800\",\"delay\":1}"), &["line 3, column `time`", "invalid escape"]);
}

#[test]
fn json_values_have_one_place() {
    let fixture = Fixture::new().columns("time", &[], Some("actor.login"), None);
    let error = |line: &str| fixture.error(format!("{{\"time\":1,\"actor\":{{\"login\":2}}}}\n{line}\n").as_bytes());
    for (line, parts) in [
        (r#"{"time":1,"actor.login":2,"actor":{"login":3}}"#, &["column `actor.login`", "twice"][..]),
        (r#"{"time":1,"actor":{"login":3},"actor.login":null}"#, &["column `actor.login`", "twice"]),
        (r#"{"time":1,"actor":{"login":2,"login":3}}"#, &["column `actor.login`", "twice"]),
        (r#"{"time":1,"actor":{"login":2},"actor":{}}"#, &["the object has the key `actor` twice"]),
        (r#"{"time":1,"actor":null,"actor":{"login":2}}"#, &["the object has the key `actor` twice"]),
        (r#"{"time":1,"actor":"bob"}"#, &["column `actor.login`", "`\"bob\"` on its path is not an object"]),
        (r#"{"time":1,"actor":[{"login":2}]}"#, &["column `actor.login`", "is an array; name an element"]),
        (r#"{"time":1,"actor":{"login":{"x":2}}}"#, &["column `actor.login`", "such as `actor.login.x`"]),
    ] {
        let message = error(line);
        assert_says(&message, &[&["events.csv, line 2"], parts].concat());
    }
    // The key of this name is the value, whatever else there is.
    let line = b"{\"time\":1,\"actor\":\"bob\",\"actor.login\":2}\n";
    assert_eq!(fixture.read_bytes(line).unwrap(), ["line 1|1|2|"]);
    let missing = fixture.error(b"{\"time\":1,\"actor\":{\"id\":2,\"tags\":[{\"x\":1}]}}\n");
    assert_says(&missing, &["no column `actor.login`", "it has `time`, `actor.id`, `actor.tags[0].x`"]);
    let fixture = Fixture::new().columns("time", &[], Some("login"), None);
    let missing = fixture.error(b"{\"time\":1,\"actor\":{\"login\":2}}\n");
    assert_says(&missing, &["no column `login`", "did you mean `actor.login`?"]);
}

#[test]
fn json_arrays_are_whole() {
    let fixture = Fixture::new().columns("time", &[], None, None);
    for (text, parts) in [
        ("[{\"time\":1},\n{\"time\":2}\n", ["events.csv: the JSON array is not closed", "cut short"]),
        ("[{\"time\":1},\n{\"time\":2", ["events.csv, line 2", "not a JSON object (EOF"]),
        ("[{\"time\":1},\n3]", ["events.csv, line 2", "this element of the JSON array is not an object"]),
        ("[{\"time\":1},\n[]]", ["events.csv, line 2", "is not an object"]),
        ("[{\"time\":1},\n]", ["events.csv, line 2", "ends after a comma"]),
        ("[{\"time\":1}\n{\"time\":2}]", ["events.csv, line 2", "a comma is missing"]),
        ("[{\"time\":1}]\n\n{}", ["events.csv, line 3", "text after the end of the JSON array"]),
        ("[]\n[]", ["events.csv, line 2", "text after the end of the JSON array"]),
        ("[{\"time\":1},\n{\"time\":\n!}]", ["events.csv, line 3", "not a JSON object (expected value"]),
        ("{\n\"time\":1\n}\n{\n\"time\":2\n}\n,", ["events.csv, line 7", "text that is not an object"]),
        ("{\n\"time\":1\n}\n{\n\"time\":[2]\n}", ["events.csv, line 4, column `time`", "nested"]),
        ("[{\n\"time\":\"\u{0}\"}]", ["events.csv, line 2", "control character"]),
    ] {
        assert_says(&fixture.error(text.as_bytes()), &parts);
    }
    assert_says(&fixture.error(b"[{\"time\":1},\n\n{\"time\":\"\xfc\"}]"), &["line 3", "not UTF-8"]);
    let small = ReadOptions { memory: 1 << 20, ..ReadOptions::default() };
    let fixture = Fixture::new().columns("time", &[], None, None).options(small);
    let large = format!("{{\"type\":\n\"all\",\"features\":[{}{{}}]}}", "{\"time\":1},".repeat(30_000));
    assert_says(
        &fixture.error(large.as_bytes()),
        &["line 1", "this object is longer than 1 MiB", "--json-records PATH"],
    );
}

#[test]
fn cut_and_damaged_arrow_files() {
    let times = Arc::new(Int64Array::from(vec![1; 100])) as ArrayRef;
    let batch = arrow_array::RecordBatch::try_from_iter([("time", times)]).unwrap();
    let fixture = Fixture::new().columns("time", &[], None, None);
    for data in [arrow_file(&batch, None), arrow_stream(&batch, None)] {
        assert_eq!(fixture.read_bytes(&data).unwrap().len(), 100);
        for length in (8..data.len()).step_by(7).chain([data.len() - 8, data.len() - 1]) {
            assert_says(&fixture.error(&data[..length]), &["events.csv", "read"]);
        }
        for place in (0..data.len()).step_by(3) {
            let mut changed = data.clone();
            changed[place] ^= 0xff;
            let _ = fixture.read_bytes(&changed); // an error or other values, and no panic
        }
    }
}

#[test]
fn parquet_faults_name_the_column() {
    let nested = ListArray::from_iter_primitive::<types::Int64Type, _, _>([Some([Some(1)])]);
    let fixture = Fixture::new().columns("time", &[], None, None);
    let message = fixture.error(&parquet_of(vec![("time", Arc::new(nested) as ArrayRef)]));
    assert_says(&message, &["column `time`", "only plain text, numbers and times"]);
}

#[test]
fn bad_values_name_row_and_column() {
    let fixture = Fixture::new().columns("time", &[], None, Some("delay"));
    let read = |data: &[u8]| {
        let path = fixture.file("events.csv", data);
        let mut sum = 0;
        fixture.visit(&[path], &AtomicBool::new(false), &mut |event| {
            sum += event.multiple_of("0.01".parse::<Grid>()?)?.unwrap_or(0);
            Ok(())
        })?;
        anyhow::Ok(sum)
    };
    assert_eq!(read(b"time,delay\n1,0.1\n1,\n1,-2\n").unwrap(), -190);
    let long = "z".repeat(100);
    for (value, parts) in [
        ("abc", ["line 3, column `delay`: `abc` is not a number", "declare"]),
        ("NaN", ["line 3, column `delay`: `NaN` is not a finite number", "missing"]),
        ("1e30", ["line 3, column `delay`: `1e30` is too large", "grid"]),
        (&long, ["`zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz…`", "line 3"]),
    ] {
        let error = read(format!("time,delay\n1,1\n1,{value}\n").as_bytes()).unwrap_err();
        let error = error.downcast::<InputError>().unwrap();
        assert_eq!((error.place(), error.column()), (Some(Place::Line(3)), Some("delay")));
        assert_says(&error.to_string(), &parts);
    }
    let columns: Vec<(&str, ArrayRef)> =
        vec![("time", Arc::new(Int64Array::from(vec![1, 2]))), ("delay", Arc::new(StringArray::from(vec!["1", "x"])))];
    let message = read(&parquet_of(columns)).unwrap_err().to_string();
    assert_says(&message, &["events.csv, row 2, column `delay`: `x` is not a number"]);
}

#[test]
fn standard_input_is_read_once() {
    let message = Fixture::new().read(&["-".into(), "-".into()]).unwrap_err().to_string();
    assert_says(&message, &["standard input", "twice"]);
}

#[test]
fn offending_text_cannot_break_the_message() {
    assert_eq!(quoted("a\n\u{1b}[31m"), "`a\\n\\u{1b}[31m`");
    assert_eq!(shorten(&"é".repeat(41)), format!("{}…", "é".repeat(40)));
}

#[cfg(unix)]
#[test]
fn one_file_under_two_names_would_count_twice() {
    let fixture = Fixture::new().columns("time", &[], None, None);
    let (first, copy) = (fixture.file("a.csv", b"time\n1\n"), fixture.file("b.csv", b"time\n1\n"));
    let (link, hard) = (fixture.path("link.csv"), fixture.path("hard.csv"));
    std::os::unix::fs::symlink(&first, &link).unwrap();
    std::fs::hard_link(&first, &hard).unwrap();
    let dotted = first.parent().unwrap().join(".").join("a.csv");
    for second in [&first, &link, &hard, &dotted] {
        let error = fixture.read(&[first.clone(), copy.clone(), second.clone()]).unwrap_err().to_string();
        assert_says(&error, &["would count twice; name it once"]);
        assert!(error.starts_with(&*second.display().to_string()), "{error}");
    }
    assert_eq!(fixture.read(&[first, copy]).unwrap().len(), 2);
}
