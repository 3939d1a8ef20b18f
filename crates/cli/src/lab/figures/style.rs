//! The line style of a mechanism: the same in every figure, distinguished by colour, dashes and marker.

use evertally_plot::style::dash::{DASHED, MIXED, SOLID};
use evertally_plot::style::ink::{BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, Shade, VERMILION};
use evertally_plot::style::{LineStyle, Marker};

/// The lines of families by stem, and of members that are drawn next to others of their family by name. Related lines
/// share a colour. A family without an entry has a style that follows from the letters of its stem.
const FAMILIES: [(&str, Line); 28] = [
    ("input", Line::new(GREY, DASHED, Marker::Up)),
    ("output", Line::new(GREY, MIXED, Marker::Down)),
    ("binary", Line::new(BLACK, SOLID, Marker::Square)),
    ("honaker-online", Line::new(BLACK, DASHED, Marker::Diamond)),
    ("kary", Line::new(SKY, SOLID, Marker::Up)),
    ("subtract", Line::new(SKY, DASHED, Marker::Down)),
    ("smooth", Line::new(BLUE, SOLID, Marker::Circle)),
    ("smooth(shape=balanced)", Line::new(BLUE, DASHED, Marker::Circle)),
    ("consistent", Line::new(GREEN, SOLID, Marker::Diamond)),
    ("path-sum", Line::new(BLUE, MIXED, Marker::Square)),
    ("hats", Line::new(GREEN, DASHED, Marker::Up)),
    ("nested-hats", Line::new(GREEN, DASHED, Marker::Diamond)),
    ("sqrt", Line::new(VERMILION, DASHED, Marker::Down)),
    ("normalized-sqrt", Line::new(VERMILION, SOLID, Marker::Square)),
    ("banded-sqrt", Line::new(GREEN, MIXED, Marker::Down)),
    ("epoch-bands", Line::new(GREEN, DASHED, Marker::Square)),
    ("banded-inverse-sqrt", Line::new(ORANGE, MIXED, Marker::Down)),
    ("banded-inverse", Line::new(ORANGE, SOLID, Marker::Diamond)),
    ("blt", Line::new(PURPLE, DASHED, Marker::Diamond)),
    ("normalized-blt", Line::new(PURPLE, SOLID, Marker::Circle)),
    ("dense", Line::new(ORANGE, SOLID, Marker::Up)),
    ("optimal", Line::new(ORANGE, MIXED, Marker::Square)),
    ("dense-pure", Line::new(ORANGE, DASHED, Marker::Circle)),
    ("banded", Line::new(PURPLE, MIXED, Marker::Square)),
    ("rolling-hats", Line::new(GREEN, MIXED, Marker::Up)),
    ("endless", Line::new(VERMILION, MIXED, Marker::Circle)),
    ("endless(inside=trees)", Line::new(GREEN, MIXED, Marker::Circle)),
    ("endless(inside=hats)", Line::new(GREEN, SOLID, Marker::Down)),
];

/// Lines that do not belong to a mechanism.
const OTHERS: [(&str, Line); 14] = [
    ("lower bound", Line::new(GREY, SOLID, Marker::None)),
    ("subtract, pure ε", Line::new(SKY, DASHED, Marker::Square)),
    ("subtract, (ε, δ)", Line::new(SKY, SOLID, Marker::Diamond)),
    ("sqrt, exact calibration", Line::new(VERMILION, SOLID, Marker::Diamond)),
    ("sqrt, 2 ln(1.25/δ)", Line::new(VERMILION, DASHED, Marker::Circle)),
    ("sqrt, published bound", Line::new(BLACK, MIXED, Marker::Square)),
    ("lazy, float", Line::new(VERMILION, SOLID, Marker::Circle)),
    ("lazy, keyed", Line::new(VERMILION, DASHED, Marker::Diamond)),
    ("eager", Line::new(BLACK, MIXED, Marker::Circle)),
    ("buffered", Line::new(BLUE, MIXED, Marker::Up)),
    ("endless, in epochs", Line::new(VERMILION, DASHED, Marker::Up)),
    ("hybrid", Line::new(BLACK, SOLID, Marker::Diamond)),
    ("logarithmic perturbation", Line::new(SKY, SOLID, Marker::Circle)),
    ("differences of running counts", Line::new(SKY, MIXED, Marker::Circle)),
];

/// The style that distinguishes a line.
#[derive(Clone, Copy)]
struct Line {
    shade: Shade,
    dash: Option<&'static str>,
    marker: Marker,
}

impl Line {
    const fn new(shade: Shade, dash: Option<&'static str>, marker: Marker) -> Self {
        Self { shade, dash, marker }
    }
}

/// Every line with an entry.
fn known() -> impl Iterator<Item = (&'static str, Line)> {
    FAMILIES.into_iter().chain(OTHERS)
}

/// The style of a mechanism: that of its name, or else that of its family.
pub(super) fn look(name: &str) -> LineStyle {
    let stem = name.split('(').next().unwrap_or(name);
    let line = [name, stem].into_iter().find_map(|wanted| known().find(|(known, _)| *known == wanted));
    line.map_or_else(|| LineStyle::from_name(stem), |(_, line)| LineStyle::new(line.shade, line.dash, line.marker))
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally::mechanism::MechanismName;

    #[test]
    fn lines_of_the_tables_are_different() {
        let looks: Vec<LineStyle> = known().map(|(name, _)| look(name)).collect();
        for (i, a) in looks.iter().enumerate() {
            for b in &looks[..i] {
                assert!((a.colour, a.dash, a.marker) != (b.colour, b.dash, b.marker), "{a:?}");
            }
            assert_ne!(*a, a.variant());
        }
    }

    #[test]
    fn every_entry_is_a_family_or_a_member() {
        let families = MechanismName::all_families().map(|family| family.stem);
        let all: Vec<&str> = families.chain(MechanismName::all_families().flat_map(|f| f.examples).copied()).collect();
        for (name, _) in FAMILIES {
            assert!(all.contains(&name), "there is no family `{name}`");
        }
    }

    #[test]
    fn members_have_the_look_of_their_family_unless_they_have_an_entry() {
        assert_eq!(look("subtract(k=19)"), look("subtract"));
        assert_eq!(look("not-yet-known(d=3)"), look("not-yet-known"));
        assert_eq!(look("endless(inside=plain)"), look("endless"));
        assert_ne!(look("endless(inside=hats)"), look("endless"));
    }
}
