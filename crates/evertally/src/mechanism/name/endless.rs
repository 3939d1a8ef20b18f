//! The name of `endless`.

use super::optimum::MatrixDigest;
use super::parameters::Parameters;
use crate::mechanism::Participation;
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
    /// Buffers whose memory grows with the stream, for any unit under Gaussian noise.
    Growing,
}

impl Inside {
    /// All of them.
    const ALL: [Self; 5] = [Self::Plain, Self::Normalized, Self::Trees, Self::Hats, Self::Growing];

    /// Their number.
    pub(in crate::mechanism) const COUNT: usize = Self::ALL.len();

    /// Whether the noise is Laplace noise.
    pub(in crate::mechanism) fn is_laplace(self) -> bool {
        matches!(self, Self::Trees | Self::Hats)
    }

    /// As in a name.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Normalized => "normalized",
            Self::Growing => "growing",
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
    /// For [`Inside::Growing`]: the steps with events of the unit that it is for; `None` = those of the unit.
    pub runs: Option<Participation>,
    /// Digest of all weights and buffers.
    pub digest: Option<MatrixDigest>,
}

impl EndlessChoice {
    /// Everything open.
    pub const OPEN: Self = Self { inside: None, runs: None, digest: None };

    /// With this mechanism inside.
    pub const fn with(inside: Inside) -> Self {
        Self { inside: Some(inside), runs: None, digest: None }
    }

    /// With growing buffers for units with events in these steps.
    pub const fn growing(runs: Participation) -> Self {
        Self { inside: Some(Inside::Growing), runs: Some(runs), digest: None }
    }

    pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<Self> {
        let inside = match parameters.take("inside") {
            None => None,
            Some(text) => Some(Inside::ALL.into_iter().find(|inside| inside.as_str() == text).ok_or_else(|| {
                Error::invalid(format!(
                    "`inside` of `{}` should be plain, normalized, growing, trees or hats, got `{text}`",
                    parameters.stem
                ))
            })?),
        };
        let runs = match (parameters.number("run")?, parameters.number("gap")?) {
            (None, None) => None,
            (run, gap) => Some(Participation::new(run.unwrap_or(1), gap.unwrap_or(1))?),
        };
        if runs.is_some() && inside != Some(Inside::Growing) {
            return Err(Error::invalid(format!("`run` and `gap` of `{}` need `inside=growing`", parameters.stem)));
        }
        Ok(Self { inside, runs, digest: parameters.take("digest").map(str::parse).transpose()? })
    }
}

impl fmt::Display for EndlessChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inside = self.inside.map(|inside| format!("inside={inside}"));
        let run = self.runs.map(|runs| format!("run={}", runs.most()));
        let gap = self.runs.filter(|runs| runs.separation() > 1).map(|runs| format!("gap={}", runs.separation()));
        let digest = self.digest.map(|digest| format!("digest={digest}"));
        let parts: Vec<_> = inside.into_iter().chain(run).chain(gap).chain(digest).collect();
        if parts.is_empty() { Ok(()) } else { write!(f, "({})", parts.join(",")) }
    }
}
