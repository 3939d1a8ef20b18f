//! Files that are read only once: recognised by their content.
//!
//! A run that continues a stream reads only files that no earlier run has read. A file that is delivered again has the
//! same content, under any name, and changes nothing. (So it is treated as public whether two files are equal.) A file
//! with the same name but other content is refused: nobody can tell which of its events were counted already, and an
//! event that is counted twice changes the sums by more than its noise covers.

use super::source;
use evertally::noise::{Purpose, SecretKey, StreamName, mac_key};
use evertally_declare::error::{InputError, Result, read_error, refuse_if};
use evertally_ledger::ledger::SeenFile;
use std::fs::{File, Metadata};
use std::io::Read;
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

/// Changes whenever somebody writes to a file.
type Stamp = (u64, Option<std::time::SystemTime>, i64, i64);

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
        let mut head = open(path, &name)?.take(before.bytes);
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
        if source::is_stdin(path) || !std::fs::metadata(path).map_or(true, |meta| meta.is_file()) {
            let problem = "a continued stream reads only regular files, to recognise them if they are delivered twice; \
                           write the data from the pipe to a file first";
            return Err(InputError::in_file(&name, problem).into());
        }
        let mut file = open(path, &name)?;
        let stamp = stamp(&file.metadata().map_err(|e| read_error(&name, e))?);
        let (bytes, digest) = self.digest(&mut file, &name, cancelled)?;
        let full = std::fs::canonicalize(path).map_err(|e| read_error(&name, e))?;
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
        match std::fs::metadata(&self.path) {
            Ok(meta) if stamp(&meta) == self.stamp => Ok(()),
            _ => {
                let problem = "it was changed while it was read; run again once it is complete";
                Err(InputError::in_file(source::display_name(&self.path), problem).into())
            }
        }
    }
}

fn open(path: &Path, name: &str) -> Result<File> {
    File::open(path).map_err(|e| read_error(name, e))
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
    (meta.len(), meta.modified().ok(), seconds, nanos)
}
