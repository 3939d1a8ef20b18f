//! A picture of items below each other: a dot for each value, with its interval as a line.

use crate::axis::{ValueAxis, with_padding};
use crate::canvas::Canvas;
use crate::error::PlotError;
use crate::font;
use crate::frame::crisp;
use crate::sheet::{Sheet, SheetTexts};
use crate::style::{MARGIN, NORMAL, ROOM, SMALL, Stroke, TextAnchor, TextStyle, WIDTH, ink};
use crate::text::{fit, grouped, half_width, percent, release, width};

/// Height of an item's row.
const ROW: f64 = 22.0;
/// Space above the rows for the caption, and below for ticks.
const CAPTION: f64 = 34.0;
const TICKS: f64 = 26.0;
/// The maximum width of the names of items.
const NAMES: f64 = 300.0;
/// Space between names, panel and values.
const GAP: f64 = 12.0;

/// One item and its estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct RankedItem {
    /// The item's name, with any characters.
    pub name: String,
    /// The estimate.
    pub value: f64,
    /// Lower end of its interval.
    pub lower: f64,
    /// Upper end of its interval.
    pub upper: f64,
}

impl RankedItem {
    fn ends(&self) -> [f64; 2] {
        [self.lower, self.upper]
    }

    /// The value and its margin of error, one per side if these differ.
    fn in_words(&self) -> String {
        let (below, above) = (self.value - self.lower, self.upper - self.value);
        let symmetric = release(self.value, above);
        if (below - above).abs() <= 1e-3 * above.abs().max(below.abs()) {
            return symmetric;
        }
        let (value, above) = symmetric.split_once(" ± ").expect("a half-width follows");
        format!("{value} −{} +{above}", half_width(below))
    }
}

/// Items below each other, in the given order.
#[derive(Clone, Debug)]
pub struct RankingChart {
    /// Headline.
    pub title: String,
    /// Budget, privacy unit and mechanism in words, under the headline.
    pub subtitle: String,
    /// The quantity of the values.
    pub label: String,
    /// The guarantee in one sentence, under the picture.
    pub footer: String,
    /// Confidence of the intervals, such as 0.95.
    pub confidence: f64,
    /// The items.
    pub items: Vec<RankedItem>,
    /// The total number of items; larger than the length of `items` if the caller omitted some.
    pub total: usize,
    /// The word for one of them: `item`, `group`.
    pub item_word: &'static str,
    /// The word for a value: `estimate`, `released`.
    pub value_word: &'static str,
}

impl RankingChart {
    /// The picture as SVG; without items it states that there are none. The same ranking gives the same bytes.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn svg(&self) -> Result<String, PlotError> {
        let finite = |item: &RankedItem| item.ends().iter().all(|number| number.abs() < 1e300);
        if let Some(item) = self.items.iter().find(|item| !finite(item)) {
            return Err(PlotError::ItemNotFinite { item: fit(&item.name, 400.0, NORMAL, false) });
        }
        let words =
            SheetTexts { title: self.title.clone(), subtitle: self.subtitle.clone(), footer: self.footer.clone() };
        let description = description(self);
        let sheet =
            Sheet { words: &words, footer_lines: 3, banner: 0.0, title: &self.title, description: &description };
        let height = CAPTION + ROW * self.items.len().max(1) as f64 + TICKS;
        Ok(sheet.draw(height, |canvas, top| draw(canvas, top, self)).finish())
    }
}

fn draw(canvas: &mut Canvas, top: f64, ranking: &RankingChart) {
    let items = &ranking.items;
    let values: Vec<String> = items.iter().map(RankedItem::in_words).collect();
    let widest =
        |texts: &mut dyn Iterator<Item = &str>| texts.map(|text| width(text, NORMAL, false)).fold(0.0, f64::max);
    let names: Vec<String> = items.iter().map(|item| fit(&item.name, NAMES, NORMAL, false)).collect();
    let plain: Vec<String> = (1..=items.len()).map(|place| format!("{} {place}", ranking.item_word)).collect();
    let foreign = names.iter().zip(&plain).filter(|(name, _)| !font::has_all(name)).map(|(_, plain)| plain);
    let left = MARGIN + widest(&mut names.iter().chain(foreign).map(String::as_str)).min(NAMES) + GAP;
    let right = WIDTH - MARGIN - widest(&mut values.iter().map(String::as_str)) - GAP;
    let ends = items.iter().flat_map(RankedItem::ends);
    let (low, high) = ends.fold((0f64, 0f64), |(low, high), end| (low.min(end), high.max(end)));
    let (low, high) = with_padding(low, high);
    let x = |value: f64| left + (right - left) * ((value - low) / (high - low));
    let axis = ValueAxis::new(low, high, 8, false);
    caption(canvas, top + 16.0, ranking, &axis.unit());
    let (first, last) = (top + CAPTION, top + CAPTION + ROW * items.len().max(1) as f64);
    for &tick in &axis.ticks {
        let at = crisp(x(tick));
        let colour = if tick == 0.0 { ink::AXIS } else { ink::GRID };
        canvas.line((at, first), (at, last + 4.0), Stroke::new(colour, 1.0));
        canvas.text(at, last + 18.0, &axis.label(tick), TextStyle::new(SMALL, ink::MUTED).anchor(TextAnchor::Middle));
    }
    let (colour, dark) = ink::GROUPS[0];
    for (place, ((item, name), value)) in items.iter().zip(&names).zip(&values).enumerate() {
        let y = first + ROW * (place as f64 + 0.5);
        let style = TextStyle::new(NORMAL, ink::TEXT).anchor(TextAnchor::End);
        canvas.text_or(left - GAP, y + 4.0, name, &plain[place], style);
        let [lower, upper] = item.ends();
        canvas.line((x(lower), y), (x(upper), y), Stroke { opacity: 0.55, ..Stroke::new(colour, 2.5) });
        canvas.dot(x(item.value), y, 4.5, colour);
        canvas.text(right + GAP, y + 4.0, value, TextStyle::new(NORMAL, dark));
    }
    if items.is_empty() {
        let middle = TextStyle::new(NORMAL, ink::MUTED).anchor(TextAnchor::Middle);
        canvas.text((left + right) / 2.0, first + ROW * 0.5 + 4.0, "no item reaches the threshold", middle);
    }
}

fn caption(canvas: &mut Canvas, y: f64, ranking: &RankingChart, unit: &str) {
    let legend = format!("{}, with {} interval", ranking.value_word, percent(ranking.confidence));
    let mut parts = vec![ranking.label.clone()];
    if !unit.is_empty() {
        parts.push(unit.to_owned());
    }
    if ranking.total > ranking.items.len() {
        let (shown, all) = (ranking.items.len(), grouped(ranking.total as f64, 0));
        parts.push(format!("{shown} of {all} {}s shown", ranking.item_word));
    }
    let room = ROOM - width(&legend, SMALL, false) - 24.0;
    canvas.text(MARGIN, y, &fit(&parts.join(" · "), room, NORMAL, false), TextStyle::new(NORMAL, ink::TEXT));
    canvas.text(WIDTH - MARGIN, y, &legend, TextStyle::new(SMALL, ink::MUTED).anchor(TextAnchor::End));
}

/// The picture in words.
fn description(ranking: &RankingChart) -> String {
    let items =
        ranking.items.iter().map(|item| format!("{} {}", fit(&item.name, 300.0, NORMAL, false), item.in_words()));
    let items: Vec<String> = items.collect();
    let (interval, what) =
        (percent(ranking.confidence), if ranking.value_word == "estimate" { "Estimates" } else { "Values" });
    format!("{}. {what} with {interval} intervals: {}. {}", ranking.label, items.join("; "), ranking.footer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(items: &[(&str, f64)]) -> RankingChart {
        let item = |(name, value): &(&str, f64)| RankedItem {
            name: (*name).to_owned(),
            value: *value,
            lower: value - 9.0,
            upper: value + 9.0,
        };
        RankingChart {
            title: "Heaviest <items>".into(),
            subtitle: "budget".into(),
            label: "Estimated count".into(),
            footer: "promise".into(),
            confidence: 0.95,
            items: items.iter().map(item).collect(),
            total: 2,
            item_word: "item",
            value_word: "estimate",
        }
    }

    #[test]
    fn every_item_has_a_dot_and_a_value() {
        let svg = ranking(&[("a & b", 1234.0), ("c", -5.0)]).svg().unwrap();
        assert_eq!(svg.matches("<circle").count(), 2);
        for part in ["a &amp; b", "1,234 ± 9", "−5 ± 9", "Heaviest &lt;items&gt;", "95 % interval", "promise"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("shown"), "nothing was left out");
        assert!(ranking(&[("a", 1.0)]).svg().unwrap().contains("1 of 2 items shown"));
        assert!(ranking(&[]).svg().unwrap().contains("no item reaches the threshold"));
        assert!(ranking(&[("a", f64::NAN)]).svg().is_err());
        let mut chosen = ranking(&[("a", 120.0)]);
        chosen.items[0].lower = 20.0;
        assert!(chosen.svg().unwrap().contains("120 −100 +9"));
    }
}
