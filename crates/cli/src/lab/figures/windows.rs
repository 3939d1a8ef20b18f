//! Windows under pure ε: the best method for each width.

use super::style::look;
use super::{FigureContext, FigureFiles, csv};
use anyhow::Result;
use evertally::mechanism::{Criterion, Mechanism, MechanismName, Workload};
use evertally::plan::{NoiseKind, Objective, workload_lower_bound};
use evertally::privacy::Spread;
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{self, Panel, PanelLine};
use evertally_plot::sheet::SheetTexts;
use std::sync::Arc;

/// Windows with an unbounded horizon are drawn for this horizon.
const UNBOUNDED_HORIZON: u64 = 1 << 40;
/// Differences of running counts are drawn over this many windows, up to a maximum width: the time is quadratic in it.
const WINDOWS: u64 = 4;
const MAX_DIFFERENCE_WIDTH: u64 = 128;
/// The approximate number of widths per octave.
const WIDTHS_PER_OCTAVE: u64 = 3;

const STEPS: &str = "input";
const HATS: &str = "rolling-hats";
const DIFFERENCES: &str = "differences of running counts";
const BOUND: &str = "lower bound";

/// A point of a line.
struct WindowPoint {
    width: u64,
    line: &'static str,
    resolved: String,
    value: f64,
}

/// Widths starting at 2, a few per octave.
fn widths(longest: u64) -> Vec<u64> {
    let octaves = (1..17).map(|power| 1u64 << power);
    let all =
        octaves.flat_map(|start| (0..WIDTHS_PER_OCTAVE).map(move |part| start + start * part / WIDTHS_PER_OCTAVE));
    let mut widths: Vec<u64> = all.chain([7, 12, 13, 14]).filter(|width| *width < longest).chain([longest]).collect();
    widths.sort_unstable();
    widths.dedup();
    widths
}

/// ε² · largest variance of windows of a width over a horizon.
fn figure(name: &str, width: u64, horizon: u64) -> evertally::Result<(String, f64)> {
    let criterion = Criterion::new(NoiseKind::Laplace, Objective::Max).with_workload(Workload::Window(width));
    let built: Arc<dyn Mechanism> = name.parse::<MechanismName>()?.build(horizon, &criterion)?;
    Ok((built.name().to_string(), criterion.figure(&*built)))
}

/// Everything that is drawn for one width.
fn records(width: u64) -> Result<Vec<WindowPoint>> {
    let record = |line, (resolved, value)| WindowPoint { width, line, resolved, value };
    let mut records = vec![
        record(STEPS, figure("input", width, UNBOUNDED_HORIZON)?),
        record(HATS, figure("rolling-hats", width, UNBOUNDED_HORIZON)?),
    ];
    if width <= MAX_DIFFERENCE_WIDTH {
        let of = |name| figure(name, width, WINDOWS * width);
        let (hats, tree) = (of("hats")?, of("consistent")?);
        records.push(record(DIFFERENCES, if hats.1 <= tree.1 { hats } else { tree }));
    }
    // An L1 norm is never below the L2 norm, and the variance of Laplace noise is twice the square of its scale.
    let bound = 2.0 * workload_lower_bound(Workload::Window(width), UNBOUNDED_HORIZON, Spread::ONE).powi(2);
    records.push(record(BOUND, (String::new(), bound)));
    Ok(records)
}

/// Largest variance by width, up to the largest width.
pub(super) fn draw(studio: &mut FigureContext, longest: u64) -> Result<FigureFiles> {
    let widths = widths(longest);
    studio.bar.inc_length(widths.len() as u64);
    let mut all = vec![];
    for width in widths {
        all.extend(records(width)?);
        studio.bar.inc(1);
    }
    let line = |label: &str| {
        let points = all.iter().filter(|record| record.line == label);
        let points = points.map(|record| (record.width as f64, record.value)).collect();
        PanelLine { label: label.into(), look: look(label), points }
    };
    let lines: Vec<PanelLine> = [STEPS, HATS, DIFFERENCES, BOUND].map(line).into();
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let x = Axis::over(Spacing::PowersOfTwo, points().map(|point| point.0), "window w (steps)");
    let y = Axis::over(Spacing::Decades, points().map(|point| point.1), "ε² · largest variance of a step").padded();
    let words = SheetTexts {
        title: "Windows under pure ε-differential privacy".into(),
        subtitle: "Laplace noise; “input” is noise on each step, the others have the best parameters for each width."
            .into(),
        footer: format!(
            "Exact figures for step sensitivity 1 and the continuous Laplace law, on unbounded streams; differences of \
             the best running counts over {WINDOWS} windows. The lower bound holds for every factorization: twice that \
             for Gaussian noise."
        ),
    };
    let panel = Panel { x, y, lines, height: 400.0 };
    let header = ["width", "way", "resolved", "epsilon_squared_max_variance"];
    let rows = all.iter().map(|r| [r.width.to_string(), r.line.into(), r.resolved.clone(), r.value.to_string()]);
    Ok(FigureFiles { svg: lines::panels(&words, &[panel]), csv: csv(header, rows)? })
}
