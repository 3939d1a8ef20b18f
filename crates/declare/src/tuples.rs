//! Tuples of texts as bytes.

/// Every text preceded by its length: no two tuples have the same encoding.
pub fn encode(tuple: &[String]) -> Vec<u8> {
    let mut code = Vec::new();
    tuple.iter().for_each(|text| push_encoded(&mut code, text));
    code
}

/// The texts of a tuple that [`encode`] encoded; `None` for other bytes.
pub fn decode(mut code: &[u8]) -> Option<Vec<String>> {
    let mut tuple = Vec::new();
    while !code.is_empty() {
        let (length, rest) = code.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        tuple.push(std::str::from_utf8(text).ok()?.to_owned());
        code = rest;
    }
    Some(tuple)
}

/// Appends a text preceded by its length.
pub fn push_encoded(code: &mut Vec<u8>, text: &str) {
    code.extend((text.len() as u64).to_le_bytes());
    code.extend(text.as_bytes());
}
