//! Correlated Gaussian noise for long vectors, for machine learning with differential privacy.

mod plan;

pub use plan::{Cipher, Series, VectorCandidate, VectorGuarantee, VectorPlan, VectorRequest, streams};
