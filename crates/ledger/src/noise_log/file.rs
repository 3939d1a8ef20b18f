//! The file that records which noise was issued, next to the key's file.
//!
//! Entries of 64 bytes follow each other; the first is the header. All integers are little endian.
//!
//! | bytes | header | entry |
//! |---|---|---|
//! | 16 | `evertally uses 1` | identity of the noise |
//! | 16 | the key's id | first coordinate, and the one after the last |
//! | 16 | identity of this log, drawn at random when it was created | first and last step |
//! | 8 | 0 | mark of the data that the noise was issued for; 0: unknown |
//! | 8 | SipHash-2-4 of the preceding bytes, under the key's secret | the same |
//!
//! The ledger of the key records the identity of its log. A different log is refused, and so is a key whose log is
//! missing.
//!
//! A process locks the file while it reads the entries of others and writes its own, so it always reads the complete
//! log. Only the creation of a log is synced. If a process is killed, nothing is lost; if a machine loses power, the
//! last entries may be lost. A truncated entry, or zeros, at the end are treated as such a loss.

#![expect(clippy::disallowed_methods, reason = "locks the open file that it writes")]

use super::file_error::{LogFileError, LogFileProblem};
use super::history::StepSpan;
use super::mark::{derived, sip, sip_key};
use crate::disk::{Access, RealDisk, replace};
use crate::platform;
use evertally::noise::SecretKey;
use evertally_declare::error::{PipelineError, Result};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 16] = b"evertally uses 1";
/// Bytes of the header, and of each entry.
pub(super) const ENTRY: usize = 64;
/// A file is rewritten if it has twice as many entries as needed, plus this number.
const SPARE_ENTRIES: u64 = 1 << 14;

/// Issued steps of one noise stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogEntry {
    pub(super) identity: [u8; 16],
    pub(super) part: Range<u64>,
    pub(super) span: StepSpan,
}

/// The file of a key.
#[derive(Debug)]
pub(super) struct NoiseLogFile {
    path: PathBuf,
    key_id: [u8; 16],
    /// Distinguishes the log from others; unknown until it is created or read.
    identity: Option<[u8; 16]>,
    sip: (u64, u64),
    open: Option<OpenLog>,
    /// The length of the file when it was locked.
    len: u64,
}

#[derive(Debug)]
struct OpenLog {
    file: File,
    /// A forked process would share the lock with its parent, so each process opens the file itself.
    process: u32,
    /// The number of bytes that this process has read or written.
    read: u64,
}

impl NoiseLogFile {
    pub(super) fn new(path: PathBuf, key: &SecretKey) -> Self {
        let mut secret = [0; 16];
        derived(key, &[b"evertally 1 uses file"], &mut secret);
        Self { path, key_id: *key.id().as_bytes(), identity: None, sip: sip_key(&secret), open: None, len: 0 }
    }

    /// Does work while no other process does. `work` receives the entries that are new to this process, and returns the
    /// entries to append, and its result.
    pub(super) fn with_lock<T>(&mut self, work: impl FnOnce(Vec<LogEntry>) -> (Vec<LogEntry>, T)) -> Result<T> {
        if !self.lock()? {
            return Err(self.error(LogFileProblem::Missing));
        }
        let done = self.read_new().and_then(|new| {
            let (more, done) = work(new);
            self.append(&more).map(|()| done)
        });
        self.unlock();
        if done.is_err() {
            self.open = None; // a repair may replace the file
        }
        done
    }

    /// The identity that distinguishes this log from others, as the ledger records it. If the ledger has no identity
    /// yet (`known`), the log is created durably under a new one, unless a process created it and was killed before it
    /// could inform the ledger. Also returns the entries that are new to this process.
    pub(super) fn identity(&mut self, known: Option<&str>) -> Result<(String, Vec<LogEntry>)> {
        if known.is_none() && !self.exists() {
            self.create(*SecretKey::generate()?.id().as_bytes())?;
        }
        let new = self.with_lock(|new| (vec![], new))?;
        Ok((evertally::hex(&self.identity.expect("it was read")), new))
    }

    pub(super) fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Creates the log, with a header and no entries.
    pub(super) fn create(&mut self, identity: [u8; 16]) -> Result<()> {
        let header = self.checked(header(self.key_id, identity));
        replace(&RealDisk, &self.path, &Access::Private, &mut &header[..]).map_err(|error| self.unwritable(&error))
    }

    /// Rewrites the file if most entries have become redundant. The caller has just held the lock, and passes all
    /// entries. If this fails, the file keeps its length.
    pub(super) fn compact(&mut self, needed: usize, all: impl FnOnce() -> Vec<LogEntry>) {
        let entries = self.open.as_ref().map_or(0, |open| open.read / ENTRY as u64);
        // Other systems cannot replace an open file.
        if !cfg!(unix) || entries < 2 * needed as u64 + SPARE_ENTRIES || !self.lock().unwrap_or(false) {
            return;
        }
        if self.open.as_ref().is_some_and(|open| open.read == self.len) {
            let mut bytes = self.checked(header(self.key_id, self.identity.expect("it was read"))).to_vec();
            all().iter().for_each(|entry| bytes.extend(self.sealed(entry)));
            if replace(&RealDisk, &self.path, &Access::Private, &mut &bytes[..]).is_ok() {
                self.open = None; // and with it the lock
            }
        }
        self.unlock();
    }

    /// Opens and locks the file; false if it does not exist.
    fn lock(&mut self) -> Result<bool> {
        platform::check()?;
        loop {
            self.open.take_if(|open| open.process != std::process::id());
            if self.open.is_none() {
                let mut options = OpenOptions::new();
                options.read(true).append(true);
                let file = match options.open(&self.path) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
                    opened => opened.map_err(|error| self.unwritable(&error))?,
                };
                self.check_mode(&file)?;
                self.open = Some(OpenLog { file, process: std::process::id(), read: 0 });
            }
            let OpenLog { file, .. } = self.open.as_ref().expect("opened");
            let meta = file.lock().and_then(|()| file.metadata()).map_err(|error| self.unwritable(&error))?;
            if names_of(&meta) > 1 {
                self.open = None; // and with it the lock
                return Err(self.error(LogFileProblem::SeveralNames));
            }
            if is_at(&meta, &self.path) {
                self.len = meta.len();
                return Ok(true);
            }
            self.open = None; // another process has written it again, or it was moved
        }
    }

    fn unlock(&self) {
        if let Some(open) = &self.open {
            let _ = open.file.unlock(); // it ends with the process at the latest
        }
    }

    /// The entries that others have written since this process last held the lock.
    fn read_new(&mut self) -> Result<Vec<LogEntry>> {
        let read = self.open.as_ref().expect("locked").read;
        if self.len < read {
            return Err(self.error(LogFileProblem::Damaged));
        }
        let bytes = self.read_after(read).map_err(|error| self.unwritable(&error))?;
        // Zeros at the end come from a machine that lost power.
        let nonzero = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        let (entries, rest) = bytes.as_chunks::<ENTRY>();
        let (entries, has_rest) = match entries.iter().position(|entry| *entry == [0; ENTRY]) {
            Some(zeros) if zeros * ENTRY >= nonzero => (&entries[..zeros], true),
            _ => (entries, !rest.is_empty()),
        };
        let mut entries = entries.iter();
        if read == 0 {
            self.check_header(entries.next())?; // an empty file is not a log
        }
        let new: Option<Vec<LogEntry>> = entries.map(|bytes| self.opened(bytes)).collect();
        let new = new.ok_or_else(|| self.error(LogFileProblem::Damaged))?;
        let end = read + if read == 0 { ENTRY as u64 } else { 0 } + (new.len() * ENTRY) as u64;
        if has_rest {
            self.truncate(end)?;
        }
        self.open.as_mut().expect("locked").read = end;
        Ok(new)
    }

    /// Truncates the file to this length.
    fn truncate(&self, len: u64) -> Result<()> {
        self.open.as_ref().expect("locked").file.set_len(len).map_err(|error| self.unwritable(&error))
    }

    fn read_after(&self, read: u64) -> std::io::Result<Vec<u8>> {
        let mut file = &self.open.as_ref().expect("locked").file;
        let mut bytes = Vec::new();
        if self.len != read {
            file.seek(SeekFrom::Start(read))?;
            file.read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    fn append(&mut self, more: &[LogEntry]) -> Result<()> {
        if more.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(more.len() * ENTRY);
        more.iter().for_each(|entry| bytes.extend(self.sealed(entry)));
        let open = self.open.as_mut().expect("locked");
        if let Err(error) = open.file.write_all(&bytes) {
            let _ = open.file.set_len(open.read); // a truncated entry is ignored when it is read
            return Err(self.unwritable(&error));
        }
        open.read += bytes.len() as u64;
        Ok(())
    }

    /// Refuses the log of another key, and a log other than the one seen before.
    fn check_header(&mut self, found: Option<&[u8; ENTRY]>) -> Result<()> {
        let found = found.ok_or_else(|| self.error(LogFileProblem::Foreign))?;
        let identity = found[32..48].try_into().expect("16 bytes");
        let is_own = self.identity.is_none_or(|own| own == identity);
        if !is_own || *found != self.checked(header(self.key_id, identity)) {
            return Err(self.error(LogFileProblem::Foreign));
        }
        self.identity = Some(identity);
        Ok(())
    }

    fn sealed(&self, LogEntry { identity, part, span }: &LogEntry) -> [u8; ENTRY] {
        let mut bytes = [0; ENTRY];
        bytes[..16].copy_from_slice(identity);
        let numbers = [part.start, part.end, span.first, span.last, span.mark];
        for (target, number) in bytes[16..56].as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *target = number.to_le_bytes();
        }
        self.checked(bytes)
    }

    fn checked(&self, mut bytes: [u8; ENTRY]) -> [u8; ENTRY] {
        let check = sip(self.sip, &bytes[..56]);
        bytes[56..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn opened(&self, bytes: &[u8; ENTRY]) -> Option<LogEntry> {
        if self.checked(*bytes) != *bytes {
            return None;
        }
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let identity = bytes[..16].try_into().expect("16 bytes");
        let span = StepSpan { first: number(32), last: number(40), mark: number(48) };
        Some(LogEntry { identity, part: number(16)..number(24), span })
    }

    /// Files stored with a key must be accessible to their owner only.
    #[cfg(unix)]
    fn check_mode(&self, file: &File) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata().map_err(|error| self.unwritable(&error))?.permissions().mode() & 0o777;
        if mode & 0o077 == 0 { Ok(()) } else { Err(self.error(LogFileProblem::ReadableByOthers { mode })) }
    }

    #[cfg(not(unix))]
    fn check_mode(&self, _: &File) -> Result<()> {
        Ok(())
    }

    fn unwritable(&self, error: &std::io::Error) -> PipelineError {
        self.error(LogFileProblem::Unwritable(error.to_string()))
    }

    fn error(&self, problem: LogFileProblem) -> PipelineError {
        LogFileError { path: self.path.clone(), problem }.into()
    }
}

fn header(key_id: [u8; 16], identity: [u8; 16]) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..16].copy_from_slice(MAGIC);
    bytes[16..32].copy_from_slice(&key_id);
    bytes[32..48].copy_from_slice(&identity);
    bytes
}

/// Whether an open file is still the one at its path: it is replaced under its lock, and someone may move it.
#[cfg(unix)]
fn is_at(open: &Metadata, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (open.dev(), open.ino()))
}

#[cfg(not(unix))]
fn is_at(_: &Metadata, _: &Path) -> bool {
    true
}

#[cfg(unix)]
fn names_of(open: &Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    open.nlink()
}

#[cfg(not(unix))]
fn names_of(_: &Metadata) -> u64 {
    1
}
