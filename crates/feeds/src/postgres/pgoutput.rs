//! Messages of the plugin `pgoutput`, protocol version 1, and their rows as JSON.

use crate::time::rfc3339;
use std::collections::HashMap;

/// A message that does not follow the protocol.
#[derive(Debug)]
pub(super) struct Malformed;

/// What a message reports.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RowChange {
    /// A transaction, whose commit record is at this place of the log.
    Begin { commit: u64 },
    /// Its end. The log continues at this place.
    Commit { end: u64 },
    /// A row was inserted.
    Insert { json: Vec<u8> },
    /// Rows were updated, deleted or truncated.
    Other,
    /// Nothing about rows.
    Nothing,
}

/// How the text of a value becomes JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonKind {
    Bool,
    Number,
    Json,
    Time,
    Text,
}

#[derive(Debug)]
struct ReplicatedTable {
    name: String,
    /// Names as keys of JSON, with their colons.
    columns: Vec<(String, JsonKind)>,
}

/// Decodes the messages of a session, which describe each table before its first row.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    tables: HashMap<u32, ReplicatedTable>,
    /// The base types of domains.
    pub(super) domains: HashMap<u32, u32>,
    /// Whether rows begin with the fields `_time` and `_table`.
    with_metadata: bool,
    time: String,
}

impl Decoder {
    pub(super) fn new(with_metadata: bool) -> Self {
        Self { with_metadata, ..Self::default() }
    }

    pub(super) fn decode(&mut self, message: &[u8]) -> Result<RowChange, Malformed> {
        let mut rest = MessageBytes(message);
        Ok(match rest.byte()? {
            b'B' => {
                let commit = rest.long()?;
                self.time = time_of(rest.long()?)?;
                RowChange::Begin { commit }
            }
            b'C' => {
                rest.take(1 + 8)?;
                RowChange::Commit { end: rest.long()? }
            }
            b'R' => {
                let id = rest.int()?;
                let table = self.table(&mut rest)?;
                self.tables.insert(id, table);
                RowChange::Nothing
            }
            b'I' => {
                let table = self.tables.get(&rest.int()?).ok_or(Malformed)?;
                if rest.byte()? != b'N' {
                    return Err(Malformed);
                }
                RowChange::Insert { json: self.row(table, &mut rest)? }
            }
            b'U' | b'D' | b'T' => RowChange::Other,
            _ => RowChange::Nothing,
        })
    }

    fn table(&self, rest: &mut MessageBytes<'_>) -> Result<ReplicatedTable, Malformed> {
        let schema = match rest.text()? {
            "" => "pg_catalog",
            schema => schema,
        };
        let name = format!("{schema}.{}", rest.text()?);
        rest.byte()?;
        let mut columns = Vec::new();
        for _ in 0..rest.short()? {
            rest.byte()?;
            let key = format!("{}:", serde_json::Value::from(rest.text()?));
            let mut of_type = rest.int()?;
            while let Some(base) = self.domains.get(&of_type) {
                of_type = *base;
            }
            rest.int()?;
            columns.push((key, JsonKind::of(of_type)));
        }
        Ok(ReplicatedTable { name, columns })
    }

    fn row(&self, table: &ReplicatedTable, rest: &mut MessageBytes<'_>) -> Result<Vec<u8>, Malformed> {
        let mut json = vec![b'{'];
        if self.with_metadata {
            let (time, name) = (&self.time, serde_json::Value::from(&*table.name));
            json.extend_from_slice(format!("\"_time\":\"{time}\",\"_table\":{name}").as_bytes());
        }
        if usize::from(rest.short()?) != table.columns.len() {
            return Err(Malformed);
        }
        for (key, kind) in &table.columns {
            let value = match rest.byte()? {
                b'n' => None,
                b't' => {
                    let length = rest.int()? as usize;
                    Some(rest.take(length)?)
                }
                // A value outside the row that did not change: only updates have it.
                b'u' => continue,
                _ => return Err(Malformed),
            };
            if json.len() > 1 {
                json.push(b',');
            }
            json.extend_from_slice(key.as_bytes());
            match value {
                Some(text) => kind.write(text, &mut json),
                None => json.extend_from_slice(b"null"),
            }
        }
        json.push(b'}');
        Ok(json)
    }
}

impl JsonKind {
    /// By the number of a built-in type, which never changes.
    fn of(of_type: u32) -> Self {
        match of_type {
            16 => Self::Bool,
            20 | 21 | 23 | 26 | 700 | 701 | 1700 => Self::Number,
            114 | 3802 => Self::Json,
            1114 | 1184 => Self::Time,
            _ => Self::Text,
        }
    }

    fn write(self, text: &[u8], json: &mut Vec<u8>) {
        let is_finite = text.last().is_some_and(u8::is_ascii_digit);
        match self {
            Self::Bool => json.extend_from_slice(if text == b"t" { b"true" } else { b"false" }),
            Self::Number if is_finite => json.extend_from_slice(text),
            Self::Json => json.extend_from_slice(text),
            // `2026-01-31 12:00:00.5+00`, but other times, such as `infinity`, have no RFC 3339 text.
            Self::Time if text.get(10) == Some(&b' ') && is_finite => {
                let zoned = text.strip_suffix(b"+00");
                let time = String::from_utf8_lossy(zoned.unwrap_or(text)).replacen(' ', "T", 1);
                json.extend_from_slice(format!("\"{time}{}\"", if zoned.is_some() { "Z" } else { "" }).as_bytes());
            }
            _ => json.extend_from_slice(serde_json::Value::from(String::from_utf8_lossy(text)).to_string().as_bytes()),
        }
    }
}

/// The time of a commit, from its microseconds since 2000.
fn time_of(micros: u64) -> Result<String, Malformed> {
    const SINCE_1970: i64 = 946_684_800_000_000;
    let micros = micros.cast_signed().checked_add(SINCE_1970).ok_or(Malformed)?;
    rfc3339(micros).ok_or(Malformed)
}

/// The rest of a message.
struct MessageBytes<'m>(&'m [u8]);

impl<'m> MessageBytes<'m> {
    fn take(&mut self, count: usize) -> Result<&'m [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    fn short(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    fn int(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn long(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// A text that ends in a zero.
    fn text(&mut self) -> Result<&'m str, Malformed> {
        let length = self.0.iter().position(|byte| *byte == 0).ok_or(Malformed)?;
        let text = self.take(length)?;
        self.byte()?;
        std::str::from_utf8(text).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(columns: &[(&str, u32)]) -> Vec<u8> {
        let mut message = b"R\0\0\0\x07public\0t\"t\0d".to_vec();
        message.extend_from_slice(&(columns.len() as u16).to_be_bytes());
        for (name, of_type) in columns {
            message.push(0);
            message.extend_from_slice(name.as_bytes());
            message.push(0);
            message.extend_from_slice(&of_type.to_be_bytes());
            message.extend_from_slice(&u32::MAX.to_be_bytes());
        }
        message
    }

    fn insert(values: &[Option<&str>]) -> Vec<u8> {
        let mut message = b"I\0\0\0\x07N".to_vec();
        message.extend_from_slice(&(values.len() as u16).to_be_bytes());
        for value in values {
            message.push(if value.is_some() { b't' } else { b'n' });
            if let Some(text) = value {
                message.extend_from_slice(&(text.len() as u32).to_be_bytes());
                message.extend_from_slice(text.as_bytes());
            }
        }
        message
    }

    #[test]
    fn values_become_json_by_their_types() {
        for (of_type, text, expected) in [
            (16, "t", "true"),
            (16, "f", "false"),
            (23, "-5", "-5"),
            (701, "1e+30", "1e+30"),
            (701, "-Infinity", "\"-Infinity\""),
            (1700, "NaN", "\"NaN\""),
            (1700, "0.50", "0.50"),
            (3802, "{\"a\": [1]}", "{\"a\": [1]}"),
            (1184, "2026-01-31 12:00:00.5+00", "\"2026-01-31T12:00:00.5Z\""),
            (1114, "2026-01-31 12:00:00", "\"2026-01-31T12:00:00\""),
            (1184, "infinity", "\"infinity\""),
            (1184, "0044-03-15 12:00:00+00 BC", "\"0044-03-15 12:00:00+00 BC\""),
            (25, "a \"b\"\n", "\"a \\\"b\\\"\\n\""),
            (99_999, "7", "7"),
        ] {
            let mut decoder = Decoder { domains: HashMap::from([(99_999, 23)]), ..Decoder::default() };
            decoder.decode(&relation(&[("a\"b", of_type), ("c", 23)])).expect("valid");
            let expected = format!("{{\"a\\\"b\":{expected},\"c\":null}}");
            let change = decoder.decode(&insert(&[Some(text), None])).expect("valid");
            assert!(serde_json::from_str::<serde_json::Value>(&expected).is_ok());
            assert_eq!(change, RowChange::Insert { json: expected.into_bytes() });
        }
    }

    #[test]
    fn times_and_tables_are_metadata() {
        let mut decoder = Decoder { with_metadata: true, ..Decoder::default() };
        let mut begin = b"B\0\0\0\0\x01\x52\xb6\x60".to_vec();
        begin.extend_from_slice(&1_500_000_u64.to_be_bytes());
        begin.extend_from_slice(&727_u32.to_be_bytes());
        assert_eq!(decoder.decode(&begin).expect("valid"), RowChange::Begin { commit: 0x0152_b660 });
        decoder.decode(&relation(&[("id", 20)])).expect("valid");
        let RowChange::Insert { json } = decoder.decode(&insert(&[Some("1")])).expect("valid") else { panic!() };
        let expected = r#"{"_time":"2000-01-01T00:00:01.500000Z","_table":"public.t\"t","id":1}"#;
        assert_eq!(String::from_utf8(json).expect("UTF-8"), expected);
        assert_eq!(decoder.decode(b"D\0\0\0\x07").expect("valid"), RowChange::Other);
    }

    /// A cut message is an error, never a panic.
    #[test]
    fn cut_messages_are_refused() {
        let mut decoder = Decoder::default();
        let described = relation(&[("id", 20)]);
        decoder.decode(&described).expect("valid");
        for whole in [&described, &insert(&[Some("12")])] {
            for length in 0..whole.len() {
                assert!(decoder.decode(&whole[..length]).is_err(), "{length} bytes of {whole:?}");
            }
        }
    }
}
