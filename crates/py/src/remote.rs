//! Words and rules of a remote service, for its client.

use crate::error::invalid;
use evertally_declare::format::Format;
use evertally_declare::header_text::{is_batch_id, is_header_text};
use pyo3::prelude::*;

/// The media type of the format with this word.
#[pyfunction]
#[pyo3(name = "_media_type")]
pub(crate) fn media_type(word: &str) -> PyResult<&'static str> {
    let found = Format::from_word(word);
    found.map(Format::media_type).ok_or_else(|| invalid(format!("`{word}` is not a format")))
}

/// Whether a text can be a token.
#[pyfunction]
#[pyo3(name = "_is_token")]
pub(crate) fn is_token(text: &str) -> bool {
    is_header_text(text)
}

/// Whether a text can be the id of a batch.
#[pyfunction]
#[pyo3(name = "_is_batch_id")]
pub(crate) fn is_id(text: &str) -> bool {
    is_batch_id(text)
}
