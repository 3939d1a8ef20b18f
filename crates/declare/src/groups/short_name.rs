//! Short texts as numbers, which are compared faster.

/// A text of at most eight bytes: its length, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShortName(usize, u64);

impl ShortName {
    /// `None` for a longer text.
    #[inline]
    pub(super) fn new(text: &str) -> Option<Self> {
        let (bytes, len) = (text.as_bytes(), text.len());
        let word = match (bytes.first_chunk(), bytes.last_chunk()) {
            _ if len > 8 => return None,
            // Both halves of eight bytes; of fewer, they overlap.
            (Some(first), Some(last)) => {
                u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
            }
            // All of three bytes; of fewer, some twice.
            _ if len > 0 => u64::from(bytes[0]) | u64::from(bytes[len / 2]) << 8 | u64::from(bytes[len - 1]) << 16,
            _ => 0,
        };
        Some(Self(len, word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Equal if and only if the texts are, also if they share most of their bytes.
        #[test]
        fn as_texts(text in "[abé\0]{0,9}", other in "[abé\0]{0,9}", place in 0..9usize) {
            let mut near = text.clone().into_bytes();
            near.get_mut(place).into_iter().for_each(|byte| *byte ^= 1);
            let near = String::from_utf8_lossy(&near).into_owned();
            for other in [&other, &near, &text] {
                let [a, b] = [&text, other].map(|text| ShortName::new(text));
                prop_assert_eq!([a.is_some(), b.is_some()], [&text, other].map(|text| text.len() <= 8));
                prop_assert_eq!(a == b, text == *other || (text.len() > 8 && other.len() > 8));
            }
        }
    }
}
