//! Sums of steps and groups.

use super::labels::LabelNumbers;
use super::row::ShuffleRow;
use evertally_declare::error::{PipelineError, Result};
use hashbrown::HashMap;

/// The number of sums that are kept before they must be taken.
const MAX_BUFFERED_SUMS: usize = 1 << 20;

pub(super) fn overflow() -> PipelineError {
    let why = "the sum of a step exceeds the range of 64-bit multiples of the grid; use a coarser grid";
    evertally::Error::overflow(why).into()
}

/// Of all refusals, the first in the order of their texts is reported, so that it does not depend on which process
/// reads what.
pub(super) fn record_refusal(first: &mut Option<String>, why: String) {
    if first.as_ref().is_none_or(|first| why < *first) {
        *first = Some(why);
    }
}

/// The sums of one process.
pub(super) struct Sums {
    sums: HashMap<(u64, u32), i64>,
}

impl Sums {
    pub(super) fn new() -> Self {
        Self { sums: HashMap::new() }
    }

    pub(super) fn add(&mut self, step: u64, label: u32, value: i64) -> Result<()> {
        let sum = self.sums.entry((step, label)).or_default();
        *sum = sum.checked_add(value).ok_or_else(overflow)?;
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.sums.len() >= MAX_BUFFERED_SUMS
    }

    /// Takes all sums with the numbers of their groups, in the order of steps.
    pub(super) fn take_numbers(&mut self) -> Vec<(u64, u32, i64)> {
        let sums = std::mem::take(&mut self.sums).into_iter().filter(|(_, sum)| *sum != 0);
        let mut sums: Vec<(u64, u32, i64)> = sums.map(|((step, label), sum)| (step, label, sum)).collect();
        sums.sort_unstable();
        sums
    }

    /// Takes all sums in the order of steps and labels: the same sums give the same rows.
    pub(super) fn take(&mut self, labels: &LabelNumbers) -> Vec<ShuffleRow> {
        let sums = std::mem::take(&mut self.sums).into_iter().filter(|(_, sum)| *sum != 0);
        let mut rows: Vec<ShuffleRow> = sums.map(|((step, label), sum)| labels.row(step, label, sum)).collect();
        rows.sort_unstable();
        rows
    }
}
