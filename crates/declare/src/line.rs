//! The lines of a release in words for readers: the rows of a group, or of one measure or workload of a group.

use crate::measures::Measure;
use crate::publication::Slots;
use crate::steps::Instant;
use crate::stream::Stream;
use crate::titles::{is_of_one_step, measure_in_words};

/// A line of each group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupLine {
    /// Its name in the table; empty if each group has one line.
    pub label: String,
    /// Its name for readers: `last 7 days`; empty if each group has one line.
    pub title: String,
    /// Whether each value is that of a single period, which is one step of the table.
    pub is_per_period: bool,
    /// Whether its values are counts or sums of single periods, which are compared with zero.
    pub is_from_zero: bool,
}

impl GroupLine {
    /// The place of a value's point in its step, in seconds since 1970.
    pub fn seconds_in(&self, (start, end): (Instant, Instant)) -> f64 {
        let micros = if self.is_per_period { start.micros().midpoint(end.micros()) } else { end.micros() };
        micros as f64 / 1e6
    }
}

impl Stream {
    /// The lines of each group, in the order of its rows.
    pub fn lines(&self) -> Vec<GroupLine> {
        let every = self.rows().every();
        let is_per_period = self.is_per_period();
        let Some(bundle) = &self.measures else {
            return vec![GroupLine { is_per_period, is_from_zero: is_per_period, ..GroupLine::default() }];
        };
        let mut labels = bundle.labels().into_iter();
        let lines = bundle.wanted().iter().flat_map(|wanted| {
            let (is_per_period, is_from_zero) = match &wanted.measure {
                Measure::Workload(_, workload) => [is_of_one_step(*workload); 2].into(),
                Measure::Count | Measure::Sum | Measure::Histogram(_) => (is_per_period, is_per_period),
                _ => (is_per_period, false),
            };
            let line = move |label: String, title: String| GroupLine { label, title, is_per_period, is_from_zero };
            let bins = match &wanted.measure {
                Measure::Histogram(cuts) => cuts.len() + 1,
                _ => 1,
            };
            let of_measure: Vec<GroupLine> = labels
                .by_ref()
                .take(bins)
                .map(|label| match &wanted.measure {
                    Measure::Histogram(_) => line(label.clone(), label),
                    measure => line(label, measure_in_words(measure, self.calendar.every(), every)),
                })
                .collect();
            of_measure
        });
        lines.collect()
    }

    /// Whether values are those of single periods.
    fn is_per_period(&self) -> bool {
        let is_of_rows = self.published.as_ref().is_none_or(|published| published.slots() == Slots::Rows);
        is_of_rows && is_of_one_step(self.plan.request().workload())
    }

    /// Where the points of a picture are in their steps.
    pub fn points_in_words(&self) -> &'static str {
        let lines = self.lines();
        match (lines.iter().all(|line| line.is_per_period), lines.iter().any(|line| line.is_per_period)) {
            (true, _) => "Points are in the middle of their step.",
            (false, false) => "Points are at the end of their step; the table names steps by their beginning.",
            (false, true) => {
                "Points of single steps are in the middle of their step, all others at its end; the table names steps \
                 by their beginning."
            }
        }
    }
}
