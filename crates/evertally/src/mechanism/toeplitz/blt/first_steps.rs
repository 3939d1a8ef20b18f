//! The first steps of a BLT.

use super::{Blt, Scaling, segments};
use crate::Result;

impl Blt {
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
