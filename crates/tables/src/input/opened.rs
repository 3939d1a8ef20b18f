//! Opened inputs, and what their first bytes say.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use super::binary;
use super::limits::PIPE_CHUNK;
use evertally_declare::declaration::Parameter;
use evertally_declare::error::{Cancelled, InputError, Result, read_error};
use evertally_declare::format::Format;
use evertally_declare::problem::{Sentence, sentence};

/// The number of bytes used to detect the format.
pub(super) const DETECTION_BYTES: usize = 4096;

pub(super) const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The end of the magic number of zstd's skippable frames, which begins with a byte from 0x50 to 0x5f. Parallel
/// compressors write such a frame first.
const ZSTD_SKIPPABLE: &[u8] = &[0x2a, 0x4d, 0x18];

/// An input in a known format, ready to be read.
pub(super) struct Opened<'o> {
    pub(super) format: Format,
    /// The name of the compression, if it was compressed.
    pub(super) compression: Option<&'static str>,
    pub(super) bytes: Bytes<'o>,
}

impl<'o> Opened<'o> {
    pub(super) fn new(format: Format, bytes: Bytes<'o>) -> Self {
        Self { format, compression: None, bytes }
    }
}

/// The decompressed bytes of an input, from the start.
pub(super) enum Bytes<'o> {
    Reader(Box<dyn Read + Send + 'o>),
    File(SeekableFile),
}

impl<'o> Bytes<'o> {
    /// The bytes in order.
    pub(super) fn into_reader(self) -> Box<dyn Read + Send + 'o> {
        match self {
            Self::Reader(reader) => reader,
            Self::File(file) => Box::new(file.file),
        }
    }

    /// The bytes in a file, to which they are copied if they are not in one.
    pub(super) fn into_file(self, name: &str, cancelled: &AtomicBool) -> Result<SeekableFile> {
        match self {
            Self::Reader(reader) => Ok(SeekableFile { file: spool(reader, name, cancelled)?, bytes_to_report: 0 }),
            Self::File(file) => Ok(file),
        }
    }
}

/// A seekable file, and whether its bytes still count towards progress.
pub(super) struct SeekableFile {
    pub(super) file: File,
    pub(super) bytes_to_report: u64,
}

/// Refuses data of known kinds that are not events, judging by the first bytes.
pub(super) fn refuse_unreadable(name: &str, head: &[u8]) -> Result<(), InputError> {
    let problem = match head {
        [b'P', b'K', 3, 4, ..] => "this is a zip archive; unpack it first",
        [b'B', b'Z', b'h', ..] => "this is compressed with bzip2; only gzip and zstd are read, so decompress it first",
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            "this is compressed with xz; only gzip and zstd are read, so decompress it first"
        }
        _ if head.starts_with(GZIP) || is_zstd(head) => "it contains compressed data; decompress that first",
        _ if is_tar(head) => "this is a tar archive; extract its files first (tar -xf), and name them in order",
        _ if head.trim_ascii_start().starts_with(b"<?xml") => {
            "this is XML, of which only event logs (XES) are read; export the events as CSV"
        }
        _ => match binary::kind(head) {
            Some(problem) => problem,
            None => return Ok(()),
        },
    };
    Err(InputError::in_file(name, problem))
}

pub(super) fn recognise() -> Sentence {
    sentence!["omit ", Parameter::InputFormat, " to have it detected"]
}

pub(super) fn read_head(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(DETECTION_BYTES);
    reader.take(DETECTION_BYTES as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Whether the first bytes are those of a zstd frame, which may be a skippable one.
pub(super) fn is_zstd(head: &[u8]) -> bool {
    head.starts_with(ZSTD) || matches!(head, [0x50..=0x5f, rest @ ..] if rest.starts_with(ZSTD_SKIPPABLE))
}

/// Whether the first bytes are the header of a tar archive, which contains a checksum.
fn is_tar(head: &[u8]) -> bool {
    const HEADER: usize = 512;
    const CHECKSUM: std::ops::Range<usize> = 148..156;
    let Some(header) = head.get(..HEADER) else { return false };
    let digits = String::from_utf8_lossy(&header[CHECKSUM]);
    let declared = u32::from_str_radix(digits.trim_matches(['\0', ' ']), 8);
    let value = |(place, byte): (usize, &u8)| if CHECKSUM.contains(&place) { b' '.into() } else { u32::from(*byte) };
    header.contains(&0) && declared == Ok(header.iter().enumerate().map(value).sum())
}

/// Copies an input to an unnamed temporary file, for formats that must be read from a file: Parquet has its directory
/// at the end.
///
/// # Errors
/// If it cannot be read or written, and after cancellation.
pub fn spool(mut reader: Box<dyn Read + Send + '_>, name: &str, cancelled: &AtomicBool) -> Result<File> {
    let spool_error = |error: io::Error| {
        let directory = std::env::temp_dir();
        let problem = format!(
            "it must be copied to a temporary file in {} to be read, but that failed ({error}); point TMPDIR to a \
             directory with enough space, or pass the uncompressed file itself",
            directory.display()
        );
        InputError::in_file(name, problem)
    };
    let mut file = tempfile::tempfile().map_err(spool_error)?;
    let mut chunk = vec![0; PIPE_CHUNK];
    loop {
        if cancelled.load(Ordering::Relaxed) {
            return Err(Cancelled.into());
        }
        match reader.read(&mut chunk) {
            Ok(0) => break,
            Ok(n) => file.write_all(&chunk[..n]).map_err(spool_error)?,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(read_error(name, e)),
        }
    }
    file.rewind().map_err(spool_error)?;
    Ok(file)
}
