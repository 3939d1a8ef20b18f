//! A row of a release, as it is written.

use evertally_declare::steps::Instant;

/// A released value: its exact decimal text, and the double nearest to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleasedValue<'a> {
    /// Exact decimal text, such as `-12.50`.
    pub text: &'a str,
    /// The double nearest to it, for formats without decimal text.
    pub number: f64,
}

/// One row of a release. Numbers that are not finite are written as missing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReleaseRow<'a> {
    /// The beginning of the step, as the step calendar writes it.
    pub time: &'a str,
    /// Beginning and end of the step; the value holds at the end.
    pub span: (Instant, Instant),
    /// The group, one text per group column.
    pub groups: &'a [&'a str],
    /// The step, counted from 1.
    pub step: u64,
    /// The released value.
    pub value: ReleasedValue<'a>,
    /// Standard error of the value.
    pub std_error: f64,
    /// Lower end of the interval.
    pub lower: f64,
    /// Upper end of the interval.
    pub upper: f64,
    /// The view of the value, if one was requested.
    pub view: Option<ViewRow<'a>>,
}

/// The view of a released value; see [`views`](crate::views).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ViewRow<'a> {
    /// The value.
    pub value: ReleasedValue<'a>,
    /// Lower end of its interval.
    pub lower: f64,
    /// Upper end of its interval.
    pub upper: f64,
}
