//! Pictures of lines on common axes: panels below each other, or small ones in columns.

use crate::axis::{Axis, Spacing};
use crate::canvas::Canvas;
use crate::decimate;
use crate::frame::{Frame, crisp};
use crate::labels::apart;
use crate::sheet::{SheetTexts, sheet};
use crate::style::{LineStyle, MARGIN, NORMAL, ROOM, SMALL, Stroke, TextAnchor, TextStyle, ink};
use crate::text::width;

/// Height of the label of a line.
const LABEL_HEIGHT: f64 = 16.0;
/// Distance from the panel to the samples of the lines, and length of a sample with the gap after it.
const LEADER: f64 = 26.0;
const SAMPLE: f64 = 34.0;
/// Space above a panel for the name of its vertical axis; below it for ticks and the name of the horizontal axis.
const CAPTION: f64 = 26.0;
const TICKS: f64 = 46.0;
/// Space between panels.
const GAP: f64 = 16.0;
/// Lines with more points have no markers; otherwise about this many points have one.
const MAX_MARKED_POINTS: usize = 64;
const MARKS: usize = 21;

/// One line of a panel.
#[derive(Clone, Debug)]
pub struct PanelLine {
    /// Its name.
    pub label: String,
    /// Its look.
    pub look: LineStyle,
    /// Points from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines on common axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<PanelLine>,
    /// The minimum height; increased if the labels of the lines need more.
    pub height: f64,
}

/// Draws panels below each other, on horizontal axes of the same width.
pub fn panels(words: &SheetTexts, panels: &[Panel]) -> String {
    let left = panels.iter().map(Panel::gutter).fold(0.0, f64::max);
    let right = panels.iter().map(Panel::aside).fold(0.0, f64::max);
    let heights: f64 = panels.iter().map(|panel| CAPTION + panel.tall() + TICKS).sum();
    let height = heights + GAP * (panels.len() as f64 - 1.0);
    sheet(words, height, |canvas, mut top| {
        for panel in panels {
            let frame =
                Frame { left: MARGIN + left, top: top + CAPTION, width: ROOM - left - right, height: panel.tall() };
            panel.draw(canvas, &frame);
            top = frame.bottom() + TICKS + GAP;
        }
    })
}

impl Panel {
    /// The height that its labels need.
    fn tall(&self) -> f64 {
        self.height.max(LABEL_HEIGHT * self.lines.len() as f64)
    }

    fn y_ticks(&self) -> Vec<(f64, String)> {
        self.y.ticks((self.height / 36.0) as usize)
    }

    /// Space for the tick labels on the left.
    fn gutter(&self) -> f64 {
        self.y_ticks().iter().map(|tick| width(&tick.1, SMALL, false)).fold(0.0, f64::max) + 10.0
    }

    /// Space for the labels of the lines on the right.
    fn aside(&self) -> f64 {
        LEADER + SAMPLE + self.lines.iter().map(|line| width(&line.label, NORMAL, true)).fold(0.0, f64::max)
    }

    fn draw(&self, canvas: &mut Canvas, frame: &Frame) {
        axes(canvas, frame, &self.x, &self.y, &self.y_ticks());
        for line in &self.lines {
            draw_line(canvas, frame, &self.x, &self.y, line);
        }
        self.labels(canvas, frame);
    }

    /// The names of the lines, ordered by their ends, each with a sample; a leader joins it to an end at the edge.
    fn labels(&self, canvas: &mut Canvas, frame: &Frame) {
        let lines: Vec<&PanelLine> = self.lines.iter().filter(|line| !line.points.is_empty()).collect();
        let end = |line: &PanelLine| line.points[line.points.len() - 1];
        let ends: Vec<(f64, f64)> =
            lines.iter().map(|line| end(line)).map(|(x, y)| (frame.x(&self.x, x), frame.y(&self.y, y))).collect();
        let wished: Vec<f64> = ends.iter().map(|end| end.1).collect();
        let half = LABEL_HEIGHT / 2.0;
        let places = apart(&wished, LABEL_HEIGHT, frame.top + half - 4.0, frame.bottom() - half + 4.0);
        let left = frame.right() + LEADER;
        for ((line, &(x, y)), &place) in lines.iter().zip(&ends).zip(&places) {
            if frame.right() - x < 12.0 {
                canvas.line((x + 6.0, y), (left - 4.0, place), Stroke::new(ink::AXIS, 0.75));
            }
            canvas.line((left, place), (left + SAMPLE - 8.0, place), line.look.stroke());
            if line.points.len() <= MAX_MARKED_POINTS {
                canvas.mark(left + (SAMPLE - 8.0) / 2.0, place, line.look);
            }
            canvas.text(left + SAMPLE, place + 4.0, &line.label, TextStyle::new(NORMAL, line.look.ink).bold());
        }
    }
}

/// Grid, ticks and names of both axes.
pub fn axes(canvas: &mut Canvas, frame: &Frame, x: &Axis, y: &Axis, y_ticks: &[(f64, String)]) {
    canvas.text(MARGIN, frame.top - 12.0, &y.caption, TextStyle::new(NORMAL, ink::TEXT));
    value_axis(canvas, frame, y, y_ticks, true);
    step_axis(canvas, frame, x, true);
    let middle = frame.left + frame.width / 2.0;
    let caption = TextStyle::new(NORMAL, ink::TEXT).anchor(TextAnchor::Middle);
    canvas.text(middle, frame.bottom() + 35.0, &x.caption, caption);
}

fn value_axis(canvas: &mut Canvas, frame: &Frame, y: &Axis, ticks: &[(f64, String)], labels: bool) {
    for (tick, label) in ticks {
        frame.grid_line(canvas, frame.y(y, *tick), ink::GRID, labels.then_some(label.as_str()));
    }
}

fn step_axis(canvas: &mut Canvas, frame: &Frame, x: &Axis, labels: bool) {
    let base = crisp(frame.bottom());
    let spare = if x.spacing == Spacing::Linear { 60.0 } else { 44.0 };
    for (tick, label) in x.ticks((frame.width / spare) as usize) {
        let place = crisp(frame.x(x, tick));
        canvas.line((place, frame.top), (place, base), Stroke::new(ink::GRID, 1.0));
        if labels {
            canvas.line((place, base), (place, base + 4.0), Stroke::new(ink::AXIS, 1.0));
            canvas.text(place, base + 17.0, &label, TextStyle::new(SMALL, ink::MUTED).anchor(TextAnchor::Middle));
        }
    }
    frame.base_line(canvas);
}

/// A small panel among others on the same axes.
#[derive(Clone, Debug)]
pub struct SmallPanel {
    /// The subject of its lines.
    pub name: String,
    /// Numbers under the name.
    pub note: String,
    /// The last line is drawn on top, and gives the name its colour.
    pub lines: Vec<PanelLine>,
}

/// Draws small panels in three columns.
pub fn small_panels(words: &SheetTexts, x: &Axis, y: &Axis, panels: &[SmallPanel]) -> String {
    const COLUMNS: usize = 3;
    const BETWEEN: f64 = 26.0;
    const CAPTION_LINE: f64 = 14.0;
    const HEAD: f64 = 54.0;
    const HEIGHT: f64 = 124.0;
    let ticks = y.ticks(5);
    let gutter = ticks.iter().map(|tick| width(&tick.1, SMALL, false)).fold(0.0, f64::max) + 10.0;
    let wide = (ROOM - gutter - (COLUMNS as f64 - 1.0) * BETWEEN) / COLUMNS as f64;
    let rows = panels.len().div_ceil(COLUMNS) as f64;
    let height = CAPTION_LINE + rows * (HEAD + HEIGHT) + TICKS - 20.0;
    sheet(words, height, |canvas, top| {
        canvas.text(MARGIN, top + 14.0, &format!("{}, by {}", y.caption, x.caption), TextStyle::new(NORMAL, ink::TEXT));
        for (index, panel) in panels.iter().enumerate() {
            let (row, column) = (index / COLUMNS, index % COLUMNS);
            let frame = Frame {
                left: MARGIN + gutter + column as f64 * (wide + BETWEEN),
                top: top + CAPTION_LINE + HEAD + row as f64 * (HEAD + HEIGHT),
                width: wide,
                height: HEIGHT,
            };
            value_axis(canvas, &frame, y, &ticks, column == 0);
            step_axis(canvas, &frame, x, index + COLUMNS >= panels.len());
            for line in &panel.lines {
                draw_line(canvas, &frame, x, y, line);
            }
            let shade = panel.lines.last().map_or(ink::TEXT, |line| line.look.ink);
            canvas.text(frame.left, frame.top - 23.0, &panel.name, TextStyle::new(NORMAL, shade).bold());
            canvas.text(frame.left, frame.top - 8.0, &panel.note, TextStyle::new(SMALL, ink::MUTED));
        }
    })
}

fn draw_line(canvas: &mut Canvas, frame: &Frame, x: &Axis, y: &Axis, line: &PanelLine) {
    let places: Vec<(f64, f64)> = line.points.iter().map(|&(at, value)| (frame.x(x, at), frame.y(y, value))).collect();
    canvas.polyline(&decimate::line(places.iter().copied(), frame.width), line.look.stroke());
    if places.len() <= MAX_MARKED_POINTS {
        let stride = places.len().div_ceil(MARKS).max(1);
        places.iter().step_by(stride).for_each(|&(x, y)| canvas.mark(x, y, line.look));
    }
}
