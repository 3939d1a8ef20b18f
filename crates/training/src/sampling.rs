//! Who takes part in a step, drawn by lot: the promise is then stronger than the noise alone makes it.
//!
//! **Cyclic Poisson sampling.** Examples are dealt out to `G` groups by their number, and step `t` is that of group
//! `(t-1) mod G`: each of its examples takes part with probability `q`, independently of everything. With one group
//! that is Poisson sampling, as in DP-SGD. A plan says the **fraction** `p` of all examples that is expected in a step,
//! and `q = p G`.
//!
//! **The promise** (Choquette-Choo et al. 2023, arXiv 2306.08153, with proofs for every banded matrix). Let columns of
//! `R` that are `G` or more steps apart have no row in common ([`Bands`](evertally::mechanism::Bands)). An example can take
//! part in steps `t_1, t_2, …`, `G` apart: its column of one of them has its rows before those of the next. Given all
//! releases before step `t_r`, those of the rows `t_r … t_r + G - 1` differ between the two neighbouring data sets by
//! the example alone, which adds `v c_(t_r)`, `‖v‖ ≤ norm`, with probability `q` and nothing otherwise; `v` is known
//! from the past, and the others' vectors, whatever they depend on, are the same function of the releases on both
//! sides. So the log-likelihood ratio of these rows is that of one normal variable of standard deviation `σ` that is
//! moved by at most `norm · ‖c_(t_r)‖` with probability `q`, and by nothing otherwise: a Poisson-sampled Gaussian. (A
//! smaller move is post-processing of a larger one: shrink, and add normal noise.) Round after round they compose,
//! adaptively, and [`SampledGaussians`] bounds the composition from above. Every round counts with the longest column
//! of its steps, so that it does not matter in which group the example is.
//!
//! An example is **added or removed**: its number stays with it, and the groups of others do not change. The draws must
//! stay secret and be those of the key: [`Batches`](super::Batches) has them.
//!
//! **Bins** (random allocation, balls in bins). Every example is put into one of `b` bins by lot, once and for the
//! whole run; step `t` is that of bin `(t-1) mod b`: an example takes part once in every epoch of `b` steps, and only
//! its bin is secret. That needs no bands: the mechanism may be any with a row of `R` for every step. What it promises
//! is proven, and accounted for by [`RandomAllocation`]; [`bins`] has what an example of a bin moves.
//!
//! **Fresh bins.** Every example is put into a new bin in every epoch of `b` steps, such that its steps are at least as
//! many apart as the mechanism has bands: [`fresh`] has how, and what that promises.

mod bins;
mod fresh;

use crate::poisson_subsampling::{SampledGaussian, SampledGaussians};
use crate::random_allocation::RandomAllocation;
use evertally::mechanism::{Bands, Mechanism, Participation};
use evertally::privacy::{Budget, Delta, Epsilon};
use evertally::{Error, Result};
use serde::{Deserialize, Serialize};

/// Two rounds whose columns differ by less are counted as the longer one: of many rounds that is work saved.
const LIKE: f64 = 1.003;

/// How lots decide who takes part in a step; see the header of `sampling.rs`.
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally_training::{Sampling, VectorRequest};
/// let budget = Budget::Approximate(Epsilon::new(1.0)?, Delta::new(1e-5)?);
/// let request = VectorRequest::new(200, budget, 1.0).with_mechanism("input".parse()?);
/// let sampled = request.clone().with_sampling(Sampling::new(0.01)?).plan()?;
/// // Two of the 200 steps for an example, in expectation; whoever knew which would need six times the noise.
/// assert!(sampled.sigma() < request.plan()?.sigma());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawSampling", into = "RawSampling")]
pub struct Sampling {
    fraction: f64,
    lots: Lots,
}

/// When lots are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lots {
    EveryStep,
    /// Into so many bins.
    Once(u64),
    EveryEpoch(u64),
}

/// How it is written in files.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
enum RawSampling {
    Fraction(RawFraction),
    Bins(RawBins),
    FreshBins(RawFreshBins),
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFraction {
    fraction: f64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBins {
    bins: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFreshBins {
    fresh_bins: u64,
}

impl TryFrom<RawSampling> for Sampling {
    type Error = Error;
    fn try_from(raw: RawSampling) -> Result<Self> {
        match raw {
            RawSampling::Fraction(RawFraction { fraction }) => Self::new(fraction),
            RawSampling::Bins(RawBins { bins }) => Self::in_bins(bins),
            RawSampling::FreshBins(RawFreshBins { fresh_bins }) => Self::in_fresh_bins(fresh_bins),
        }
    }
}

impl From<Sampling> for RawSampling {
    fn from(sampling: Sampling) -> Self {
        match sampling.lots {
            Lots::EveryStep => Self::Fraction(RawFraction { fraction: sampling.fraction }),
            Lots::Once(bins) => Self::Bins(RawBins { bins }),
            Lots::EveryEpoch(bins) => Self::FreshBins(RawFreshBins { fresh_bins: bins }),
        }
    }
}

/// What lots promise of a mechanism, for noise of standard deviation 1 and vectors of norm 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Promise {
    /// The rounds of one example.
    Rounds(SampledGaussians),
    Bins(RandomAllocation),
}

impl Promise {
    /// The noise for (ε, δ), rounded up.
    pub(super) fn noise_for(&self, epsilon: Epsilon, delta: Delta) -> Result<f64> {
        match self {
            Self::Rounds(rounds) => rounds.certified_factor_for(epsilon, delta),
            Self::Bins(bins) => bins.certified_noise_for(epsilon, delta),
        }
    }

    /// About the same, sooner, and without certainty: to compare mechanisms.
    pub(super) fn likely_noise_for(&self, budget: &Budget) -> Option<f64> {
        let Budget::Approximate(epsilon, delta) = *budget else { return None };
        match self {
            Self::Rounds(rounds) => rounds.certified_factor_for(epsilon, delta).ok(),
            Self::Bins(bins) => Some(bins.likely_noise_for(epsilon, delta)),
        }
    }

    /// An ε with this noise, rounded up.
    pub(super) fn epsilon(&self, noise: f64, delta: Delta) -> Result<f64> {
        match self {
            Self::Rounds(rounds) => Ok(rounds.scaled(noise)?.epsilon(delta)),
            Self::Bins(bins) => bins.epsilon(noise, delta),
        }
    }
}

impl Sampling {
    /// The expected batch size over the number of examples, above 0 and at most 1.
    ///
    /// # Errors
    /// If it is not.
    pub fn new(fraction: f64) -> Result<Self> {
        if !(1e-12..=1.0).contains(&fraction) {
            return Err(Error::invalid(format!(
                "the sampled fraction is the expected batch size over the number of examples, from 1e-12 to 1, got {fraction}"
            )));
        }
        Ok(Self { fraction, lots: Lots::EveryStep })
    }

    /// Every example is put into one of so many bins by lot, once, and takes part in every epoch, in the step of its
    /// bin.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon};
    /// use evertally_training::{Sampling, VectorRequest};
    /// let budget = Budget::Approximate(Epsilon::new(8.0)?, Delta::new(1e-5)?);
    /// let request = VectorRequest::new(40, budget, 1.0).with_mechanism("blt(buffers=2)".parse()?);
    /// let plan = request.with_sampling(Sampling::in_bins(20)?).plan()?;
    /// // Two epochs. Whoever knows the bins knows more:
    /// assert!(plan.sigma() < 0.9 * plan.sensitivity() / 1.6);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no bin.
    pub fn in_bins(bins: u64) -> Result<Self> {
        Self::drawn(bins, Lots::Once(bins))
    }

    /// Every example is put into one of so many bins by lot, in every epoch anew, and takes part in the step of its bin.
    /// Between two of its steps are at least as many as the mechanism has bands: then epochs hide each other's bins.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon};
    /// use evertally_training::{Sampling, VectorRequest};
    /// let budget = Budget::Approximate(Epsilon::new(2.0)?, Delta::new(1e-5)?);
    /// let request = VectorRequest::new(80, budget, 1.0).with_mechanism("banded-sqrt(bands=2)".parse()?);
    /// let sigma = |sampling| Ok::<_, evertally::Error>(request.clone().with_sampling(sampling).plan()?.sigma());
    /// // Four epochs.
    /// assert!(sigma(Sampling::in_fresh_bins(20)?)? < 0.8 * sigma(Sampling::in_bins(20)?)?);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no bin.
    pub fn in_fresh_bins(bins: u64) -> Result<Self> {
        Self::drawn(bins, Lots::EveryEpoch(bins))
    }

    fn drawn(bins: u64, lots: Lots) -> Result<Self> {
        if bins == 0 {
            return Err(Error::invalid("examples are put into at least 1 bin: as many as an epoch has batches"));
        }
        Ok(Self { fraction: 1.0 / bins as f64, lots })
    }

    /// The expected share of all examples in a step.
    pub fn fraction(self) -> f64 {
        self.fraction
    }

    /// How many bins there are, where examples are put into bins once.
    pub fn bins(self) -> Option<u64> {
        match self.lots {
            Lots::Once(bins) => Some(bins),
            Lots::EveryStep | Lots::EveryEpoch(_) => None,
        }
    }

    /// How many bins there are, where examples are put into bins in every epoch anew.
    pub fn fresh_bins(self) -> Option<u64> {
        match self.lots {
            Lots::EveryEpoch(bins) => Some(bins),
            Lots::EveryStep | Lots::Once(_) => None,
        }
    }

    /// Whether lots are drawn for every step.
    pub(super) fn is_by_step(self) -> bool {
        self.lots == Lots::EveryStep
    }

    /// With what probability an example takes part in a step of its group, where there are so many groups: never above
    /// 1. `None` if they are too many for the fraction.
    pub fn rate(self, groups: u64) -> Option<f64> {
        let rate = self.fraction * groups as f64;
        // Room for the rounding of a fraction such as 1/3.
        (rate <= 1.0 + 1e-12).then(|| rate.min(1.0))
    }

    /// The steps that an example may take part in, under a mechanism of so many bands: every one of its group, or of its
    /// bin, or one in every epoch.
    pub(super) fn participation(self, horizon: u64, bands: u64) -> Participation {
        let (turn, apart) = match self.lots {
            Lots::EveryStep => (bands, bands),
            Lots::Once(bins) => (bins, bins),
            Lots::EveryEpoch(bins) => (bins, bands),
        };
        Participation::new(horizon.div_ceil(turn).max(1), apart).expect("neither is 0")
    }

    /// What lots promise of a mechanism.
    ///
    /// # Errors
    /// If nothing is known of it, or its bands are more than the fraction allows groups.
    pub(super) fn promise(self, mechanism: &dyn Mechanism) -> Result<Promise> {
        match self.lots {
            Lots::EveryStep => self.rounds(mechanism).map(Promise::Rounds),
            Lots::Once(bins) => bins::allocation(mechanism, bins).map(Promise::Bins),
            Lots::EveryEpoch(bins) => fresh::allocation(mechanism, bins).map(Promise::Bins),
        }
    }

    /// What the rounds of one example compose to.
    fn rounds(self, mechanism: &dyn Mechanism) -> Result<SampledGaussians> {
        let Some(Bands { count, squares }) = mechanism.bands() else {
            return Err(Error::invalid(format!(
                "`{}` is not banded, and no bound of this library says what sampling adds to it; take `input`, \
                 `epoch-bands(bands=8)` or `banded-sqrt(bands=8)`, or plan without sampling",
                mechanism.name().brief()
            )));
        };
        let Some(rate) = self.rate(count) else {
            return Err(Error::invalid(format!(
                "`{}` needs {count} groups of examples, and a batch is {} of all examples, more than a group: take at \
                 most {} bands",
                mechanism.name().brief(),
                self.fraction,
                (1.0 / self.fraction).floor().max(1.0)
            )));
        };
        let rounds = squares.chunks(usize::try_from(count).unwrap_or(usize::MAX));
        let mut longest: Vec<f64> = rounds.map(|round| round.iter().copied().fold(0.0, f64::max)).collect();
        longest.sort_by(|a, b| b.total_cmp(a));
        let like = |first: &f64, other: &f64| *first <= LIKE * other;
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
