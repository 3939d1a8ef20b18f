//! The rectangle of a panel, and the lines along its sides.

use crate::axis::Axis;
use crate::canvas::Canvas;
use crate::style::{SMALL, Stroke, TextAnchor, TextStyle, ink};

/// A rectangle on the sheet.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Its left side.
    pub left: f64,
    /// Its upper side.
    pub top: f64,
    /// From left to right.
    pub width: f64,
    /// From top to bottom.
    pub height: f64,
}

impl Frame {
    /// Its right side.
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Its lower side.
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }

    /// The horizontal position of a number.
    pub fn x(&self, axis: &Axis, value: f64) -> f64 {
        self.left + self.width * axis.place(value)
    }

    /// The vertical position of a number.
    pub fn y(&self, axis: &Axis, value: f64) -> f64 {
        self.bottom() - self.height * axis.place(value)
    }

    /// Draws the lower side as an axis.
    pub(crate) fn base_line(&self, canvas: &mut Canvas) {
        let base = crisp(self.bottom());
        canvas.line((self.left, base), (self.right(), base), Stroke::new(ink::AXIS, 1.0));
    }

    /// A horizontal line, with a label to its left unless the neighbouring panel has one.
    pub(crate) fn grid_line(&self, canvas: &mut Canvas, y: f64, colour: &'static str, label: Option<&str>) {
        let y = crisp(y);
        canvas.line((self.left, y), (self.right(), y), Stroke::new(colour, 1.0));
        if let Some(label) = label {
            let style = TextStyle::new(SMALL, ink::MUTED).anchor(TextAnchor::End);
            canvas.text(self.left - 8.0, y + 4.0, label, style);
        }
    }
}

/// The middle of a pixel, where a thin line is sharp.
pub(crate) fn crisp(place: f64) -> f64 {
    place.floor() + 0.5
}
