//! Records which noise was issued, and for which data, so that the same noise is never used for different data.
//!
//! Noise is a function of key, name, plan, step and coordinate. If it is issued twice for data that differ, it reveals
//! their exact difference. One rule prevents this: **a step is issued again only for the data that it was issued for**.
//! For each step a mark of its data is kept (a keyed hash, see [`DataMarker`]): for all objects of a process in a
//! table, and for all processes in a file next to the key's. So two objects of one name, a state that is restored
//! twice, and work repeated after a crash are all allowed as long as the data are the same; anything that would reveal
//! a difference is refused before noise is issued.
//!
//! If nothing identifies the data, noise is never issued again.
//!
//! **A Rust program** opens its key file as a [`LoggedKey`] and passes it to the objects that issue noise. They claim
//! each step before they issue it:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use evertally::{Budget, PlanRequest, Rho, RunningSum};
//! use evertally_ledger::ledger::new_key;
//! use evertally_ledger::noise_log::LoggedKey;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("my.key");
//! new_key(&path)?; // once, with its ledger; or `evertally key new my.key`
//! let plan = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?)).plan()?;
//!
//! let key = LoggedKey::open(&path)?.guarded();
//! let mut visits = RunningSum::new(plan.clone(), &key, "visits".parse()?)?;
//! visits.add_sum(120)?;
//! let release = visits.tick()?;
//!
//! // Another run of the program: the same data give the same release, other data are refused.
//! let mut again = RunningSum::new(plan.clone(), &key, "visits".parse()?)?;
//! again.add_sum(119)?;
//! assert!(again.tick().unwrap_err().is_noise_issued());
//! again.add_sum(1)?;
//! assert_eq!(again.tick()?, release);
//! # Ok(())
//! # }
//! ```
//!
//! **Other front ends** keep a [`NoiseLog`] for each key, register each name in the key's ledger
//! ([`register`](NoiseLog::register)), and claim steps ([`claim`](NoiseLog::claim)) before they issue them.
//!
//! Keys of test seeds have no log: everybody can compute their noise.

mod file;
mod file_error;
mod history;
mod issued_steps;
mod logged_key;
mod mark;
mod refusal;

pub use file_error::{LogFileError, LogFileProblem};
pub use history::{StepSpan, UNKNOWN};
pub use issued_steps::SpanClaim;
pub use logged_key::LoggedKey;
pub use mark::{DataMarker, StreamSecrets};
pub use refusal::{RefusalReason, StepRefusal};

use crate::disk::one_name_of;
use crate::ledger::{Issuer, Ledger};
use evertally::noise::{KeyId, SecretKey, StreamName};
use evertally_declare::error::{PipelineError, Result};
use file::{LogEntry, NoiseLogFile};
use issued_steps::IssuedSteps;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The path of the noise log next to a key file, or next to a ledger whose key is kept elsewhere.
pub fn noise_log_path(key_or_ledger: &Path) -> PathBuf {
    let is_ledger = key_or_ledger.extension().is_some_and(|extension| extension == "ledger");
    let key = if is_ledger { key_or_ledger.with_extension("") } else { key_or_ledger.into() };
    let mut path = key.into_os_string();
    path.push(".uses");
    path.into()
}

/// The noise issued with a key, and where this is recorded. Clones, and all logs of a key in one process, share the
/// record.
#[derive(Clone)]
pub struct NoiseLog {
    key: Arc<SecretKey>,
    table: Arc<Mutex<KeyTable>>,
    /// The file next to the key's, once there is one.
    file: Arc<OnceLock<PathBuf>>,
}

/// The issued noise of a key in this process.
struct KeyTable {
    issued: IssuedSteps,
    files: HashMap<PathBuf, NoiseLogFile>,
    /// Names in the ledger of the key, with what issues their noise, and the file that records it.
    registered: HashSet<(String, &'static str, Option<PathBuf>)>,
    /// The ledger of a key without a file.
    shared_ledger: Option<Arc<dyn Any + Send + Sync>>,
    /// The file where the objects that share that ledger record noise, once one of them is saved.
    shared_file: Arc<OnceLock<PathBuf>>,
    /// The ledgers that have recorded something for the key in this process; `None` for the one in memory.
    ledgers: HashSet<Option<PathBuf>>,
}

impl KeyTable {
    fn new() -> Self {
        Self {
            issued: IssuedSteps::new(),
            files: HashMap::new(),
            registered: HashSet::new(),
            shared_ledger: None,
            shared_file: Arc::default(),
            ledgers: HashSet::new(),
        }
    }
}

/// The tables of all keys.
static TABLES: LazyLock<Mutex<HashMap<KeyId, Weak<Mutex<KeyTable>>>>> = LazyLock::new(Mutex::default);
/// The tables of keys that may return to this process after all their objects are dropped. The other tables are dropped
/// with the last object.
static KEPT: Mutex<Vec<Arc<Mutex<KeyTable>>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Exchanges entries between a file and this process.
fn exchange(issued: &mut IssuedSteps, file: &mut NoiseLogFile) -> Result<()> {
    let own_entries = issued.entries();
    if own_entries.is_empty() || !file.exists() {
        return Ok(());
    }
    file.with_lock(|new_entries| {
        issued.insert_all(&new_entries);
        (own_entries, ())
    })
}

impl NoiseLog {
    /// The log of a key in this process.
    pub fn from_key(key: &Arc<SecretKey>) -> Self {
        let mut tables = lock(&TABLES);
        let known = tables.get(&key.id()).and_then(Weak::upgrade);
        let table = known.unwrap_or_else(|| {
            if tables.len() == tables.capacity() {
                tables.retain(|_, table| table.strong_count() > 0);
            }
            let table = Arc::new(Mutex::new(KeyTable::new()));
            tables.insert(key.id(), Arc::downgrade(&table));
            table
        });
        Self { key: Arc::clone(key), table, file: Arc::default() }
    }

    /// Keeps the record for the lifetime of this process, even if all objects of the key are dropped: the key may
    /// return, made from its bytes.
    pub fn keep(&self) {
        let mut kept = lock(&KEPT);
        if !kept.iter().any(|table| Arc::ptr_eq(table, &self.table)) {
            kept.push(Arc::clone(&self.table));
        }
    }

    /// Records past and future noise in a file from now on. With the `identity` of a new log the file is created now,
    /// otherwise when the first noise is registered.
    ///
    /// # Errors
    /// If the file cannot be created, read or written, or belongs to another key.
    pub fn write_to(&self, path: &Path, identity: Option<[u8; 16]>) -> Result<()> {
        let path = one_name_of(path)?;
        let KeyTable { issued, files, .. } = &mut *lock(&self.table);
        if !files.contains_key(&path) {
            let mut file = NoiseLogFile::new(path.clone(), &self.key);
            if let Some(identity) = identity {
                file.create(identity)?;
            }
            // For a key that had no file so far, or a different one.
            exchange(issued, &mut file)?;
            files.insert(path.clone(), file);
        }
        let _ = self.file.set(path); // a key has one file
        Ok(())
    }

    /// Whether no noise was issued.
    pub fn is_empty(&self) -> bool {
        lock(&self.table).issued.is_empty()
    }

    /// Whether noise is recorded in a file.
    pub fn is_in_file(&self) -> bool {
        self.file.get().is_some()
    }

    /// Remembers that a ledger (`None`: one in memory) has recorded something for the key.
    pub fn note_ledger(&self, ledger: Option<&Path>) {
        if lock(&self.table).ledgers.insert(ledger.map(Path::to_owned)) {
            self.keep(); // the key may be made from bytes again
        }
    }

    /// The ledger in memory has been saved to a file.
    pub fn ledger_was_saved(&self) {
        lock(&self.table).ledgers.remove(&None);
    }

    /// Another ledger that has recorded something for the key in this process (`Some(None)`: the one in memory).
    pub fn other_ledger(&self, ledger: Option<&Path>) -> Option<Option<PathBuf>> {
        lock(&self.table).ledgers.iter().find(|known| known.as_deref() != ledger).cloned()
    }

    /// The ledger of a key without a file, shared by this whole process, and with it the file where noise may be
    /// recorded later: two ledgers of one key would not know of each other.
    pub fn shared_ledger<L: Send + 'static>(&mut self, make: impl FnOnce() -> L) -> Arc<Mutex<L>> {
        let table = &mut *lock(&self.table);
        self.file = Arc::clone(&table.shared_file);
        let known = table.shared_ledger.as_ref().and_then(|ledger| Arc::clone(ledger).downcast::<Mutex<L>>().ok());
        known.unwrap_or_else(|| {
            let ledger = Arc::new(Mutex::new(make()));
            table.shared_ledger = Some(ledger.clone());
            ledger
        })
    }

    /// Records in the key's ledger, once per process, that something issues the noise of a name. Call this before the
    /// first claim on noise of the name.
    ///
    /// # Errors
    /// If the name belongs to another issuer, or the ledger or the log cannot be read or written, or does not belong to
    /// the other. A [`LogFileError`] if it is the log.
    pub fn register(&self, ledger: &mut Ledger, name: &StreamName, by: Issuer) -> Result<()> {
        let KeyTable { issued, files, registered, .. } = &mut *lock(&self.table);
        let log = match self.file.get() {
            None => None,
            Some(path) => {
                let file = files.entry(path.clone()).or_insert_with(|| NoiseLogFile::new(path.clone(), &self.key));
                ledger.check_free_for(name, by)?; // a refusal creates no file
                let is_new = !file.exists();
                let (log, new_entries) = file.identity(ledger.step_log())?;
                issued.insert_all(&new_entries);
                if is_new {
                    exchange(issued, file)?;
                }
                Some(log)
            }
        };
        ledger.register(name, by, log.as_deref())?;
        registered.insert((name.to_string(), by.in_words(), self.file.get().cloned()));
        Ok(())
    }

    /// Whether this process has [registered](Self::register) a name with the present file.
    pub fn is_registered(&self, name: &StreamName, by: Issuer) -> bool {
        let own = (name.to_string(), by.in_words(), self.file.get().cloned());
        lock(&self.table).registered.contains(&own)
    }

    /// Refuses a claim that [`claim`](Self::claim) would refuse, as far as this process knows.
    ///
    /// # Errors
    /// A [`StepRefusal`].
    pub fn check(&self, claim: &SpanClaim<'_>) -> Result<()> {
        refuse(lock(&self.table).issued.refusal(claim, self.is_in_file()))
    }

    /// Records that steps are issued, all or none of them. Call this before the noise is issued.
    ///
    /// # Errors
    /// A [`StepRefusal`] if a step may have been issued for other data, and a [`LogFileError`] if the file cannot be
    /// used. Nothing is recorded then, and the noise must not be issued.
    pub fn claim(&self, claim: &SpanClaim<'_>) -> Result<()> {
        self.record(claim, false)
    }

    /// Records that steps are issued, and refuses nothing: **the same noise may be used for different data, and their
    /// difference is then exact.** Steps that were issued before keep their entries.
    ///
    /// # Errors
    /// A [`LogFileError`] if the file cannot be used.
    pub fn claim_with_reuse(&self, claim: &SpanClaim<'_>) -> Result<()> {
        self.record(claim, true)
    }

    fn record(&self, claim: &SpanClaim<'_>, allows_reuse: bool) -> Result<()> {
        let KeyTable { issued, files, .. } = &mut *lock(&self.table);
        let SpanClaim { identity, part, .. } = *claim;
        let refusal = |issued: &IssuedSteps, in_file| issued.refusal(claim, in_file).filter(|_| !allows_reuse);
        let Some(path) = self.file.get() else {
            refuse(refusal(issued, false))?;
            let new_spans = issued.new_spans(claim);
            issued.insert(identity, part, &new_spans);
            return Ok(());
        };
        let file = files.entry(path.clone()).or_insert_with(|| NoiseLogFile::new(path.clone(), &self.key));
        let mut new_spans = vec![];
        let refused = file.with_lock(|new_entries| {
            issued.insert_all(&new_entries);
            if let Some(refusal) = refusal(issued, true) {
                return (vec![], Some(refusal));
            }
            new_spans = issued.new_spans(claim);
            let entry = |span: &StepSpan| LogEntry { identity, part: part.clone(), span: *span };
            (new_spans.iter().map(entry).collect(), None)
        })?;
        refuse(refused)?;
        issued.insert(identity, part, &new_spans);
        file.compact(issued.len(), || issued.entries());
        Ok(())
    }
}

fn refuse(refusal: Option<StepRefusal>) -> Result<()> {
    refusal.map_or(Ok(()), |refusal| Err(PipelineError::other(refusal, true)))
}

#[cfg(test)]
mod tests;
