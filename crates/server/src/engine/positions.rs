//! Positions in sources: which rows of a log, a topic or a table have been accepted.
//!
//! A position is written in the commit that accepts the rows before it, and a batch is accepted only if it begins at
//! the stored position. So whoever follows a source needs no memory, and neither crashes nor lost answers nor a second
//! follower can make a row count twice, or be lost.

use super::accepting::Receipt;
use super::core::Core;
use super::refusal::Refusal;
use crate::store::{POSITIONS, PositionRecord, from_bytes, stored, to_bytes};
use evertally_declare::error::{Result, usage};
use redb::{ReadableTable, WriteTransaction};
use std::collections::BTreeMap;

/// The most bytes of the name of a source.
const MAX_SOURCE_BYTES: usize = 400;
/// The most bytes of the name of a partition: the longest name of an object is 1024.
const MAX_PARTITION_BYTES: usize = 1024;
/// The most bytes of a position.
const MAX_POSITION_BYTES: usize = 4096;

/// The rows of a batch as a range of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRange {
    source: String,
    partition: String,
    after: Option<String>,
    position: String,
}

impl SourceRange {
    /// The rows of a partition of a source between two positions; the first is `None` at its beginning.
    ///
    /// # Errors
    /// If a name or a position is too long, or the name of the source or the position is empty.
    pub fn new(source: &str, partition: &str, after: Option<&str>, position: &str) -> Result<Self> {
        for (what, text, most) in [
            ("source", source, MAX_SOURCE_BYTES),
            ("partition", partition, MAX_PARTITION_BYTES),
            ("position", position, MAX_POSITION_BYTES),
            ("position", after.unwrap_or_default(), MAX_POSITION_BYTES),
        ] {
            if text.len() > most {
                return Err(usage(format!("the name of a {what} has at most {most} bytes")));
            }
        }
        if source.is_empty() || position.is_empty() || after == Some("") {
            return Err(usage("a batch of a source has the name of its source, and the position after its rows"));
        }
        Ok(Self {
            source: source.to_owned(),
            partition: partition.to_owned(),
            after: after.map(str::to_owned),
            position: position.to_owned(),
        })
    }

    /// How receipts name it.
    fn shown(&self) -> String {
        let partition = if self.partition.is_empty() { String::new() } else { format!(" {}", self.partition) };
        format!("{}{partition} {}", self.source, self.position)
    }

    /// Its receipt if it was accepted before; `None` if it is the next to be accepted.
    pub(super) fn accepted(
        &self,
        writing: &WriteTransaction,
        number: u32,
        (rows, digest): (u64, [u8; 32]),
    ) -> Result<Option<Receipt>, Refusal> {
        let table = writing.open_table(POSITIONS).map_err(stored)?;
        let before = table.get((number, self.source.as_str(), self.partition.as_str())).map_err(stored)?;
        let before = before.map(|bytes| from_bytes::<PositionRecord>(bytes.value(), "a position")).transpose()?;
        match before {
            Some(before) if before.position == self.position => {
                if (before.rows, before.digest) != (rows, digest) {
                    return Err(Refusal::Differs(before.rows));
                }
                let duplicates = before.duplicates;
                Ok(Some(Receipt { batch: self.shown(), rows, duplicates, digest, repeated: true }))
            }
            before => {
                let stored = before.map(|before| before.position);
                if stored == self.after { Ok(None) } else { Err(Refusal::Elsewhere(stored)) }
            }
        }
    }

    /// Writes its position, with those of its rows.
    pub(super) fn note(
        self,
        writing: &WriteTransaction,
        number: u32,
        (rows, digest, duplicates): (u64, [u8; 32], u64),
        now: i64,
    ) -> Result<String> {
        let shown = self.shown();
        let record = PositionRecord { position: self.position, digest, rows, duplicates, at: now };
        let mut table = writing.open_table(POSITIONS).map_err(stored)?;
        let key = (number, self.source.as_str(), self.partition.as_str());
        table.insert(key, to_bytes(&record)?.as_slice()).map_err(stored)?;
        Ok(shown)
    }
}

impl Core {
    /// The positions in a source, by partition, up to which its rows were accepted.
    ///
    /// # Errors
    /// If there is no such stream, or the store cannot be read.
    pub fn positions(&self, name: &str, source: &str) -> Result<BTreeMap<String, String>, Refusal> {
        let number = self.find(name).ok_or(Refusal::NoStream)?.number;
        let table = self.store.look()?.open_table(POSITIONS).map_err(stored)?;
        let mut positions = BTreeMap::new();
        for entry in table.range((number, source, "")..).map_err(stored)? {
            let (key, record) = entry.map_err(stored)?;
            let (of_stream, of_source, partition) = key.value();
            if (of_stream, of_source) != (number, source) {
                break;
            }
            let record: PositionRecord = from_bytes(record.value(), "a position")?;
            positions.insert(partition.to_owned(), record.position);
        }
        Ok(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_positions_are_bounded() {
        assert!(SourceRange::new("kafka:visits", "3", Some("7"), "9").is_ok());
        let long = "x".repeat(MAX_POSITION_BYTES + 1);
        for (source, partition, after, position) in [
            ("", "", None, "1"),
            ("s", "", None, ""),
            ("s", "", Some(""), "1"),
            (&long[..MAX_SOURCE_BYTES + 1], "", None, "1"),
            ("s", &long[..MAX_PARTITION_BYTES + 1], None, "1"),
            ("s", "", Some(long.as_str()), "1"),
            ("s", "", None, long.as_str()),
        ] {
            assert!(SourceRange::new(source, partition, after, position).is_err());
        }
    }
}
