//! Positions in sources: which rows of a log, a topic or a table have been accepted.
//!
//! A position is written in the commit that accepts the rows before it, and a batch is accepted only if it begins at
//! the stored position. So a follower of a source needs no memory, and neither crashes nor lost answers nor a second
//! follower can make a row count twice, or be lost.
//!
//! A stream that continues another also continues its positions: the last part that has one decides. So the rows of a
//! source count once over all parts, and a batch whose answer was lost is known after the next part has opened.
//!
//! Positions are encrypted: they say how many rows there were, and those of files contain digests of rows, which the
//! folder must not reveal after the rows were deleted.

use super::refusal::Refusal;
use crate::store::{BatchRecord, POSITIONS, PositionRecord, from_bytes, stored, to_bytes};
use chacha20poly1305::aead::{Aead, KeyInit};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use evertally_declare::error::{Result, failure, usage};
use redb::{ReadTransaction, ReadableTable, WriteTransaction};
use std::collections::BTreeMap;

/// The most bytes of the name of a source.
const MAX_SOURCE_BYTES: usize = 400;
/// The most bytes of the name of a partition: the longest name of an object is 1024.
const MAX_PARTITION_BYTES: usize = 1024;
/// The most bytes of a position.
const MAX_POSITION_BYTES: usize = 4096;

/// The bytes of a nonce before a sealed position.
const NONCE_BYTES: usize = 24;

/// The part of a stream that stores positions.
#[derive(Clone, Copy)]
pub(super) struct PositionKeeper {
    /// Its number in the store.
    pub(super) number: u32,
    /// The key from which that of its positions is derived.
    pub(super) digest_key: [u8; 32],
}

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
        if after == Some(position) {
            return Err(usage("the position after the rows is the one before them"));
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
    pub(super) fn shown(&self) -> String {
        let partition = if self.partition.is_empty() { String::new() } else { format!(" {}", self.partition) };
        format!("{}{partition} {}", self.source, self.position)
    }

    /// The name of its source.
    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Whether a stored position is the one after these rows.
    fn is_at(&self, known: &KnownPosition) -> bool {
        known.position == self.position && known.after == self.after
    }

    /// The record of it if the first of these parts has accepted it before; `None` if it is the next to be accepted.
    /// The other parts are those that the first one continues.
    pub(super) fn accepted(
        &self,
        writing: &WriteTransaction,
        parts: &[PositionKeeper],
    ) -> Result<Option<BatchRecord>, Refusal> {
        let table = writing.open_table(POSITIONS).map_err(stored)?;
        match last_known(&table, parts, (&self.source, &self.partition))? {
            None if self.after.is_none() => Ok(None),
            None => Err(Refusal::Elsewhere(None)),
            Some((0, known)) if self.is_at(&known) => Ok(Some(known.batch)),
            Some((_, known)) if Some(&known.position) == self.after.as_ref() => Ok(None),
            Some((_, known)) => Err(Refusal::Elsewhere(Some(known.position))),
        }
    }

    /// The place of the part that has accepted it, if nothing was accepted after it. The last part is the first here.
    pub(super) fn accepted_by(&self, reading: &ReadTransaction, parts: &[PositionKeeper]) -> Result<Option<usize>> {
        let table = reading.open_table(POSITIONS).map_err(stored)?;
        let known = last_known(&table, parts, (&self.source, &self.partition))?;
        Ok(known.filter(|(_, known)| self.is_at(known)).map(|(place, _)| place))
    }

    /// Writes its position, with the record of its rows.
    pub(super) fn note(&self, writing: &WriteTransaction, part: &PositionKeeper, batch: BatchRecord) -> Result<()> {
        let after = self.after.as_ref().map(|after| sealed(after, &part.digest_key)).transpose()?;
        let record = PositionRecord { position: sealed(&self.position, &part.digest_key)?, after, batch };
        let mut table = writing.open_table(POSITIONS).map_err(stored)?;
        let key = (part.number, self.source.as_str(), self.partition.as_str());
        table.insert(key, to_bytes(&record)?.as_slice()).map_err(stored)?;
        Ok(())
    }
}

/// A stored position, and the batch before it.
struct KnownPosition {
    position: String,
    after: Option<String>,
    batch: BatchRecord,
}

/// The position in a partition, and the place of the part that has stored it. The last part, which is the first here,
/// continues from the others.
fn last_known(
    table: &impl ReadableTable<(u32, &'static str, &'static str), &'static [u8]>,
    parts: &[PositionKeeper],
    (source, partition): (&str, &str),
) -> Result<Option<(usize, KnownPosition)>> {
    for (place, part) in parts.iter().enumerate() {
        let Some(record) = table.get((part.number, source, partition)).map_err(stored)? else { continue };
        let PositionRecord { position, after, batch } = from_bytes(record.value(), "a position")?;
        let after = after.map(|after| opened(&after, &part.digest_key)).transpose()?;
        return Ok(Some((place, KnownPosition { position: opened(&position, &part.digest_key)?, after, batch })));
    }
    Ok(None)
}

/// The positions in a source, by partition, in these parts of a stream, of which the last one is first.
pub(super) fn positions_of(
    reading: &ReadTransaction,
    parts: &[PositionKeeper],
    source: &str,
) -> Result<BTreeMap<String, String>> {
    let table = reading.open_table(POSITIONS).map_err(stored)?;
    let mut positions = BTreeMap::new();
    for part in parts {
        for entry in table.range((part.number, source, "")..).map_err(stored)? {
            let (key, record) = entry.map_err(stored)?;
            let (of_stream, of_source, partition) = key.value();
            if (of_stream, of_source) != (part.number, source) {
                break;
            }
            if !positions.contains_key(partition) {
                let record: PositionRecord = from_bytes(record.value(), "a position")?;
                positions.insert(partition.to_owned(), opened(&record.position, &part.digest_key)?);
            }
        }
    }
    Ok(positions)
}

fn cipher(digest_key: &[u8; 32]) -> XChaCha20Poly1305 {
    let key = blake3::derive_key("evertally serve 1 positions", digest_key);
    XChaCha20Poly1305::new(&Key::from(key))
}

/// A position under a key of the stream, which is derived from that of the service.
fn sealed(position: &str, digest_key: &[u8; 32]) -> Result<Vec<u8>> {
    let mut nonce = [0; NONCE_BYTES];
    getrandom::fill(&mut nonce).map_err(failure)?;
    let sealed = cipher(digest_key).encrypt(&XNonce::from(nonce), position.as_bytes()).map_err(failure)?;
    Ok([&nonce[..], &sealed].concat())
}

fn opened(sealed: &[u8], digest_key: &[u8; 32]) -> Result<String> {
    let corrupt = || failure("the data folder is corrupt: a position cannot be read");
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or_else(corrupt)?;
    let opened = cipher(digest_key).decrypt(&XNonce::from(*nonce), sealed).map_err(|_| corrupt())?;
    String::from_utf8(opened).map_err(|_| corrupt())
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
            ("s", "", Some("1"), "1"),
            (&long[..MAX_SOURCE_BYTES + 1], "", None, "1"),
            ("s", &long[..MAX_PARTITION_BYTES + 1], None, "1"),
            ("s", "", Some(long.as_str()), "1"),
            ("s", "", None, long.as_str()),
        ] {
            assert!(SourceRange::new(source, partition, after, position).is_err());
        }
    }
}
