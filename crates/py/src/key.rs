//! Secret keys.

use crate::error::{OrRaise, invalid};
use crate::uses::Uses;
use crate::whole::Whole;
use evertally::noise::{SecretKey as Inner, TestSeed as InnerSeed};
use evertally_declare::error::{Result, usage};
use evertally_ledger::disk::{RealDisk, folder_of};
use evertally_ledger::keyfile;
use evertally_ledger::ledger::{Absent, FileStore, Ledger, OpenKey, ledger_path};
use evertally_ledger::source::{Approval, SourceBudget};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A seed for a key that **everybody can compute**: for tests and published examples, never for data.
///
/// >>> import evertally as et
/// >>> et.TestSeed(42)
/// TestSeed(42)
#[pyclass(frozen, eq, hash, get_all, name = "TestSeed", module = "evertally")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PyTestSeed {
    /// The seed.
    seed: u64,
}

#[pymethods]
impl PyTestSeed {
    #[new]
    fn new(seed: Whole) -> Self {
        Self { seed: seed.0 }
    }

    fn __repr__(&self) -> String {
        format!("TestSeed({})", self.seed)
    }
}

/// The secret from which all noise is computed.
///
/// Anyone who has the key and the releases has the exact data: store the key apart from both. One key may serve many
/// streams, each under a separate name; it must never serve two data sets under one name and plan.
///
/// A key without a file belongs to the process that made it: a fork of that process cannot issue its noise or save it.
///
/// Objects of this class show only the public :attr:`id`, and cannot be pickled. They may be shared between threads.
///
/// :func:`release` keeps a ledger of the releases published with the key, next to its file (``FILE.ledger``) or, for a
/// key that was never saved, in this object. It refuses other data under a name that was used. A key :meth:`from_bytes`
/// names the file of its ledger.
///
/// The noise issued by :class:`Counter`, :class:`LazyVector`, :class:`CountSketch` and :class:`VectorNoise` is
/// recorded, too: next to the key's file (``FILE.uses``), for all processes that load it; or, for a key without a file,
/// in this process. The same noise is issued again only for the same data. The file is as secret as the key.
///
/// >>> import evertally as et
/// >>> key = et.SecretKey.generate()
/// >>> repr(key) == f"SecretKey({key.id})"
/// True
#[pyclass(frozen, name = "SecretKey", module = "evertally")]
#[derive(Clone)]
pub(crate) struct PySecretKey {
    inner: Arc<Inner>,
    ledger_place: Arc<Mutex<LedgerPlace>>,
    /// `None` for a key that everybody can compute.
    uses: Option<Uses>,
}

/// The location of the key's ledger.
#[expect(clippy::large_enum_variant, reason = "there is one of it for each key")]
pub(crate) enum LedgerPlace {
    /// In the process with this number.
    Memory(Ledger, u32),
    /// Next to the key's file.
    File(PathBuf),
    /// In a separate file; the key is stored elsewhere.
    Ledger {
        path: PathBuf,
        /// What to do if the file is missing.
        absent: Absent,
    },
    /// Not declared.
    Unknown,
}

impl LedgerPlace {
    fn in_memory(key: &Inner) -> Self {
        Self::Memory(Ledger::in_memory(key), std::process::id())
    }
}

/// For a key of which only the bytes are known.
const UNKNOWN_PAST: &str = "the key was made from bytes, and its past releases are unknown: other data under a used \
    name would get the same noise. Name its ledger with SecretKey.from_bytes(data, ledger=FILE); if nothing was ever \
    published with it, use SecretKey.from_bytes(data, published_nothing=True)";

/// For a key in memory that was inherited through a fork.
const FORKED: &str = "the key is kept in the memory of the parent process of this fork, and neither process knows what \
    the other publishes: save the key in the parent, before the fork, and load it from its file here; then all \
    processes know";

impl PySecretKey {
    fn of(inner: Inner, place: LedgerPlace) -> Self {
        let inner = Arc::new(inner);
        let uses = Some(Uses::of(&inner));
        Self { inner, ledger_place: Arc::new(Mutex::new(place)), uses }
    }

    /// A key without a file: all objects of this key in this process share a ledger.
    fn in_memory(inner: Inner) -> Self {
        let inner = Arc::new(inner);
        let mut uses = Uses::of(&inner);
        let ledger_place = uses.shared_place(|| LedgerPlace::in_memory(&inner));
        Self { inner, ledger_place, uses: Some(uses) }
    }

    /// A key that was transferred to draw noise: another process records the releases.
    pub(crate) fn without_ledger(inner: Inner) -> Self {
        Self::of(inner, LedgerPlace::Unknown)
    }

    /// The library's key.
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Works with the ledger of the key: the locked one of its file, or the one in memory. The entries are charged to a
    /// budget file, if one is named.
    pub(crate) fn with_ledger<R>(
        &self,
        budget_file: Option<&Path>,
        cancelled: &AtomicBool,
        work: impl FnOnce(&mut Ledger) -> Result<R>,
    ) -> Result<R> {
        let budget = budget_file.map(SourceBudget::of_file).transpose()?;
        let work = |ledger: &mut Ledger| {
            // A ledger in memory outlives this call, and each release may name another budget file.
            ledger.spend_from(budget.map(|budget| (budget, Approval::default())));
            work(ledger)
        };
        let mut ledger_place = self.ledger_place.lock().expect("no holder panics");
        let file = match &*ledger_place {
            LedgerPlace::File(path) => Some(ledger_path(path)),
            LedgerPlace::Ledger { path, .. } => Some(path.clone()),
            LedgerPlace::Memory(..) | LedgerPlace::Unknown => None,
        };
        let done = match &mut *ledger_place {
            LedgerPlace::Memory(ledger, process) => {
                // Another fork may publish the same, even if nothing was published before.
                if *process != std::process::id() && self.uses.is_some() {
                    return Err(usage(FORKED));
                }
                work(ledger)
            }
            LedgerPlace::File(path) => {
                let waiting = &mut |key: &Path| eprintln!("waiting for another run with {} …", key.display());
                let mut open = OpenKey::of_file(Arc::new(RealDisk), path, Absent::Refuse, cancelled, waiting)?;
                if open.key != *self.inner {
                    let shown = path.display();
                    return Err(usage(format!("the key file {shown} now holds another key; load it again")));
                }
                work(&mut open.ledger)
            }
            LedgerPlace::Ledger { path, absent } => {
                let waiting = &mut |ledger: &Path| eprintln!("waiting for another run with {} …", ledger.display());
                let store = FileStore::of_ledger(Arc::new(RealDisk), path, *absent, cancelled, waiting)?;
                let mut ledger = match absent {
                    Absent::Make => Ledger::open_or_begin(store, &self.inner),
                    Absent::Refuse => Ledger::open(store, &self.inner),
                }?;
                work(&mut ledger)
            }
            LedgerPlace::Unknown => Err(usage(UNKNOWN_PAST)),
        };
        if let (Ok(_), Some(uses)) = (&done, &self.uses) {
            uses.note_ledger(file.as_deref());
        }
        done
    }

    /// Refuses a key that is declared to have published nothing if this process knows better.
    fn check_published_nothing(&self, ledger: Option<&Path>) -> PyResult<()> {
        let Some(other) = self.uses.as_ref().and_then(|uses| uses.other_ledger(ledger)) else { return Ok(()) };
        let published = match other {
            Some(file) => format!("its ledger is {0}: SecretKey.from_bytes(data, ledger=\"{0}\")", file.display()),
            None => "its ledger is in memory: keep using that object, or save() it first".to_owned(),
        };
        Err(invalid(format!("this process has published releases with the key, and {published}")))
    }

    /// The record of issued noise; `None` for a key that everybody can compute.
    pub(crate) fn uses(&self) -> Option<&Uses> {
        self.uses.as_ref()
    }

    /// Records issued noise in a file; `identity` is that of a new log.
    fn note_in(&self, path: &Path, identity: Option<[u8; 16]>) -> PyResult<()> {
        // An absolute path, so that one file always has one name.
        let path = std::path::absolute(path)?;
        let path = match (std::fs::canonicalize(&path), std::fs::canonicalize(folder_of(&path)), path.file_name()) {
            (Ok(there), _, _) => there,
            (_, Ok(folder), Some(name)) => folder.join(name),
            _ => path,
        };
        self.uses.as_ref().map_or(Ok(()), |uses| uses.note_in(path, identity))
    }
}

/// The noise record next to a key file, or next to its ledger.
fn uses_beside(file: &Path) -> PathBuf {
    let key =
        if file.extension().is_some_and(|ending| ending == "ledger") { file.with_extension("") } else { file.into() };
    let mut path = key.into_os_string();
    path.push(".uses");
    path.into()
}

#[pymethods]
impl PySecretKey {
    /// A new key from the operating system's randomness. :meth:`save` it: without the key a stream cannot continue.
    ///
    /// Raises :class:`RandomnessError` if the operating system provides none.
    ///
    /// >>> import evertally as et
    /// >>> et.SecretKey.generate() == et.SecretKey.generate()
    /// False
    #[staticmethod]
    fn generate() -> PyResult<Self> {
        Inner::generate().or_raise().map(Self::in_memory)
    }

    /// Reads a key file, as :meth:`save` or ``evertally key new`` wrote it.
    ///
    /// ``uses`` names the file that records which noise was issued. The default is ``FILE.uses`` next to the key; name
    /// another file if the key's folder is read-only.
    ///
    /// Raises :class:`InvalidError` if the file is missing or damaged, or if others may read it.
    ///
    /// >>> import evertally as et, tempfile, pathlib
    /// >>> path = pathlib.Path(tempfile.mkdtemp()) / "visits.key"
    /// >>> key = et.SecretKey.generate()
    /// >>> key.save(path)
    /// >>> et.SecretKey.load(path) == key
    /// True
    #[staticmethod]
    #[pyo3(signature = (path, *, uses = None))]
    fn load(path: PathBuf, uses: Option<PathBuf>) -> PyResult<Self> {
        let inner = keyfile::read(&path).or_raise()?;
        let uses = uses.map_or_else(|| std::fs::canonicalize(&path).map(|path| uses_beside(&path)), Ok)?;
        let key = Self::of(inner, LedgerPlace::File(std::path::absolute(path)?));
        key.note_in(&uses, None)?;
        Ok(key)
    }

    /// Writes the key to a new file that only its owner may read (mode 0600), and its ledger next to it.
    ///
    /// An existing file is never replaced, and a key is saved only once: copies would not know what the others have
    /// published. Raises :class:`InvalidError` in both cases.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let path = std::path::absolute(path)?;
        let uses = uses_beside(&path);
        if uses.exists() && !path.exists() {
            return Err(invalid(format!(
                "{} records which noise of another key was issued: move it to that key's folder first",
                uses.display()
            )));
        }
        let mut ledger_place = self.ledger_place.lock_py_attached(py).expect("no holder panics");
        let mut identity = None;
        match &mut *ledger_place {
            LedgerPlace::Memory(_, process) if *process != std::process::id() && self.uses.is_some() => {
                return Err(invalid(FORKED));
            }
            LedgerPlace::Memory(ledger, _) => {
                // Noise issued so far is recorded next to the new file, in a log that its ledger knows.
                if self.uses.as_ref().is_some_and(|uses| !uses.is_empty()) {
                    let log = *Inner::generate().or_raise()?.id().as_bytes();
                    ledger.begin_step_log(&evertally::hex(&log)).or_raise()?;
                    identity = Some(log);
                }
                py.detach(|| ledger.save(&path, &self.inner)).or_raise()?;
            }
            LedgerPlace::Unknown => {
                return Err(invalid(
                    "this key was made from bytes, and its past releases are unknown: a new ledger next to the new \
                     file would declare that there are none. Name its ledger with from_bytes(data, ledger=FILE) and \
                     keep using that, or, if nothing was ever published with it, use from_bytes(data, \
                     published_nothing=True)",
                ));
            }
            LedgerPlace::Ledger { path, .. } => {
                let file = path.display();
                return Err(invalid(format!(
                    "this key has the ledger {file}; a second one would not know the releases of the first"
                )));
            }
            LedgerPlace::File(file) => {
                let file = file.display();
                return Err(invalid(format!(
                    "this key has the file {file}; a second one would not know the releases of the first"
                )));
            }
        }
        *ledger_place = LedgerPlace::File(path);
        if let Some(own) = &self.uses {
            own.moved_to_file();
        }
        self.note_in(&uses, identity)
    }

    /// The key with these 32 bytes, as :meth:`expose_bytes` returned them.
    ///
    /// They must come from a cryptographic random source. Raises :class:`InvalidError` unless there are 32, not all 0.
    ///
    /// The bytes do not show which releases were published with the key, but :func:`release` needs to know: name the
    /// file of its ``ledger``. Use ``published_nothing=True`` only for a key that has never published anything,
    /// anywhere. Then the ledger may be missing and is created with the first release, or is kept in this object if no
    /// file is named. With neither, :meth:`save` and everything that issues noise refuse the key.
    ///
    /// ``uses`` names the file that records which noise was issued, for all processes that have the key. Without it,
    /// the record is kept next to the ledger, and without a ledger in this process alone.
    #[staticmethod]
    #[pyo3(signature = (data, *, ledger = None, published_nothing = false, uses = None))]
    fn from_bytes(
        data: &[u8],
        ledger: Option<PathBuf>,
        published_nothing: bool,
        uses: Option<PathBuf>,
    ) -> PyResult<Self> {
        let bytes = data.try_into().map_err(|_| invalid(format!("a key has 32 bytes, got {}", data.len())))?;
        let inner = Inner::from_bytes(bytes).or_raise()?;
        let absent = if published_nothing { Absent::Make } else { Absent::Refuse };
        let uses = uses.or_else(|| ledger.as_deref().map(uses_beside));
        let ledger = ledger.map(std::path::absolute).transpose()?;
        if let (Some(path), false) = (&ledger, published_nothing)
            && !path.exists()
        {
            return Err(invalid(format!(
                "there is no ledger {}: restore it, or name the file that records its releases; for a key that has \
                 never published anything, anywhere, pass published_nothing=True as well, and it is created there",
                path.display()
            )));
        }
        let key = match &ledger {
            Some(path) => Self::of(inner, LedgerPlace::Ledger { path: path.clone(), absent }),
            None if published_nothing => Self::in_memory(inner),
            None => Self::of(inner, LedgerPlace::Unknown),
        };
        if published_nothing {
            key.check_published_nothing(ledger.as_deref())?;
        }
        match (uses, &key.uses) {
            (Some(path), _) => key.note_in(&path, None)?,
            (None, Some(uses)) => uses.keep(), // the key may be made from these bytes again
            (None, None) => {}
        }
        Ok(key)
    }

    /// The secret bytes, to be given only to a key store.
    ///
    /// >>> import evertally as et
    /// >>> key = et.SecretKey.generate()
    /// >>> et.SecretKey.from_bytes(key.expose_bytes()) == key
    /// True
    fn expose_bytes(&self) -> Vec<u8> {
        // The key may be made from these bytes again.
        self.uses.as_ref().inspect(|uses| uses.keep());
        self.inner.expose_bytes().to_vec()
    }

    /// A key that **everybody can compute**: for tests and published examples, never for data. Its issued noise is not
    /// recorded.
    ///
    /// >>> import evertally as et
    /// >>> et.SecretKey.insecure_from_test_seed(et.TestSeed(1)) == et.SecretKey.insecure_from_test_seed(et.TestSeed(1))
    /// True
    #[staticmethod]
    fn insecure_from_test_seed(seed: &PyTestSeed) -> Self {
        // Its noise hides nothing, and nothing is recorded.
        let inner = Arc::new(Inner::insecure_from_test_seed(InnerSeed(seed.seed)));
        let ledger_place = Arc::new(Mutex::new(LedgerPlace::in_memory(&inner)));
        Self { inner, ledger_place, uses: None }
    }

    /// The public fingerprint: 32 hexadecimal digits that tell keys apart and reveal nothing.
    #[getter]
    fn id(&self) -> String {
        self.inner.id().to_string()
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.inner == other.inner
    }

    fn __hash__(&self) -> u64 {
        u64::from_le_bytes(self.inner.id().as_bytes()[..8].try_into().expect("8 of 16 bytes"))
    }

    fn __repr__(&self) -> String {
        format!("SecretKey({})", self.inner.id())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a secret key cannot be pickled, so that it does not leak into files and other processes; \
             save it to a key file and load that file instead",
        ))
    }
}
