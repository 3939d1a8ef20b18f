//! A [`VectorPlan`] holds the decisions made before a training run.
//!
//! In each of `T` steps a vector `x_t` is computed from the data, such as the sum of clipped gradients. The releases
//! are the running sums `A x + L z` in every coordinate, or their increments, with independent Gaussian noise `z`. The
//! plan fixes the factorization `A = L R`, the standard deviation `σ` of one variable of `z`, and the guarantee of the
//! whole history of releases.
//!
//! **Sensitivity.** One example changes the vector of a step by at most `norm` in L2, in at most `k` steps that are at
//! least `b` apart ([`Participation`]). If it is added or removed, the change of step `t` is a vector `v_t` with
//! `‖v_t‖ ≤ norm`. If it is replaced by another one, in the same steps or in others, the change is the difference of
//! two such changes: at most twice as large. [`Mechanism::participation_squared`] bounds the squared sensitivity `s²`
//! for vectors of norm 1; its proofs, for vectors, for data and vectors that depend on earlier releases, and for exact
//! accounting, are in the header of `mechanism/accounting/participation.rs`. Their conclusion: with `Δ = s · norm`
//! (twice that if examples are replaced), the releases, individually and together, are **exactly as private as one
//! normal variable of standard deviation `σ` that moves by `Δ`**: `μ`-GDP with `μ = Δ/σ`, hence `μ²/2`-zCDP and (ε,
//! δ)-DP by the analytic Gaussian curve.
//!
//! **Calibration.** `σ = Δ/μ`, where `μ = √(2ρ)`, or the largest `μ` that meets (ε, δ). All rounding is towards more
//! noise. Gaussian noise cannot give pure ε, which is refused.
//!
//! **Increments** `x_t + (L z)_t - (L z)_(t-1)` are a function of the running sums and determine them: the guarantee is
//! the same. Errors are those of running sums in either case, or of the parameters under an
//! [`Optimizer`](super::Optimizer).
//!
//! **Not in the plan**: the drawing of normal variables. They are floating-point numbers, and sums of floating-point
//! data and noise are not exact; `docs/threat-model.md` explains the consequences.

mod calibrate;
mod candidate;
mod choose;
mod file;
mod lower_bound;
mod request;
mod spent;
mod training;

pub use calibrate::VectorGuarantee;
pub use candidate::VectorCandidate;
pub use choose::streams;
pub use request::{SearchEffort, VectorRequest};
pub use training::{OmittedOption, Training, TrainingOption, TrainingOptions};

use super::{Sampling, SamplingScheme, optimizer};
use evertally::mechanism::{Mechanism, MechanismName};
use evertally::plan::SearchObserver;
use evertally_kernels::Cipher;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The series that the noise of a step is added to.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally_training::{Series, VectorRequest};
/// let sums = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0);
/// let steps = sums.clone().with_series(Series::Increments);
/// // The same σ, but independent noise.
/// let (sums, steps) = (sums.plan()?, steps.plan()?);
/// assert!(sums.sigma() == steps.sigma() && sums.digest() != steps.digest());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Series {
    /// The running sum of all vectors so far: the noise of step `t` is `(L z)_t`.
    #[default]
    RunningSums,
    /// The vector of the step, for an optimizer that does the adding up: `(L z)_t - (L z)_(t-1)`.
    Increments,
}

impl Series {
    /// The number in saved states: frozen.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::RunningSums => 0,
            Self::Increments => 1,
        }
    }
}

/// A finished plan. It is public; besides it, drawing the noise needs only a key and a name. See the header of
/// `vector/plan.rs` for its guarantee.
///
/// It can be written and read in any [serde] format. Reading uses the constructor: everything is derived again, and a
/// file whose `sigma` or `digest` differ is refused.
///
/// ```
/// use evertally::privacy::{Budget, Rho};
/// use evertally_training::{VectorPlan, VectorRequest};
/// let plan = VectorRequest::new(100, Budget::Zcdp(Rho::new(0.5)?), 1.0).plan()?;
/// let text = serde_json::to_string(&plan).unwrap();
/// let read: VectorPlan = serde_json::from_str(&text).unwrap();
/// assert_eq!(read.digest(), plan.digest());
/// assert!(serde_json::from_str::<VectorPlan>(&text.replace("\"horizon\":100", "\"horizon\":101")).is_err());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct VectorPlan {
    request: VectorRequest,
    chosen: VectorCandidate,
    guarantee: VectorGuarantee,
    digest: [u8; 32],
}

impl VectorPlan {
    /// The plan of a request with one of its [candidates](VectorRequest::candidates).
    fn build(mut request: VectorRequest, chosen: VectorCandidate) -> Self {
        request.mechanism = Some(chosen.name);
        request.participation = chosen.participation;
        let sampling = request.sampling_with(&*chosen.mechanism, chosen.participation);
        request.sampling = sampling.map(Sampling::in_plan);
        // The search is done.
        (request.effort, request.rival) = (SearchEffort::default(), f64::INFINITY);
        request.observer = SearchObserver::default();
        let guarantee = VectorGuarantee::from_candidate(&request, &chosen).expect("the budget was accepted before");
        let mut plan = Self { request, chosen, guarantee, digest: [0; 32] };
        plan.digest = file::digest(&plan);
        plan
    }

    /// The request, with the mechanism filled in.
    pub fn request(&self) -> &VectorRequest {
        &self.request
    }

    /// Number of steps `T`.
    pub fn horizon(&self) -> u64 {
        self.request.horizon
    }

    /// The factorization.
    pub fn mechanism(&self) -> &Arc<dyn Mechanism> {
        &self.chosen.mechanism
    }

    /// Its name, with every parameter.
    pub fn name(&self) -> MechanismName {
        self.chosen.name
    }

    /// How examples are sampled, if they are. Cyclic Poisson sampling with one group is Poisson sampling.
    pub fn sampling_scheme(&self) -> Option<SamplingScheme> {
        let scheme = self.request.sampling?.scheme();
        let is_poisson = scheme == SamplingScheme::CyclicPoisson && self.groups() == Some(1);
        Some(if is_poisson { SamplingScheme::Poisson } else { scheme })
    }

    /// With [truncated Poisson sampling](crate::Sampling::truncated_poisson): the maximum batch.
    pub fn max_batch(&self) -> Option<u64> {
        self.request.sampling?.truncation().map(|(max_batch, _)| max_batch)
    }

    /// With (cyclic) Poisson [sampling](VectorRequest::with_sampling) or batches of fixed size: the number of groups of
    /// examples, one of which takes part in a step.
    pub fn groups(&self) -> Option<u64> {
        self.request.sampling.filter(|own| own.is_by_step()).map(|_| self.request.participation.separation())
    }

    /// With [random allocation](crate::Sampling::random_allocation): the number of steps in an epoch.
    pub fn steps_per_epoch(&self) -> Option<u64> {
        self.request.sampling.and_then(|own| own.steps_per_epoch())
    }

    /// The series that the noise is added to.
    pub fn series(&self) -> Series {
        self.request.series
    }

    /// The cipher that the noise is drawn from.
    pub fn cipher(&self) -> Cipher {
        self.request.cipher
    }

    /// Standard deviation of one variable of `z`, in units of the vectors' coordinates.
    pub fn sigma(&self) -> f64 {
        self.chosen.sigma
    }

    /// The sensitivity `s`, never too small: the largest number of standard deviations, per `norm`, by which one
    /// example moves the releases. Replacing an example moves them by twice as much. With sampling, it is that of an
    /// example that always takes part.
    pub fn sensitivity(&self) -> f64 {
        self.chosen.sensitivity
    }

    /// Standard error of every coordinate of the running sum at a step (1 ..= T), or, with an
    /// [optimizer](VectorRequest::with_optimizer), of the parameters after it. `O(log T)` or less.
    ///
    /// # Panics
    /// If the step is 0 or beyond the horizon.
    pub fn std_error(&self, step: u64) -> f64 {
        assert!((1..=self.horizon()).contains(&step), "step {step} is outside the horizon of {}", self.horizon());
        let squared = match &self.chosen.variances {
            Some(variances) => variances[(step - 1) as usize],
            None => self.mechanism().row_norm_squared(step),
        };
        self.sigma() * squared.sqrt()
    }

    /// The largest standard error of any step's running sum, or parameters, over the
    /// [counted](crate::Optimizer::with_counted_steps) steps.
    pub fn max_std_error(&self) -> f64 {
        self.chosen.max_std_error
    }

    /// The root of the mean variance of the running sums, or parameters.
    pub fn mean_std_error(&self) -> f64 {
        self.chosen.mean_std_error
    }

    /// No factorization with Gaussian noise has a smaller [`max_std_error`](Self::max_std_error) under this budget,
    /// norm and participation, nor, without an optimizer and if the mean is the objective, a smaller
    /// [`mean_std_error`](Self::mean_std_error). `O(min(T, 2^20))`, `O(min(T, 2^11)²)` with an optimizer, and up to
    /// a second for several participations in up to 1024 steps.
    ///
    /// With sampling or an [average](crate::Optimizer::with_average) of the iterates, no bound is known, and this is 0.
    ///
    /// For single steps it is [`gaussian_lower_bound`](evertally::plan::gaussian_lower_bound); `plan/lower_bound.rs`
    /// and `optimizer/lower_bound.rs` have the proofs.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally_training::VectorRequest;
    /// let plan = VectorRequest::new(1024, Budget::Zcdp(Rho::new(0.5)?), 1.0).plan()?;
    /// let bound = plan.lower_bound_max_std_error();
    /// assert!(bound < plan.max_std_error() && plan.max_std_error() < 1.06 * bound);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn lower_bound_max_std_error(&self) -> f64 {
        if self.request.sampling.is_some() {
            return 0.0;
        }
        let participation = self.request.participation;
        let error = match &self.request.optimizer {
            Some(optimizer) => optimizer::lower_bound::error(self.horizon(), optimizer, participation)
                .expect("the horizon was accepted before"),
            None => lower_bound::error(self.horizon(), participation, self.request.objective),
        };
        error * self.request.norm * self.request.norms_per_step() / self.guarantee.mu()
    }

    /// The privacy guarantee of the whole history of releases.
    pub fn guarantee(&self) -> VectorGuarantee {
        self.guarantee.clone()
    }

    /// BLAKE3 digest of everything in the plan. Noise is bound to it: another plan has independent noise.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

#[cfg(test)]
mod tests;
