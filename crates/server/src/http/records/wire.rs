//! Reads messages of [protocol buffers](https://protobuf.dev/programming-guides/encoding/): field after field, without
//! copying and without allocating. Lengths are checked against the bytes that are there.

/// The fields of a message, in their order.
#[derive(Clone, Debug)]
pub(super) struct MessageFields<'b>(&'b [u8]);

/// A field of a message: its number and its content.
pub(super) type NumberedField<'b> = (u32, FieldContent<'b>);

/// The content of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldContent<'b> {
    /// A number of variable length: an integer, a truth value or an enumeration.
    Varint(u64),
    /// Eight bytes: a `fixed64` or the bits of a `double`.
    Fixed64(u64),
    /// Four bytes.
    Fixed32,
    /// Bytes: a text or a message.
    Bytes(&'b [u8]),
}

/// The bytes are not the expected message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MalformedMessage(pub(super) &'static str);

impl<'b> MessageFields<'b> {
    pub(super) fn new(message: &'b [u8]) -> Self {
        Self(message)
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8], MalformedMessage> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(MalformedMessage("it ends inside a field"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, MalformedMessage> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && byte > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(MalformedMessage("a number has more than 64 bits"))
    }

    fn field(&mut self) -> Result<NumberedField<'b>, MalformedMessage> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0);
        let number = number.ok_or(MalformedMessage("the number of a field is invalid"))?;
        let content = match key & 7 {
            0 => FieldContent::Varint(self.varint()?),
            1 => {
                let bytes = self.take(8)?.try_into().expect("8 bytes were taken");
                FieldContent::Fixed64(u64::from_le_bytes(bytes))
            }
            2 => {
                let count = usize::try_from(self.varint()?).map_err(|_| MalformedMessage("it ends inside a field"))?;
                FieldContent::Bytes(self.take(count)?)
            }
            5 => {
                self.take(4)?;
                FieldContent::Fixed32
            }
            _ => return Err(MalformedMessage("a field has an unknown type")),
        };
        Ok((number, content))
    }
}

/// Nothing follows a malformed field.
impl<'b> Iterator for MessageFields<'b> {
    type Item = Result<NumberedField<'b>, MalformedMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'b> FieldContent<'b> {
    pub(super) fn bytes(self) -> Result<&'b [u8], MalformedMessage> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(MalformedMessage("a field has another type than expected")),
        }
    }

    pub(super) fn message(self) -> Result<MessageFields<'b>, MalformedMessage> {
        self.bytes().map(MessageFields::new)
    }

    pub(super) fn text(self) -> Result<&'b str, MalformedMessage> {
        std::str::from_utf8(self.bytes()?).map_err(|_| MalformedMessage("a text is not UTF-8"))
    }

    pub(super) fn varint(self) -> Result<u64, MalformedMessage> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(MalformedMessage("a field has another type than expected")),
        }
    }

    pub(super) fn fixed64(self) -> Result<u64, MalformedMessage> {
        match self {
            Self::Fixed64(bits) => Ok(bits),
            _ => Err(MalformedMessage("a field has another type than expected")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_their_order() {
        let message = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x19, 1, 0, 0, 0, 0, 0, 0, 0, 0x25, 9, 9, 9, 9];
        let fields: Vec<NumberedField<'_>> = MessageFields::new(&message).collect::<Result<_, _>>().unwrap();
        let expected = [
            (1, FieldContent::Varint(150)),
            (2, FieldContent::Bytes(b"hi")),
            (3, FieldContent::Fixed64(1)),
            (4, FieldContent::Fixed32),
        ];
        assert_eq!(fields, expected);
        let largest = [8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1];
        assert_eq!(MessageFields::new(&largest).next(), Some(Ok((1, FieldContent::Varint(u64::MAX)))));
    }

    #[test]
    fn damaged_messages_are_refused_and_end() {
        for damaged in [
            &[0x08][..],                                               // no number
            &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2],   // 65 bits
            &[0x08, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128], // no end
            &[0x12, 3, b'h', b'i'],                                    // too short
            &[0x12, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],   // a length of 2⁶⁴ - 1
            &[0x02, 0],                                                // field 0
            &[0x0b],                                                   // a group
            &[0x0f],                                                   // no type
            &[0x19, 1],
            &[0x25, 1],
        ] {
            let mut fields = MessageFields::new(damaged);
            assert!(matches!(fields.next(), Some(Err(_))), "{damaged:?}");
            assert_eq!(fields.next(), None);
        }
    }
}
