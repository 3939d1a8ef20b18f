//! The bytes of a followed file, and whether it still begins with those that were sent.

use evertally_declare::error::{PipelineError, Result, usage};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes that identify a file, at its beginning and before the new rows.
const WINDOW: u64 = 4096;

/// A position in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FilePosition {
    /// All bytes before it were accepted.
    pub(super) offset: u64,
    /// The line that begins there.
    pub(super) line: u64,
    /// The fingerprint of the bytes before it.
    pub(super) windows: Vec<Fingerprint>,
}

/// Bytes from an offset, with their digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fingerprint {
    from: u64,
    len: u64,
    digest: String,
}

/// An open file. Compressed ones are read as their contents.
pub(super) enum FileContents {
    Plain(File),
    Gzip(File),
    Zstd(File),
}

impl FileContents {
    /// Opens a file as it is.
    pub(super) fn plain(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self::Plain)
    }

    /// Opens a rotated file, which may have been compressed.
    pub(super) fn rotated(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        Ok(match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Self::Gzip(file),
            Some("zst") => Self::Zstd(file),
            _ => Self::Plain(file),
        })
    }

    /// At most `most` bytes from an offset.
    pub(super) fn read_at(&self, offset: u64, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        match self {
            Self::Plain(file) => {
                let mut file = file;
                file.seek(SeekFrom::Start(offset))?;
                file.take(most).read_to_end(&mut bytes)?;
            }
            Self::Gzip(file) => {
                let mut file = file;
                file.rewind()?;
                read_after(flate2::read::MultiGzDecoder::new(file), offset, most, &mut bytes)?;
            }
            Self::Zstd(file) => {
                let mut file = file;
                file.rewind()?;
                read_after(zstd::stream::read::Decoder::new(file)?, offset, most, &mut bytes)?;
            }
        }
        Ok(bytes)
    }

    /// The fingerprint of the first `sent` bytes.
    pub(super) fn windows(&self, sent: u64) -> io::Result<Vec<Fingerprint>> {
        let mut windows = Vec::new();
        for from in [0, sent.saturating_sub(WINDOW)] {
            let bytes = self.read_at(from, WINDOW.min(sent - from))?;
            windows.push(Fingerprint { from, len: bytes.len() as u64, digest: digest(&bytes) });
        }
        windows.dedup();
        Ok(windows)
    }

    /// Whether the bytes before a position are those that were sent.
    pub(super) fn begins_as(&self, position: &FilePosition) -> io::Result<bool> {
        for window in &position.windows {
            let bytes = self.read_at(window.from, window.len)?;
            if bytes.len() as u64 != window.len || digest(&bytes) != window.digest {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn read_after(mut from: impl Read, offset: u64, most: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    io::copy(&mut (&mut from).take(offset), &mut io::sink())?;
    from.take(most).read_to_end(bytes).map(drop)
}

/// The digest of a window: half of BLAKE3, which distinguishes files that nobody forges.
fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_owned()
}

impl FilePosition {
    /// The position in a text of the service.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The text that the service keeps.
    pub(super) fn text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(evertally_declare::error::failure)
    }
}

/// The error for a file that does not begin with the rows that were sent.
pub(super) fn replaced(path: &Path, line: u64) -> PipelineError {
    usage(format!(
        "{}: the rows sent through line {} have disappeared: the file was truncated or replaced, or the rows were sent \
         from another file of this name, perhaps on another machine. Restore it, or follow it as a new source with \
         another --name; nothing of the new file was sent",
        path.display(),
        line.saturating_sub(1)
    ))
}
