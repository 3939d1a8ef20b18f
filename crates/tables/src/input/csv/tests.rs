use super::super::ReadOptions;
use super::super::blocks::BlockReader;
use super::*;
use proptest::prelude::*;
use std::io::Read;

/// A reader that returns a few bytes at a time, so that every possible cut occurs.
struct Dribble<'d>(&'d [u8], usize);

impl Read for Dribble<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.1.min(self.0.len()).min(buf.len());
        buf[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

/// Commas and double quotes.
fn usual() -> Dialect {
    Dialect { delimiter: b',', quote: Some(b'"'), comment: None }
}

/// All records, from blocks as the reader returns them.
fn records(data: &[u8], step: usize) -> Result<Vec<(u64, Vec<String>)>> {
    records_of(data, step, &usual())
}

fn records_of(data: &[u8], step: usize, dialect: &Dialect) -> Result<Vec<(u64, Vec<String>)>> {
    let options = ReadOptions { block_bytes: step.min(1 << 18), ..ReadOptions::default() };
    let mut blocks = BlockReader::new(Dribble(data, step), &options);
    let (mut block, mut cut, mut all) = (RecordBlock::default(), RecordBuffers::default(), Vec::new());
    while blocks.next(&mut block, |data| dialect.whole_records(data)).unwrap() {
        let mut records = CsvRecords::new("f.csv", &block, dialect, &mut cut);
        while records.advance()? {
            let text = records.text()?;
            all.push((records.line, records.cut.fields.iter().map(|f| text[range(f)].to_owned()).collect()));
        }
    }
    Ok(all)
}

#[test]
fn lines_are_counted_through_quotes_blank_lines_and_windows_ends() {
    let data = b"a,b\r\n\r\n1,\"x\r\ny\"\r\n\n2,\"say \"\"hi\"\"\"\n3,plain\"quote\n4,";
    for step in [1, 2, 3, 7, 1000] {
        let found = records(data, step).unwrap();
        let expected: Vec<(u64, Vec<String>)> = [
            (1, ["a", "b"]),
            (3, ["1", "x\r\ny"]),
            (6, ["2", "say \"hi\""]),
            (7, ["3", "plain\"quote"]),
            (8, ["4", ""]),
        ]
        .map(|(line, cells)| (line, cells.map(String::from).to_vec()))
        .to_vec();
        assert_eq!(found, expected, "step {step}");
    }
}

#[test]
fn broken_quotes_name_the_line_they_open_on() {
    for step in [1, 1000] {
        let error = records(b"a,b\n1,2\n3,\"never\nclosed\n", step).unwrap_err().to_string();
        assert!(error.contains("f.csv, line 3") && error.contains("never closed"), "{error}");
        let error = records(b"a,b\n1,\"2\"x\n", step).unwrap_err().to_string();
        assert!(error.contains("f.csv, line 2") && error.contains("closing quote"), "{error}");
    }
}

#[test]
fn comments_are_left_out_wherever_a_record_may_begin() {
    let dialect = Dialect { comment: Some(b"# ".to_vec()), ..usual() };
    let data = b"# \"open\na,b\r\n# it's \"x\", y\r\n#1,2\n\"x\n# y\",3\n# end \"";
    for step in [1, 2, 3, 7, 1000] {
        let found = records_of(data, step, &dialect).unwrap();
        let expected: Vec<(u64, Vec<String>)> = [(2, ["a", "b"]), (4, ["#1", "2"]), (5, ["x\n# y", "3"])]
            .map(|(line, cells)| (line, cells.map(String::from).to_vec()))
            .to_vec();
        assert_eq!(found, expected, "step {step}");
    }
    // A comment without an end does not hide that the rest of the file is not read.
    let mut data = b"a\n# \"".to_vec();
    data.resize((16 << 20) + 2_000_000, b'x');
    let error = records_of(&data, usize::MAX, &dialect).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("16 MiB"), "{error}");
}

#[test]
fn quotes_are_declared() {
    let data = b"a,'b\n1,\"2\n3,4' '\n";
    for (quote, expected) in [
        (None, Ok(vec![vec!["a", "'b"], vec!["1", "\"2"], vec!["3", "4' '"]])),
        (
            Some(b'"'),
            Err("line 2: a quote that opens in this row is never closed; close or remove it, or, if quotes are \
                          ordinary characters, declare --quote none"),
        ),
        (Some(b'\''), Err("line 1: text follows a closing quote; write a quote inside a quoted cell twice, or, if")),
    ] {
        for step in [1, 3, 1000] {
            let found = records_of(data, step, &Dialect { quote, ..usual() });
            match (&expected, found) {
                (Ok(rows), Ok(found)) => {
                    assert_eq!(found.into_iter().map(|(_, cells)| cells).collect::<Vec<_>>(), *rows);
                }
                (Err(says), Err(error)) => assert!(error.to_string().contains(says), "{error}"),
                (_, found) => panic!("{quote:?}: {found:?}"),
            }
        }
    }
}

#[test]
fn endless_lines_and_quotes_are_given_up_early() {
    let mut data = b"a\n".to_vec();
    data.resize((16 << 20) + 2_000_000, b'x');
    let error = records(&data, usize::MAX).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("16 MiB"), "{error}");
    let mut data = b"a\n\"".to_vec();
    while data.len() < (16 << 20) + 2_000_000 {
        data.extend_from_slice(b"some text\n");
    }
    let error = records(&data, usize::MAX).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("16 MiB"), "{error}");
}

proptest! {
    #[test]
    fn agrees_with_the_csv_crate(
        rows in prop::collection::vec(prop::collection::vec("[a-z,\"\r\n é]{0,6}", 1..4), 1..8),
        windows: bool,
        step in 1usize..9,
    ) {
        let terminator = if windows { ::csv::Terminator::CRLF } else { ::csv::Terminator::Any(b'\n') };
        let mut writer = ::csv::WriterBuilder::new().flexible(true).terminator(terminator).from_writer(Vec::new());
        for row in &rows {
            writer.write_record(row).unwrap();
        }
        let data = writer.into_inner().unwrap();
        let found: Vec<Vec<String>> = records(&data, step).unwrap().into_iter().map(|(_, cells)| cells).collect();
        prop_assert_eq!(found, rows);
    }

    #[test]
    fn never_panics(
        data in prop::collection::vec(prop::sample::select(b"a,\"\r\n\xff".to_vec()), 0..40),
        step in 1usize..5,
    ) {
        let whole = records(&data, 1000).map_err(|e| e.to_string());
        prop_assert_eq!(records(&data, step).map_err(|e| e.to_string()), whole);
    }
}
