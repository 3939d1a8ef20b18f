//! A factorization as bytes: saves repeating a search that takes a minute.
//!
//! ```text
//! "evertally dense-pure" | version, 4 bytes, little endian | horizon, objective, bumps (postcard) |
//! BLAKE3 of all before
//! ```
//!
//! The diagonal is the remainder of each column after the bumps, so bytes cannot claim a wrong sensitivity.

use super::{Bump, DensePure};
use crate::mechanism::{MatrixDigest, Objective};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8] = b"evertally dense-pure";
const VERSION: u32 = 1;
const CHECK: usize = 32;

#[derive(Serialize, Deserialize)]
struct Body {
    horizon: u64,
    mean: bool,
    bumps: Vec<Bump>,
}

impl DensePure {
    /// The factorization as bytes, the same for the same factorization.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.content();
        let check = blake3::hash(&bytes);
        bytes.extend(check.as_bytes());
        bytes
    }

    /// Reads [`to_bytes`](Self::to_bytes) back; all norms are recomputed.
    ///
    /// # Errors
    /// If the bytes are damaged, of another kind or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::state("the saved `dense-pure` factorization is damaged; search it again");
        let header = MAGIC.len() + 4;
        if bytes.len() < header + CHECK || !bytes.starts_with(MAGIC) {
            return Err(Error::state("these bytes are not a saved `dense-pure` factorization"));
        }
        let version = u32::from_le_bytes(bytes[MAGIC.len()..header].try_into().expect("4 bytes"));
        if version != VERSION {
            return Err(Error::state(format!(
                "the saved `dense-pure` factorization has version {version}, and this program reads version {VERSION}"
            )));
        }
        let (content, check) = bytes.split_at(bytes.len() - CHECK);
        if blake3::hash(content).as_bytes() != check {
            return Err(damaged());
        }
        let (body, rest): (Body, _) = postcard::take_from_bytes(&content[header..]).map_err(|_| damaged())?;
        if !rest.is_empty() {
            return Err(damaged());
        }
        let objective = if body.mean { Objective::Mean } else { Objective::Max };
        Self::assemble(body.horizon, objective, body.bumps).map_err(|_| damaged())
    }

    /// The beginning of the hash in the bytes; it names the factorization.
    pub fn digest(&self) -> MatrixDigest {
        MatrixDigest::new(&blake3::hash(&self.content()))
    }

    fn content(&self) -> Vec<u8> {
        let shape = &self.shape;
        let body =
            Body { horizon: shape.horizon(), mean: shape.objective == Objective::Mean, bumps: shape.bumps.clone() };
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(postcard::to_allocvec(&body).expect("a factorization is plain data"));
        bytes
    }
}
