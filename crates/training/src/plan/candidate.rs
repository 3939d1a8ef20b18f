//! A mechanism that competes under a request.

use crate::sampling::SamplingGuarantee;
use evertally::mechanism::{Mechanism, MechanismName, Participation};
use std::sync::Arc;

/// A mechanism with the noise it needs, and its error under a request.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally_training::VectorRequest;
/// let request = VectorRequest::new(64, Budget::Zcdp(Rho::new(0.5)?), 1.0);
/// let request = request.with_mechanism("binary".parse()?);
/// let binary = &request.candidates()?[0];
/// assert!((binary.sensitivity - 7f64.sqrt()).abs() < 1e-12); // seven levels
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct VectorCandidate {
    /// The factorization.
    pub mechanism: Arc<dyn Mechanism>,
    /// Its name, with every parameter.
    pub name: MechanismName,
    /// How far adding or removing one example moves the releases, in standard deviations of a variable, for a norm of
    /// 1 and `σ = 1`: never too small.
    pub sensitivity: f64,
    /// Standard deviation of one variable.
    pub sigma: f64,
    /// Largest standard error of a running sum, or of a parameter under an [`Optimizer`](crate::Optimizer), per
    /// coordinate.
    pub max_std_error: f64,
    /// Root of the mean variance of the same over the steps.
    pub mean_std_error: f64,
    /// The variances of the parameters after every step for `σ = 1`, if there is an optimizer.
    pub(super) variances: Option<Arc<[f64]>>,
    /// With sampling, its guarantee: computing it takes seconds for thousands of steps.
    pub(super) sampled: Option<SamplingGuarantee>,
    /// The steps in which an example takes part: as in the request, or with sampling as follows from the bands.
    pub participation: Participation,
    /// Memory or fresh noise of a step, in copies of the gradient; 0 if it grows at most with the logarithm of the
    /// horizon.
    #[doc(alias = "vectors")]
    pub memory: u64,
    /// Whether that is at most 64 copies for every horizon. Square roots hold the noise of `2 √T` steps and more (see
    /// [`Memory`](crate::Memory)), banded ones as many copies as bands. Only mechanisms with constant memory are chosen
    /// by default.
    #[doc(alias = "streams_lightly")]
    pub constant_memory: bool,
}
