//! From the releases of a step to the rows of a table.

use super::setup::Setup;
use anyhow::{Context, Result};
use evertally::plan::Intervals;
use evertally::stream::Release;
use evertally_tables::output::{Amount, ReleaseRow};
use std::fmt::Write;

/// Makes rows, and keeps what they have in common.
pub(super) struct Rows {
    intervals: Intervals,
    /// Group texts of every row, in the order of the releases.
    tuples: Vec<Vec<String>>,
    time: String,
    value: String,
}

impl Rows {
    pub(super) fn new(setup: &Setup) -> Result<Self> {
        Ok(Self {
            intervals: setup.stream.plan.intervals(setup.stream.confidence)?,
            tuples: setup.groups.as_ref().map_or(vec![vec![]], |table| table.tuples().to_vec()),
            time: String::new(),
            value: String::new(),
        })
    }

    /// The texts of every group; without groups a single one without texts.
    pub(super) fn tuples(&self) -> &[Vec<String>] {
        &self.tuples
    }

    /// Visits the rows of one closed step: the place of the group, and the row.
    pub(super) fn of_step(
        &mut self,
        setup: &Setup,
        releases: &[Release],
        mut visit: impl FnMut(usize, &ReleaseRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let step = releases[0].step();
        let (plan, calendar) = (&setup.stream.plan, &setup.stream.calendar);
        let std_error = plan.std_error(step);
        let half_width =
            i128::try_from(self.intervals.half_width(step)).context("the interval is too wide to write")?;
        self.time.clear();
        calendar.write_time(calendar.start_of(step), &mut self.time);
        for (group, release) in releases.iter().enumerate() {
            self.value.clear();
            write!(self.value, "{release}")?;
            let texts: Vec<&str> = self.tuples[group].iter().map(String::as_str).collect();
            let (value, lower, upper) =
                (release.value(), release.shifted(-half_width).value(), release.shifted(half_width).value());
            let amount = Amount { text: &self.value, number: value };
            let row = ReleaseRow { time: &self.time, groups: &texts, step, value: amount, std_error, lower, upper };
            visit(group, &row)?;
        }
        Ok(())
    }
}
