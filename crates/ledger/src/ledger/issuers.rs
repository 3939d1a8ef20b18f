//! Who issues the noise of a stream name, where that is not a release that the ledger records step by step.
//!
//! One key has one record. A name belongs to whoever issued noise under it first: a release, an object of a program, or a
//! service, which has a key to itself. Others are refused, since they could meet other data with the same noise. What
//! keeps each of them from doing that to itself is theirs: the ledger's digests, the log of steps beside the ledger, the
//! service's store.

use super::contents::{Contents, drawn_identity};
use super::digest::NAME;
use super::{FileStore, Ledger, Store, code_key};
use crate::disk::RealDisk;
use crate::lock::Patience;
use evertally::noise::{GuardedKey, NoiseClaim, NoiseRecord, Purpose, SecretKey, StreamName};
use evertally::{Error as NoiseError, ErrorKind};
use evertally_declare::error::{Error, Result, usage};
use evertally_declare::problem::sentence;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// What issues noise without a release that the ledger records.
///
/// A new one needs a row in the tests of `issuers`, and in the matrix of `test_doors.py`: both fail without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Issuer {
    /// `Counter` objects of Python.
    Counter,
    /// `LazyVector` objects of Python.
    LazyVector,
    /// `CountSketch` objects of Python.
    CountSketch,
    /// `release_sums` and `release_steps` of Python.
    Sums,
    /// Noise for training: `VectorNoise`, `RowNoise` and what is made of them.
    Training,
    /// A Rust program, by [`OpenKey::guarded`](super::OpenKey::guarded).
    RustProgram,
}

impl Issuer {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Counter, Self::LazyVector, Self::CountSketch, Self::Sums, Self::Training, Self::RustProgram];

    /// With an article, as messages name it.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Counter => "a Counter in Python",
            Self::LazyVector => "a LazyVector in Python",
            Self::CountSketch => "a CountSketch in Python",
            Self::Sums => "a release of sums that another engine has counted",
            Self::Training => "noise for training",
            Self::RustProgram => "a Rust program",
        }
    }
}

/// A name that an [`Issuer`] has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Issued {
    pub(super) by: Issuer,
    /// Which noise, where the ledger alone keeps it from being issued again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    noise: BTreeSet<Noise>,
}

/// Some noise of a name: the digest of the plan in hexadecimal, the purpose, and the part that was claimed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Noise {
    plan: String,
    purpose: String,
    from: u64,
    to: u64,
    /// Drawn for this claim: copies of a ledger under which the same noise was claimed twice have gone different ways.
    claim: String,
}

/// The service that a key belongs to: none but that one issues its noise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceGuard {
    /// What tells its folder from others, wherever that is.
    pub(super) identity: String,
    /// Where the folder was when it took the key.
    pub(super) folder: String,
}

impl Contents {
    /// Refuses a key that belongs to a service.
    pub(super) fn check_no_service(&self, shown: &str) -> Result<()> {
        self.service.as_ref().map_or(Ok(()), |guard| Err(belongs_to_service(shown, guard)))
    }

    /// Refuses a name under which something else issues noise.
    pub(super) fn check_not_issued(&self, name: &StreamName) -> Result<()> {
        self.issued.get(name.as_str()).map_or(Ok(()), |issued| Err(issued_by(name, issued.by)))
    }

    /// All noise that something other than a release has issued, as far as the ledger itself tells.
    pub(super) fn issued_noise(&self) -> BTreeSet<(&str, &'static str, Option<&Noise>)> {
        let mut all = BTreeSet::new();
        for (name, issued) in &self.issued {
            let by = issued.by.in_words();
            all.insert((name.as_str(), by, None));
            all.extend(issued.noise.iter().map(|noise| (name.as_str(), by, Some(noise))));
        }
        all
    }

    /// Refuses to be the record of another log.
    fn check_log(&self, log: Option<&str>, shown: &str) -> Result<()> {
        match (&self.step_log, log) {
            (Some(own), Some(log)) if own != log => Err(usage(format!(
                "the ledger {shown} has another log of steps than the one named here: put back the log that belongs to it, \
                 or name that one"
            ))),
            _ => Ok(()),
        }
    }
}

impl Ledger {
    /// What issues the noise of a name, where that is not a release recorded here.
    pub fn issuer_of(&self, name: &StreamName) -> Option<Issuer> {
        Some(self.contents.issued.get(name.as_str())?.by)
    }

    /// What tells the log of steps beside this ledger from others, once there is one.
    pub fn step_log(&self) -> Option<&str> {
        self.contents.step_log.as_deref()
    }

    /// Records which log of steps is about to be made beside this ledger.
    ///
    /// # Errors
    /// If there is one already, or the store cannot be written.
    pub fn begin_step_log(&mut self, log: &str) -> Result<()> {
        self.contents.check_log(Some(log), &self.store.name())?;
        let mut contents = self.contents.clone();
        contents.step_log = Some(log.to_owned());
        self.commit(contents)
    }

    /// Records durably that something other than a release issues the noise of a name, and in which log of steps it
    /// notes what for. Call this before any of it is issued.
    ///
    /// # Errors
    /// If the name belongs to something else, the ledger to another log, or the store cannot be written.
    pub fn register(&mut self, name: &StreamName, by: Issuer, log: Option<&str>) -> Result<()> {
        self.check_free_for(name, by)?;
        let shown = self.store.name();
        self.contents.check_log(log, &shown)?;
        let mut contents = self.contents.clone();
        contents.issued.entry(name.to_string()).or_insert_with(|| Issued { by, noise: BTreeSet::new() });
        contents.step_log = contents.step_log.or_else(|| log.map(str::to_owned));
        if contents.issued == self.contents.issued && contents.step_log == self.contents.step_log {
            return Ok(());
        }
        self.commit(contents)
    }

    /// Refuses a name that belongs to something other than this issuer.
    ///
    /// # Errors
    /// If it does.
    pub fn check_free_for(&self, name: &StreamName, by: Issuer) -> Result<()> {
        if self.contents.streams.contains_key(name.as_str()) {
            let released = format!(
                "stream `{name}` has been released with this key, and {} would repeat its noise over other data: give another ",
                by.in_words()
            );
            return Err(usage(sentence![released, NAME, " (its budget then adds to what is already spent)"]));
        }
        match self.issuer_of(name) {
            Some(other) if other != by => Err(issued_by(name, other)),
            _ => Ok(()),
        }
    }

    /// Records durably that a Rust program issues some noise, or that it resumes.
    fn claim(&mut self, claim: &NoiseClaim<'_>) -> Result<()> {
        self.check_free_for(claim.name, Issuer::RustProgram)?;
        let noise = Noise::of(claim);
        let own = self.contents.issued.get(claim.name.as_str());
        let is_known = own.is_some_and(|issued| issued.noise.iter().any(|other| other.meets(&noise)));
        match (is_known, claim.is_resumed) {
            (true, true) => Ok(()),
            (true, false) => Err(usage(format!(
                "the noise of stream `{}` under this plan was issued already: restore the last state of the object that has \
                 issued it, or give another name (its budget then adds to what is already spent)",
                claim.name
            ))),
            (false, true) => Err(usage(format!(
                "the ledger {} knows nothing of the stream `{}` that this state belongs to: put back the ledger that it was \
                 begun under",
                self.store.name(),
                claim.name
            ))),
            (false, false) => {
                let mut contents = self.contents.clone();
                let issued = contents.issued.entry(claim.name.to_string());
                let fresh = || Issued { by: Issuer::RustProgram, noise: BTreeSet::new() };
                issued.or_insert_with(fresh).noise.insert(Noise { claim: drawn_identity()?, ..noise });
                self.commit(contents)
            }
        }
    }
}

impl Noise {
    fn of(claim: &NoiseClaim<'_>) -> Self {
        // Names of groups and bits of a number are in it.
        let purpose = match claim.purpose {
            Purpose::Group(_) => "groups".to_owned(),
            purpose => format!("{purpose:?}").to_lowercase(),
        };
        let plan = blake3::Hash::from_bytes(*claim.plan_digest).to_hex().to_string();
        Self { plan, purpose, from: claim.part.start, to: claim.part.end, claim: String::new() }
    }

    fn meets(&self, other: &Self) -> bool {
        let is_same = self.plan == other.plan && self.purpose == other.purpose;
        is_same && self.from < other.to && other.from < self.to
    }
}

/// The ledger of a key as the record of a Rust program, which holds it open.
struct Program(Mutex<Ledger>);

impl NoiseRecord for Program {
    fn claim(&self, claim: &NoiseClaim<'_>) -> evertally::Result<()> {
        let mut ledger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.claim(claim).map_err(|error| NoiseError::new(ErrorKind::NoiseIssued, error.to_string()))
    }
}

/// The record of noise that one stream alone may issue, because its steps are recorded otherwise.
struct OfStream(StreamName);

impl NoiseRecord for OfStream {
    fn claim(&self, claim: &NoiseClaim<'_>) -> evertally::Result<()> {
        if *claim.name == self.0 {
            return Ok(());
        }
        let (name, own) = (claim.name, &self.0);
        let problem = format!("the steps of stream `{own}` are recorded, and not those of `{name}`");
        Err(NoiseError::new(ErrorKind::NoiseIssued, problem))
    }
}

/// The key for the noise of one stream, whose steps the caller has recorded before they are published, and not here.
pub fn recorded(key: &Arc<SecretKey>, name: &StreamName) -> GuardedKey {
    GuardedKey::new(Arc::clone(key), OfStream(name.clone()))
}

pub(super) fn guarded(key: SecretKey, ledger: Ledger) -> GuardedKey {
    GuardedKey::new(key, Program(Mutex::new(ledger)))
}

/// Gives a key to the service with this identity in this folder, durably: from here on no other program issues its
/// noise. `ledger` is the key's; without one it is made where `is_new` says that the key was just drawn.
///
/// # Errors
/// If the key has issued noise, or belongs to another service, or its ledger is missing, in use or cannot be written.
pub fn give_to_service(key: &SecretKey, ledger: &Path, is_new: bool, identity: &str, folder: &Path) -> Result<()> {
    let absent = if is_new { super::Absent::Make } else { super::Absent::Refuse };
    let mut store = FileStore::lock_ledger(Arc::new(RealDisk), ledger, absent, &mut Patience::none())?;
    let shown = store.name();
    let mut contents = match store.load()? {
        Some(bytes) => Contents::open(&bytes, &shown, key)?,
        None => Contents::new(key),
    };
    let guard = ServiceGuard { identity: identity.to_owned(), folder: folder.display().to_string() };
    match &contents.service {
        Some(own) if own.identity == guard.identity => return Ok(()),
        Some(other) => return Err(belongs_to_service(&shown, other)),
        None if contents.streams.is_empty() && contents.issued.is_empty() => {}
        None => {
            return Err(usage(format!(
                "the ledger {shown} says that noise was issued with this key; a service would repeat it over other data: give \
                 it a key that was never used"
            )));
        }
    }
    contents.service = Some(guard);
    let code_key = code_key(key);
    store.commit(&contents.sealed(&code_key)?)
}

fn belongs_to_service(shown: &str, guard: &ServiceGuard) -> Error {
    usage(format!(
        "the key of the ledger {shown} belongs to the service in {}, which alone may issue its noise: publish there, or use \
         another key (a budget for the data adds up both)",
        guard.folder
    ))
}

fn issued_by(name: &StreamName, by: Issuer) -> Error {
    let issued = format!(
        "noise of stream `{name}` was issued with this key by {}, and over other data it would show their exact difference: \
         give another ",
        by.in_words()
    );
    usage(sentence![issued, NAME, " (its budget then adds to what is already spent)"])
}

#[cfg(test)]
mod tests;
