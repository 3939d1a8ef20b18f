//! Records of noise that is issued without a release.

use super::remedy::NAME;
use evertally::noise::{NoiseClaim, Purpose, StreamName};
use evertally_declare::error::{PipelineError, usage};
use evertally_declare::problem::sentence;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Something that issues noise without a release that the ledger records.
///
/// A new issuer needs a row in the tests of `issuers`, and in the matrix of `test_doors.py`: both fail without it.
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
    /// Noise for training: `VectorNoise` and `RowNoise` of Python, objects made from them, and `VectorNoise` of a Rust
    /// program that logs its steps.
    Training,
    /// A Rust program, by [`OpenKey::guarded`](super::OpenKey::guarded).
    RustProgram,
    /// Sums and reads of a Rust program that logs its steps, by [`LoggedKey`](crate::noise_log::LoggedKey).
    LoggedProgram,
}

impl Issuer {
    /// All issuers.
    pub const ALL: [Self; 7] = [
        Self::Counter,
        Self::LazyVector,
        Self::CountSketch,
        Self::Sums,
        Self::Training,
        Self::RustProgram,
        Self::LoggedProgram,
    ];

    /// The name in messages, with an article.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Counter => "a Counter in Python",
            Self::LazyVector => "a LazyVector in Python",
            Self::CountSketch => "a CountSketch in Python",
            Self::Sums => "a release of sums that another engine has counted",
            Self::Training => "noise for training",
            Self::RustProgram => "a Rust program",
            Self::LoggedProgram => "a Rust program that logs its steps",
        }
    }
}

/// The record of a name that belongs to an [`Issuer`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Issued {
    pub(super) by: Issuer,
    /// The noise that was claimed, if only the ledger keeps it from being issued again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) noise: BTreeSet<IssuedNoise>,
}

/// A part of a name's noise: the digest of the plan in hexadecimal, the purpose, and the claimed range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IssuedNoise {
    pub(super) plan: String,
    pub(super) purpose: String,
    pub(super) from: u64,
    pub(super) to: u64,
    /// Drawn for this claim: if the same noise was claimed under two copies of a ledger, the copies have diverged.
    pub(super) claim: String,
}

impl IssuedNoise {
    pub(super) fn new(claim: &NoiseClaim<'_>) -> Self {
        // Without the names of groups and the bits of a number, which the purpose contains.
        let purpose = match claim.purpose {
            Purpose::Group(_) => "groups".to_owned(),
            purpose => format!("{purpose:?}").to_lowercase(),
        };
        let plan = blake3::Hash::from_bytes(*claim.plan_digest).to_hex().to_string();
        Self { plan, purpose, from: claim.part.start, to: claim.part.end, claim: String::new() }
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        let is_same = self.plan == other.plan && self.purpose == other.purpose;
        is_same && self.from < other.to && other.from < self.to
    }
}

/// The service that a key belongs to: no other program issues its noise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServiceGuard {
    /// The identity of its folder, wherever that is.
    pub(super) identity: String,
    /// The location of the folder when the service took the key.
    pub(super) folder: String,
}

pub(super) fn belongs_to_service(shown: &str, guard: &ServiceGuard) -> PipelineError {
    usage(format!(
        "the key of the ledger {shown} belongs to the service in {}, and only that service may issue its noise: \
         publish there, or use another key (a budget for the data adds up both)",
        guard.folder
    ))
}

pub(super) fn issued_by(name: &StreamName, by: Issuer) -> PipelineError {
    let issued = format!(
        "noise of stream `{name}` was issued with this key by {}; over other data it would reveal their exact \
         difference: give another ",
        by.in_words()
    );
    usage(sentence![issued, NAME, " (its budget then adds to the budget already spent)"])
}
