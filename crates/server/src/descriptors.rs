//! Descriptors of files and sockets: as many as the process may have, of which some are kept for the store, the witness and
//! webhooks, so that clients cannot stop what is published.

/// Kept for the database, the witness, webhooks, tokens, certificates and copies.
const RESERVED: u64 = 128;

/// Raises the soft limit of open files to the hard one, and returns what it is then; `None` where there is none.
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

/// There is no such limit here.
#[cfg(not(unix))]
pub fn raise() -> Option<u64> {
    None
}

/// How many connections clients may have in all, with this limit of open files.
pub fn for_clients(limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return usize::MAX };
    let free = limit.saturating_sub(open_now()).saturating_sub(RESERVED);
    // With very few descriptors clients still have some.
    usize::try_from(free.max(limit / 4)).unwrap_or(usize::MAX)
}

/// How many are open; a guess where that cannot be seen.
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
