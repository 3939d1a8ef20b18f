//! A mechanism that competes under a request.

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
    /// How far one example that is added or removed moves the releases, in standard deviations of a variable, for a
    /// norm of 1 and `σ = 1`: never too small.
    pub sensitivity: f64,
    /// Standard deviation of one variable.
    pub sigma: f64,
    /// Largest standard error of a running sum, or of a parameter that an [`Optimizer`] makes of the vectors, per
    /// coordinate.
    pub max_std_error: f64,
    /// Root of the mean variance of the same over the steps.
    pub mean_std_error: f64,
    /// The variances of the parameters after every step for `σ = 1`, where there is an optimizer.
    pub(super) variances: Option<Arc<[f64]>>,
    /// In which steps an example takes part: as the request says, or with sampling what follows from the bands.
    pub participation: Participation,
    /// How many vectors of memory or of fresh noise a step needs; 0 where the number grows with the logarithm of the
    /// horizon at most.
    pub vectors: u64,
    /// Whether a step needs no more than 64 vectors of memory or of fresh noise, whatever the horizon. Square roots
    /// hold the noise of `2 √T` steps and more (see [`Memory`](crate::Memory)), banded ones need as many
    /// vectors as bands. Only mechanisms that stream lightly are chosen by default.
    pub streams_lightly: bool,
}
