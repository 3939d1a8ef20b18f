//! The shape in the name of a smooth tree.

use super::parameters::Parameters;
use crate::{Error, Result};
use std::fmt;

/// The shape of a [smooth](crate::mechanism::Smooth) binary tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShapeChoice {
    /// The best for the criterion in use.
    Best,
    /// The published one: the least even height with enough leaves, half of whose bits are zeros.
    Balanced,
    /// The given one.
    Given {
        /// Height of the tree.
        height: u32,
        /// Number of zeros in the number of a used leaf.
        zeros: u32,
    },
}

impl ShapeChoice {
    /// From `h` and `zeros`, or `shape=balanced`.
    pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<Self> {
        match (parameters.take("shape"), parameters.number("h")?, parameters.number("zeros")?) {
            (None, None, None) => Ok(Self::Best),
            (Some("balanced"), None, None) => Ok(Self::Balanced),
            (None, Some(height), Some(zeros)) => Ok(Self::Given { height, zeros }),
            _ => Err(Error::invalid(format!(
                "`{}` should have both parameters `h` and `zeros`, or `shape=balanced`, or no parameter",
                parameters.text
            ))),
        }
    }
}

impl fmt::Display for ShapeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Best => Ok(()),
            Self::Balanced => f.write_str("(shape=balanced)"),
            Self::Given { height, zeros } => write!(f, "(h={height},zeros={zeros})"),
        }
    }
}
