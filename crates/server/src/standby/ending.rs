//! The end of a chain of segments.
//!
//! A machine that takes over ends the chain that it continues: it writes the next segment of it, which says so. Files
//! are never replaced, so a machine that was replaced and has not noticed can add nothing, and all who apply the chain
//! later end where the new primary has begun.

use super::replica::Applied;
use super::segment::{Sealed, Segment};
use super::target::Target;
use crate::store::Changes;
use evertally_declare::error::Result;

/// Ends the chain of a copy that everything was applied to, so that nobody can add to it; returns `false` if there is
/// another segment, which is to be applied first.
///
/// # Errors
/// If the target cannot be read or written.
pub fn end_chain(target: &dyn Target, applied: &Applied, by: &str) -> Result<bool> {
    let name = Segment::name_of(&applied.epoch, applied.number + 1);
    if target.create(&name, &end(applied, by)?.bytes)? {
        return Ok(true);
    }
    is_end(target, &name) // perhaps of a machine that has taken over before, and was replaced
}

/// Whether a segment ends its chain.
///
/// # Errors
/// If the target cannot be read.
pub(super) fn is_end(target: &dyn Target, name: &str) -> Result<bool> {
    Ok(Segment::head(target, name)?.is_some_and(|head| head.ended_by.is_some()))
}

/// The end of a chain after its applied part, for a copy that takes over. Two attempts give the same bytes.
fn end(applied: &Applied, by: &str) -> Result<Sealed> {
    let mut head = Segment::new(&applied.folder, &applied.epoch, applied.number + 1, applied.digest, applied.at);
    head.ended_by = Some(by.to_owned());
    head.seal(&Changes::default())
}
