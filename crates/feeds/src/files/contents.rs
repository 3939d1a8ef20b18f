//! The bytes of a followed file, and whether it still begins with those that were sent.

use evertally_declare::error::{PipelineError, Result, usage};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that identify a file, at its beginning and before the new rows.
const WINDOW: u64 = 4096;
/// The most bytes that are decompressed at once.
const CHUNK: u64 = 1 << 20;

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
#[derive(Clone)]
pub(super) enum FileContents {
    Plain(Arc<File>),
    Compressed(Arc<Mutex<CompressedFile>>),
}

/// A compressed file. Reads in order decompress it once; only a read before the last ones begins again.
pub(super) struct CompressedFile {
    file: File,
    is_gzip: bool,
    decoder: Box<dyn Read + Send>,
    /// The first bytes of the contents, which identify the file.
    head: Vec<u8>,
    /// The contents that were read last, and the offset of their first byte.
    recent: Vec<u8>,
    recent_from: u64,
    /// Whether a read failed: nothing after it can be trusted.
    is_broken: bool,
}

impl FileContents {
    /// Opens a file as it is.
    pub(super) fn plain(path: &Path) -> io::Result<Self> {
        Ok(Self::Plain(Arc::new(File::open(path)?)))
    }

    /// Opens a rotated file, which may have been compressed.
    pub(super) fn rotated(path: &Path) -> io::Result<Self> {
        let is_gzip = match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => true,
            Some("zst") => false,
            _ => return Self::plain(path),
        };
        Ok(Self::Compressed(Arc::new(Mutex::new(CompressedFile::new(File::open(path)?, is_gzip)?))))
    }

    /// At most `most` bytes from an offset.
    pub(super) fn read_at(&self, offset: u64, most: u64) -> io::Result<Vec<u8>> {
        match self {
            Self::Plain(file) => {
                let (mut file, mut bytes) = (&**file, Vec::new());
                file.seek(SeekFrom::Start(offset))?;
                file.take(most).read_to_end(&mut bytes)?;
                Ok(bytes)
            }
            Self::Compressed(file) => file.lock().unwrap_or_else(PoisonError::into_inner).read_at(offset, most),
        }
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

impl CompressedFile {
    /// Nothing is read yet, so that an incomplete file is an error of the first read.
    fn new(file: File, is_gzip: bool) -> io::Result<Self> {
        let decoder = decoder_of(&file, is_gzip)?;
        let (head, recent) = (Vec::new(), Vec::new());
        Ok(Self { file, is_gzip, decoder, head, recent, recent_from: 0, is_broken: false })
    }

    fn read_at(&mut self, offset: u64, most: u64) -> io::Result<Vec<u8>> {
        let end = offset + most;
        if end <= self.head.len() as u64 {
            return Ok(self.head[offset as usize..end as usize].to_vec());
        }
        if self.is_broken || offset < self.recent_from {
            self.decoder = decoder_of(&self.file, self.is_gzip)?;
            (self.head, self.recent, self.recent_from) = (Vec::new(), Vec::new(), 0);
        }
        self.is_broken = true;
        self.decompress(offset, end)?;
        self.is_broken = false;
        let place = |offset: u64| ((offset - self.recent_from) as usize).min(self.recent.len());
        Ok(self.recent[place(offset)..place(end)].to_vec())
    }

    /// Decompresses up to `end`, and keeps the contents from `from` on, with a window before it.
    fn decompress(&mut self, from: u64, end: u64) -> io::Result<()> {
        loop {
            let old = from.saturating_sub(WINDOW).saturating_sub(self.recent_from);
            let old = (old as usize).min(self.recent.len());
            self.recent.drain(..old);
            self.recent_from += old as u64;
            let present = self.recent_from + self.recent.len() as u64;
            let wanted = end.saturating_sub(present).min(CHUNK);
            let read = (&mut self.decoder).take(wanted).read_to_end(&mut self.recent)?;
            if self.recent_from == 0 {
                self.head = self.recent[..self.recent.len().min(WINDOW as usize)].to_vec();
            }
            if (read as u64) < wanted || wanted == 0 {
                return Ok(());
            }
        }
    }
}

fn decoder_of(file: &File, is_gzip: bool) -> io::Result<Box<dyn Read + Send>> {
    let mut file = file.try_clone()?;
    file.rewind()?;
    Ok(match is_gzip {
        true => Box::new(flate2::read::MultiGzDecoder::new(file)),
        false => Box::new(zstd::stream::read::Decoder::new(file)?),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// 40,000 lines that compress badly, so that decoders cannot have read all of the file.
    fn lines() -> Vec<u8> {
        (0..40_000_u32).flat_map(|number| format!("{}\n", blake3::hash(&number.to_le_bytes())).into_bytes()).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).expect("packed");
        packed.finish().expect("packed")
    }

    #[test]
    fn compressed_files_are_decompressed_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let lines = lines();
        for (name, packed) in [("a.gz", gzip(&lines)), ("a.zst", zstd::encode_all(&lines[..], 1).expect("packed"))] {
            let path = folder.path().join(name);
            std::fs::write(&path, packed).expect("written");
            let contents = FileContents::rotated(&path).expect("open");
            let mut sent = 0;
            while sent < lines.len() as u64 {
                let bytes = contents.read_at(sent, 100_001).expect("readable");
                assert!(bytes == lines[sent as usize..][..bytes.len()], "{name} at {sent}");
                sent += bytes.len().min(70_000) as u64;
                let windows = contents.windows(sent).expect("readable");
                let position = FilePosition { offset: sent, line: 1, windows };
                assert!(contents.begins_as(&position).expect("readable"));
                // A decoder that began again would notice the damage.
                let mut file = File::options().write(true).open(&path).expect("open");
                file.write_all(&[0; 64]).expect("written");
            }
            assert!(contents.read_at(sent, 10).expect("readable").is_empty());
            assert!(contents.read_at(5000, 10).is_err(), "{name}: the beginning is damaged");
            assert!(contents.read_at(sent, 10).is_err(), "{name}: nothing after an error is trusted");
        }
    }

    #[test]
    fn incomplete_and_earlier_reads() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, lines) = (folder.path().join("a.gz"), lines());
        let packed = gzip(&lines);
        std::fs::write(&path, &packed[..packed.len() / 2]).expect("written");
        let contents = FileContents::rotated(&path).expect("open");
        assert!(contents.read_at(0, u64::MAX / 2).is_err());
        assert!(contents.read_at(lines.len() as u64 / 2, u64::MAX / 2).is_err());
        assert!(contents.read_at(0, 100).expect("there") == lines[..100]);
        std::fs::write(&path, &packed).expect("written");
        assert!(contents.read_at(0, u64::MAX / 2).expect("complete") == lines);
        for offset in [2_000_000, 4095, 4096, 0, 2_500_000] {
            assert!(contents.read_at(offset, 5000).expect("there") == lines[offset as usize..][..5000], "{offset}");
        }
    }
}
