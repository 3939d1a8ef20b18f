//! The arity in the names of k-ary trees.

use super::DigitTree;
use crate::Result;
use crate::mechanism::{Criterion, Mechanism};
use std::fmt;
use std::sync::Arc;

/// The largest arity that a search tries.
const MAX_SEARCHED_ARITY: u64 = 64;

/// As a parameter of a name.
pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, arity: Option<u64>) -> fmt::Result {
    match arity {
        Some(k) => write!(f, "(k={k})"),
        None => Ok(()),
    }
}

/// For vectors, the number of arities that are compared by exact accounting: the best by their nodes.
const COMPARED: usize = 4;

/// The best tree among the arities from the least to 64.
pub(super) fn best_arity(
    least: u64,
    criterion: &Criterion,
    build: impl Fn(u64) -> Result<DigitTree>,
) -> Result<Arc<dyn Mechanism>> {
    let mut candidates = (least..=MAX_SEARCHED_ARITY).map(build).collect::<Result<Vec<_>>>()?;
    if let Some(participation) = criterion.participation() {
        candidates.sort_by_cached_key(|tree| {
            let figure = tree.participation_by_nodes(participation) * criterion.objective().row_norm_squared(tree);
            figure.to_bits() // in the order of positive numbers
        });
        candidates.truncate(COMPARED);
    }
    let figures = candidates.into_iter().map(|tree| (criterion.figure(&tree), tree));
    let best = figures.min_by(|a, b| a.0.total_cmp(&b.0));
    Ok(Arc::new(best.expect("the range of arities is not empty").1))
}
