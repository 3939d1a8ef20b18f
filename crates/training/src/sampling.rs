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
//! **Random allocation** (balls in bins). Every example is allocated to one of the `b` steps of an epoch at random,
//! once for the whole run, and takes part in that step of every epoch; only that step is secret. That needs no bands:
//! any mechanism with a row of `R` for every step works. [`RandomAllocation`] proves and accounts for the guarantee;
//! [`allocation`] computes how far an example moves the rows.
//!
//! **Per-epoch random allocation.** Every example is allocated again in every epoch of `b` steps, so that the distance
//! of its steps is at least the number of bands of the mechanism. [`per_epoch`] describes this and its guarantee.

mod allocation;
mod per_epoch;

use crate::poisson_subsampling::{SampledGaussian, SampledGaussians};
use crate::random_allocation::RandomAllocation;
use evertally::mechanism::{Bands, Family, Mechanism, MechanismName, Participation, SampledUse};
use evertally::privacy::{Budget, Delta, Epsilon};
use evertally::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Rounds whose columns differ by less are all counted as the longest of them, which saves work if there are many
/// rounds.
const ALIKE_RATIO: f64 = 1.003;

/// How the examples of a step are sampled. Its names are used in plan files, in Python and in messages.
///
/// ```
/// use evertally_training::SamplingScheme;
/// let names = SamplingScheme::ALL.map(SamplingScheme::name);
/// assert_eq!(names, ["poisson", "cyclic-poisson", "random-allocation", "per-epoch-random-allocation"]);
/// assert_eq!("poisson".parse(), Ok(SamplingScheme::Poisson));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SamplingScheme {
    /// Every example takes part in every step with the same probability, independently: the sampling of DP-SGD.
    #[doc(alias = "Poisson subsampling")]
    Poisson,
    /// The same within a group of examples; groups take turns. One group is Poisson sampling.
    #[doc(alias = "lots")]
    CyclicPoisson,
    /// Every example is allocated to a step of the epoch once, and takes part in that step of every epoch.
    #[doc(alias = "balls in bins")]
    #[doc(alias = "bins")]
    RandomAllocation,
    /// Every example is allocated to a step again in every epoch, at least as many steps after its previous one as the
    /// mechanism has bands.
    #[doc(alias = "fresh bins")]
    #[doc(alias = "b-min-sep")]
    PerEpochRandomAllocation,
}

impl SamplingScheme {
    /// All schemes.
    pub const ALL: [Self; 4] =
        [Self::Poisson, Self::CyclicPoisson, Self::RandomAllocation, Self::PerEpochRandomAllocation];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::CyclicPoisson => "cyclic-poisson",
            Self::RandomAllocation => "random-allocation",
            Self::PerEpochRandomAllocation => "per-epoch-random-allocation",
        }
    }
}

impl fmt::Display for SamplingScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SamplingScheme {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        let known = || Self::ALL.map(|scheme| format!("`{scheme}`")).join(", ");
        let found = Self::ALL.into_iter().find(|scheme| scheme.name() == text);
        found.ok_or_else(|| Error::invalid(format!("sampling must be one of {}, got `{text}`", known())))
    }
}

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
#[serde(try_from = "RawSampling", into = "RawSampling")]
pub struct Sampling(Kind);

/// The kind of sampling, with numbers that were checked.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Poisson { fraction: f64 },
    CyclicPoisson { fraction: f64 },
    RandomAllocation { steps_per_epoch: u64 },
    PerEpochRandomAllocation { steps_per_epoch: u64 },
}

/// The form in files. The order of the variants is part of the digest of plans. Poisson sampling is cyclic Poisson
/// sampling in one group, and gives the same plans.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum RawSampling {
    CyclicPoisson { fraction: f64 },
    RandomAllocation { steps_per_epoch: u64 },
    PerEpochRandomAllocation { steps_per_epoch: u64 },
}

impl TryFrom<RawSampling> for Sampling {
    type Error = Error;
    fn try_from(raw: RawSampling) -> Result<Self> {
        match raw {
            RawSampling::CyclicPoisson { fraction } => Self::cyclic_poisson(fraction),
            RawSampling::RandomAllocation { steps_per_epoch } => Self::random_allocation(steps_per_epoch),
            RawSampling::PerEpochRandomAllocation { steps_per_epoch } => {
                Self::per_epoch_random_allocation(steps_per_epoch)
            }
        }
    }
}

impl From<Sampling> for RawSampling {
    fn from(Sampling(kind): Sampling) -> Self {
        match kind {
            Kind::Poisson { fraction } | Kind::CyclicPoisson { fraction } => Self::CyclicPoisson { fraction },
            Kind::RandomAllocation { steps_per_epoch } => Self::RandomAllocation { steps_per_epoch },
            Kind::PerEpochRandomAllocation { steps_per_epoch } => Self::PerEpochRandomAllocation { steps_per_epoch },
        }
    }
}

/// Checks a sampled fraction.
fn checked_fraction(fraction: f64) -> Result<f64> {
    if !(1e-12..=1.0).contains(&fraction) {
        return Err(Error::invalid(format!(
            "the sampled fraction is the expected batch size over the number of examples, from 1e-12 to 1, got \
             {fraction}"
        )));
    }
    Ok(fraction)
}

/// Checks the number of steps of an epoch.
fn checked_steps(steps_per_epoch: u64) -> Result<u64> {
    if steps_per_epoch == 0 {
        return Err(Error::invalid(
            "the number of steps per epoch must be at least 1: use the number of batches in an epoch",
        ));
    }
    Ok(steps_per_epoch)
}

/// The guarantee of a mechanism with sampling, for noise of standard deviation 1 and vectors of norm 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SamplingGuarantee {
    /// The rounds of one example.
    Rounds(SampledGaussians),
    /// The step, or steps, that one example is allocated to.
    Allocation(RandomAllocation),
}

impl SamplingGuarantee {
    /// The noise for (ε, δ), rounded up.
    pub(super) fn noise_for(&self, epsilon: Epsilon, delta: Delta) -> Result<f64> {
        match self {
            Self::Rounds(rounds) => rounds.certified_factor_for(epsilon, delta),
            Self::Allocation(allocation) => allocation.certified_noise_for(epsilon, delta),
        }
    }

    /// A faster estimate of the same, without certification: to compare mechanisms.
    pub(super) fn likely_noise_for(&self, budget: &Budget) -> Option<f64> {
        let Budget::Approximate(epsilon, delta) = *budget else { return None };
        match self {
            Self::Rounds(rounds) => rounds.certified_factor_for(epsilon, delta).ok(),
            Self::Allocation(allocation) => Some(allocation.likely_noise_for(epsilon, delta)),
        }
    }

    /// An ε with this noise, rounded up.
    pub(super) fn epsilon(&self, noise: f64, delta: Delta) -> Result<f64> {
        match self {
            Self::Rounds(rounds) => Ok(rounds.scaled(noise)?.epsilon(delta)),
            Self::Allocation(allocation) => allocation.epsilon(noise, delta),
        }
    }
}

impl Sampling {
    /// Poisson sampling: every example takes part in a step with this probability, independently. The mechanism must
    /// have one band, such as independent noise.
    ///
    /// # Errors
    /// If the fraction is not above 0 and at most 1.
    pub fn poisson(fraction: f64) -> Result<Self> {
        Ok(Self(Kind::Poisson { fraction: checked_fraction(fraction)? }))
    }

    /// Cyclic Poisson sampling with as many groups of examples as the mechanism has bands: one group is Poisson
    /// sampling. The fraction is the expected batch size over the number of examples.
    ///
    /// # Errors
    /// If the fraction is not above 0 and at most 1.
    pub fn cyclic_poisson(fraction: f64) -> Result<Self> {
        Ok(Self(Kind::CyclicPoisson { fraction: checked_fraction(fraction)? }))
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
        Ok(Self(Kind::RandomAllocation { steps_per_epoch: checked_steps(steps_per_epoch)? }))
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
        Ok(Self(Kind::PerEpochRandomAllocation { steps_per_epoch: checked_steps(steps_per_epoch)? }))
    }

    /// The scheme.
    pub fn scheme(self) -> SamplingScheme {
        match self.0 {
            Kind::Poisson { .. } => SamplingScheme::Poisson,
            Kind::CyclicPoisson { .. } => SamplingScheme::CyclicPoisson,
            Kind::RandomAllocation { .. } => SamplingScheme::RandomAllocation,
            Kind::PerEpochRandomAllocation { .. } => SamplingScheme::PerEpochRandomAllocation,
        }
    }

    /// The expected share of all examples in a step.
    pub fn fraction(self) -> f64 {
        match self.0 {
            Kind::Poisson { fraction } | Kind::CyclicPoisson { fraction } => fraction,
            Kind::RandomAllocation { steps_per_epoch } | Kind::PerEpochRandomAllocation { steps_per_epoch } => {
                1.0 / steps_per_epoch as f64
            }
        }
    }

    /// The number of steps in an epoch, with random allocation.
    pub fn steps_per_epoch(self) -> Option<u64> {
        match self.0 {
            Kind::Poisson { .. } | Kind::CyclicPoisson { .. } => None,
            Kind::RandomAllocation { steps_per_epoch } | Kind::PerEpochRandomAllocation { steps_per_epoch } => {
                Some(steps_per_epoch)
            }
        }
    }

    /// The same in a plan, whose mechanism tells the number of groups: cyclic for Poisson sampling.
    pub(super) fn in_plan(self) -> Self {
        match self.0 {
            Kind::Poisson { fraction } => Self(Kind::CyclicPoisson { fraction }),
            _ => self,
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
            Kind::Poisson { .. } | Kind::CyclicPoisson { .. } => (bands, bands),
            Kind::RandomAllocation { steps_per_epoch } => (steps_per_epoch, steps_per_epoch),
            Kind::PerEpochRandomAllocation { steps_per_epoch } => (steps_per_epoch, bands),
        };
        Participation::new(horizon.div_ceil(period).max(1), separation).expect("neither is 0")
    }

    /// The guarantee of a mechanism with sampling.
    ///
    /// # Errors
    /// If no bound is known for it, or it has more bands than the fraction allows groups.
    pub(super) fn guarantee(self, mechanism: &dyn Mechanism) -> Result<SamplingGuarantee> {
        match self.0 {
            Kind::Poisson { .. } | Kind::CyclicPoisson { .. } => self.rounds(mechanism).map(SamplingGuarantee::Rounds),
            Kind::RandomAllocation { steps_per_epoch } => {
                allocation::guarantee(mechanism, steps_per_epoch).map(SamplingGuarantee::Allocation)
            }
            Kind::PerEpochRandomAllocation { steps_per_epoch } => {
                per_epoch::guarantee(mechanism, steps_per_epoch).map(SamplingGuarantee::Allocation)
            }
        }
    }

    /// The largest number of rounds of one example that the first steps touch: every step of its group, of an epoch, or
    /// of an epoch that begins at its phase.
    pub(super) fn rounds_through(self, steps: u64, horizon: u64) -> u64 {
        match self.0 {
            Kind::Poisson { .. } | Kind::CyclicPoisson { .. } => steps,
            Kind::RandomAllocation { steps_per_epoch } => steps.div_ceil(steps_per_epoch),
            Kind::PerEpochRandomAllocation { steps_per_epoch } => {
                ((steps - 1).div_ceil(steps_per_epoch) + 1).min(horizon.div_ceil(steps_per_epoch))
            }
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
            Kind::Poisson { .. } | Kind::CyclicPoisson { .. } => {
                self.rounds_of_groups(mechanism, Some(groups)).map(SamplingGuarantee::Rounds)
            }
            Kind::RandomAllocation { .. } => self.guarantee(mechanism),
            Kind::PerEpochRandomAllocation { steps_per_epoch } => {
                let rounds = self.rounds_through(steps, horizon);
                per_epoch::guarantee_in_rounds(mechanism, steps_per_epoch, rounds).map(SamplingGuarantee::Allocation)
            }
        }
    }

    /// The composition of the rounds of one example.
    fn rounds(self, mechanism: &dyn Mechanism) -> Result<SampledGaussians> {
        self.rounds_of_groups(mechanism, None)
    }

    /// The same for at least as many groups as bands.
    fn rounds_of_groups(self, mechanism: &dyn Mechanism, groups: Option<u64>) -> Result<SampledGaussians> {
        let Some(Bands { count, squares }) = mechanism.bands() else {
            return Err(Error::invalid(format!(
                "`{}` is not banded, and this library has no bound on its amplification by sampling; use {}, or plan \
                 without sampling",
                mechanism.name().brief(),
                banded_names(8)
            )));
        };
        let count = groups.unwrap_or(count);
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
        let rounds = squares.chunks(usize::try_from(count).unwrap_or(usize::MAX));
        let mut longest: Vec<f64> = rounds.map(|round| round.iter().copied().fold(0.0, f64::max)).collect();
        longest.sort_by(|a, b| b.total_cmp(a));
        let like = |first: &f64, other: &f64| *first <= ALIKE_RATIO * other;
        let mut events = vec![];
        let mut rest = &longest[..];
        while let Some(first) = rest.first() {
            let alike = rest.iter().take_while(|other| like(first, other)).count();
            events.push(SampledGaussian::new(rate, (1.0 - 1e-14) / first.sqrt(), alike as u64)?);
            rest = &rest[alike..];
        }
        SampledGaussians::new(&events)
    }
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
