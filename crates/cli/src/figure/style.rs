//! How the line of a mechanism looks: the same in every figure, told apart by colour, dashes and marker.

use crate::plot::canvas::{Canvas, Stroke};

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

/// Relatives share a colour and differ in dashes and marker.
const FAMILIES: [(&str, Shade, Option<&str>, Marker); 22] = [
    ("input", GREY, DASHED, Marker::Up),
    ("output", GREY, MIXED, Marker::Down),
    ("binary", BLACK, SOLID, Marker::Square),
    ("honaker-online", BLACK, DASHED, Marker::Diamond),
    ("kary", SKY, SOLID, Marker::Up),
    ("subtract", SKY, DASHED, Marker::Down),
    ("smooth", BLUE, SOLID, Marker::Circle),
    ("path-sum", BLUE, MIXED, Marker::Square),
    ("consistent", GREEN, SOLID, Marker::Diamond),
    ("hats", GREEN, DASHED, Marker::Up),
    ("sqrt", VERMILION, DASHED, Marker::Down),
    ("normalized-sqrt", VERMILION, SOLID, Marker::Square),
    ("blt", PURPLE, DASHED, Marker::Diamond),
    ("normalized-blt", PURPLE, SOLID, Marker::Circle),
    ("dense", ORANGE, SOLID, Marker::Up),
    ("optimal", ORANGE, MIXED, Marker::Square),
    ("dense-pure", ORANGE, DASHED, Marker::Circle),
    ("lower bound", GREY, SOLID, Marker::None),
    ("lazy, float", VERMILION, SOLID, Marker::Circle),
    ("lazy, keyed", VERMILION, DASHED, Marker::Diamond),
    ("eager", BLACK, MIXED, Marker::Circle),
    ("buffered", BLUE, MIXED, Marker::Up),
];

/// The look of a mechanism, by its name up to the parameters.
pub(super) fn look(name: &str) -> Look {
    let family = name.split('(').next().unwrap_or(name);
    let known = FAMILIES.iter().find(|(known, ..)| *known == family);
    let (shade, dash, marker) =
        known.map_or_else(|| unknown(family), |&(_, shade, dash, marker)| (shade, dash, marker));
    Look { colour: shade.0, ink: shade.1, dash, marker, width: 1.75, hollow: false, opacity: 1.0 }
}

/// A look that depends on the letters of the name alone, so that it stays when other mechanisms come and go.
fn unknown(family: &str) -> (Shade, Option<&'static str>, Marker) {
    let hash = family.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let pick = |shift: u32, of: usize| (hash >> shift) as usize % of;
    let shades = [BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE];
    let markers = [Marker::Circle, Marker::Square, Marker::Diamond, Marker::Up, Marker::Down];
    (shades[pick(0, shades.len())], [MIXED, DOTTED][pick(8, 2)], markers[pick(16, markers.len())])
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
        let looks = FAMILIES.map(|(name, ..)| look(name));
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
            assert!(FAMILIES.iter().any(|(known, ..)| *known == family), "{family} has no look yet");
        }
    }
}
