//! Opens an input: detects its format from its first bytes, decompresses it, and spools it to disk for formats that
//! seek.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use super::limits::PIPE_CHUNK;
use super::opened::{Bytes, GZIP, Opened, SeekableFile, is_zstd, read_head, recognise, spool};
use super::options::ReadOptions;
use super::remote;
use super::text;
use super::xes;
use super::zip;
use crate::progress::Progress;
use evertally_declare::error::{Cancelled, InputError, Result, read_error, usage};
use evertally_declare::format::Format;
use evertally_declare::url::{is_url, without_secrets};

/// The name of standard input in messages.
pub(super) const STDIN_NAME: &str = "standard input";

pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

pub(super) fn display_name(path: &Path) -> String {
    if is_stdin(path) { STDIN_NAME.into() } else { without_secrets(path) }
}

/// Refuses a file that is named twice, even under different names: its events would count twice.
///
/// # Errors
/// The name of the second file, and of the first.
pub fn refuse_duplicates(sources: &[PathBuf]) -> Result<(), InputError> {
    let mut seen: HashMap<Identity, &Path> = HashMap::new();
    for path in sources {
        let Some(first) = seen.insert(Identity::new(path), path) else { continue };
        let problem = match (is_stdin(first), is_stdin(path)) {
            (true, true) => "it is named twice, but can be read only once; pass `-` once".to_owned(),
            _ if first == path => "it is named twice, and its events would count twice; name it once".to_owned(),
            _ => {
                let first = display_name(first);
                format!("it is the same file as {first}, and its events would count twice; name it once")
            }
        };
        return Err(InputError::in_file(display_name(path), problem));
    }
    Ok(())
}

/// Whether two names lead to the same file or pipe, through any links. Copies with the same content are different
/// files.
pub fn is_same_source(a: &Path, b: &Path) -> bool {
    Identity::new(a) == Identity::new(b)
}

/// The identity of a file that has several names.
#[derive(PartialEq, Eq, Hash)]
enum Identity {
    /// Device and inode.
    #[cfg(unix)]
    Inode(u64, u64),
    /// The path without links, or the given path if the file does not exist, or a URL.
    Path(PathBuf),
}

impl Identity {
    fn new(path: &Path) -> Self {
        if is_url(path) {
            return Self::Path(remote::url_identity(path));
        }
        #[cfg(unix)]
        if let Ok(meta) = std::fs::metadata(if is_stdin(path) { Path::new("/dev/stdin") } else { path }) {
            use std::os::unix::fs::MetadataExt;
            return Self::Inode(meta.dev(), meta.ino());
        }
        Self::Path(path.canonicalize().unwrap_or_else(|_| path.to_owned()))
    }
}

/// The total size of all files, if all are regular files.
pub fn total_bytes(sources: &[PathBuf]) -> Option<u64> {
    sources.iter().try_fold(0u64, |sum, path| {
        let meta = if is_stdin(path) || is_url(path) { None } else { std::fs::metadata(path).ok() }?;
        meta.is_file().then(|| sum + meta.len())
    })
}

pub(super) fn open<'o>(
    path: &Path,
    name: &str,
    options: &ReadOptions,
    progress: &'o dyn Progress,
    cancelled: &'o AtomicBool,
) -> Result<Opened<'o>> {
    if let Some(format) = options.format.filter(|format| !format.is_readable()) {
        let words = Format::any_word_of(Format::is_readable);
        return Err(usage(format!("files of events are not read as {format}: use {words}")));
    }
    let mut is_unzipped = false;
    let reader: Box<dyn Read + Send + 'o> = match Raw::open(path).map_err(|e| read_error(name, e))? {
        Raw::Regular(mut file) => {
            let head = head_of(&mut file).map_err(|e| read_error(name, e))?;
            if let Some(format) = binary_format(&head) {
                expect_format(name, options.format, format)?;
                let bytes_to_report = file.metadata().map_err(|e| read_error(name, e))?.len();
                return Ok(Opened::new(format, Bytes::File(SeekableFile { file, bytes_to_report })));
            }
            is_unzipped = zip::is_zip(&head);
            if is_unzipped {
                let bytes_to_report = file.metadata().map_err(|e| read_error(name, e))?.len();
                let archive = zip::Archive::open(name, file)?;
                if archive.is_workbook() {
                    return workbook(name, archive, options, bytes_to_report);
                }
                archive.into_only_member(|packed| Counted { inner: packed, progress })?
            } else {
                Box::new(Counted { inner: file, progress })
            }
        }
        Raw::Pipe(chunks) => Box::new(Counted { inner: PipeReader::new(chunks, cancelled), progress }),
    };
    let (mut head, mut reader, mut compression) = decompressed(reader).map_err(|e| read_error(name, e))?;
    if is_unzipped {
        compression = Some("zip");
    }
    if zip::is_zip(&head) {
        let archive = zip::Archive::open(name, spool(reader, name, cancelled)?)?;
        if archive.is_workbook() {
            return Ok(Opened { compression, ..workbook(name, archive, options, 0)? });
        }
        if is_unzipped {
            return Err(InputError::in_file(name, "it contains another zip archive; unpack it first").into());
        }
        reader = archive.into_only_member(|packed| packed)?;
        (head, reader, _) = decompressed(reader).map_err(|e| read_error(name, e))?;
        compression = Some("zip");
    }
    let opened = match binary_format(&head) {
        Some(format) => {
            expect_format(name, options.format, format)?;
            Opened::new(format, Bytes::Reader(reader))
        }
        None => text::open(name, &head, reader, options)?,
    };
    Ok(Opened { compression, ..opened })
}

/// A workbook, which is read as a file.
fn workbook<'o>(name: &str, archive: zip::Archive, options: &ReadOptions, bytes_to_report: u64) -> Result<Opened<'o>> {
    expect_format(name, options.format, Format::Xlsx)?;
    Ok(Opened::new(Format::Xlsx, Bytes::File(SeekableFile { file: archive.into_file(), bytes_to_report })))
}

/// An input that is not a file, in a known format, and not compressed.
pub(super) fn of_reader<'o>(
    name: &str,
    mut reader: Box<dyn Read + Send + 'o>,
    format: Format,
    options: &ReadOptions,
) -> Result<Opened<'o>> {
    let head = read_head(&mut reader).map_err(|e| read_error(name, e))?;
    let reader = Box::new(Cursor::new(head.clone()).chain(reader));
    if begins_as(format, &head) {
        return Ok(Opened::new(format, Bytes::Reader(reader)));
    }
    text::open(name, &head, reader, &ReadOptions { format: Some(format), ..options.clone() })
}

/// An open file that is not compressed, in a known format.
pub(super) fn of_file<'o>(name: &str, mut file: File, format: Format, options: &ReadOptions) -> Result<Opened<'o>> {
    let head = head_of(&mut file).map_err(|e| read_error(name, e))?;
    if begins_as(format, &head) {
        return Ok(Opened::new(format, Bytes::File(SeekableFile { file, bytes_to_report: 0 })));
    }
    text::open(name, &head, Box::new(file), &ReadOptions { format: Some(format), ..options.clone() })
}

/// The format of a file whose rows are not lines, by its first bytes.
fn binary_format(head: &[u8]) -> Option<Format> {
    if xes::begins_log(head) {
        return Some(Format::Xes);
    }
    Format::ALL.into_iter().find(|format| format.is_readable() && begins_as(*format, head))
}

/// Whether the first bytes are those of a format that is not text.
fn begins_as(format: Format, head: &[u8]) -> bool {
    !format.has_lines() && format.signatures().iter().any(|signature| head.starts_with(signature))
}

fn expect_format(name: &str, declared: Option<Format>, found: Format) -> Result<(), InputError> {
    match declared {
        Some(declared) if declared != found => {
            let problem = format!("this is a {found} file, but {declared} was declared");
            Err(InputError::in_file(name, problem).remedy(recognise()))
        }
        _ => Ok(()),
    }
}

/// An input before its bytes are interpreted.
enum Raw {
    Regular(File),
    Pipe(Receiver<io::Result<Vec<u8>>>),
}

impl Raw {
    fn open(path: &Path) -> io::Result<Raw> {
        if is_stdin(path) {
            return Ok(Raw::Pipe(read_in_thread(|| Ok(io::stdin()))));
        }
        if is_url(path) {
            let path = path.to_owned();
            return Ok(Raw::Pipe(read_in_thread(move || remote::open(&path))));
        }
        let kind = std::fs::metadata(path)?.file_type();
        if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if kind.is_file() {
            return Ok(Raw::Regular(File::open(path)?));
        }
        // Opening a named pipe blocks until somebody writes to it, so this runs in a thread, like reading from it.
        let path = path.to_owned();
        Ok(Raw::Pipe(read_in_thread(move || File::open(path))))
    }
}

/// The first bytes of a file, which is then at its start again.
fn head_of(file: &mut File) -> io::Result<Vec<u8>> {
    let head = read_head(file)?;
    file.rewind()?;
    Ok(head)
}

/// The first bytes, and a reader from the start, both after decompression; and the name of the compression.
fn decompressed<'o>(
    mut reader: Box<dyn Read + Send + 'o>,
) -> io::Result<(Vec<u8>, Box<dyn Read + Send + 'o>, Option<&'static str>)> {
    let head = read_head(&mut reader)?;
    let whole = Cursor::new(head.clone()).chain(reader);
    let (mut plain, name): (Box<dyn Read + Send + 'o>, _) = if head.starts_with(GZIP) {
        (Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(PIPE_CHUNK, whole))), "gzip")
    } else if is_zstd(&head) {
        (Box::new(zstd::Decoder::new(whole)?), "zstd")
    } else {
        return Ok((head, Box::new(whole), None));
    };
    let head = read_head(&mut plain)?;
    Ok((head.clone(), Box::new(Cursor::new(head).chain(plain)), Some(name)))
}

/// Counts the bytes of the file itself, before decompression.
struct Counted<'p, R> {
    inner: R,
    progress: &'p dyn Progress,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buf)?;
        self.progress.advance(n as u64);
        Ok(n)
    }
}

/// Opens and reads a pipe in a separate thread: a pipe that nobody writes to, or that is silent, must not block an
/// interrupt of the program.
///
/// The end is a chunk without bytes.
fn read_in_thread<R: Read>(open: impl FnOnce() -> io::Result<R> + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::sync_channel(4);
    std::thread::spawn(move || {
        let mut from = match open() {
            Ok(from) => from,
            Err(error) => return drop(sender.send(Err(error))),
        };
        loop {
            let mut chunk = vec![0; PIPE_CHUNK];
            let message = match from.read(&mut chunk) {
                Ok(n) => {
                    chunk.truncate(n);
                    Ok(chunk)
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => Err(e),
            };
            // The end is a chunk without bytes: a thread that stops for another reason has not read everything.
            let is_last = message.as_ref().map_or(true, Vec::is_empty);
            // The receiver is gone if the reading ended early.
            if sender.send(message).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

struct PipeReader<'c> {
    chunks: Receiver<io::Result<Vec<u8>>>,
    current: Cursor<Vec<u8>>,
    has_ended: bool,
    cancelled: &'c AtomicBool,
}

impl<'c> PipeReader<'c> {
    fn new(chunks: Receiver<io::Result<Vec<u8>>>, cancelled: &'c AtomicBool) -> Self {
        PipeReader { chunks, current: Cursor::new(Vec::new()), has_ended: false, cancelled }
    }
}

impl Read for PipeReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.current.read(buf)?;
            if n > 0 || buf.is_empty() || self.has_ended {
                return Ok(n);
            }
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(io::Error::other(Cancelled));
            }
            match self.chunks.recv_timeout(Duration::from_millis(50)) {
                Ok(chunk) => {
                    self.current = Cursor::new(chunk?);
                    self.has_ended = self.current.get_ref().is_empty();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(io::Error::other(
                        "its reader stopped before its end; report this, with the message above",
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody takes a part of an input for all of it.
    #[test]
    fn a_reader_that_stops_is_no_end() {
        let running = AtomicBool::new(false);
        let read = |chunks| {
            let mut bytes = Vec::new();
            let read = PipeReader::new(chunks, &running).read_to_end(&mut bytes);
            read.map(|_| bytes).map_err(|error| error.to_string())
        };
        assert_eq!(read(read_in_thread(|| Ok(&b"abc"[..]))).unwrap(), b"abc");
        let panics = || -> io::Result<&[u8]> { panic!("as a library does") };
        let error = read(read_in_thread(panics)).unwrap_err();
        assert!(error.contains("stopped before its end"), "{error}");
        let (sender, chunks) = mpsc::sync_channel(4);
        sender.send(Ok(b"abc".to_vec())).unwrap();
        drop(sender);
        assert!(read(chunks).is_err());
    }
}
