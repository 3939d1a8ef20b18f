//! A window over a stream in which whole lines can be seen, with one buffer that is reused.

use std::io::{self, Read};

/// Bytes asked for at once.
const CHUNK: usize = 256 * 1024;

/// Longest record. A stray quote makes the rest of a file one field: better an early error than all of it in memory.
pub(super) const LONGEST_RECORD: usize = 16 * 1024 * 1024;

/// The unread part of a stream, as far as it is in memory.
pub(super) struct Lines<R> {
    inner: R,
    data: Vec<u8>,
    start: usize,
    end: usize,
    at_eof: bool,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(inner: R) -> Self {
        Lines { inner, data: vec![0; CHUNK], start: 0, end: 0, at_eof: false }
    }

    /// What is in memory from the current place on.
    #[inline]
    pub(super) fn window(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }

    /// Whether the window reaches to the end of the stream.
    pub(super) fn at_eof(&self) -> bool {
        self.at_eof
    }

    /// Moves the current place on by so many bytes.
    #[inline]
    pub(super) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
    }

    /// Length of the next line with its end, reading on as needed; 0 at the end of the stream.
    #[inline]
    pub(super) fn line_len(&mut self) -> io::Result<LineLen> {
        let mut searched = 0;
        loop {
            if let Some(i) = memchr::memchr(b'\n', &self.window()[searched..]) {
                return Ok(LineLen::Line(searched + i + 1));
            }
            searched = self.window().len();
            if self.at_eof {
                return Ok(LineLen::Line(searched));
            }
            if searched > LONGEST_RECORD {
                return Ok(LineLen::TooLong);
            }
            self.fill()?;
        }
    }

    /// Reads more behind the window, or finds the end of the stream.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        if self.start > 0 && self.data.len() - self.end < CHUNK / 2 {
            self.data.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.data.len() - self.end < CHUNK / 2 {
            self.data.resize(self.data.len() * 2, 0);
        }
        loop {
            match self.inner.read(&mut self.data[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    self.at_eof = n == 0;
                    return Ok(());
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// What [`Lines::line_len`] found.
pub(super) enum LineLen {
    /// So many bytes, 0 at the end of the stream.
    Line(usize),
    /// More than [`LONGEST_RECORD`] bytes without a line end.
    TooLong,
}

/// A line without its end.
#[inline]
pub(super) fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
