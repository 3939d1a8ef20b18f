//! Why a token is not accepted.

use std::time::Duration;
use tokio::sync::watch;

/// The longest time that a request waits for keys: longer than the two answers of the issuer may take.
const LONGEST_WAIT: Duration = Duration::from_secs(11);

/// Why a token opens nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityError {
    /// The token is not valid.
    Rejected(&'static str),
    /// The keys of its issuer are not known now.
    Unavailable,
    /// The keys of its issuer are being fetched for another token.
    Fetching(FetchEnd),
}

/// The end of a fetch that another request has begun.
#[derive(Clone, Debug)]
pub struct FetchEnd(pub(super) watch::Receiver<()>);

impl FetchEnd {
    /// Waits for it, at most 11 seconds. This occupies no thread.
    pub async fn wait(mut self) {
        let _ = tokio::time::timeout(LONGEST_WAIT, self.0.changed()).await;
    }
}

impl PartialEq for FetchEnd {
    fn eq(&self, other: &Self) -> bool {
        self.0.same_channel(&other.0)
    }
}

impl Eq for FetchEnd {}
