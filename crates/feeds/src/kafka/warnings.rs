//! What the operator should know, not more often than once a minute.

use crate::{LogPause, SourceWarning};
use std::collections::BTreeMap;

/// Offsets without records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetGap {
    /// Their number.
    pub(super) offsets: i64,
    pub(super) first: i64,
    pub(super) last: i64,
}

#[derive(Debug, Default)]
pub(super) struct Warnings {
    texts: Vec<SourceWarning>,
    gaps: BTreeMap<i32, OffsetGap>,
    gaps_logged: LogPause,
    trouble_logged: LogPause,
}

impl Warnings {
    pub(super) fn push(&mut self, warning: SourceWarning) {
        self.texts.push(warning);
    }

    pub(super) fn gap(&mut self, partition: i32, gap: OffsetGap) {
        let all = self.gaps.entry(partition).or_insert(OffsetGap { offsets: 0, ..gap });
        all.offsets += gap.offsets;
        all.first = all.first.min(gap.first);
        all.last = all.last.max(gap.last);
    }

    pub(super) fn trouble(&mut self, why: &str) {
        if self.trouble_logged.is_over() {
            self.texts.push(format!("{why}; the other partitions continue").into());
        }
    }

    pub(super) fn take(&mut self) -> Vec<SourceWarning> {
        if !self.gaps.is_empty() && self.gaps_logged.is_over() {
            for (partition, OffsetGap { offsets, first, last }) in std::mem::take(&mut self.gaps) {
                let text = format!(
                    "offsets of partition {partition} have no records: compaction deletes a record when its key has a \
                     newer one, and such records are not counted; to count all, follow a topic with \
                     cleanup.policy=delete"
                );
                let numbers = format!("{offsets} offsets between {first} and {last}");
                self.texts.push(SourceWarning::with_numbers(text, numbers));
            }
        }
        std::mem::take(&mut self.texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_added_up() {
        let mut warnings = Warnings::default();
        warnings.gap(1, OffsetGap { offsets: 2, first: 5, last: 9 });
        warnings.gap(1, OffsetGap { offsets: 1, first: 11, last: 11 });
        let texts = warnings.take();
        assert!(texts[0].to_string().ends_with("(3 offsets between 5 and 11)"), "{texts:?}");
        warnings.gap(1, OffsetGap { offsets: 1, first: 20, last: 20 });
        assert!(warnings.take().is_empty());
    }
}
