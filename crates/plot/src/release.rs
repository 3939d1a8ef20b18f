//! Pictures of a release: running counts with their intervals, as SVG and as PNG.
//!
//! Everything drawn is already released, so that any picture of it is as private as the release. The one exception,
//! true counts beside the released ones, must be asked for and stamps the whole picture.
//!
//! Up to four groups share a panel, each in a colour of its own; up to twelve get a panel each; of more, the first
//! twelve are drawn. Curves that are [apart](ReleasePlot::apart) get a panel and a scale each. The caller orders the groups, and must do so without looking at the data. Several groups at a
//! single instant stand below each other, as a [`Ranking`](crate::Ranking) has them, up to thirty.
//!
//! On a count of a hundred thousand an interval of ±40 is thinner than the line, so a slim second panel shows how wide
//! the intervals are over time, or, beside true counts, how far the release is off.

mod caption;
mod grid;
mod layout;
mod overlay;
mod panel;
mod spread;

use crate::axis::TimeLabels;
use crate::error::Error;
use crate::ranking::{RankedItem, Ranking};
use crate::text::fit;

/// How many groups are drawn at most; a caller need not collect the points of more.
pub const MAX_SHOWN: usize = 12;

/// How many groups are drawn of a release of a single step.
pub const MAX_SHOWN_AT_ONCE: usize = 30;

/// The stamp of a picture that shows true counts.
pub const STAMP: &str = "NOT PRIVATE – contains true counts";

/// What such a picture says instead of its guarantee.
pub(crate) const WARNING: &str = "Contains exact counts: no privacy guarantee. Do not publish.";

/// One release of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When: seconds since 1970 in UTC, or the number of the step, as [`ReleasePlot::time_labels`] says.
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
    /// The group's name, as it stands in the data; any characters are safe. Empty if there are no groups.
    pub name: String,
    /// Its releases.
    pub points: Vec<Point>,
}

/// What a picture shows.
#[derive(Clone, Debug)]
pub struct ReleasePlot {
    /// Headline.
    pub title: String,
    /// Budget, privacy unit and mechanism in words, under the headline.
    pub subtitle: String,
    /// What the values are, above the panels: "flights since 1 January 2013".
    pub y_label: String,
    /// The guarantee in one sentence, under the picture; not shown beside true counts, which have none.
    pub footer: String,
    /// How the horizontal axis is labelled.
    pub time_labels: TimeLabels,
    /// Confidence of the intervals, as 0.95.
    pub confidence: f64,
    /// Whether they hold at all times at once.
    pub at_once: bool,
    /// The groups; the first [`MAX_SHOWN`] are drawn.
    pub curves: Vec<Curve>,
    /// How many groups the release has; more than `curves` holds when the caller left some out.
    pub total_groups: usize,
    /// What one of them is called: `group`, `item`.
    pub group_word: &'static str,
    /// Whether each has a panel and a scale of its own, however few they are: measures that have nothing in common.
    pub apart: bool,
    /// Draws the true counts too, and stamps the picture as not private.
    pub unsafe_truth: bool,
}

impl ReleasePlot {
    /// The picture as SVG. The same plot gives the same bytes.
    ///
    /// # Errors
    /// If there is nothing to draw, a number is not finite, or the points of a group are not in order of time.
    pub fn svg(&self) -> Result<String, Error> {
        let is_instant = !self.unsafe_truth
            && !self.apart
            && self.curves.len() > 1
            && self.curves.iter().all(|c| c.points.len() == 1);
        let most = if is_instant { MAX_SHOWN_AT_ONCE } else { MAX_SHOWN };
        let shown: Vec<&Curve> = self.curves.iter().take(most).filter(|curve| !curve.points.is_empty()).collect();
        if shown.is_empty() {
            return Err(Error::NoRelease);
        }
        for curve in &shown {
            curve.check(self.unsafe_truth)?;
        }
        if is_instant { self.at_once(&shown).svg() } else { Ok(layout::draw(self, &shown)) }
    }

    /// A line over time needs more than one point: the groups below each other.
    fn at_once(&self, shown: &[&Curve]) -> Ranking {
        let item = |curve: &&Curve| {
            let point = curve.last();
            RankedItem { name: curve.name.clone(), value: point.value, lower: point.lower, upper: point.upper }
        };
        let instant = self.time_labels.instant(shown[0].last().at);
        Ranking {
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

    /// What stands in pixels for the name of a curve whose letters the fonts lack.
    fn plain_name(&self, index: usize) -> String {
        format!("{} {}", self.group_word, index + 1)
    }
}

impl Curve {
    /// Numbers must be finite and times in order: everything after this relies on it.
    fn check(&self, truth: bool) -> Result<(), Error> {
        let group = || fit(&self.name, 400.0, 12.0, false);
        let finite = |point: &Point| {
            let truth = point.truth.filter(|_| truth).unwrap_or(0.0);
            [point.at, point.value, point.lower, point.upper, truth].iter().all(|number| number.abs() < 1e300)
        };
        if !self.points.iter().all(finite) {
            return Err(Error::GroupNotFinite { group: group() });
        }
        if self.points.windows(2).any(|pair| pair[0].at > pair[1].at) {
            return Err(Error::OutOfOrder { group: group() });
        }
        Ok(())
    }

    /// There is at least one.
    fn last(&self) -> Point {
        self.points[self.points.len() - 1]
    }
}
