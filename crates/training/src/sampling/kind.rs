//! Kinds of sampling, with numbers that were checked, and their form in plan files.

use evertally::{Error, Result};
use serde::{Deserialize, Serialize};

/// The kind of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RawSampling", into = "RawSampling")]
pub(super) enum Kind {
    Poisson {
        fraction: f64,
    },
    CyclicPoisson {
        fraction: f64,
    },
    RandomAllocation {
        steps_per_epoch: u64,
    },
    PerEpochRandomAllocation {
        steps_per_epoch: u64,
    },
    FixedSize {
        fraction: f64,
    },
    /// In a plan, the maximum batch is chosen.
    TruncatedPoisson {
        fraction: f64,
        examples: u64,
        max_batch: Option<u64>,
    },
}

/// The form in files. The order of the variants is part of the digest of plans. Poisson sampling is cyclic Poisson
/// sampling in one group, and gives the same plans.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
enum RawSampling {
    CyclicPoisson { fraction: f64 },
    RandomAllocation { steps_per_epoch: u64 },
    PerEpochRandomAllocation { steps_per_epoch: u64 },
    FixedSize { fraction: f64 },
    TruncatedPoisson { fraction: f64, examples: u64, max_batch: Option<u64> },
}

impl TryFrom<RawSampling> for Kind {
    type Error = Error;
    fn try_from(raw: RawSampling) -> Result<Self> {
        match raw {
            RawSampling::CyclicPoisson { fraction } => Self::CyclicPoisson { fraction },
            RawSampling::RandomAllocation { steps_per_epoch } => Self::RandomAllocation { steps_per_epoch },
            RawSampling::PerEpochRandomAllocation { steps_per_epoch } => {
                Self::PerEpochRandomAllocation { steps_per_epoch }
            }
            RawSampling::FixedSize { fraction } => Self::FixedSize { fraction },
            RawSampling::TruncatedPoisson { fraction, examples, max_batch } => {
                Self::TruncatedPoisson { fraction, examples, max_batch }
            }
        }
        .checked()
    }
}

impl From<Kind> for RawSampling {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Poisson { fraction } | Kind::CyclicPoisson { fraction } => Self::CyclicPoisson { fraction },
            Kind::RandomAllocation { steps_per_epoch } => Self::RandomAllocation { steps_per_epoch },
            Kind::PerEpochRandomAllocation { steps_per_epoch } => Self::PerEpochRandomAllocation { steps_per_epoch },
            Kind::FixedSize { fraction } => Self::FixedSize { fraction },
            Kind::TruncatedPoisson { fraction, examples, max_batch } => {
                Self::TruncatedPoisson { fraction, examples, max_batch }
            }
        }
    }
}

impl Kind {
    /// The same, if its numbers are in range.
    pub(super) fn checked(self) -> Result<Self> {
        match self {
            Self::Poisson { fraction }
            | Self::CyclicPoisson { fraction }
            | Self::FixedSize { fraction }
            | Self::TruncatedPoisson { fraction, .. }
                if !(1e-12..=1.0).contains(&fraction) =>
            {
                Err(Error::invalid(format!(
                    "the sampled fraction is the expected batch size over the number of examples, from 1e-12 to 1, got \
                     {fraction}"
                )))
            }
            Self::RandomAllocation { steps_per_epoch: 0 } | Self::PerEpochRandomAllocation { steps_per_epoch: 0 } => {
                Err(Error::invalid(
                    "the number of steps per epoch must be at least 1: use the number of batches in an epoch",
                ))
            }
            Self::TruncatedPoisson { examples: 0, .. } | Self::TruncatedPoisson { max_batch: Some(0), .. } => {
                Err(Error::invalid("the number of examples and the maximum batch must be at least 1"))
            }
            _ => Ok(self),
        }
    }
}
