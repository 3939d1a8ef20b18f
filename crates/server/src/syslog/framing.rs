//! Where messages begin and end in a stream of bytes (RFC 6587, and RFC 5425 for TLS).
//!
//! A message begins with its length, or ends with a line end. Senders choose one of both. A message begins with `<` and
//! a length with a digit, so both are understood at any time.

/// The most bytes of a message that is skipped because it is too long; a greater length is not a length.
const MAX_SKIPPED: usize = 16 << 20;
/// The most digits of a length.
const MAX_DIGITS: usize = 8;

/// The next part of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SyslogFrame<'b> {
    /// A message.
    Message(&'b [u8]),
    /// A message that is longer than allowed; it is skipped.
    TooLong,
}

/// The bytes cannot be understood any more: the connection has to end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost;

/// Bytes that are being passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipping {
    Nothing,
    Bytes(usize),
    Line,
}

/// Divides the bytes of a connection into messages.
pub(super) struct Framer {
    buffer: Vec<u8>,
    start: usize,
    /// How far the search for a line end came.
    searched: usize,
    skipping: Skipping,
    most: usize,
}

impl Framer {
    /// For messages of at most this number of bytes.
    pub(super) fn new(most: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, skipping: Skipping::Nothing, most }
    }

    /// Adds bytes. All messages that are complete must have been taken before.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.searched -= self.start.min(self.searched);
        self.start = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether a message has begun that is not complete.
    pub(super) fn is_partial(&self) -> bool {
        self.start < self.buffer.len() || self.skipping != Skipping::Nothing
    }

    /// The next message; `None` if it is incomplete.
    ///
    /// # Errors
    /// If a length is not one.
    pub(super) fn next(&mut self) -> Result<Option<SyslogFrame<'_>>, Lost> {
        if !self.skip() {
            return Ok(None);
        }
        let rest = &self.buffer[self.start..];
        self.start += rest.iter().take_while(|byte| matches!(byte, b'\n' | b'\r' | b'\0')).count();
        let rest = &self.buffer[self.start..];
        match rest.first() {
            None => Ok(None),
            Some(b'1'..=b'9') => self.counted(),
            Some(_) => Ok(self.line()),
        }
    }

    /// Passes over the rest of a message; `false` if more bytes are needed for that.
    fn skip(&mut self) -> bool {
        let rest = &self.buffer[self.start..];
        match self.skipping {
            Skipping::Nothing => return true,
            Skipping::Bytes(bytes) => {
                let passed = bytes.min(rest.len());
                self.start += passed;
                if passed < bytes {
                    self.skipping = Skipping::Bytes(bytes - passed);
                    return false;
                }
            }
            Skipping::Line => match rest.iter().position(|byte| is_end(*byte)) {
                Some(end) => self.start += end + 1,
                None => {
                    self.start = self.buffer.len();
                    return false;
                }
            },
        }
        self.skipping = Skipping::Nothing;
        true
    }

    /// A message after its length.
    fn counted(&mut self) -> Result<Option<SyslogFrame<'_>>, Lost> {
        let rest = &self.buffer[self.start..];
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > MAX_DIGITS {
            return Err(Lost);
        }
        match rest.get(digits) {
            None => return Ok(None),
            Some(b' ') => {}
            Some(_) => return Err(Lost),
        }
        let length = rest[..digits].iter().fold(0, |length, digit| 10 * length + usize::from(digit - b'0'));
        if length > MAX_SKIPPED {
            return Err(Lost);
        }
        if length > self.most {
            self.start += digits + 1;
            self.skipping = Skipping::Bytes(length);
            return Ok(Some(SyslogFrame::TooLong));
        }
        let begin = self.start + digits + 1;
        if self.buffer.len() < begin + length {
            return Ok(None);
        }
        self.start = begin + length;
        Ok(Some(SyslogFrame::Message(&self.buffer[begin..begin + length])))
    }

    /// A message before its line end.
    fn line(&mut self) -> Option<SyslogFrame<'_>> {
        let from = self.searched.max(self.start);
        let Some(end) = self.buffer[from..].iter().position(|byte| is_end(*byte)).map(|end| from + end) else {
            self.searched = self.buffer.len();
            if self.buffer.len() - self.start <= self.most {
                return None;
            }
            self.start = self.buffer.len();
            self.skipping = Skipping::Line;
            return Some(SyslogFrame::TooLong);
        };
        let line = self.start..end;
        self.start = end + 1;
        match line.len() > self.most {
            true => Some(SyslogFrame::TooLong),
            false => Some(SyslogFrame::Message(&self.buffer[line])),
        }
    }
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All messages of some bytes that arrive in parts of a length, as text; `!` for those that are too long.
    fn framed(bytes: &[u8], part: usize) -> Result<(Vec<String>, bool), Lost> {
        let mut framer = Framer::new(20);
        let mut found = Vec::new();
        for part in bytes.chunks(part) {
            framer.push(part);
            while let Some(frame) = framer.next()? {
                found.push(match frame {
                    SyslogFrame::Message(message) => String::from_utf8_lossy(message).into_owned(),
                    SyslogFrame::TooLong => "!".to_owned(),
                });
            }
            assert!(framer.buffer.len() <= 20 + MAX_DIGITS + 2 + bytes.len().min(part.len()));
        }
        Ok((found, framer.is_partial()))
    }

    #[test]
    fn both_ways_are_understood_in_any_parts() {
        let long = format!("<1>{}\n<2>next\n", "x".repeat(50));
        let counted = format!("53 <1>{}8 <2>after<3>line\0", "y".repeat(50));
        let empty: &[&str] = &[];
        for (bytes, expected, partial) in [
            ("<1>a\n<2>b\r\n\n\n<3>c\0", &["<1>a", "<2>b\r", "<3>c"][..], false),
            ("4 <1>a8 <2>b\n<3>\n<4>c\n", &["<1>a", "<2>b\n<3>", "<4>c"], false),
            ("junk\n<1>a\n", &["junk", "<1>a"], false),
            ("<1>a\n<2>b", &["<1>a"], true),
            ("9 <1>a", empty, true),
            ("12", empty, true),
            (&long, &["!", "<2>next"], false),
            (&counted, &["!", "<2>after", "<3>line"], false),
            ("20 <1>xxxxxxxxxxxxxxxxx<1>xxxxxxxxxxxxxxxxx\n", &["<1>xxxxxxxxxxxxxxxxx"; 2], false),
            ("", empty, false),
        ] {
            for part in [1, 2, 3, 7, 1000] {
                let expected: Vec<String> = expected.iter().map(|&text| text.to_owned()).collect();
                assert_eq!(framed(bytes.as_bytes(), part), Ok((expected, partial)), "{bytes} in parts of {part}");
            }
        }
    }

    #[test]
    fn what_is_no_length_ends_the_connection() {
        for bytes in ["1234567890 <1>a", "99999999 <1>a", "12<1>a\n", "5\n<1>a", "16777217 x"] {
            assert_eq!(framed(bytes.as_bytes(), 1000), Err(Lost), "{bytes}");
            assert_eq!(framed(bytes.as_bytes(), 1), Err(Lost), "{bytes}");
        }
    }
}
