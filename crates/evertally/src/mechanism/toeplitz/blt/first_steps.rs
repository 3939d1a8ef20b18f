//! The first steps of a BLT, and bounds for columns that no longer have one length.

use super::{Blt, Scaling, runs, segments};
use crate::Result;
use crate::mechanism::accounting::chain::{self, Pattern};
use crate::mechanism::accounting::participation::rounded_up;
use crate::privacy::Spread;

impl Blt {
    pub(super) fn by_chains(&self, columns: &runs::WeightedColumns<'_>, spread: Spread, events: &[u64]) -> Vec<f64> {
        let largest = |events: &u64| {
            let pattern = Pattern::new(spread.in_one_sum(*events));
            let operations = 4 * (self.horizon + pattern.full.min(self.horizon)) + 256;
            rounded_up(chain::largest(columns, pattern), operations)
        };
        events.iter().map(largest).collect()
    }

    /// The first steps: every column ends earlier, and keeps its weight.
    pub(super) fn cut(&self, steps: u64) -> Result<Self> {
        let segments = self.constants.segments();
        let begun = segments.partition_point(|segment| segment.last < steps);
        let cut = |segment: &segments::Segment| segments::Segment { last: segment.last.min(steps), ..*segment };
        let (scaling, segments) = match self.scaling {
            Scaling::Plain => (Scaling::Plain, segments::plain(steps)),
            Scaling::Equal(runs) | Scaling::Cut(runs) => {
                (Scaling::Cut(runs), segments[..=begun].iter().map(cut).collect())
            }
        };
        // The columns may be shorter than their weights promise: no least norm.
        Self::with_segments(steps, (scaling, 0), self.buffers, self.frame, segments)
    }
}
