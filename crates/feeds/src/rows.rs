//! Rows of a batch, as they are sent.

use evertally_declare::format::Format;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

/// Rows of a batch in the format of its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Their format.
    pub format: Format,
    /// How the bytes are compressed, as HTTP names it.
    pub compression: Option<&'static str>,
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
    /// A row is known by its place in the bytes.
    Whole,
}

impl Origins {
    /// The place of a row, counted from 1.
    pub fn of(&self, row: usize) -> Option<String> {
        let index = row.checked_sub(1)?;
        match self {
            Self::Numbers(unit, numbers) => numbers.get(index).map(|number| format!("{unit} {number}")),
            Self::Texts(texts) => texts.get(index).cloned(),
            Self::Whole => Some(format!("row {row}")),
        }
    }
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
        Rows { format: Format::JsonLines, compression: None, bytes: self.bytes, origins }
    }
}

impl Rows {
    /// No rows.
    pub fn none() -> Self {
        RowWriter::default().finish(Origins::Whole)
    }

    /// The bytes without some rows of JSON lines, which are counted from 1.
    pub fn without(&self, left_out: &BTreeSet<usize>) -> Vec<u8> {
        let lines = self.bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
        lines.filter(|(index, _)| !left_out.contains(&(index + 1))).flat_map(|(_, line)| line.to_vec()).collect()
    }

    /// The text of a row of JSON lines, counted from 1.
    pub fn text_of(&self, row: usize) -> Option<String> {
        let line = self.bytes.split(|byte| *byte == b'\n').nth(row.checked_sub(1)?)?;
        Some(String::from_utf8_lossy(line).into_owned())
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
        let rows = writer.finish(Origins::Whole);
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
        assert_eq!(rows.without(&BTreeSet::from([1, 2, 3, 4, 5, 6])), b"3\n");
        assert_eq!(rows.text_of(7).as_deref(), Some("3"));
    }
}
