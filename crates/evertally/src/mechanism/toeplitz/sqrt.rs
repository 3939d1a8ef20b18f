//! `sqrt`: the square root of the prefix-sum matrix.

use super::SquareRoot;
use crate::Result;
use crate::mechanism::limits::Limits;
use crate::mechanism::{Criterion, Mechanism, MechanismName};
use crate::number::power;
use std::f64::consts::{LN_2, PI};
use std::sync::Arc;

pub(in crate::mechanism) fn build(horizon: u64, _: &Criterion) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(SquareRoot::new(horizon)?))
}

/// `(ln 2/π)²` (Fichtenberger, Henzinger, Upadhyay 2023, arXiv 2202.11205), normalized or not.
pub(in crate::mechanism) fn limits(_: MechanismName) -> Limits {
    Limits { zcdp: Some(power(LN_2 / PI, 2)), pure: None }
}
