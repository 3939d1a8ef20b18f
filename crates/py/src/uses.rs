//! Records which noise was issued, and for which data, so that the same noise is never used for different data.
//!
//! Noise is a function of key, name, plan, step and coordinate. If it is issued twice for data that differ, it reveals
//! their exact difference. One rule prevents this: **a step is issued again only for the data that it was issued for**.
//! For each step a mark of its data is kept ([`mark`]): for all objects of a process in a table, and for all processes
//! in a file next to the key's ([`file`]). So two objects of one name, a state that is restored twice, and work
//! repeated after a crash are all allowed as long as the data are the same; anything that would reveal a difference is
//! refused before noise is issued.
//!
//! If nothing identifies the data (reads of lazy vectors, `VectorNoise.next`), noise is never issued again.
//!
//! Keys of test seeds are not watched: everybody can compute their noise.

mod file;
mod history;
mod mark;

pub(crate) use history::{Refusal, Span, UNKNOWN, Why};
pub(crate) use mark::{Marker, Secrets, Words};

use evertally::noise::{KeyId, SecretKey, StreamName};
use evertally_declare::error::PipelineError as Refused;
use evertally_ledger::ledger::{Issuer, Ledger};
use file::{NoiseLogFile, Record};
use history::Stream;
use pyo3::PyResult;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The number of spans of steps per stream for which the data are remembered.
const MAX_SPANS_PER_STREAM: usize = 1 << 16;
/// The same for all streams of a key together. Beyond it, each stream remembers fewer, but at least the number below.
const MAX_TOTAL_SPANS: usize = 1 << 20;
const MIN_SPANS: usize = 16;

/// The noise issued with a key, and where this is recorded.
#[derive(Clone)]
pub(crate) struct Uses {
    key: Arc<SecretKey>,
    table: Arc<Mutex<Table>>,
    /// The file next to the key's, once there is one.
    file: Arc<OnceLock<PathBuf>>,
}

/// The state of a key in this process.
struct Table {
    streams: Streams,
    files: HashMap<PathBuf, NoiseLogFile>,
    /// Names in the ledger of the key, with what issues their noise.
    registered: HashSet<(String, &'static str)>,
    /// The location of the ledger of a key without a file.
    place: Option<Arc<dyn Any + Send + Sync>>,
    /// The file where the objects that share that location record noise, once one of them is saved.
    shared_file: Arc<OnceLock<PathBuf>>,
    /// The ledgers that have recorded something for the key in this process; `None` for the one in memory.
    ledgers: HashSet<Option<PathBuf>>,
}

/// Exchanges records between a file and this process.
fn share(streams: &mut Streams, file: &mut NoiseLogFile) -> PyResult<()> {
    let mine = streams.records();
    if mine.is_empty() || !file.is_there() {
        return Ok(());
    }
    file.turn(|news| {
        streams.insert_all(&news);
        (mine, ())
    })
}

/// The issued noise of all streams of a key.
struct Streams {
    streams: HashMap<[u8; 16], Stream>,
    /// The maximum number of spans per stream.
    most: usize,
    /// The number of spans.
    spans: usize,
}

/// A request to issue steps.
pub(crate) struct Claim<'a> {
    pub(crate) identity: [u8; 16],
    pub(crate) part: &'a Range<u64>,
    /// This object's noise may have been issued through this step, for data unknown to this process.
    pub(crate) origin: u64,
    /// In order.
    pub(crate) spans: &'a [Span],
}

/// The tables of all keys.
static TABLES: LazyLock<Mutex<HashMap<KeyId, Weak<Mutex<Table>>>>> = LazyLock::new(Mutex::default);
/// The tables of keys that may return to this process after all their objects are dropped. The other tables are dropped
/// with the last object.
static KEPT: Mutex<Vec<Arc<Mutex<Table>>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Uses {
    /// The record of a key in this process.
    pub(crate) fn of(key: &Arc<SecretKey>) -> Self {
        let mut tables = lock(&TABLES);
        let known = tables.get(&key.id()).and_then(Weak::upgrade);
        let table = known.unwrap_or_else(|| {
            if tables.len() == tables.capacity() {
                tables.retain(|_, table| table.strong_count() > 0);
            }
            let streams = Streams { streams: HashMap::new(), most: MAX_SPANS_PER_STREAM, spans: 0 };
            let made = Arc::new(Mutex::new(Table {
                streams,
                files: HashMap::new(),
                registered: HashSet::new(),
                place: None,
                shared_file: Arc::default(),
                ledgers: HashSet::new(),
            }));
            tables.insert(key.id(), Arc::downgrade(&made));
            made
        });
        Self { key: Arc::clone(key), table, file: Arc::default() }
    }

    /// Keeps the table for the lifetime of this process: its key may return.
    pub(crate) fn keep(&self) {
        let mut kept = lock(&KEPT);
        if !kept.iter().any(|table| Arc::ptr_eq(table, &self.table)) {
            kept.push(Arc::clone(&self.table));
        }
    }

    /// Records past and future noise in a file from now on; `identity` is that of a new log.
    pub(crate) fn note_in(&self, path: PathBuf, identity: Option<[u8; 16]>) -> PyResult<()> {
        let Table { streams, files, .. } = &mut *lock(&self.table);
        if !files.contains_key(&path) {
            let mut file = NoiseLogFile::new(path.clone(), &self.key);
            if let Some(identity) = identity {
                file.make(identity)?;
            }
            // For a key that had no file so far, or a different one.
            share(streams, &mut file)?;
            files.insert(path.clone(), file);
        }
        let _ = self.file.set(path); // a key has one file
        Ok(())
    }

    /// Whether no noise was issued.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.table).streams.streams.is_empty()
    }

    /// Whether noise is recorded in a file.
    pub(crate) fn is_in_file(&self) -> bool {
        self.file.get().is_some()
    }

    /// Remembers that a ledger has recorded something for the key.
    pub(crate) fn note_ledger(&self, ledger: Option<&Path>) {
        if lock(&self.table).ledgers.insert(ledger.map(Path::to_owned)) {
            self.keep(); // the key may be made from bytes again
        }
    }

    /// The ledger in memory has been saved to a file.
    pub(crate) fn moved_to_file(&self) {
        lock(&self.table).ledgers.remove(&None);
    }

    /// Another ledger that has recorded something for the key in this process.
    pub(crate) fn other_ledger(&self, ledger: Option<&Path>) -> Option<Option<PathBuf>> {
        lock(&self.table).ledgers.iter().find(|known| known.as_deref() != ledger).cloned()
    }

    /// The location of the ledger of a key without a file, shared by this whole process, and with it the file where
    /// noise may be recorded later: two ledgers of one key would not know of each other.
    pub(crate) fn shared_place<P: Send + 'static>(&mut self, make: impl FnOnce() -> P) -> Arc<Mutex<P>> {
        let table = &mut *lock(&self.table);
        self.file = Arc::clone(&table.shared_file);
        let known = table.place.as_ref().and_then(|place| Arc::clone(place).downcast::<Mutex<P>>().ok());
        known.unwrap_or_else(|| {
            let made = Arc::new(Mutex::new(make()));
            table.place = Some(made.clone());
            made
        })
    }

    /// Records in the key's ledger, once per process, that something issues the noise of a name.
    pub(crate) fn register(&self, ledger: &mut Ledger, name: &StreamName, by: Issuer) -> PyResult<Result<(), Refused>> {
        let Table { streams, files, registered, .. } = &mut *lock(&self.table);
        let log = match self.file.get() {
            None => None,
            Some(path) => {
                let file = files.entry(path.clone()).or_insert_with(|| NoiseLogFile::new(path.clone(), &self.key));
                // A refusal creates no file.
                if let Err(refused) = ledger.check_free_for(name, by) {
                    return Ok(Err(refused));
                }
                let is_made = !file.is_there();
                let (log, news) = file.identity(ledger.step_log())?;
                streams.insert_all(&news);
                if is_made {
                    share(streams, file)?;
                }
                Some(log)
            }
        };
        let done = ledger.register(name, by, log.as_deref());
        if done.is_ok() {
            registered.insert((name.to_string(), by.in_words()));
        }
        Ok(done)
    }

    /// Whether this process has recorded that.
    pub(crate) fn is_registered(&self, name: &StreamName, by: Issuer) -> bool {
        lock(&self.table).registered.contains(&(name.to_string(), by.in_words()))
    }

    /// Refuses what must not be issued, as far as this process knows.
    pub(crate) fn check(&self, claim: &Claim<'_>) -> Result<(), Refusal> {
        lock(&self.table).streams.refusal(claim, self.is_in_file()).map_or(Ok(()), Err)
    }

    /// Refuses what must not be issued, or records it, all or nothing. If reuse is allowed, nothing is refused, and
    /// existing records stay unchanged.
    pub(crate) fn give(&self, claim: &Claim<'_>, allowed: bool) -> PyResult<Result<(), Refusal>> {
        let Table { streams, files, .. } = &mut *lock(&self.table);
        let Claim { identity, part, .. } = *claim;
        let refused = |streams: &Streams, in_file| streams.refusal(claim, in_file).filter(|_| !allowed);
        let Some(path) = self.file.get() else {
            if let Some(refusal) = refused(streams, false) {
                return Ok(Err(refusal));
            }
            let news = streams.news(claim);
            streams.insert(identity, part, &news);
            return Ok(Ok(()));
        };
        if !files.contains_key(path) {
            files.insert(path.clone(), NoiseLogFile::new(path.clone(), &self.key));
        }
        let file = files.get_mut(path).expect("put there");
        let mut new_spans = vec![];
        let given = file.turn(|news| {
            streams.insert_all(&news);
            if let Some(refusal) = refused(streams, true) {
                return (vec![], Err(refusal));
            }
            new_spans = streams.news(claim);
            let record = |span: &Span| Record { identity, part: part.clone(), span: *span };
            (new_spans.iter().map(record).collect(), Ok(()))
        })?;
        if given.is_ok() {
            streams.insert(identity, part, &new_spans);
            file.compact(streams.spans, || streams.records());
        }
        Ok(given)
    }
}

impl Streams {
    fn refusal(&self, claim: &Claim<'_>, in_file: bool) -> Option<Refusal> {
        let first = claim.spans.first()?.first;
        let stream = self.streams.get(&claim.identity);
        let last = stream.and_then(|stream| stream.of_part(claim.part)).map_or(0, |history| history.last());
        if last < first && first <= claim.origin {
            return Some(Refusal { step: first, last: claim.origin, why: Why::Unknown });
        }
        let stream = stream?;
        if !in_file && stream.process != std::process::id() {
            return Some(Refusal { step: first, last, why: Why::Forked });
        }
        claim.spans.iter().find_map(|span| stream.refusal(claim.part, *span))
    }

    /// The spans that a claim adds to the record.
    fn news(&self, claim: &Claim<'_>) -> Vec<Span> {
        let history = self.streams.get(&claim.identity).and_then(|stream| stream.of_part(claim.part));
        let last = history.map_or(0, |history| history.last());
        let mut news: Vec<Span> = Vec::with_capacity(claim.spans.len() + 1);
        if last < claim.origin {
            news.push(Span { first: last + 1, last: claim.origin, mark: UNKNOWN });
        }
        for span in claim.spans {
            match (history, news.last_mut()) {
                (Some(history), _) if span.first <= last => news.extend(history.new_in(*span)),
                (_, Some(before)) if before.continues_with(*span) => before.last = span.last,
                _ => news.push(*span),
            }
        }
        news
    }

    fn insert(&mut self, identity: [u8; 16], part: &Range<u64>, spans: &[Span]) {
        let history = self.streams.entry(identity).or_insert_with(Stream::new).part(part);
        let before = history.len();
        for span in spans {
            history.insert(*span);
            if history.len() > self.most + self.most / 4 {
                history.shorten(self.most);
            }
        }
        self.spans = (self.spans + history.len()).saturating_sub(before);
        if self.spans > MAX_TOTAL_SPANS && self.most > MIN_SPANS {
            self.most /= 2;
            self.streams.values_mut().for_each(|stream| stream.shorten(self.most));
            self.spans = self.streams.values().map(Stream::len).sum();
        }
    }

    fn insert_all(&mut self, records: &[Record]) {
        records.iter().for_each(|Record { identity, part, span }| self.insert(*identity, part, &[*span]));
    }

    fn records(&self) -> Vec<Record> {
        let of_stream = |(identity, stream): (&[u8; 16], &Stream)| {
            let of_part = |(part, history): &(Range<u64>, history::History)| {
                let record = |span| Record { identity: *identity, part: part.clone(), span };
                history.spans().map(record).collect::<Vec<_>>()
            };
            stream.parts().flat_map(of_part).collect::<Vec<_>>()
        };
        self.streams.iter().flat_map(of_stream).collect()
    }
}
