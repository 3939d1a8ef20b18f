//! The names of sampling schemes.

use evertally::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// How the examples of a step are sampled. Its names are used in plan files, in Python and in messages.
///
/// ```
/// use evertally_training::SamplingScheme;
/// let names = SamplingScheme::ALL.map(SamplingScheme::name);
/// assert_eq!(names[..3], ["poisson", "cyclic-poisson", "random-allocation"]);
/// assert_eq!(names[3..], ["per-epoch-random-allocation", "fixed-size", "truncated-poisson"]);
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
    /// Every batch is a uniform subset of the examples, or of the group whose turn it is, of one fixed size.
    #[doc(alias = "without replacement")]
    FixedSize,
    /// (Cyclic) Poisson sampling with a maximum batch: larger batches lose examples at random.
    TruncatedPoisson,
}

impl SamplingScheme {
    /// All schemes.
    pub const ALL: [Self; 6] = [
        Self::Poisson,
        Self::CyclicPoisson,
        Self::RandomAllocation,
        Self::PerEpochRandomAllocation,
        Self::FixedSize,
        Self::TruncatedPoisson,
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::CyclicPoisson => "cyclic-poisson",
            Self::RandomAllocation => "random-allocation",
            Self::PerEpochRandomAllocation => "per-epoch-random-allocation",
            Self::FixedSize => "fixed-size",
            Self::TruncatedPoisson => "truncated-poisson",
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
