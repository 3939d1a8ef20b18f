//! File descriptors for files and sockets. Clients get as many as the process may open, less some that are reserved for
//! the store, the witness and webhooks, so that clients cannot stop publication.

/// Reserved for the database, the witness, webhooks, tokens, certificates and copies.
const RESERVED: u64 = 128;

/// The largest limit that Apple's systems accept, whatever the hard limit is (`OPEN_MAX`).
#[cfg(any(unix, test))]
const APPLE_MAX: u64 = 10_240;

/// The soft limit to set; `None` to keep the current one. Inside, `None` means unlimited.
#[cfg(any(unix, test))]
fn wanted(current: Option<u64>, maximum: Option<u64>, is_apple: bool) -> Option<Option<u64>> {
    let wanted = if is_apple { Some(maximum.map_or(APPLE_MAX, |most| most.min(APPLE_MAX))) } else { maximum };
    let is_more = current.is_some_and(|current| wanted.is_none_or(|wanted| wanted > current));
    is_more.then_some(wanted)
}

/// Raises the soft limit of open files as far as the hard one and the system allow, and returns the new limit; `None`
/// if there is no limit.
#[cfg(unix)]
pub fn raise() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Some(wanted) = wanted(limit.current, limit.maximum, cfg!(target_vendor = "apple")) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: wanted, maximum: limit.maximum });
        if let Err(error) = raised {
            tracing::debug!(error = %error, "the limit of open files stays as it is");
        }
    }
    getrlimit(Resource::Nofile).current
}

/// This platform has no such limit.
#[cfg(not(unix))]
pub fn raise() -> Option<u64> {
    None
}

/// How many connections clients may have in total, with this limit of open files.
pub fn for_clients(limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    let free = limit.saturating_sub(open_now()).saturating_sub(RESERVED);
    // Even with very few descriptors, clients get some.
    usize::try_from(free.max(limit / 4)).unwrap_or(usize::MAX)
}

/// The number of open descriptors; a guess if it cannot be read.
fn open_now() -> u64 {
    open().unwrap_or(32)
}

/// The number of open descriptors; `None` if it cannot be read.
pub(crate) fn open() -> Option<u64> {
    let open = ["/proc/self/fd", "/dev/fd"].iter().find_map(|folder| std::fs::read_dir(folder).ok());
    open.map(|open| open.count() as u64)
}

/// The current limit of open descriptors; `None` if there is none.
#[cfg(unix)]
pub(crate) fn limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// This platform has no such limit.
#[cfg(not(unix))]
pub(crate) fn limit() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_as_far_as_the_system_allows() {
        for (current, maximum, on_apple, elsewhere) in [
            (Some(256), None, Some(Some(10_240)), Some(None)),
            (Some(256), Some(4096), Some(Some(4096)), Some(Some(4096))),
            (Some(256), Some(50_000), Some(Some(10_240)), Some(Some(50_000))),
            (Some(50_000), Some(50_000), None, None),
            (None, None, None, None),
        ] {
            assert_eq!(wanted(current, maximum, true), on_apple, "{current:?} {maximum:?}");
            assert_eq!(wanted(current, maximum, false), elsewhere, "{current:?} {maximum:?}");
        }
    }

    #[test]
    fn some_are_kept() {
        assert_eq!(for_clients(None), usize::MAX);
        let most = for_clients(Some(100_000));
        assert!(most < 100_000 - 128 && most > 90_000, "{most}");
        assert!((8..=32).contains(&for_clients(Some(32))));
        assert!(raise().is_none_or(|limit| limit > 0));
    }
}
