//! Texts above the panels of a release, and next to them.

use super::panel::TRUTH;
use super::{Curve, ReleasePlot};
use crate::canvas::Canvas;
use crate::style::{MARGIN, NORMAL, ROOM, SMALL, Stroke, TextAnchor, TextStyle, WIDTH, ink};
use crate::text::{fit, grouped, percent, release, width};

/// The quantity of the values, the number of groups shown, and the meaning of line and band.
pub(super) fn caption(canvas: &mut Canvas, y: f64, plot: &ReleasePlot, shown: &[&Curve], note: &str) {
    let band = if plot.at_once { "band (all at once)" } else { "interval" };
    let mut key = vec![format!("released, with {} {band}", percent(plot.confidence))];
    if plot.unsafe_truth {
        key.push("true count".into());
    }
    let legend: f64 = key.iter().map(|entry| width(entry, SMALL, false) + 46.0).sum();
    let mut parts = vec![plot.y_label.clone()];
    if !note.is_empty() {
        parts.push(note.into());
    }
    if plot.total_groups > shown.len() {
        parts.push(format!("{} of {} {}s shown", shown.len(), grouped(plot.total_groups as f64, 0), plot.group_word));
    }
    let words = fit(&parts.join(" · "), ROOM - legend, NORMAL, false);
    canvas.text(MARGIN, y, &words, TextStyle::new(NORMAL, ink::TEXT));

    let colour =
        if plot.apart || shown.len() == 1 || shown.len() > ink::GROUPS.len() { ink::GROUPS[0].0 } else { ink::MUTED };
    let mut x = WIDTH - MARGIN;
    for (index, entry) in key.iter().enumerate().rev() {
        canvas.text(x, y, entry, TextStyle::new(SMALL, ink::MUTED).anchor(TextAnchor::End));
        x -= width(entry, SMALL, false) + 8.0;
        let middle = y - 4.0;
        if index == 0 {
            canvas.area(&[(x - 22.0, middle - 5.0, middle + 5.0), (x, middle - 5.0, middle + 5.0)], colour, 0.25);
            canvas.line((x - 22.0, middle), (x, middle), Stroke::new(colour, 1.75));
        } else {
            canvas.line((x - 22.0, middle), (x, middle), TRUTH);
        }
        x -= 38.0;
    }
}

/// The last release with its half-width.
pub(super) fn last_value(curve: &Curve) -> String {
    let last = curve.last();
    release(last.value, last.half_width())
}

/// Whether the only curve is that of everything, not of a group.
pub(super) fn ungrouped(plot: &ReleasePlot, shown: &[&Curve]) -> bool {
    shown.len() == 1 && plot.total_groups <= 1 && shown[0].name.is_empty()
}
