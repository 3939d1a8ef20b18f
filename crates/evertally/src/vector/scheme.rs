//! What the noise of a vector is a function of, besides key, name and coordinates.

use super::Series;
use crate::mechanism::Mechanism;
use evertally_kernels::Cipher;
use std::sync::Arc;

/// The public parameters of a vector's noise.
#[derive(Clone, Debug)]
pub struct Scheme {
    /// The factorization.
    pub mechanism: Arc<dyn Mechanism>,
    /// Standard deviation of a noise variable.
    pub sigma: f64,
    /// What is given out.
    pub series: Series,
    /// What makes the bits.
    pub cipher: Cipher,
    /// Names all of these.
    pub digest: [u8; 32],
}
