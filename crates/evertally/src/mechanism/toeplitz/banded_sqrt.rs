//! `banded-sqrt`: the first diagonals of the square root.

use super::square_root::MAX_BANDED;
use super::{SquareRoot, bands};
use crate::Result;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::{BandedFamily, Criterion, Mechanism, MechanismName, Participation};
use std::sync::Arc;

pub(in crate::mechanism) use super::bands::write;

/// The family by its number of bands.
pub(in crate::mechanism) const BANDED: BandedFamily = BandedFamily {
    with_bands: MechanismName::BandedSqrt,
    bands: |name| match name {
        MechanismName::BandedSqrt(bands) => Some(bands),
        _ => None,
    },
    are_optimised: false,
    with_sharpness: |_, _| None,
};

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::BandedSqrt(bands::parse(parameters)?))
}

/// Competes if units return: with as many bands as steps until their return, whose columns share no row.
pub(in crate::mechanism) fn competitors(horizon: u64, unit: Participation) -> Vec<MechanismName> {
    let bands = Some(unit.separation()).filter(|bands| (2..=horizon).contains(bands) && horizon <= MAX_BANDED);
    bands.map(MechanismName::BandedSqrt).into_iter().collect()
}

/// Longer horizons are for vectors: counts are filtered in integers.
pub(in crate::mechanism) fn build(horizon: u64, criterion: &Criterion, bands: u64) -> Result<Arc<dyn Mechanism>> {
    let is_for_vectors = criterion.participation().is_some();
    let built = if is_for_vectors { SquareRoot::banded_for_vectors } else { SquareRoot::banded_watched };
    Ok(Arc::new(built(horizon, bands, criterion.watch())?))
}
