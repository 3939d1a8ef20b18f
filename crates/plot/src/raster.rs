//! SVG to PNG, with fonts of our own: the picture is the same on a machine without any.

use crate::Error;
use crate::font::{self, BOLD, REGULAR};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};
use std::sync::{Arc, OnceLock};

/// More pixels than any paper shows; a slip in `scale` must not take the machine's memory.
const MAX_SIDE: f32 = 20_000.0;

/// Rasterises an SVG of this crate, `scale` pixels to the unit: 2 for screens, 3 or 4 for print.
///
/// Characters that DejaVu Sans lacks, such as Chinese or emoji, become question marks here; the SVG has them in full.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, Error> {
    let tree = parse(&legible(svg))?;
    let size = tree.size();
    let (width, height) = ((size.width() * scale).ceil(), (size.height() * scale).ceil());
    if !(width >= 1.0 && height >= 1.0 && width <= MAX_SIDE && height <= MAX_SIDE) {
        return Err(Error::PictureSize { scale, width, height, most: MAX_SIDE });
    }
    let mut pixels = Pixmap::new(width as u32, height as u32).ok_or_else(|| failed("no room for the picture", ""))?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|cause| failed("cannot encode the picture", cause))
}

fn failed(problem: &'static str, cause: impl ToString) -> Error {
    Error::Raster { problem, cause: cause.to_string() }
}

/// Replaces the characters that the fonts lack. The markup has none of these.
fn legible(svg: &str) -> String {
    let shown = |c: char| match c {
        c if c.is_control() || font::has(c) => Some(c),
        c if font::invisible(c) => None,
        _ => Some('?'),
    };
    svg.chars().filter_map(shown).collect()
}

/// Reads an SVG with the embedded fonts.
pub(crate) fn parse(svg: &str) -> Result<Tree, Error> {
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
