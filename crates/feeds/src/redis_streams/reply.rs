//! What the server answers.

use redis::Value;
use serde_json::Value as Json;
use std::fmt;

/// The id of an entry: milliseconds since 1970, and a number among those of one millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(u64, u64);

impl Id {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (millis, number) = text.split_once('-')?;
        Some(Self(millis.parse().ok()?, number.parse().ok()?))
    }

    /// Its time, in microseconds since 1970.
    pub(super) fn micros(self) -> Option<i64> {
        i64::try_from(self.0).ok()?.checked_mul(1000)
    }

    fn of(value: &Value) -> Option<Self> {
        Self::parse(std::str::from_utf8(bytes_of(value)?).ok()?)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StreamEntry {
    pub(super) id: Id,
    /// The size of its names and values.
    pub(super) bytes: usize,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl StreamEntry {
    /// Its row as JSON: the value of one field, or an object of all. Without that field, or with bytes that are not
    /// text, it is a text, which the service refuses and reports.
    pub(super) fn row(&self, json: Option<&str>) -> Vec<u8> {
        if let Some(name) = json {
            let field = self.fields.iter().find(|(own, _)| own == name.as_bytes());
            return field
                .map_or_else(|| b"\"this entry lacks the field with JSON\"".to_vec(), |(_, value)| value.clone());
        }
        let mut row = vec![b'{'];
        for (index, (name, value)) in self.fields.iter().enumerate() {
            let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
                return b"\"this entry is not UTF-8\"".to_vec();
            };
            let comma = if index == 0 { "" } else { "," };
            row.extend_from_slice(format!("{comma}{}:{}", Json::from(name), Json::from(value)).as_bytes());
        }
        row.push(b'}');
        row
    }
}

/// The entries in an answer to `XREAD` of one stream.
pub(super) fn entries(answer: Value) -> Option<Vec<StreamEntry>> {
    let streams = match answer {
        Value::Nil => return Some(Vec::new()),
        Value::Array(streams) => streams,
        _ => return None,
    };
    let [stream] = <[Value; 1]>::try_from(streams).ok()?;
    let [_, entries] = <[Value; 2]>::try_from(array_of(stream)?).ok()?;
    array_of(entries)?.into_iter().map(entry).collect()
}

fn entry(value: Value) -> Option<StreamEntry> {
    let [id, fields] = <[Value; 2]>::try_from(array_of(value)?).ok()?;
    let mut texts = array_of(fields)?.into_iter().map(|text| match text {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    });
    let mut entry = StreamEntry { id: Id::of(&id)?, bytes: 0, fields: Vec::new() };
    while let Some(name) = texts.next() {
        let (name, value) = (name?, texts.next()??);
        entry.bytes += name.len() + value.len() + "\"\":\"\",".len();
        entry.fields.push((name, value));
    }
    Some(entry)
}

/// What the server knows about a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Info {
    /// The number of present entries.
    pub(super) length: u64,
    /// The id of the last entry that was ever added.
    pub(super) last: Id,
    /// The id of the first present entry.
    pub(super) first: Option<Id>,
    /// The number of entries that were ever added; unknown before Redis 7.
    pub(super) added: Option<u64>,
}

impl Info {
    /// Of an answer to `XINFO STREAM`: names, each followed by its value.
    pub(super) fn of(answer: &Value) -> Option<Self> {
        let Value::Array(all) = answer else { return None };
        let named = |name: &str| all.chunks(2).find(|pair| bytes_of(&pair[0]) == Some(name.as_bytes()))?.get(1);
        let number = |name| match named(name)? {
            Value::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        };
        let first = match named("first-entry")? {
            Value::Array(entry) => Some(Id::of(entry.first()?)?),
            _ => None,
        };
        let last = Id::of(named("last-generated-id")?)?;
        Some(Self { length: number("length")?, last, first, added: number("entries-added") })
    }
}

fn array_of(value: Value) -> Option<Vec<Value>> {
    if let Value::Array(all) = value { Some(all) } else { None }
}

fn bytes_of(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}
