//! `subtract`: the k-ary tree with subtraction.

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
    Ok(MechanismName::Subtract(parameters.number("k")?))
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    criterion: &Criterion,
    arity: Option<u64>,
) -> Result<Arc<dyn Mechanism>> {
    match arity {
        Some(k) => Ok(Arc::new(DigitTree::subtractive(horizon, k)?)),
        None => best_arity(3, criterion, |k| DigitTree::subtractive(horizon, k)),
    }
}

/// Levels log T/log k twice, with at most `⌊k/2⌋` nodes; under pure ε by the mean over all steps (Andersson, Pagh,
/// Steiner, Torkamani, "Count on Your Elders: Laplace vs Gaussian Noise").
pub(in crate::mechanism) fn limits(name: MechanismName) -> Limits {
    let MechanismName::Subtract(Some(k)) = name else { return Limits::NONE };
    let (arity, bits) = (k as f64, libm::log2(k as f64));
    let odd = if k % 2 == 1 { 1.0 - 1.0 / (arity * arity) } else { 1.0 };
    Limits { zcdp: Some((k / 2) as f64 / power(bits, 2)), pure: Some(arity * odd / (2.0 * power(bits, 3))) }
}
