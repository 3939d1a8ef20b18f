//! Pictures of a release: running counts with their intervals, as SVG and as PNG.
//!
//! Everything in the picture is already released, so any picture of it is as private as the release. The one exception,
//! true counts next to the released ones, must be requested and stamps the whole picture.
//!
//! Up to four groups share a panel, each in a separate colour; up to twelve get a panel each; of more, only the first
//! twelve are drawn. Curves that are [apart](ReleasePlot::apart) get a panel and a scale each. The caller orders the
//! groups, and must do so without looking at the data. Several groups at a single time are shown below each other, as
//! in a [`RankingChart`](crate::RankingChart), up to thirty.
//!
//! On a count of a hundred thousand, an interval of ±40 is thinner than the line. So a slim second panel shows the
//! width of the intervals over time or, with true counts, the error of the release.

mod caption;
mod grid;
mod layout;
mod overlay;
mod panel;
mod spread;

use crate::axis::TimeLabels;
use crate::error::PlotError;
use crate::ranking::{RankedItem, RankingChart};
use crate::text::fit;

/// The maximum number of groups that are drawn; a caller need not collect the points of more.
pub const MAX_SHOWN: usize = 12;

/// The maximum number of groups that are drawn for a release of a single step.
pub const MAX_SHOWN_AT_ONCE: usize = 30;

/// The stamp of a picture that shows true counts.
pub const STAMP: &str = "NOT PRIVATE – contains true counts";

/// Replaces the guarantee in such a picture.
pub(crate) const WARNING: &str = "Contains exact counts: no privacy guarantee. Do not publish.";

/// One release of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The time: seconds since 1970 in UTC, or the step number, depending on [`ReleasePlot::time_labels`].
    pub at: f64,
    /// The released value.
    pub value: f64,
    /// Lower end of its interval.
    pub lower: f64,
    /// Upper end of its interval.
    pub upper: f64,
    /// The true count; drawn only if [`ReleasePlot::unsafe_truth`] is set.
    pub truth: Option<f64>,
}

impl Point {
    fn half_width(&self) -> f64 {
        (self.upper - self.lower) / 2.0
    }
}

/// The releases of one group, in order of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// The group's name, as in the data, with any characters. Empty if there are no groups.
    pub name: String,
    /// Its releases.
    pub points: Vec<Point>,
    /// Whether each value is that of a single period, in whose middle the point is.
    pub is_per_period: bool,
    /// Whether its axis always shows zero.
    pub is_from_zero: bool,
}

/// The content of a picture.
#[derive(Clone, Debug)]
pub struct ReleasePlot {
    /// Headline.
    pub title: String,
    /// Budget, privacy unit and mechanism in words, under the headline.
    pub subtitle: String,
    /// The quantity of the values, above the panels: "flights since 1 January 2013".
    pub y_label: String,
    /// The guarantee in one sentence, under the picture; omitted with true counts, which have none.
    pub footer: String,
    /// The labels of the horizontal axis.
    pub time_labels: TimeLabels,
    /// Confidence of the intervals, such as 0.95.
    pub confidence: f64,
    /// Whether they hold at all times at once.
    pub at_once: bool,
    /// The groups; the first [`MAX_SHOWN`] are drawn.
    pub curves: Vec<Curve>,
    /// The number of groups in the release; larger than the length of `curves` if the caller omitted some.
    pub total_groups: usize,
    /// The word for one of them: `group`, `item`.
    pub group_word: &'static str,
    /// Whether each has a separate panel and scale, even if there are few: for measures that have nothing in common.
    pub apart: bool,
    /// Draws the true counts too, and stamps the picture as not private.
    pub unsafe_truth: bool,
}

impl ReleasePlot {
    /// The picture as SVG. The same plot gives the same bytes.
    ///
    /// # Errors
    /// If there is nothing to draw, a number is not finite, or the points of a group are not in order of time.
    pub fn svg(&self) -> Result<String, PlotError> {
        let is_instant = !self.unsafe_truth
            && !self.apart
            && self.curves.len() > 1
            && self.curves.iter().all(|c| c.points.len() == 1);
        let most = if is_instant { MAX_SHOWN_AT_ONCE } else { MAX_SHOWN };
        let shown: Vec<&Curve> = self.curves.iter().take(most).filter(|curve| !curve.points.is_empty()).collect();
        if shown.is_empty() {
            return Err(PlotError::NoRelease);
        }
        for curve in &shown {
            curve.check(self.unsafe_truth)?;
        }
        if is_instant { self.at_once(&shown).svg() } else { Ok(layout::draw(self, &shown)) }
    }

    /// A line over time needs more than one point; otherwise the groups are shown below each other.
    fn at_once(&self, shown: &[&Curve]) -> RankingChart {
        let item = |curve: &&Curve| {
            let point = curve.last();
            RankedItem { name: curve.name.clone(), value: point.value, lower: point.lower, upper: point.upper }
        };
        let instant = self.time_labels.instant(shown[0].last().at);
        RankingChart {
            title: self.title.clone(),
            subtitle: self.subtitle.clone(),
            label: format!("{}, up to {instant}", self.y_label),
            footer: self.footer.clone(),
            confidence: self.confidence,
            items: shown.iter().map(item).collect(),
            total: self.total_groups.max(shown.len()),
            item_word: self.group_word,
            value_word: "released",
        }
    }

    /// The replacement for a curve's name in pixel images, if the fonts lack some of its characters.
    fn plain_name(&self, index: usize) -> String {
        format!("{} {}", self.group_word, index + 1)
    }
}

impl Curve {
    /// Checks that numbers are finite and times in order: all later code relies on it.
    fn check(&self, truth: bool) -> Result<(), PlotError> {
        let group = || fit(&self.name, 400.0, 12.0, false);
        let finite = |point: &Point| {
            let truth = point.truth.filter(|_| truth).unwrap_or(0.0);
            [point.at, point.value, point.lower, point.upper, truth].iter().all(|number| number.abs() < 1e300)
        };
        if !self.points.iter().all(finite) {
            return Err(PlotError::GroupNotFinite { group: group() });
        }
        if self.points.windows(2).any(|pair| pair[0].at > pair[1].at) {
            return Err(PlotError::OutOfOrder { group: group() });
        }
        Ok(())
    }

    /// The last point; there is at least one.
    fn last(&self) -> Point {
        self.points[self.points.len() - 1]
    }
}
