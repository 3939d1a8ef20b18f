//! Bytes as text.

/// Bytes as hexadecimal digits, two for each. Not for secrets: the text is not overwritten when dropped.
///
/// ```
/// assert_eq!(evertally::hex(&[0, 17, 255]), "0011ff");
/// ```
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
