//! Up to four groups in one panel, each labelled at the end of its line.

use super::caption::{caption, last_value, ungrouped};
use super::panel::{self, ReleasePanel, TIME_AXIS_HEIGHT, TimeAxis, ticks_width};
use super::{Curve, ReleasePlot, spread};
use crate::axis::ValueAxis;
use crate::canvas::Canvas;
use crate::frame::Frame;
use crate::labels::apart;
use crate::style::{MARGIN, NAME, SMALL, Stroke, TextStyle, WIDTH, ink};
use crate::text::{fit, width};

const HEIGHT: f64 = 330.0;
/// Space above the panel for its caption and legend.
const CAPTION: f64 = 34.0;
/// Space for leaders between the panel and its labels.
const ASIDE: f64 = 28.0;
/// Width of a name at the end of a line: enough for a short name, and the date from which its group counts.
const MAX_NAME: f64 = 240.0;
/// Height of a label at the end of a line.
const LABEL: f64 = 33.0;

/// The height of all panels together.
pub(super) fn height(shown: &[&Curve]) -> f64 {
    CAPTION + HEIGHT + TIME_AXIS_HEIGHT + if spread::wanted(shown) { spread::CAPTION + spread::HEIGHT } else { 0.0 }
}

/// Draws the panels from `top` on.
pub(super) fn draw(canvas: &mut Canvas, top: f64, plot: &ReleasePlot, shown: &[&Curve]) {
    let labels: Vec<Label> = shown
        .iter()
        .enumerate()
        .map(|(index, curve)| Label::new(curve, plot.plain_name(index), !ungrouped(plot, shown)))
        .collect();
    let aside = labels.iter().map(Label::width).fold(96.0, f64::max) + ASIDE;
    let values = panel::values(shown.iter().copied(), plot.unsafe_truth);
    let axis = ValueAxis::new(values.0, values.1, 6, false);
    let (slim_values, slim_axis) = spread::scale(plot, shown);
    let times = panel::times(&plot.time_labels, shown);
    let left = MARGIN + ticks_width(&axis).max(ticks_width(&slim_axis)) + 8.0;
    let gutter = panel::gutter(&plot.time_labels, times, left, aside.max(spread::aside(plot, shown)));
    let width = WIDTH - MARGIN - gutter - left;
    let frame = Frame { left, top: top + CAPTION, width, height: HEIGHT };
    let slim = Frame { top: frame.bottom() + spread::CAPTION, height: spread::HEIGHT, ..frame };
    let main = ReleasePanel { frame, times, values };

    caption(canvas, top + 16.0, plot, shown, &axis.unit());
    let below = spread::wanted(shown);
    let time = if below { TimeAxis::Grid } else { TimeAxis::Full };
    panel::time_axis(canvas, &main, &plot.time_labels, time);
    panel::value_axis(canvas, &main, &axis, true);
    for (curve, (colour, _)) in shown.iter().zip(ink::GROUPS) {
        panel::group(canvas, &main, curve, colour, plot.unsafe_truth);
    }
    end_labels(canvas, &main, shown, &labels);
    if below {
        let slim = ReleasePanel { frame: slim, times, values: slim_values };
        spread::draw(canvas, &slim, &slim_axis, plot, shown, MARGIN);
    }
}

/// A group's name, and below it its last release; only the release if there are no groups.
struct Label {
    name: Option<String>,
    /// The replacement for a name whose characters cannot be drawn.
    plain: String,
    value: String,
}

impl Label {
    fn new(curve: &Curve, plain: String, named: bool) -> Self {
        Self { name: named.then(|| fit(&curve.name, MAX_NAME, NAME, true)), plain, value: last_value(curve) }
    }

    fn width(&self) -> f64 {
        match &self.name {
            Some(name) => width(name, NAME, true).max(width(&self.value, SMALL, false)),
            None => width(&self.value, NAME, true),
        }
    }

    /// Draws the label at a given height.
    fn draw(&self, canvas: &mut Canvas, left: f64, middle: f64, colour: &'static str) {
        let strong = TextStyle::new(NAME, colour).bold();
        if let Some(name) = &self.name {
            canvas.text_or(left, middle - 1.0, name, &self.plain, strong);
            canvas.text(left, middle + 13.0, &self.value, TextStyle::new(SMALL, ink::MUTED));
        } else {
            canvas.text(left, middle + 4.5, &self.value, strong);
        }
    }
}

/// Places the labels next to the ends of the lines, without overlap, with a thin leader for labels that had to move.
fn end_labels(canvas: &mut Canvas, panel: &ReleasePanel, shown: &[&Curve], labels: &[Label]) {
    let frame = &panel.frame;
    let ends: Vec<(f64, f64)> =
        shown.iter().map(|curve| curve.last()).map(|point| (panel.x(point.at), panel.y(point.value))).collect();
    let wished: Vec<f64> = ends.iter().map(|end| end.1).collect();
    let places = apart(&wished, LABEL, frame.top + LABEL / 2.0 - 6.0, frame.bottom() - LABEL / 2.0 + 6.0);
    // A single time is drawn in the middle of the panel, and so are its labels.
    let edge = if panel.times.0 == panel.times.1 { ends[0].0 } else { frame.right() };
    let moved = |index: usize| (places[index] - ends[index].1).abs() > 3.0 || edge - ends[index].0 > 16.0;
    let left = edge + if (0..ends.len()).any(moved) { ASIDE } else { 14.0 };
    for (index, (&(x, y), label)) in ends.iter().zip(labels).enumerate() {
        let (colour, dark) = ink::GROUPS[index];
        let place = places[index];
        if edge < frame.right() {
            canvas.rect(left - 3.0, place - 14.0, label.width() + 6.0, LABEL - 3.0, ink::PAPER);
        }
        if moved(index) {
            canvas.line((x + 4.0, y), (left - 4.0, place), Stroke::new(colour, 1.0));
        }
        label.draw(canvas, left, place, dark);
    }
}
