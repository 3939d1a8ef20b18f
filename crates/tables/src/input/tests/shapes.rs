//! The shapes of real files: lines before the header, comments, no header, other encodings, access logs.

use super::*;
use evertally_declare::format::Format;

/// A reader of the column `time`, and of one more.
fn reading(other: &str, options: ReadOptions) -> Fixture {
    Fixture::new().columns("time", &[other], None, None).options(options)
}

fn csv(options: CsvOptions) -> ReadOptions {
    ReadOptions { csv: options, ..ReadOptions::default() }
}

fn texts(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|name| (*name).to_owned()).collect())
}

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(message.contains(part), "`{part}` is not in: {message}"));
}

#[test]
fn lines_before_the_header_are_counted() {
    let skipping = |lines| reading("v", csv(CsvOptions { skip_lines: lines, ..CsvOptions::default() }));
    let data = "{\"Report\"\n\"open\n\ntime,v\n1,\"a\nb\"\n2,c\n";
    let rows = ["line 5|1|a\nb||", "line 7|2|c||"];
    for data in [data.as_bytes().to_vec(), gzip(data.as_bytes()), [b"\xef\xbb\xbf", data.as_bytes()].concat()] {
        // The blank line before the header may be skipped or not.
        assert_eq!(skipping(2).read_bytes(&data).unwrap(), rows);
        assert_eq!(skipping(3).read_bytes(&data).unwrap(), rows);
    }
    // Long lines before the header say nothing about the format.
    let long = format!("[{}\n[\ntime,v\n1,2\n", "x".repeat(10_000));
    assert_eq!(skipping(2).read_bytes(long.as_bytes()).unwrap(), ["line 4|1|2||"]);
    assert_says(&skipping(3).error(b"a\nb"), &["it has only 2 lines, but --skip-lines 3 was declared"]);
    assert_says(&skipping(2).error(b"a\nb\n"), &["the file is empty"]);
    assert_says(&skipping(2).error(b"a\nb\n{\"time\":1,\"v\":2}\n"), &["not CSV but JSON lines", "omit --skip-lines"]);
}

#[test]
fn comments_precede_the_header_too() {
    let options = CsvOptions { comment: Some("#".into()), delimiter: Some(b';'), ..CsvOptions::default() };
    let fixture = reading("v", csv(options));
    let data = b"# exported \"2024\n# by tool X\ntime;v\n1;a\n#2;b\n3;\"c\n#d\"\n";
    assert_eq!(fixture.read_bytes(data).unwrap(), ["line 4|1|a||", "line 6|3|c\n#d||"]);
    assert_says(&reading("v", ReadOptions::default()).error(b"# exported\ntime,v\n"), &["declare --comment '#'"]);
    assert_says(&reading("v", ReadOptions::default()).error(b"My report\ntime,v\n"), &["with --skip-lines N"]);
}

#[test]
fn the_first_line_may_declare_the_delimiter() {
    let read = |delimiter, skip_lines, data: &[u8]| {
        let options = CsvOptions { delimiter, skip_lines, ..CsvOptions::default() };
        let fixture = reading("v", csv(options));
        fixture.read_bytes(data).map_err(|error| error.to_string())
    };
    let rows = Ok(vec!["line 3|1|2||".to_owned()]);
    for data in [&b"sep=;\r\ntime;v\r\n1;2\r\n"[..], b"SEP=;\ntime;v\n1;2\n"] {
        for (delimiter, skip_lines) in [(None, 0), (None, 1), (Some(b';'), 0), (Some(b';'), 1)] {
            assert_eq!(read(delimiter, skip_lines, data), rows);
        }
    }
    assert_eq!(read(None, 0, b"sep=\t\ntime\tv\n1\t2\n"), rows);
    assert_eq!(read(None, 0, b"\xef\xbb\xbfsep=|\ntime|v\n1|2\n"), rows);
    let error = read(Some(b','), 0, b"sep=;\ntime;v\n").unwrap_err();
    assert_says(&error, &["line 1: the line `sep=;` contradicts --delimiter; omit --delimiter"]);
    // A column may have that name.
    assert_eq!(read(None, 0, b"sep=;x,time,v\nq,1,2\n"), Ok(vec!["line 2|1|2||".to_owned()]));
}

#[test]
fn columns_are_named_for_files_without_a_header() {
    let named = |names: &[&str]| reading("v", csv(CsvOptions { columns: texts(names), ..CsvOptions::default() }));
    let fixture = named(&["time", "", "v"]);
    assert_eq!(fixture.read_bytes(b"\n1,x,a\n2,\"y\rz\",b").unwrap(), ["line 2|1|a||", "line 3|2|b||"]);
    assert_eq!(fixture.read_bytes(b"[1,x,a\n").unwrap(), ["line 1|[1|a||"]);
    for empty in [&b""[..], b"\n\n", b"\xef\xbb\xbf", &b"\n".repeat(10_000)] {
        assert_eq!(fixture.read_bytes(empty).unwrap(), [""; 0]);
    }
    assert_says(&fixture.error(b"1,x\n"), &["line 1: it has 2 cells, but --columns has 3 names"]);
    assert_says(&named(&["time", "v"]).error(b"\ntime,v\n1,2\n"), &["line 2: this row is a header", "omit --columns"]);
    assert_says(&named(&["when", "v"]).error(b"1,2\n"), &["there is no column `time`"]);
    assert_says(&fixture.error(b"{\"time\":1}\n"), &["not CSV but JSON lines", "omit --columns"]);
    let message = reading("v", ReadOptions::default()).error(b"2024-01-01,a\n");
    assert_says(&message, &["there is no column `time`", "has no header line, name its columns with --columns NAME"]);
}

#[test]
fn texts_are_read_in_the_declared_encoding_or_that_of_the_byte_order_mark() {
    let declared = |label: Option<&str>| {
        let encoding = label.map(|label| TextEncoding::from_label(label).unwrap());
        reading("v", ReadOptions { encoding, ..ReadOptions::default() })
    };
    let utf16 = |text: &str, be: bool| -> Vec<u8> {
        let units = text.encode_utf16();
        units.flat_map(|unit| if be { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    };
    let rows = ["line 2|1|Zürich||", "line 3|2|€||"];
    let text = "time,v\r\n1,Zürich\r\n2,€\r\n";
    for (be, mark, label) in [(false, b"\xff\xfe", "utf-16le"), (true, b"\xfe\xff", "utf-16be")] {
        let data = utf16(text, be);
        assert_eq!(declared(Some(label)).read_bytes(&data).unwrap(), rows);
        let marked = [&mark[..], &data].concat();
        for label in [None, Some("utf-16"), Some(label)] {
            assert_eq!(declared(label).read_bytes(&marked).unwrap(), rows);
            assert_eq!(declared(label).read_bytes(&gzip(&marked)).unwrap(), rows);
        }
    }
    let data = b"time,v\n1,Z\xfcrich\n2,\x80\n";
    assert_eq!(declared(Some("latin1")).read_bytes(data).unwrap(), rows);
    let json = b"\xff\xfe{\0\"\0t\0i\0m\0e\0\"\0:\x001\0,\0\"\0v\0\"\0:\0\"\0\xe9\0\"\0}\0";
    assert_eq!(declared(None).read_bytes(json).unwrap(), ["line 1|1|é||"]);
    // Rows before the invalid bytes are passed on first, however long the text.
    let long = [&b"time,v\n"[..], &b"1,a\n".repeat(100_000), b"2,\x83\n"].concat();
    assert_says(
        &declared(Some("shift_jis")).error(&long),
        &["events.csv, line 100002: this line is not Shift_JIS text"],
    );
    assert_says(&declared(Some("latin1")).error(b"\xff\xfet\0"), &["mark of UTF-16LE, but --encoding windows-1252"]);
    assert_says(&declared(Some("latin1")).error(b"%PDF-1.7\n\xff"), &["PDF document"]);
}

const LOG: &str = concat!(
    r#"192.0.2.9 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 203023 "-" "Mozilla""#,
    "\n\n",
    r#"192.0.2.8 - ann [17/May/2015:10:05:43 +0000] "GET /\"b HTTP/1.1" 304 - "http://x/" "x \"y\"""#,
    "\r\n",
    r#"192.0.2.7 - - [17/May/2015:10:05:47 +0000] "-" 408 - "-" "-""#,
    "\n",
);

#[test]
fn objects_may_be_in_an_array_inside_of_an_object() {
    let inside = |path: &str| ReadOptions { json_records: Some(path.into()), ..ReadOptions::default() };
    let data =
        "{\"type\": \"x\",\n\"data\": {\"items\": [{\"time\": 1, \"v\": {\"w\": \"a\"}},\n {\"time\": 2}]},\n\"n\": 2}";
    let rows = ["line 2|1|a||", "line 3|2|||"];
    let fixture = reading("v.w", inside("data.items"));
    for data in [data.as_bytes().to_vec(), gzip(data.as_bytes())] {
        assert_eq!(fixture.read_bytes(&data).unwrap(), rows);
    }
    // Without it, the first object tells where the events are, and never that one of them is meant.
    let plain = reading("v.w", ReadOptions::default());
    assert_says(&plain.error(data.as_bytes()), &["line 1", "its array `data.items` has", "--json-records data.items"]);
    // Names that a shell would not take as they are have no command.
    let harmful = plain.error(b"{\"x$(touch y)\": [{\"time\": 1, \"v\": {\"w\": \"a\"}}]}");
    assert_says(&harmful, &["its array `x$(touch y)` has", "declare its keys with --json-records PATH"]);
    assert_says(
        &reading("items.v", ReadOptions::default()).error(b"{\"time\":1,\"items\":[{\"v\":1}]}\n"),
        &["is an array", "--json-records PATH"],
    );
    let error = fixture.error(b"{\"data\": {\"items\": [{\"time\": 1, \"v\": {\"w\": \"a\"}},\n");
    assert_says(&error, &["is not closed"]);
    assert_says(&fixture.error(b"{\"data\": {\"items\": [{\"time\": 1}\n {}]}}\n"), &["line 2", "a comma is missing"]);
    assert_says(&fixture.error(b"{\"data\": {\n\"item\": []}}\n"), &["line 3", "there is no array `data.items`"]);
    assert_says(&fixture.error(b"[{\"time\": 1}]"), &["omit --json-records"]);
    assert_says(&fixture.error(b"time,v.w\n1,2\n"), &["not JSON lines but CSV", "omit --json-records"]);
    assert!(fixture.read_bytes(b"{\"data\": {\"items\": []}}").unwrap().is_empty());
}

#[test]
fn access_logs_have_named_columns() {
    let read = |format, labels: &[&str], data: &str| {
        let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
        let fixture = Fixture::new().columns("time", labels, Some("host"), Some("bytes")).options(options);
        fixture.read_bytes(data.as_bytes())
    };
    let labels = ["user", "method", "path", "status", "referer", "agent"];
    let times = ["03", "43", "47"].map(|second| format!("17/May/2015:10:05:{second} +0000"));
    let rows = read(Format::CombinedLog, &labels, LOG).unwrap();
    assert_eq!(rows[0], format!("line 1|{}||GET|/a|200||Mozilla|192.0.2.9|203023", times[0]));
    let path = r#"ann|GET|/\"b|304|http://x/|x \"y\""#;
    assert_eq!(rows[1], format!("line 3|{}|{path}|192.0.2.8|", times[1]));
    assert_eq!(rows[2], format!("line 4|{}||||408|||192.0.2.7|", times[2]));
    let common = LOG.replace(r#" "-" "Mozilla""#, "");
    let first = common.lines().next().unwrap();
    assert_eq!(read(Format::CommonLog, &["path"], first).unwrap().len(), 1);
    for format in [Format::CommonLog, Format::CombinedLog] {
        assert_eq!(read(format, &[], "").unwrap(), [""; 0]);
        assert_eq!(read(format, &[], "\n \n").unwrap(), [""; 0]);
    }
    let error = read(Format::CombinedLog, &["path"], &common).unwrap_err().to_string();
    assert_says(&error, &["line 1: `192.0.2.9", "not a line of a combined log", "declare --input-format common-log"]);
    let error = read(Format::CommonLog, &["path"], LOG).unwrap_err().to_string();
    assert_says(&error, &["line 1", "declare --input-format combined-log"]);
    let error = read(Format::CommonLog, &["agent"], first).unwrap_err().to_string();
    assert_says(&error, &["there is no column `agent`", "`host`, `ident`"]);
    let error = read(Format::CombinedLog, &[], &format!("{LOG}[notice] init\n")).unwrap_err().to_string();
    assert_says(&error, &["line 5: `[notice] init` is not a line of a combined log", "CSV or JSON lines"]);
}

#[test]
fn a_log_is_recognised_but_never_guessed() {
    let fixture = reading("path", ReadOptions::default());
    let message = fixture.error(LOG.as_bytes());
    assert_says(&message, &["events.csv: this is an access log of a web server", "--input-format combined-log"]);
    let common = LOG.lines().next().unwrap().replace(r#" "-" "Mozilla""#, "");
    assert_says(&fixture.error(common.as_bytes()), &["--input-format common-log"]);
    let message = fixture.error(b"[Sun Dec 04 04:47:44 2005] [notice] workerEnv.init() ok\n");
    assert_says(&message, &["there is no column `time`", "if the file has no header line"]);
    assert!(!message.contains("JSON"), "{message}");
}
