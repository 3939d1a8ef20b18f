//! Signs of life, as small files next to the segments.

use super::target::Target;
use evertally_declare::error::{Result, failure, usage};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A sign of life of a primary. Its counter grows as long as it is alive; nobody compares clocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PrimarySign {
    /// The identity of the service's folder.
    pub(crate) folder: String,
    /// The id of its key.
    pub(crate) key_id: String,
    /// A random name of this start, so that a counter that begins again is a sign of life too.
    pub(crate) start: String,
    pub(crate) counter: u64,
    /// The chain of segments to follow.
    pub(crate) epoch: Option<String>,
    /// Whether it has shut down, and everything is shipped.
    pub(crate) is_stopped: bool,
}

/// A sign of life of a follower.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FollowerSign {
    /// The chain of the whole copy that it has, and the last segment.
    pub(crate) epoch: String,
    pub(crate) number: u64,
    /// When the changes of that segment were read, in microseconds since 1970.
    pub(crate) at: i64,
    pub(crate) counter: u64,
}

/// The folder with the signs of followers.
pub(crate) const FOLLOWERS: &str = "followers";

/// The name of a primary's file; `primary` is the name that the witness holds, which is empty before the first
/// takeover.
pub(crate) fn primary_file(primary: &str) -> String {
    format!("primaries/{}.json", if primary.is_empty() { "first" } else { primary })
}

/// The last whole chain of a primary, which has everything that it published. It is named before anything is published
/// that only this chain has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WholeChain {
    /// The name of the chain.
    Chain(String),
    /// It has claimed the right to publish from the primary of this name, and published nothing yet: the last whole
    /// chain is that of the primary before. Written before the claim, so that each name at the witness has one.
    After(String),
}

/// More takeovers without a publication than anybody sees.
const MAX_CLAIMS: usize = 1000;

fn whole_file(primary: &str) -> String {
    format!("wholes/{}.json", if primary.is_empty() { "first" } else { primary })
}

/// Names the last whole chain of a primary.
///
/// # Errors
/// If the target cannot be written.
pub fn put_whole(target: &dyn Target, primary: &str, whole: &WholeChain) -> Result<()> {
    put(target, &whole_file(primary), whole)
}

/// The name of the chain that has everything that a primary and those before it published; `None` if there is none yet.
///
/// # Errors
/// If the target cannot be read, or the name of the chain is damaged.
pub fn last_whole(target: &dyn Target, primary: &str) -> Result<Option<String>> {
    let is_name = |name: &str| !name.contains(['/', '\\']);
    let mut primary = primary.to_owned();
    for _ in 0..MAX_CLAIMS {
        match get(target, &whole_file(&primary))? {
            None => return Ok(None),
            Some(WholeChain::Chain(name)) if is_name(&name) && !name.is_empty() => return Ok(Some(name)),
            Some(WholeChain::After(before)) if is_name(&before) => primary = before,
            Some(_) => break,
        }
    }
    Err(usage(format!("{} in {} is damaged", whole_file(&primary), target.place())))
}

pub(crate) fn put(target: &dyn Target, name: &str, sign: &impl Serialize) -> Result<()> {
    target.put(name, &serde_json::to_vec(sign).map_err(failure)?)
}

pub(crate) fn get<T: DeserializeOwned>(target: &dyn Target, name: &str) -> Result<Option<T>> {
    let Some(bytes) = target.get(name)? else { return Ok(None) };
    let sign = serde_json::from_slice(&bytes);
    sign.map(Some).map_err(|_| usage(format!("{name} in {} was written by another program", target.place())))
}
