//! Versions of files.

use serde::Deserialize;

/// The version that a JSON object says it has, whatever else is in it: what another version wrote is not damaged.
pub(crate) fn version_of(bytes: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    serde_json::from_slice::<Versioned>(bytes).ok().map(|of| of.version)
}
