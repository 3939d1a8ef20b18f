//! The slim panel below: how wide the intervals are, or, beside true counts, how far the releases are off.

use super::axis::ValueAxis;
use super::canvas::{Canvas, Stroke, Type, ink};
use super::chart::{self, Frame, TimeAxis};
use super::text::{half_width, percent, width};
use super::{Plot, Series, decimate};

/// Height of the panel.
pub(super) const HEIGHT: f64 = 84.0;
/// Room above it for its caption.
pub(super) const CAPTION: f64 = 40.0;
/// Between the panel and what stands to its right.
const ASIDE: f64 = 14.0;

/// Whether there is anything to see over time.
pub(super) fn wanted(shown: &[&Series]) -> bool {
    shown.iter().any(|series| series.points.len() > 1)
}

/// The axis of the panel and the frame for it; the caller gives where it stands.
pub(super) fn frame(plot: &Plot, shown: &[&Series], place: Frame) -> (Frame, ValueAxis) {
    let widest = widest(shown);
    let points = shown.iter().flat_map(|series| &series.points);
    let off = points.filter_map(|point| Some((point.value - point.truth?).abs())).fold(0.0, f64::max);
    let most = if errors(plot, shown) { widest.max(off) } else { widest };
    let most = if most > 0.0 { most * 1.08 } else { 1.0 };
    let values = if errors(plot, shown) { (-most, most) } else { (0.0, most) };
    (Frame { values, ..place }, ValueAxis::new(values.0, values.1, 3, false))
}

/// Room right of the panel for what it says there.
pub(super) fn aside(plot: &Plot, shown: &[&Series]) -> f64 {
    if wanted(shown) && !errors(plot, shown) { ASIDE + width(&at_most(widest(shown)), 12.0, false) } else { 0.0 }
}

fn widest(shown: &[&Series]) -> f64 {
    shown.iter().flat_map(|series| &series.points).map(super::Point::half_width).fold(0.0, f64::max)
}

fn at_most(half: f64) -> String {
    format!("at most ±{}", half_width(half))
}

/// True counts are compared where groups can be told apart by colour.
fn errors(plot: &Plot, shown: &[&Series]) -> bool {
    plot.unsafe_truth && shown.len() <= ink::GROUPS.len()
}

/// Draws the panel with its caption and the time axis.
pub(super) fn draw(canvas: &mut Canvas, frame: &Frame, axis: &ValueAxis, plot: &Plot, shown: &[&Series], left: f64) {
    let shared = same_widths(shown);
    let level = percent(plot.confidence);
    let caption = match (errors(plot, shown), shared || shown.len() == 1) {
        (true, _) => format!("Released minus true, and the {level} interval"),
        (false, true) => format!("Half-width of the {level} interval (±)"),
        (false, false) => format!("Half-width of the {level} interval (±), a line for each group"),
    };
    let caption = match axis.unit() {
        unit if unit.is_empty() => caption,
        unit => format!("{caption}, {unit}"),
    };
    canvas.text(left, frame.top - 12.0, &caption, Type::new(12.0, ink::TEXT));
    chart::time_axis(canvas, frame, &plot.time_labels, TimeAxis::Full);
    chart::value_axis(canvas, frame, axis, true);
    if errors(plot, shown) {
        draw_errors(canvas, frame, shown, shared);
    } else {
        draw_widths(canvas, frame, shown, shared);
    }
}

fn draw_widths(canvas: &mut Canvas, frame: &Frame, shown: &[&Series], shared: bool) {
    let drawn = if shared { &shown[..1] } else { shown };
    for (index, series) in drawn.iter().enumerate() {
        let (colour, width) = match (shared, ink::GROUPS.get(index)) {
            (true, _) => (ink::MUTED, 1.5),
            (false, Some(group)) if shown.len() <= ink::GROUPS.len() => (group.0, 1.5),
            _ => (ink::MUTED, 0.75),
        };
        let widths = series.points.iter().map(|point| {
            let y = frame.y(point.half_width());
            (frame.x(point.at), y, y)
        });
        let columns = decimate::envelope(widths, frame.width);
        if columns.iter().any(|&(_, top, bottom)| bottom - top > 0.5) {
            canvas.area(&columns, colour, 0.3);
        }
        let top: Vec<(f64, f64)> = columns.iter().map(|&(x, top, _)| (x, top)).collect();
        canvas.polyline(&top, Stroke::new(colour, width));
    }
    let widest = widest(shown);
    let y = (frame.y(widest) + 4.0).min(frame.bottom() - 6.0);
    canvas.text(frame.right() + ASIDE, y, &at_most(widest), Type::new(12.0, ink::TEXT));
}

fn draw_errors(canvas: &mut Canvas, frame: &Frame, shown: &[&Series], shared: bool) {
    for series in if shared { &shown[..1] } else { shown } {
        let band = series.points.iter().map(|point| {
            let half = point.half_width();
            (frame.x(point.at), frame.y(half), frame.y(-half))
        });
        canvas.area(&decimate::envelope(band, frame.width), ink::BAND, if shared { 0.35 } else { 0.2 });
    }
    for (series, (colour, _)) in shown.iter().zip(ink::GROUPS) {
        let off: Vec<(f64, f64)> = series
            .points
            .iter()
            .filter_map(|point| Some((frame.x(point.at), frame.y(point.value - point.truth?))))
            .collect();
        canvas.polyline(
            &decimate::line(off.into_iter(), frame.width),
            Stroke { opacity: 0.75, ..Stroke::new(colour, 1.0) },
        );
    }
}

/// Whether all groups have intervals of the same width at every step, as they do under one plan.
fn same_widths(shown: &[&Series]) -> bool {
    shown.iter().all(|series| {
        series.points.len() == shown[0].points.len()
            && series.points.iter().zip(&shown[0].points).all(|(here, first)| {
                let (here, first) = (here.half_width(), first.half_width());
                (here - first).abs() <= 0.01 * here.abs().max(first.abs())
            })
    })
}
