//! The parts of every panel of a release: a frame with ranges of time and value, axes, and the drawing of one group.

use super::Curve;
use crate::axis::time::{TimeLabels, TimeTick, contexts, label_end};
use crate::axis::{ValueAxis, with_padding};
use crate::canvas::Canvas;
use crate::decimate;
use crate::frame::{Frame, crisp};
use crate::style::{MARGIN, SMALL, Stroke, TextAnchor, TextStyle, WIDTH, ink};
use crate::text::width;

/// Up to this many releases each gets a dot.
const DOTS: usize = 40;
/// The line of true counts.
pub(super) const TRUTH: Stroke = Stroke { colour: ink::TRUTH, width: 1.25, dash: Some("5 3"), opacity: 1.0 };

/// A rectangle on the sheet and the ranges of time and value that it shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReleasePanel {
    pub(super) frame: Frame,
    pub(super) times: (f64, f64),
    pub(super) values: (f64, f64),
}

impl ReleasePanel {
    pub(super) fn x(&self, at: f64) -> f64 {
        let ((low, high), frame) = (self.times, self.frame);
        // A single time is drawn in the middle.
        if high > low { frame.left + frame.width * ((at - low) / (high - low)) } else { frame.left + frame.width / 2.0 }
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        let (low, high) = self.values;
        self.frame.bottom() - self.frame.height * ((value - low) / (high - low))
    }
}

/// From one step before the first release, where the count began, to the last; a single time if there is only one. The
/// points of single periods are in the middle of their step.
pub(super) fn times(labels: &TimeLabels, shown: &[&Curve]) -> (f64, f64) {
    let (low, high) = range(shown.iter().flat_map(|curve| [curve.points[0].at, curve.last().at]));
    let step = shown.iter().filter_map(|curve| {
        let first = curve.points[0].at;
        Some(first - labels.before(first, curve.points.get(1)?.at))
    });
    let step = step.filter(|step| *step > 0.0).fold(f64::INFINITY, f64::min);
    // A gap after the first release would leave half of the picture empty.
    if step > (high - low) / 4.0 {
        return (low, high);
    }
    let ends = |curve: &&Curve| {
        let after = if curve.is_per_period { step / 2.0 } else { 0.0 };
        [curve.points[0].at - (step - after), curve.last().at + after]
    };
    range(shown.iter().flat_map(ends))
}

/// The range of all intervals, and of the true counts if they are shown, with some padding.
pub(super) fn values<'a>(shown: impl IntoIterator<Item = &'a Curve>, truth: bool) -> (f64, f64) {
    let mut from_zero = false;
    let points = shown.into_iter().inspect(|curve| from_zero |= curve.is_from_zero).flat_map(|curve| &curve.points);
    let ends = points.flat_map(|point| {
        let truth = point.truth.filter(|_| truth).unwrap_or(point.value);
        [point.lower.min(point.value).min(truth), point.upper.max(point.value).max(truth)]
    });
    let (mut low, mut high) = range(ends);
    // Counts are shown with zero if zero is not far away.
    if low > 0.0 && (from_zero || low < high / 2.0) {
        low = 0.0;
    }
    if high < 0.0 && (from_zero || high > low / 2.0) {
        high = 0.0;
    }
    with_padding(low, high)
}

fn range(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| (low.min(number), high.max(number)))
}

/// The width of an axis's tick labels.
pub(super) fn ticks_width(axis: &ValueAxis) -> f64 {
    axis.ticks.iter().map(|&tick| width(&axis.label(tick), SMALL, false)).fold(0.0, f64::max)
}

/// Horizontal grid lines, with labels to their left unless the neighbouring panel has them.
pub(super) fn value_axis(canvas: &mut Canvas, panel: &ReleasePanel, axis: &ValueAxis, labels: bool) {
    for &tick in &axis.ticks {
        let colour = if tick == 0.0 { ink::AXIS } else { ink::GRID };
        let label = labels.then(|| axis.label(tick));
        panel.frame.grid_line(canvas, panel.y(tick), colour, label.as_deref());
    }
}

/// The parts of the time axis that a panel shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TimeAxis {
    /// Grid lines only: a panel below has the other parts.
    Grid,
    /// Grid lines, labels, and the caption at the end.
    Full,
    /// Grid lines and labels.
    Labels,
}

/// Space below a frame for the labels of its time axis.
pub(super) const TIME_AXIS_HEIGHT: f64 = 40.0;

/// Space between the last label of a time axis and its caption.
const CAPTION_GAP: f64 = 12.0;

/// Space right of a panel that begins at `left` and shows the full time axis: `least`, or more if the caption needs it.
pub(super) fn gutter(labels: &TimeLabels, times: (f64, f64), left: f64, least: f64) -> f64 {
    let caption = CAPTION_GAP + width(&labels.caption(), SMALL, false);
    // A narrower panel may have other ticks, whose labels extend further.
    (0..3).fold(least, |gutter, _| {
        let room = WIDTH - MARGIN - gutter - left;
        let ends = labels.ticks(times.0, times.1, room).into_iter().map(|tick| label_end(&tick, times, room));
        gutter.max(ends.fold(room, f64::max) - room + caption)
    })
}

/// Vertical grid lines, and labels below.
pub(super) fn time_axis(canvas: &mut Canvas, panel: &ReleasePanel, labels: &TimeLabels, style: TimeAxis) {
    let (frame, times) = (&panel.frame, panel.times);
    let ticks = labels.ticks(times.0, times.1, frame.width);
    for tick in &ticks {
        let x = crisp(panel.x(tick.at));
        canvas.line((x, frame.top), (x, frame.bottom()), Stroke::new(ink::GRID, 1.0));
    }
    if style == TimeAxis::Grid {
        return;
    }
    frame.base_line(canvas);
    let quiet = TextStyle::new(SMALL, ink::MUTED).anchor(TextAnchor::Middle);
    // A label that extends beyond the end would run into the next panel's first label.
    let inside = |tick: &TimeTick| label_end(tick, times, frame.width) <= frame.width;
    let room = |tick: &TimeTick| style == TimeAxis::Full || ticks.len() == 1 || inside(tick);
    let labelled: Vec<TimeTick> = ticks.iter().filter(|tick| room(tick)).cloned().collect();
    for tick in &labelled {
        let x = crisp(panel.x(tick.at));
        canvas.line((x, frame.bottom()), (x, frame.bottom() + 4.0), Stroke::new(ink::AXIS, 1.0));
        canvas.text(x, frame.bottom() + 17.0, &tick.label, quiet);
    }
    let contexts = contexts(&labelled, |at| panel.x(at), SMALL);
    for (x, context) in &contexts {
        let most = frame.right() - width(context, SMALL, false) / 2.0;
        if style == TimeAxis::Full || *x <= most {
            canvas.text(*x, frame.bottom() + 31.0, context, quiet);
        } else if contexts.len() == 1 {
            canvas.text(most, frame.bottom() + 31.0, context, quiet);
        }
    }
    if style == TimeAxis::Full {
        let end = ticks.iter().map(|tick| label_end(tick, times, frame.width)).fold(frame.width, f64::max);
        let caption = labels.caption();
        let x = (frame.left + end + CAPTION_GAP).min(WIDTH - MARGIN - width(&caption, SMALL, false));
        canvas.text(x, frame.bottom() + 17.0, &caption, TextStyle::new(SMALL, ink::MUTED));
    }
}

/// One group: its intervals as a band, its releases as a line, and its true counts dashed if they are shown.
pub(super) fn group(canvas: &mut Canvas, panel: &ReleasePanel, curve: &Curve, colour: &'static str, truth: bool) {
    let points = &curve.points;
    let band = points.iter().map(|point| (panel.x(point.at), panel.y(point.upper), panel.y(point.lower)));
    canvas.area(&decimate::envelope(band, panel.frame.width), colour, 0.22);
    let line = points.iter().map(|point| (panel.x(point.at), panel.y(point.value)));
    canvas.polyline(&decimate::line(line, panel.frame.width), Stroke::new(colour, 1.75));
    if points.len() <= DOTS {
        dots(canvas, panel, curve, colour);
    }
    if truth {
        let line: Vec<(f64, f64)> =
            points.iter().filter_map(|point| Some((panel.x(point.at), panel.y(point.truth?)))).collect();
        if let [(x, y)] = line[..] {
            canvas.line((x - 9.0, y), (x + 9.0, y), TRUTH);
        }
        canvas.polyline(&decimate::line(line.into_iter(), panel.frame.width), TRUTH);
    }
}

/// Single releases, and their intervals as whiskers if a band would have no width.
fn dots(canvas: &mut Canvas, panel: &ReleasePanel, curve: &Curve, colour: &'static str) {
    let alone = curve.points.len() == 1;
    for point in &curve.points {
        let x = panel.x(point.at);
        if alone {
            let (top, bottom) = (panel.y(point.upper), panel.y(point.lower));
            let stroke = Stroke::new(colour, 1.75);
            canvas.line((x, top), (x, bottom), stroke);
            for y in [top, bottom] {
                canvas.line((x - 6.0, y), (x + 6.0, y), stroke);
            }
        }
        canvas.dot(x, panel.y(point.value), if alone { 5.0 } else { 3.0 }, colour);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Point;
    use super::*;

    const DAY: f64 = 86_400.0;

    fn curve(per_period: bool) -> Curve {
        // In the middle or at the end of each of ten days.
        let at = |day: u32| DAY * (f64::from(day) + if per_period { 0.5 } else { 1.0 });
        let point = |day| Point { at: at(day), value: 900.0, lower: 890.0, upper: 910.0, truth: None };
        let points = (0..10).map(point).collect();
        Curve { name: "a".into(), points, is_per_period: per_period, is_from_zero: per_period }
    }

    /// Both kinds of lines span the same ten days.
    #[test]
    fn values_of_periods_are_inside_of_their_periods() {
        let (daily, total) = (curve(true), curve(false));
        for shown in [&[&daily][..], &[&total], &[&daily, &total]] {
            for labels in [TimeLabels::Steps, TimeLabels::Calendar(jiff::tz::TimeZone::UTC)] {
                assert_eq!(times(&labels, shown), (0.0, 10.0 * DAY));
            }
        }
    }

    #[test]
    fn values_of_periods_are_compared_with_zero() {
        assert!(values([&curve(true)], false).0 <= 0.0);
        assert!(values([&curve(false)], false).0 > 800.0);
        let mut below = curve(true);
        below.points.iter_mut().for_each(|point| (point.value, point.lower, point.upper) = (-900.0, -910.0, -890.0));
        assert!(values([&below], false).1 >= 0.0);
    }
}
