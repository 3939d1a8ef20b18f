//! Follows a source from a separate thread.

use super::following::follow;
use super::{FeedTarget, FollowOptions, Observer, Sent, Source};
use evertally_declare::error::{Result, failure};
use tokio_util::sync::CancellationToken;

/// Follows a source as [`follow`] does, and returns when that ends.
///
/// # Errors
/// As [`follow`], or if the system gives no resources.
pub fn run(
    source: &mut dyn Source,
    target: &dyn FeedTarget,
    options: &FollowOptions,
    cancelled: &CancellationToken,
    observer: &mut dyn Observer,
) -> Result<Sent> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failure)?;
    let sent = runtime.block_on(follow(source, target, options, cancelled, observer));
    // Standard input is read by a thread that may wait forever.
    runtime.shutdown_background();
    sent
}
