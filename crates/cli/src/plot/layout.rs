//! The sheet: headline, panels, footer, and the stamp.

use super::canvas::{Anchor, Canvas, Stroke, Type, ink};
use super::text::{fit, grouped, percent, release, width, wrap};
use super::{Plot, STAMP, Series, WARNING, chart, grid, overlay};

/// Width of every picture.
pub(crate) const WIDTH: f64 = 960.0;
/// Free on either side.
pub(crate) const MARGIN: f64 = 28.0;
const BANNER: f64 = 40.0;
/// Height of a line of the headline, and of one below it.
pub(crate) const HEADLINE: f64 = 26.0;
pub(crate) const LINE: f64 = 17.0;

/// Draws all of it.
pub(super) fn draw(plot: &Plot, shown: &[&Series]) -> String {
    let room = WIDTH - 2.0 * MARGIN;
    let headline = wrap(&plot.title, room, 20.0, true, 2);
    let subtitle = wrap(&plot.subtitle, room, 12.5, false, 3);
    let footer = wrap(promise(plot), room, 11.0, false, 3);
    let one_panel = shown.len() <= ink::GROUPS.len();
    let body = if one_panel { overlay::height(shown) } else { grid::height(shown) };
    let banner = if plot.unsafe_truth { BANNER } else { 0.0 };
    let head = banner + 24.0 + HEADLINE * headline.len() as f64 + LINE * subtitle.len() as f64 + 10.0;
    let height = head + body + 26.0 + 15.0 * footer.len() as f64 + 6.0;

    let mut canvas = Canvas::new(WIDTH, height, &title(plot), &description(plot, shown));
    header(&mut canvas, banner, &headline, &subtitle);
    if one_panel {
        overlay::draw(&mut canvas, head, plot, shown);
    } else {
        grid::draw(&mut canvas, head, plot, shown);
    }
    bottom(&mut canvas, head + body + 8.0, &footer);
    if plot.unsafe_truth {
        stamp(&mut canvas, height);
    }
    canvas.finish()
}

/// The headline and the lines below it, from `top` on.
pub(crate) fn header(canvas: &mut Canvas, top: f64, headline: &[String], subtitle: &[String]) {
    for (index, line) in headline.iter().enumerate() {
        canvas.text(MARGIN, top + 42.0 + HEADLINE * index as f64, line, Type::new(20.0, ink::TEXT).bold());
    }
    let top = top + 38.0 + HEADLINE * headline.len() as f64;
    for (index, line) in subtitle.iter().enumerate() {
        canvas.text(MARGIN, top + LINE * index as f64, line, Type::new(12.5, ink::MUTED));
    }
}

/// The footnote under a thin line at `top`.
pub(crate) fn bottom(canvas: &mut Canvas, top: f64, footer: &[String]) {
    if footer.is_empty() {
        return;
    }
    canvas.line((MARGIN, top), (WIDTH - MARGIN, top), Stroke::new(ink::GRID, 1.0));
    for (index, line) in footer.iter().enumerate() {
        canvas.text(MARGIN, top + 18.0 + 15.0 * index as f64, line, Type::new(11.0, ink::MUTED));
    }
}

/// A banner above and words across: cropping or shrinking the picture leaves one of them.
fn stamp(canvas: &mut Canvas, height: f64) {
    canvas.rect(0.0, 0.0, WIDTH, BANNER, ink::ALARM);
    canvas.text(WIDTH / 2.0, 26.0, STAMP, Type::new(17.0, "#ffffff").bold().anchor(Anchor::Middle));
    for share in [0.42, 0.78] {
        canvas.watermark(WIDTH / 2.0, BANNER + (height - BANNER) * share, -16.0, 42.0, STAMP);
    }
}

/// What the values are, how many groups are seen, and what line and band mean.
pub(super) fn caption(canvas: &mut Canvas, y: f64, plot: &Plot, shown: &[&Series], note: &str) {
    let mut key = vec![format!("released, with {} interval", percent(plot.confidence))];
    if plot.unsafe_truth {
        key.push("true count".into());
    }
    let legend: f64 = key.iter().map(|entry| width(entry, 11.0, false) + 46.0).sum();
    let mut parts = vec![plot.y_label.clone()];
    if !note.is_empty() {
        parts.push(note.into());
    }
    if plot.total_groups > shown.len() {
        parts.push(format!("{} of {} {}s shown", shown.len(), grouped(plot.total_groups as f64, 0), plot.group_word));
    }
    let words = fit(&parts.join(" · "), WIDTH - 2.0 * MARGIN - legend, 12.0, false);
    canvas.text(MARGIN, y, &words, Type::new(12.0, ink::TEXT));

    let colour = if shown.len() == 1 || shown.len() > ink::GROUPS.len() { ink::GROUPS[0].0 } else { ink::MUTED };
    let mut x = WIDTH - MARGIN;
    for (index, entry) in key.iter().enumerate().rev() {
        canvas.text(x, y, entry, Type::new(11.0, ink::MUTED).anchor(Anchor::End));
        x -= width(entry, 11.0, false) + 8.0;
        let middle = y - 4.0;
        if index == 0 {
            canvas.area(&[(x - 22.0, middle - 5.0, middle + 5.0), (x, middle - 5.0, middle + 5.0)], colour, 0.25);
            canvas.line((x - 22.0, middle), (x, middle), Stroke::new(colour, 1.75));
        } else {
            let dashed = Stroke { dash: Some("5 3"), ..Stroke::new(ink::TRUTH, 1.25) };
            canvas.line((x - 22.0, middle), (x, middle), dashed);
        }
        x -= 38.0;
    }
}

/// The last release with its half-width.
pub(super) fn last_value(series: &Series) -> String {
    let last = series.points[series.points.len() - 1];
    release(last.value, last.half_width())
}

/// Whether the one series is of everything and not of a group.
pub(super) fn ungrouped(plot: &Plot, shown: &[&Series]) -> bool {
    shown.len() == 1 && plot.total_groups <= 1 && shown[0].name.is_empty()
}

/// What the picture promises: nothing if it shows true counts, whatever the release promises.
fn promise(plot: &Plot) -> &str {
    if plot.unsafe_truth { WARNING } else { &plot.footer }
}

fn title(plot: &Plot) -> String {
    if plot.unsafe_truth { format!("{STAMP}: {}", plot.title) } else { plot.title.clone() }
}

/// The picture in words.
fn description(plot: &Plot, shown: &[&Series]) -> String {
    let (first, last) = chart::times(&plot.time_labels, shown);
    let steps = shown.iter().map(|series| series.points.len()).max().unwrap_or(0);
    let steps = grouped(steps as f64, 0);
    let last_values: Vec<String> = shown
        .iter()
        .map(|series| match ungrouped(plot, shown) {
            true => last_value(series),
            false => format!("{} {}", fit(&series.name, 300.0, 12.0, false), last_value(series)),
        })
        .collect();
    let word = plot.group_word;
    let groups = match plot.total_groups.max(shown.len()) {
        1 => format!("1 {word}"),
        total if total > shown.len() => format!("{} of {} {word}s", shown.len(), grouped(total as f64, 0)),
        total => format!("{total} {word}s"),
    };
    let releases =
        if ungrouped(plot, shown) { format!("{steps} releases") } else { format!("{groups}, {steps} releases each") };
    let warning = if plot.unsafe_truth { format!("{STAMP}. ") } else { String::new() };
    format!(
        "{warning}{}. {releases}, from {} to {}. Last values with {} half-widths: {}. {}",
        plot.y_label,
        plot.time_labels.instant(first),
        plot.time_labels.instant(last),
        percent(plot.confidence),
        last_values.join("; "),
        promise(plot)
    )
}
