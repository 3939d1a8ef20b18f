//! What the noise of a vector is a function of, besides key, name and coordinates.

use super::{Cipher, Series, VectorPlan};
use crate::mechanism::Mechanism;
use std::sync::Arc;

/// The part of a plan that the noise depends on.
#[derive(Clone, Debug)]
pub(super) struct Scheme {
    /// The factorization.
    pub(super) mechanism: Arc<dyn Mechanism>,
    /// Standard deviation of a noise variable.
    pub(super) sigma: f64,
    /// What is given out.
    pub(super) series: Series,
    /// What makes the bits.
    pub(super) cipher: Cipher,
    /// Names the plan.
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

impl Scheme {
    /// The byte of [`Purpose::Vector`](crate::noise::Purpose::Vector): frozen.
    pub(super) fn tag(&self) -> u8 {
        match self.cipher {
            Cipher::Aes128Ctr => 0,
            Cipher::ChaCha8 => 1,
            Cipher::ChaCha20 => 2,
        }
    }

    /// The cipher that runs.
    pub(super) fn cipher(&self) -> evertally_kernels::Cipher {
        match self.cipher {
            Cipher::Aes128Ctr => evertally_kernels::Cipher::Aes128Ctr,
            Cipher::ChaCha8 => evertally_kernels::Cipher::ChaCha8,
            Cipher::ChaCha20 => evertally_kernels::Cipher::ChaCha20,
        }
    }
}
