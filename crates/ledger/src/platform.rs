//! The systems on which keys and records may be kept.
//!
//! A key is safe only if others cannot read its file, its records only if a lock keeps out other runs and a renamed
//! file survives a power failure. Where that was not verified, every access to a key file, a lock or a record is
//! refused. Everything in memory works: plans, counters whose key has no file, `evertally lab`.

use evertally_declare::error::{Result, usage};

const ON_WINDOWS: &str = "evertally does not read or write keys and records on Windows: file permissions, locks and \
                          flushing were not verified there; use Linux, macOS or WSL 2";

/// Refuses to keep keys and records on this system if it does not protect them.
///
/// # Errors
/// A usage error on Windows.
pub fn check() -> Result<()> {
    refusal().map_or(Ok(()), |sentence| Err(usage(sentence)))
}

/// Why keys and records may not be kept on this system; `None` if they may.
pub(crate) fn refusal() -> Option<&'static str> {
    refusal_on(cfg!(windows))
}

fn refusal_on(is_windows: bool) -> Option<&'static str> {
    is_windows.then_some(ON_WINDOWS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_is_refused() {
        assert!(refusal_on(true).unwrap().contains("on Windows") && refusal_on(false).is_none());
        assert_eq!(check().is_err(), cfg!(windows));
    }
}
