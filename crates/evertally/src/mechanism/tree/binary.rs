//! `binary`: the binary tree, left children only.

use super::DigitTree;
use crate::Result;
use crate::mechanism::limits::Limits;
use crate::mechanism::{Criterion, Mechanism, MechanismName};
use std::sync::Arc;

pub(in crate::mechanism) fn build(horizon: u64, _: &Criterion) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(DigitTree::binary(horizon)?))
}

/// Andersson, Pagh 2023 (arXiv 2306.09666, table 1); Andersson, Pagh, Steiner, Torkamani, "Count on Your Elders:
/// Laplace vs Gaussian Noise".
pub(in crate::mechanism) fn limits(_: MechanismName) -> Limits {
    Limits { zcdp: Some(1.0), pure: Some(1.0) }
}
