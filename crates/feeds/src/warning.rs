//! Messages about a source.

use std::fmt;

/// A message about a source that its operator should read, such as rows that it deleted before they were read.
///
/// Exact numbers of messages are separate: `evertally feed` shows them, and the log of a service does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceWarning {
    text: String,
    numbers: Option<String>,
}

impl SourceWarning {
    /// A message with exact numbers.
    pub(crate) fn with_numbers(text: impl Into<String>, numbers: impl Into<String>) -> Self {
        Self { text: text.into(), numbers: Some(numbers.into()) }
    }

    /// The message without exact numbers.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<String> for SourceWarning {
    fn from(text: String) -> Self {
        Self { text, numbers: None }
    }
}

impl fmt::Display for SourceWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.numbers {
            Some(numbers) => write!(f, "{} ({numbers})", self.text),
            None => f.write_str(&self.text),
        }
    }
}
