//! Everything that the noise of a vector depends on, besides key, name and coordinates.

use super::{Cipher, Series, VectorPlan};
use evertally::mechanism::Mechanism;
use std::sync::Arc;

/// The part of a plan that the noise depends on.
#[derive(Clone, Debug)]
pub(super) struct Scheme {
    /// The factorization.
    pub(super) mechanism: Arc<dyn Mechanism>,
    /// Standard deviation of a noise variable.
    pub(super) sigma: f64,
    /// The returned series.
    pub(super) series: Series,
    /// The cipher that makes the bits.
    pub(super) cipher: Cipher,
    /// Identifies the plan.
    pub(super) digest: [u8; 32],
}

impl From<&VectorPlan> for Scheme {
    fn from(plan: &VectorPlan) -> Self {
        Self {
            mechanism: plan.mechanism().clone(),
            sigma: plan.sigma(),
            series: plan.series(),
            cipher: plan.cipher(),
            digest: plan.digest(),
        }
    }
}
