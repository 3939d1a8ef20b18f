//! The total length of the values of a page that stores their lengths as packed differences.
//!
//! A few bytes can stand for any number of lengths, and under `DELTA_BYTE_ARRAY` a value can repeat a long one. This
//! adds up the lengths without producing any value.
//! [Encoding](https://github.com/apache/parquet-format/blob/master/Encodings.md#delta-encoding-delta_binary_packed--5).

use super::thrift::Compact;

/// The total number of bytes of all values of a page, which has at most `most` values; `None` if it is damaged.
pub(super) fn lengths(page: &[u8], has_prefixes: bool, most: u64) -> Option<u64> {
    let first = packed(page, most)?;
    if !has_prefixes {
        return Some(first.sum);
    }
    let suffixes = packed(page.get(first.bytes..)?, most)?;
    (suffixes.count == first.count).then(|| first.sum.checked_add(suffixes.sum)).flatten()
}

/// The totals of some packed numbers.
#[derive(Debug, PartialEq, Eq)]
struct Packed {
    count: u64,
    sum: u64,
    /// The number of bytes that they occupy.
    bytes: usize,
}

/// Adds up numbers that are packed as differences; none may be negative.
fn packed(page: &[u8], most: u64) -> Option<Packed> {
    let mut from = Compact::new(page);
    let (block, minis, count) = (from.varint()?, from.varint()?, from.varint()?);
    let mut value = from.zigzag()?;
    let each = block.checked_div(minis)?;
    // As the format requires; and a block is no longer than its contents, which limits its memory.
    if block == 0
        || block % 128 != 0
        || block % minis != 0
        || each % 32 != 0
        || count > most
        || minis > page.len() as u64
    {
        return None;
    }
    let mut sum = if count > 0 { u64::try_from(value).ok()? } else { 0 };
    let mut left = count.saturating_sub(1);
    while left > 0 {
        let least = from.zigzag()?;
        let widths: Vec<u8> = (0..minis).map(|_| from.byte()).collect::<Option<_>>()?;
        for width in widths {
            if left == 0 {
                break; // unused miniblocks are not stored
            }
            let bytes = usize::try_from(u64::from(width).checked_mul(each)? / 8).ok()?;
            let bits = from.take(bytes)?;
            for index in 0..each.min(left) {
                // Numbers of 32 bits, which wrap.
                let delta = least.wrapping_add(bits_at(bits, index * u64::from(width), width)? as i64);
                value = i64::from(value.wrapping_add(delta) as i32);
                sum = sum.checked_add(u64::try_from(value).ok()?)?;
            }
            left = left.saturating_sub(each);
        }
    }
    Some(Packed { count, sum, bytes: page.len() - from.left() })
}

/// A number of some bits, the lowest first.
fn bits_at(bytes: &[u8], at: u64, width: u8) -> Option<u64> {
    if width > 32 {
        return None;
    }
    let from = (at / 8) as usize; // fits: inside of a page
    let mut word = [0; 8];
    let part = bytes.get(from..bytes.len().min(from + 8))?;
    word[..part.len()].copy_from_slice(part);
    Some((u64::from_le_bytes(word) >> (at % 8)) & ((1 << width) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_are_added_up() {
        // The example of the format: 7, 5, 3, 1, 2, 3, 4, 5, whose differences are packed with 2 bits.
        let mut page = vec![128, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0xc0, 0x3f];
        page.extend([0; 6]);
        page.push(77);
        assert_eq!(packed(&page, 8), Some(Packed { count: 8, sum: 30, bytes: 18 }));
        assert_eq!(packed(&page, 7), None, "more than the page has");
        assert_eq!(packed(&page[..17], 8), None, "cut");
    }

    #[test]
    fn nothing_is_believed_that_has_no_bytes() {
        // 2³¹ numbers in blocks of 2³¹.
        let claim = [0x80, 0x80, 0x80, 0x80, 8, 1, 0x80, 0x80, 0x80, 0x80, 8, 0];
        assert_eq!(packed(&claim, u64::MAX), None);
        assert_eq!(packed(&[128, 1, 0, 8, 14], 8), None);
        assert_eq!(packed(&[], 8), None);
    }
}
