//! Cuts a stream into blocks of whole records, which any thread can then read on its own.

use super::limits::max_record_bytes;
use super::options::ReadOptions;
use std::io::{self, Read};

/// Some whole records of a stream.
#[derive(Default)]
pub(super) struct RecordBlock {
    data: Vec<u8>,
    start: usize,
    end: usize,
    /// The line number of its first line in the stream.
    pub(super) first_line: u64,
    /// Whether the stream ends after it. Only then may the last record lack its line end, unless it is broken or longer
    /// than a record may be.
    pub(super) is_last: bool,
    /// The maximum length of a record.
    pub(super) longest: usize,
}

impl RecordBlock {
    /// The records.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// The size of its buffer.
    pub(super) fn buffer_bytes(&self) -> usize {
        self.data.len()
    }

    /// Removes everything after the first `bytes` bytes.
    pub(super) fn truncate(&mut self, bytes: usize) {
        self.end = self.end.min(self.start + bytes);
    }

    /// Removes `bytes` bytes of whole records from the front.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.first_line += count_lines(&self.bytes()[..bytes]);
        self.start += bytes;
    }
}

/// A stream, and the beginning of its next record.
pub(super) struct BlockReader<R> {
    inner: R,
    begun: Vec<u8>,
    next_line: u64,
    block_bytes: usize,
    longest: usize,
    at_end: bool,
}

impl<R: Read> BlockReader<R> {
    /// A stream with these options.
    pub(super) fn new(inner: R, options: &ReadOptions) -> Self {
        let (block_bytes, longest) = (options.block_bytes.max(1), max_record_bytes(options.memory));
        BlockReader { inner, begun: Vec::new(), next_line: 1, block_bytes, longest, at_end: false }
    }

    /// A stream that begins after this number of lines of its file.
    pub(super) fn after_lines(self, lines: u64) -> Self {
        BlockReader { next_line: lines + 1, ..self }
    }

    /// Fills a block with the result of one read call, or of more if that ends no record; false at the end of the
    /// stream.
    ///
    /// `whole` returns the number of bytes at the front that are whole records. It returns all bytes if a record is
    /// broken: the reader of that record reports the error, and the rest does not matter.
    pub(super) fn next(&mut self, block: &mut RecordBlock, mut whole: impl FnMut(&[u8]) -> usize) -> io::Result<bool> {
        let mut filled = self.begun.len();
        let RecordBlock { data, start, .. } = block;
        *start = 0;
        if data.len() < filled + self.block_bytes {
            data.resize(filled + self.block_bytes, 0);
        }
        data[..filled].copy_from_slice(&self.begun);
        let end = loop {
            if self.at_end {
                break filled;
            }
            if data.len() < filled + self.block_bytes {
                data.resize(2 * data.len(), 0);
            }
            match self.inner.read(&mut data[filled..filled + self.block_bytes]) {
                Ok(0) => self.at_end = true,
                Ok(n) => {
                    filled += n;
                    match whole(&data[..filled]) {
                        0 if filled > self.longest => {
                            (self.at_end, block.is_last) = (true, false);
                            self.begun.clear();
                            return Ok(self.give(block, filled));
                        }
                        0 => {}
                        len => break len,
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        };
        self.begun.clear();
        self.begun.extend_from_slice(&data[end..filled]);
        block.is_last = self.at_end;
        Ok(self.give(block, end))
    }

    fn give(&mut self, block: &mut RecordBlock, end: usize) -> bool {
        block.end = end;
        block.first_line = self.next_line;
        block.longest = self.longest;
        self.next_line += count_lines(&block.data[..end]);
        end > 0
    }
}

/// The number of bytes at the front that are whole lines.
pub(super) fn whole_lines(data: &[u8]) -> usize {
    memchr::memrchr(b'\n', data).map_or(0, |last| last + 1)
}

/// The number of line ends in some bytes.
pub(super) fn count_lines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// A line without its end.
#[inline]
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
