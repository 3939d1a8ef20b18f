//! ObjectSource of a store under a folder, or files of a folder: each is a partition, named by the rest of its name.
//!
//! An object is read once, from its beginning to its end. Its position has its stamp, by which a replaced object is
//! recognised: neither its old nor its new rows are then counted twice. ObjectSource may appear under any names in any
//! order.

mod reading;
mod sink;
mod store;

use crate::encoding::Encoding;
use crate::{Address, BatchLimits, Rows, Source, SourceBatch, SourceError, SourceOptions, SourceWarning};
use async_trait::async_trait;
use evertally_declare::error::{Result, failure, usage};
use evertally_declare::format::Format;
use reading::{At, ObjectPiece, ObjectProblem, ObjectReading};
pub(crate) use sink::open as open_sink;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;
use store::{ListedObject, SourceFolder};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How long an object is left alone after its store failed.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// How long an object is left alone that cannot be read as it is.
const BAD_OBJECT_PAUSE: Duration = Duration::from_secs(3600);

/// The state of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ObjectState {
    /// It was listed, and not sought yet.
    Listed { stamp: String },
    /// It is being read, or will be.
    Sought { at: At, after: Option<String> },
    /// It was read, or passed over. Its stamp is kept as a digest: there may be very many.
    Finished { digest: u64 },
}

/// The source.
struct ObjectSource {
    store: SourceFolder,
    /// The encoding of all objects, if their names do not decide.
    encoding: Option<Encoding>,
    every: Duration,
    known: HashMap<String, ObjectState>,
    /// ObjectSource that can be read, and since when.
    ready: BTreeSet<String>,
    failed: BTreeMap<String, Instant>,
    reading: Option<(String, ObjectReading)>,
    listing: Option<JoinHandle<std::io::Result<Vec<ListedObject>>>>,
    next_listing: Instant,
    passed_over: usize,
    warnings: Vec<SourceWarning>,
}

/// Opens a source by its URL.
///
/// # Errors
/// If the URL is invalid, or options do not fit.
pub(crate) fn open(url: &str, address: Address, options: &SourceOptions) -> Result<Box<dyn Source>> {
    let mut query = address.query;
    let every = query.duration("every")?.unwrap_or(Duration::from_secs(30));
    let encoding = query.take("format")?.map(|word| Encoding::from_name(&word)).transpose()?;
    query.refuse_others(&["every", "format"])?;
    let folder = url.split_once('?').map_or(url, |(folder, _)| folder);
    if !folder.ends_with('/') {
        return Err(usage(format!("the URL {folder} names one object; end it with a slash to follow a folder")));
    }
    if options.password_file.is_some() || options.authority.is_some() || options.client.is_some() {
        return Err(usage(
            "stores have no password file, authority and certificate; set the variables of the store, such as \
             AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and SSL_CERT_FILE for a private authority",
        ));
    }
    if options.with_metadata {
        return Err(usage("objects are sent as they are; metadata cannot be added to their rows"));
    }
    Ok(Box::new(ObjectSource {
        store: SourceFolder::new(folder)?,
        encoding,
        every,
        known: HashMap::new(),
        ready: BTreeSet::new(),
        failed: BTreeMap::new(),
        reading: None,
        listing: None,
        next_listing: Instant::now(),
        passed_over: 0,
        warnings: Vec::new(),
    }))
}

fn digest(stamp: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    stamp.hash(&mut hasher);
    hasher.finish()
}

impl ObjectSource {
    /// Takes up what a listing found.
    fn listed(&mut self, objects: Vec<ListedObject>) {
        let mut passed_over = 0;
        for ListedObject { name, stamp } in objects {
            if self.encoding.is_none() && Encoding::from_path(Path::new(&name)).is_none() {
                passed_over += 1;
                continue;
            }
            match self.known.get_mut(&name) {
                Some(ObjectState::Finished { digest: known }) if *known != digest(&stamp) => {
                    *known = digest(&stamp);
                    self.warnings.push(replaced(&self.store, &name).into());
                }
                Some(ObjectState::Listed { stamp: known }) => *known = stamp,
                Some(_) => {}
                None => drop(self.known.insert(name, ObjectState::Listed { stamp })),
            }
        }
        if passed_over > self.passed_over {
            self.warnings.push(
                format!(
                    "{}: passed over {passed_over} objects whose names do not end in that of a format; rename them, or \
                 add format=csv or format=jsonl to the URL",
                    self.store.shown()
                )
                .into(),
            );
        }
        self.passed_over = passed_over;
    }

    fn finish(&mut self, name: &str, stamp: &str) {
        self.ready.remove(name);
        self.known.insert(name.to_owned(), ObjectState::Finished { digest: digest(stamp) });
    }

    /// The next object that can be read now.
    fn choose(&mut self) -> Option<String> {
        let now = Instant::now();
        self.failed.retain(|_, until| *until > now);
        self.ready.iter().find(|name| !self.failed.contains_key(*name)).cloned()
    }

    /// Begins to read the next object, if there is one.
    fn begin(&mut self, limits: BatchLimits) -> bool {
        let Some(name) = self.choose() else { return false };
        let Some(ObjectState::Sought { at, .. }) = self.known.get(&name) else {
            self.ready.remove(&name);
            return true;
        };
        let encoding = Encoding::from_path(Path::new(&name)).or(self.encoding);
        let encoding = encoding.unwrap_or(Encoding::plain(Format::JsonLines));
        let reading = ObjectReading::begin(self.store.clone(), name.clone(), encoding, at.clone(), limits);
        self.reading = Some((name, reading));
        true
    }

    /// The batch of a piece, which moves the position.
    fn batch(&mut self, name: &str, piece: ObjectPiece) -> Option<SourceBatch> {
        let Some(ObjectState::Sought { at, after }) = self.known.get_mut(name) else { return None };
        let position = match piece.is_last {
            true => format!("whole {}", piece.at.stamp),
            false => format!("at {} {} {}", piece.at.bytes, piece.at.line, piece.at.stamp),
        };
        let after = after.replace(position.clone());
        *at = piece.at;
        if piece.is_last {
            let stamp = at.stamp.clone();
            self.finish(name, &stamp);
            self.reading = None;
        }
        Some(SourceBatch { partition: name.to_owned(), after, position, rows: piece.rows })
    }

    /// Handles a problem with an object. Other objects are read in the meantime.
    fn problem(&mut self, name: String, problem: ObjectProblem) -> Result<Option<SourceBatch>, SourceError> {
        self.reading = None;
        match problem {
            ObjectProblem::Replaced { stamp } => {
                self.warnings.push(replaced(&self.store, &name).into());
                let at = At { stamp, ..At::default() };
                Ok(self.batch(&name, ObjectPiece { at, is_last: true, rows: Rows::none() }))
            }
            ObjectProblem::Gone => {
                self.warnings.push(format!("{}{name} was deleted before it was read", self.store.shown()).into());
                self.ready.remove(&name);
                self.known.remove(&name);
                Ok(None)
            }
            ObjectProblem::Bad(why) => {
                self.warnings
                    .push(format!("{}{name}: {why}; the object is left out for an hour", self.store.shown()).into());
                self.failed.insert(name, Instant::now() + BAD_OBJECT_PAUSE);
                Ok(None)
            }
            ObjectProblem::Away(why) => {
                let shown = format!("{}{name}: {why}", self.store.shown());
                self.failed.insert(name, Instant::now() + RETRY_PAUSE);
                Err(SourceError::Away(shown))
            }
        }
    }
}

fn replaced(store: &SourceFolder, name: &str) -> String {
    format!(
        "{}{name} was replaced after rows of it were read; the new object is passed over: write new rows to objects \
         with new names",
        store.shown()
    )
}

/// The parts of a position: whether the object was read whole, and the place.
fn parse(position: &str) -> Option<(bool, At)> {
    let (word, rest) = position.split_once(' ')?;
    if word == "whole" {
        return Some((true, At { stamp: rest.to_owned(), ..At::default() }));
    }
    let mut parts = rest.splitn(3, ' ');
    let (bytes, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (word == "at").then_some((false, At { bytes, line, stamp: parts.next()?.to_owned() }))
}

#[async_trait]
impl Source for ObjectSource {
    fn shown(&self) -> String {
        self.store.shown()
    }

    fn identity(&self) -> String {
        format!("objects:{}", self.store.identity())
    }

    /// Those that are not finished. A listing runs while others are read; only the first one is awaited.
    async fn partitions(&mut self) -> Result<Vec<String>, SourceError> {
        if self.listing.is_none() && Instant::now() >= self.next_listing {
            let store = self.store.clone();
            self.listing = Some(tokio::task::spawn_blocking(move || store.list()));
        }
        if let Some(listing) = self.listing.take_if(|listing| self.known.is_empty() || listing.is_finished()) {
            // A dropped future must not lose the listing: it is only begun again.
            self.next_listing = Instant::now();
            let found = listing.await.map_err(|error| SourceError::Fault(failure(error)))?;
            let found = found.map_err(|error| SourceError::Away(format!("{}: {error}", self.store.shown())))?;
            self.next_listing = Instant::now() + self.every;
            self.listed(found);
        }
        let unfinished = self.known.iter().filter(|(_, state)| !matches!(state, ObjectState::Finished { .. }));
        let mut names: Vec<String> = unfinished.map(|(name, _)| name.clone()).collect();
        names.sort();
        Ok(names)
    }

    async fn seek(&mut self, partition: &str, position: Option<&str>) -> Result<(), SourceError> {
        self.reading.take_if(|(name, _)| name == partition);
        let invalid = || usage(format!("{}{partition}: the stored position is not one of an object", self.shown()));
        let (is_whole, at) = match position {
            Some(position) => parse(position).ok_or_else(invalid)?,
            None => (false, At::default()),
        };
        if is_whole {
            if matches!(self.known.get(partition), Some(ObjectState::Listed { stamp }) if *stamp != at.stamp) {
                self.warnings.push(replaced(&self.store, partition).into());
            }
            self.finish(partition, &at.stamp);
            return Ok(());
        }
        let after = position.map(str::to_owned);
        self.known.insert(partition.to_owned(), ObjectState::Sought { at, after });
        self.ready.insert(partition.to_owned());
        Ok(())
    }

    async fn next(&mut self, limits: BatchLimits) -> Result<Option<SourceBatch>, SourceError> {
        let deadline = Instant::now() + limits.wait;
        loop {
            let Some((name, reading)) = &mut self.reading else {
                if !self.begin(limits) {
                    tokio::time::sleep_until(deadline).await;
                    return Ok(None);
                }
                continue;
            };
            let Ok(piece) = tokio::time::timeout_at(deadline, reading.next()).await else { return Ok(None) };
            let name = name.clone();
            let batch = match piece {
                Ok(piece) => self.batch(&name, piece),
                Err(problem) => self.problem(name, problem)?,
            };
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }

    fn warnings(&mut self) -> Vec<SourceWarning> {
        std::mem::take(&mut self.warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_again() {
        let at = At { bytes: 12, line: 3, stamp: "90 at 17".to_owned() };
        assert_eq!(parse("at 12 3 90 at 17"), Some((false, at)));
        assert_eq!(parse("whole 9 tag"), Some((true, At { stamp: "9 tag".to_owned(), ..At::default() })));
        for text in ["", "whole", "at 1 2", "at x 2 3", "of 1 2 3"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
