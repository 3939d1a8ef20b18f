//! What a ledger holds, as text.

use super::issuers::{Issued, ServiceGuard};
use crate::version::version_of;
use evertally::noise::{Purpose, SecretKey, StreamName, mac_key};
use evertally_declare::error::{Result, usage};
use evertally_declare::follows::Follows;
use evertally_declare::groups::Joined;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// The version that is written and read.
const VERSION: u32 = 1;

/// All that a ledger holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Contents {
    version: u32,
    pub(super) key_id: String,
    /// Drawn when the ledger was made: copies of a ledger have the same, and no others do.
    pub(super) identity: String,
    /// How many runs were ever recorded.
    pub(super) counter: u64,
    pub(super) streams: BTreeMap<String, Entry>,
    /// Names under which something other than a release issues noise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) issued: BTreeMap<String, Issued>,
    /// What tells the log of steps beside this ledger from others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) step_log: Option<String>,
    /// The service that the key belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<ServiceGuard>,
    /// Code of everything before, under the key.
    mac: String,
}

/// What is recorded of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// The plan's digest, in hexadecimal.
    pub(super) plan: String,
    /// The plan itself, so that a later run can say what differs.
    pub(super) plan_text: String,
    /// The runs that published steps or took in events, in order.
    pub(super) runs: Vec<Run>,
    /// Groups that joined when the stream had begun: after which step, and their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) joined: Vec<Joined>,
    /// What it goes on from, for a stream that began where another ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) follows: Option<Follows>,
    /// Where else its steps are recorded, for a stream that a cluster publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) guard: Option<Guard>,
    /// Where the session stands, for a stream that is continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<KeptState>,
}

/// Another ledger that has the steps of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Guard {
    /// What tells it from others.
    pub(super) identity: String,
    /// Where it is.
    pub(super) place: String,
    /// The last step that was seen in it, and the digest of all steps through there: that ledger is never older.
    pub(super) through: u64,
    pub(super) chain: String,
}

/// One run, as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its number among all runs of the key, from 1.
    pub counter: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// The last step that was published by then.
    pub through: u64,
    /// Keyed digest of the steps through there.
    pub digest: String,
    /// Whether it is of digests that many processes have added up, and not of the sums themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_parts: bool,
    /// What it did with events that do not fit, where that was not to refuse them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, String>,
    /// The files that were read, for a stream that is continued.
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
    /// Whether the same content was read before, so that this file was passed over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// Names of the parts of a store that hold a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptState {
    /// The state itself. A part's name is the digest of its content.
    pub(super) part: String,
    /// What is to be written to outputs, where that was not done when the run was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) pending: Vec<Pending>,
    /// The table to which rows were appended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) table: Option<TableMark>,
}

/// A table to which rows are appended, so that it is known again.
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
    /// Behind so many bytes of the output; as the whole of it where this is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// Whether only the user may read the output.
    pub private: bool,
}

impl Contents {
    /// Of a key that has published nothing.
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

    /// From the bytes of a store that messages call `shown`, without a look at the code: for what is public.
    pub(super) fn read(bytes: &[u8], shown: &str) -> Result<Self> {
        if version_of(bytes).is_some_and(|version| version != VERSION) {
            return Err(foreign(shown));
        }
        serde_json::from_slice::<Self>(bytes)
            .map_err(|e| usage(format!("the ledger {shown} is damaged ({e}); restore it from a copy")))
    }

    /// From the bytes of a store, for the key that wrote them.
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

    /// JSON text, as a store holds it, with its code under a [`code_key`].
    pub(super) fn sealed(&mut self, code_key: &[u8; 32]) -> Result<Vec<u8>> {
        self.identify()?;
        self.mac = self.code(code_key)?;
        self.text()
    }

    /// Draws the identity of a ledger that has none.
    pub(super) fn identify(&mut self) -> Result<()> {
        if self.identity.is_empty() {
            self.identity = drawn_identity()?;
        }
        Ok(())
    }

    fn text(&self) -> Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(std::io::Error::from)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The code of everything but the code itself.
    fn code(&self, code_key: &[u8; 32]) -> Result<String> {
        let bare = Self { mac: String::new(), ..self.clone() };
        Ok(blake3::keyed_hash(code_key, &bare.text()?).to_hex().to_string())
    }

    /// All runs in the order of their numbers, each with its stream.
    pub(super) fn runs(&self) -> Vec<(&str, &Run)> {
        let mut runs: Vec<(&str, &Run)> = self
            .streams
            .iter()
            .flat_map(|(name, entry)| entry.runs.iter().map(move |run| (name.as_str(), run)))
            .collect();
        runs.sort_by_key(|(_, run)| run.counter);
        runs
    }

    /// A public text that stands for the ledger after its first `counter` runs: two ledgers that have it in common
    /// have these runs in common.
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
}

/// 128 random bits from the operating system, as text: the id of a key that nobody ever has.
pub fn drawn_identity() -> Result<String> {
    Ok(SecretKey::generate()?.id().to_string())
}

impl Entry {
    /// The last step up to which the stream was published, here or under the ledger that it was left to; 0 before the first.
    pub(super) fn last_step(&self) -> u64 {
        let left = self.guard.as_ref().map_or(0, |guard| guard.through);
        left.max(self.runs.last().map_or(0, |run| run.through))
    }
}

/// The key of the code of a whole ledger: that of no stream, since no plan has this digest.
pub(super) fn code_key(key: &SecretKey) -> Zeroizing<[u8; 32]> {
    let name: StreamName = "ledger".parse().expect("a name");
    mac_key(key, &name, &[0; 32], Purpose::Ledger)
}

fn foreign(shown: &str) -> evertally_declare::error::Error {
    usage(format!(
        "the ledger {shown} belongs to another key or another version of this program: use the key and the version that it was \
         written with"
    ))
}
