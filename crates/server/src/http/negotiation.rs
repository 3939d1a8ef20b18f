//! What the headers of a reader ask for: a format, and rows that it does not have yet.

use super::problem::ProblemAnswer;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, IF_NONE_MATCH};
use evertally_declare::format::Format;

/// The format of an answer: the requested one, or the known media type that the reader prefers.
pub(super) fn format_of(asked: Option<&str>, headers: &HeaderMap) -> Result<Format, ProblemAnswer> {
    if let Some(asked) = asked {
        return Format::from_word(asked).filter(|format| format.is_for_answers()).ok_or_else(|| {
            let words = Format::any_word_of(Format::is_for_answers);
            ProblemAnswer::bad(format!("`{asked}` is not a format: use {words}"))
        });
    }
    let accept = headers.get_all(ACCEPT).into_iter().filter_map(|accept| accept.to_str().ok());
    let mut best = (0.0, Format::Json);
    for kind in accept.flat_map(|accept| accept.split(',')) {
        let mut parts = kind.split(';').map(str::trim);
        let format = parts.next().and_then(|kind| Format::from_accept_type(&kind.to_ascii_lowercase()));
        let quality = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let quality = quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0));
        if let Some(format) = format.filter(|_| quality > best.0) {
            best = (quality, format);
        }
    }
    Ok(best.1)
}

/// Whether the reader has the answer with this tag (RFC 9110, section 13.1.2): tags are compared weakly.
pub(super) fn knows(headers: &HeaderMap, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let known = headers.get_all(IF_NONE_MATCH).into_iter().filter_map(|known| known.to_str().ok());
    known.flat_map(|known| known.split(',')).any(|known| known.trim() == "*" || opaque(known) == opaque(tag))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(name: &'static str, values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn the_preferred_known_type_is_the_format() {
        for (accept, format) in [
            (&[][..], Format::Json),
            (&["text/csv"], Format::Csv),
            (&["Text/CSV"], Format::Csv),
            (&["text/html, text/csv;q=0.5"], Format::Csv),
            (&["text/csv;q=0.1, application/json"], Format::Json),
            (&["text/csv; q=0.4", "application/x-ndjson; Q=0.8"], Format::JsonLines),
            (&["text/csv;q=0"], Format::Json),
            (&["image/avif"], Format::Json),
        ] {
            assert_eq!(format_of(None, &headers("accept", accept)).unwrap(), format, "{accept:?}");
        }
        assert_eq!(format_of(Some("csv"), &headers("accept", &["application/json"])).unwrap(), Format::Csv);
        assert!(format_of(Some("xml"), &HeaderMap::new()).is_err());
    }

    #[test]
    fn tags_are_compared_weakly() {
        for (known, is_known) in [
            (&["\"a\""][..], true),
            (&["W/\"a\""], true),
            (&["\"b\", W/\"a\""], true),
            (&["\"b\"", "\"a\""], true),
            (&["*"], true),
            (&["\"b\""], false),
            (&["a"], false),
            (&[""], false),
        ] {
            for tag in ["\"a\"", "W/\"a\""] {
                assert_eq!(knows(&headers("if-none-match", known), tag), is_known, "{known:?}");
            }
        }
        assert!(!knows(&HeaderMap::new(), "\"a\""));
    }
}
