//! A writer of the few SVG elements that a picture needs. Attributes only, no style sheet: the SVG can stand inside a
//! page without touching it, and under a strict content security policy.

use std::fmt::Write;

use super::text::escape;

/// Colours: a palette told apart by colour-blind readers (Okabe and Ito) and quiet greys.
pub(crate) mod ink {
    /// Headlines.
    pub(crate) const TEXT: &str = "#1b1f24";
    /// Labels.
    pub(crate) const MUTED: &str = "#59636e";
    /// Axis lines.
    pub(crate) const AXIS: &str = "#8b949e";
    /// Grid lines.
    pub(crate) const GRID: &str = "#e4e7eb";
    /// The true counts.
    pub(crate) const TRUTH: &str = "#1b1f24";
    /// Bands that belong to every group.
    pub(crate) const BAND: &str = "#aab4c0";
    /// The stamp.
    pub(crate) const ALARM: &str = "#b3001b";
    /// One a group: the line, and a darker shade of it for text.
    pub(crate) const GROUPS: [(&str, &str); 4] =
        [("#0072b2", "#005a8e"), ("#d55e00", "#a84a00"), ("#009e73", "#00704f"), ("#b5649a", "#8f4678")];
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type {
    pub(crate) size: f64,
    pub(crate) fill: &'static str,
    pub(crate) anchor: Anchor,
    pub(crate) bold: bool,
}

impl Type {
    pub(crate) fn new(size: f64, fill: &'static str) -> Self {
        Self { size, fill, anchor: Anchor::Start, bold: false }
    }

    pub(crate) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(crate) fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }
}

/// How a line looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stroke {
    pub(crate) colour: &'static str,
    pub(crate) width: f64,
    pub(crate) dash: Option<&'static str>,
    pub(crate) opacity: f64,
}

impl Stroke {
    pub(crate) fn new(colour: &'static str, width: f64) -> Self {
        Self { colour, width, dash: None, opacity: 1.0 }
    }
}

/// An SVG document under construction.
pub(crate) struct Canvas {
    out: String,
}

/// Writes into a string, which cannot fail.
macro_rules! put {
    ($canvas:expr, $($format:tt)*) => {
        let _ = write!($canvas.out, $($format)*);
    };
}

impl Canvas {
    /// A white sheet of the given size. `title` and `description` are for readers who do not see it.
    pub(crate) fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        let mut canvas = Self { out: String::new() };
        put!(
            canvas,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"plot-title plot-description\" \
             font-family=\"'DejaVu Sans', Verdana, sans-serif\">\n\
             <title id=\"plot-title\">{}</title>\n<desc id=\"plot-description\">{}</desc>\n",
            escape(title),
            escape(description)
        );
        canvas.rect(0.0, 0.0, width, height, "#ffffff");
        canvas
    }

    pub(crate) fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    pub(crate) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        put!(
            self,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/>\n",
            n(x),
            n(y),
            n(width),
            n(height)
        );
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        put!(self, "<path d=\"M{},{}L{},{}\"{}/>\n", n(from.0), n(from.1), n(to.0), n(to.1), attributes(stroke));
    }

    pub(crate) fn polyline(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        if points.len() > 1 {
            put!(self, "<path d=\"{}\"{}/>\n", path(points.iter().copied()), attributes(stroke));
        }
    }

    /// The area between a lower and an upper line: (x, top, bottom) from left to right.
    pub(crate) fn area(&mut self, columns: &[(f64, f64, f64)], fill: &str, opacity: f64) {
        if columns.len() > 1 {
            let top = columns.iter().map(|&(x, top, _)| (x, top));
            let bottom = columns.iter().rev().map(|&(x, _, bottom)| (x, bottom));
            put!(self, "<path d=\"{}Z\" fill=\"{fill}\" fill-opacity=\"{opacity}\"/>\n", path(top.chain(bottom)));
        }
    }

    /// A filled outline with straight sides, edged in `edge`.
    pub(crate) fn polygon(&mut self, corners: &[(f64, f64)], fill: &str, edge: &str) {
        put!(
            self,
            "<path d=\"{}Z\" fill=\"{fill}\" stroke=\"{edge}\" stroke-width=\"1\" stroke-linejoin=\"round\"/>\n",
            path(corners.iter().copied())
        );
    }

    pub(crate) fn dot(&mut self, x: f64, y: f64, radius: f64, fill: &str) {
        put!(
            self,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"1\"/>\n",
            n(x),
            n(y)
        );
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, text: &str, style: Type) {
        let anchor = match style.anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let weight = if style.bold { " font-weight=\"700\"" } else { "" };
        put!(
            self,
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{anchor}{weight}>{}</text>\n",
            n(x),
            n(y),
            style.size,
            style.fill,
            escape(text)
        );
    }

    /// A text across the sheet, pale enough to read through, turned about its middle.
    pub(crate) fn watermark(&mut self, x: f64, y: f64, angle: f64, size: f64, text: &str) {
        put!(
            self,
            "<text transform=\"translate({} {}) rotate({angle})\" font-size=\"{size}\" font-weight=\"700\" \
             text-anchor=\"middle\" fill=\"{}\" fill-opacity=\"0.16\">{}</text>\n",
            n(x),
            n(y),
            ink::ALARM,
            escape(text)
        );
    }
}

fn attributes(stroke: Stroke) -> String {
    let dash = stroke.dash.map(|dash| format!(" stroke-dasharray=\"{dash}\"")).unwrap_or_default();
    let opacity = if stroke.opacity < 1.0 { format!(" stroke-opacity=\"{}\"", stroke.opacity) } else { String::new() };
    format!(
        " fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\"{dash}{opacity}",
        stroke.colour, stroke.width
    )
}

/// A coordinate to a tenth of a pixel, without a trailing zero.
fn n(value: f64) -> String {
    let tenths = (value * 10.0).round();
    format!("{}", if tenths == 0.0 { 0.0 } else { tenths / 10.0 })
}

/// A path through the points, without those that round to the one before.
fn path(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut out = String::new();
    let mut last = String::new();
    for (x, y) in points {
        let next = format!("{},{}", n(x), n(y));
        if next != last {
            out.push(if out.is_empty() {
                'M'
            } else if out.contains('L') {
                ' '
            } else {
                'L'
            });
            out.push_str(&next);
            last = next;
        }
    }
    out
}
