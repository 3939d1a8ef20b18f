//! Paths that were meant as URLs.

use evertally_declare::url::without_secrets;
use std::path::{Component, Path};

/// An invalid URL in a message: not shown if it may have a password or a signature.
pub(super) fn shown_url(text: &str) -> &str {
    if text.contains(['@', '?', '#']) { "..." } else { text }
}

/// Refuses a path that was meant as a URL.
pub(super) fn check_scheme(path: &Path) -> Result<(), String> {
    let first = path.components().next().and_then(|first| match first {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    let scheme = first.and_then(|first| first.strip_suffix(':')).filter(|scheme| scheme.len() > 1);
    // `s3:/bucket` has one slash too few, and with two it is a URL.
    match scheme.filter(|scheme| !path.to_string_lossy().starts_with(&format!("{scheme}://"))) {
        Some(scheme) => Err(format!(
            "{}: a URL begins with {scheme}://, and a folder of this name is written ./{scheme}:/",
            without_secrets(path)
        )),
        None => Ok(()),
    }
}
