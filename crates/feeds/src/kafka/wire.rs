//! Numbers, strings and arrays of the protocol. Newer versions of a request are "flexible": lengths are varints, and
//! tagged fields follow every structure.

use crate::SourceError;
use crate::SourceOutcome;
use bytes::{Buf, Bytes};

/// The identity of a topic: it changes when the topic is deleted and created again. Zero if unknown.
pub(super) type TopicId = u128;

/// Writes a request.
pub(super) struct RequestWriter {
    pub(super) bytes: Vec<u8>,
    flexible: bool,
}

impl RequestWriter {
    pub(super) fn new(flexible: bool) -> Self {
        Self { bytes: Vec::new(), flexible }
    }

    pub(super) fn i8(&mut self, value: i8) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i16(&mut self, value: i16) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn id(&mut self, value: TopicId) {
        self.bytes.extend_from_slice(&value.to_be_bytes());
    }

    fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(super) fn string(&mut self, value: &str) {
        if self.flexible {
            self.uvarint(value.len() as u32 + 1);
        } else {
            self.i16(value.len() as i16); // fits: names are shorter, and passwords are sent as bytes
        }
        self.bytes.extend_from_slice(value.as_bytes());
    }

    pub(super) fn blob(&mut self, value: &[u8]) {
        self.array(value.len());
        self.bytes.extend_from_slice(value);
    }

    /// The length of an array, whose items follow.
    pub(super) fn array(&mut self, length: usize) {
        if self.flexible {
            self.uvarint(length as u32 + 1);
        } else {
            self.i32(length as i32);
        }
    }

    /// The end of a structure.
    pub(super) fn end(&mut self) {
        if self.flexible {
            self.uvarint(0);
        }
    }
}

/// Reads an answer.
pub(super) struct ResponseReader {
    bytes: Bytes,
    flexible: bool,
}

fn malformed() -> SourceError {
    SourceError::Away("a broker sent an answer that is not in the protocol of Kafka; is the port right?".to_owned())
}

impl ResponseReader {
    pub(super) fn new(bytes: Bytes, flexible: bool) -> Self {
        Self { bytes, flexible }
    }

    pub(super) fn i8(&mut self) -> SourceOutcome<i8> {
        self.bytes.try_get_i8().map_err(|_| malformed())
    }

    pub(super) fn i16(&mut self) -> SourceOutcome<i16> {
        self.bytes.try_get_i16().map_err(|_| malformed())
    }

    pub(super) fn i32(&mut self) -> SourceOutcome<i32> {
        self.bytes.try_get_i32().map_err(|_| malformed())
    }

    pub(super) fn i64(&mut self) -> SourceOutcome<i64> {
        self.bytes.try_get_i64().map_err(|_| malformed())
    }

    pub(super) fn id(&mut self) -> SourceOutcome<TopicId> {
        self.bytes.try_get_u128().map_err(|_| malformed())
    }

    fn uvarint(&mut self) -> SourceOutcome<u32> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.bytes.try_get_u8().map_err(|_| malformed())?;
            value |= u32::from(byte & 0x7f).checked_shl(shift).ok_or_else(malformed)?;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed())
    }

    fn slice(&mut self, length: usize) -> SourceOutcome<Bytes> {
        if length > self.bytes.len() {
            return Err(malformed());
        }
        Ok(self.bytes.split_to(length))
    }

    /// A string, which may be null: then it is empty.
    pub(super) fn string(&mut self) -> SourceOutcome<String> {
        let length = if self.flexible { i64::from(self.uvarint()?) - 1 } else { i64::from(self.i16()?) };
        let bytes = self.slice(length.max(0) as usize)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| malformed())
    }

    /// Bytes, which may be null: then there are none.
    pub(super) fn blob(&mut self) -> SourceOutcome<Bytes> {
        let length = if self.flexible { i64::from(self.uvarint()?) - 1 } else { i64::from(self.i32()?) };
        self.slice(length.max(0) as usize)
    }

    /// The items of an array, which may be null: then there are none.
    pub(super) fn array<T>(&mut self, mut item: impl FnMut(&mut Self) -> SourceOutcome<T>) -> SourceOutcome<Vec<T>> {
        let length = if self.flexible { i64::from(self.uvarint()?) - 1 } else { i64::from(self.i32()?) };
        (0..length).map(|_| item(self)).collect()
    }

    /// The end of a structure: passes over its tagged fields.
    pub(super) fn end(&mut self) -> SourceOutcome<()> {
        if self.flexible {
            for _ in 0..self.uvarint()? {
                self.uvarint()?;
                let length = self.uvarint()?;
                self.slice(length as usize)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for flexible in [false, true] {
            let mut writer = RequestWriter::new(flexible);
            writer.string("visits");
            writer.array(300);
            (0..300).for_each(|n| writer.i32(n));
            writer.blob(&[7; 200]);
            writer.id(5);
            writer.end();
            let mut reader = ResponseReader::new(writer.bytes.into(), flexible);
            assert_eq!(reader.string().expect("string"), "visits");
            assert_eq!(reader.array(ResponseReader::i32).expect("array"), (0..300).collect::<Vec<_>>());
            assert_eq!(reader.blob().expect("bytes"), [7; 200].as_slice());
            assert_eq!(reader.id().expect("id"), 5);
            reader.end().expect("end");
            assert!(matches!(reader.i8(), Err(SourceError::Away(_))));
        }
    }
}
