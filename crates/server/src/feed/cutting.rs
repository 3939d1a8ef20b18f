//! Cuts bytes into batches of complete rows.

use super::format::Encoding;
use super::memory::{Fingerprint, SourcePosition, UnacknowledgedBatch};
use super::sending::RefusedRow;
use evertally_declare::error::{Result, usage};
use std::collections::BTreeSet;
use std::ops::Range;

/// The most bytes of a batch, if rows can be cut.
pub(super) const MAX_BATCH_BYTES: usize = 4 << 20;

/// The position after the line end of the next row of a text; `None` if the row is incomplete. A line end inside quotes
/// does not end a CSV row.
pub(super) fn row_end(format: Encoding, bytes: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    for (place, byte) in bytes.iter().enumerate() {
        match byte {
            b'"' if format.is_growing_csv() => is_quoted = !is_quoted,
            b'\n' if !is_quoted => return Some(place + 1),
            _ => {}
        }
    }
    None
}

/// Complete rows of a source that form one batch.
pub(super) struct PendingBatch {
    pub(super) format: Encoding,
    /// The name of the source in the state file.
    pub(super) source: String,
    /// Its byte range in the source.
    pub(super) range: Range<u64>,
    /// The line of its first row.
    pub(super) line: u64,
    /// The header line of CSV.
    pub(super) header: Vec<u8>,
    /// All of its bytes.
    pub(super) bytes: Vec<u8>,
    /// The fingerprint of the source, for its mark.
    pub(super) windows: Vec<Fingerprint>,
    body: Vec<u8>,
    /// For each line of the body, its line in the source, if some rows were omitted.
    lines: Vec<u64>,
}

/// The digest that identifies bytes.
pub(super) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

impl PendingBatch {
    pub(super) fn new(format: Encoding, source: String, from: u64, line: u64, header: Vec<u8>, bytes: Vec<u8>) -> Self {
        let range = from..from + bytes.len() as u64;
        let windows = Vec::new();
        let mut piece =
            Self { format, source, range, line, header, bytes, windows, body: Vec::new(), lines: Vec::new() };
        piece.leave_out(&[]);
        piece
    }

    /// The pending batch, from its stored bytes.
    pub(super) fn again(bytes: Vec<u8>, pending: &UnacknowledgedBatch) -> Result<Self> {
        let format = Encoding::from_name(&pending.format)?;
        let header = pending.header.clone().into_bytes();
        if digest(&bytes) != pending.digest {
            return Err(usage("the pending batch changed on disk; was the state folder modified?"));
        }
        Ok(Self::new(format, pending.source.clone(), pending.from, pending.line, header, bytes))
    }

    /// The record to store before the batch is sent.
    pub(super) fn pending(&self) -> UnacknowledgedBatch {
        UnacknowledgedBatch {
            source: self.source.clone(),
            from: self.range.start,
            to: self.range.end,
            line: self.line,
            digest: digest(&self.bytes),
            format: self.format.state_name().to_owned(),
            header: String::from_utf8_lossy(&self.header).into_owned(),
            left_out: Vec::new(),
        }
    }

    /// The mark to store after the batch was accepted.
    pub(super) fn mark(&self) -> SourcePosition {
        SourcePosition {
            source: self.source.clone(),
            offset: self.range.end,
            line: self.line + count_lines(&self.bytes),
            header: String::from_utf8_lossy(&self.header).into_owned(),
            windows: self.windows.clone(),
        }
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn place(&self) -> String {
        self.source.clone()
    }

    /// Builds the body again, without the rows that begin in these lines of the source.
    pub(super) fn leave_out(&mut self, lines: &[u64]) {
        let left_out: BTreeSet<u64> = lines.iter().copied().collect();
        self.body = self.header.clone();
        self.lines = vec![0; count_lines(&self.header) as usize];
        if !self.format.grows() {
            self.body.extend_from_slice(&self.bytes);
            return;
        }
        for (line, row) in rows_of(self.format, self.line, &self.bytes) {
            if left_out.contains(&line) {
                continue;
            }
            self.body.extend_from_slice(row);
            self.lines.extend(line..line + count_lines(row).max(1));
        }
    }

    /// The source line in which a row named by the service begins; for a file that is sent as a whole, the row's
    /// number.
    pub(super) fn line_of(&self, row: &RefusedRow) -> Option<u64> {
        let named = row.row?;
        if !self.format.grows() {
            return Some(named);
        }
        let line = *self.lines.get(usize::try_from(named).ok()?.checked_sub(1)?)?;
        rows_of(self.format, self.line, &self.bytes)
            .find(|(begins, text)| (*begins..begins + count_lines(text).max(1)).contains(&line))
            .map(|(begins, _)| begins)
    }

    /// The row that begins in a line of the source.
    pub(super) fn text_of(&self, line: u64) -> Option<String> {
        let mut rows = rows_of(self.format, self.line, &self.bytes);
        let row = rows.find(|(begins, _)| *begins == line && self.format.grows())?.1;
        Some(String::from_utf8_lossy(row).trim_end_matches(['\r', '\n']).to_owned())
    }

    /// Describes the problem of a row, with its place in the source.
    pub(super) fn describe(&self, row: &RefusedRow) -> String {
        let line = self.line_of(row).map_or(String::new(), |line| format!(", line {line}"));
        let field = row.field.as_ref().map_or(String::new(), |field| format!(", field {field}"));
        let remedy = row.remedy.as_ref().map_or(String::new(), |remedy| format!("; {remedy}"));
        format!("{}{line}{field}: {}{remedy}", self.source, row.problem)
    }
}

/// The rows in some bytes, each with the line in which it begins.
fn rows_of(format: Encoding, line: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let (mut line, mut rest) = (line, bytes);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (row, tail) = rest.split_at(row_end(format, rest).unwrap_or(rest.len()));
        let begins = line;
        line += count_lines(row);
        rest = tail;
        Some((begins, row))
    })
}

pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
