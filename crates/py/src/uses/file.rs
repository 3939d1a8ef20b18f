//! The file that records which noise was issued, next to the key's file.
//!
//! Records of 64 bytes follow each other; the first is the header. All integers are little endian.
//!
//! | bytes | header | record |
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
//! A process locks the file while it reads the records of others and writes its own, so it always reads the complete
//! log. Only the creation of a log is synced. If a process is killed, nothing is lost; if a machine loses power, the
//! last records may be lost. A truncated record, or zeros, at the end are treated as such a loss.

#![expect(clippy::disallowed_methods, reason = "locks the open file that it writes")]

use super::history::Span;
use super::mark::{derived, sip, sip_key};
use crate::error::{OrRaise, state};
use evertally::noise::SecretKey;
use evertally_ledger::disk::{Access, RealDisk, replace};
use pyo3::exceptions::PyOSError;
use pyo3::{PyErr, PyResult};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 16] = b"evertally uses 1";
const RECORD: usize = 64;
/// A file is rewritten if it has twice as many records as needed, plus this number.
const SPARE: u64 = 1 << 14;

/// Steps of one noise stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) identity: [u8; 16],
    pub(super) part: Range<u64>,
    pub(super) span: Span,
}

/// The file of a key.
#[derive(Debug)]
pub(super) struct UsesFile {
    path: PathBuf,
    key_id: [u8; 16],
    /// Distinguishes the log from others; unknown until it is created or read.
    identity: Option<[u8; 16]>,
    sip: (u64, u64),
    open: Option<Open>,
    /// The length of the file when it was locked.
    len: u64,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// A forked process would share the lock with its parent, so each process opens the file itself.
    process: u32,
    /// The number of bytes that this process has read or written.
    read: u64,
}

impl UsesFile {
    pub(super) fn new(path: PathBuf, key: &SecretKey) -> Self {
        let mut secret = [0; 16];
        derived(key, &[b"evertally 1 uses file"], &mut secret);
        Self { path, key_id: *key.id().as_bytes(), identity: None, sip: sip_key(&secret), open: None, len: 0 }
    }

    /// Does work while no other process does. `work` receives the records that are new to this process, and returns the
    /// records to append, and its result.
    pub(super) fn turn<T>(&mut self, work: impl FnOnce(Vec<Record>) -> (Vec<Record>, T)) -> PyResult<T> {
        if !self.lock()? {
            return Err(self.missing());
        }
        let news = self.news();
        let done = news.and_then(|news| {
            let (more, done) = work(news);
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
    /// could inform the ledger. Also returns the records that are new to this process.
    pub(super) fn identity(&mut self, known: Option<&str>) -> PyResult<(String, Vec<Record>)> {
        if known.is_none() && !self.is_there() {
            self.make(*SecretKey::generate().or_raise()?.id().as_bytes())?;
        }
        let news = self.turn(|news| (vec![], news))?;
        Ok((evertally::hex(&self.identity.expect("it was read")), news))
    }

    pub(super) fn is_there(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Creates the log, with a header and no records.
    pub(super) fn make(&mut self, identity: [u8; 16]) -> PyResult<()> {
        let header = self.checked(header(self.key_id, identity));
        replace(&RealDisk, &self.path, &Access::Private, &mut &header[..]).map_err(|error| {
            PyOSError::new_err(format!(
                "cannot write {} ({error:#}), which records for which data noise was issued; none was issued. If the \
                 key's folder is read-only, name another file: SecretKey.load(path, uses=FILE)",
                self.path.display()
            ))
        })
    }

    /// Rewrites the file if most records have become redundant. The caller has just had its turn, and passes all
    /// records. If this fails, the file keeps its length.
    pub(super) fn tidy(&mut self, needed: usize, all: impl FnOnce() -> Vec<Record>) {
        let records = self.open.as_ref().map_or(0, |open| open.read / RECORD as u64);
        // Other systems cannot replace an open file.
        if !cfg!(unix) || records < 2 * needed as u64 + SPARE || !self.lock().unwrap_or(false) {
            return;
        }
        if self.open.as_ref().is_some_and(|open| open.read == self.len) {
            let mut bytes = self.checked(header(self.key_id, self.identity.expect("it was read"))).to_vec();
            all().iter().for_each(|record| bytes.extend(self.sealed(record)));
            if replace(&RealDisk, &self.path, &Access::Private, &mut &bytes[..]).is_ok() {
                self.open = None; // and with it the lock
            }
        }
        self.unlock();
    }

    /// Opens and locks the file; false if it does not exist.
    fn lock(&mut self) -> PyResult<bool> {
        loop {
            self.open.take_if(|open| open.process != std::process::id());
            if self.open.is_none() {
                let mut options = OpenOptions::new();
                options.read(true).append(true);
                let file = match options.open(&self.path) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
                    opened => opened.map_err(|error| self.unwritten(&error))?,
                };
                self.check_mode(&file)?;
                self.open = Some(Open { file, process: std::process::id(), read: 0 });
            }
            let Open { file, .. } = self.open.as_ref().expect("opened");
            let meta = file.lock().and_then(|()| file.metadata()).map_err(|error| self.unwritten(&error))?;
            if names_of(&meta) > 1 {
                self.open = None; // and with it the lock
                return Err(self.shared_by_names());
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

    /// The records that others have written since the last turn.
    fn news(&mut self) -> PyResult<Vec<Record>> {
        let read = self.open.as_ref().expect("locked").read;
        if self.len < read {
            return Err(self.damaged());
        }
        let bytes = self.behind(read).map_err(|error| self.unwritten(&error))?;
        if bytes.is_empty() {
            return Ok(vec![]);
        }
        // Zeros at the end come from a machine that lost power.
        let whole = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        let (records, rest) = bytes.as_chunks::<RECORD>();
        let (records, rest) = match records.iter().position(|record| *record == [0; RECORD]) {
            Some(zeros) if zeros * RECORD >= whole => (&records[..zeros], true),
            _ => (records, !rest.is_empty()),
        };
        let mut records = records.iter();
        if read == 0 {
            self.check_header(records.next())?;
        }
        let news = records.map(|bytes| self.opened(bytes)).collect::<Option<Vec<_>>>().ok_or_else(|| self.damaged())?;
        let end = read + if read == 0 { RECORD as u64 } else { 0 } + (news.len() * RECORD) as u64;
        if rest {
            self.cut(end)?;
        }
        self.open.as_mut().expect("locked").read = end;
        Ok(news)
    }

    /// Truncates the file to this length.
    fn cut(&self, len: u64) -> PyResult<()> {
        self.open.as_ref().expect("locked").file.set_len(len).map_err(|error| self.unwritten(&error))
    }

    fn behind(&self, read: u64) -> std::io::Result<Vec<u8>> {
        let mut file = &self.open.as_ref().expect("locked").file;
        let mut bytes = Vec::new();
        if self.len != read {
            file.seek(SeekFrom::Start(read))?;
            file.read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    fn append(&mut self, more: &[Record]) -> PyResult<()> {
        if more.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(more.len() * RECORD);
        let read = self.open.as_ref().expect("locked").read;
        more.iter().for_each(|record| bytes.extend(self.sealed(record)));
        let open = self.open.as_mut().expect("locked");
        if let Err(error) = open.file.write_all(&bytes) {
            let _ = open.file.set_len(read); // a truncated record is ignored when it is read
            return Err(self.unwritten(&error));
        }
        open.read += bytes.len() as u64;
        Ok(())
    }

    /// Refuses the log of another key, and a log other than the one seen before.
    fn check_header(&mut self, found: Option<&[u8; RECORD]>) -> PyResult<()> {
        let found = found.ok_or_else(|| self.foreign())?;
        let identity = found[32..48].try_into().expect("16 bytes");
        let is_own = self.identity.is_none_or(|own| own == identity);
        if !is_own || *found != self.checked(header(self.key_id, identity)) {
            return Err(self.foreign());
        }
        self.identity = Some(identity);
        Ok(())
    }

    fn sealed(&self, Record { identity, part, span }: &Record) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..16].copy_from_slice(identity);
        let numbers = [part.start, part.end, span.first, span.last, span.mark];
        for (place, number) in bytes[16..56].as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        self.checked(bytes)
    }

    fn checked(&self, mut bytes: [u8; RECORD]) -> [u8; RECORD] {
        let check = sip(self.sip, &bytes[..56]);
        bytes[56..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    fn opened(&self, bytes: &[u8; RECORD]) -> Option<Record> {
        if self.checked(*bytes) != *bytes {
            return None;
        }
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let identity = bytes[..16].try_into().expect("16 bytes");
        let span = Span { first: number(32), last: number(40), mark: number(48) };
        Some(Record { identity, part: number(16)..number(24), span })
    }

    /// Files stored with a key must be accessible to their owner only.
    #[cfg(unix)]
    fn check_mode(&self, file: &File) -> PyResult<()> {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata().map_err(|error| self.unwritten(&error))?.permissions().mode();
        if mode & 0o077 == 0 {
            return Ok(());
        }
        let shown = self.path.display();
        Err(state(format!(
            "{shown}, which records which noise was issued, can be read by others (mode {:o}); run `chmod 600 {shown}`",
            mode & 0o777
        )))
    }

    #[cfg(not(unix))]
    fn check_mode(&self, _: &File) -> PyResult<()> {
        Ok(())
    }

    fn unwritten(&self, error: &std::io::Error) -> PyErr {
        PyOSError::new_err(format!(
            "cannot write {} ({error}), which records which noise was issued, so that none is used for other data; \
             none was issued. If the key's folder is read-only, name another file: SecretKey.load(path, uses=FILE)",
            self.path.display()
        ))
    }

    fn missing(&self) -> PyErr {
        let shown = self.path.display();
        state(format!(
            "{shown}, which records what noise of this key was issued for, is missing: restore it next to the ledger \
             that refers to it. If it is lost, make a new key: the old one could repeat its noise for other data"
        ))
    }

    fn shared_by_names(&self) -> PyErr {
        let shown = self.path.display();
        state(format!(
            "{shown}, which records which noise was issued, has several names (hard links): when it is replaced under \
             one of them, the others keep the old file. Remove the other names (`find -samefile {shown}` finds them)"
        ))
    }

    fn foreign(&self) -> PyErr {
        state(format!(
            "{} does not record which noise of this key was issued: it belongs to another key, or is damaged. Restore \
             the file that belongs to the key; or, if the key is new, move this file elsewhere",
            self.path.display()
        ))
    }

    fn damaged(&self) -> PyErr {
        state(format!(
            "{}, which records which noise was issued, is damaged: restore an undamaged copy. Without one, nobody \
             knows what the noise of this key was issued for: use a new key",
            self.path.display()
        ))
    }
}

fn header(key_id: [u8; 16], identity: [u8; 16]) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
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
