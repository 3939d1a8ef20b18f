//! Five to twelve groups: one small panel each, on one scale unless the sizes differ too much.

use super::caption::{caption, last_value};
use super::panel::{self, ReleasePanel, TIME_AXIS_HEIGHT, TimeAxis, ticks_width};
use super::{Curve, ReleasePlot, spread};
use crate::axis::ValueAxis;
use crate::canvas::Canvas;
use crate::frame::Frame;
use crate::style::{MARGIN, NORMAL, ROOM, SMALL, TextAnchor, TextStyle, WIDTH, ink};
use crate::text::{fit, width};

/// Space above the panels for their caption and legend.
const CAPTION: f64 = 34.0;
/// Space above a panel for its group's name and last release.
const HEAD: f64 = 36.0;
const HEIGHT: f64 = 104.0;
/// Space between rows.
const GAP: f64 = 14.0;
/// Groups whose ranges differ by more than this factor do not share a scale.
const MAX_SHARED_SCALE_RATIO: f64 = 8.0;

fn columns(groups: usize) -> usize {
    match groups {
        1..=3 => groups,
        4 => 2,
        5 | 6 | 9 => 3,
        _ => 4,
    }
}

/// The height of all panels together.
pub(super) fn height(plot: &ReleasePlot, shown: &[&Curve]) -> f64 {
    let rows = shown.len().div_ceil(columns(shown.len())) as f64;
    let slim = if has_spread(plot, shown) { spread::CAPTION + spread::HEIGHT + TIME_AXIS_HEIGHT } else { 0.0 };
    CAPTION + rows * (HEAD + HEIGHT) + (rows - 1.0) * GAP + TIME_AXIS_HEIGHT + slim
}

/// Widths of intervals are compared only if the groups are comparable.
fn has_spread(plot: &ReleasePlot, shown: &[&Curve]) -> bool {
    !plot.apart && spread::wanted(shown)
}

/// Draws the panels from `top` on.
pub(super) fn draw(canvas: &mut Canvas, top: f64, plot: &ReleasePlot, shown: &[&Curve]) {
    let grid = PanelGrid::new(plot, shown);
    let note = if grid.shared { grid.axes[0].unit() } else { "each panel on its own scale".into() };
    caption(canvas, top + 16.0, plot, shown, &note);
    for (index, curve) in shown.iter().enumerate() {
        grid.panel(canvas, top + CAPTION, plot, index, curve);
    }
    if has_spread(plot, shown) {
        let rows = shown.len().div_ceil(grid.columns) as f64;
        let panels = rows * (HEAD + HEIGHT) + (rows - 1.0) * GAP + TIME_AXIS_HEIGHT;
        let (values, axis) = spread::scale(plot, shown);
        let left = MARGIN + grid.gutter.max(ticks_width(&axis) + 10.0);
        let aside = panel::gutter(&plot.time_labels, grid.times, left, spread::aside(plot, shown));
        let top = top + CAPTION + panels + spread::CAPTION - 10.0;
        let frame = Frame { left, top, width: WIDTH - MARGIN - aside - left, height: spread::HEIGHT };
        let slim = ReleasePanel { frame, times: grid.times, values };
        spread::draw(canvas, &slim, &axis, plot, shown, MARGIN);
    }
}

struct PanelGrid {
    columns: usize,
    groups: usize,
    shared: bool,
    /// One per group; all equal if shared.
    ranges: Vec<(f64, f64)>,
    axes: Vec<ValueAxis>,
    /// Space for tick labels left of a panel.
    gutter: f64,
    times: (f64, f64),
}

impl PanelGrid {
    fn new(plot: &ReleasePlot, shown: &[&Curve]) -> Self {
        let own: Vec<(f64, f64)> = shown.iter().map(|curve| panel::values([*curve], plot.unsafe_truth)).collect();
        let spans = own.iter().map(|(low, high)| high - low);
        let shared = !plot.apart
            && spans.clone().fold(0.0, f64::max) <= MAX_SHARED_SCALE_RATIO * spans.fold(f64::INFINITY, f64::min);
        let ranges = match shared {
            true => vec![panel::values(shown.iter().copied(), plot.unsafe_truth); shown.len()],
            false => own,
        };
        let axes: Vec<ValueAxis> = ranges.iter().map(|(low, high)| ValueAxis::new(*low, *high, 4, false)).collect();
        let gutter = axes.iter().map(ticks_width).fold(0.0, f64::max) + 10.0;
        let groups = shown.len();
        Self {
            columns: columns(groups),
            groups,
            shared,
            ranges,
            axes,
            gutter,
            times: panel::times(&plot.time_labels, shown),
        }
    }

    /// The panel of a group, with labels to its left; on a shared scale, only the first of a row has labels.
    fn place(&self, top: f64, index: usize) -> ReleasePanel {
        let (row, column) = ((index / self.columns) as f64, (index % self.columns) as f64);
        let count = self.columns as f64;
        let between = if self.shared { 22.0 } else { self.gutter + 16.0 };
        let width = (ROOM - self.gutter - (count - 1.0) * between) / count;
        let left = MARGIN + self.gutter + column * (width + between);
        let frame = Frame { left, top: top + HEAD + row * (HEAD + HEIGHT + GAP), width, height: HEIGHT };
        ReleasePanel { frame, times: self.times, values: self.ranges[index] }
    }

    fn panel(&self, canvas: &mut Canvas, top: f64, plot: &ReleasePlot, index: usize, curve: &Curve) {
        let place = self.place(top, index);
        let frame = place.frame;
        // Only the lowest panel of a column has time labels.
        let lowest = index + self.columns >= self.groups;
        let time = if lowest { TimeAxis::Labels } else { TimeAxis::Grid };
        panel::time_axis(canvas, &place, &plot.time_labels, time);
        panel::value_axis(canvas, &place, &self.axes[index], !self.shared || index.is_multiple_of(self.columns));
        panel::group(canvas, &place, curve, ink::GROUPS[0].0, plot.unsafe_truth);
        // Numbers must not be truncated: text that is too wide is made smaller.
        let unit = if self.shared { String::new() } else { self.axes[index].unit() };
        let unit_size = shrunk(&unit, frame.width * 0.6);
        let room = frame.width - if unit.is_empty() { 0.0 } else { width(&unit, unit_size, false) + 8.0 };
        let name = fit(&curve.name, room, NORMAL, true);
        let plain = plot.plain_name(index);
        canvas.text_or(frame.left, frame.top - 22.0, &name, &plain, TextStyle::new(NORMAL, ink::TEXT).bold());
        if !unit.is_empty() {
            let quiet = TextStyle::new(unit_size, ink::MUTED).anchor(TextAnchor::End);
            canvas.text(frame.right(), frame.top - 22.0, &unit, quiet);
        }
        let value = last_value(curve);
        canvas.text(frame.left, frame.top - 8.0, &value, TextStyle::new(shrunk(&value, frame.width), ink::MUTED));
    }
}

/// The size of small text, or less if that would be wider than `room`.
fn shrunk(text: &str, room: f64) -> f64 {
    let scale = room / width(text, SMALL, false).max(1.0);
    if scale < 1.0 { (SMALL * scale * 10.0).floor() / 10.0 } else { SMALL }
}
