//! The folder of a service: one [redb] database, in which every change is atomic, and durable before anybody
//! learns of it.
//!
//! | table | key | what |
//! |---|---|---|
//! | `meta` | name | version of the format, identity of the folder, and the like |
//! | `streams` | number | [stream records](StreamRecord) |
//! | `batches` | stream, id | [accepted batches](BatchRecord) |
//! | `batch days` | stream, day, id | the days on which batches were accepted, if their ids are forgotten some day |
//! | `positions` | stream, source, partition | [positions in sources](PositionRecord) |
//! | `events` | stream, step, number of the batch | events that no state includes yet, [as bytes] |
//! | `ids` | stream, step, number of the batch | keyed hashes of the ids of rows in open steps |
//! | `late` | stream, number of the batch | [late events that were set aside](LateRecord) |
//! | `states` | stream | [the state of its session](StateRecord) |
//! | `closed` | stream, step | [closed steps](ClosedRecord), a hash chain |
//! | `rows` | stream, publication, block | [released rows](RowBlock) |
//! | `names` | stream, place | names of groups |
//! | `ledger` | name | the ledger of the key, and its parts |
//! | `recovering` | stream | later steps that its witness has seen, until they are reproduced here |
//! | `follows` | stream | its link to the stream that it continues |
//! | `delivered` | address, stream | the last publication that a webhook has accepted |
//! | `dead letters` | address, stream, publication | [publications that a webhook has refused](DeadLetterRecord) |
//! | `shown` | stream | the last step whose rows were shown |
//!
//! [as bytes]: evertally_publish::session::Placed::write
//!
//! Commits are two-phase and synced, so that a torn write leaves the previous state.

/// Every table but `meta`, for a macro that takes their names: the tables that are created are also those that are
/// copied.
macro_rules! with_tables {
    ($each:ident) => {
        $each!(STREAMS BATCHES POSITIONS EVENTS IDS BATCH_DAYS LATE STATES CLOSED ROWS NAMES LEDGER RECOVERING FOLLOWS
            DELIVERED DEAD_LETTERS SHOWN)
    };
}

mod copy;
mod journal;
mod ledger;
mod records;
mod unchanged;

pub(crate) use journal::{Batch, Changes};
pub use journal::{Journal, Recorder};
pub use ledger::RedbLedger;
pub use records::{
    BatchRecord, ClosedBy, ClosedRecord, DeadLetterRecord, LateRecord, Phase, PositionRecord, RowBlock, StateRecord,
    StoredRow, StoredView, StreamRecord,
};
pub(crate) use records::{from_bytes, to_bytes};
pub(crate) use unchanged::{FolderStreams, KnownStore};

use crate::meters::Histogram;
use evertally_declare::error::{Context, PipelineError, Result, failure, usage};
use evertally_ledger::disk::{Disk, RealDisk, folder_of, sibling};
use evertally_ledger::platform;
use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition, WriteTransaction,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The version of the format.
const FORMAT: u32 = 4;

pub(crate) const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
pub(crate) const STREAMS: TableDefinition<u32, &[u8]> = TableDefinition::new("streams");
pub(crate) const BATCHES: TableDefinition<(u32, &str), &[u8]> = TableDefinition::new("batches");
pub(crate) const BATCH_DAYS: TableDefinition<(u32, u32, &str), ()> = TableDefinition::new("batch days");
pub(crate) const POSITIONS: TableDefinition<(u32, &str, &str), &[u8]> = TableDefinition::new("positions");
pub(crate) const EVENTS: TableDefinition<(u32, u64, u64), &[u8]> = TableDefinition::new("events");
pub(crate) const IDS: TableDefinition<(u32, u64, u64), &[u8]> = TableDefinition::new("ids");
pub(crate) const LATE: TableDefinition<(u32, u64), &[u8]> = TableDefinition::new("late");
pub(crate) const STATES: TableDefinition<u32, &[u8]> = TableDefinition::new("states");
pub(crate) const CLOSED: TableDefinition<(u32, u64), &[u8]> = TableDefinition::new("closed");
pub(crate) const ROWS: TableDefinition<(u32, u64, u32), &[u8]> = TableDefinition::new("rows");
pub(crate) const NAMES: TableDefinition<(u32, u32), &[u8]> = TableDefinition::new("names");
pub(crate) const LEDGER: TableDefinition<&str, &[u8]> = TableDefinition::new("ledger");
pub(crate) const RECOVERING: TableDefinition<u32, &[u8]> = TableDefinition::new("recovering");
pub(crate) const FOLLOWS: TableDefinition<u32, &[u8]> = TableDefinition::new("follows");
pub(crate) const DELIVERED: TableDefinition<(&str, u32), u64> = TableDefinition::new("delivered");
pub(crate) const DEAD_LETTERS: TableDefinition<(&str, u32, u64), &[u8]> = TableDefinition::new("dead letters");
pub(crate) const SHOWN: TableDefinition<u32, u64> = TableDefinition::new("shown");

/// The key of the note that a witness has a record of the folder.
pub(crate) const WITNESSED: &str = "witnessed";

/// The key of the note of the name under which this copy of the folder may publish, after a takeover.
const PRIMARY: &str = "primary";

/// The key of the note of the service's key.
const KEY: &str = "key";

/// The key of the note of a key about to be created.
const MAKING: &str = "making";

/// The database of a folder.
#[derive(Clone)]
pub struct Store(Arc<Database>, Arc<Histogram>, Option<Hold>);

/// Shipping to another machine, and how long publications wait for it.
#[derive(Clone)]
pub(crate) struct Hold {
    pub(crate) journal: Arc<Journal>,
    pub(crate) limit: Duration,
}

impl Store {
    /// Opens the database in a file, or creates it.
    ///
    /// # Errors
    /// If another process has it open, it cannot be read or written, a later version has written it, or the
    /// [system](platform) does not protect records.
    pub fn open(path: &Path) -> Result<Self> {
        prepare(path)?;
        let opened = builder().create(path);
        Self::new(opened.map_err(|error| cannot_open(path, error))?)
    }

    /// The same, with a record of the writes, for shipping them.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    #[expect(clippy::disallowed_methods, reason = "redb writes its own file")]
    pub fn open_recorded(path: &Path, journal: &Arc<Journal>) -> Result<(Self, Recorder)> {
        prepare(path)?;
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path)?;
        let backend = FileBackend::new(file).map_err(|error| cannot_open(path, error))?;
        let recorder = Recorder::new(Arc::new(backend), Arc::clone(journal));
        let opened = builder().create_with_backend(recorder.clone());
        Ok((Self::new(opened.map_err(|error| cannot_open(path, error))?)?, recorder))
    }

    /// Lets publications wait until they were shipped, for at most `limit`.
    pub fn holding(self, journal: &Arc<Journal>, limit: Duration) -> Self {
        Self(self.0, self.1, Some(Hold { journal: Arc::clone(journal), limit }))
    }

    pub(crate) fn hold(&self) -> Option<&Hold> {
        self.2.as_ref()
    }

    /// A database on any storage backend.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn on(backend: impl StorageBackend) -> Result<Self> {
        Self::new(builder().create_with_backend(backend).map_err(failure)?)
    }

    fn new(database: Database) -> Result<Self> {
        let store = Self(Arc::new(database), Arc::default(), None);
        make_tables(&store)?;
        Ok(store)
    }

    /// A snapshot of the database, while others write.
    pub(crate) fn look(&self) -> Result<ReadTransaction> {
        self.0.begin_read().map_err(failure)
    }

    /// Whether no service has begun with it: it has no key on record.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_unused(&self) -> Result<bool> {
        Ok(self.noted(KEY)?.is_none())
    }

    /// Notes the key about to be created for it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note_making(&self, key_id: &str) -> Result<()> {
        self.note(MAKING, key_id.as_bytes())
    }

    /// The public name of the key that was created for it.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn making(&self) -> Result<Option<String>> {
        Ok(self.noted(MAKING)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Forgets the witness.
    ///
    /// # Errors
    /// If a stream has fewer steps than the witness has seen, or the database cannot be written.
    pub fn forget_witness(&self) -> Result<()> {
        let read_txn = self.look()?;
        let (streams, recovering) =
            (read_txn.open_table(STREAMS).map_err(stored)?, read_txn.open_table(RECOVERING).map_err(stored)?);
        for entry in recovering.iter().map_err(stored)? {
            let number = entry.map_err(stored)?.0.value();
            let bytes = streams.get(number).map_err(stored)?.ok_or_else(|| failure("a stream has no record"))?;
            let record: StreamRecord = from_bytes(bytes.value(), "a stream record")?;
            if record.phase == Phase::Open {
                return Err(usage(format!(
                    "this folder is not the newest: the witness has seen more steps of stream `{}` than it contains. \
                     Recover or retire the stream before you forget the witness",
                    record.name
                )));
            }
        }
        self.change(|writing| {
            writing.open_table(META).map_err(stored)?.remove(WITNESSED).map_err(stored)?;
            Ok(())
        })
    }

    /// Notes the key with which a service has begun, by its public name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin_with(&self, key_id: &str) -> Result<()> {
        self.note(KEY, key_id.as_bytes())
    }

    /// The name under which this copy of the folder may publish; empty if no machine has taken over yet.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn primary(&self) -> Result<String> {
        let bytes = self.noted(PRIMARY)?.unwrap_or_default();
        String::from_utf8(bytes).map_err(|_| failure("the name of the primary in the data folder is corrupt"))
    }

    /// Records the name under which this copy of the folder may publish: the witness has just been given it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn set_primary(&self, name: &str) -> Result<()> {
        self.note(PRIMARY, name.as_bytes())
    }

    /// The identity that this folder shares with its copies only.
    ///
    /// # Errors
    /// If it cannot be read, or is corrupt.
    pub fn identity(&self) -> Result<String> {
        let bytes = self.noted("identity")?.ok_or_else(|| failure("the folder has no identity"))?;
        if bytes.len() != 16 {
            return Err(usage("the identity of the folder is corrupt"));
        }
        Ok(evertally::hex(&bytes))
    }

    /// Writes a note of the folder under a name, replacing an existing one.
    pub(crate) fn note(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.change(|writing| {
            writing.open_table(META).map_err(stored)?.insert(name, bytes).map_err(stored)?;
            Ok(())
        })
    }

    /// The note under a name.
    pub(crate) fn noted(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let table = self.look()?.open_table(META).map_err(stored)?;
        Ok(table.get(name).map_err(stored)?.map(|bytes| bytes.value().to_vec()))
    }

    /// Whether the disk has failed, so that nothing more can be written until the folder is opened again.
    pub fn is_lost(&self) -> bool {
        self.0.begin_write().is_err()
    }

    /// Changes the database: everything that `change` writes is durable when this returns, or nothing was written.
    ///
    /// # Errors
    /// The error of `change`, or that the database cannot be written.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&WriteTransaction) -> Result<T>) -> Result<T> {
        let mut writing = self.0.begin_write().map_err(failure)?;
        writing.set_durability(Durability::Immediate).map_err(failure)?;
        writing.set_two_phase_commit(true);
        // After a crash, opening does not have to scan the whole folder.
        writing.set_quick_repair(true);
        let done = change(&writing)?;
        let since = Instant::now();
        writing
            .commit()
            .map_err(stored)
            .context("cannot write to the data folder; nothing was accepted or published")?;
        self.1.add(since.elapsed());
        Ok(done)
    }

    /// The durations of commits, including the flushes of the disk.
    pub(crate) fn commits(&self) -> &Histogram {
        &self.1
    }
}

/// Creates the database in a file, if it does not exist.
#[expect(clippy::disallowed_methods, reason = "names a new database once it is complete")]
fn prepare(path: &Path) -> Result<()> {
    platform::check()?;
    if path.exists() {
        return Ok(());
    }
    // A partly created database is not a database: it gets its name only when it is complete.
    let unfinished = sibling(path, "new");
    let _ = std::fs::remove_file(&unfinished);
    let created = private(&unfinished).context(format_args!("cannot create {}", path.display()))?;
    drop(Store::new(created)?);
    std::fs::rename(&unfinished, path)?;
    Ok(RealDisk.sync_folder(folder_of(path))?)
}

fn cannot_open(path: &Path, error: DatabaseError) -> PipelineError {
    let shown = path.display();
    match error {
        DatabaseError::DatabaseAlreadyOpen => usage(format!(
            "{shown} is open in another process: only one service at a time can use a folder; stop the other first"
        )),
        DatabaseError::Storage(redb::StorageError::Corrupted(what)) => {
            usage(format!("{shown} is corrupt ({what}): restore it from a backup, and check its disk"))
        }
        error => failure(error).context(format_args!("cannot open {shown}")),
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(64 << 20);
    builder
}

/// A random identity of 128 bits.
fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(failure)?;
    Ok(bytes)
}

/// A unique name: 32 hexadecimal digits.
pub(crate) fn random_name() -> Result<String> {
    Ok(evertally::hex(&random_bytes()?))
}

/// A new database in a file that nobody else may read: it holds exact sums, and events of people.
#[expect(clippy::disallowed_methods, reason = "redb writes its own file")]
fn private(path: &Path) -> Result<Database> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let backend = FileBackend::new(options.open(path)?).map_err(failure)?;
    builder().create_with_backend(backend).map_err(failure)
}

/// An error of the database as an error of the pipeline.
pub(crate) fn stored(error: impl Into<redb::Error>) -> PipelineError {
    let error = match error.into() {
        redb::Error::Io(error) => error.into(),
        error => failure(error),
    };
    error.context("the database")
}

/// Creates all tables of a new folder, and checks the format of an existing one.
fn make_tables(store: &Store) -> Result<()> {
    store.change(|writing| {
        let mut meta = writing.open_table(META).map_err(stored)?;
        let found = meta.get("format").map_err(stored)?.map(|bytes| bytes.value().to_vec());
        match found.as_deref().map(|bytes| bytes.try_into().map(u32::from_le_bytes)) {
            None => {
                meta.insert("format", FORMAT.to_le_bytes().as_slice()).map_err(stored)?;
                meta.insert("identity", random_bytes()?.as_slice()).map_err(stored)?;
            }
            Some(Ok(FORMAT)) => {}
            Some(Ok(other)) => {
                return Err(usage(format!(
                    "the folder was written by another version of this program (its format is {other}, this one reads \
                     {FORMAT}); start that version instead"
                )));
            }
            Some(Err(_)) => return Err(failure("the data folder is corrupt: its format version cannot be read")),
        }
        drop(meta);
        macro_rules! tables {
            ($($table:ident)*) => { $(writing.open_table($table).map_err(stored)?;)* };
        }
        with_tables!(tables);
        Ok(())
    })
}
