//! The key for the noise of one stream.

use evertally::noise::{GuardedKey, NoiseClaim, NoiseRecord, SecretKey, StreamName};
use evertally::{Error as NoiseError, ErrorKind};
use std::sync::Arc;

/// A record of noise that admits one stream only, because the steps of that stream are recorded elsewhere.
struct OfStream(StreamName);

impl NoiseRecord for OfStream {
    fn claim(&self, claim: &NoiseClaim<'_>) -> evertally::Result<()> {
        if *claim.name == self.0 {
            return Ok(());
        }
        let (name, own) = (claim.name, &self.0);
        let problem = format!("the steps of stream `{own}` are recorded, but not those of `{name}`");
        Err(NoiseError::new(ErrorKind::NoiseIssued, problem))
    }
}

/// The key for the noise of one stream, whose steps the caller records before they are published; this function records
/// nothing.
pub fn recorded(key: &Arc<SecretKey>, name: &StreamName) -> GuardedKey {
    GuardedKey::new(Arc::clone(key), OfStream(name.clone()))
}
