//! `kary`: the k-ary tree, additions only.

use super::DigitTree;
use super::arity::best_arity;
use crate::Result;
use crate::mechanism::limits::Limits;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::{Criterion, Mechanism, MechanismName};
use crate::number::power;
use std::sync::Arc;

pub(in crate::mechanism) use super::arity::write;

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::Kary(parameters.number("k")?))
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    arity: Option<u64>,
) -> Result<Arc<dyn Mechanism>> {
    match arity {
        Some(k) => Ok(Arc::new(DigitTree::additive(horizon, k)?)),
        None => best_arity(2, criterion, |k| DigitTree::additive(horizon, k)),
    }
}

/// Levels log T/log k twice: as squared sensitivity (cubed with it under pure ε), and as levels with at most `k - 1`
/// nodes.
pub(in crate::mechanism) fn limits(name: MechanismName) -> Limits {
    let MechanismName::Kary(Some(k)) = name else { return Limits::NONE };
    let (nodes, bits) = ((k - 1) as f64, libm::log2(k as f64));
    Limits { zcdp: Some(nodes / power(bits, 2)), pure: Some(nodes / power(bits, 3)) }
}
