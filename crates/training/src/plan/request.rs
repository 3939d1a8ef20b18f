//! The request for a plan for vectors.

use super::Series;
use crate::{Optimizer, Sampling};
use evertally::mechanism::{MAX_CONSTANT_MEMORY, Mechanism, MechanismName, Participation};
use evertally::plan::{Objective, SearchObserver};
use evertally::privacy::{Budget, Neighbours};
use evertally::{Error, Result};
use evertally_kernels::Cipher;
use std::collections::BTreeMap;

/// How many mechanisms a search with sampling accounts for. Every result is certified; with less effort, fewer
/// mechanisms get one.
///
/// ```
/// use evertally_training::SearchEffort;
/// assert_eq!("thorough".parse(), Ok(SearchEffort::Thorough));
/// assert_eq!(SearchEffort::default().name(), "quick");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SearchEffort {
    /// The best by estimates: seconds.
    #[default]
    Quick,
    /// All that may be the best, and those next to it: up to minutes for thousands of steps.
    Thorough,
}

impl SearchEffort {
    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Thorough => "thorough",
        }
    }
}

impl std::str::FromStr for SearchEffort {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let found = [Self::Quick, Self::Thorough].into_iter().find(|effort| effort.name() == text);
        found.ok_or_else(|| Error::invalid(format!("search must be `quick` or `thorough`, got `{text}`")))
    }
}

/// The request for a plan. Start from [`VectorRequest::new`] and set what differs.
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
    pub(super) max_memory: u64,
    pub(super) effort: SearchEffort,
    /// The error of another option of a training run: a quick search accounts for no mechanism whose error is larger by
    /// estimates.
    pub(super) rival: f64,
    pub(super) observer: SearchObserver,
}

impl VectorRequest {
    /// Running sums of vectors over `horizon` steps (1 ..= 2^62, less for some mechanisms), with one example in one
    /// step, added or removed; minimizes the maximal error.
    ///
    /// The budget covers the whole history: ρ, or (ε, δ). `norm` is the clipping norm, an upper bound on the L2 change
    /// that one example makes to the vector of a step: finite and above 0.
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
            max_memory: MAX_CONSTANT_MEMORY,
            effort: SearchEffort::default(),
            rival: f64::INFINITY,
            observer: SearchObserver::default(),
        }
    }

    /// The largest multiple of the norm by which one example can move the vector of one step.
    pub(super) fn norms_per_step(&self) -> f64 {
        match self.neighbours {
            Neighbours::AddRemove => 1.0,
            Neighbours::ReplaceOne => 2.0,
        }
    }

    /// The sampling, with the maximum batch that the plan chooses: for this mechanism, in as many groups as the steps
    /// of an example are apart.
    pub(super) fn sampling_with(&self, mechanism: &dyn Mechanism, participation: Participation) -> Option<Sampling> {
        let groups = participation.separation();
        self.sampling.map(|own| own.with_chosen_maximum(groups, mechanism.horizon(), &self.budget))
    }
}

/// Setters. Nothing is checked before the plan is made.
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

    /// The change of one example between neighbouring data sets; added or removed by default.
    pub fn with_neighbours(self, neighbours: Neighbours) -> Self {
        Self { neighbours, ..self }
    }

    /// The number of steps in which one example takes part, and their distance; one step by default.
    pub fn with_participation(self, participation: Participation) -> Self {
        Self { participation, ..self }
    }

    /// This factorization; if none is named, the one with the smallest error among those within the
    /// [memory limit](Self::with_max_memory).
    pub fn with_mechanism(self, mechanism: MechanismName) -> Self {
        self.with_optional_mechanism(Some(mechanism))
    }

    /// This factorization, or for `None` the one with the smallest error.
    pub fn with_optional_mechanism(self, mechanism: Option<MechanismName>) -> Self {
        Self { mechanism, ..self }
    }

    /// The optimizer that consumes the vectors: errors are then those of the parameters, and the mechanism is chosen
    /// and optimised for them. The [series](Self::with_series) and the guarantee are as without it.
    pub fn with_optimizer(self, optimizer: Optimizer) -> Self {
        self.with_optional_optimizer(Some(optimizer))
    }

    /// The same, or for `None` running sums as such.
    pub fn with_optional_optimizer(self, optimizer: Option<Optimizer>) -> Self {
        Self { optimizer, ..self }
    }

    /// Examples are sampled as [`Batches`](super::super::Batches) draws them. The noise is then as small as
    /// [`Sampling`]'s amplification allows. The budget must be (ε, δ), [neighbours](Self::with_neighbours) those
    /// [of the sampling](Sampling::neighbours) (examples added or removed, except for batches of fixed size), and the
    /// participation follows from the mechanism's bands.
    pub fn with_sampling(self, sampling: Sampling) -> Self {
        self.with_optional_sampling(Some(sampling))
    }

    /// The same, or for `None` batches in any order that respects the participation.
    pub fn with_optional_sampling(self, sampling: Option<Sampling>) -> Self {
        Self { sampling, ..self }
    }

    /// The memory limit for choosing a mechanism, in copies of the gradient: 64 by default. (A named mechanism may need
    /// any number. The limit is not part of the plan.)
    pub fn with_max_memory(self, max_memory: u64) -> Self {
        Self { max_memory, ..self }
    }

    /// How many mechanisms a search with sampling accounts for; a quick one by default. It is not part of the plan.
    pub fn with_effort(self, effort: SearchEffort) -> Self {
        Self { effort, ..self }
    }

    /// Reports the progress of the search to this observer, which may cancel it; none by default. It is not part of the
    /// plan.
    pub fn with_observer(self, observer: SearchObserver) -> Self {
        Self { observer, ..self }
    }

    /// The error of the running sums, or parameters, to minimise; the largest by default.
    pub fn with_objective(self, objective: Objective) -> Self {
        Self { objective, ..self }
    }

    /// The series that the noise is added to; running sums by default.
    pub fn with_series(self, series: Series) -> Self {
        Self { series, ..self }
    }

    /// The cipher that the noise is drawn from.
    pub fn with_cipher(self, cipher: Cipher) -> Self {
        Self { cipher, ..self }
    }

    /// Adds an entry to the caller's description of the run. It is public and part of the plan's digest: plans that
    /// differ here have independent noise.
    pub fn with_meaning(mut self, of: impl Into<String>, meaning: impl Into<String>) -> Self {
        self.meaning.insert(of.into(), meaning.into());
        self
    }

    /// Replaces all entries of the description.
    pub fn with_meanings(self, meaning: BTreeMap<String, String>) -> Self {
        Self { meaning, ..self }
    }
}

/// Getters.
impl VectorRequest {
    /// Number of steps `T`.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// The budget of the whole history.
    pub fn budget(&self) -> Budget {
        self.budget
    }

    /// The clipping norm.
    pub fn norm(&self) -> f64 {
        self.norm
    }

    /// The change of one example between neighbouring data sets.
    pub fn neighbours(&self) -> Neighbours {
        self.neighbours
    }

    /// The number of steps in which one example takes part, and their distance.
    pub fn participation(&self) -> Participation {
        self.participation
    }

    /// The factorization; in a plan, the chosen one.
    pub fn mechanism(&self) -> Option<MechanismName> {
        self.mechanism
    }

    /// The error of the running sums, or parameters, that is minimised.
    pub fn objective(&self) -> Objective {
        self.objective
    }

    /// The series that the noise is added to.
    pub fn series(&self) -> Series {
        self.series
    }

    /// The cipher that the noise is drawn from.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The optimizer that consumes the vectors, if errors are those of its parameters.
    pub fn optimizer(&self) -> Option<&Optimizer> {
        self.optimizer.as_ref()
    }

    /// The sampling of examples, if any.
    pub fn sampling(&self) -> Option<Sampling> {
        self.sampling
    }

    /// The memory limit for choosing a mechanism, in copies of the gradient.
    pub fn max_memory(&self) -> u64 {
        self.max_memory
    }

    /// The caller's description of the run.
    pub fn meaning(&self) -> &BTreeMap<String, String> {
        &self.meaning
    }
}

/// The accepted scales of vectors: beyond them single-precision noise would overflow or underflow.
pub(super) const SCALES: std::ops::RangeInclusive<f64> = 1e-30..=1e30;
