//! The sheet of a standalone picture: headline, body, footnote.

use crate::canvas::Canvas;
use crate::style::{MARGIN, ROOM, SMALL, SUBTITLE, Stroke, TITLE, TextStyle, WIDTH, ink};
use crate::text::wrap;

/// Height of a line of the headline, of the subtitle, and of the footnote.
const HEADLINE: f64 = 26.0;
const LINE: f64 = 17.0;
const FOOT: f64 = 15.0;

/// The texts around the body of a picture.
#[derive(Clone, Debug)]
pub struct SheetTexts {
    /// Headline.
    pub title: String,
    /// A description of the picture, under the headline.
    pub subtitle: String,
    /// The guarantee, or the method of computation, under the body.
    pub footer: String,
}

/// A sheet to be drawn.
pub(crate) struct Sheet<'a> {
    pub(crate) words: &'a SheetTexts,
    /// The maximum number of lines of the footnote.
    pub(crate) footer_lines: usize,
    /// Free space at the top, for a banner.
    pub(crate) banner: f64,
    /// Title and description for readers who cannot see the picture.
    pub(crate) title: &'a str,
    pub(crate) description: &'a str,
}

impl Sheet<'_> {
    /// The sheet with a body of this height, drawn by `body` from the top that it receives.
    pub(crate) fn draw(&self, height: f64, body: impl FnOnce(&mut Canvas, f64)) -> Canvas {
        let headline = wrap(&self.words.title, ROOM, TITLE, true, 2);
        let subtitle = wrap(&self.words.subtitle, ROOM, SUBTITLE, false, 3);
        let footer = wrap(&self.words.footer, ROOM, SMALL, false, self.footer_lines);
        let head = self.banner + 24.0 + HEADLINE * headline.len() as f64 + LINE * subtitle.len() as f64 + 10.0;
        let total = head + height + 26.0 + FOOT * footer.len() as f64 + 6.0;
        let mut canvas = Canvas::new(WIDTH, total, self.title, self.description);
        header(&mut canvas, self.banner, &headline, &subtitle);
        body(&mut canvas, head);
        footnote(&mut canvas, head + height + 8.0, &footer);
        canvas
    }
}

/// Draws a sheet whose body has this `height` and is drawn by `body` from the top that it receives.
pub fn sheet(words: &SheetTexts, height: f64, body: impl FnOnce(&mut Canvas, f64)) -> String {
    let description = format!("{} {}", words.subtitle, words.footer);
    let sheet = Sheet { words, footer_lines: 5, banner: 0.0, title: &words.title, description: &description };
    sheet.draw(height, body).finish()
}

/// The headline and the lines below it, starting at `top`.
fn header(canvas: &mut Canvas, top: f64, headline: &[String], subtitle: &[String]) {
    for (index, line) in headline.iter().enumerate() {
        canvas.text(MARGIN, top + 42.0 + HEADLINE * index as f64, line, TextStyle::new(TITLE, ink::TEXT).bold());
    }
    let top = top + 38.0 + HEADLINE * headline.len() as f64;
    for (index, line) in subtitle.iter().enumerate() {
        canvas.text(MARGIN, top + LINE * index as f64, line, TextStyle::new(SUBTITLE, ink::MUTED));
    }
}

/// The footnote under a thin line at `top`.
fn footnote(canvas: &mut Canvas, top: f64, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    canvas.line((MARGIN, top), (WIDTH - MARGIN, top), Stroke::new(ink::GRID, 1.0));
    for (index, line) in lines.iter().enumerate() {
        canvas.text(MARGIN, top + 18.0 + FOOT * index as f64, line, TextStyle::new(SMALL, ink::MUTED));
    }
}
