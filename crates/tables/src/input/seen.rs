//! Files that are read only once: recognised by their content.
//!
//! A run that continues a stream reads only files that no earlier run has read. A file that is delivered again has the
//! same content, under any name, and changes nothing. (So it is treated as public whether two files are equal.) A file
//! with the same name but other content is refused: nobody can tell which of its events were counted already, and an
//! event that is counted twice changes the sums by more than its noise covers.

use super::remote::{self, ObjectStamp};
use super::source;
use evertally::noise::{Purpose, SecretKey, StreamName, mac_key};
use evertally_declare::error::{InputError, Result, read_error, refuse_if};
use evertally_declare::url::is_url;
use evertally_ledger::ledger::SeenFile;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Bytes that are hashed between two checks of the cancellation flag.
const CHUNK: usize = 1 << 20;

/// The files of a run, classified.
#[derive(Debug, Default)]
pub struct Sorted {
    /// Files that no run has read, in the order in which they were named.
    pub new: Vec<NewFile>,
    /// Files whose content was read before, and the record of it.
    pub seen: Vec<(PathBuf, SeenFile)>,
    /// Records to be added, for files whose content was recorded under another name.
    pub again: Vec<SeenFile>,
}

/// A file that no run has read.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// Its path as it was named.
    pub path: PathBuf,
    /// The record of the file.
    pub record: SeenFile,
    stamp: Stamp,
}

/// Changes whenever somebody writes to a file, or replaces an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stamp {
    File(u64, Option<std::time::SystemTime>, i64, i64),
    Object(ObjectStamp),
}

/// Identifies files by their content, under a key.
pub struct Fingerprints {
    key: [u8; 32],
}

impl Fingerprints {
    /// For the files of a stream, and of the streams that follow it.
    pub fn new(key: &SecretKey, name: &StreamName) -> Self {
        // Keyed: with a digest that anybody can compute, anyone who guesses a file could tell whether it was read.
        let key = mac_key(key, name, &[1; 32], Purpose::Ledger); // not the digest of any plan
        Self { key: *blake3::keyed_hash(&key, b"evertally 1 file").as_bytes() }
    }

    /// Selects the files that are new: those whose content is not `known`.
    ///
    /// # Errors
    /// If a file is not a regular one, cannot be read, or was read before under the same name with other content.
    pub fn sort(&self, files: &[PathBuf], known: &[&SeenFile], cancelled: &AtomicBool) -> Result<Sorted> {
        let mut sorted = Sorted::default();
        for path in files {
            let file = NewFile { path: path.clone(), ..self.fingerprint(path, cancelled)? };
            // Files of two days without events may be equal: a content that occurred in this run is skipped, too.
            let now = sorted.new.iter().map(|other| &other.record);
            let same = |seen: &&SeenFile| seen.digest == file.record.digest;
            if let Some(seen) = known.iter().copied().find(same).or_else(|| now.clone().find(same)).cloned() {
                let is_named = known.iter().any(|other| same(other) && other.path == file.record.path);
                if !is_named {
                    sorted.again.push(SeenFile { again: true, ..file.record });
                }
                sorted.seen.push((path.clone(), seen));
                continue;
            }
            if let Some(before) = known.iter().find(|seen| seen.path == file.record.path) {
                return Err(self.changed(path, before, cancelled)?.into());
            }
            sorted.new.push(file);
        }
        Ok(sorted)
    }

    /// Why a file with a known name is not read.
    fn changed(&self, path: &Path, before: &SeenFile, cancelled: &AtomicBool) -> Result<InputError> {
        let name = source::display_name(path);
        let (from, _) = open(path, &name)?;
        let mut head = from.take(before.bytes);
        let (bytes, digest) = self.digest(&mut head, &name, cancelled)?;
        let problem = if bytes == before.bytes && digest == before.digest {
            format!(
                "it was read before and has grown since: its first {bytes} bytes are counted already; put the new rows \
                 into a separate file"
            )
        } else {
            "a file of this name was read before, with other content; events that are in both would count twice. Use \
             another name if all its events are new"
                .to_owned()
        };
        Ok(InputError::in_file(&name, problem))
    }

    fn fingerprint(&self, path: &Path, cancelled: &AtomicBool) -> Result<NewFile> {
        let name = source::display_name(path);
        let is_lasting = match is_url(path) {
            true => remote::is_object(path),
            false => !source::is_stdin(path) && std::fs::metadata(path).map_or(true, |meta| meta.is_file()),
        };
        if !is_lasting {
            let problem = "a continued stream reads only regular files and objects of s3, gs and az stores, to \
                           recognise them if they are delivered twice; write the data to a file first";
            return Err(InputError::in_file(&name, problem).into());
        }
        let (mut file, stamp) = open(path, &name)?;
        let (bytes, digest) = self.digest(&mut file, &name, cancelled)?;
        let full = match stamp {
            Stamp::Object(_) => remote::url_identity(path),
            Stamp::File(..) => std::fs::canonicalize(path).map_err(|e| read_error(&name, e))?,
        };
        let record = SeenFile { path: full.to_string_lossy().into_owned(), bytes, digest, again: false };
        Ok(NewFile { path: path.to_owned(), record, stamp })
    }

    fn digest(&self, from: &mut dyn Read, name: &str, cancelled: &AtomicBool) -> Result<(u64, String)> {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        let mut chunk = vec![0; CHUNK];
        let mut bytes = 0;
        loop {
            refuse_if(cancelled)?;
            match from.read(&mut chunk).map_err(|e| read_error(name, e))? {
                0 => break,
                read => {
                    hasher.update(&chunk[..read]);
                    bytes += read as u64;
                }
            }
        }
        Ok((bytes, hasher.finalize().to_hex()[..32].to_owned()))
    }
}

impl NewFile {
    /// Refuses a file that was written to since it was checked, which may be while it was read.
    ///
    /// # Errors
    /// If the file has changed.
    pub fn check_unchanged(&self) -> Result<()> {
        let name = source::display_name(&self.path);
        let now = match &self.stamp {
            Stamp::File(..) => std::fs::metadata(&self.path).ok().map(|meta| stamp(&meta)),
            Stamp::Object(_) => remote::stamp(&self.path).map_err(|e| read_error(&name, e))?.map(Stamp::Object),
        };
        if now.as_ref() == Some(&self.stamp) {
            return Ok(());
        }
        let problem = "it was changed while it was read; run again once it is complete";
        Err(InputError::in_file(name, problem).into())
    }
}

fn open(path: &Path, name: &str) -> Result<(Box<dyn Read>, Stamp)> {
    let opened = || -> io::Result<(Box<dyn Read>, Stamp)> {
        if is_url(path) {
            let (from, stamp) = remote::open_stamped(path)?;
            return Ok((from, Stamp::Object(stamp)));
        }
        let file = File::open(path)?;
        let stamp = stamp(&file.metadata()?);
        Ok((Box::new(file), stamp))
    };
    opened().map_err(|e| read_error(name, e))
}

fn stamp(meta: &Metadata) -> Stamp {
    #[cfg(unix)]
    let (seconds, nanos) = {
        // This time cannot be set back.
        use std::os::unix::fs::MetadataExt;
        (meta.ctime(), meta.ctime_nsec())
    };
    #[cfg(not(unix))]
    let (seconds, nanos) = (0, 0);
    Stamp::File(meta.len(), meta.modified().ok(), seconds, nanos)
}
