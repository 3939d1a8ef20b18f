//! Measured time of a release, and memory of a stream, by horizon.

use super::style::look;
use super::survey::families;
use super::timing::time_per_step;
use super::{FigureContext, FigureFiles, csv};
use anyhow::Result;
use evertally::plan::{NoiseKind, Objective};
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{self, Panel, PanelLine};
use evertally_plot::sheet::SheetTexts;

/// Every second power of two starting at 16, and the horizon itself.
fn horizons(longest: u64) -> Vec<u64> {
    let powers = (4..63).step_by(2).map(|power| 1u64 << power);
    powers.take_while(|&t| t < longest).chain([longest]).collect()
}

/// Runs every family at every horizon.
pub(super) fn draw(studio: &mut FigureContext, horizon: u64) -> Result<FigureFiles> {
    let horizons = horizons(horizon);
    let (mut times, mut words_of) = (Vec::<PanelLine>::new(), Vec::<PanelLine>::new());
    let mut rows = Vec::new();
    studio.bar.inc_length(horizons.len() as u64);
    for &t in &horizons {
        for family in families(t) {
            let found = studio.survey.mechanism(family, NoiseKind::Gaussian, Objective::Max, t);
            let laplace = || studio.survey.mechanism(family, NoiseKind::Laplace, Objective::Max, t);
            let Some(m) = found.or_else(laplace) else { continue };
            let timing = time_per_step(&*m, studio.settings.timing)?;
            let name = family.to_string();
            if !timing.at_least {
                add(&mut times, &name, t, timing.ns_per_step);
            }
            add(&mut words_of, &name, t, m.cost().memory_words as f64);
            rows.push([
                t.to_string(),
                name,
                m.name().to_string(),
                timing.ns_per_step.to_string(),
                timing.steps.to_string(),
                timing.at_least.to_string(),
                m.cost().draws_per_step.to_string(),
                m.cost().memory_words.to_string(),
            ]);
        }
        studio.bar.inc(1);
    }
    let words = SheetTexts {
        title: "Time and space by horizon".into(),
        subtitle:
            "One release of a running count with exact discrete Gaussian noise, on one core of this machine; memory \
                   of its noise."
                .into(),
        footer: format!(
            "Each mechanism ran with a test key for about {} ms at each horizon, in short rounds of which the fastest \
             counts; mechanisms whose later steps cost more ran whole streams. A word has 8 or 16 bytes.",
            studio.settings.timing.as_millis()
        ),
    };
    let panels = [panel(times, "time of a release (ns)", 300.0), panel(words_of, "memory (words)", 300.0)];
    let header = [
        "horizon",
        "mechanism",
        "resolved",
        "ns_per_step",
        "steps_timed",
        "at_least",
        "draws_per_step",
        "memory_words",
    ];
    Ok(FigureFiles { svg: lines::panels(&words, &panels), csv: csv(header, rows)? })
}

fn add(lines: &mut Vec<PanelLine>, name: &str, horizon: u64, value: f64) {
    let place = lines.iter().position(|line| line.label == name).unwrap_or_else(|| {
        lines.push(PanelLine { label: name.into(), look: look(name), points: Vec::new() });
        lines.len() - 1
    });
    lines[place].points.push((horizon as f64, value));
}

fn panel(lines: Vec<PanelLine>, caption: &str, height: f64) -> Panel {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let x = Axis::over(Spacing::PowersOfTwo, all().map(|point| point.0), "horizon T (steps)");
    let y = Axis::over(Spacing::Decades, all().map(|point| point.1), caption).padded();
    Panel { x, y, lines, height }
}
