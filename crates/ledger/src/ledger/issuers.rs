//! Issuers of noise that is not a release recorded step by step in the ledger.
//!
//! One key has one record. A stream name belongs to the first that issued noise under it: a release, an object of a
//! program, or a service, which has its own key. Others are refused, because they could combine the same noise with
//! other data. Each issuer protects itself from doing that: a release by the ledger's digests, Python objects and Rust
//! programs with a [logged key](crate::noise_log) by the log of steps next to the ledger, a service by its store.

use super::contents::{Contents, code_key, random_identity};
use super::file_store::{Absent, FileStore};
use super::issued::{Issued, IssuedNoise, Issuer, ServiceGuard, belongs_to_service, issued_by};
use super::remedy::NAME;
use super::{Ledger, LedgerStore};
use crate::disk::RealDisk;
use crate::lock::LockWait;
use evertally::noise::{GuardedKey, NoiseClaim, NoiseRecord, SecretKey, StreamName};
use evertally::{Error as NoiseError, ErrorKind};
use evertally_declare::error::{Result, usage};
use evertally_declare::problem::sentence;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

impl Ledger {
    /// The issuer of a name's noise, unless it is a release recorded here.
    pub fn issuer_of(&self, name: &StreamName) -> Option<Issuer> {
        Some(self.contents.issued.get(name.as_str())?.by)
    }

    /// The identity of this ledger's log of steps, if there is one.
    pub fn step_log(&self) -> Option<&str> {
        self.contents.step_log.as_deref()
    }

    /// Records the log of steps that is about to be created next to this ledger.
    ///
    /// # Errors
    /// If there is a log already, or the store cannot be written.
    pub fn begin_step_log(&mut self, log: &str) -> Result<()> {
        self.contents.check_log(Some(log), &self.store.name())?;
        let mut contents = self.contents.clone();
        contents.step_log = Some(log.to_owned());
        self.commit(contents)
    }

    /// Records durably that an issuer other than a release issues the noise of a name, and the log of steps that it
    /// uses. Call this before any of the noise is issued.
    ///
    /// # Errors
    /// If the name belongs to another issuer, the ledger to another log, or the store cannot be written.
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

    /// Refuses a name that does not belong to this issuer.
    ///
    /// # Errors
    /// If the name belongs to another issuer or a release.
    pub fn check_free_for(&self, name: &StreamName, by: Issuer) -> Result<()> {
        if self.contents.streams.contains_key(name.as_str()) {
            let released = format!(
                "stream `{name}` has been released with this key, and {} would repeat its noise over other data: give \
                 another ",
                by.in_words()
            );
            return Err(usage(sentence![released, NAME, " (its budget then adds to the budget already spent)"]));
        }
        match self.issuer_of(name) {
            Some(other) if other != by => Err(issued_by(name, other)),
            _ => Ok(()),
        }
    }

    /// Records durably that a Rust program issues some noise, or that it resumes.
    fn claim(&mut self, claim: &NoiseClaim<'_>) -> Result<()> {
        self.check_free_for(claim.name, Issuer::RustProgram)?;
        let noise = IssuedNoise::new(claim);
        let own = self.contents.issued.get(claim.name.as_str());
        let is_known = own.is_some_and(|issued| issued.noise.iter().any(|other| other.meets(&noise)));
        match (is_known, claim.is_resumed) {
            (true, true) => Ok(()),
            (true, false) => Err(usage(format!(
                "the noise of stream `{}` under this plan was already issued: restore the last state of the object \
                 that issued it, or give another name (its budget then adds to the budget already spent)",
                claim.name
            ))),
            (false, true) => Err(usage(format!(
                "the ledger {} has no record of the stream `{}` that this state belongs to: restore the ledger that it \
                 was begun under",
                self.store.name(),
                claim.name
            ))),
            (false, false) => {
                let mut contents = self.contents.clone();
                let issued = contents.issued.entry(claim.name.to_string());
                let fresh = || Issued { by: Issuer::RustProgram, noise: BTreeSet::new() };
                issued.or_insert_with(fresh).noise.insert(IssuedNoise { claim: random_identity()?, ..noise });
                self.commit(contents)
            }
        }
    }
}

/// A Rust program's record of noise: the ledger of its key, which it holds open.
struct Program(Mutex<Ledger>);

impl NoiseRecord for Program {
    fn claim(&self, claim: &NoiseClaim<'_>) -> evertally::Result<()> {
        let mut ledger = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.claim(claim).map_err(|error| NoiseError::new(ErrorKind::NoiseIssued, error.to_string()))
    }
}

pub(super) fn guarded(key: SecretKey, ledger: Ledger) -> GuardedKey {
    GuardedKey::new(key, Program(Mutex::new(ledger)))
}

/// Assigns a key to the service with this identity in this folder, durably: from here on no other program issues its
/// noise. `ledger` is the key's ledger; if it does not exist, it is created only if `is_new` says that the key was just
/// drawn.
///
/// # Errors
/// If the key has issued noise, or belongs to another service, or its ledger is missing, in use or cannot be written.
pub fn assign_to_service(key: &SecretKey, ledger: &Path, is_new: bool, identity: &str, folder: &Path) -> Result<()> {
    let absent = if is_new { Absent::Make } else { Absent::Refuse };
    let mut store = FileStore::lock_ledger(Arc::new(RealDisk), ledger, absent, &mut LockWait::none())?;
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
                "the ledger {shown} records noise issued with this key; a service would repeat it over other data: \
                 give it a key that was never used"
            )));
        }
    }
    contents.service = Some(guard);
    let code_key = code_key(key);
    store.commit(&contents.sealed(&code_key)?)
}

#[cfg(test)]
mod tests;
