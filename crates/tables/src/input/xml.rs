//! A limit on the length of each piece of an XML text: the parser holds a tag or a text in memory as a whole.

use std::fmt;
use std::io::{self, BufReader, Read};

use quick_xml::Reader;
use quick_xml::events::Event as XmlEvent;

/// An XML text whose tags and texts have a limited length.
pub(super) struct LimitedXml<R> {
    reader: Reader<BufReader<LimitedBytes<R>>>,
    longest: u64,
}

impl<R: Read> LimitedXml<R> {
    /// A text whose tags and texts have at most this many bytes each.
    pub(super) fn new(inner: R, longest: u64) -> Self {
        let mut reader = Reader::from_reader(BufReader::new(LimitedBytes { inner, left: longest }));
        reader.config_mut().expand_empty_elements = true;
        Self { reader, longest }
    }

    /// The next tag or text. An empty element is a start and an end.
    pub(super) fn next<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<XmlEvent<'b>, quick_xml::Error> {
        self.reader.get_mut().get_mut().left = self.longest;
        buffer.clear();
        self.reader.read_event_into(buffer)
    }
}

/// A reader that refuses to read more than is allowed at a time.
struct LimitedBytes<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for LimitedBytes<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, TooLong));
        }
        let read = self.inner.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

/// The error for a tag or text that is too long.
#[derive(Debug)]
pub(super) struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tag or text is too long")
    }
}

impl std::error::Error for TooLong {}
