//! Queries that every tree of counts supports.

use super::estimate::largest_first;
use super::{Estimate, HeavyHitter, KeyTree};
use crate::noise::Node;
use crate::{Error, Result};
use std::ops::Range;

/// A tree of counts whose nodes can be read one by one.
pub(super) trait Nodes {
    fn tree(&self) -> KeyTree;

    /// The last closed step.
    fn closed(&self) -> u64;

    /// The count of a node.
    fn node(&mut self, node: Node) -> Result<Estimate>;
}

/// The largest number of nodes of one level that a descent follows.
const MAX_NODES_PER_LEVEL: usize = 1 << 16;

/// The number of keys in a range.
pub(super) fn count(nodes: &mut impl Nodes, range: &Range<u128>) -> Result<Estimate> {
    let cover = nodes.tree().cover(range);
    weighted(nodes, cover.iter().map(|(node, weight)| (*node, f64::from(*weight))))
}

/// A sum of nodes with weights.
pub(super) fn weighted(nodes: &mut impl Nodes, terms: impl Iterator<Item = (Node, f64)>) -> Result<Estimate> {
    let step = nodes.closed();
    if step == 0 {
        return Err(Error::invalid("nothing can be read before the first step is closed"));
    }
    let (mut value, mut variance) = (0.0, 0.0);
    for (node, weight) in terms {
        let estimate = nodes.node(node)?;
        value += weight * estimate.value;
        variance += (weight * estimate.noise_std_error) * (weight * estimate.noise_std_error);
    }
    Ok(Estimate { step, value, noise_std_error: variance.sqrt() })
}

/// The keys for which their estimate, and that of every ancestor except the root, reaches a
/// threshold.
pub(super) fn heavy_hitters(nodes: &mut impl Nodes, threshold: f64) -> Result<Vec<HeavyHitter<u64>>> {
    if !(threshold > 0.0 && threshold.is_finite()) {
        return Err(Error::invalid(format!("the threshold of heavy hitters must be above 0, got {threshold}")));
    }
    let tree = nodes.tree();
    let mut heavy = vec![(tree.root(), nodes.node(tree.root())?)];
    for _ in 0..tree.height() {
        let mut next = vec![];
        for child in heavy.iter().flat_map(|(node, _)| tree.children(*node)) {
            let estimate = nodes.node(child)?;
            if estimate.value >= threshold {
                next.push((child, estimate));
            }
            if next.len() > MAX_NODES_PER_LEVEL {
                return Err(Error::invalid(format!(
                    "a threshold of {threshold} lies within the noise: more than {MAX_NODES_PER_LEVEL} blocks of \
                     keys reach it; raise it"
                )));
            }
        }
        heavy = next;
    }
    let mut found: Vec<_> = heavy.into_iter().map(|(n, estimate)| HeavyHitter { key: n.index, estimate }).collect();
    largest_first(&mut found);
    Ok(found)
}
