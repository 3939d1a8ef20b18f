//! The sheet of a release: headline, panels, footnote, and the stamp.

use super::caption::{last_value, ungrouped};
use super::{Curve, ReleasePlot, STAMP, WARNING, grid, overlay, panel};
use crate::canvas::Canvas;
use crate::sheet::{Sheet, SheetTexts};
use crate::style::{NORMAL, TextAnchor, TextStyle, WIDTH, ink};
use crate::text::{fit, grouped, percent};

/// Height of the banner of a stamp.
const BANNER: f64 = 40.0;

/// Draws the whole picture.
pub(super) fn draw(plot: &ReleasePlot, shown: &[&Curve]) -> String {
    let words =
        SheetTexts { title: plot.title.clone(), subtitle: plot.subtitle.clone(), footer: promise(plot).to_owned() };
    let sheet = Sheet {
        words: &words,
        footer_lines: 3,
        banner: if plot.unsafe_truth { BANNER } else { 0.0 },
        title: &title(plot),
        description: &description(plot, shown),
    };
    let one_panel = shown.len() <= ink::GROUPS.len() && !plot.apart;
    let height = if one_panel { overlay::height(shown) } else { grid::height(plot, shown) };
    let draw = if one_panel { overlay::draw } else { grid::draw };
    let mut canvas = sheet.draw(height, |canvas, top| draw(canvas, top, plot, shown));
    if plot.unsafe_truth {
        stamp(&mut canvas);
    }
    canvas.finish()
}

/// A banner above and text across the picture: cropping or shrinking leaves one of them.
fn stamp(canvas: &mut Canvas) {
    let height = canvas.height();
    canvas.rect(0.0, 0.0, WIDTH, BANNER, ink::ALARM);
    canvas.text(WIDTH / 2.0, 26.0, STAMP, TextStyle::new(17.0, ink::PAPER).bold().anchor(TextAnchor::Middle));
    for share in [0.42, 0.78] {
        canvas.watermark(WIDTH / 2.0, BANNER + (height - BANNER) * share, -16.0, 42.0, STAMP);
    }
}

/// The guarantee in the picture; empty if it shows true counts, whatever the release guarantees.
fn promise(plot: &ReleasePlot) -> &str {
    if plot.unsafe_truth { WARNING } else { &plot.footer }
}

fn title(plot: &ReleasePlot) -> String {
    if plot.unsafe_truth { format!("{STAMP}: {}", plot.title) } else { plot.title.clone() }
}

/// The picture in words.
fn description(plot: &ReleasePlot, shown: &[&Curve]) -> String {
    let (first, last) = panel::times(&plot.time_labels, shown);
    let steps = shown.iter().map(|curve| curve.points.len()).max().unwrap_or(0);
    let steps = grouped(steps as f64, 0);
    let last_values: Vec<String> = shown
        .iter()
        .map(|curve| match ungrouped(plot, shown) {
            true => last_value(curve),
            false => format!("{} {}", fit(&curve.name, 300.0, NORMAL, false), last_value(curve)),
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
