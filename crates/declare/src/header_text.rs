//! Texts that travel in headers of requests: ids of batches, and tokens.

/// The most characters of a batch's id.
const MAX_ID_CHARS: usize = 200;

/// Whether a text can be sent in a header unchanged: it is not empty, and all of its characters are visible ASCII.
/// Other characters could end the header, or be changed on the way.
pub fn is_header_text(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a text is a valid id of a batch.
pub fn is_batch_id(text: &str) -> bool {
    text.len() <= MAX_ID_CHARS && is_header_text(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_visible_ascii() {
        for id in ["a", "gate-1/2026-01-01+7", "~!", &"x".repeat(MAX_ID_CHARS)] {
            assert!(is_batch_id(id), "{id}");
        }
        for id in ["", " ", "two words", "a\n", "\u{7f}", "ü", &"x".repeat(MAX_ID_CHARS + 1)] {
            assert!(!is_batch_id(id), "{id:?}");
        }
        assert!(is_header_text(&"x".repeat(MAX_ID_CHARS + 1)));
    }
}
