//! The rows of a released table.

use crate::error::{Error, Result, failure};
use crate::groups::GroupTable;
use crate::steps::Instant;
use crate::stream::Stream;
use evertally::plan::Intervals;
use evertally::stream::Release;
use std::fmt::Write;

/// A released value: its exact decimal text, and the double nearest to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amount<'a> {
    /// Exact decimal text, such as `-12.50`.
    pub text: &'a str,
    /// The double nearest to it, for formats without decimal text.
    pub number: f64,
}

/// One row of a release. Figures that are not finite are written as missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleaseRow<'a> {
    /// The step's time, as the step calendar writes it: its beginning.
    pub time: &'a str,
    /// Beginning and end of the step; the value is that at the end.
    pub span: (Instant, Instant),
    /// The group, one text for each group column.
    pub groups: &'a [&'a str],
    /// The step, counted from 1.
    pub step: u64,
    /// The released value.
    pub value: Amount<'a>,
    /// Standard error of the value.
    pub std_error: f64,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
}

/// A figure to seven significant digits: more of a standard error says nothing, and reads as if it did.
pub fn seven_digits(figure: f64) -> f64 {
    if !figure.is_finite() {
        return figure;
    }
    format!("{figure:.6e}").parse().expect("what was written as a number")
}

/// Makes rows of releases, and keeps what they have in common.
pub(crate) struct Rows {
    intervals: Intervals,
    /// Group texts of every row, in the order of the releases.
    tuples: Vec<Vec<String>>,
    time: String,
    value: String,
}

impl Rows {
    pub(crate) fn new(stream: &Stream, groups: Option<&GroupTable>) -> Result<Self> {
        Ok(Self {
            intervals: stream.plan.intervals(stream.confidence)?,
            tuples: groups.map_or(vec![vec![]], |table| table.tuples().to_vec()),
            time: String::new(),
            value: String::new(),
        })
    }

    /// The texts of every group; without groups a single one without texts.
    pub(crate) fn tuples(&self) -> &[Vec<String>] {
        &self.tuples
    }

    /// Visits the rows of one closed step: the place of the group, and the row.
    pub(crate) fn of_step<E: From<Error>>(
        &mut self,
        stream: &Stream,
        releases: &[Release],
        mut visit: impl FnMut(usize, &ReleaseRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let step = releases[0].step();
        let (plan, calendar) = (&stream.plan, &stream.calendar);
        let span = (calendar.start_of(step), calendar.end_of(step));
        let std_error = seven_digits(plan.std_error(step));
        let half_width = i128::try_from(self.intervals.half_width(step))
            .map_err(|_| failure("the interval is too wide to write"))?;
        self.time.clear();
        calendar.write_time(calendar.start_of(step), &mut self.time);
        for (group, release) in releases.iter().enumerate() {
            self.value.clear();
            write!(self.value, "{release}").expect("a String accepts every write");
            let texts: Vec<&str> = self.tuples[group].iter().map(String::as_str).collect();
            let (value, lower, upper) =
                (release.value(), release.shifted(-half_width).value(), release.shifted(half_width).value());
            let amount = Amount { text: &self.value, number: value };
            let row =
                ReleaseRow { time: &self.time, span, groups: &texts, step, value: amount, std_error, lower, upper };
            visit(group, &row)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::seven_digits;

    #[test]
    fn figures_have_seven_digits() {
        for (figure, text) in [
            (std::f64::consts::SQRT_2, "1.414214"),
            (1234567.89, "1234568"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.3333333"),
            (0.0, "0"),
            (52.0, "52"),
        ] {
            assert_eq!(seven_digits(figure).to_string(), text);
        }
        assert!(seven_digits(f64::NAN).is_nan() && seven_digits(f64::INFINITY).is_infinite());
    }
}
