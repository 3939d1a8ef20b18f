//! The formats of sources.

use evertally_declare::error::{Result, usage};

/// The format of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    JsonLines,
    /// A file that is sent as a whole: its content type and its compression.
    Whole(&'static str, Option<&'static str>),
}

impl Format {
    pub(super) fn of_name(name: &str) -> Result<Self> {
        match name {
            "csv" => Ok(Self::Csv),
            "jsonl" | "ndjson" => Ok(Self::JsonLines),
            other => Err(usage(format!("`{other}` is not a format that can be followed; choose csv or jsonl"))),
        }
    }

    /// From the ending of a file's name.
    pub(super) fn of_path(path: &std::path::Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let (name, coding) = match (name.strip_suffix(".gz"), name.strip_suffix(".zst")) {
            (Some(name), _) => (name.to_owned(), Some("gzip")),
            (_, Some(name)) => (name.to_owned(), Some("zstd")),
            (None, None) => (name, None),
        };
        let (_, ending) = name.rsplit_once('.')?;
        match (ending, coding) {
            ("csv", None) => Some(Self::Csv),
            ("jsonl" | "ndjson", None) => Some(Self::JsonLines),
            ("csv", coding) => Some(Self::Whole("text/csv", coding)),
            ("jsonl" | "ndjson", coding) => Some(Self::Whole("application/x-ndjson", coding)),
            ("parquet", None) => Some(Self::Whole("application/vnd.apache.parquet", None)),
            ("arrows", None) => Some(Self::Whole("application/vnd.apache.arrow.stream", None)),
            _ => None,
        }
    }

    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv",
            Self::JsonLines => "application/x-ndjson",
            Self::Whole(kind, _) => kind,
        }
    }

    pub(super) fn coding(self) -> Option<&'static str> {
        if let Self::Whole(_, coding) = self { coding } else { None }
    }

    /// Whether rows can be cut off while the file grows.
    pub(super) fn grows(self) -> bool {
        !matches!(self, Self::Whole(..))
    }
}
