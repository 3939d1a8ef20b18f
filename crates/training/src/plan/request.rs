//! What a plan for vectors is asked for.

use super::Series;
use crate::{Optimizer, Sampling};
use evertally::mechanism::{LIGHT, MechanismName, Participation};
use evertally::plan::Objective;
use evertally::privacy::{Budget, Neighbours};
use evertally_kernels::Cipher;
use std::collections::BTreeMap;

/// What a plan is asked for. Start from [`VectorRequest::new`] and say what differs.
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally::mechanism::Participation;
/// use evertally_training::VectorRequest;
/// let budget = Budget::Approximate(Epsilon::new(2.0)?, Delta::new(1e-6)?);
/// // Four epochs of 500 batches in a fixed order, gradients clipped to norm 1.
/// let request = VectorRequest::new(2000, budget, 1.0).with_participation(Participation::new(4, 500)?);
/// let plan = request.plan()?;
/// assert!(plan.max_std_error() < plan.sigma() * 2000f64.sqrt());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct VectorRequest {
    pub(super) horizon: u64,
    pub(super) budget: Budget,
    pub(super) norm: f64,
    pub(super) neighbours: Neighbours,
    pub(super) participation: Participation,
    pub(super) mechanism: Option<MechanismName>,
    pub(super) objective: Objective,
    pub(super) series: Series,
    pub(super) cipher: Cipher,
    pub(super) meaning: BTreeMap<String, String>,
    pub(super) optimizer: Option<Optimizer>,
    pub(super) sampling: Option<Sampling>,
    pub(super) most_vectors: u64,
}

impl VectorRequest {
    /// Running sums of vectors over `horizon` steps (1 ..= 2^62, less for some mechanisms), with one example in one
    /// step, added or removed; least maximal error.
    ///
    /// The budget covers the whole history: ρ, or (ε, δ). `norm` is the clipping norm, the most by which one example
    /// changes the vector of a step, in L2: finite and above 0.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Rho};
    /// use evertally_training::VectorRequest;
    /// let plan = VectorRequest::new(1024, Budget::Zcdp(Rho::new(0.5)?), 1.0).plan()?;
    /// assert!(plan.max_std_error().powi(2) < 9.49);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    pub fn new(horizon: u64, budget: Budget, norm: f64) -> Self {
        Self {
            horizon,
            budget,
            norm,
            neighbours: Neighbours::AddRemove,
            participation: Participation::ONCE,
            mechanism: None,
            objective: Objective::Max,
            series: Series::default(),
            cipher: Cipher::default(),
            meaning: BTreeMap::new(),
            optimizer: None,
            sampling: None,
            most_vectors: LIGHT,
        }
    }

    /// How many times the norm one example can move the vector of one step.
    pub(super) fn norms_per_step(&self) -> f64 {
        match self.neighbours {
            Neighbours::AddRemove => 1.0,
            Neighbours::ReplaceOne => 2.0,
        }
    }
}

/// What is asked for, one thing after the other. Nothing is checked before the plan is made.
impl VectorRequest {
    /// Another number of steps.
    pub fn with_horizon(self, horizon: u64) -> Self {
        Self { horizon, ..self }
    }

    /// Another budget for the whole history.
    pub fn with_budget(self, budget: Budget) -> Self {
        Self { budget, ..self }
    }

    /// Another clipping norm.
    pub fn with_norm(self, norm: f64) -> Self {
        Self { norm, ..self }
    }

    /// What happens to one example between neighbouring data sets; it is added or removed, unless this says otherwise.
    pub fn with_neighbours(self, neighbours: Neighbours) -> Self {
        Self { neighbours, ..self }
    }

    /// In how many steps one example takes part, and how far apart; in one, unless this says otherwise.
    pub fn with_participation(self, participation: Participation) -> Self {
        Self { participation, ..self }
    }

    /// This factorization; where none is named, the one with the least error among those that
    /// [stream lightly](super::VectorCandidate::streams_lightly).
    pub fn with_mechanism(self, mechanism: MechanismName) -> Self {
        self.with_optional_mechanism(Some(mechanism))
    }

    /// This factorization, or for `None` the one with the least error.
    pub fn with_optional_mechanism(self, mechanism: Option<MechanismName>) -> Self {
        Self { mechanism, ..self }
    }

    /// What is made of the vectors: errors are then those of the parameters, and the mechanism is chosen and optimised for
    /// them. The [series](Self::with_series) and the promise are as without it.
    pub fn with_optimizer(self, optimizer: Optimizer) -> Self {
        self.with_optional_optimizer(Some(optimizer))
    }

    /// The same, or for `None` running sums as such.
    pub fn with_optional_optimizer(self, optimizer: Option<Optimizer>) -> Self {
        Self { optimizer, ..self }
    }

    /// Examples take part by lot: in every step this fraction of them, as [`Batches`](super::super::Batches) draws them.
    /// The noise is then as little as [`Sampling`]'s amplification allows. The budget must be (ε, δ), examples are added
    /// or removed, and the participation is what follows from the mechanism's bands.
    pub fn with_sampling(self, sampling: Sampling) -> Self {
        self.with_optional_sampling(Some(sampling))
    }

    /// The same, or for `None` batches in any order that keeps to the participation.
    pub fn with_optional_sampling(self, sampling: Option<Sampling>) -> Self {
        Self { sampling, ..self }
    }

    /// How many vectors of memory a mechanism may need to be chosen: 64, unless this says otherwise. (One that is named
    /// may need any number. It is no part of the plan.)
    pub fn with_most_vectors(self, most_vectors: u64) -> Self {
        Self { most_vectors, ..self }
    }

    /// Which error of the running sums, or parameters, to minimise; the largest, unless this says otherwise.
    pub fn with_objective(self, objective: Objective) -> Self {
        Self { objective, ..self }
    }

    /// What the noise is added to; running sums, unless this says otherwise.
    pub fn with_series(self, series: Series) -> Self {
        Self { series, ..self }
    }

    /// The cipher that the noise is drawn from.
    pub fn with_cipher(self, cipher: Cipher) -> Self {
        Self { cipher, ..self }
    }

    /// What the run is for, in words of the caller's: one more entry. Public, and part of the plan's digest: plans that
    /// differ here have independent noise.
    pub fn with_meaning(mut self, of: impl Into<String>, meaning: impl Into<String>) -> Self {
        self.meaning.insert(of.into(), meaning.into());
        self
    }

    /// All of these entries in the place of those so far.
    pub fn with_meanings(self, meaning: BTreeMap<String, String>) -> Self {
        Self { meaning, ..self }
    }
}

/// What was asked for.
impl VectorRequest {
    /// Number of steps `T`.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// What may be spent on the whole history.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The clipping norm.
    pub fn norm(&self) -> f64 {
        self.norm
    }

    /// What happens to one example between neighbouring data sets.
    pub fn neighbours(&self) -> Neighbours {
        self.neighbours
    }

    /// In how many steps one example takes part, and how far apart.
    pub fn participation(&self) -> Participation {
        self.participation
    }

    /// The factorization; in a plan, the one that was chosen.
    pub fn mechanism(&self) -> Option<MechanismName> {
        self.mechanism
    }

    /// Which error of the running sums, or parameters, is minimised.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// What the noise is added to.
    pub fn series(&self) -> Series {
        self.series
    }

    /// The cipher that the noise is drawn from.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// What is made of the vectors, if errors are those of that.
    pub fn optimizer(&self) -> Option<&Optimizer> {
        self.optimizer.as_ref()
    }

    /// How examples are sampled, if they are.
    pub fn sampling(&self) -> Option<Sampling> {
        self.sampling
    }

    /// How many vectors of memory a mechanism may need to be chosen.
    pub fn most_vectors(&self) -> u64 {
        self.most_vectors
    }

    /// What the run is for.
    pub fn meaning(&self) -> &BTreeMap<String, String> {
        &self.meaning
    }
}

/// The vectors' scale that is accepted: beyond it single-precision noise would leave its range.
pub(super) const SCALES: std::ops::RangeInclusive<f64> = 1e-30..=1e30;
