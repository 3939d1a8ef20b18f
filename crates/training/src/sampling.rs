//! Sampling of the examples of a step, which makes the guarantee stronger than that of the noise alone.
//!
//! **Cyclic Poisson sampling.** Examples are divided into `G` groups by their number, and step `t` belongs to group
//! `(t-1) mod G`: each of its examples takes part with probability `q`, independently. With one group this is Poisson
//! sampling, as in DP-SGD. A plan states the expected **fraction** `p` of all examples in a step, and `q = p G`.
//!
//! **The guarantee** (Choquette-Choo et al. 2023, arXiv 2306.08153, with proofs for every banded matrix). Let columns
//! of `R` that are `G` or more steps apart have no row in common ([`Bands`](crate::mechanism::Bands)). An example can
//! take part in steps `t_1, t_2, …`, `G` apart: its column of one of them has its rows before those of the next. Given
//! all releases before step `t_r`, those of the rows `t_r … t_r + G - 1` differ between the two neighbouring data sets
//! by the example alone, which adds `v c_(t_r)`, `‖v‖ ≤ norm`, with probability `q` and nothing otherwise; `v` is known
//! from the past, and the vectors of others, whatever they depend on, are the same function of the releases on both
//! sides. So the log-likelihood ratio of these rows is that of one normal variable of standard deviation `σ` that is
//! shifted by at most `norm · ‖c_(t_r)‖` with probability `q`, and not at all otherwise: a Poisson-sampled Gaussian. (A
//! smaller move is post-processing of a larger one: shrink, and add normal noise.) The rounds compose adaptively, and
//! [`SampledGaussians`] bounds the composition from above. Every round counts with the longest column of its steps, so
//! that it does not matter in which group the example is.
//!
//! An example is **added or removed**: its number is fixed, and the groups of others do not change. The draws must stay
//! secret and come from the key: [`Batches`](super::Batches) makes them.
//!
//! **Batches of fixed size.** In step `t` a uniform subset of `B` of the examples of the group takes part, and
//! neighbours differ by one example that is **replaced**, under the same number. Let all batches of other groups be
//! known: they are the same on both sides. Then the rows of a round are a Gaussian mechanism of the round's batch, and
//! the exchange of one example of the batch moves them by at most `2 norm · ‖c_(t_r)‖`, whatever was released before:
//! a step of [`SampledGaussian::without_replacement`] with `q = B` over the examples of the group. Groups have `⌊n/G⌋`
//! examples or one more, and `B = ⌊p G ⌊n/G⌋⌋`, so that `q ≤ p G` for each. An example that is replaced by one with the
//! vector 0 (zero-out) is a case of this.
//!
//! **Truncated Poisson sampling** has a maximum batch: [`truncation`].
//!
//! **Random allocation** (balls in bins). Every example is allocated to one of the `b` steps of an epoch at random,
//! once for the whole run, and takes part in that step of every epoch; only that step is secret. That needs no bands:
//! any mechanism with a row of `R` for every step works.
//! [`RandomAllocation`](crate::random_allocation::RandomAllocation) proves and accounts for the guarantee;
//! [`allocation`] computes how far an example moves the rows.
//!
//! **Per-epoch random allocation.** Every example is allocated again in every epoch of `b` steps, so that the distance
//! of its steps is at least the number of bands of the mechanism. [`per_epoch`] describes this and its guarantee.

mod allocation;
mod guarantee;
mod kind;
mod per_epoch;
mod scheme;
mod truncation;

pub(crate) use guarantee::SamplingGuarantee;
pub use scheme::SamplingScheme;

use crate::poisson_subsampling::{SampledGaussian, SampledGaussians};
use evertally::mechanism::{Bands, Family, Mechanism, MechanismName, Participation, SampledUse, Streaming};
use evertally::privacy::{Budget, Neighbours};
use evertally::{Error, Result};
use kind::Kind;
use serde::{Deserialize, Serialize};

/// Rounds whose columns differ by less are all counted as the longest of them, which saves work if there are many
/// rounds.
const ALIKE_RATIO: f64 = 1.003;

/// Batches of fixed size are accounted for with a rate that is larger by this: the rounding of a fraction such as 1/3
/// then makes no batch smaller by one.
const SIZE_ROOM: f64 = 1e-12;

/// The sampling of the examples of a step; see the header of `training/src/sampling.rs`.
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally_training::{Sampling, VectorRequest};
/// let budget = Budget::Approximate(Epsilon::new(1.0)?, Delta::new(1e-5)?);
/// let request = VectorRequest::new(200, budget, 1.0).with_mechanism("input".parse()?);
/// let sampled = request.clone().with_sampling(Sampling::poisson(0.01)?).plan()?;
/// // An example takes part in 2 of 200 steps in expectation; known steps would need six times the noise.
/// assert!(sampled.sigma() < request.plan()?.sigma());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sampling(Kind);

impl Sampling {
    /// Poisson sampling: every example takes part in a step with this probability, independently. The mechanism must
    /// have one band, such as independent noise.
    ///
    /// # Errors
    /// If the fraction is not above 0 and at most 1.
    pub fn poisson(fraction: f64) -> Result<Self> {
        Kind::Poisson { fraction }.checked().map(Self)
    }

    /// Cyclic Poisson sampling with as many groups of examples as the mechanism has bands: one group is Poisson
    /// sampling. The fraction is the expected batch size over the number of examples.
    ///
    /// # Errors
    /// If the fraction is not above 0 and at most 1.
    pub fn cyclic_poisson(fraction: f64) -> Result<Self> {
        Kind::CyclicPoisson { fraction }.checked().map(Self)
    }

    /// Batches of one fixed size, each a uniform subset of all examples, or of the group of examples whose turn it is,
    /// with as many groups as the mechanism has bands. The fraction is the size of a batch over the number of
    /// examples, which is public: neighbours differ by one example that is
    /// [replaced](evertally::privacy::Neighbours::ReplaceOne).
    ///
    /// A loader that shuffles the data and visits every example once per epoch draws other batches: this guarantee does
    /// not hold for it.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon, Neighbours};
    /// use evertally_training::{Sampling, VectorRequest};
    /// let budget = Budget::Approximate(Epsilon::new(1.0)?, Delta::new(1e-5)?);
    /// let request = VectorRequest::new(200, budget, 1.0).with_mechanism("input".parse()?);
    /// let request = request.with_neighbours(Neighbours::ReplaceOne).with_sampling(Sampling::fixed_size(0.01)?);
    /// assert!(request.plan()?.sigma() > 1.0);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the fraction is not above 0 and at most 1.
    #[doc(alias = "without_replacement")]
    pub fn fixed_size(fraction: f64) -> Result<Self> {
        Kind::FixedSize { fraction }.checked().map(Self)
    }

    /// Cyclic Poisson sampling with a maximum batch: a larger batch loses examples at random until it has this size,
    /// so that a device needs memory for that many. `examples` is at least the number of examples. Without a maximum,
    /// the plan chooses one that costs a thousandth of δ.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon};
    /// use evertally_training::{Sampling, VectorRequest};
    /// let budget = Budget::Approximate(Epsilon::new(1.0)?, Delta::new(1e-5)?);
    /// let request = VectorRequest::new(200, budget, 1.0).with_mechanism("input".parse()?);
    /// let plan = request.with_sampling(Sampling::truncated_poisson(0.01, 10_000, None)?).plan()?;
    /// assert_eq!(plan.max_batch(), Some(173));
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the fraction is not above 0 and at most 1, or a number is 0.
    pub fn truncated_poisson(fraction: f64, examples: u64, max_batch: Option<u64>) -> Result<Self> {
        Kind::TruncatedPoisson { fraction, examples, max_batch }.checked().map(Self)
    }

    /// Random allocation: every example is allocated to one of the steps of an epoch at random, once, and takes part in
    /// that step of every epoch.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon};
    /// use evertally_training::{Sampling, VectorRequest};
    /// let budget = Budget::Approximate(Epsilon::new(8.0)?, Delta::new(1e-5)?);
    /// let request = VectorRequest::new(40, budget, 1.0).with_mechanism("blt(buffers=2)".parse()?);
    /// let plan = request.with_sampling(Sampling::random_allocation(20)?).plan()?;
    /// // Two epochs. Anyone who knows the allocation learns more:
    /// assert!(plan.sigma() < 0.9 * plan.sensitivity() / 1.6);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If an epoch has no steps.
    #[doc(alias = "balls_in_bins")]
    #[doc(alias = "in_bins")]
    pub fn random_allocation(steps_per_epoch: u64) -> Result<Self> {
        Kind::RandomAllocation { steps_per_epoch }.checked().map(Self)
    }

    /// Per-epoch random allocation: in every epoch, every example is allocated to one of its steps at random. The
    /// distance of its steps is at least the number of bands of the mechanism: then epochs hide each other's
    /// allocation.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon};
    /// use evertally_training::{Sampling, VectorRequest};
    /// let budget = Budget::Approximate(Epsilon::new(2.0)?, Delta::new(1e-5)?);
    /// let request = VectorRequest::new(80, budget, 1.0).with_mechanism("banded-sqrt(bands=2)".parse()?);
    /// let sigma = |sampling| Ok::<_, evertally::Error>(request.clone().with_sampling(sampling).plan()?.sigma());
    /// // Four epochs.
    /// let (per_epoch, once) = (Sampling::per_epoch_random_allocation(20)?, Sampling::random_allocation(20)?);
    /// assert!(sigma(per_epoch)? < 0.8 * sigma(once)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If an epoch has no steps.
    #[doc(alias = "in_fresh_bins")]
    pub fn per_epoch_random_allocation(steps_per_epoch: u64) -> Result<Self> {
        Kind::PerEpochRandomAllocation { steps_per_epoch }.checked().map(Self)
    }

    /// The scheme.
    pub fn scheme(self) -> SamplingScheme {
        match self.0 {
            Kind::Poisson { .. } => SamplingScheme::Poisson,
            Kind::CyclicPoisson { .. } => SamplingScheme::CyclicPoisson,
            Kind::RandomAllocation { .. } => SamplingScheme::RandomAllocation,
            Kind::PerEpochRandomAllocation { .. } => SamplingScheme::PerEpochRandomAllocation,
            Kind::FixedSize { .. } => SamplingScheme::FixedSize,
            Kind::TruncatedPoisson { .. } => SamplingScheme::TruncatedPoisson,
        }
    }

    /// The change of one example between neighbouring data sets that the guarantee is for.
    pub fn neighbours(self) -> Neighbours {
        match self.0 {
            Kind::FixedSize { .. } => Neighbours::ReplaceOne,
            _ => Neighbours::AddRemove,
        }
    }

    /// The expected share of all examples in a step.
    pub fn fraction(self) -> f64 {
        match self.0 {
            Kind::Poisson { fraction }
            | Kind::CyclicPoisson { fraction }
            | Kind::FixedSize { fraction }
            | Kind::TruncatedPoisson { fraction, .. } => fraction,
            Kind::RandomAllocation { steps_per_epoch } | Kind::PerEpochRandomAllocation { steps_per_epoch } => {
                1.0 / steps_per_epoch as f64
            }
        }
    }

    /// The number of steps in an epoch, with random allocation.
    pub fn steps_per_epoch(self) -> Option<u64> {
        match self.0 {
            Kind::RandomAllocation { steps_per_epoch } | Kind::PerEpochRandomAllocation { steps_per_epoch } => {
                Some(steps_per_epoch)
            }
            _ => None,
        }
    }

    /// The same in a plan, whose mechanism tells the number of groups: cyclic for Poisson sampling.
    pub(super) fn in_plan(self) -> Self {
        match self.0 {
            Kind::Poisson { fraction } => Self(Kind::CyclicPoisson { fraction }),
            _ => self,
        }
    }

    /// The same with the maximum batch that a plan with this many groups and steps chooses, if it has to.
    pub(super) fn with_chosen_maximum(self, groups: u64, horizon: u64, budget: &Budget) -> Self {
        match (self.0, budget) {
            (Kind::TruncatedPoisson { fraction, examples, max_batch: None }, Budget::Approximate(epsilon, delta)) => {
                let rounds = self.group_rounds(groups, horizon);
                let max_batch = rounds.map(|rounds| rounds.max_batch(*epsilon, *delta));
                Self(Kind::TruncatedPoisson { fraction, examples, max_batch })
            }
            _ => self,
        }
    }

    /// For truncated Poisson sampling: the rounds of the largest group.
    fn group_rounds(self, groups: u64, horizon: u64) -> Option<truncation::GroupRounds> {
        let Kind::TruncatedPoisson { examples, .. } = self.0 else { return None };
        let (examples, rounds) = (examples.div_ceil(groups), horizon.div_ceil(groups));
        Some(truncation::GroupRounds { examples, rate: self.rate(groups)?, rounds })
    }

    /// For truncated Poisson sampling: the maximum batch in a plan, and the largest number of examples.
    pub(super) fn truncation(self) -> Option<(u64, u64)> {
        match self.0 {
            Kind::TruncatedPoisson { examples, max_batch: Some(max_batch), .. } => Some((max_batch, examples)),
            _ => None,
        }
    }

    /// For batches of fixed size: their size for this many examples.
    pub(super) fn batch_size(self, examples: u64, groups: u64) -> Option<u64> {
        let Kind::FixedSize { .. } = self.0 else { return None };
        let group = examples / groups;
        let size = self.rate(groups)? * group as f64 * (1.0 + SIZE_ROOM / 2.0);
        Some((size as u64).min(group))
    }

    /// Rounds of one kind: with the rate of a group, and noise for an example that moves them by at most 1.
    pub(super) fn rounds_alike(self, rate: f64, noise: f64, times: u64) -> Result<SampledGaussian> {
        match self.0 {
            Kind::FixedSize { .. } => {
                SampledGaussian::without_replacement((rate * (1.0 + SIZE_ROOM)).min(1.0), noise, times)
            }
            _ => SampledGaussian::new(rate, noise, times),
        }
    }

    /// Whether every step is sampled separately.
    pub(super) fn is_by_step(self) -> bool {
        self.steps_per_epoch().is_none()
    }

    /// The probability that an example takes part in a step of its group, with this many groups: never above one.
    /// `None` if there are too many groups for the fraction, or for the scheme.
    pub fn rate(self, groups: u64) -> Option<f64> {
        if groups > 1 && self.scheme() == SamplingScheme::Poisson {
            return None;
        }
        let rate = self.fraction() * groups as f64;
        // Room for the rounding of a fraction such as 1/3.
        (rate <= 1.0 + 1e-12).then(|| rate.min(1.0))
    }

    /// The steps that an example may take part in, under a mechanism with this many bands: every step of its group, or
    /// that it is allocated to.
    pub(super) fn participation(self, horizon: u64, bands: u64) -> Participation {
        let (period, separation) = match self.0 {
            Kind::RandomAllocation { steps_per_epoch } => (steps_per_epoch, steps_per_epoch),
            Kind::PerEpochRandomAllocation { steps_per_epoch } => (steps_per_epoch, bands),
            _ => (bands, bands),
        };
        Participation::new(horizon.div_ceil(period).max(1), separation).expect("neither is 0")
    }

    /// The guarantee of a mechanism with sampling.
    ///
    /// # Errors
    /// If no bound is known for it, or it has more bands than the fraction allows groups.
    pub(super) fn guarantee(self, mechanism: &dyn Mechanism) -> Result<SamplingGuarantee> {
        match self.0 {
            Kind::RandomAllocation { steps_per_epoch } => allocation::guarantee(mechanism, steps_per_epoch),
            Kind::PerEpochRandomAllocation { steps_per_epoch } => per_epoch::guarantee(mechanism, steps_per_epoch),
            _ => self.rounds_of_groups(mechanism, None),
        }
    }

    /// The largest number of rounds of one example that the first steps touch: every step of its group, of an epoch, or
    /// of an epoch that begins at its phase.
    pub(super) fn rounds_through(self, steps: u64, horizon: u64) -> u64 {
        match self.0 {
            Kind::RandomAllocation { steps_per_epoch } => steps.div_ceil(steps_per_epoch),
            Kind::PerEpochRandomAllocation { steps_per_epoch } => {
                ((steps - 1).div_ceil(steps_per_epoch) + 1).min(horizon.div_ceil(steps_per_epoch))
            }
            _ => steps,
        }
    }

    /// The guarantee of the first `steps` of a horizon, for the mechanism of these steps (or of a whole epoch, if they
    /// are fewer) and the plan's number of groups.
    ///
    /// # Errors
    /// As [`guarantee`](Self::guarantee).
    pub(super) fn guarantee_of_first_steps(
        self,
        mechanism: &dyn Mechanism,
        (steps, horizon): (u64, u64),
        groups: u64,
    ) -> Result<SamplingGuarantee> {
        match self.0 {
            Kind::RandomAllocation { .. } => self.guarantee(mechanism),
            Kind::PerEpochRandomAllocation { steps_per_epoch } => {
                let rounds = self.rounds_through(steps, horizon);
                per_epoch::guarantee_in_rounds(mechanism, steps_per_epoch, rounds)
            }
            _ => self.rounds_of_groups(mechanism, Some(groups)),
        }
    }

    /// The composition of the rounds of one example, for as many groups as bands, or this many.
    fn rounds_of_groups(self, mechanism: &dyn Mechanism, groups: Option<u64>) -> Result<SamplingGuarantee> {
        let Some((count, rounds)) = kinds_of_rounds(mechanism, groups) else {
            return Err(Error::invalid(format!(
                "`{}` is not banded, and this library has no bound on its amplification by sampling; use {}, or plan \
                 without sampling",
                mechanism.name().brief(),
                banded_names(8)
            )));
        };
        if count > 1 && self.scheme() == SamplingScheme::Poisson {
            return Err(Error::invalid(format!(
                "`{}` has {count} bands, and Poisson sampling is accounted for with one; use cyclic Poisson sampling, \
                 in as many groups of examples as bands",
                mechanism.name().brief()
            )));
        }
        let Some(rate) = self.rate(count) else {
            return Err(Error::invalid(format!(
                "`{}` needs {count} groups of examples, but a batch is {} of all examples, more than a group: use at \
                 most {} bands",
                mechanism.name().brief(),
                self.fraction(),
                (1.0 / self.fraction()).floor().max(1.0)
            )));
        };
        let event = |(square, times): &(f64, u64)| self.rounds_alike(rate, (1.0 - 1e-14) / square.sqrt(), *times);
        let events: Vec<_> = rounds.iter().map(event).collect::<Result<_>>()?;
        let events = SampledGaussians::new(&events)?;
        Ok(match (self.truncation(), self.group_rounds(count, mechanism.horizon())) {
            (Some((max_batch, _)), Some(rounds)) => SamplingGuarantee::Truncated(events, rounds.overflow(max_batch)),
            _ => SamplingGuarantee::Rounds(events),
        })
    }
}

/// The number of groups, as many as bands or as given, and the rounds of an example by the squared length of their
/// longest column: rounds that differ by less than [`ALIKE_RATIO`] count as the longest of them. `None` if the
/// mechanism is not banded.
fn kinds_of_rounds(mechanism: &dyn Mechanism, groups: Option<u64>) -> Option<(u64, Vec<(f64, u64)>)> {
    // Independent noise has equal steps over any horizon.
    if let (Some(Streaming::Inputs), None | Some(1)) = (mechanism.streaming(), groups) {
        return Some((1, vec![(1.0, mechanism.horizon())]));
    }
    let Bands { count, squares } = mechanism.bands()?;
    let count = groups.unwrap_or(count);
    let rounds = squares.chunks(usize::try_from(count).unwrap_or(usize::MAX));
    let mut longest: Vec<f64> = rounds.map(|round| round.iter().copied().fold(0.0, f64::max)).collect();
    longest.sort_by(|a, b| b.total_cmp(a));
    let mut kinds: Vec<(f64, u64)> = vec![];
    for square in longest {
        match kinds.last_mut() {
            Some((first, times)) if *first <= ALIKE_RATIO * square => *times += 1,
            _ => kinds.push((square, 1)),
        }
    }
    Some((count, kinds))
}

/// The names of independent noise and of banded families with this many bands, for a message.
fn banded_names(bands: u64) -> String {
    let name = |family: &'static Family| match family.sampled {
        SampledUse::Always => family.open,
        SampledUse::Banded(banded) => Some((banded.with_bands)(bands)),
        SampledUse::AllocatedOnce | SampledUse::Never => None,
    };
    let mut names: Vec<String> =
        MechanismName::all_families().filter_map(name).map(|name| format!("`{name}`")).collect();
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
}
