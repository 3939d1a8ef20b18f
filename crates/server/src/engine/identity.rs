//! The identities of batches and rows: ids, and keyed digests.

use super::positions::SourceRange;
use evertally_declare::event::{ColumnLayout, Columns, Event};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The id of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchId {
    /// An id chosen by the client.
    Named(String),
    /// The keyed digest of the bytes of the batch after decompression, for clients that cannot set an id per batch.
    Content,
    /// Its place in a source.
    Source(Box<SourceRange>),
}

impl From<&str> for BatchId {
    fn from(id: &str) -> Self {
        Self::Named(id.to_owned())
    }
}

impl BatchId {
    /// The id with the digest of all bytes, once they have been read.
    pub(super) fn resolve(self, bytes: [u8; 32]) -> ResolvedId {
        match self {
            Self::Named(id) => ResolvedId::Text(id),
            Self::Content => ResolvedId::Text(format!("content:{}", evertally::hex(&bytes))),
            Self::Source(range) => ResolvedId::Source(range),
        }
    }
}

/// The id of a batch that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResolvedId {
    /// A text.
    Text(String),
    /// Its place in a source.
    Source(Box<SourceRange>),
}

/// The bytes of a batch, shared by all clones. If they are its [id](BatchId::Content), reading digests them.
#[derive(Clone)]
pub(super) struct BatchBytes(Arc<Mutex<(Box<dyn Read + Send>, Option<blake3::Hasher>)>>);

impl BatchBytes {
    pub(super) fn new(bytes: Box<dyn Read + Send>) -> Self {
        Self(Arc::new(Mutex::new((bytes, None))))
    }

    /// Bytes that are digested under a key if `id` requires it.
    pub(super) fn with_id(bytes: Box<dyn Read + Send>, id: &BatchId, key: &[u8; 32]) -> Self {
        let hasher = (*id == BatchId::Content).then(|| {
            let mut hasher = blake3::Hasher::new_keyed(key);
            hasher.update(b"evertally serve 1 content");
            hasher
        });
        Self(Arc::new(Mutex::new((bytes, hasher))))
    }

    fn inner(&self) -> MutexGuard<'_, (Box<dyn Read + Send>, Option<blake3::Hasher>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the rest, and returns the digest of all bytes; of none if they are not digested.
    pub(super) fn finish(mut self) -> io::Result<[u8; 32]> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(self.inner().1.as_ref().map_or([0; 32], |hasher| *hasher.finalize().as_bytes()))
    }
}

impl Read for BatchBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut inner = self.inner();
        let count = inner.0.read(buffer)?;
        if let Some(hasher) = &mut inner.1 {
            hasher.update(&buffer[..count]);
        }
        Ok(count)
    }
}

/// The keyed digest of the rows of a batch: the texts of the cells of all columns that the stream declares, row by row.
/// It depends on no other column, on no metadata and not on the format.
pub(super) struct RowsDigest {
    hasher: blake3::Hasher,
    /// The number of distinct declared columns.
    cells: usize,
    buffer: Vec<u8>,
    scratch: String,
}

/// The declared columns of a stream and the column with the ids of its rows, if it has one.
pub(super) fn with_id(mut columns: Columns, id: Option<&String>) -> Columns {
    // A reader delivers the columns of a filter by place, and the stream's own filter knows only those before it.
    columns.filter.extend(id.cloned());
    columns
}

/// The most bytes of rows that wait to be digested: BLAKE3 is fastest over long inputs.
const BUFFER_BYTES: usize = 16 << 10;

impl RowsDigest {
    pub(super) fn new(columns: &Columns, key: &[u8; 32]) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(key);
        hasher.update(b"evertally serve 2 rows");
        let cells = ColumnLayout::new(columns).names().len();
        Self { hasher, cells, buffer: Vec::with_capacity(BUFFER_BYTES), scratch: String::new() }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, row: &Event<'_>) {
        for slot in 0..self.cells {
            let text = row.cell(slot).text(&mut self.scratch);
            add_cell(text, &mut self.buffer);
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
    }

    pub(super) fn finish(mut self) -> [u8; 32] {
        self.hasher.update(&self.buffer);
        *self.hasher.finalize().as_bytes()
    }
}

/// Writes a cell so that the cells of a row, and rows, cannot be confused: 0 if it is missing, otherwise its length
/// plus one, in one byte if it fits there, and its text.
fn add_cell(text: Option<&str>, buffer: &mut Vec<u8>) {
    let Some(text) = text else { return buffer.push(0) };
    match u8::try_from(text.len() + 1) {
        Ok(short) if short < u8::MAX => buffer.push(short),
        _ => {
            buffer.push(u8::MAX);
            buffer.extend((text.len() as u64).to_le_bytes());
        }
    }
    buffer.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn cells_cannot_be_confused() {
        let long = "x".repeat(300);
        let rows: [&[Option<&str>]; 9] = [
            &[None, None],
            &[None],
            &[Some("")],
            &[Some(""), None],
            &[Some("a"), Some("b")],
            &[Some("ab"), Some("")],
            &[Some("ab")],
            &[Some(&long), Some("a")],
            &[Some(&long[..254]), Some("a")],
        ];
        let written = rows.iter().map(|cells| {
            let mut buffer = Vec::new();
            cells.iter().for_each(|cell| add_cell(*cell, &mut buffer));
            buffer
        });
        let written: Vec<Vec<u8>> = written.collect();
        let distinct: BTreeSet<&Vec<u8>> = written.iter().collect();
        assert_eq!(distinct.len(), rows.len());
        // No row begins another, except where it has fewer cells.
        for (a, b) in written.iter().zip(&rows).flat_map(|a| written.iter().zip(&rows).map(move |b| (a, b))) {
            assert!(a.0 == b.0 || !b.0.starts_with(a.0) || a.1.len() < b.1.len());
        }
    }

    #[test]
    fn bytes_are_an_id_only_if_required() {
        let digest =
            |id: &BatchId, bytes: &'static [u8]| BatchBytes::with_id(Box::new(bytes), id, &[7; 32]).finish().unwrap();
        let (named, content) = (BatchId::from("a"), BatchId::Content);
        assert_eq!(digest(&named, b"x"), [0; 32]);
        assert_ne!(digest(&content, b"x"), digest(&content, b"y"));
        assert_eq!(named.resolve([0; 32]), ResolvedId::Text("a".to_owned()));
        let ResolvedId::Text(id) = content.clone().resolve(digest(&content, b"x")) else { panic!("not a text") };
        assert!(evertally_declare::header_text::is_batch_id(&id) && id.starts_with("content:"), "{id}");
    }
}
