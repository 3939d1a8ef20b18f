//! The lines of a release in words for readers: the rows of a group, or of one measure or workload of a group.

use crate::measures::Measure;
use crate::publication::Slots;
use crate::steps::{Every, Instant};
use crate::stream::Stream;
use evertally::mechanism::Workload;

/// A line of each group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Its name in the table; empty if each group has one line.
    pub label: String,
    /// Its name for readers: `last 7 days`; empty if each group has one line.
    pub title: String,
    /// Whether each value is that of a single period, which is one step of the table.
    pub is_per_period: bool,
    /// Whether its values are counts or sums of single periods, which are compared with zero.
    pub is_from_zero: bool,
}

impl Line {
    /// The place of a value's point in its step, in seconds since 1970.
    pub fn seconds_in(&self, (start, end): (Instant, Instant)) -> f64 {
        let micros = if self.is_per_period { start.micros().midpoint(end.micros()) } else { end.micros() };
        micros as f64 / 1e6
    }
}

impl Stream {
    /// The lines of each group, in the order of its rows.
    pub fn lines(&self) -> Vec<Line> {
        let every = self.rows().every();
        let is_per_period = self.is_per_period();
        let Some(bundle) = &self.measures else {
            return vec![Line { is_per_period, is_from_zero: is_per_period, ..Line::default() }];
        };
        let mut labels = bundle.labels().into_iter();
        let lines = bundle.wanted().iter().flat_map(|wanted| {
            let (is_per_period, is_from_zero) = match &wanted.measure {
                Measure::Workload(_, workload) => [is_of_one_step(*workload); 2].into(),
                Measure::Count | Measure::Sum | Measure::Histogram(_) => (is_per_period, is_per_period),
                _ => (is_per_period, false),
            };
            let line = move |label: String, title: String| Line { label, title, is_per_period, is_from_zero };
            let bins = match &wanted.measure {
                Measure::Histogram(cuts) => cuts.len() + 1,
                _ => 1,
            };
            let of_measure: Vec<Line> = labels
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

fn is_of_one_step(workload: Workload) -> bool {
    matches!(workload, Workload::Increments | Workload::Window(1))
}

/// A width as it follows "per": `day`, `2 weeks`.
fn each(every: Every) -> String {
    let words = every.in_words();
    words.strip_prefix("1 ").map_or(words.clone(), str::to_owned)
}

/// A number of steps as a time.
fn span(steps: u64, every: Every) -> String {
    let time = u32::try_from(steps).ok().and_then(|steps| Every::new(steps.checked_mul(every.count())?, every.unit()));
    time.map_or_else(|| format!("{steps} steps"), Every::in_words)
}

/// A workload as the name of a line, for steps of this width: `last 7 days`.
pub fn workload_in_words(workload: Workload, every: Every) -> String {
    match workload {
        Workload::Sum => "total so far".to_owned(),
        Workload::Increments | Workload::Window(1) => format!("per {}", each(every)),
        Workload::Window(steps) => format!("last {}", span(steps, every)),
        Workload::Decay(steps) => format!("total so far, halved every {}", span(steps, every)),
        other => other.in_words(),
    }
}

/// A measure as the name of a line, for steps and published rows of these widths: `median`.
pub(crate) fn measure_in_words(measure: &Measure, step: Every, row: Every) -> String {
    match measure {
        Measure::Deviation => "standard deviation".to_owned(),
        Measure::Distinct => "people so far".to_owned(),
        Measure::Active(steps) => format!("people in the last {}", span(*steps, step)),
        Measure::Within(time) => format!("people in the last {}", time.in_words()),
        Measure::Quantile(0.5) => "median".to_owned(),
        Measure::Quantile(share) => format!("{} % quantile", crate::words::short(100.0 * share)),
        Measure::Workload(_, workload) => workload_in_words(*workload, row),
        named => named.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_names_for_readers() {
        let day: Every = "1d".parse().unwrap();
        let of = |measure: &str| measure_in_words(&measure.parse().unwrap(), day, day);
        for (measure, words) in [
            ("count", "count"),
            ("std", "standard deviation"),
            ("distinct(7)", "people in the last 7 days"),
            ("distinct(2w)", "people in the last 2 weeks"),
            ("quantile(0.5)", "median"),
            ("quantile(0.95)", "95 % quantile"),
            ("quantile(0.999)", "99.9 % quantile"),
        ] {
            assert_eq!(of(measure), words);
        }
        for (workload, every, words) in [
            (Workload::Sum, "1d", "total so far"),
            (Workload::Increments, "1d", "per day"),
            (Workload::Window(1), "2w", "per 2 weeks"),
            (Workload::Window(7), "1d", "last 7 days"),
            (Workload::Window(3), "4h", "last 12 hours"),
            (Workload::Window(1 << 40), "1d", "last 1099511627776 steps"),
            (Workload::Decay(7), "1d", "total so far, halved every 7 days"),
        ] {
            assert_eq!(workload_in_words(workload, every.parse().unwrap()), words);
        }
    }
}
