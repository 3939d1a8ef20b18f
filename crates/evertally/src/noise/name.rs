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
        if text.is_empty() {
            return Err(Error::invalid("a stream name must not be empty"));
        }
        if text.len() > Self::MAX_BYTES {
            let length = text.len();
            return Err(Error::invalid(format!("a stream name has at most 200 bytes, this one has {length}")));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::invalid(format!("a stream name must not contain control characters: {text:?}")));
        }
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
