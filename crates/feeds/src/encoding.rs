//! How the rows of a source are sent.

use evertally_declare::error::{Result, usage};
use evertally_declare::format::Format;

/// The format of a source, and its compression as the service names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoding {
    pub(crate) format: Format,
    pub(crate) compression: Option<&'static str>,
}

impl Encoding {
    pub(crate) const GZIP: &'static str = "gzip";
    pub(crate) const ZSTD: &'static str = "zstd";

    pub(crate) const fn plain(format: Format) -> Self {
        Self { format, compression: None }
    }

    /// The encoding of a source whose rows are lines.
    pub(crate) fn from_name(name: &str) -> Result<Self> {
        let found = Format::ALL.into_iter().find(|format| format.has_lines() && format.is_called(name));
        found.map(Self::plain).ok_or_else(|| {
            let words = Format::any_word_of(Format::has_lines);
            usage(format!("`{name}` is not a format that can be followed; choose {words}"))
        })
    }

    /// From the ending of a file's name.
    pub(crate) fn from_path(path: &std::path::Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let (name, compression) = match (name.strip_suffix(".gz"), name.strip_suffix(".zst")) {
            (Some(name), _) => (name.to_owned(), Some(Self::GZIP)),
            (_, Some(name)) => (name.to_owned(), Some(Self::ZSTD)),
            (None, None) => (name, None),
        };
        let (_, ending) = name.rsplit_once('.')?;
        let format = Format::from_ending(ending).filter(|format| format.is_for_requests())?;
        // Other formats compress their own blocks.
        (compression.is_none() || format.has_lines()).then_some(Self { format, compression })
    }

    /// Whether rows can be cut off while the file grows. Other files are sent as a whole.
    pub(crate) fn grows(self) -> bool {
        self.format.has_lines() && self.compression.is_none()
    }

    /// Whether it is CSV that grows: each batch begins with the header line, and rows may have line ends in quotes.
    pub(crate) fn is_growing_csv(self) -> bool {
        self == Self::plain(Format::Csv)
    }
}
