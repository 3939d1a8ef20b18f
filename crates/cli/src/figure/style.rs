//! How the line of a mechanism looks: the same in every figure, told apart by colour, dashes and marker.

use evertally_plot::style::dash::{DASHED, MIXED, SOLID};
use evertally_plot::style::ink::{BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, Shade, VERMILION};
use evertally_plot::style::{Look, Marker};

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
    known.map_or_else(|| Look::of_unknown(family), |&(_, shade, dash, marker)| Look::new(shade, dash, marker))
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
