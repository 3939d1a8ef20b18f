//! The integer weights of a tree's levels, small enough to be copied.

use crate::{Error, Result};
use std::fmt;

/// Most levels a tree may have: 2^62 steps in binary, with the root.
const MOST: usize = 63;

/// Weights of the levels of a tree, leaves first: 1 to 63 numbers from 1 to 65535. Written `3:2:1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Levels {
    weights: [u16; MOST],
    count: u8,
}

impl Levels {
    /// The given weights.
    ///
    /// # Errors
    /// If there are none or more than 63, or one is 0.
    pub fn new(given: &[u16]) -> Result<Self> {
        if given.is_empty() || given.len() > MOST || given.contains(&0) {
            return Err(Error::invalid(format!(
                "level weights are 1 to {MOST} numbers from 1 to 65535, got {given:?}"
            )));
        }
        let mut weights = [0; MOST];
        weights[..given.len()].copy_from_slice(given);
        Ok(Self { weights, count: given.len() as u8 })
    }

    /// The weights.
    pub fn as_slice(&self) -> &[u16] {
        &self.weights[..usize::from(self.count)]
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, weight) in self.as_slice().iter().enumerate() {
            write!(f, "{}{weight}", if i > 0 { ":" } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Levels({self})")
    }
}

impl std::str::FromStr for Levels {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let weights: std::result::Result<Vec<u16>, _> = text.split(':').map(|w| w.trim().parse()).collect();
        Self::new(&weights.map_err(|_| Error::invalid(format!("level weights are written 3:2:1, got {text:?}")))?)
    }
}
