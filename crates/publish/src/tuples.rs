//! Tuples of texts as bytes.

/// Every text behind its length: no two tuples have the same encoding.
pub fn encode(tuple: &[String]) -> Vec<u8> {
    let mut code = Vec::new();
    tuple.iter().for_each(|text| push_encoded(&mut code, text));
    code
}

/// Appends a text behind its length.
pub fn push_encoded(code: &mut Vec<u8>, text: &str) {
    code.extend((text.len() as u64).to_le_bytes());
    code.extend(text.as_bytes());
}
