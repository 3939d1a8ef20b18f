//! The common style of all pictures: dimensions of the sheet, font sizes, colours, and the looks of texts, lines and
//! points.
//!
//! This module does not depend on the content of pictures, so that every other module can depend on it.

/// Width of a standalone picture.
pub const WIDTH: f64 = 960.0;
/// Free space on either side.
pub const MARGIN: f64 = 28.0;
/// Width between the margins.
pub const ROOM: f64 = WIDTH - 2.0 * MARGIN;

/// Size of tick labels and footnotes.
pub const SMALL: f64 = 11.0;
/// Size of captions, names and values.
pub const NORMAL: f64 = 12.0;
/// Size of the lines under the headline.
pub const SUBTITLE: f64 = 12.5;
/// Size of the names at the ends of lines.
pub const NAME: f64 = 13.0;
/// Size of the headline.
pub const TITLE: f64 = 20.0;

/// The fonts: [`crate::png`] uses the first, which also defines the measured widths.
pub const FONTS: &str = "'DejaVu Sans', Verdana, sans-serif";

/// Colours: a palette for colour-blind readers (Okabe and Ito) and quiet greys.
pub mod ink {
    /// The sheet.
    pub const PAPER: &str = "#ffffff";
    /// Headlines.
    pub const TEXT: &str = "#1b1f24";
    /// Labels.
    pub const MUTED: &str = "#59636e";
    /// Axis lines.
    pub const AXIS: &str = "#8b949e";
    /// Grid lines.
    pub const GRID: &str = "#e4e7eb";
    /// Texts and lines without a sheet: readable on white and on dark pages.
    pub const ANYWHERE: &str = "#808080";
    /// The true counts.
    pub const TRUTH: &str = TEXT;
    /// Bands that belong to every group.
    pub const BAND: &str = "#aab4c0";
    /// The stamp.
    pub const ALARM: &str = "#b3001b";

    /// A colour for lines, and a darker shade of it for text.
    pub type Shade = (&'static str, &'static str);

    /// The palette has no yellow, which is invisible on white paper.
    pub const BLACK: Shade = (TEXT, TEXT);
    /// Blue.
    pub const BLUE: Shade = ("#0072b2", "#005a8e");
    /// Between red and orange.
    pub const VERMILION: Shade = ("#d55e00", "#a84a00");
    /// A bluish green.
    pub const GREEN: Shade = ("#009e73", "#00704f");
    /// A reddish purple.
    pub const PURPLE: Shade = ("#b5649a", "#8f4678");
    /// A light blue.
    pub const SKY: Shade = ("#56b4e9", "#1f78ae");
    /// Orange.
    pub const ORANGE: Shade = ("#e69f00", "#8a6000");
    /// For the reference of a comparison.
    pub const GREY: Shade = (AXIS, MUTED);

    /// One per group.
    pub const GROUPS: [Shade; 4] = [BLUE, VERMILION, GREEN, PURPLE];
}

/// The position of a text relative to its point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TextAnchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// The look of a text.
#[derive(Clone, Copy, Debug)]
pub struct TextStyle {
    /// Height of the letters.
    pub size: f64,
    /// Their colour.
    pub fill: &'static str,
    /// Where the text stands.
    pub anchor: TextAnchor,
    /// Whether the letters are bold.
    pub bold: bool,
}

impl TextStyle {
    /// Light letters to the right of their point.
    pub fn new(size: f64, fill: &'static str) -> Self {
        Self { size, fill, anchor: TextAnchor::Start, bold: false }
    }

    /// The same in bold.
    pub fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// The same elsewhere.
    pub fn anchor(self, anchor: TextAnchor) -> Self {
        Self { anchor, ..self }
    }
}

/// The look of a line.
#[derive(Clone, Copy, Debug)]
pub struct Stroke {
    /// Its colour.
    pub colour: &'static str,
    /// Its width.
    pub width: f64,
    /// Lengths of dashes and gaps, if it has any.
    pub dash: Option<&'static str>,
    /// 1 if opaque.
    pub opacity: f64,
}

impl Stroke {
    /// A solid line.
    pub fn new(colour: &'static str, width: f64) -> Self {
        Self { colour, width, dash: None, opacity: 1.0 }
    }

    /// The same with dashes.
    pub fn dashed(self, dash: &'static str) -> Self {
        Self { dash: Some(dash), ..self }
    }
}

/// Dashes that distinguish a line from related lines.
pub mod dash {
    /// None.
    pub const SOLID: Option<&str> = None;
    /// Long.
    pub const DASHED: Option<&str> = Some("7 3");
    /// Long and short.
    pub const MIXED: Option<&str> = Some("8 2.5 2 2.5");
    /// Short.
    pub const DOTTED: Option<&str> = Some("1.5 3");
}

/// Shape of the points of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Marker {
    /// A disc.
    Circle,
    /// A square.
    Square,
    /// A square on its corner.
    Diamond,
    /// A triangle that points upwards.
    Up,
    /// A triangle that points downwards.
    Down,
    /// Nothing.
    None,
}

/// The look of one thing's line, the same in every picture: distinguished by colour, dashes and marker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineStyle {
    /// Colour of the line.
    pub colour: &'static str,
    /// A darker shade of it, for text.
    pub ink: &'static str,
    /// Dashes of the line.
    pub dash: Option<&'static str>,
    /// Marker of its points.
    pub marker: Marker,
    /// Width of the line.
    pub width: f64,
    /// Whether points are outlines only.
    pub hollow: bool,
    /// Opacity of the line; 1 if opaque.
    pub opacity: f64,
}

impl LineStyle {
    /// A line of usual width with filled points.
    pub fn new(shade: ink::Shade, dash: Option<&'static str>, marker: Marker) -> Self {
        Self { colour: shade.0, ink: shade.1, dash, marker, width: 1.75, hollow: false, opacity: 1.0 }
    }

    /// A look that depends only on the letters of a name, so that it stays the same when other names are added or
    /// removed.
    pub fn of_unknown(name: &str) -> Self {
        let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        let pick = |shift: u32, of: usize| (hash >> shift) as usize % of;
        let shades = [ink::BLUE, ink::VERMILION, ink::GREEN, ink::PURPLE, ink::SKY, ink::ORANGE];
        let markers = [Marker::Circle, Marker::Square, Marker::Diamond, Marker::Up, Marker::Down];
        let dashes = [dash::MIXED, dash::DOTTED];
        Self::new(shades[pick(0, shades.len())], dashes[pick(8, 2)], markers[pick(16, markers.len())])
    }

    /// The look of the same thing under another criterion.
    pub fn variant(self) -> Self {
        Self { dash: dash::DOTTED, width: 1.5, hollow: true, ..self }
    }

    /// The stroke of the line.
    pub fn stroke(self) -> Stroke {
        Stroke { dash: self.dash, opacity: self.opacity, ..Stroke::new(self.colour, self.width) }
    }
}
