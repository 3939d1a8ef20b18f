//! Lazy sampling: noise drawn at single readings.

use super::state_space::LazyBlt;
use super::walk::Walk;

/// How noise is sampled at single readings.
#[derive(Debug)]
#[non_exhaustive]
pub enum Lazy {
    /// A sum along the paths of a trie.
    Paths(Box<dyn Walk>),
    /// A state-space model with skips of any length.
    States(Box<LazyBlt>),
}

impl Lazy {
    /// The paths, if the noise is a sum along paths.
    pub fn into_walk(self) -> Option<Box<dyn Walk>> {
        match self {
            Self::Paths(walk) => Some(walk),
            Self::States(_) => None,
        }
    }
}
