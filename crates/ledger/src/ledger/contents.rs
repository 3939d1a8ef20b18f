//! The contents of a ledger, as text.

use super::issued::{Issued, IssuedNoise, ServiceGuard, belongs_to_service, issued_by};
use crate::version::version_of;
use evertally::noise::{Purpose, SecretKey, StreamName, mac_key};
use evertally_declare::error::{Result, usage};
use evertally_declare::follows::Follows;
use evertally_declare::groups::Joined;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use zeroize::Zeroizing;

/// The version that this program writes and reads.
const VERSION: u32 = 1;

/// The whole contents of a ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contents {
    version: u32,
    pub(super) key_id: String,
    /// Drawn when the ledger was made: copies of a ledger share it, and no other ledgers do.
    pub(super) identity: String,
    /// The number of runs ever recorded.
    pub(super) counter: u64,
    pub(super) streams: BTreeMap<String, Entry>,
    /// Names under which noise is issued for purposes other than a release.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) issued: BTreeMap<String, Issued>,
    /// Identifies the log of steps that belongs to this ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) step_log: Option<String>,
    /// The service that the key belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<ServiceGuard>,
    /// Authentication code of everything above, under the key.
    mac: String,
}

/// The record of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// The plan's digest, in hexadecimal.
    pub(super) plan: String,
    /// The plan itself, so that a later run can report differences.
    pub(super) plan_text: String,
    /// The runs that published steps or read events, in order.
    pub(super) runs: Vec<Run>,
    /// Groups that joined after the stream had begun: after which step, and their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) joined: Vec<Joined>,
    /// The earlier stream that it continues, if it began where another ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) follows: Option<Follows>,
    /// The other ledger that records its steps, for a stream that a cluster publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) guard: Option<Delegation>,
    /// The saved session, for a stream that is continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<SavedSession>,
}

/// Another ledger, which holds the steps of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delegation {
    /// Its identity.
    pub(super) identity: String,
    /// Its location.
    pub(super) place: String,
    /// The last step that was seen in it, and the digest of all steps through it: that ledger is never older.
    pub(super) through: u64,
    pub(super) chain: String,
}

/// One recorded run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its number among all runs of the key, from 1.
    pub counter: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// The last step published so far.
    pub through: u64,
    /// Keyed digest of the steps through `through`.
    pub digest: String,
    /// Whether the digest is computed from digests that many processes have added up, instead of the sums themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_parts: bool,
    /// How the run treated events that do not fit, if it did not refuse them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, String>,
    /// The files that the run read, for a stream that is continued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SeenFile>,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenFile {
    /// Its path when it was read.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Keyed digest of its content.
    pub digest: String,
    /// Whether the same content was read before, so that this file was skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// Names of the parts of a store that hold a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedSession {
    /// The state itself. A part's name is the digest of its content.
    pub(super) part: String,
    /// Bytes for outputs that were not yet written when the run was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) pending: Vec<Pending>,
    /// The table to which rows were appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) table: Option<TableMark>,
}

/// A table to which rows are appended, recorded so that it can be recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableMark {
    /// Its path.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Digest of its last bytes, in hexadecimal.
    pub tail: String,
}

/// Bytes that an output lacks until they are written there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// The part that holds them.
    pub part: String,
    /// The output; `-` is standard output.
    pub target: String,
    /// Append after this many bytes of the output; if missing, replace the whole output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// Whether only the user may read the output.
    pub private: bool,
}

impl Contents {
    /// The contents for a key that has published nothing.
    pub(super) fn new(key: &SecretKey) -> Self {
        let (version, key_id) = (VERSION, key.id().to_string());
        Self {
            version,
            key_id,
            identity: String::new(),
            counter: 0,
            streams: BTreeMap::new(),
            issued: BTreeMap::new(),
            step_log: None,
            service: None,
            mac: String::new(),
        }
    }

    /// Parses the bytes of a store that messages call `shown`, without checking the code: for public facts only.
    pub(super) fn read(bytes: &[u8], shown: &str) -> Result<Self> {
        if version_of(bytes).is_some_and(|version| version != VERSION) {
            return Err(foreign(shown));
        }
        serde_json::from_slice::<Self>(bytes)
            .map_err(|e| usage(format!("the ledger {shown} is damaged ({e}); restore it from a copy")))
    }

    /// Parses and authenticates the bytes of a store, for the key that wrote them.
    pub(super) fn open(bytes: &[u8], shown: &str, key: &SecretKey) -> Result<Self> {
        let contents = Self::read(bytes, shown)?;
        if contents.key_id != key.id().to_string() {
            return Err(foreign(shown));
        }
        if contents.code(&code_key(key))? != contents.mac {
            return Err(usage(format!(
                "the ledger {shown} was changed by something other than this program; restore it from a copy"
            )));
        }
        Ok(contents)
    }

    /// JSON text, as a store holds it, with its authentication code under a [`code_key`].
    pub(super) fn sealed(&mut self, code_key: &[u8; 32]) -> Result<Vec<u8>> {
        self.identify()?;
        self.mac = self.code(code_key)?;
        self.text()
    }

    /// Draws the identity of a ledger that has none.
    pub(super) fn identify(&mut self) -> Result<()> {
        if self.identity.is_empty() {
            self.identity = random_identity()?;
        }
        Ok(())
    }

    fn text(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(std::io::Error::from)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The authentication code of everything but itself.
    fn code(&self, code_key: &[u8; 32]) -> Result<String> {
        let bare = Self { mac: String::new(), ..self.clone() };
        Ok(blake3::keyed_hash(code_key, &bare.text()?).to_hex().to_string())
    }

    /// All runs in the order of their numbers, each with its stream's name.
    pub(super) fn runs(&self) -> Vec<(&str, &Run)> {
        let mut runs: Vec<(&str, &Run)> = self
            .streams
            .iter()
            .flat_map(|(name, entry)| entry.runs.iter().map(move |run| (name.as_str(), run)))
            .collect();
        runs.sort_by_key(|(_, run)| run.counter);
        runs
    }

    /// A public text that identifies the ledger's first `counter` runs: two ledgers with the same text share these
    /// runs.
    pub(super) fn head(&self, counter: u64) -> String {
        let mut head = blake3::derive_key("evertally 1 ledger head", self.identity.as_bytes());
        for (name, run) in self.runs().into_iter().take_while(|(_, run)| run.counter <= counter) {
            let mut hasher = blake3::Hasher::new_keyed(&head);
            let at = run.at.to_string();
            for field in [name, &run.digest, &at] {
                hasher.update(&(field.len() as u64).to_le_bytes()).update(field.as_bytes());
            }
            hasher.update(&run.counter.to_le_bytes()).update(&run.through.to_le_bytes());
            head = *hasher.finalize().as_bytes();
        }
        blake3::Hash::from_bytes(head).to_hex()[..32].to_owned()
    }

    /// Refuses a key that belongs to a service.
    pub(super) fn check_no_service(&self, shown: &str) -> Result<()> {
        self.service.as_ref().map_or(Ok(()), |guard| Err(belongs_to_service(shown, guard)))
    }

    /// Refuses a name under which another issuer issues noise.
    pub(super) fn check_not_issued(&self, name: &StreamName) -> Result<()> {
        self.issued.get(name.as_str()).map_or(Ok(()), |issued| Err(issued_by(name, issued.by)))
    }

    /// All noise that was issued outside of releases, as far as this ledger records it.
    pub(super) fn issued_noise(&self) -> BTreeSet<(&str, &'static str, Option<&IssuedNoise>)> {
        let mut all = BTreeSet::new();
        for (name, issued) in &self.issued {
            let by = issued.by.in_words();
            all.insert((name.as_str(), by, None));
            all.extend(issued.noise.iter().map(|noise| (name.as_str(), by, Some(noise))));
        }
        all
    }

    /// Refuses a log of steps that does not belong to this ledger.
    pub(super) fn check_log(&self, log: Option<&str>, shown: &str) -> Result<()> {
        match (&self.step_log, log) {
            (Some(own), Some(log)) if own != log => Err(usage(format!(
                "the ledger {shown} belongs to another log of steps than the one named here: restore its own log, or \
                 name that one"
            ))),
            _ => Ok(()),
        }
    }
}

/// 128 random bits from the operating system, as text: the id of a key that nobody ever holds.
pub fn random_identity() -> Result<String> {
    Ok(SecretKey::generate()?.id().to_string())
}

impl Entry {
    /// The last published step of the stream, here or in the ledger it was delegated to; 0 before the first.
    pub(super) fn last_step(&self) -> u64 {
        let left = self.guard.as_ref().map_or(0, |guard| guard.through);
        left.max(self.runs.last().map_or(0, |run| run.through))
    }
}

/// The key for the code of a whole ledger. It belongs to no stream, because no plan has this digest.
pub(super) fn code_key(key: &SecretKey) -> Zeroizing<[u8; 32]> {
    let name: StreamName = "ledger".parse().expect("a name");
    mac_key(key, &name, &[0; 32], Purpose::Ledger)
}

fn foreign(shown: &str) -> evertally_declare::error::PipelineError {
    usage(format!(
        "the ledger {shown} belongs to another key or another version of this program: use the key and the version \
         that wrote it"
    ))
}
