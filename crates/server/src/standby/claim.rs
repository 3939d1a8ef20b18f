//! The right to publish: the witness names the one copy of a folder that may write to it.

use crate::witness::{Witness, WitnessRecord};
use evertally_declare::error::{Result, usage};

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The witness names this copy: from now on no other one publishes.
    Won,
    /// The witness names another copy than the one that was followed.
    Lost,
}

/// Writes the name of a copy to the witness, instead of `followed`, the name that it held. An error may mean that the
/// witness cannot be reached, or that the primary holds its lock; the claim may have arrived all the same, and the next
/// one with the same name finds out.
///
/// # Errors
/// If the witness cannot be read or written, is locked, or belongs to another folder.
pub fn claim(witness: &mut dyn Witness, folder: &str, followed: &str, name: &str) -> Result<ClaimOutcome> {
    let record = witness.ask()?.unwrap_or_else(|| WitnessRecord::new(folder));
    if record.folder != folder {
        return Err(usage(format!("the witness {} belongs to another folder ({})", witness.place(), record.folder)));
    }
    if record.primary == name {
        return Ok(ClaimOutcome::Won);
    }
    if record.primary != followed {
        return Ok(ClaimOutcome::Lost);
    }
    let mut claimed = record.with_primary(name);
    claimed.counter += 1;
    name.clone_into(&mut claimed.writer);
    witness.write(&claimed)?;
    let settles_in = witness.settles_in();
    if settles_in.is_zero() {
        return Ok(ClaimOutcome::Won);
    }
    std::thread::sleep(settles_in);
    Ok(if witness.ask()?.as_ref() == Some(&claimed) { ClaimOutcome::Won } else { ClaimOutcome::Lost })
}
