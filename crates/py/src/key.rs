//! Secret keys.

use crate::error::{OrRaise, invalid};
use crate::plan::hexadecimal;
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
#[pyclass(frozen, eq, hash, get_all, module = "evertally")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct TestSeed {
    /// The number.
    seed: u64,
}

#[pymethods]
impl TestSeed {
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
/// Whoever has the key and the releases has the exact data: keep it apart from both. One key may serve many streams,
/// each under a name of its own; it must never serve two data sets under one name and plan.
///
/// A key without a file is of the process that made it: a fork of that issues none of its noise, and does not save it.
///
/// Objects of this class show only the public :attr:`id`, and cannot be pickled. They may be shared between threads.
///
/// :func:`release` keeps a ledger of what was published with the key, beside its file (``FILE.ledger``) or, for a
/// key that was never saved, in this object; it refuses other data under a name that was used. A key
/// :meth:`from_bytes` names the file of its ledger.
///
/// What noise :class:`Counter`, :class:`LazyVector`, :class:`CountSketch` and :class:`VectorNoise` have given out is noted,
/// too, beside the key's file (``FILE.uses``), for all processes that load it, or, for a key without a file, in this
/// process: the same noise is given out again only for the same data. The file is as secret as the key.
///
/// >>> import evertally as et
/// >>> key = et.SecretKey.generate()
/// >>> repr(key) == f"SecretKey({key.id})"
/// True
#[pyclass(frozen, module = "evertally")]
#[derive(Clone)]
pub(crate) struct SecretKey {
    inner: Arc<Inner>,
    ledger_place: Arc<Mutex<LedgerPlace>>,
    /// Nothing for a key that everybody can compute.
    uses: Option<Uses>,
}

/// Where the key's ledger is.
pub(crate) enum LedgerPlace {
    /// In this process, of this number.
    Memory(Ledger, u32),
    /// Beside the key's file.
    File(PathBuf),
    /// In a file of its own, the key being kept elsewhere.
    Ledger {
        path: PathBuf,
        /// What to do where there is none.
        absent: Absent,
    },
    /// Nobody has said.
    Unknown,
}

impl LedgerPlace {
    fn in_memory(key: &Inner) -> Self {
        Self::Memory(Ledger::in_memory(key), std::process::id())
    }
}

/// Of a key whose bytes are all that is known.
const UNKNOWN_PAST: &str = "the key was made from bytes, and nothing says what was published with it: other data under a name \
    that was used would meet the same noise. Name its ledger with SecretKey.from_bytes(data, ledger=FILE); if nothing was ever \
    published with it, say SecretKey.from_bytes(data, published_nothing=True)";

/// Of a key in memory that a fork has taken along.
const FORKED: &str = "the key is kept in the memory of the process that this one is a fork of, and neither knows what the other \
    publishes: save the key there, before the fork, and load it from its file here; then all processes know";

impl SecretKey {
    fn of(inner: Inner, place: LedgerPlace) -> Self {
        let inner = Arc::new(inner);
        let uses = Some(Uses::of(&inner));
        Self { inner, ledger_place: Arc::new(Mutex::new(place)), uses }
    }

    /// A key without a file: all objects that this process has of it share a ledger.
    fn in_memory(inner: Inner) -> Self {
        let inner = Arc::new(inner);
        let mut uses = Uses::of(&inner);
        let ledger_place = uses.shared_place(|| LedgerPlace::in_memory(&inner));
        Self { inner, ledger_place, uses: Some(uses) }
    }

    /// A key that was handed over for noise: what is published with it, another process records.
    pub(crate) fn without_ledger(inner: Inner) -> Self {
        Self::of(inner, LedgerPlace::Unknown)
    }

    /// The library's key.
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Does something with the ledger of the key: that of its file, locked, or its own. What it records is spent from a
    /// budget, if one is named.
    pub(crate) fn with_ledger<R>(
        &self,
        budget_file: Option<&Path>,
        cancelled: &AtomicBool,
        work: impl FnOnce(&mut Ledger) -> Result<R>,
    ) -> Result<R> {
        let budget = budget_file.map(SourceBudget::of_file).transpose()?;
        let work = |ledger: &mut Ledger| {
            // A ledger in memory lives on: what one release spends from is not what the next one does.
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
                // Another fork may publish the same, whether anything was published before or not.
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
                    return Err(usage(format!("the key file {shown} holds another key by now; load it again")));
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

    /// Refuses a key that is said to have published nothing, where this process knows better.
    fn check_published_nothing(&self, ledger: Option<&Path>) -> PyResult<()> {
        let Some(other) = self.uses.as_ref().and_then(|uses| uses.other_ledger(ledger)) else { return Ok(()) };
        let published = match other {
            Some(file) => format!("its ledger is {0}: SecretKey.from_bytes(data, ledger=\"{0}\")", file.display()),
            None => "its ledger is in memory: keep using that object, or save() it first".to_owned(),
        };
        Err(invalid(format!("this process has published with the key, and {published}")))
    }

    /// What noise was given out; nothing for a key that everybody can compute.
    pub(crate) fn uses(&self) -> Option<&Uses> {
        self.uses.as_ref()
    }

    /// Notes what noise is given out in a file, with an `identity` for one that is new.
    fn note_in(&self, path: &Path, identity: Option<[u8; 16]>) -> PyResult<()> {
        // The same file by the same name, however it is called.
        let path = std::path::absolute(path)?;
        let path = match (std::fs::canonicalize(&path), std::fs::canonicalize(folder_of(&path)), path.file_name()) {
            (Ok(there), _, _) => there,
            (_, Ok(folder), Some(name)) => folder.join(name),
            _ => path,
        };
        self.uses.as_ref().map_or(Ok(()), |uses| uses.note_in(path, identity))
    }
}

/// The file of notes beside that of a key, or beside its ledger.
fn uses_beside(file: &Path) -> PathBuf {
    let key =
        if file.extension().is_some_and(|ending| ending == "ledger") { file.with_extension("") } else { file.into() };
    let mut path = key.into_os_string();
    path.push(".uses");
    path.into()
}

#[pymethods]
impl SecretKey {
    /// A new key from the operating system's randomness. :meth:`save` it: without the key a stream cannot go on.
    ///
    /// Raises :class:`RandomnessError` when the operating system gives none.
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
    /// ``uses`` names the file that notes what noise was given out, if not ``FILE.uses`` beside it: where the key's folder
    /// is read-only.
    ///
    /// Raises :class:`InvalidError` if there is none, it is damaged, or others may read it.
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

    /// Writes the key to a new file that only its owner may read (mode 0600), and its ledger beside it.
    ///
    /// An existing file is never replaced, and a key is saved once: copies would not know what the others have
    /// published. Raises :class:`InvalidError` in both cases.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let path = std::path::absolute(path)?;
        let uses = uses_beside(&path);
        if uses.exists() && !path.exists() {
            return Err(invalid(format!(
                "{} notes what noise of another key was given out: move it away first, to where that key is",
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
                // What was issued so far is noted beside the new file, in a log that its ledger knows.
                if self.uses.as_ref().is_some_and(|uses| !uses.is_empty()) {
                    let log = *Inner::generate().or_raise()?.id().as_bytes();
                    ledger.begin_step_log(&hexadecimal(&log)).or_raise()?;
                    identity = Some(log);
                }
                py.detach(|| ledger.save(&path, &self.inner)).or_raise()?;
            }
            LedgerPlace::Unknown => {
                return Err(invalid(
                    "this key was made from bytes, and nothing says what was published with it: a ledger beside the new \
                     file would say that it was nothing. Name its ledger with from_bytes(data, ledger=FILE) and keep using \
                     that, or, if nothing was ever published with it, say from_bytes(data, published_nothing=True)",
                ));
            }
            LedgerPlace::Ledger { path, .. } => {
                let file = path.display();
                return Err(invalid(format!(
                    "this key has the ledger {file}; a second one would not know what is published with the first"
                )));
            }
            LedgerPlace::File(file) => {
                let file = file.display();
                return Err(invalid(format!(
                    "this key has the file {file}; a second one would not know what is published with the first"
                )));
            }
        }
        *ledger_place = LedgerPlace::File(path);
        if let Some(own) = &self.uses {
            own.moved_to_file();
        }
        self.note_in(&uses, identity)
    }

    /// The key with these 32 bytes, as :meth:`expose_bytes` gave them to a key store.
    ///
    /// They must come from a cryptographic random source. Raises :class:`InvalidError` unless there are 32, not all 0.
    ///
    /// Bytes do not say what was published with the key, and :func:`release` needs to know: name the file of its
    /// ``ledger``. Only for a key that has published nothing, ever and anywhere, say ``published_nothing=True``: then the
    /// ledger may be missing and is begun with the first release, or is kept in this object where no file is named.
    /// With neither, everything that issues noise refuses the key, and so does :meth:`save`.
    ///
    /// ``uses`` names the file that notes what noise was given out, for all processes that have the key; without one it is
    /// noted beside the ledger, and without that in this process alone.
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
                "there is no ledger {}: put it back, or name the one that records what was published with the key; for a key that \
                 has published nothing, ever and anywhere, say published_nothing=True as well, and it is begun there",
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
            (None, Some(uses)) => uses.keep(), // the bytes may come back
            (None, None) => {}
        }
        Ok(key)
    }

    /// The secret bytes, to be given to a key store and nobody else.
    ///
    /// >>> import evertally as et
    /// >>> key = et.SecretKey.generate()
    /// >>> et.SecretKey.from_bytes(key.expose_bytes()) == key
    /// True
    fn expose_bytes(&self) -> Vec<u8> {
        // They may come back.
        self.uses.as_ref().inspect(|uses| uses.keep());
        self.inner.expose_bytes().to_vec()
    }

    /// A key that **everybody can compute**: for tests and published examples, never for data. What its noise is given
    /// out for is not noted.
    ///
    /// >>> import evertally as et
    /// >>> et.SecretKey.insecure_from_test_seed(et.TestSeed(1)) == et.SecretKey.insecure_from_test_seed(et.TestSeed(1))
    /// True
    #[staticmethod]
    fn insecure_from_test_seed(seed: &TestSeed) -> Self {
        // Its noise hides nothing, and nothing is noted.
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
            "a secret key is not pickled, so that it does not leak into files and other processes; \
             save it to a key file and load that where it is needed",
        ))
    }
}
