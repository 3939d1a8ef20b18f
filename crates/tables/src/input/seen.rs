//! Files that are read once: known again by their content.
//!
//! A run that goes on reads only files that no earlier run has read. One that is delivered again is the same content,
//! under whatever name, and changes nothing. (So that two files are alike is taken for public.) One of the same name with other content is refused: nobody can tell which
//! of its events were counted already, and one that is counted twice moves more than its noise covers.

use super::source;
use evertally::noise::{Purpose, SecretKey, StreamName, mac_key};
use evertally_declare::error::{InputError, Result, read_error, refuse_if};
use evertally_ledger::ledger::SeenFile;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Bytes that are hashed between two looks at the cancellation flag.
const CHUNK: usize = 1 << 20;

/// The files of a run, sorted out.
#[derive(Debug, Default)]
pub struct Sorted {
    /// Those that no run has read, in the order in which they were named.
    pub new: Vec<NewFile>,
    /// Those whose content was read before, and what was recorded of it.
    pub seen: Vec<(PathBuf, SeenFile)>,
    /// What is to be recorded of those that have another name than the content had then.
    pub again: Vec<SeenFile>,
}

/// A file that no run has read.
#[derive(Clone, Debug)]
pub struct NewFile {
    /// Its path as it was named.
    pub path: PathBuf,
    /// What is recorded of it.
    pub record: SeenFile,
    stamp: Stamp,
}

/// What changes when somebody writes to a file.
type Stamp = (u64, Option<std::time::SystemTime>, i64, i64);

/// Tells files by their content, under a key.
pub struct Fingerprints {
    key: [u8; 32],
}

impl Fingerprints {
    /// For the files of a stream, and of those that follow it.
    pub fn new(key: &SecretKey, name: &StreamName) -> Self {
        // Under the key: a digest that anybody could make would tell who guesses a file whether it was read.
        let key = mac_key(key, name, &[1; 32], Purpose::Ledger); // a digest that no plan has
        Self { key: *blake3::keyed_hash(&key, b"evertally 1 file").as_bytes() }
    }

    /// Sorts out which files are new, of which no content is `known`.
    ///
    /// # Errors
    /// If a file is not a regular one, cannot be read, or was read before under the same name with other content.
    pub fn sort(&self, files: &[PathBuf], known: &[&SeenFile], cancelled: &AtomicBool) -> Result<Sorted> {
        let mut sorted = Sorted::default();
        for path in files {
            let file = NewFile { path: path.clone(), ..self.look(path, cancelled)? };
            // Two days without events may have files alike: a content that came in this run is passed over as well.
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

    /// Why a file of a known name is not read.
    fn changed(&self, path: &Path, before: &SeenFile, cancelled: &AtomicBool) -> Result<InputError> {
        let name = source::display_name(path);
        let mut head = open(path, &name)?.take(before.bytes);
        let (bytes, digest) = self.digest(&mut head, &name, cancelled)?;
        let problem = if bytes == before.bytes && digest == before.digest {
            format!(
                "it was read before and has grown since: its first {bytes} bytes are counted already; give what is new as a \
                 file of its own"
            )
        } else {
            "a file of this name was read before, with other content; events that are in both would count twice. Give it \
             another name if all its events are new"
                .to_owned()
        };
        Ok(InputError::of_file(&name, problem))
    }

    fn look(&self, path: &Path, cancelled: &AtomicBool) -> Result<NewFile> {
        let name = source::display_name(path);
        if source::is_stdin(path) || !std::fs::metadata(path).map_or(true, |meta| meta.is_file()) {
            let problem = "a stream that goes on reads regular files, which are known again when they are delivered twice; \
                           put what comes through the pipe into a file first";
            return Err(InputError::of_file(&name, problem).into());
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
    /// Refuses a file that was written to since it was looked at, which may be while it was read.
    ///
    /// # Errors
    /// If it was.
    pub fn check_unchanged(&self) -> Result<()> {
        match std::fs::metadata(&self.path) {
            Ok(meta) if stamp(&meta) == self.stamp => Ok(()),
            _ => {
                let problem = "it was changed while it was read; run again when it is complete";
                Err(InputError::of_file(&source::display_name(&self.path), problem).into())
            }
        }
    }
}

fn open(path: &Path, name: &str) -> Result<File> {
    Ok(File::open(path).map_err(|e| read_error(name, e))?)
}

fn stamp(meta: &Metadata) -> Stamp {
    #[cfg(unix)]
    let (seconds, nanos) = {
        // Nobody can set this time back.
        use std::os::unix::fs::MetadataExt;
        (meta.ctime(), meta.ctime_nsec())
    };
    #[cfg(not(unix))]
    let (seconds, nanos) = (0, 0);
    (meta.len(), meta.modified().ok(), seconds, nanos)
}
