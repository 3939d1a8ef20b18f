//! Ships a database: first the whole file, piece by piece, then the changes.

use super::ending::is_end;
use super::segment::{Sealed, Segment};
use super::signs::{WholeChain, put_whole};
use super::target::Target;
use crate::store::{Batch, Changes, Journal, Recorder, random_name};
use evertally_declare::error::{PipelineError, Result, failure};
use jiff::Timestamp;
use redb::StorageBackend;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Bytes of one piece of the whole file.
const PIECE_BYTES: usize = 16 << 20;

/// The files that are shipped with the database: without them no client can sign in after a takeover.
pub(crate) const SIDE_FILES: [&str; 1] = ["tokens.json"];

/// The time in the name of a chain, in UTC, so that names sort by time.
const TIME_FORMAT: &str = "%Y%m%dT%H%M%S%.6fZ";

/// A time as in the name of a chain.
pub(super) fn time_of(time: Timestamp) -> String {
    time.strftime(TIME_FORMAT).to_string()
}

/// A chain of segments: the whole database, and the changes since.
struct ShippedEpoch {
    name: String,
    /// The number of the last segment.
    number: u64,
    digest: [u8; 32],
    /// The length of the file after the last segment.
    len: u64,
    /// Up to where the file is copied; `None` once it is whole.
    copied: Option<u64>,
    /// Whether it is named as the last whole chain.
    is_named: bool,
    began: i64,
}

/// A segment that could not be written yet.
struct Unsent {
    name: String,
    sealed: Sealed,
    is_whole: bool,
    syncs: u64,
}

/// Ships the changes of one database.
pub struct Shipper {
    journal: Arc<Journal>,
    source: Arc<dyn StorageBackend>,
    target: Box<dyn Target>,
    folder_id: String,
    primary: String,
    /// The folder with other files to ship.
    folder: Option<PathBuf>,
    side_files_at: Vec<Option<SystemTime>>,
    epoch: Option<ShippedEpoch>,
    unsent: Option<Unsent>,
    /// Whether another machine has ended the chain, to continue it.
    is_replaced: bool,
    piece_bytes: usize,
    /// Bytes shipped so far.
    pub(super) bytes: u64,
}

impl Shipper {
    /// Ships what `recorder` records; the other files come from `folder`.
    pub fn new(
        recorder: &Recorder,
        journal: &Arc<Journal>,
        target: Box<dyn Target>,
        folder_id: &str,
        folder: Option<&Path>,
    ) -> Self {
        Self {
            journal: Arc::clone(journal),
            source: recorder.inner(),
            target,
            folder_id: folder_id.to_owned(),
            primary: String::new(),
            folder: folder.map(Path::to_owned),
            side_files_at: Vec::new(),
            epoch: None,
            unsent: None,
            is_replaced: false,
            piece_bytes: PIECE_BYTES,
            bytes: 0,
        }
    }

    /// Names the copy of the folder as the witness does, for those who restore it.
    pub fn with_primary(self, primary: &str) -> Self {
        Self { primary: primary.to_owned(), ..self }
    }

    /// Ships the whole file in pieces of another size.
    pub fn with_piece_bytes(self, piece_bytes: usize) -> Self {
        Self { piece_bytes, ..self }
    }

    /// The name of the chain and the number of its last segment.
    pub fn position(&self) -> Option<(&str, u64)> {
        self.epoch.as_ref().map(|epoch| (epoch.name.as_str(), epoch.number))
    }

    /// When the chain began, in microseconds since 1970.
    pub(super) fn began(&self) -> Option<i64> {
        self.epoch.as_ref().map(|epoch| epoch.began)
    }

    /// Whether the whole database was shipped.
    pub fn is_whole(&self) -> bool {
        self.epoch.as_ref().is_some_and(|epoch| epoch.copied.is_none()) && !self.journal.is_full()
    }

    /// Begins with the whole database again.
    pub fn restart(&mut self) {
        (self.epoch, self.unsent) = (None, None);
        self.side_files_at.clear();
    }

    pub(super) fn journal(&self) -> Arc<Journal> {
        Arc::clone(&self.journal)
    }

    /// Ships one segment, if there is anything to ship; returns whether there was.
    ///
    /// # Errors
    /// If the target cannot be written; then the next call tries again.
    pub fn ship(&mut self, now: i64) -> Result<bool> {
        if self.is_replaced {
            return Err(replaced());
        }
        if self.journal.is_full() {
            self.restart();
        }
        if self.epoch.is_none() {
            let time = time_of(Timestamp::from_microsecond(now).unwrap_or(Timestamp::UNIX_EPOCH));
            let name = format!("{time}-{}", &random_name()?[..8]);
            self.journal.begin();
            self.epoch = Some(ShippedEpoch {
                name,
                number: 0,
                digest: [0; 32],
                len: 0,
                copied: Some(0),
                is_named: false,
                began: now,
            });
        }
        if self.unsent.is_none() {
            // Changes that were taken and not prepared are lost: begin again.
            let next = self.next(now).inspect_err(|_| self.journal.overflow());
            if !next? {
                return Ok(false);
            }
        }
        self.send()?;
        Ok(true)
    }

    /// Prepares the next segment; returns whether there is one.
    fn next(&mut self, now: i64) -> Result<bool> {
        let epoch = self.epoch.as_ref().expect("it has begun");
        let Some(at) = epoch.copied else {
            let batch = self.journal.take();
            let files = self.changed_files();
            if batch.changes.is_empty() && files.is_empty() {
                self.journal.has_shipped(batch.syncs);
                return Ok(false);
            }
            self.prepare(batch, files, None, now)?;
            return Ok(true);
        };
        // Changes that were synced meanwhile are shipped with each piece, so that few of them wait. The length is read
        // after they were taken: it covers all of them.
        let mut batch = self.journal.take();
        let len = self.source.len()?;
        batch.len = len;
        let copied = if at < len {
            let mut bytes = vec![0; self.piece_bytes.min((len - at) as usize)]; // fits: no longer than a piece
            self.source.read(at, &mut bytes)?;
            batch.changes.append(Changes::from_range(at, bytes));
            Some(len.min(at + self.piece_bytes as u64))
        } else {
            batch.changes.append(self.journal.unsynced());
            batch.len = self.source.len()?;
            None
        };
        let files = if copied.is_none() { self.changed_files() } else { Vec::new() };
        self.prepare(batch, files, copied, now)?;
        Ok(true)
    }

    fn prepare(&mut self, batch: Batch, files: Vec<(String, Vec<u8>)>, copied: Option<u64>, now: i64) -> Result<()> {
        let epoch = self.epoch.as_mut().expect("it has begun");
        let number = epoch.number + 1;
        let mut head = Segment::new(&self.folder_id, &epoch.name, number, epoch.digest, now);
        (head.is_whole, head.files) = (copied.is_none(), files);
        head.primary.clone_from(&self.primary);
        if !batch.changes.is_empty() {
            epoch.len = batch.len;
        }
        head.len = epoch.len; // files alone do not change the length
        let name = Segment::name_of(&epoch.name, number);
        let sealed = head.seal(&batch.changes)?;
        self.unsent = Some(Unsent { name, sealed, is_whole: copied.is_none(), syncs: batch.syncs });
        epoch.copied = copied;
        Ok(())
    }

    fn changed_files(&mut self) -> Vec<(String, Vec<u8>)> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let at: Vec<Option<SystemTime>> = SIDE_FILES
            .iter()
            .map(|name| std::fs::metadata(folder.join(name)).and_then(|meta| meta.modified()).ok())
            .collect();
        if at == self.side_files_at {
            return Vec::new();
        }
        self.side_files_at = at;
        let read = |name: &&str| Some(((*name).to_owned(), std::fs::read(folder.join(name)).ok()?));
        SIDE_FILES.iter().filter_map(read).collect()
    }

    fn send(&mut self) -> Result<()> {
        let Some(unsent) = &self.unsent else { return Ok(()) };
        // An attempt without an answer may have arrived: then the same bytes are there.
        if !self.target.create(&unsent.name, &unsent.sealed.bytes)? {
            if is_end(&*self.target, &unsent.name)? {
                self.is_replaced = true;
                return Err(replaced());
            }
            let problem = format!(
                "the segment {} in {} was written by another process; the whole database is shipped again",
                unsent.name,
                self.target.place()
            );
            self.journal.overflow();
            return Err(failure(problem));
        }
        let epoch = self.epoch.as_mut().expect("it has begun");
        if unsent.is_whole && !epoch.is_named {
            put_whole(&*self.target, &self.primary, &WholeChain::Chain(epoch.name.clone()))?;
            epoch.is_named = true;
        }
        self.bytes += unsent.sealed.bytes.len() as u64;
        let (digest, is_whole, syncs) = (unsent.sealed.digest, unsent.is_whole, unsent.syncs);
        self.unsent = None;
        epoch.number += 1;
        epoch.digest = digest;
        if is_whole {
            self.journal.has_shipped(syncs);
        }
        Ok(())
    }
}

fn replaced() -> PipelineError {
    failure("another machine has taken over, and continues the chain of segments")
}
