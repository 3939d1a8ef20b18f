//! A row of a release, as it is written.

use evertally_declare::steps::Instant;

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
    /// What is shown beside it, where that was asked for.
    pub view: Option<ViewRow<'a>>,
}

/// What is shown beside a released value; see [`views`](crate::views).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ViewRow<'a> {
    /// The value.
    pub value: Amount<'a>,
    /// Lower end of its band.
    pub lower: f64,
    /// Upper end of its band.
    pub upper: f64,
}
