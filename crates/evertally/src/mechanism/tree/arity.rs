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

/// The best tree among the arities from the least to 64.
pub(super) fn best_arity(
    least: u64,
    criterion: &Criterion,
    build: impl Fn(u64) -> Result<DigitTree>,
) -> Result<Arc<dyn Mechanism>> {
    let candidates = (least..=MAX_SEARCHED_ARITY).map(build).collect::<Result<Vec<_>>>()?;
    let figures = candidates.into_iter().map(|tree| (criterion.figure(&tree), tree));
    let best = figures.min_by(|a, b| a.0.total_cmp(&b.0));
    Ok(Arc::new(best.expect("the range of arities is not empty").1))
}
