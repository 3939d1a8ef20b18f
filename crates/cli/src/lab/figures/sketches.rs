//! Private sketches by size and horizon: time of an update with a query, and error of a point query, with lazy noise,
//! with noise in every cell at every step, and with buffered updates.

mod contest;

use super::style::look;
use super::{FigureContext, FigureFiles, csv};
use anyhow::Result;
use contest::{NoiseVariant, SketchBenchmark};
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{self, Panel, PanelLine};
use evertally_plot::sheet::SheetTexts;

/// The width if the horizon varies, and the number of events if the width varies.
const WIDTH: u64 = 1 << 12;
const EVENTS: u64 = 1 << 16;

/// Every second power of two.
fn powers(from: u32, to: u32) -> impl Iterator<Item = u64> {
    (from..=to).step_by(2).map(|power| 1 << power)
}

/// Runs every variant over widths and over horizons.
pub(super) fn draw(studio: &mut FigureContext, longest: u64) -> Result<FigureFiles> {
    let events = EVENTS.min(longest);
    let wide = |width: &u64| *width <= (16 * events).max(1 << 8);
    let by_width = powers(8, 20).take_while(wide).map(|width| SketchBenchmark { width, horizon: events });
    let shorter = powers(10, 40).take_while(|t| *t < longest).chain([longest]);
    let by_horizon = shorter.map(|horizon| SketchBenchmark { width: WIDTH.min(16 * events), horizon });
    let mut panels = vec![];
    let mut rows = vec![];
    for (what, contests) in [("width", by_width.collect::<Vec<_>>()), ("horizon", by_horizon.collect::<Vec<_>>())] {
        studio.bar.inc_length(contests.len() as u64);
        let (mut times, mut errors) = (vec![], vec![]);
        for contest in contests {
            let x = if what == "width" { contest.width } else { contest.horizon } as f64;
            for (way, outcome) in contest.run()? {
                add(&mut times, way, x, outcome.nanoseconds);
                // Noise in every cell is the same noise.
                if way != NoiseVariant::Eager {
                    add(&mut errors, way, x, outcome.error);
                }
                rows.push([
                    what.to_owned(),
                    contest.width.to_string(),
                    contest.horizon.to_string(),
                    way.name().to_owned(),
                    outcome.nanoseconds.to_string(),
                    outcome.error.to_string(),
                    outcome.queries.to_string(),
                ]);
            }
            studio.bar.inc(1);
        }
        let axis = if what == "width" { "cells in each of 5 rows" } else { "horizon T (steps, one event each)" };
        panels.push(panel(times, axis, &format!("time of an event and a query by {what} (ns)")));
        panels.push(panel(errors, axis, &format!("root mean square error of a query by {what} (events)")));
    }
    let words = SheetTexts {
        title: "What a query of a private sketch costs".into(),
        subtitle: "A count sketch of 5 rows under 0.5-zCDP for the whole history, one event per step, items with Zipf \
                   counts: with lazy noise the cost depends neither on the width nor on the horizon, and answers are \
                   for the last step."
            .into(),
        footer: format!(
            "The same path-sum plan for all. Errors grow with the number of events, because items collide. By width: \
             {events} steps; by horizon: {WIDTH} cells per row. Eager: noise in every cell at every step (Epasto and \
             others 2023), if that finishes within the time of this figure; its error is that of lazy noise. Buffered: \
             events wait until there are as many as cells (Holland 2025). Times were measured on one core of this \
             machine."
        ),
    };
    let header = ["by", "width", "horizon", "way", "ns_per_step", "rms_error", "queries"];
    Ok(FigureFiles { svg: lines::panels(&words, &panels), csv: csv(header, rows)? })
}

fn add(lines: &mut Vec<PanelLine>, way: NoiseVariant, x: f64, y: f64) {
    let place = lines.iter().position(|line: &PanelLine| line.label == way.name()).unwrap_or_else(|| {
        lines.push(PanelLine { label: way.name().into(), look: look(way.name()), points: vec![] });
        lines.len() - 1
    });
    lines[place].points.push((x, y));
}

fn panel(lines: Vec<PanelLine>, axis: &str, caption: &str) -> Panel {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let x = Axis::over(Spacing::PowersOfTwo, all().map(|point| point.0), axis);
    let y = Axis::over(Spacing::Decades, all().map(|point| point.1), caption).padded();
    Panel { x, y, lines, height: 190.0 }
}
