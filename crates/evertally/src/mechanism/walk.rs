//! Mechanisms whose noise is a sum along the paths of a trie: the interface for lazy samplers.
//!
//! The noise of step `t` is the sum of the nodes on a path from a root. Two steps share the first stretches of their
//! paths and nothing else, so a step's noise is the end of a walk with independent increments, and the mechanism
//! matters only through the points where paths part. Each stretch has a *length*, the square of its weight: the
//! variance it adds, or for unit weights the number of noise variables.
//!
//! Steps that share a stretch are consecutive. So parts of a path that later steps have left are never walked again,
//! and only the known positions on the path of the last step have to be remembered.

use crate::noise::Node;
use std::fmt::Debug;

/// The greatest number of stretches on a path: known positions are stored as bits of 128.
pub(super) const MAX_DEPTH: u32 = 128;

/// The paths of a mechanism's steps.
pub trait Walk: Debug + Send + Sync {
    /// Number of stretches on the path of a step (1 ..= T): between 1 and 128.
    fn depth(&self, step: u64) -> u32;

    /// Visits the nodes of the path of a step with their weights, from the root down: the entries of a row of `L`.
    fn visit(&self, step: u64, visit: &mut dyn FnMut(Node, f64));

    /// How many stretches the paths of two steps share, `1 ≤ earlier < later ≤ T`.
    fn shared(&self, earlier: u64, later: u64) -> u32;

    /// The length of the first `depth` stretches of any path (0 ..= 128): it rises with `depth`, from 0.
    fn length(&self, depth: u32) -> u64 {
        depth.into()
    }

    /// Whether every stretch has length 1.
    fn is_uniform(&self) -> bool {
        true
    }
}
