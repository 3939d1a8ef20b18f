//! Names of streams.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// The name of a stream: 1 to 200 bytes of UTF-8 without control characters.
///
/// Together with the key and the plan it determines all noise of the stream. Names are compared byte for byte: no case
/// folding, no Unicode normalization.
///
/// ```
/// use evertally::noise::StreamName;
///
/// let name: StreamName = "visits/2026 – Zürich".parse()?;
/// assert_eq!(name.as_str(), "visits/2026 – Zürich");
/// assert!("".parse::<StreamName>().is_err());
/// assert!("two\nlines".parse::<StreamName>().is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StreamName {
    text: String,
}

impl StreamName {
    /// The greatest length, in bytes.
    pub const MAX_BYTES: usize = 200;

    /// The stream name with this text.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is empty, longer than 200 bytes, or has a control
    /// character.
    ///
    /// ```
    /// # use evertally::noise::StreamName;
    /// assert_eq!(StreamName::new("visits")?.to_string(), "visits");
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(text: impl Into<String>) -> Result<Self> {
        let text = text.into();
        check_name("a stream name", &text)?;
        Ok(Self { text })
    }

    /// The text.
    ///
    /// ```
    /// # use evertally::noise::StreamName;
    /// assert_eq!(StreamName::new("visits")?.as_str(), "visits");
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Checks a name that people choose and read: 1 to [200](StreamName::MAX_BYTES) bytes of UTF-8 without control
/// characters. `what` names it in errors.
///
/// Control characters could forge or hide lines of a terminal, a report or a log. Everything else is allowed, so that
/// names can be words of any language. Two kinds of names have other rules: ids of batches and tokens travel in headers
/// of requests, which hold only visible ASCII; groups and columns are data, which no rule may refuse.
///
/// # Errors
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if it is empty, longer, or has a control character.
///
/// ```
/// use evertally::noise::check_name;
///
/// assert!(check_name("a label", "gate 1, Zürich").is_ok());
/// let error = check_name("a label", "two\nlines").unwrap_err();
/// assert_eq!(error.to_string(), "a label must not contain control characters: \"two\\nlines\"");
/// ```
pub fn check_name(what: &str, text: &str) -> Result<()> {
    let (length, most) = (text.len(), StreamName::MAX_BYTES);
    if text.is_empty() {
        return Err(Error::invalid(format!("{what} must not be empty")));
    }
    if length > most {
        return Err(Error::invalid(format!("{what} has at most {most} bytes, this one has {length}")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(format!("{what} must not contain control characters: {text:?}")));
    }
    Ok(())
}

impl FromStr for StreamName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl TryFrom<String> for StreamName {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl From<StreamName> for String {
    fn from(name: StreamName) -> Self {
        name.text
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
