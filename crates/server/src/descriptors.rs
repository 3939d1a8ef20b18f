//! File descriptors for files and sockets. Clients get as many as the process may open, less some that are reserved for
//! the store, the witness and webhooks, so that clients cannot stop publication.

/// Reserved for the database, the witness, webhooks, tokens, certificates and copies.
const RESERVED: u64 = 128;

/// Raises the soft limit of open files to the hard one, and returns the new limit; `None` if there is no limit.
#[cfg(unix)]
pub fn raise() -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
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
    std::fs::read_dir("/proc/self/fd").map_or(32, |open| open.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_are_kept() {
        assert_eq!(for_clients(None), usize::MAX);
        let most = for_clients(Some(100_000));
        assert!(most < 100_000 - 128 && most > 90_000, "{most}");
        assert!((8..=32).contains(&for_clients(Some(32))));
        assert!(raise().is_none_or(|limit| limit > 0));
    }
}
