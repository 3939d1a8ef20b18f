//! The integer weights of a tree's levels, small enough to be copied.

use super::parameters::Parameters;
use crate::{Error, Result};
use std::fmt;

/// Maximum number of levels of a tree: 2^62 steps in binary, with the root.
const MAX_LEVELS: usize = 63;

/// Weights of the levels of a tree, leaves first: 1 to 63 numbers from 1 to 65535. Written `3:2:1`,
/// or with runs, `3:2*4:1` for `3:2:2:2:2:1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Levels {
    weights: [u16; MAX_LEVELS],
    count: u8,
}

impl Levels {
    /// The given weights.
    ///
    /// # Errors
    /// If there are none or more than 63, or one is 0.
    pub fn new(given: &[u16]) -> Result<Self> {
        if given.is_empty() || given.len() > MAX_LEVELS || given.contains(&0) {
            return Err(Error::invalid(format!(
                "level weights are 1 to {MAX_LEVELS} numbers from 1 to 65535, got {given:?}"
            )));
        }
        let mut weights = [0; MAX_LEVELS];
        weights[..given.len()].copy_from_slice(given);
        Ok(Self { weights, count: given.len() as u8 })
    }

    /// The weights.
    pub fn as_slice(&self) -> &[u16] {
        &self.weights[..usize::from(self.count)]
    }

    /// As text; three or more equal weights are written as a run.
    pub(crate) fn in_runs(&self) -> String {
        let runs = self.as_slice().chunk_by(|a, b| a == b);
        let text = |run: &[u16]| match run.len() {
            long @ 3.. => format!("{}*{long}", run[0]),
            short => vec![run[0].to_string(); short].join(":"),
        };
        runs.map(text).collect::<Vec<_>>().join(":")
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
        let malformed =
            || Error::invalid(format!("level weights are written 3:2:1, or 3:2*4:1 with a run, got {text:?}"));
        let mut weights = Vec::new();
        for part in text.split(':') {
            let (weight, times) = part.split_once('*').unwrap_or((part, "1"));
            let times: usize = times.trim().parse().map_err(|_| malformed())?;
            if times == 0 || times > MAX_LEVELS {
                return Err(malformed());
            }
            weights.extend(vec![weight.trim().parse::<u16>().map_err(|_| malformed())?; times]);
        }
        Self::new(&weights)
    }
}

/// The level weights in the name of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LevelChoice {
    /// Optimised for the criterion in use; all equal, with or without the root, in a path-sum tree with Laplace noise.
    Best,
    /// All equal, with or without the root.
    Uniform {
        /// Whether the root has noise.
        root: bool,
    },
    /// The given ones.
    Given(Levels),
}

impl LevelChoice {
    /// From `levels` and `root`, where `equal` is the word for equal weights.
    pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>, equal: &str) -> Result<Self> {
        let root = match parameters.take("root") {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(other) => return Err(Error::invalid(format!("`root` should be true or false, got `{other}`"))),
        };
        match (parameters.take("levels"), root) {
            (Some(word), _) if word == equal => Ok(Self::Uniform { root: root.unwrap_or(true) }),
            (_, Some(_)) => {
                Err(Error::invalid(format!("`root` goes with `levels={equal}`; one weight fewer also omits the root")))
            }
            (Some(weights), None) => Ok(Self::Given(weights.parse()?)),
            (None, None) => Ok(Self::Best),
        }
    }
}
