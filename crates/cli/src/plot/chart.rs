//! What every panel is made of: a frame with scales, axes, and the drawing of one group.

use super::Series;
use super::axis::{TimeLabels, TimeTick, ValueAxis, contexts, label_end};
use super::canvas::{Anchor, Canvas, Stroke, Type, ink};
use super::decimate;
use super::layout::{MARGIN, WIDTH};
use super::text::width;

/// Size of tick labels.
pub(super) const SMALL: f64 = 11.0;
/// Up to this many releases each gets a dot.
const DOTS: usize = 40;

/// A rectangle on the sheet and the ranges of time and value that it shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) times: (f64, f64),
    pub(super) values: (f64, f64),
}

impl Frame {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }

    pub(super) fn x(&self, at: f64) -> f64 {
        let (low, high) = self.times;
        // A single instant stands in the middle.
        if high > low { self.left + self.width * ((at - low) / (high - low)) } else { self.left + self.width / 2.0 }
    }

    pub(super) fn y(&self, value: f64) -> f64 {
        let (low, high) = self.values;
        self.bottom() - self.height * ((value - low) / (high - low))
    }
}

/// From one step before the first release, where the count began, to the last; one instant if there is but one.
pub(super) fn times(labels: &TimeLabels, shown: &[&Series]) -> (f64, f64) {
    let (low, high) =
        range(shown.iter().flat_map(|series| [series.points[0].at, series.points[series.points.len() - 1].at]));
    let step = shown.iter().filter_map(|series| {
        let first = series.points[0].at;
        Some(first - labels.before(first, series.points.get(1)?.at))
    });
    let step = step.filter(|step| *step > 0.0).fold(f64::INFINITY, f64::min);
    // A gap after the first release would leave half of the picture empty.
    if step <= (high - low) / 4.0 { (low - step, high) } else { (low, high) }
}

/// The range of all intervals, and of the true counts if they are to be seen, with some air.
pub(super) fn values<'a>(shown: impl IntoIterator<Item = &'a Series>, truth: bool) -> (f64, f64) {
    let points = shown.into_iter().flat_map(|series| &series.points);
    let ends = points.flat_map(|point| {
        let truth = point.truth.filter(|_| truth).unwrap_or(point.value);
        [point.lower.min(point.value).min(truth), point.upper.max(point.value).max(truth)]
    });
    let (mut low, mut high) = range(ends);
    // Counts are read against zero where zero is not far.
    if low > 0.0 && low < high / 2.0 {
        low = 0.0;
    }
    if high < 0.0 && high > low / 2.0 {
        high = 0.0;
    }
    pad(low, high)
}

/// A range with air on both ends that are not zero, never empty.
pub(super) fn pad(low: f64, high: f64) -> (f64, f64) {
    let span = high - low;
    let least = (low.abs().max(high.abs()) * 1e-14).max(if span > 0.0 { 0.0 } else { 1.0 });
    let air = (span * 0.05).max(least);
    (if low == 0.0 && span > 0.0 { low } else { low - air }, if high == 0.0 && span > 0.0 { high } else { high + air })
}

fn range(numbers: impl Iterator<Item = f64>) -> (f64, f64) {
    numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| (low.min(number), high.max(number)))
}

/// Horizontal grid lines, with labels to their left unless the panel beside it has them.
pub(super) fn value_axis(canvas: &mut Canvas, frame: &Frame, axis: &ValueAxis, labels: bool) {
    for &tick in &axis.ticks {
        let y = crisp(frame.y(tick));
        let colour = if tick == 0.0 { ink::AXIS } else { ink::GRID };
        canvas.line((frame.left, y), (frame.right(), y), Stroke::new(colour, 1.0));
        if labels {
            canvas.text(frame.left - 8.0, y + 4.0, &axis.label(tick), Type::new(SMALL, ink::MUTED).anchor(Anchor::End));
        }
    }
}

/// The middle of a pixel, where a thin line is sharp.
fn crisp(place: f64) -> f64 {
    place.floor() + 0.5
}

/// How much of the time axis a panel gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TimeAxis {
    /// Grid lines only: a panel below has the rest.
    Grid,
    /// Grid lines, labels, and the caption at the end.
    Full,
    /// Grid lines and labels.
    Labels,
}

/// Room below a frame for the labels of its time axis.
pub(super) const TIME_AXIS_HEIGHT: f64 = 40.0;

/// Between the last label of a time axis and its caption.
const CAPTION_GAP: f64 = 12.0;

/// Room right of a panel that begins at `left` and shows the full time axis: `least`, or more if the caption needs it.
pub(super) fn gutter(labels: &TimeLabels, times: (f64, f64), left: f64, least: f64) -> f64 {
    let caption = CAPTION_GAP + width(&labels.caption(), SMALL, false);
    // A narrower panel may have other ticks, whose labels jut out further.
    (0..3).fold(least, |gutter, _| {
        let room = WIDTH - MARGIN - gutter - left;
        let ends = labels.ticks(times.0, times.1, room).into_iter().map(|tick| label_end(&tick, times, room));
        gutter.max(ends.fold(room, f64::max) - room + caption)
    })
}

/// Vertical grid lines, and labels below.
pub(super) fn time_axis(canvas: &mut Canvas, frame: &Frame, labels: &TimeLabels, style: TimeAxis) {
    let ticks = labels.ticks(frame.times.0, frame.times.1, frame.width);
    for tick in &ticks {
        let x = crisp(frame.x(tick.at));
        canvas.line((x, frame.top), (x, frame.bottom()), Stroke::new(ink::GRID, 1.0));
    }
    if style == TimeAxis::Grid {
        return;
    }
    let base = crisp(frame.bottom());
    canvas.line((frame.left, base), (frame.right(), base), Stroke::new(ink::AXIS, 1.0));
    let quiet = Type::new(SMALL, ink::MUTED).anchor(Anchor::Middle);
    // A label that juts out at the end would run into the next panel's first.
    let inside = |tick: &TimeTick| label_end(tick, frame.times, frame.width) <= frame.width;
    let room = |tick: &TimeTick| style == TimeAxis::Full || ticks.len() == 1 || inside(tick);
    let labelled: Vec<TimeTick> = ticks.iter().filter(|tick| room(tick)).cloned().collect();
    for tick in &labelled {
        let x = crisp(frame.x(tick.at));
        canvas.line((x, frame.bottom()), (x, frame.bottom() + 4.0), Stroke::new(ink::AXIS, 1.0));
        canvas.text(x, frame.bottom() + 17.0, &tick.label, quiet);
    }
    let contexts = contexts(&labelled, |at| frame.x(at), SMALL);
    for (x, context) in &contexts {
        let most = frame.right() - width(context, SMALL, false) / 2.0;
        if style == TimeAxis::Full || *x <= most {
            canvas.text(*x, frame.bottom() + 31.0, context, quiet);
        } else if contexts.len() == 1 {
            canvas.text(most, frame.bottom() + 31.0, context, quiet);
        }
    }
    if style == TimeAxis::Full {
        let end = ticks.iter().map(|tick| label_end(tick, frame.times, frame.width)).fold(frame.width, f64::max);
        let caption = labels.caption();
        let x = (frame.left + end + CAPTION_GAP).min(WIDTH - MARGIN - width(&caption, SMALL, false));
        canvas.text(x, frame.bottom() + 17.0, &caption, Type::new(SMALL, ink::MUTED));
    }
}

/// One group: its intervals as a band, its releases as a line, and, if they are to be seen, its true counts dashed.
pub(super) fn group(canvas: &mut Canvas, frame: &Frame, series: &Series, colour: &'static str, truth: bool) {
    let points = &series.points;
    let band = points.iter().map(|point| (frame.x(point.at), frame.y(point.upper), frame.y(point.lower)));
    canvas.area(&decimate::envelope(band, frame.width), colour, 0.22);
    let line = points.iter().map(|point| (frame.x(point.at), frame.y(point.value)));
    canvas.polyline(&decimate::line(line, frame.width), Stroke::new(colour, 1.75));
    if points.len() <= DOTS {
        dots(canvas, frame, series, colour);
    }
    if truth {
        let line: Vec<(f64, f64)> =
            points.iter().filter_map(|point| Some((frame.x(point.at), frame.y(point.truth?)))).collect();
        let stroke = Stroke { dash: Some("5 3"), ..Stroke::new(ink::TRUTH, 1.25) };
        if let [(x, y)] = line[..] {
            canvas.line((x - 9.0, y), (x + 9.0, y), stroke);
        }
        canvas.polyline(&decimate::line(line.into_iter(), frame.width), stroke);
    }
}

/// Single releases, and their intervals as whiskers where a band would have no width.
fn dots(canvas: &mut Canvas, frame: &Frame, series: &Series, colour: &'static str) {
    let alone = series.points.len() == 1;
    for point in &series.points {
        let x = frame.x(point.at);
        if alone {
            let (top, bottom) = (frame.y(point.upper), frame.y(point.lower));
            let stroke = Stroke::new(colour, 1.75);
            canvas.line((x, top), (x, bottom), stroke);
            for y in [top, bottom] {
                canvas.line((x - 6.0, y), (x + 6.0, y), stroke);
            }
        }
        canvas.dot(x, frame.y(point.value), if alone { 5.0 } else { 3.0 }, colour);
    }
}
