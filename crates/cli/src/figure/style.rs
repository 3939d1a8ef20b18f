//! How the line of a mechanism looks: the same in every figure, told apart by colour, dashes and marker.

use crate::plot::canvas::{Canvas, Stroke};
use evertally::mechanism::{Dash, Family, Hue, Mark, MechanismName};

/// Shape of the points of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Marker {
    Circle,
    Square,
    Diamond,
    Up,
    Down,
    None,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// Of the line.
    pub(super) colour: &'static str,
    /// A darker shade of it, for text.
    pub(super) ink: &'static str,
    pub(super) dash: Option<&'static str>,
    pub(super) marker: Marker,
    pub(super) width: f64,
    /// Whether points are outlines only.
    pub(super) hollow: bool,
    pub(super) opacity: f64,
}

type Shade = (&'static str, &'static str);

// The palette of Okabe and Ito without its yellow, which white paper swallows; each with a shade dark enough for text.
const BLACK: Shade = ("#1b1f24", "#1b1f24");
const BLUE: Shade = ("#0072b2", "#005a8e");
const VERMILION: Shade = ("#d55e00", "#a84a00");
const GREEN: Shade = ("#009e73", "#00704f");
const PURPLE: Shade = ("#b5649a", "#8f4678");
const SKY: Shade = ("#56b4e9", "#1f78ae");
const ORANGE: Shade = ("#e69f00", "#8a6000");
const GREY: Shade = ("#8b949e", "#59636e");

const SOLID: Option<&str> = None;
const DASHED: Option<&str> = Some("7 3");
const MIXED: Option<&str> = Some("8 2.5 2 2.5");
const DOTTED: Option<&str> = Some("1.5 3");

/// Lines that are no mechanism's.
const OTHERS: [(&str, Line); 5] = [
    ("lower bound", Line { shade: GREY, dash: SOLID, marker: Marker::None }),
    ("lazy, float", Line { shade: VERMILION, dash: SOLID, marker: Marker::Circle }),
    ("lazy, keyed", Line { shade: VERMILION, dash: DASHED, marker: Marker::Diamond }),
    ("eager", Line { shade: BLACK, dash: MIXED, marker: Marker::Circle }),
    ("buffered", Line { shade: BLUE, dash: MIXED, marker: Marker::Up }),
];

/// What tells a line apart.
#[derive(Clone, Copy)]
struct Line {
    shade: Shade,
    dash: Option<&'static str>,
    marker: Marker,
}

impl Line {
    /// The line of a family, by its row in the registry.
    fn of(family: &Family) -> Self {
        let evertally::mechanism::Line(hue, dash, mark) = family.line;
        Self {
            shade: match hue {
                Hue::Grey => GREY,
                Hue::Black => BLACK,
                Hue::Sky => SKY,
                Hue::Blue => BLUE,
                Hue::Green => GREEN,
                Hue::Vermilion => VERMILION,
                Hue::Purple => PURPLE,
                Hue::Orange => ORANGE,
            },
            dash: match dash {
                Dash::Solid => SOLID,
                Dash::Dashed => DASHED,
                Dash::Mixed => MIXED,
            },
            marker: match mark {
                Mark::Circle => Marker::Circle,
                Mark::Square => Marker::Square,
                Mark::Diamond => Marker::Diamond,
                Mark::Up => Marker::Up,
                Mark::Down => Marker::Down,
            },
        }
    }
}

/// Every line that has a look, by the name of its family or by its own.
fn known() -> impl Iterator<Item = (&'static str, Line)> {
    MechanismName::all_families().map(|family| (family.stem, Line::of(family))).chain(OTHERS)
}

/// The look of a mechanism, by its name up to the parameters.
pub(super) fn look(name: &str) -> Look {
    let family = name.split('(').next().unwrap_or(name);
    let line = known().find(|(known, _)| *known == family).map_or_else(|| unknown(family), |(_, line)| line);
    let Line { shade, dash, marker } = line;
    Look { colour: shade.0, ink: shade.1, dash, marker, width: 1.75, hollow: false, opacity: 1.0 }
}

/// A look that depends on the letters of the name alone, so that it stays when other mechanisms come and go.
fn unknown(family: &str) -> Line {
    let hash = family.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let pick = |shift: u32, of: usize| (hash >> shift) as usize % of;
    let shades = [BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE];
    let markers = [Marker::Circle, Marker::Square, Marker::Diamond, Marker::Up, Marker::Down];
    let (shade, marker) = (shades[pick(0, shades.len())], markers[pick(16, markers.len())]);
    Line { shade, dash: [MIXED, DOTTED][pick(8, 2)], marker }
}

impl Look {
    /// The same mechanism, judged in another way.
    pub(super) fn variant(self) -> Self {
        Self { dash: DOTTED, width: 1.5, hollow: true, ..self }
    }

    pub(super) fn stroke(self) -> Stroke {
        Stroke { dash: self.dash, opacity: self.opacity, ..Stroke::new(self.colour, self.width) }
    }

    /// Draws one point.
    pub(super) fn mark(self, canvas: &mut Canvas, x: f64, y: f64) {
        let (fill, edge) = if self.hollow { ("#ffffff", self.colour) } else { (self.colour, "#ffffff") };
        let r = 3.6;
        let corners =
            |points: &[(f64, f64)]| -> Vec<(f64, f64)> { points.iter().map(|p| (x + p.0, y + p.1)).collect() };
        let shape = match self.marker {
            Marker::None => return,
            // Twelve corners look round at this size, and keep one way of drawing for all shapes.
            Marker::Circle => (0..12).map(|i| turned(x, y, r, f64::from(i) * 30.0)).collect(),
            Marker::Square => corners(&[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)]),
            Marker::Diamond => corners(&[(0.0, -4.6), (4.6, 0.0), (0.0, 4.6), (-4.6, 0.0)]),
            Marker::Up => corners(&[(0.0, -4.4), (4.2, 3.2), (-4.2, 3.2)]),
            Marker::Down => corners(&[(0.0, 4.4), (4.2, -3.2), (-4.2, -3.2)]),
        };
        canvas.polygon(&shape, fill, edge);
    }
}

fn turned(x: f64, y: f64, r: f64, degrees: f64) -> (f64, f64) {
    let (sin, cos) = degrees.to_radians().sin_cos();
    (x + r * cos, y + r * sin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_look_of_its_own() {
        let looks: Vec<Look> = known().map(|(name, _)| look(name)).collect();
        for (i, a) in looks.iter().enumerate() {
            for b in &looks[..i] {
                assert!((a.colour, a.dash, a.marker) != (b.colour, b.dash, b.marker), "{a:?}");
            }
            assert_ne!(*a, a.variant());
        }
    }

    #[test]
    fn looks_depend_on_the_family_alone() {
        assert_eq!(look("subtract(k=19)"), look("subtract"));
        assert_eq!(look("not-yet-known(d=3)"), look("not-yet-known"));
        for name in evertally::mechanism::MechanismName::FAMILIES {
            let name = name.to_string();
            let family = name.split('(').next().unwrap();
            assert!(known().any(|(known, _)| known == family), "{family} has no look yet");
        }
    }
}
