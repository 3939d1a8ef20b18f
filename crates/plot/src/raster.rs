//! SVG to PNG, with embedded fonts: the picture is the same on a machine without fonts.

use crate::PlotError;
use crate::canvas::PLAIN;
use crate::font::{self, BOLD, REGULAR};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};
use std::sync::{Arc, OnceLock};

/// More pixels than any paper shows; a wrong `scale` must not exhaust the machine's memory.
const MAX_SIDE: f32 = 20_000.0;

/// Rasterises an SVG of this crate with `scale` pixels per unit: 2 for screens, 3 or 4 for print.
///
/// Names with characters that DejaVu Sans lacks, such as Chinese or emoji, are replaced by numbers (`group 3`); in
/// other texts an ellipsis replaces such characters. The SVG keeps them in full. System fonts would give a different
/// picture on another machine.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, PlotError> {
    let tree = parse(&legible(svg))?;
    let size = tree.size();
    let (width, height) = ((size.width() * scale).ceil(), (size.height() * scale).ceil());
    if !(width >= 1.0 && height >= 1.0 && width <= MAX_SIDE && height <= MAX_SIDE) {
        return Err(PlotError::PictureSize { scale, width, height, most: MAX_SIDE });
    }
    let mut pixels =
        Pixmap::new(width as u32, height as u32).ok_or_else(|| failed("not enough memory for the picture", ""))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|cause| failed("cannot encode the picture", cause))
}

fn failed(problem: &'static str, cause: impl ToString) -> PlotError {
    PlotError::Raster { problem, cause: cause.to_string() }
}

/// Replaces characters that the fonts lack. The markup has none, and no text can contain the attribute of a
/// replacement, since quotes are escaped.
fn legible(svg: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(svg.len()), svg);
    while let Some((before, marked)) = rest.split_once(PLAIN) {
        known(before, &mut out);
        let Some((plain, text)) = marked.split_once("\">") else { break };
        let end = text.find('<').unwrap_or(text.len());
        out.push('>');
        known(plain, &mut out);
        rest = &text[end..];
    }
    known(rest, &mut out);
    out
}

/// The text with an ellipsis instead of each run of characters that the fonts lack.
fn known(text: &str, out: &mut String) {
    let mut is_known = true;
    for c in text.chars() {
        if c.is_control() || font::has(c) {
            is_known = true;
            out.push(c);
        } else if !font::invisible(c) {
            if is_known {
                out.push('…');
            }
            is_known = false;
        }
    }
}

/// Reads an SVG with the embedded fonts.
pub(crate) fn parse(svg: &str) -> Result<Tree, PlotError> {
    static FONTS: OnceLock<Arc<Database>> = OnceLock::new();
    let fonts = FONTS.get_or_init(|| {
        let mut fonts = Database::new();
        fonts.load_font_data(REGULAR.to_vec());
        fonts.load_font_data(BOLD.to_vec());
        fonts.set_sans_serif_family("DejaVu Sans");
        fonts.set_serif_family("DejaVu Sans");
        Arc::new(fonts)
    });
    let options = Options { fontdb: fonts.clone(), font_family: "DejaVu Sans".into(), ..Options::default() };
    Tree::from_str(svg, &options).map_err(|cause| failed("not a picture that can be drawn", cause))
}
