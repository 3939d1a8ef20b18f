//! `banded-inverse-sqrt`: the inverse of the first diagonals of the inverse square root.

use super::{SquareRoot, bands};
use crate::Result;
use crate::mechanism::registry::Parameters;
use crate::mechanism::{Criterion, LIGHT, Mechanism, MechanismName, Participation};
use std::sync::Arc;

pub(in crate::mechanism) use super::bands::write;

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::BandedInverseSqrt(bands::parse(parameters)?))
}

pub(in crate::mechanism) fn build(horizon: u64, _: &Criterion, bands: u64) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(SquareRoot::banded_inverse(horizon, bands)?))
}

/// Competes where units come back: with a band up to their return, or a light one.
pub(in crate::mechanism) fn competitors(horizon: u64, participation: Participation) -> Vec<MechanismName> {
    let separation = participation.separation();
    let returning = participation.within(horizon) > 1;
    let light = [4, 16, LIGHT].into_iter().filter(|bands| *bands < separation);
    let all = light.chain([separation]).filter(|bands| returning && *bands <= horizon);
    all.map(MechanismName::BandedInverseSqrt).collect()
}
