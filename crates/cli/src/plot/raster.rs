//! SVG to PNG, with fonts of our own: the picture is the same on a machine without any.

use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb::Database};

use super::font::{self, BOLD, REGULAR};

/// More pixels than any paper shows; a slip in `scale` must not take the machine's memory.
const MAX_SIDE: f32 = 20_000.0;

/// Rasterises an SVG made by [`super::svg`], `scale` pixels to the unit: 2 for screens, 3 or 4 for print.
///
/// Characters that DejaVu Sans lacks, such as Chinese or emoji, become question marks here; the SVG has them in full.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>> {
    let tree = parse(&legible(svg))?;
    let size = tree.size();
    let (width, height) = ((size.width() * scale).ceil(), (size.height() * scale).ceil());
    if !(width >= 1.0 && height >= 1.0 && width <= MAX_SIDE && height <= MAX_SIDE) {
        bail!(
            "a scale of {scale} makes a picture of {width} by {height} pixels; from 1 to {MAX_SIDE} a side can be made"
        );
    }
    let mut pixels = Pixmap::new(width as u32, height as u32).context("no room for the picture")?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().context("cannot encode the picture")
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
pub(super) fn parse(svg: &str) -> Result<Tree> {
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
    Tree::from_str(svg, &options).context("not a picture that can be drawn")
}
