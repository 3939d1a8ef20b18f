//! The file that notes what noise was given out, beside that of its key.
//!
//! Records of 64 bytes are written behind each other; the first is the header. All integers are little endian.
//!
//! | bytes | header | record |
//! |---|---|---|
//! | 16 | `evertally uses 1` | identity of the noise |
//! | 16 | the key's id | first coordinate, and the one after the last |
//! | 16 | identity of this log, drawn when it was made | first and last step |
//! | 8 | 0 | mark of what they were given out for; 0: nobody knows |
//! | 8 | SipHash-2-4 of the bytes before, under the key's secret | the same |
//!
//! The ledger of the key records the identity of its log: another one is refused, and so is a key whose log is gone.
//!
//! A process locks the file for as long as it reads what others have written, and writes: so what is read is always all
//! there is. Only the making of a log is synced: a process that is killed loses nothing, a machine that loses power may lose the last
//! records, and a record that is cut off, or zeros, at the end are taken for that.

use super::history::Span;
use super::mark::{derived, sip, sip_key};
use crate::error::{OrRaise, state};
use crate::plan::hexadecimal;
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
/// A file is written anew when it has twice as many records as are needed, and so many more.
const SPARE: u64 = 1 << 14;

/// Steps of some noise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) identity: [u8; 16],
    pub(super) part: Range<u64>,
    pub(super) span: Span,
}

/// The file of one key.
#[derive(Debug)]
pub(super) struct UsesFile {
    path: PathBuf,
    key_id: [u8; 16],
    /// What tells the log from others; unknown until it is made or read.
    identity: Option<[u8; 16]>,
    sip: (u64, u64),
    open: Option<Open>,
    /// How long the file was when it was locked.
    len: u64,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// A lock is shared with the process that one is a fork of: each opens the file itself.
    process: u32,
    /// How many bytes are read, or our own.
    read: u64,
}

impl UsesFile {
    pub(super) fn new(path: PathBuf, key: &SecretKey) -> Self {
        let mut secret = [0; 16];
        derived(key, &[b"evertally 1 uses file"], &mut secret);
        Self { path, key_id: *key.id().as_bytes(), identity: None, sip: sip_key(&secret), open: None, len: 0 }
    }

    /// Does something while no other process does. It is given the records that are new to this process, and says what
    /// follows them, and what comes of it.
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
            self.open = None; // whoever puts it right puts another file there, perhaps
        }
        done
    }

    /// What tells this log from others, as the ledger records it. Where the ledger `knows` none yet the log is made, durably
    /// and under a new identity, unless it was made by a process that was killed before it could tell the ledger. Gives the
    /// records that are new to this process, too.
    pub(super) fn identity(&mut self, known: Option<&str>) -> PyResult<(String, Vec<Record>)> {
        if known.is_none() && !self.is_there() {
            self.make(*SecretKey::generate().or_raise()?.id().as_bytes())?;
        }
        let news = self.turn(|news| (vec![], news))?;
        Ok((hexadecimal(&self.identity.expect("it was read")), news))
    }

    pub(super) fn is_there(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Makes the log, with a header and no record.
    pub(super) fn make(&mut self, identity: [u8; 16]) -> PyResult<()> {
        let header = self.checked(header(self.key_id, identity));
        replace(&RealDisk, &self.path, &Access::Private, &mut &header[..]).map_err(|error| {
            PyOSError::new_err(format!(
                "cannot write {} ({error:#}), which notes for what data noise was issued; none was issued. Where the key's \
                 folder is read-only, name another place: SecretKey.load(path, uses=FILE)",
                self.path.display()
            ))
        })
    }

    /// Writes the file anew if most of it is no longer needed. The caller has just had its turn, and gives all records.
    /// Where that fails the file stays as long as it is.
    pub(super) fn tidy(&mut self, needed: usize, all: impl FnOnce() -> Vec<Record>) {
        let records = self.open.as_ref().map_or(0, |open| open.read / RECORD as u64);
        // A file that is open keeps its name on other systems.
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

    /// Opens and locks the file; false where there is none.
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

    /// What others have written since the last turn.
    fn news(&mut self) -> PyResult<Vec<Record>> {
        let read = self.open.as_ref().expect("locked").read;
        if self.len < read {
            return Err(self.damaged());
        }
        let bytes = self.behind(read).map_err(|error| self.unwritten(&error))?;
        if bytes.is_empty() {
            return Ok(vec![]);
        }
        // Of a machine that lost power.
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

    /// Leaves so many bytes.
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
            let _ = open.file.set_len(read); // what is cut off is left out when it is read
            return Err(self.unwritten(&error));
        }
        open.read += bytes.len() as u64;
        Ok(())
    }

    /// Refuses the log of another key, and another one than before.
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

    /// What a key is kept with is for its owner alone.
    #[cfg(unix)]
    fn check_mode(&self, file: &File) -> PyResult<()> {
        use std::os::unix::fs::PermissionsExt;
        let mode = file.metadata().map_err(|error| self.unwritten(&error))?.permissions().mode();
        if mode & 0o077 == 0 {
            return Ok(());
        }
        let shown = self.path.display();
        Err(state(format!(
            "{shown}, which notes what noise was given out, can be read by others (mode {:o}); run `chmod 600 {shown}`",
            mode & 0o777
        )))
    }

    #[cfg(not(unix))]
    fn check_mode(&self, _: &File) -> PyResult<()> {
        Ok(())
    }

    fn unwritten(&self, error: &std::io::Error) -> PyErr {
        PyOSError::new_err(format!(
            "cannot write {} ({error}), which notes what noise was given out, so that none meets other data; none was given \
             out. Where the key's folder is read-only, name another place: SecretKey.load(path, uses=FILE)",
            self.path.display()
        ))
    }

    fn missing(&self) -> PyErr {
        let shown = self.path.display();
        state(format!(
            "{shown}, which notes what noise of this key was given out for, is not there: put it back, beside the ledger that \
             knows of it. If it is lost, make a new key: the old one could repeat its noise over other data"
        ))
    }

    fn shared_by_names(&self) -> PyErr {
        let shown = self.path.display();
        state(format!(
            "{shown}, which notes what noise was given out, has several names (hard links): when it is replaced under one of \
             them, the others keep the old file. Remove the other names (`find -samefile {shown}` finds them)"
        ))
    }

    fn foreign(&self) -> PyErr {
        state(format!(
            "{} does not note what noise of this key was given out: it is of another key, or damaged. Put back the file that \
             belongs to the key; or, for a key that is new, move this one away",
            self.path.display()
        ))
    }

    fn damaged(&self) -> PyErr {
        state(format!(
            "{}, which notes what noise was given out, is damaged: put back an undamaged copy. Without one nobody knows what \
             the noise of this key was given out for: go on with a new key",
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

/// Whether a file that is open is still the one at its path: it is replaced under its lock, and someone may move it.
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
