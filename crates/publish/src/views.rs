//! Views of a release: they use known facts about a running sum to improve its noisy values after the fact.
//!
//! The true running count is whole, not negative, and does not fall; released values have none of these properties. A
//! view is a map `M` of the values released so far that restores them. It is shown next to the raw values, which are
//! never replaced. It is a function of the released table alone, so it costs no privacy.
//!
//! * `whole-number`: the nearest whole number, halves up. Off by at most half a unit; no other bias.
//! * `non-negative`: 0 instead of negative values. Too large on average where the true value is near 0, by at most
//!   `σ/√(2π)` (0.4 standard errors) for Gaussian noise.
//! * `non-decreasing`: the larger of the released value and the previously shown one. This is the nearest value to the
//!   released one that does not fall (isotonic, step by step: shown values never change). Too large on average:
//!   negligibly where the true value grows by standard errors from step to step, and by the mean of the largest noise
//!   so far where it stands still.
//!
//! **The band.** Each `M` is monotone (larger values never have a smaller view) and leaves the true running sum as it
//! is. So if the true values `S` lie in a band, `L ≤ S ≤ U` at all steps so far, the same map of its ends contains
//! them: `M(L) ≤ M(S) = S ≤ M(U)`, and the view `M(X)` of `L ≤ X ≤ U` lies between them, too. For the first two maps
//! this holds step by step, for any interval; `non-decreasing` depends on all steps so far, and needs a band that holds
//! at all of them at once.

use crate::row::{ReleaseRow, ReleasedValue, ViewRow};
pub use evertally_declare::view::View;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The view of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ViewValue {
    /// Exact decimal text of the value.
    pub text: String,
    /// The double nearest to it.
    pub number: f64,
    /// Lower end of the band.
    pub lower: f64,
    /// Upper end of the band.
    pub upper: f64,
}

impl ViewValue {
    /// The view as part of a row.
    pub fn row(&self) -> ViewRow<'_> {
        ViewRow { value: ReleasedValue { text: &self.text, number: self.number }, lower: self.lower, upper: self.upper }
    }
}

/// The views of a stream's rows, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Views {
    wanted: Vec<View>,
    /// The last shown view of each group, by its texts, if views depend on it.
    shown: HashMap<Vec<String>, ViewValue>,
}

impl Views {
    pub(crate) fn new(wanted: &[View]) -> Self {
        Self { wanted: wanted.to_vec(), shown: HashMap::new() }
    }

    /// Restores the last view of a group that an earlier run has shown.
    pub(crate) fn recall(&mut self, group: Vec<String>, shown: ViewValue) {
        self.shown.insert(group, shown);
    }

    /// The last shown view of each group, in the order of their texts.
    pub(crate) fn shown(&self) -> Vec<(Vec<String>, ViewValue)> {
        let mut shown: Vec<_> = self.shown.iter().map(|(group, shown)| (group.clone(), shown.clone())).collect();
        shown.sort_by(|a, b| a.0.cmp(&b.0));
        shown
    }

    /// The view of the next row of its group; `None` if no view is declared.
    pub(crate) fn of(&mut self, row: &ReleaseRow<'_>) -> Option<ViewValue> {
        if self.wanted.is_empty() {
            return None;
        }
        let text = row.value.text.to_owned();
        let mut view = ViewValue { text, number: row.value.number, lower: row.lower, upper: row.upper };
        for wanted in &self.wanted {
            match wanted {
                View::WholeNumber => whole(&mut view),
                View::NonNegative => at_least(&mut view, "0", 0.0, 0.0, 0.0),
                View::NonDecreasing => {
                    let group: Vec<String> = row.groups.iter().map(|text| (*text).to_owned()).collect();
                    if let Some(ViewValue { text, number, lower, upper }) = self.shown.get(&group) {
                        at_least(&mut view, text, *number, *lower, *upper);
                    }
                    self.shown.insert(group, view.clone());
                }
            }
        }
        Some(view)
    }
}

/// The nearest whole numbers, halves up. Values above 2^53 are already whole.
fn whole(view: &mut ViewValue) {
    let round = |x: f64| if x.abs() < 9e15 { (x + 0.5).floor() + 0.0 } else { x };
    if round(view.number) != view.number || view.text.contains('.') {
        view.number = round(view.number);
        view.text = format!("{:.0}", view.number);
    }
    (view.lower, view.upper) = (round(view.lower), round(view.upper));
}

fn at_least(view: &mut ViewValue, text: &str, number: f64, lower: f64, upper: f64) {
    if view.number < number {
        (view.text, view.number) = (text.to_owned(), number);
    }
    (view.lower, view.upper) = (view.lower.max(lower), view.upper.max(upper));
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally_declare::steps::Instant;

    fn views(wanted: &[View], rows: &[(&str, f64, f64)]) -> Vec<ViewValue> {
        let mut views = Views::new(wanted);
        let of = |(text, lower, upper): &(&str, f64, f64)| {
            let now = Instant::from(jiff::Timestamp::UNIX_EPOCH);
            let value = ReleasedValue { text, number: text.parse().unwrap() };
            let (lower, upper) = (*lower, *upper);
            let row = ReleaseRow {
                time: "",
                span: (now, now),
                groups: &["a"],
                step: 1,
                value,
                std_error: 1.0,
                lower,
                upper,
                view: None,
            };
            views.of(&row).unwrap()
        };
        rows.iter().map(of).collect()
    }

    fn shown(views: &[ViewValue]) -> Vec<(&str, f64, f64)> {
        views.iter().map(|view| (view.text.as_str(), view.lower, view.upper)).collect()
    }

    #[test]
    fn each_map_is_as_documented() {
        let rows = [("-2.5", -4.25, 1.0), ("3.50390625", 1.5, 5.5), ("2", 0.0, 4.0), ("7", 5.0, 9.0)];
        assert_eq!(
            shown(&views(&[View::WholeNumber], &rows)),
            [("-2", -4.0, 1.0), ("4", 2.0, 6.0), ("2", 0.0, 4.0), ("7", 5.0, 9.0)]
        );
        assert_eq!(
            shown(&views(&[View::NonNegative], &rows)),
            [("0", 0.0, 1.0), ("3.50390625", 1.5, 5.5), ("2", 0.0, 4.0), ("7", 5.0, 9.0)]
        );
        assert_eq!(
            shown(&views(&[View::NonDecreasing], &rows)),
            [("-2.5", -4.25, 1.0), ("3.50390625", 1.5, 5.5), ("3.50390625", 1.5, 5.5), ("7", 5.0, 9.0)]
        );
        assert_eq!(
            shown(&views(&View::ALL, &rows)),
            [("0", 0.0, 1.0), ("4", 2.0, 6.0), ("4", 2.0, 6.0), ("7", 5.0, 9.0)]
        );
    }

    /// Exhaustively: values between the ends of a band stay between them, including the true sums.
    #[test]
    fn views_stay_inside_the_mapped_band() {
        let texts = ["-1", "0", "1.5", "3"];
        for truth in [[0.0, 0.0, 1.0], [0.0, 2.0, 3.0], [1.0, 1.0, 1.0]] {
            for code in 0..64 {
                let rows: Vec<(&str, f64, f64)> = (0..3)
                    .map(|t| {
                        let text = texts[code >> (2 * t) & 3];
                        let width = (text.parse::<f64>().unwrap() - truth[t]).abs();
                        let value: f64 = text.parse().unwrap();
                        (text, value - width, value + width)
                    })
                    .collect();
                for wanted in [&View::ALL[..], &View::ALL[..1], &View::ALL[1..2], &View::ALL[2..]] {
                    let views = views(wanted, &rows);
                    for (view, truth) in views.iter().zip(truth) {
                        assert!(view.lower <= view.number && view.number <= view.upper, "{wanted:?} {rows:?}");
                        assert!(view.lower <= truth && truth <= view.upper, "{wanted:?} {rows:?} {truth}");
                    }
                    let falls = views.windows(2).any(|pair| pair[1].number < pair[0].number);
                    assert!(!wanted.contains(&View::NonDecreasing) || !falls);
                }
            }
        }
    }
}
