//! The name of `endless`.

use super::optimum::MatrixDigest;
use super::parameters::Parameters;
use crate::{Error, Result};
use std::fmt;

/// The mechanism inside the epochs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inside {
    /// BLTs, for units with events in several steps under Gaussian noise.
    Plain,
    /// BLTs with columns of one length, for single events under Gaussian noise.
    Normalized,
    /// Trees, for Laplace noise.
    Trees,
    /// Hats, and trees after them, for Laplace noise.
    Hats,
}

impl Inside {
    /// All of them.
    const ALL: [Self; 4] = [Self::Plain, Self::Normalized, Self::Trees, Self::Hats];

    /// Whether the noise is Laplace noise.
    pub(in crate::mechanism) fn is_laplace(self) -> bool {
        matches!(self, Self::Trees | Self::Hats)
    }

    /// As in a name.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Normalized => "normalized",
            Self::Trees => "trees",
            Self::Hats => "hats",
        }
    }
}

impl fmt::Display for Inside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of an [`Endless`](crate::mechanism::Endless): `endless` or `endless(inside=hats)`, with a digest of
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

    /// With this mechanism inside.
    pub const fn with(inside: Inside) -> Self {
        Self { inside: Some(inside), digest: None }
    }

    pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<Self> {
        let inside = match parameters.take("inside") {
            None => None,
            Some(text) => Some(Inside::ALL.into_iter().find(|inside| inside.as_str() == text).ok_or_else(|| {
                Error::invalid(format!(
                    "`inside` of `{}` should be plain, normalized, trees or hats, got `{text}`",
                    parameters.stem
                ))
            })?),
        };
        Ok(Self { inside, digest: parameters.take("digest").map(str::parse).transpose()? })
    }
}

impl fmt::Display for EndlessChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inside = self.inside.map(|inside| format!("inside={inside}"));
        let parts: Vec<_> = inside.into_iter().chain(self.digest.map(|digest| format!("digest={digest}"))).collect();
        if parts.is_empty() { Ok(()) } else { write!(f, "({})", parts.join(",")) }
    }
}
