//! How a numerically optimised factorization is named.

use crate::mechanism::Objective;
use crate::mechanism::registry::Parameters;
use crate::{Error, Result};
use std::fmt;

/// How a numerically optimised factorization is named: `(objective=max,digest=01234567)`, or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Optimum {
    /// Which variance is minimised; `None` = as the figure at hand.
    pub objective: Option<Objective>,
    /// Digest of the matrix; `None` = whatever is found.
    pub digest: Option<u32>,
}

impl Optimum {
    /// Nothing is said.
    pub const OPEN: Self = Self { objective: None, digest: None };

    /// What was found.
    pub(in crate::mechanism) fn found(objective: Objective, digest: u32) -> Self {
        Self { objective: Some(objective), digest: Some(digest) }
    }

    /// The same without its digest.
    pub(in crate::mechanism) fn brief(self) -> Self {
        Self { digest: None, ..self }
    }

    /// Whether what was built is what is asked for, where an objective decides what is left open.
    pub(in crate::mechanism) fn is_answered_by(self, built: Self, objective: Objective) -> bool {
        built.objective == self.objective.or(Some(objective)) && (self.digest.is_none() || self.digest == built.digest)
    }

    pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<Self> {
        let objective = parameters.take("objective").map(str::parse).transpose()?;
        let digest = match parameters.take("digest") {
            None => None,
            Some(hex) => Some(u32::from_str_radix(hex, 16).map_err(|_| {
                Error::invalid(format!("`digest` of `{}` should be 8 hexadecimal digits, got `{hex}`", parameters.text))
            })?),
        };
        Ok(Self { objective, digest })
    }
}

impl fmt::Display for Optimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objective = self.objective.map(|objective| format!("objective={objective}"));
        let parts: Vec<_> =
            objective.into_iter().chain(self.digest.map(|digest| format!("digest={digest:08x}"))).collect();
        if parts.is_empty() { Ok(()) } else { write!(f, "({})", parts.join(",")) }
    }
}
