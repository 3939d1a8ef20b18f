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
//! **Bins** (random allocation, balls in bins). Every example is put into one of `b` bins at random, once for the whole
//! run; step `t` belongs to bin `(t-1) mod b`. An example takes part once in every epoch of `b` steps, and only its bin
//! is secret. That needs no bands: any mechanism with a row of `R` for every step works. [`RandomAllocation`] proves
//! and accounts for the guarantee; [`bins`] computes what an example of a bin moves.
//!
//! **Fresh bins** (per-epoch random allocation). Every example is put into a new bin in every epoch of `b` steps, so
//! that the distance of its steps is at least the number of bands of the mechanism. [`fresh`] describes this and its
//! guarantee.

mod bins;
mod fresh;

use crate::poisson_subsampling::{SampledGaussian, SampledGaussians};
use crate::random_allocation::RandomAllocation;
use evertally::mechanism::{Bands, Mechanism, Participation};
use evertally::privacy::{Budget, Delta, Epsilon};
use evertally::{Error, Result};
use serde::{Deserialize, Serialize};

/// Rounds whose columns differ by less are all counted as the longest of them, which saves work if there are many
/// rounds.
const LIKE: f64 = 1.003;

/// The sampling scheme of the examples of a step; see the header of `vector/sampling.rs`.
///
/// ```
/// use evertally::privacy::{Budget, Delta, Epsilon};
/// use evertally_training::{Sampling, VectorRequest};
/// let budget = Budget::Approximate(Epsilon::new(1.0)?, Delta::new(1e-5)?);
/// let request = VectorRequest::new(200, budget, 1.0).with_mechanism("input".parse()?);
/// let sampled = request.clone().with_sampling(Sampling::new(0.01)?).plan()?;
/// // An example takes part in 2 of 200 steps in expectation; known steps would need six times the noise.
/// assert!(sampled.sigma() < request.plan()?.sigma());
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawSampling", into = "RawSampling")]
pub struct Sampling {
    fraction: f64,
    lots: Lots,
}

/// The kind of sampling.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lots {
    EveryStep,
    /// Into this many bins.
    Once(u64),
    EveryEpoch(u64),
}

/// Its form in files.
/// The form of sampling in files.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RawSampling {
    Fraction(f64),
    Bins(u64),
    FreshBins(u64),
}

impl TryFrom<RawSampling> for Sampling {
    type Error = Error;
    fn try_from(raw: RawSampling) -> Result<Self> {
        match raw {
            RawSampling::Fraction(fraction) => Self::new(fraction),
            RawSampling::Bins(bins) => Self::in_bins(bins),
            RawSampling::FreshBins(fresh_bins) => Self::in_fresh_bins(fresh_bins),
        }
    }
}

impl From<Sampling> for RawSampling {
    fn from(sampling: Sampling) -> Self {
        match sampling.lots {
            Lots::EveryStep => Self::Fraction(sampling.fraction),
            Lots::Once(bins) => Self::Bins(bins),
            Lots::EveryEpoch(bins) => Self::FreshBins(bins),
        }
    }
}

/// The guarantee of a mechanism with sampling, for noise of standard deviation 1 and vectors of norm 1.
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

    /// A faster estimate of the same, without certification: to compare mechanisms.
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
    /// If it is out of that range.
    pub fn new(fraction: f64) -> Result<Self> {
        if !(1e-12..=1.0).contains(&fraction) {
            return Err(Error::invalid(format!(
                "the sampled fraction is the expected batch size over the number of examples, from 1e-12 to 1, got {fraction}"
            )));
        }
        Ok(Self { fraction, lots: Lots::EveryStep })
    }

    /// Random allocation: every example is put into one of `bins` bins at random, once, and takes part in every epoch,
    /// in the step of its bin.
    ///
    /// ```
    /// use evertally::privacy::{Budget, Delta, Epsilon};
    /// use evertally_training::{Sampling, VectorRequest};
    /// let budget = Budget::Approximate(Epsilon::new(8.0)?, Delta::new(1e-5)?);
    /// let request = VectorRequest::new(40, budget, 1.0).with_mechanism("blt(buffers=2)".parse()?);
    /// let plan = request.with_sampling(Sampling::in_bins(20)?).plan()?;
    /// // Two epochs. Anyone who knows the bins learns more:
    /// assert!(plan.sigma() < 0.9 * plan.sensitivity() / 1.6);
    /// # Ok::<(), evertally::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `bins` is 0.
    pub fn in_bins(bins: u64) -> Result<Self> {
        Self::drawn(bins, Lots::Once(bins))
    }

    /// Per-epoch random allocation: in every epoch, every example is put into one of `bins` bins at random, and takes
    /// part in the step of its bin. The distance of its steps is at least the number of bands of the mechanism: then
    /// epochs hide each other's bins.
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
    /// If `bins` is 0.
    pub fn in_fresh_bins(bins: u64) -> Result<Self> {
        Self::drawn(bins, Lots::EveryEpoch(bins))
    }

    fn drawn(bins: u64, lots: Lots) -> Result<Self> {
        if bins == 0 {
            return Err(Error::invalid("the number of bins must be at least 1: use the number of batches in an epoch"));
        }
        Ok(Self { fraction: 1.0 / bins as f64, lots })
    }

    /// The expected share of all examples in a step.
    pub fn fraction(self) -> f64 {
        self.fraction
    }

    /// The number of bins, if examples are put into bins once.
    pub fn bins(self) -> Option<u64> {
        match self.lots {
            Lots::Once(bins) => Some(bins),
            Lots::EveryStep | Lots::EveryEpoch(_) => None,
        }
    }

    /// The number of bins, if examples are put into bins again in every epoch.
    pub fn fresh_bins(self) -> Option<u64> {
        match self.lots {
            Lots::EveryEpoch(bins) => Some(bins),
            Lots::EveryStep | Lots::Once(_) => None,
        }
    }

    /// Whether every step is sampled separately.
    pub(super) fn is_by_step(self) -> bool {
        self.lots == Lots::EveryStep
    }

    /// The probability that an example takes part in a step of its group, with this many groups: never above one.
    /// `None` if there are too many groups for the fraction.
    pub fn rate(self, groups: u64) -> Option<f64> {
        let rate = self.fraction * groups as f64;
        // Room for the rounding of a fraction such as 1/3.
        (rate <= 1.0 + 1e-12).then(|| rate.min(1.0))
    }

    /// The steps that an example may take part in, under a mechanism with this many bands: every step of its group, or
    /// of its bin, or one in every epoch.
    pub(super) fn participation(self, horizon: u64, bands: u64) -> Participation {
        let (turn, apart) = match self.lots {
            Lots::EveryStep => (bands, bands),
            Lots::Once(bins) => (bins, bins),
            Lots::EveryEpoch(bins) => (bins, bands),
        };
        Participation::new(horizon.div_ceil(turn).max(1), apart).expect("neither is 0")
    }

    /// The guarantee of a mechanism with sampling.
    ///
    /// # Errors
    /// If no bound is known for it, or it has more bands than the fraction allows groups.
    pub(super) fn promise(self, mechanism: &dyn Mechanism) -> Result<Promise> {
        match self.lots {
            Lots::EveryStep => self.rounds(mechanism).map(Promise::Rounds),
            Lots::Once(bins) => bins::allocation(mechanism, bins).map(Promise::Bins),
            Lots::EveryEpoch(bins) => fresh::allocation(mechanism, bins).map(Promise::Bins),
        }
    }

    /// The composition of the rounds of one example.
    fn rounds(self, mechanism: &dyn Mechanism) -> Result<SampledGaussians> {
        let Some(Bands { count, squares }) = mechanism.bands() else {
            return Err(Error::invalid(format!(
                "`{}` is not banded, and this library has no bound on its amplification by sampling; use `input`, \
                 `epoch-bands(bands=8)` or `banded-sqrt(bands=8)`, or plan without sampling",
                mechanism.name().brief()
            )));
        };
        let Some(rate) = self.rate(count) else {
            return Err(Error::invalid(format!(
                "`{}` needs {count} groups of examples, but a batch is {} of all examples, more than a group: use at \
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
