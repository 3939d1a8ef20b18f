//! Up to four groups in one panel, each labelled where its line ends.

use super::axis::ValueAxis;
use super::canvas::{Canvas, Stroke, Type, ink};
use super::chart::{self, Frame, SMALL, TIME_AXIS_HEIGHT, TimeAxis};
use super::layout::{MARGIN, WIDTH, caption, last_value, ungrouped};
use super::text::{fit, width};
use super::{Plot, Series, spread};

const HEIGHT: f64 = 330.0;
/// Room above the panel for its caption and legend.
const CAPTION: f64 = 34.0;
/// Room for leaders between the panel and its labels.
const ASIDE: f64 = 28.0;
/// Height of a label at the end of a line.
const LABEL: f64 = 33.0;

/// How high the panels are together.
pub(super) fn height(shown: &[&Series]) -> f64 {
    CAPTION + HEIGHT + TIME_AXIS_HEIGHT + if spread::wanted(shown) { spread::CAPTION + spread::HEIGHT } else { 0.0 }
}

/// Draws the panels from `top` on.
pub(super) fn draw(canvas: &mut Canvas, top: f64, plot: &Plot, shown: &[&Series]) {
    let labels: Vec<Label> = shown.iter().map(|series| Label::new(series, !ungrouped(plot, shown))).collect();
    let aside = labels.iter().map(Label::width).fold(96.0, f64::max) + ASIDE;
    let values = chart::values(shown.iter().copied(), plot.unsafe_truth);
    let axis = ValueAxis::new(values.0, values.1, 6, false);
    let place = Frame {
        left: 0.0,
        top: top + CAPTION,
        width: 1.0,
        height: HEIGHT,
        times: chart::times(&plot.time_labels, shown),
        values,
    };
    let slim = Frame { top: place.bottom() + spread::CAPTION, height: spread::HEIGHT, ..place };
    let (slim, slim_axis) = spread::frame(plot, shown, slim);
    let left = MARGIN + ticks_width(&axis).max(ticks_width(&slim_axis)) + 8.0;
    let gutter = chart::gutter(&plot.time_labels, place.times, left, aside.max(spread::aside(plot, shown)));
    let width = WIDTH - MARGIN - gutter - left;
    let (frame, slim) = (Frame { left, width, ..place }, Frame { left, width, ..slim });

    caption(canvas, top + 16.0, plot, shown, &axis.unit());
    let below = spread::wanted(shown);
    let time = if below { TimeAxis::Grid } else { TimeAxis::Full };
    chart::time_axis(canvas, &frame, &plot.time_labels, time);
    chart::value_axis(canvas, &frame, &axis, true);
    for (series, (colour, _)) in shown.iter().zip(ink::GROUPS) {
        chart::group(canvas, &frame, series, colour, plot.unsafe_truth);
    }
    end_labels(canvas, &frame, shown, &labels);
    if below {
        spread::draw(canvas, &slim, &slim_axis, plot, shown, MARGIN);
    }
}

/// Room that the tick labels of an axis take.
pub(super) fn ticks_width(axis: &ValueAxis) -> f64 {
    axis.ticks.iter().map(|&tick| width(&axis.label(tick), SMALL, false)).fold(0.0, f64::max)
}

/// A group's name, and below it its last release; the release alone if there are no groups.
struct Label {
    name: Option<String>,
    value: String,
}

impl Label {
    fn new(series: &Series, named: bool) -> Self {
        Self { name: named.then(|| fit(&series.name, 170.0, 13.0, true)), value: last_value(series) }
    }

    fn width(&self) -> f64 {
        match &self.name {
            Some(name) => width(name, 13.0, true).max(width(&self.value, SMALL, false)),
            None => width(&self.value, 13.0, true),
        }
    }

    /// Draws it beside a height.
    fn draw(&self, canvas: &mut Canvas, left: f64, middle: f64, colour: &'static str) {
        let strong = Type::new(13.0, colour).bold();
        if let Some(name) = &self.name {
            canvas.text(left, middle - 1.0, name, strong);
            canvas.text(left, middle + 13.0, &self.value, Type::new(SMALL, ink::MUTED));
        } else {
            canvas.text(left, middle + 4.5, &self.value, strong);
        }
    }
}

/// Puts the labels beside the ends of the lines, apart from each other, with a thin leader where one had to move.
fn end_labels(canvas: &mut Canvas, frame: &Frame, shown: &[&Series], labels: &[Label]) {
    let ends: Vec<(f64, f64)> = shown
        .iter()
        .map(|series| series.points[series.points.len() - 1])
        .map(|point| (frame.x(point.at), frame.y(point.value)))
        .collect();
    let wished: Vec<f64> = ends.iter().map(|end| end.1).collect();
    let places = apart(&wished, LABEL, frame.top + LABEL / 2.0 - 6.0, frame.bottom() - LABEL / 2.0 + 6.0);
    // A single instant stands in the middle of the panel, and so do its labels.
    let edge = if frame.times.0 == frame.times.1 { ends[0].0 } else { frame.right() };
    let moved = |index: usize| (places[index] - ends[index].1).abs() > 3.0 || edge - ends[index].0 > 16.0;
    let left = edge + if (0..ends.len()).any(moved) { ASIDE } else { 14.0 };
    for (index, (&(x, y), label)) in ends.iter().zip(labels).enumerate() {
        let (colour, dark) = ink::GROUPS[index];
        let place = places[index];
        if edge < frame.right() {
            canvas.rect(left - 3.0, place - 14.0, label.width() + 6.0, LABEL - 3.0, "#ffffff");
        }
        if moved(index) {
            canvas.line((x + 4.0, y), (left - 4.0, place), Stroke::new(colour, 1.0));
        }
        label.draw(canvas, left, place, dark);
    }
}

/// Moves heights apart until labels `label` high fit, in their order, between `low` and `high`.
pub(crate) fn apart(wished: &[f64], label: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wished.len()).collect();
    order.sort_by(|&a, &b| wished[a].total_cmp(&wished[b]));
    let mut places = wished.to_vec();
    let mut above = low - label;
    for &index in &order {
        places[index] = places[index].max(above + label);
        above = places[index];
    }
    let mut below = high + label;
    for &index in order.iter().rev() {
        places[index] = places[index].min(below - label);
        below = places[index];
    }
    places
}
