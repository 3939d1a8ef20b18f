//! Sources of random bits.

/// An endless stream of independent, uniformly distributed bytes.
///
/// Everything is read from one byte stream, in order: an integer of `n` bytes is the next `n` bytes, **little
/// endian**; a boolean is the lowest bit of the next byte. A law therefore turns equal byte streams into equal values
/// on every machine.
///
/// ```
/// use evertally::noise::{RandomBits, ScriptedBits};
///
/// let mut bits = ScriptedBits::new(vec![0x34, 0x12, 0x01]);
/// assert_eq!(bits.next_u16(), 0x1234);
/// assert!(bits.next_bool());
/// ```
pub trait RandomBits {
    /// The next `N` bytes.
    fn take<const N: usize>(&mut self) -> [u8; N];

    /// The next byte.
    #[inline]
    fn next_u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    /// The next 2 bytes, little endian.
    #[inline]
    fn next_u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    /// The next 4 bytes, little endian.
    #[inline]
    fn next_u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    /// The next 8 bytes, little endian.
    #[inline]
    fn next_u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// The next 16 bytes, little endian.
    #[inline]
    fn next_u128(&mut self) -> u128 {
        u128::from_le_bytes(self.take())
    }

    /// A fair coin: the lowest bit of the next byte.
    #[inline]
    fn next_bool(&mut self) -> bool {
        self.next_u8() & 1 == 1
    }

    /// The next `N` bytes, which stay unread; `None` if the source does not have them in memory. Laws examine several
    /// bytes at once this way. Their values do not depend on the answer.
    #[inline]
    fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        None
    }

    /// Reads and discards bytes.
    #[inline]
    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.next_u8();
        }
    }
}

/// A fixed sequence of bytes as a source, **for tests only**: to enumerate a law's outcomes, or to count the bytes it
/// reads.
///
/// ```
/// use evertally::noise::{RandomBits, ScriptedBits};
///
/// let mut bits = ScriptedBits::new(vec![1, 2, 3, 4]);
/// bits.next_u16();
/// assert_eq!(bits.consumed(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct ScriptedBits {
    bytes: Vec<u8>,
    position: usize,
}

impl ScriptedBits {
    /// A source that yields exactly `bytes`.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, position: 0 }
    }

    /// How many bytes have been read.
    pub fn consumed(&self) -> usize {
        self.position
    }
}

impl RandomBits for ScriptedBits {
    /// # Panics
    /// When the script is at its end: bytes are never reused.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let end = self.position + N;
        let bytes = self.bytes.get(self.position..end).expect("the scripted bits are used up");
        self.position = end;
        bytes.try_into().expect("the slice has N bytes")
    }
}

impl<B: RandomBits> RandomBits for &mut B {
    #[inline]
    fn take<const N: usize>(&mut self) -> [u8; N] {
        (**self).take()
    }

    #[inline]
    fn peek<const N: usize>(&self) -> Option<[u8; N]> {
        (**self).peek()
    }

    #[inline]
    fn skip(&mut self, count: usize) {
        (**self).skip(count);
    }
}
