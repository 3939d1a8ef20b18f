//! `normalized-sqrt`: the square root of the prefix-sum matrix with columns of one length.

use super::SquareRoot;
use crate::Result;
use crate::mechanism::{Criterion, Mechanism};
use std::sync::Arc;

pub(in crate::mechanism) fn build(horizon: u64, criterion: &Criterion) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(SquareRoot::normalized_watched(horizon, criterion.watch())?))
}
