//! A writer of the few SVG elements that a picture needs. It uses attributes and no style sheet, so the SVG can be
//! embedded in a page without affecting it, and under a strict content security policy.

#![expect(clippy::disallowed_methods, reason = "places in a picture")]

use crate::font;
use crate::style::{FONTS, LineStyle, Marker, Stroke, TextAnchor, TextStyle, ink};
use crate::text::escape;
use std::fmt::Write;

/// An SVG document under construction.
#[derive(Debug)]
pub struct Canvas {
    out: String,
    height: f64,
}

/// The attribute of a text that holds its replacement in pixel images.
pub(crate) const PLAIN: &str = " data-plain=\"";

/// Writes into a string, which cannot fail.
macro_rules! put {
    ($canvas:expr, $($format:tt)*) => {
        let _ = write!($canvas.out, $($format)*);
    };
}

impl Canvas {
    /// A white sheet of the given size. `title` and `description` are for readers who cannot see it.
    pub fn new(width: f64, height: f64, title: &str, description: &str) -> Self {
        let mut canvas = Self { out: String::new(), height };
        put!(
            canvas,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"plot-title plot-description\" \
             font-family=\"{FONTS}\">\n\
             <title id=\"plot-title\">{}</title>\n<desc id=\"plot-description\">{}</desc>\n",
            escape(title),
            escape(description)
        );
        canvas.rect(0.0, 0.0, width, height, ink::PAPER);
        canvas
    }

    /// No sheet, for a picture within the text of a white or dark page. `label` is for readers who cannot see it; it
    /// has no id in the page, which may hold many such pictures.
    pub fn inline(width: f64, height: f64, label: &str) -> Self {
        let mut canvas = Self { out: String::new(), height };
        put!(
            canvas,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\" font-family=\"{FONTS}\">\n",
            escape(label)
        );
        canvas
    }

    /// Height of the sheet.
    pub fn height(&self) -> f64 {
        self.height
    }

    /// The document.
    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>\n");
        self.out
    }

    /// A filled rectangle.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        put!(
            self,
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\"/>\n",
            n(x),
            n(y),
            n(width),
            n(height)
        );
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke) {
        put!(self, "<path d=\"M{},{}L{},{}\"{}/>\n", n(from.0), n(from.1), n(to.0), n(to.1), attributes(stroke));
    }

    /// A line through the points; nothing if there is only one.
    pub fn polyline(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        if points.len() > 1 {
            put!(self, "<path d=\"{}\"{}/>\n", path(points.iter().copied()), attributes(stroke));
        }
    }

    /// The area between a lower and an upper line: (x, top, bottom) from left to right.
    pub fn area(&mut self, columns: &[(f64, f64, f64)], fill: &str, opacity: f64) {
        if columns.len() > 1 {
            let top = columns.iter().map(|&(x, top, _)| (x, top));
            let bottom = columns.iter().rev().map(|&(x, _, bottom)| (x, bottom));
            put!(self, "<path d=\"{}Z\" fill=\"{fill}\" fill-opacity=\"{opacity}\"/>\n", path(top.chain(bottom)));
        }
    }

    /// A filled outline with straight sides, edged in `edge`.
    pub fn polygon(&mut self, corners: &[(f64, f64)], fill: &str, edge: &str) {
        put!(
            self,
            "<path d=\"{}Z\" fill=\"{fill}\" stroke=\"{edge}\" stroke-width=\"1\" stroke-linejoin=\"round\"/>\n",
            path(corners.iter().copied())
        );
    }

    /// A point with a white edge.
    pub fn dot(&mut self, x: f64, y: f64, radius: f64, fill: &str) {
        put!(
            self,
            "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" fill=\"{fill}\" stroke=\"{}\" stroke-width=\"1\"/>\n",
            n(x),
            n(y),
            ink::PAPER
        );
    }

    /// A line of text with its baseline at `y`.
    pub fn text(&mut self, x: f64, y: f64, text: &str, style: TextStyle) {
        self.put_text(x, y, text, None, style);
    }

    /// A line of text in any script, and its replacement in pixel images if the crate's fonts lack some of its
    /// characters: the crate's fonts are the same on every machine, but system fonts are not.
    pub fn text_or(&mut self, x: f64, y: f64, text: &str, plain: &str, style: TextStyle) {
        self.put_text(x, y, text, Some(plain).filter(|_| !font::has_all(text)), style);
    }

    fn put_text(&mut self, x: f64, y: f64, text: &str, plain: Option<&str>, style: TextStyle) {
        let anchor = match style.anchor {
            TextAnchor::Start => "",
            TextAnchor::Middle => " text-anchor=\"middle\"",
            TextAnchor::End => " text-anchor=\"end\"",
        };
        let weight = if style.bold { " font-weight=\"700\"" } else { "" };
        // Last of the attributes: see `raster`.
        let plain = plain.map(|plain| format!("{PLAIN}{}\"", escape(plain))).unwrap_or_default();
        put!(
            self,
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"{anchor}{weight}{plain}>{}</text>\n",
            n(x),
            n(y),
            style.size,
            style.fill,
            escape(text)
        );
    }

    /// A point of a line.
    pub fn mark(&mut self, x: f64, y: f64, look: LineStyle) {
        let (fill, edge) = if look.hollow { (ink::PAPER, look.colour) } else { (look.colour, ink::PAPER) };
        let radius = 3.6;
        let corners =
            |points: &[(f64, f64)]| -> Vec<(f64, f64)> { points.iter().map(|p| (x + p.0, y + p.1)).collect() };
        let shape = match look.marker {
            Marker::None => return,
            // Twelve corners look round at this size, and all shapes can be drawn the same way.
            Marker::Circle => (0..12).map(|i| turned(x, y, radius, f64::from(i) * 30.0)).collect(),
            Marker::Square => corners(&[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)]),
            Marker::Diamond => corners(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)]),
            Marker::Up => corners(&[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)]),
            Marker::Down => corners(&[(0.0, 4.4), (4.2, -3.2), (-4.2, -3.2)]),
        };
        self.polygon(&shape, fill, edge);
    }

    /// A pale text across the sheet, rotated about its middle.
    pub fn watermark(&mut self, x: f64, y: f64, angle: f64, size: f64, text: &str) {
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

fn turned(x: f64, y: f64, radius: f64, degrees: f64) -> (f64, f64) {
    let (sin, cos) = degrees.to_radians().sin_cos();
    (x + radius * cos, y + radius * sin)
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
