//! The fonts of the pictures, and a parser of the tables that give their characters and widths.

use std::sync::OnceLock;

/// DejaVu Sans, reduced to the characters that labels need; see `assets/subset.sh`.
pub(crate) const REGULAR: &[u8] = include_bytes!("../assets/DejaVuSans.ttf");
/// Its bold variant. Characters that it lacks are drawn from the regular font.
pub(crate) const BOLD: &[u8] = include_bytes!("../assets/DejaVuSans-Bold.ttf");

/// Width of a character that the fonts lack, relative to the font size: that of Chinese characters or emoji, which an
/// SVG viewer draws with its own fonts.
const MISSING_GLYPH_WIDTH: f64 = 1.05;

/// Width of one character relative to the font size.
pub(crate) fn advance(c: char, bold: bool) -> f64 {
    if invisible(c) || matches!(c, '\u{300}'..='\u{36f}') {
        return 0.0;
    }
    let [regular, heavy] = widths();
    let own = if bold { heavy.of(c) } else { None };
    own.or_else(|| regular.of(c)).unwrap_or(MISSING_GLYPH_WIDTH)
}

/// Whether the character can be drawn.
pub(crate) fn has(c: char) -> bool {
    widths()[0].of(c).is_some()
}

/// Whether all of a text can be drawn.
pub(crate) fn has_all(text: &str) -> bool {
    text.chars().all(|c| has(c) || c.is_control() || invisible(c))
}

/// Joiners and variation selectors, which modify their neighbours.
pub(crate) fn invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}')
}

fn widths() -> &'static [Widths; 2] {
    static WIDTHS: OnceLock<[Widths; 2]> = OnceLock::new();
    WIDTHS.get_or_init(|| [REGULAR, BOLD].map(|font| Widths::read(font).unwrap_or_default()))
}

/// Widths of the characters of the basic multilingual plane; the fonts have no others.
#[derive(Default)]
struct Widths(Vec<Option<f64>>);

impl Widths {
    fn of(&self, c: char) -> Option<f64> {
        self.0.get(c as usize).copied().flatten()
    }

    /// Reads the tables `cmap`, in its format 4, and `hmtx`; nothing if the font is not as expected.
    fn read(font: &[u8]) -> Option<Self> {
        let (units, counted) = (u16_at(table(font, b"head")?, 18)?, u16_at(table(font, b"hhea")?, 34)?);
        let (glyphs, map) = (table(font, b"hmtx")?, table(font, b"cmap")?);
        let at = u16_at(map, 8)? << 16 | u16_at(map, 10)?;
        let map = map.get(at..).filter(|map| u16_at(map, 0) == Some(4))?;
        let twice = u16_at(map, 6)?;
        let mut widths = vec![None; 0x1_0000];
        for segment in (0..twice).step_by(2) {
            let part = |index: usize| u16_at(map, 14 + index * twice + segment + if index > 0 { 2 } else { 0 });
            let (end, start, delta, offset) = (part(0)?, part(1)?, part(2)?, part(3)?);
            for (code, width) in (start..).zip(widths.get_mut(start..=end)?) {
                let glyph = if offset == 0 {
                    code + delta
                } else {
                    match u16_at(map, 16 + 3 * twice + segment + offset + 2 * (code - start))? {
                        0 => 0,
                        glyph => glyph + delta,
                    }
                };
                let glyph = glyph & 0xffff;
                if glyph > 0 {
                    let advance = u16_at(glyphs, 4 * glyph.min(counted.checked_sub(1)?))?;
                    *width = Some(advance as f64 / units as f64);
                }
            }
        }
        Some(Self(widths))
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?])))
}

fn table<'a>(font: &'a [u8], name: &[u8; 4]) -> Option<&'a [u8]> {
    let entry = (0..u16_at(font, 4)?).find_map(|index| {
        let entry = font.get(12 + 16 * index..28 + 16 * index)?;
        entry.starts_with(name).then_some(entry)
    })?;
    font.get(u16_at(entry, 8)? << 16 | u16_at(entry, 10)?..)
}
