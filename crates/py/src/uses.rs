//! What noise was given out, and for what: the same noise does not meet other data.
//!
//! Noise is a function of key, name, plan, step and coordinate. Given out twice, for data that differ, it shows their exact
//! difference. One rule keeps that away: **a step is given out again only for the data that it was given out for**. Of each
//! step a mark of its data is kept ([`mark`]): for all objects of a process in a table, and for all processes in a file
//! beside the key's ([`file`]). So two objects of one name, a state that is restored twice, and all that is done again
//! after a crash are in nobody's way, as long as the data are the same; and what would show a difference is refused before
//! anything is given out.
//!
//! Where nothing tells what noise meets (reads of lazy vectors, `VectorNoise.next`), nothing is given out again.
//!
//! Keys of test seeds are not watched: everybody can compute their noise.

mod file;
mod history;
mod mark;
mod watch;

pub(crate) use history::{Span, UNKNOWN};
pub(crate) use mark::Words;
pub(crate) use watch::{Class, Watch, allow_noise_reuse, bytes_of};

use evertally::noise::{KeyId, SecretKey, StreamName};
use evertally_declare::error::Error as Refused;
use evertally_ledger::ledger::{Issuer, Ledger};
use file::{Record, UsesFile};
use history::{Refusal, Stream, Why};
use pyo3::PyResult;
use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Of how many spans of steps a stream remembers what they were given out for.
const SPANS: usize = 1 << 16;
/// The same for all streams of a key together; beyond, each remembers fewer, though not fewer than these.
const ALL_SPANS: usize = 1 << 20;
const LEAST_SPANS: usize = 16;

/// What was given out of a key's noise, and where that is noted.
#[derive(Clone)]
pub(crate) struct Uses {
    key: Arc<SecretKey>,
    table: Arc<Mutex<Table>>,
    /// The file beside the key's, as soon as there is one.
    file: Arc<OnceLock<PathBuf>>,
}

/// What this process knows of a key.
struct Table {
    streams: Streams,
    files: HashMap<PathBuf, UsesFile>,
    /// Names that the ledger of the key has, with what issues their noise.
    registered: HashSet<(String, &'static str)>,
    /// Where the ledger of a key without a file is.
    place: Option<Arc<dyn Any + Send + Sync>>,
    /// Where the objects that share that place note what is given out, once one of them is saved.
    shared_file: Arc<OnceLock<PathBuf>>,
    /// The ledgers that have recorded something of the key in this process; `None` for the one in memory.
    ledgers: HashSet<Option<PathBuf>>,
}

/// Lets a file and this process learn of each other's records.
fn share(streams: &mut Streams, file: &mut UsesFile) -> PyResult<()> {
    let mine = streams.records();
    if mine.is_empty() || !file.is_there() {
        return Ok(());
    }
    file.turn(|news| {
        streams.insert_all(&news);
        (mine, ())
    })
}

/// Of all noise of a key what was given out.
struct Streams {
    streams: HashMap<[u8; 16], Stream>,
    /// Spans that a stream may have.
    most: usize,
    /// Spans that there are.
    spans: usize,
}

/// Something that is to be given out.
struct Claim<'a> {
    identity: [u8; 16],
    part: &'a Range<u64>,
    /// What stands here may have been given out through this step, and nobody here knows what for.
    origin: u64,
    /// In their order.
    spans: &'a [Span],
}

/// The tables of all keys.
static TABLES: LazyLock<Mutex<HashMap<KeyId, Weak<Mutex<Table>>>>> = LazyLock::new(Mutex::default);
/// Those of keys that may come back to this process when all objects are gone. The others go with the last of them.
static KEPT: Mutex<Vec<Arc<Mutex<Table>>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Uses {
    /// Of a key, in this process.
    pub(crate) fn of(key: &Arc<SecretKey>) -> Self {
        let mut tables = lock(&TABLES);
        let known = tables.get(&key.id()).and_then(Weak::upgrade);
        let table = known.unwrap_or_else(|| {
            if tables.len() == tables.capacity() {
                tables.retain(|_, table| table.strong_count() > 0);
            }
            let streams = Streams { streams: HashMap::new(), most: SPANS, spans: 0 };
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

    /// Keeps the table for as long as this process lives: its key may come back.
    pub(crate) fn keep(&self) {
        let mut kept = lock(&KEPT);
        if !kept.iter().any(|table| Arc::ptr_eq(table, &self.table)) {
            kept.push(Arc::clone(&self.table));
        }
    }

    /// Notes in a file, from now on, what was and will be given out; with an `identity` for a log that is new.
    pub(crate) fn note_in(&self, path: PathBuf, identity: Option<[u8; 16]>) -> PyResult<()> {
        let Table { streams, files, .. } = &mut *lock(&self.table);
        if !files.contains_key(&path) {
            let mut file = UsesFile::new(path.clone(), &self.key);
            if let Some(identity) = identity {
                file.make(identity)?;
            }
            // Of a key that had no file so far, or another.
            share(streams, &mut file)?;
            files.insert(path.clone(), file);
        }
        let _ = self.file.set(path); // a key has one
        Ok(())
    }

    /// Whether anything was given out.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.table).streams.streams.is_empty()
    }

    /// Remembers that a ledger has recorded something of the key.
    pub(crate) fn note_ledger(&self, ledger: Option<&Path>) {
        if lock(&self.table).ledgers.insert(ledger.map(Path::to_owned)) {
            self.keep(); // its bytes may come
        }
    }

    /// The ledger in memory is one of a file from now on.
    pub(crate) fn moved_to_file(&self) {
        lock(&self.table).ledgers.remove(&None);
    }

    /// A ledger other than this one that has recorded something of the key in this process.
    pub(crate) fn other_ledger(&self, ledger: Option<&Path>) -> Option<Option<PathBuf>> {
        lock(&self.table).ledgers.iter().find(|known| known.as_deref() != ledger).cloned()
    }

    /// The place of the ledger of a key that has no file, for all of this process, and with it the file of notes that it
    /// may get: two ledgers of one key would not know of each other.
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

    /// Records in the ledger of the key that something issues the noise of a name, once for each process.
    pub(crate) fn register(&self, ledger: &mut Ledger, name: &StreamName, by: Issuer) -> PyResult<Result<(), Refused>> {
        let Table { streams, files, registered, .. } = &mut *lock(&self.table);
        let log = match self.file.get() {
            None => None,
            Some(path) => {
                let file = files.entry(path.clone()).or_insert_with(|| UsesFile::new(path.clone(), &self.key));
                // What is refused leaves no file behind.
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

    /// Refuses what must not be given out, as far as this process knows.
    fn check(&self, claim: &Claim<'_>) -> Result<(), Refusal> {
        lock(&self.table).streams.refusal(claim, self.file.get().is_some()).map_or(Ok(()), Err)
    }

    /// Refuses what must not be given out, or notes it, all or nothing. Where reuse is allowed nothing is refused, and what
    /// was given out before stays noted as it was.
    fn give(&self, claim: &Claim<'_>, allowed: bool) -> PyResult<Result<(), Refusal>> {
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
            files.insert(path.clone(), UsesFile::new(path.clone(), &self.key));
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
            file.tidy(streams.spans, || streams.records());
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

    /// What a claim adds to what was given out.
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
        if self.spans > ALL_SPANS && self.most > LEAST_SPANS {
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
