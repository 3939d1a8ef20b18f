//! A picture of items below each other: a dot for each value, and its interval as a line.

use super::axis::ValueAxis;
use super::canvas::{Anchor, Canvas, Stroke, Type, ink};
use super::chart::pad;
use super::layout::{HEADLINE, LINE, MARGIN, WIDTH, bottom, header};
use super::text::{fit, grouped, percent, release, width, wrap};
use anyhow::{Result, bail};

/// Height of an item's row.
const ROW: f64 = 22.0;
/// Room above the rows for the caption, and below for ticks.
const CAPTION: f64 = 34.0;
const TICKS: f64 = 26.0;
/// Most room for the names of items.
const NAMES: f64 = 300.0;
/// Between names, panel and values.
const GAP: f64 = 12.0;

/// One item and its estimate.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The item's name; any characters are safe.
    pub name: String,
    /// The estimate.
    pub value: f64,
    /// Half of the width of its interval.
    pub half_width: f64,
}

impl Ranked {
    fn ends(&self) -> [f64; 2] {
        [self.value - self.half_width, self.value + self.half_width]
    }
}

/// Items below each other, in the order they are given.
#[derive(Clone, Debug)]
pub struct Ranking {
    /// Headline.
    pub title: String,
    /// Budget, privacy unit and mechanism in words, under the headline.
    pub subtitle: String,
    /// What the values are.
    pub label: String,
    /// The guarantee in one sentence, under the picture.
    pub footer: String,
    /// Confidence of the intervals, as 0.95.
    pub confidence: f64,
    /// The items.
    pub items: Vec<Ranked>,
    /// How many there are; more than `items` holds when the caller left some out.
    pub total: usize,
}

/// Draws a ranking as SVG.
///
/// The same ranking gives the same bytes. Fails if a number is not finite; without items the picture says so.
pub fn ranking_svg(ranking: &Ranking) -> Result<String> {
    let finite = |item: &Ranked| item.ends().iter().all(|number| number.abs() < 1e300);
    if let Some(item) = ranking.items.iter().find(|item| !finite(item)) {
        bail!("cannot plot {:?}: its value or bound is not a finite number", fit(&item.name, 400.0, 12.0, false));
    }
    let room = WIDTH - 2.0 * MARGIN;
    let headline = wrap(&ranking.title, room, 20.0, true, 2);
    let subtitle = wrap(&ranking.subtitle, room, 12.5, false, 3);
    let footer = wrap(&ranking.footer, room, 11.0, false, 3);
    let head = 24.0 + HEADLINE * headline.len() as f64 + LINE * subtitle.len() as f64 + 10.0;
    let body = CAPTION + ROW * ranking.items.len().max(1) as f64 + TICKS;
    let height = head + body + 26.0 + 15.0 * footer.len() as f64 + 6.0;
    let mut canvas = Canvas::new(WIDTH, height, &ranking.title, &description(ranking));
    header(&mut canvas, 0.0, &headline, &subtitle);
    draw(&mut canvas, head, ranking);
    bottom(&mut canvas, head + body + 8.0, &footer);
    Ok(canvas.finish())
}

fn draw(canvas: &mut Canvas, top: f64, ranking: &Ranking) {
    let items = &ranking.items;
    let values: Vec<String> = items.iter().map(|item| release(item.value, item.half_width)).collect();
    let widest = |texts: &mut dyn Iterator<Item = &str>| texts.map(|text| width(text, 12.0, false)).fold(0.0, f64::max);
    let names = widest(&mut items.iter().map(|item| item.name.as_str())).min(NAMES);
    let left = MARGIN + names + GAP;
    let right = WIDTH - MARGIN - widest(&mut values.iter().map(String::as_str)) - GAP;
    let ends = items.iter().flat_map(Ranked::ends);
    let (low, high) = ends.fold((0f64, 0f64), |(low, high), end| (low.min(end), high.max(end)));
    let (low, high) = pad(low, high);
    let x = |value: f64| left + (right - left) * ((value - low) / (high - low));
    let axis = ValueAxis::new(low, high, 8, false);
    caption(canvas, top + 16.0, ranking, &axis.unit());
    let (first, last) = (top + CAPTION, top + CAPTION + ROW * items.len().max(1) as f64);
    for &tick in &axis.ticks {
        let at = x(tick).floor() + 0.5;
        let colour = if tick == 0.0 { ink::AXIS } else { ink::GRID };
        canvas.line((at, first), (at, last + 4.0), Stroke::new(colour, 1.0));
        canvas.text(at, last + 18.0, &axis.label(tick), Type::new(11.0, ink::MUTED).anchor(Anchor::Middle));
    }
    let (colour, dark) = ink::GROUPS[0];
    for (place, (item, value)) in items.iter().zip(&values).enumerate() {
        let y = first + ROW * (place as f64 + 0.5);
        let name = fit(&item.name, NAMES, 12.0, false);
        canvas.text(left - GAP, y + 4.0, &name, Type::new(12.0, ink::TEXT).anchor(Anchor::End));
        let [lower, upper] = item.ends();
        canvas.line((x(lower), y), (x(upper), y), Stroke { opacity: 0.55, ..Stroke::new(colour, 2.5) });
        canvas.dot(x(item.value), y, 4.5, colour);
        canvas.text(right + GAP, y + 4.0, value, Type::new(12.0, dark));
    }
    if items.is_empty() {
        let middle = Type::new(12.0, ink::MUTED).anchor(Anchor::Middle);
        canvas.text((left + right) / 2.0, first + ROW * 0.5 + 4.0, "no item reaches the threshold", middle);
    }
}

fn caption(canvas: &mut Canvas, y: f64, ranking: &Ranking, unit: &str) {
    let legend = format!("estimate, with {} interval of its noise", percent(ranking.confidence));
    let mut parts = vec![ranking.label.clone()];
    if !unit.is_empty() {
        parts.push(unit.to_owned());
    }
    if ranking.total > ranking.items.len() {
        parts.push(format!("{} of {} items shown", ranking.items.len(), grouped(ranking.total as f64, 0)));
    }
    let room = WIDTH - 2.0 * MARGIN - width(&legend, 11.0, false) - 24.0;
    canvas.text(MARGIN, y, &fit(&parts.join(" · "), room, 12.0, false), Type::new(12.0, ink::TEXT));
    canvas.text(WIDTH - MARGIN, y, &legend, Type::new(11.0, ink::MUTED).anchor(Anchor::End));
}

/// The picture in words.
fn description(ranking: &Ranking) -> String {
    let items = ranking
        .items
        .iter()
        .map(|item| format!("{} {}", fit(&item.name, 300.0, 12.0, false), release(item.value, item.half_width)));
    let items: Vec<String> = items.collect();
    let interval = percent(ranking.confidence);
    format!("{}. Estimates with {interval} half-widths: {}. {}", ranking.label, items.join("; "), ranking.footer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(items: &[(&str, f64)]) -> Ranking {
        let item = |(name, value): &(&str, f64)| Ranked { name: (*name).to_owned(), value: *value, half_width: 9.0 };
        Ranking {
            title: "Heaviest <items>".into(),
            subtitle: "budget".into(),
            label: "Estimated count".into(),
            footer: "promise".into(),
            confidence: 0.95,
            items: items.iter().map(item).collect(),
            total: 2,
        }
    }

    #[test]
    fn every_item_has_a_dot_and_a_value() {
        let svg = ranking_svg(&ranking(&[("a & b", 1234.0), ("c", -5.0)])).unwrap();
        assert_eq!(svg.matches("<circle").count(), 2);
        for part in ["a &amp; b", "1,234 ± 9", "−5 ± 9", "Heaviest &lt;items&gt;", "95 % interval", "promise"] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        assert!(!svg.contains("shown"), "nothing was left out");
        assert!(ranking_svg(&ranking(&[("a", 1.0)])).unwrap().contains("1 of 2 items shown"));
        assert!(ranking_svg(&ranking(&[])).unwrap().contains("no item reaches the threshold"));
        assert!(ranking_svg(&ranking(&[("a", f64::NAN)])).is_err());
    }
}
