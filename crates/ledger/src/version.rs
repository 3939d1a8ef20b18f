//! Versions of files.

use serde::Deserialize;

/// The version field of a JSON object, whatever else it contains: a file of another version is not damaged.
pub(crate) fn version_of(bytes: &[u8]) -> Option<u32> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    serde_json::from_slice::<Versioned>(bytes).ok().map(|of| of.version)
}
