//! The slim panel below: the width of the intervals or, with true counts, the error of the releases.

use super::panel::{self, ReleasePanel, TimeAxis};
use super::{Curve, Point, ReleasePlot};
use crate::axis::ValueAxis;
use crate::canvas::Canvas;
use crate::decimate;
use crate::style::{NORMAL, Stroke, TextStyle, ink};
use crate::text::{half_width, percent, width};

/// Height of the panel.
pub(super) const HEIGHT: f64 = 84.0;
/// Space above it for its caption.
pub(super) const CAPTION: f64 = 40.0;
/// Space between the panel and the text to its right.
const ASIDE: f64 = 14.0;

/// Whether there is more than one time.
pub(super) fn wanted(shown: &[&Curve]) -> bool {
    shown.iter().any(|curve| curve.points.len() > 1)
}

/// The range of values of the panel, and its axis.
pub(super) fn scale(plot: &ReleasePlot, shown: &[&Curve]) -> ((f64, f64), ValueAxis) {
    let widest = widest(shown);
    let points = shown.iter().flat_map(|curve| &curve.points);
    let off = points.filter_map(|point| Some((point.value - point.truth?).abs())).fold(0.0, f64::max);
    let most = if errors(plot, shown) { widest.max(off) } else { widest };
    let most = if most > 0.0 { most * 1.08 } else { 1.0 };
    let values = if errors(plot, shown) { (-most, most) } else { (0.0, most) };
    (values, ValueAxis::new(values.0, values.1, 3, false))
}

/// Space right of the panel for its text.
pub(super) fn aside(plot: &ReleasePlot, shown: &[&Curve]) -> f64 {
    if wanted(shown) && !errors(plot, shown) { ASIDE + width(&at_most(widest(shown)), NORMAL, false) } else { 0.0 }
}

fn widest(shown: &[&Curve]) -> f64 {
    shown.iter().flat_map(|curve| &curve.points).map(Point::half_width).fold(0.0, f64::max)
}

fn at_most(half: f64) -> String {
    format!("at most ±{}", half_width(half))
}

/// True counts are compared only if groups can be distinguished by colour.
fn errors(plot: &ReleasePlot, shown: &[&Curve]) -> bool {
    plot.unsafe_truth && shown.len() <= ink::GROUPS.len()
}

/// Draws the panel with its caption and the time axis.
pub(super) fn draw(
    canvas: &mut Canvas,
    panel: &ReleasePanel,
    axis: &ValueAxis,
    plot: &ReleasePlot,
    shown: &[&Curve],
    left: f64,
) {
    let shared = same_widths(shown);
    let level = percent(plot.confidence);
    let interval = if plot.at_once { "band" } else { "interval" };
    let caption = match (errors(plot, shown), shared || shown.len() == 1) {
        (true, _) => format!("Released minus true, and the {level} {interval}"),
        (false, true) => format!("Half-width of the {level} {interval} (±)"),
        (false, false) => format!("Half-width of the {level} {interval} (±), a line for each group"),
    };
    let caption = match axis.unit() {
        unit if unit.is_empty() => caption,
        unit => format!("{caption}, {unit}"),
    };
    canvas.text(left, panel.frame.top - 12.0, &caption, TextStyle::new(NORMAL, ink::TEXT));
    panel::time_axis(canvas, panel, &plot.time_labels, TimeAxis::Full);
    panel::value_axis(canvas, panel, axis, true);
    if errors(plot, shown) {
        draw_errors(canvas, panel, shown, shared);
    } else {
        draw_widths(canvas, panel, shown, shared);
    }
}

fn draw_widths(canvas: &mut Canvas, panel: &ReleasePanel, shown: &[&Curve], shared: bool) {
    let drawn = if shared { &shown[..1] } else { shown };
    for (index, curve) in drawn.iter().enumerate() {
        let (colour, width) = match (shared, ink::GROUPS.get(index)) {
            (true, _) => (ink::MUTED, 1.5),
            (false, Some(group)) if shown.len() <= ink::GROUPS.len() => (group.0, 1.5),
            _ => (ink::MUTED, 0.75),
        };
        let widths = curve.points.iter().map(|point| {
            let y = panel.y(point.half_width());
            (panel.x(point.at), y, y)
        });
        let columns = decimate::envelope(widths, panel.frame.width);
        if columns.iter().any(|&(_, top, bottom)| bottom - top > 0.5) {
            canvas.area(&columns, colour, 0.3);
        }
        let top: Vec<(f64, f64)> = columns.iter().map(|&(x, top, _)| (x, top)).collect();
        canvas.polyline(&top, Stroke::new(colour, width));
    }
    let widest = widest(shown);
    let y = (panel.y(widest) + 4.0).min(panel.frame.bottom() - 6.0);
    canvas.text(panel.frame.right() + ASIDE, y, &at_most(widest), TextStyle::new(NORMAL, ink::TEXT));
}

fn draw_errors(canvas: &mut Canvas, panel: &ReleasePanel, shown: &[&Curve], shared: bool) {
    for curve in if shared { &shown[..1] } else { shown } {
        let band = curve.points.iter().map(|point| {
            let half = point.half_width();
            (panel.x(point.at), panel.y(half), panel.y(-half))
        });
        canvas.area(&decimate::envelope(band, panel.frame.width), ink::BAND, if shared { 0.35 } else { 0.2 });
    }
    for (curve, (colour, _)) in shown.iter().zip(ink::GROUPS) {
        let off: Vec<(f64, f64)> = curve
            .points
            .iter()
            .filter_map(|point| Some((panel.x(point.at), panel.y(point.value - point.truth?))))
            .collect();
        canvas.polyline(
            &decimate::line(off.into_iter(), panel.frame.width),
            Stroke { opacity: 0.75, ..Stroke::new(colour, 1.0) },
        );
    }
}

/// Whether all groups have intervals of the same width at every step, as under one plan.
fn same_widths(shown: &[&Curve]) -> bool {
    shown.iter().all(|curve| {
        curve.points.len() == shown[0].points.len()
            && curve.points.iter().zip(&shown[0].points).all(|(here, first)| {
                let (here, first) = (here.half_width(), first.half_width());
                (here - first).abs() <= 0.01 * here.abs().max(first.abs())
            })
    })
}
