//! The folder of a service: one [redb](redb) database, in which a change is whole or was never made, and is durable
//! before anybody hears of it.
//!
//! | table | key | what |
//! |---|---|---|
//! | `meta` | name | version of the format, identity of the folder, and the like |
//! | `streams` | number | [what a stream is](StreamRecord) |
//! | `batches` | stream, id | [batches that were taken](BatchRecord) |
//! | `events` | stream, step, number of the batch | events that are not in a state yet, [as bytes](evertally_publish::session::Placed::write) |
//! | `late` | stream, number of the batch | late events that were put aside |
//! | `states` | stream | [where its session stood](StateRecord) |
//! | `closed` | stream, step | [what was closed](ClosedRecord), a chain of digests |
//! | `rows` | stream, publication, block | [released rows](RowBlock) |
//! | `names` | stream, place | names of groups |
//! | `ledger` | name | the ledger of the key, and its parts |
//! | `recovering` | stream | what its witness has seen beyond the folder, until that is found here, too |
//! | `follows` | stream | what it goes on from that began where another ended |
//! | `delivered` | address, stream | the publication that a webhook has taken last |
//!
//! Every commit is of two phases and syncs, so that a torn write leaves the state before it.

/// Every table but `meta`, for a macro that takes their names: what is made is also what is copied.
macro_rules! with_tables {
    ($each:ident) => {
        $each!(STREAMS BATCHES EVENTS LATE STATES CLOSED ROWS NAMES LEDGER RECOVERING FOLLOWS DELIVERED)
    };
}

mod copy;
mod ledger;
mod records;

pub use ledger::RedbLedger;
pub use records::{
    BatchRecord, ClosedRecord, Closing, Phase, RowBlock, StateRecord, StoredRow, StoredView, StreamRecord,
};
pub(crate) use records::{from_bytes, to_bytes};

use evertally_declare::error::{Context, Error, Result, failure, usage};
use evertally_ledger::disk::{Disk, RealDisk, beside, folder_of};
use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, Durability, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition, WriteTransaction,
};
use std::path::Path;
use std::sync::Arc;

/// The version of the format.
const FORMAT: u32 = 1;

pub(crate) const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
pub(crate) const STREAMS: TableDefinition<u32, &[u8]> = TableDefinition::new("streams");
pub(crate) const BATCHES: TableDefinition<(u32, &str), &[u8]> = TableDefinition::new("batches");
pub(crate) const EVENTS: TableDefinition<(u32, u64, u64), &[u8]> = TableDefinition::new("events");
pub(crate) const LATE: TableDefinition<(u32, u64), &[u8]> = TableDefinition::new("late");
pub(crate) const STATES: TableDefinition<u32, &[u8]> = TableDefinition::new("states");
pub(crate) const CLOSED: TableDefinition<(u32, u64), &[u8]> = TableDefinition::new("closed");
pub(crate) const ROWS: TableDefinition<(u32, u64, u32), &[u8]> = TableDefinition::new("rows");
pub(crate) const NAMES: TableDefinition<(u32, u32), &[u8]> = TableDefinition::new("names");
pub(crate) const LEDGER: TableDefinition<&str, &[u8]> = TableDefinition::new("ledger");
pub(crate) const RECOVERING: TableDefinition<u32, &[u8]> = TableDefinition::new("recovering");
pub(crate) const FOLLOWS: TableDefinition<u32, &[u8]> = TableDefinition::new("follows");
pub(crate) const DELIVERED: TableDefinition<(&str, u32), u64> = TableDefinition::new("delivered");

/// Where it says that a witness was told something.
pub(crate) const WITNESSED: &str = "witnessed";

/// Where it says with which key a service has begun.
const KEY: &str = "key";

/// Where it says which key was about to be made.
const MAKING: &str = "making";

/// The database of a folder.
#[derive(Clone)]
pub struct Store(Arc<Database>);

impl Store {
    /// Opens the database in a file, or makes it.
    ///
    /// # Errors
    /// If another process has it open, it cannot be read or written, or a later version has written it.
    pub fn open(path: &Path) -> Result<Self> {
        let shown = path.display();
        if !path.exists() {
            // A database that was cut off while it was made is none, so that it gets its name once it is one.
            let unfinished = beside(path, "new");
            let _ = std::fs::remove_file(&unfinished);
            drop(Self::of(private(&unfinished).context(format_args!("cannot make {shown}"))?)?);
            std::fs::rename(&unfinished, path)?;
            RealDisk.sync_folder(folder_of(path))?;
        }
        let database = builder().create(path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => usage(format!(
                "{shown} is open in another process: one service at a time publishes from a folder; stop the other first"
            )),
            DatabaseError::Storage(redb::StorageError::Corrupted(what)) => {
                usage(format!("{shown} is damaged ({what}): restore it from a backup, and have its disk looked at"))
            }
            error => failure(error).context(format_args!("cannot open {shown}")),
        })?;
        Self::of(database)
    }

    /// A database on whatever stores bytes.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn on(backend: impl StorageBackend) -> Result<Self> {
        Self::of(builder().create_with_backend(backend).map_err(failure)?)
    }

    fn of(database: Database) -> Result<Self> {
        let store = Self(Arc::new(database));
        make_tables(&store)?;
        Ok(store)
    }

    /// Looks at the database as it is now, while others write.
    pub(crate) fn look(&self) -> Result<ReadTransaction> {
        self.0.begin_read().map_err(failure)
    }

    /// Whether no service has begun with it: it knows of no key.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn is_unused(&self) -> Result<bool> {
        Ok(self.noted(KEY)?.is_none())
    }

    /// Notes which key is about to be made for it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn note_making(&self, key_id: &str) -> Result<()> {
        self.note(MAKING, key_id.as_bytes())
    }

    /// Which key was made for it, by its public name.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn making(&self) -> Result<Option<String>> {
        Ok(self.noted(MAKING)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Forgets that there is a witness, whoever it was.
    ///
    /// # Errors
    /// If a stream is behind what it has seen, or the database cannot be written.
    pub fn forget_witness(&self) -> Result<()> {
        let looking = self.look()?;
        let (streams, recovering) =
            (looking.open_table(STREAMS).map_err(stored)?, looking.open_table(RECOVERING).map_err(stored)?);
        for entry in recovering.iter().map_err(stored)? {
            let number = entry.map_err(stored)?.0.value();
            let bytes = streams.get(number).map_err(stored)?.ok_or_else(|| failure("a stream is not on record"))?;
            let record: StreamRecord = from_bytes(bytes.value(), "what a stream is")?;
            if record.phase == Phase::Open {
                return Err(usage(format!(
                    "this folder is not the newest: the witness has seen more of stream `{}` than is in it. Recover the \
                     stream or retire it before the witness is forgotten",
                    record.name
                )));
            }
        }
        self.change(|writing| {
            writing.open_table(META).map_err(stored)?.remove(WITNESSED).map_err(stored)?;
            Ok(())
        })
    }

    /// Notes with which key a service has begun, by its public name.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn begin_with(&self, key_id: &str) -> Result<()> {
        self.note(KEY, key_id.as_bytes())
    }

    /// What tells this folder and its copies from others.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub fn identity(&self) -> Result<String> {
        let bytes = self.noted("identity")?.ok_or_else(|| failure("the folder has no identity"))?;
        if bytes.len() != 16 {
            return Err(usage("the identity of the folder is damaged"));
        }
        Ok(digits(&bytes))
    }

    /// Writes a note of the folder itself under a name, in the place of one that is there.
    pub(crate) fn note(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.change(|writing| {
            writing.open_table(META).map_err(stored)?.insert(name, bytes).map_err(stored)?;
            Ok(())
        })
    }

    /// What is noted under a name.
    pub(crate) fn noted(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let table = self.look()?.open_table(META).map_err(stored)?;
        Ok(table.get(name).map_err(stored)?.map(|bytes| bytes.value().to_vec()))
    }

    /// Whether the disk has failed it, so that nothing more is written until the folder is opened anew.
    pub fn is_lost(&self) -> bool {
        self.0.begin_write().is_err()
    }

    /// Changes the database: all that `change` does is durable when this returns, or none of it was done.
    ///
    /// # Errors
    /// What `change` returns, or if the database cannot be written.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&WriteTransaction) -> Result<T>) -> Result<T> {
        let mut writing = self.0.begin_write().map_err(failure)?;
        writing.set_durability(Durability::Immediate).map_err(failure)?;
        writing.set_two_phase_commit(true);
        // Whoever opens the folder after a crash does not look through all of it.
        writing.set_quick_repair(true);
        let done = change(&writing)?;
        writing.commit().map_err(stored).context("the folder cannot be written; nothing was taken or published")?;
        Ok(done)
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(64 << 20);
    builder
}

/// What tells one thing from all others: 128 random bits.
fn random_bytes() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(failure)?;
    Ok(bytes)
}

/// A name that nothing else has: 32 hexadecimal digits.
pub(crate) fn random_name() -> Result<String> {
    Ok(digits(&random_bytes()?))
}

/// Bytes as hexadecimal digits.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A new database in a file that nobody else may read: it holds exact sums, and events of people.
fn private(path: &Path) -> Result<Database> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let backend = FileBackend::new(options.open(path)?).map_err(failure)?;
    builder().create_with_backend(backend).map_err(failure)
}

/// What the database says, as an error of the pipeline.
pub(crate) fn stored(error: impl Into<redb::Error>) -> Error {
    let error = match error.into() {
        redb::Error::Io(error) => error.into(),
        error => failure(error),
    };
    error.context("the database")
}

/// Makes all tables of a new folder, and checks the format of any other.
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
                    "the folder was written by another version of this program (format {other}, and this one reads {FORMAT}); \
                     start that version again"
                )));
            }
            Some(Err(_)) => return Err(failure("the folder is damaged: it does not say which format it has")),
        }
        drop(meta);
        macro_rules! tables {
            ($($table:ident)*) => { $(writing.open_table($table).map_err(stored)?;)* };
        }
        with_tables!(tables);
        Ok(())
    })
}
