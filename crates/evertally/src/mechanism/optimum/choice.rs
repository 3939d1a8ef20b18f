//! How a numerically optimised factorization is named.

use crate::mechanism::Objective;
use crate::mechanism::registry::Parameters;
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

/// The digest of a matrix, as plans name it: 128 bits, 32 hexadecimal digits.
///
/// Noise is named by the digest of the plan, which names the matrix by this. So it must be out of reach to find two
/// matrices with one digest: both would be released with the same noise, and each is another equation for the data.
/// Plans of earlier versions have 8 digits. They are read, and keep their names and their noise, but 32 bits choose
/// among nothing: such a name stands for the one matrix that this program computes, and never for one from a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixDigest {
    /// 128 bits, or 32.
    bits: u128,
    is_short: bool,
}

impl MatrixDigest {
    /// The first 128 bits of a hash.
    pub(in crate::mechanism) fn of(hash: &blake3::Hash) -> Self {
        Self { bits: u128::from_be_bytes(hash.as_bytes()[..16].try_into().expect("16 of 32 bytes")), is_short: false }
    }

    /// The first 32 bits, as earlier versions named the same matrix.
    pub fn shortened(self) -> Self {
        if self.is_short { self } else { Self { bits: self.bits >> 96, is_short: true } }
    }

    /// Whether it has 32 bits only.
    pub fn is_short(self) -> bool {
        self.is_short
    }

    /// Whether this is a name of the matrix with the other, whole digest.
    pub(in crate::mechanism) fn names(self, whole: Self) -> bool {
        self == whole || self.is_short && self == whole.shortened()
    }
}

impl FromStr for MatrixDigest {
    type Err = Error;

    fn from_str(hex: &str) -> Result<Self> {
        let digits = hex.bytes().all(|digit| digit.is_ascii_hexdigit());
        match hex.len() {
            8 | 32 if digits => Ok(Self {
                bits: u128::from_str_radix(hex, 16).expect("at most 32 hexadecimal digits"),
                is_short: hex.len() == 8,
            }),
            _ => Err(Error::invalid(format!("a digest should be 32 (or 8) hexadecimal digits, got `{hex}`"))),
        }
    }
}

impl fmt::Display for MatrixDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_short { write!(f, "{:08x}", self.bits) } else { write!(f, "{:032x}", self.bits) }
    }
}

/// How a numerically optimised factorization is named: `(objective=max,digest=0123456789abcdef0123456789abcdef)`, or
/// less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Optimum {
    /// Which variance is minimised; `None` = as the figure at hand.
    pub objective: Option<Objective>,
    /// Digest of the matrix; `None` = whatever is found.
    pub digest: Option<MatrixDigest>,
}

impl Optimum {
    /// Nothing is said.
    pub const OPEN: Self = Self { objective: None, digest: None };

    /// What was found.
    pub(in crate::mechanism) fn found(objective: Objective, digest: MatrixDigest) -> Self {
        Self { objective: Some(objective), digest: Some(digest) }
    }

    /// The same without its digest.
    pub(in crate::mechanism) fn brief(self) -> Self {
        Self { digest: None, ..self }
    }

    /// Whether what was built is what is asked for, where an objective decides what is left open. A short digest names
    /// nothing that was built elsewhere.
    pub(in crate::mechanism) fn is_answered_by(self, built: Self, objective: Objective) -> bool {
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
