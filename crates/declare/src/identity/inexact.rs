//! Numbers that are not identities.

use crate::problem::Sentence;

/// Why a number is not an identity: it may have been rounded, so that one id became another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InexactId {
    /// A floating-point number that is too large for its precision.
    Float {
        /// Significant bits.
        bits: u32,
    },
    /// Text that was written from a double too large to be exact.
    Written,
    /// Text as spreadsheets and R write long numbers: with few digits.
    Shortened {
        /// Significant digits.
        digits: u8,
    },
}

impl InexactId {
    /// The problem, to follow the text of the cell.
    pub fn sentence(self) -> Sentence {
        match self {
            Self::Float { bits } => format!(
                "is not an exact id: floating-point numbers with {bits} bits of precision are rounded from 2^{bits} on"
            )
            .into(),
            Self::Written => {
                "is not an exact id: it was written from a double, and those are rounded from 2^53 on".into()
            }
            Self::Shortened { digits } => {
                format!("is not an exact id: it was written with {digits} digits, as spreadsheets and R do").into()
            }
        }
    }

    /// The remedy.
    pub fn remedy(self) -> Sentence {
        "write ids as integers or as text".into()
    }
}
