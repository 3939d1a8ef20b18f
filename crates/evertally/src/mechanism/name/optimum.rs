//! The names of numerically optimised factorizations.

use super::parameters::Parameters;
use crate::mechanism::Objective;
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The digest of a matrix, as plans name it: 128 bits, 32 hexadecimal digits.
///
/// Noise is derived from the digest of the plan, which names the matrix by this digest. So it must be infeasible to
/// find two matrices with one digest: both would be released with the same noise, and each is another equation for the
/// data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixDigest(u128);

impl MatrixDigest {
    /// The first 128 bits of a hash.
    pub(in crate::mechanism) fn new(hash: &blake3::Hash) -> Self {
        Self(u128::from_be_bytes(hash.as_bytes()[..16].try_into().expect("16 of 32 bytes")))
    }

    /// Refuses a matrix with this digest if a name asks for another one. `matrix` names it in the message.
    pub(in crate::mechanism) fn check(self, wanted: Option<Self>, matrix: &str) -> Result<()> {
        match wanted {
            Some(wanted) if wanted != self => Err(Error::invalid(format!(
                "{matrix} that this version finds for this request has the digest {self}, not {wanted}; use the \
                 version that made the plan and the same request, or omit the digest for a new plan"
            ))),
            _ => Ok(()),
        }
    }
}

impl FromStr for MatrixDigest {
    type Err = Error;

    fn from_str(hex: &str) -> Result<Self> {
        let is_hex = hex.len() == 32 && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
        match u128::from_str_radix(hex, 16) {
            Ok(bits) if is_hex => Ok(Self(bits)),
            _ => Err(Error::invalid(format!("a digest has 32 hexadecimal digits, got `{hex}`"))),
        }
    }
}

impl fmt::Display for MatrixDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The name of a numerically optimised factorization: `(objective=max,digest=0123456789abcdef0123456789abcdef)`, or
/// less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Optimum {
    /// Which variance is minimised; `None` = as the criterion in use.
    pub objective: Option<Objective>,
    /// Digest of the matrix; `None` = any matrix that is found.
    pub digest: Option<MatrixDigest>,
}

impl Optimum {
    /// Everything open.
    pub const OPEN: Self = Self { objective: None, digest: None };

    /// The result of a search.
    pub(in crate::mechanism) fn found(objective: Objective, digest: MatrixDigest) -> Self {
        Self { objective: Some(objective), digest: Some(digest) }
    }

    /// The same without its digest.
    pub(in crate::mechanism) fn brief(self) -> Self {
        Self { digest: None, ..self }
    }

    /// Whether a built mechanism matches the request, if an objective decides the open parameters.
    pub(in crate::mechanism) fn matches_request(self, built: Self, objective: Objective) -> bool {
        built.objective == self.objective.or(Some(objective)) && (self.digest.is_none() || self.digest == built.digest)
    }

    pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<Self> {
        let objective = parameters.take("objective").map(str::parse).transpose()?;
        let digest = match parameters.take("digest") {
            None => None,
            Some(hex) => Some(hex.parse().map_err(|_| {
                Error::invalid(format!(
                    "`digest` of `{}` should be 32 hexadecimal digits, got `{hex}`",
                    parameters.text
                ))
            })?),
        };
        Ok(Self { objective, digest })
    }
}

impl fmt::Display for Optimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objective = self.objective.map(|objective| format!("objective={objective}"));
        let parts: Vec<_> = objective.into_iter().chain(self.digest.map(|digest| format!("digest={digest}"))).collect();
        if parts.is_empty() { Ok(()) } else { write!(f, "({})", parts.join(",")) }
    }
}
