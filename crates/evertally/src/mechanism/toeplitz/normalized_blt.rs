//! `normalized-blt`: the buffered linear Toeplitz matrix with columns of one length.

use super::blt::build_with;
use super::{BufferChoice, Columns};
use crate::Result;
use crate::mechanism::registry::Parameters;
use crate::mechanism::{Criterion, Mechanism, MechanismName};
use std::sync::Arc;

pub(in crate::mechanism) use super::blt::write;

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::NormalizedBlt(BufferChoice::parse(parameters)?))
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    choice: BufferChoice,
) -> Result<Arc<dyn Mechanism>> {
    build_with(horizon, Columns::Normalized, choice, criterion)
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::NormalizedBlt(choice) => MechanismName::NormalizedBlt(choice.brief()),
        other => other,
    }
}
