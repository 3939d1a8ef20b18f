//! Rows of a batch, as they are sent.

use evertally_declare::format::Format;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Rows of a batch in the format of their source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Their format.
    pub format: Format,
    /// How the bytes are compressed, as HTTP names it.
    pub compression: Option<&'static str>,
    /// The header line of CSV, with its line end; otherwise empty.
    pub header: Vec<u8>,
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// Where they come from, for messages.
    pub origins: Origins,
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// The number of each row's message, and what such numbers are called: `offset`.
    Numbers(&'static str, Vec<u64>),
    /// The place of each row.
    Texts(Vec<String>),
    /// The line of a file in which the first row begins.
    FromLine(u64),
    /// A row is known by its number in the bytes.
    Whole,
}

/// Writes messages as JSON lines, each of which is one row: objects, and arrays of objects.
#[derive(Debug, Default)]
pub struct RowWriter {
    bytes: Vec<u8>,
    rows: usize,
}

impl RowWriter {
    /// Adds the rows of a message, with further fields, and returns their number. A message that is not JSON becomes a
    /// row that the service refuses, so that it is reported with its place.
    pub fn push(&mut self, message: &[u8], fields: &[(&str, &str)]) -> usize {
        let before = self.rows;
        if let Ok(items) = serde_json::from_slice::<Vec<&RawValue>>(message) {
            items.into_iter().for_each(|item| self.push_value(item.get().as_bytes(), fields));
        } else if let Ok(value) = serde_json::from_slice::<&RawValue>(message) {
            self.push_value(value.get().as_bytes(), fields);
        } else {
            let text = serde_json::Value::from(String::from_utf8_lossy(message)).to_string();
            self.push_value(text.as_bytes(), &[]);
        }
        self.rows - before
    }

    fn push_value(&mut self, value: &[u8], fields: &[(&str, &str)]) {
        // In JSON, line ends are only between tokens, where a space means the same.
        let spaced = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
        let inner = value.strip_prefix(b"{").filter(|_| !fields.is_empty());
        if let Some(inner) = inner {
            self.bytes.push(b'{');
            for (index, (name, value)) in fields.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                let (name, value) = (serde_json::Value::from(*name), serde_json::Value::from(*value));
                self.bytes.extend_from_slice(format!("{comma}{name}:{value}").as_bytes());
            }
            if !inner.trim_ascii_start().starts_with(b"}") {
                self.bytes.push(b',');
            }
            self.bytes.extend(inner.iter().map(spaced));
        } else {
            self.bytes.extend(value.iter().map(spaced));
        }
        self.bytes.push(b'\n');
        self.rows += 1;
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The rows, with their origins.
    pub fn finish(self, origins: Origins) -> Rows {
        Rows { format: Format::JsonLines, compression: None, header: Vec::new(), bytes: self.bytes, origins }
    }
}

/// How far a search for the end of a row came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowScan {
    /// The bytes that were searched.
    scanned: usize,
    is_quoted: bool,
}

impl RowScan {
    /// The place after the line end of the next row of a text; `None` if it is incomplete. The search continues where
    /// it ended. A line end inside quotes does not end a row of CSV.
    pub(crate) fn row_end(&mut self, format: Format, bytes: &[u8]) -> Option<usize> {
        let is_csv = format == Format::Csv;
        for (place, byte) in bytes.iter().enumerate().skip(self.scanned) {
            match byte {
                b'"' if is_csv => self.is_quoted = !self.is_quoted,
                b'\n' if !self.is_quoted => {
                    self.scanned = place + 1;
                    return Some(place + 1);
                }
                _ => {}
            }
        }
        self.scanned = bytes.len();
        None
    }
}

/// The place after the line end of the first row of a text; `None` if it is incomplete.
pub(crate) fn row_end(format: Format, bytes: &[u8]) -> Option<usize> {
    RowScan::default().row_end(format, bytes)
}

/// The number of line ends.
pub(crate) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl Rows {
    /// No rows.
    pub fn none() -> Self {
        RowWriter::default().finish(Origins::Whole)
    }

    /// Whether single rows can be left out.
    pub fn has_lines(&self) -> bool {
        self.format.has_lines() && self.compression.is_none()
    }

    /// The rows of a text.
    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let end = row_end(self.format, rest).unwrap_or(rest.len());
            let (row, tail) = rest.split_at(end);
            rest = tail;
            (!row.is_empty()).then_some(row)
        })
    }

    /// The body of a request, without some rows, which are counted from 1.
    pub fn body(&self, left_out: &BTreeSet<usize>) -> Cow<'_, [u8]> {
        if self.header.is_empty() && left_out.is_empty() {
            return Cow::Borrowed(&self.bytes);
        }
        let mut body = self.header.clone();
        if left_out.is_empty() {
            body.extend_from_slice(&self.bytes);
        } else {
            let kept = self.each().enumerate().filter(|(index, _)| !left_out.contains(&(index + 1)));
            kept.for_each(|(_, row)| body.extend_from_slice(row));
        }
        Cow::Owned(body)
    }

    /// The row, counted from 1, that the service calls by a number: that of a line of the [body](Self::body), or of a
    /// row of a table.
    pub fn row_of(&self, number: u64, left_out: &BTreeSet<usize>) -> Option<usize> {
        if !self.has_lines() {
            return usize::try_from(number).ok();
        }
        let mut line = count_lines(&self.header);
        for (index, row) in self.each().enumerate().filter(|(index, _)| !left_out.contains(&(index + 1))) {
            line += count_lines(row).max(1);
            if line >= number {
                return Some(index + 1);
            }
        }
        None
    }

    /// The number of rows before the message that has a row, counted from 1: a source gives whole messages only.
    pub(crate) fn rows_before(&self, row: usize) -> usize {
        let index = row.saturating_sub(1);
        let is_same = |place: &usize| match &self.origins {
            Origins::Numbers(_, numbers) => numbers.get(*place) == numbers.get(index),
            Origins::Texts(texts) => texts.get(*place) == texts.get(index),
            Origins::FromLine(_) | Origins::Whole => false,
        };
        index - (0..index).rev().take_while(is_same).count()
    }

    /// The text of a row, counted from 1.
    pub fn text_of(&self, row: usize) -> Option<String> {
        let text = self.each().nth(row.checked_sub(1)?).filter(|_| self.has_lines())?;
        Some(String::from_utf8_lossy(text).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The place of a row, counted from 1, in its source.
    pub fn origin_of(&self, row: usize) -> Option<String> {
        let index = row.checked_sub(1)?;
        match &self.origins {
            Origins::Numbers(unit, numbers) => numbers.get(index).map(|number| format!("{unit} {number}")),
            Origins::Texts(texts) => texts.get(index).cloned(),
            Origins::FromLine(first) => {
                let lines: u64 = self.each().take(index).map(|row| count_lines(row).max(1)).sum();
                Some(format!("line {}", first + lines))
            }
            Origins::Whole => Some(format!("row {row}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_lines() {
        let mut writer = RowWriter::default();
        let fields = [("_key", "a\"b")];
        assert_eq!(writer.push(b"{\"a\":\n1}", &fields), 1);
        assert_eq!(writer.push(b" [{\"a\": 2}, {}] ", &fields), 2);
        assert_eq!(writer.push(b"{\"a\": \"\\n\"}", &[]), 1);
        assert_eq!(writer.push(b"[]", &fields), 0);
        assert_eq!(writer.push(b"no \"json\"\n", &fields), 1);
        assert_eq!(writer.push(b"\xff", &fields), 1);
        assert_eq!(writer.push(b"3", &fields), 1);
        let rows = writer.finish(Origins::Numbers("offset", vec![5, 6, 6, 7, 9, 10, 11]));
        let text = String::from_utf8(rows.bytes.clone()).expect("UTF-8");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "{\"_key\":\"a\\\"b\",\"a\": 1}",
                "{\"_key\":\"a\\\"b\",\"a\": 2}",
                "{\"_key\":\"a\\\"b\"}",
                "{\"a\": \"\\n\"}",
                "\"no \\\"json\\\"\\n\"",
                "\"\u{fffd}\"",
                "3"
            ]
        );
        let left_out = BTreeSet::from([1, 2, 3, 4, 6]);
        assert_eq!(rows.body(&left_out), &b"\"no \\\"json\\\"\\n\"\n3\n"[..]);
        assert_eq!((rows.row_of(1, &left_out), rows.row_of(2, &left_out)), (Some(5), Some(7)));
        assert_eq!((rows.row_of(3, &left_out), rows.row_of(2, &BTreeSet::new())), (None, Some(2)));
        assert_eq!(rows.text_of(7).as_deref(), Some("3"));
        assert_eq!(rows.origin_of(7).as_deref(), Some("offset 11"));
        // The second and third row are of one message.
        let before: Vec<usize> = (1..=4).map(|row| rows.rows_before(row)).collect();
        assert_eq!(before, [0, 1, 1, 3]);
    }

    #[test]
    fn rows_of_csv_may_have_several_lines() {
        let rows = Rows {
            format: Format::Csv,
            compression: None,
            header: b"a,b\n".to_vec(),
            bytes: b"1,\"x\ny\"\n2,z\n3,w".to_vec(),
            origins: Origins::FromLine(11),
        };
        let none = BTreeSet::new();
        assert_eq!(rows.body(&none), &b"a,b\n1,\"x\ny\"\n2,z\n3,w"[..]);
        for (line, row) in [(1, 1), (2, 1), (3, 1), (4, 2), (5, 3)] {
            assert_eq!(rows.row_of(line, &none), Some(row), "line {line}");
        }
        assert_eq!(rows.origin_of(3).as_deref(), Some("line 14"));
        let left_out = BTreeSet::from([1]);
        assert_eq!(rows.body(&left_out), &b"a,b\n2,z\n3,w"[..]);
        assert_eq!(rows.row_of(2, &left_out), Some(2));
        assert_eq!(rows.text_of(1).as_deref(), Some("1,\"x\ny\""));
    }
}
