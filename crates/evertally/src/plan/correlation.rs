//! Correlated noise of declared groups: for people who are in many groups.
//!
//! With independent noise, a person with an event in each of `d` groups of one step needs `d` times the variance of a
//! person in one group. Let the noise of a node of group `g` instead be `z_g + z_0`, with discrete Gaussian `z_g` of
//! parameter `κσ²` and `z_0`, the same in all groups, of parameter `σ²`. The variance of a group is `(κ + 1) σ²`, that
//! of the total over all groups `(κ + d) d σ²`, that of the difference of two groups `2κσ²`.
//!
//! **The cost of one unit.** Let one unit's change move node `n` of group `g` by the whole number `s_gn` of steps of
//! the noise grid. For any whole number `c_n` the noisy nodes `z_gn + z_0n + s_gn` are a function of the `d + 1` noisy
//! numbers `z_gn + (s_gn - c_n)` and `z_0n + c_n`: releasing them all reveals no less. Each of these is shifted by a
//! whole number, so that the noisy nodes have the Rényi divergence of a shift whose squared norm, in units of `σ²`, is
//!
//! ```text
//! W = Σ_n min_c ( Σ_g (s_gn - c)²/κ + c² ).
//! ```
//!
//! The real minimum is at `c = γ S_n` for `S_n = Σ_g s_gn`, `γ = 1/(κ + d)`, and is `(Σ_g s_gn² - γ S_n²)/κ`. The
//! nearest whole number adds at most `(d/κ + 1)/4` for each node that is moved, and never more than `|S_n|/(2κ)`: with
//! `x` the distance from `γ S_n`, `(d/κ + 1) x²` is at most `(d/κ + 1) |x| / 2`, and `|x| ≤ γ |S_n|`. On a grid that is
//! `r` times finer than the data's all `s_gn` are multiples of `r`, so that at most `Σ s_gn²/r²` nodes are moved, and
//! the rounding costs at most the part `(κ + d)/(4r²)`: nothing, for a large `r`.
//!
//! **(ε, δ).** The comparison with continuous noise of [`loss`](crate::privacy::loss) rounds each coordinate on its
//! own. A coordinate of parameter `κσ²`, `κ ≥ 1`, leaves `κσ² - s² ≥ κ (σ² - s²)`, so that `μ² ≤ W/(σ² - s²)`, as if
//! all coordinates had the parameter `σ²`; the number of shifted coordinates is at most `κW`.
//!
//! **Adaptive data.** `c_n` may depend on the shifts of node `n` alone, which are known when the node is read; `W` is
//! a sum over nodes and is bounded for every pattern, so that the arguments for independent noise apply.
//!
//! The bound of `W` over all changes of a unit is in [`shift`], the choice of `κ` in [`search`].

pub(super) mod search;
pub(super) mod shift;

use crate::noise::{DiscreteGaussian, DiscreteLaw};
use crate::number::exact::Exact;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};

/// The errors that correlated noise of groups is to lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupAim {
    /// That of each group. Totals over groups get worse.
    Groups,
    /// Those of each group and of the total over all groups: the mean of both variances, each in units of that of
    /// independent noise.
    Both,
    /// That of the total over all groups: independent noise is best.
    Total,
}

/// How the noise of a stream's groups is correlated: each node has noise for its group alone and noise that is common
/// to all groups.
///
/// ```
/// use evertally::plan::{GroupAim, PlanRequest};
/// use evertally::privacy::{Budget, Rho, Unit};
/// // People who visit any of ten shops, counted by shop and day; the visits of one day are protected.
/// let person = Unit::person(10).per_group(1).in_groups(10).per_period(1);
/// let request = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?)).with_unit(person);
/// let independent = request.clone().plan()?;
/// let plan = request.with_groups(10, GroupAim::Groups).plan()?;
/// assert!(plan.max_std_error() < 0.66 * independent.max_std_error());
/// let correlation = plan.correlation().expect("it has less error");
/// assert!(correlation.total_factor() > 3.0 && correlation.difference_factor() < 0.8);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawCorrelation", into = "RawCorrelation")]
pub struct Correlation {
    groups: u64,
    /// `8κ`.
    own_eighths: u64,
}

/// How it is written in files.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCorrelation {
    groups: u64,
    own_eighths: u64,
}

impl TryFrom<RawCorrelation> for Correlation {
    type Error = Error;
    fn try_from(raw: RawCorrelation) -> Result<Self> {
        Self::new(raw.groups, raw.own_eighths)
    }
}

impl From<Correlation> for RawCorrelation {
    fn from(Correlation { groups, own_eighths }: Correlation) -> Self {
        Self { groups, own_eighths }
    }
}

impl Correlation {
    /// Most groups.
    const MAX_GROUPS: u64 = 1 << 32;

    /// Noise of this many groups, at least 2, whose own variance is this many eighths of the common one, at least 8.
    pub(super) fn new(groups: u64, own_eighths: u64) -> Result<Self> {
        if !(2..=Self::MAX_GROUPS).contains(&groups) || !(8..=64 * Self::MAX_GROUPS).contains(&own_eighths) {
            return Err(Error::invalid(format!(
                "noise is correlated between 2 to 2^32 groups, and a group's own variance is at least that of the \
                 common noise; got {groups} groups and {own_eighths} eighths"
            )));
        }
        Ok(Self { groups, own_eighths })
    }

    /// The number of groups, which is fixed: all of them are declared before the first step.
    pub fn groups(self) -> u64 {
        self.groups
    }

    /// `κ`: the variance of a group's own noise over that of the common noise.
    pub fn own_over_common(self) -> f64 {
        self.own_eighths as f64 / 8.0
    }

    /// The correlation coefficient of the releases of two groups in one step.
    pub fn coefficient(self) -> f64 {
        1.0 / (self.own_over_common() + 1.0)
    }

    /// The variance of the total over all groups, over that of as many independent values with the variance of a group.
    pub fn total_factor(self) -> f64 {
        (self.own_over_common() + self.groups as f64) / (self.own_over_common() + 1.0)
    }

    /// The same for the difference of two groups.
    pub fn difference_factor(self) -> f64 {
        self.own_over_common() / (self.own_over_common() + 1.0)
    }

    /// `γ`.
    fn gamma(self) -> f64 {
        1.0 / (self.own_over_common() + self.groups as f64)
    }

    /// The law of a group's own noise if this is the parameter of the common one, rounded up.
    pub(super) fn own_law(self, common: &DiscreteGaussian) -> Result<DiscreteLaw> {
        let parameter = Exact::from(common.parameter()).times(&Exact::from(u128::from(self.own_eighths)));
        Ok(DiscreteGaussian::new(parameter.over(&Exact::from(8)).rounded_up()?)?.into())
    }

    /// The part by which rounding to the noise grid grows `κW`, for each node that is moved: `(d + κ)/4`.
    pub(super) fn rounding(self) -> f64 {
        (self.groups as f64 + self.own_over_common()) / 4.0
    }

    /// The variance to be made small, in units of that of the common noise; that of independent noise is 1 in units of
    /// its own.
    pub(super) fn figure(self, aim: GroupAim) -> f64 {
        let (own, groups) = (self.own_over_common(), self.groups as f64);
        match aim {
            GroupAim::Groups => own + 1.0,
            GroupAim::Both => own + (1.0 + groups) / 2.0,
            GroupAim::Total => own + groups,
        }
    }
}

/// The request for the noise of groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum GroupChoice {
    /// The best for this many groups.
    Best(u64, GroupAim),
    /// As in a plan.
    Fixed(Correlation),
}

#[cfg(test)]
mod tests;
