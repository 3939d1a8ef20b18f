//! `banded-sqrt`: the first diagonals of the square root.

use super::{SquareRoot, bands};
use crate::Result;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::{Criterion, Mechanism, MechanismName};
use std::sync::Arc;

pub(in crate::mechanism) use super::bands::write;

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::BandedSqrt(bands::parse(parameters)?))
}

pub(in crate::mechanism) fn build(horizon: u64, _: &Criterion, bands: u64) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(SquareRoot::banded(horizon, bands)?))
}
