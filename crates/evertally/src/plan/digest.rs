//! The digest of a plan.

use serde::Serialize;

/// The kind of a plan. Its place in this list is part of the digest, so that no plan of one kind has the digest of one
/// of another.
#[derive(Clone, Copy, Debug, Serialize)]
pub enum PlanKind {
    /// Releases of sums.
    Stream,
    /// Noise for vectors in floating point.
    Vector,
}

/// BLAKE3 of the kind and of everything in a plan's file, in postcard form (numbers by their bits), in one context for
/// all plans. Every field must be serialized, whatever its value; only the last may be omitted if it has the value it
/// had before it existed.
///
/// # Panics
/// If the file is not plain data.
pub fn plan_digest(kind: PlanKind, file: &impl Serialize) -> [u8; 32] {
    let bytes = postcard::to_allocvec(&(kind, file)).expect("a plan is plain data");
    blake3::derive_key("evertally 1 plan", &bytes)
}
