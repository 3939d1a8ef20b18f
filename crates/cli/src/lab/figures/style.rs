//! The line style of a mechanism: the same in every figure, distinguished by colour, dashes and marker.

use evertally::mechanism::{Dash, Family, Hue, Mark, MechanismName};
use evertally_plot::style::dash::{DASHED, MIXED, SOLID};
use evertally_plot::style::ink::{BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, Shade, VERMILION};
use evertally_plot::style::{LineStyle, Marker};

/// Lines that do not belong to a mechanism.
const OTHERS: [(&str, Line); 8] = [
    ("lower bound", Line { shade: GREY, dash: SOLID, marker: Marker::None }),
    ("lazy, float", Line { shade: VERMILION, dash: SOLID, marker: Marker::Circle }),
    ("lazy, keyed", Line { shade: VERMILION, dash: DASHED, marker: Marker::Diamond }),
    ("eager", Line { shade: BLACK, dash: MIXED, marker: Marker::Circle }),
    ("buffered", Line { shade: BLUE, dash: MIXED, marker: Marker::Up }),
    ("hybrid", Line { shade: BLACK, dash: SOLID, marker: Marker::Diamond }),
    ("logarithmic perturbation", Line { shade: SKY, dash: SOLID, marker: Marker::Circle }),
    ("differences of running counts", Line { shade: SKY, dash: MIXED, marker: Marker::Circle }),
];

/// The style that distinguishes a line.
#[derive(Clone, Copy)]
struct Line {
    shade: Shade,
    dash: Option<&'static str>,
    marker: Marker,
}

impl Line {
    /// The line style of a family, by its row in the registry.
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

/// Every line with a style, by the name of its family or by its own name.
fn known() -> impl Iterator<Item = (&'static str, Line)> {
    MechanismName::all_families().map(|family| (family.stem, Line::of(family))).chain(OTHERS)
}

/// The style of a mechanism, by its name without the parameters.
pub(super) fn look(name: &str) -> LineStyle {
    let family = name.split('(').next().unwrap_or(name);
    let line = known().find(|(known, _)| *known == family);
    line.map_or_else(|| LineStyle::of_unknown(family), |(_, line)| LineStyle::new(line.shade, line.dash, line.marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_look_of_its_own() {
        let looks: Vec<LineStyle> = known().map(|(name, _)| look(name)).collect();
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
