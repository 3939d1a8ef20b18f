//! The name of `endless`.

use super::optimum::MatrixDigest;

/// The mechanism inside the epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inside {
    /// BLTs, for units with events in several steps under Gaussian noise.
    Plain,
    /// BLTs with columns of one length, for single events under Gaussian noise.
    Normalized,
    /// Trees, for Laplace noise: `endless-trees`.
    Trees,
    /// Hats, and trees after them, for Laplace noise: `endless-hats`.
    Hats,
}

impl Inside {
    /// Whether the noise is Laplace noise.
    pub(in crate::mechanism) fn is_laplace(self) -> bool {
        matches!(self, Self::Trees | Self::Hats)
    }
}

/// The name of an [`Endless`](crate::mechanism::Endless): `endless`, `endless(inside=plain)`, with a digest of
/// everything inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EndlessChoice {
    /// `None` = chosen for the noise distribution and the unit.
    pub inside: Option<Inside>,
    /// Digest of all weights and buffers.
    pub digest: Option<MatrixDigest>,
}

impl EndlessChoice {
    /// Everything open.
    pub const OPEN: Self = Self { inside: None, digest: None };
}
