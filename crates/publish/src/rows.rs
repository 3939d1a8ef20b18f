//! The rows of a released table.

pub use crate::row::{ReleaseRow, ReleasedValue, ViewRow};
use crate::views::{ViewValue, Views};
use evertally::number::{Grid, power};
use evertally::plan::{Band, Intervals, Plan};
use evertally::stream::Release;
use evertally_declare::error::{PipelineError, Result, failure};
use evertally_declare::groups::GroupTable;
use evertally_declare::stream::Stream;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// Rounds a number to seven significant digits: more digits of a standard error would carry no information.
pub fn seven_digits(figure: f64) -> f64 {
    if !figure.is_finite() {
        return figure;
    }
    format!("{figure:.6e}").parse().expect("formatted as a number")
}

/// The confidence of each of `streams` intervals such that their sum holds with the declared confidence: each may fail
/// correspondingly less often (Bonferroni).
fn confidence_of_each(stream: &Stream, streams: u32) -> f64 {
    if streams == 1 { stream.confidence } else { 1.0 - (1.0 - stream.confidence) / f64::from(streams) }
}

/// Half the width of the interval at a step, for values that add up this many streams, in multiples of the grid.
///
/// # Errors
/// If the confidence is not valid.
pub(crate) fn half_width(stream: &Stream, step: u64, streams: u32) -> Result<u128> {
    Ok(Errors::new(stream, streams)?.half_width(step))
}

/// The band of the stream's own releases.
pub(crate) fn own_band(stream: &Stream) -> Band {
    let confidence = confidence_of_each(stream, stream.streams());
    stream.plan.band(confidence).expect("checked by the setup")
}

/// Intervals of values that add up several streams, such that each holds with the declared confidence.
struct Errors {
    intervals: Intervals,
    /// The number of earlier streams, each with this half-width at its end.
    before: u32,
    end: u128,
}

impl Errors {
    fn new(stream: &Stream, streams: u32) -> Result<Self> {
        let (confidence, before) = (confidence_of_each(stream, streams), streams - 1);
        let end = match before {
            0 => 0,
            // Only the last step of an earlier stream is in these values.
            _ => stream.plan.intervals(confidence)?.half_width(stream.plan.horizon()),
        };
        Ok(Self { intervals: stream.intervals(confidence)?, before, end })
    }

    /// The standard error at a step of the last stream, and the half-width including the earlier streams under the same
    /// plan.
    fn error(&mut self, step: u64) -> (f64, u128) {
        let (own, half_width) = self.intervals.error(step);
        (own, self.widened(half_width))
    }

    /// The half-width at a step, including the earlier streams under the same plan.
    fn half_width(&mut self, step: u64) -> u128 {
        let half_width = self.intervals.half_width(step);
        self.widened(half_width)
    }

    /// The half-width of the last stream, and that of the end of every earlier one.
    fn widened(&self, half_width: u128) -> u128 {
        half_width.saturating_add(self.end.saturating_mul(self.before.into()))
    }
}

/// The standard error of a value, given its own error and the number of earlier streams under the same plan.
pub(crate) fn std_error_after(own: f64, plan: &Plan, before: u32) -> f64 {
    if before == 0 {
        return own;
    }
    (power(own, 2) + f64::from(before) * power(plan.std_error(plan.horizon()), 2)).sqrt()
}

/// The grid of each group; without groups, the grid of the one sum.
///
/// # Errors
/// If a grid has too many digits.
pub(crate) fn grids_of(stream: &Stream, groups: Option<&GroupTable>) -> Result<Vec<Grid>> {
    let grid = stream.plan.request().grid();
    Ok(groups.map_or(Ok(vec![grid]), |table| table.grids(grid))?)
}

/// Makes rows from releases, and caches what they share.
pub(crate) struct RowMaker {
    /// The group texts of each row, in the order of the releases.
    tuples: Vec<Vec<String>>,
    /// The starting point of each group's rows: a value, and the number of streams that it adds up.
    carried: Vec<(i128, u32)>,
    /// The grid of discovered groups.
    grid: Grid,
    /// The grid of each group, and the factor for its errors.
    grids: Vec<(Grid, f64)>,
    /// Errors of rows, by the number of streams that they continue.
    errors: BTreeMap<u32, Errors>,
    views: Views,
    /// Errors by step, if the same step is requested repeatedly.
    known: Option<HashMap<u64, (f64, i128)>>,
    /// The number of steps of earlier streams.
    steps_before: u64,
    time: String,
    value: String,
}

impl RowMaker {
    pub(crate) fn new(stream: &Stream, groups: Option<&GroupTable>) -> Result<Self> {
        let tuples = groups.map_or(vec![vec![]], |table| table.tuples().to_vec());
        let carried = |tuple: &Vec<String>| -> Result<(i128, u32)> {
            let carried = stream.follows.iter().flat_map(|follows| &follows.carried).find(|of| of.group == *tuple);
            carried.map_or(Ok((0, 0)), |carried| {
                let exact =
                    carried.exact().ok_or_else(|| failure("the total carried over in the ledger is not a number"))?;
                Ok((exact, carried.streams))
            })
        };
        let carried: Vec<(i128, u32)> = tuples.iter().map(carried).collect::<Result<_>>()?;
        let mut errors = BTreeMap::new();
        for (_, streams) in &carried {
            if !errors.contains_key(streams) {
                errors.insert(*streams, Errors::new(stream, streams + 1)?);
            }
        }
        let steps_before = stream.follows.as_ref().map_or(0, |follows| follows.steps);
        let scale = |place: usize| groups.map_or(1.0, |table| table.scales()[place].to_f64(1));
        let grids =
            grids_of(stream, groups)?.into_iter().enumerate().map(|(place, grid)| (grid, scale(place))).collect();
        let grid = stream.plan.request().grid();
        Ok(Self {
            tuples,
            carried,
            grid,
            grids,
            errors,
            views: Views::new(&stream.views),
            known: None,
            steps_before,
            time: String::new(),
            value: String::new(),
        })
    }

    /// For groups that are still to be discovered; empty at first.
    pub(crate) fn for_discovered(stream: &Stream) -> Result<Self> {
        let mut rows = Self::new(stream, None)?;
        (rows.tuples, rows.carried, rows.grids) = (Vec::new(), Vec::new(), Vec::new());
        if let Entry::Vacant(free) = rows.errors.entry(0) {
            free.insert(Errors::new(stream, 1)?);
        }
        rows.known = Some(HashMap::new());
        Ok(rows)
    }

    /// Replaces the rows, and keeps the views shown so far.
    pub(crate) fn replace(&mut self, rows: Self) {
        let views = std::mem::take(&mut self.views);
        *self = Self { views, ..rows };
    }

    /// Restores the last view of a group that an earlier run has shown.
    pub(crate) fn restore_view(&mut self, group: Vec<String>, shown: ViewValue) {
        self.views.recall(group, shown);
    }

    /// The last shown view of each group, if views depend on earlier ones.
    pub(crate) fn saved_views(&self) -> Vec<(Vec<String>, ViewValue)> {
        self.views.shown()
    }

    /// Adds a discovered group after all others.
    pub(crate) fn enter(&mut self, tuple: Vec<String>) {
        self.tuples.push(tuple);
        self.carried.push((0, 0));
        self.grids.push((self.grid, 1.0));
    }

    /// The texts of each group; without groups, a single entry without texts.
    pub(crate) fn tuples(&self) -> &[Vec<String>] {
        &self.tuples
    }

    /// Standard error and half-width at a step, for rows that continue this many streams under the same plan.
    fn errors(&mut self, plan: &Plan, step: u64, streams: u32) -> Result<(f64, i128)> {
        if let Some(known) = self.known.as_ref().and_then(|known| known.get(&step)) {
            return Ok(*known);
        }
        let intervals = self.errors.get_mut(&streams).expect("made for every number of streams");
        let (own, half_width) = intervals.error(step);
        let std_error = std_error_after(own, plan, streams);
        let half_width = i128::try_from(half_width).map_err(|_| failure("the interval is too wide to write"))?;
        let errors = (std_error, half_width);
        if let Some(known) = &mut self.known {
            known.insert(step, errors); // of streams that continue no other
        }
        Ok(errors)
    }

    /// Visits the rows of one closed step, with the place of each group. The releases are those of the groups from
    /// `first` on.
    pub(crate) fn of_step<E: From<PipelineError>>(
        &mut self,
        stream: &Stream,
        first: usize,
        releases: &[Release],
        mut visit: impl FnMut(usize, &ReleaseRow<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(slot) = releases.first().map(Release::step) else { return Ok(()) };
        let Some(step) = stream.row_of_slot(slot) else { return Ok(()) };
        let (plan, calendar) = (&stream.plan, stream.rows());
        let span = (calendar.start_of(step), calendar.end_of(step));
        let mut of = u32::MAX;
        let (mut std_error, mut half_width) = (0.0, 0);
        self.time.clear();
        calendar.write_time(calendar.start_of(step), &mut self.time);
        for (group, release) in (first..).zip(releases) {
            let (exact, streams) = self.carried[group];
            if std::mem::replace(&mut of, streams) != streams {
                (std_error, half_width) = self.errors(plan, slot, streams)?;
            }
            let (grid, scale) = self.grids[group];
            let release = release.continuing_from(exact).on_grid(grid);
            self.value.clear();
            write!(self.value, "{release}").expect("a String accepts every write");
            let texts: Vec<&str> = self.tuples[group].iter().map(String::as_str).collect();
            let (value, lower, upper) =
                (release.value(), release.shifted(-half_width).value(), release.shifted(half_width).value());
            let amount = ReleasedValue { text: &self.value, number: value };
            let (time, step) = (self.time.as_str(), self.steps_before + step);
            let row = ReleaseRow {
                time,
                span,
                groups: &texts,
                step,
                value: amount,
                std_error: seven_digits(scale * std_error),
                lower,
                upper,
                view: None,
            };
            let view = self.views.of(&row);
            visit(group, &ReleaseRow { view: view.as_ref().map(ViewValue::row), ..row })?;
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
