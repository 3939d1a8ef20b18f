//! Where Laplace and where Gaussian noise has the smaller error under (ε, δ), by horizon and δ.
//!
//! Each cell asks the planner for the smallest maximum error with either law. Open parameters hardly depend on δ: the
//! names that win at three δ across the range form a shortlist, and each cell takes the best of it.

use super::survey::{families, horizons};
use super::{FigureContext, FigureFiles, csv};
use anyhow::Result;
use evertally::mechanism::MechanismName;
use evertally::plan::{NoiseKind, PlanRequest};
use evertally::privacy::{Budget, Delta, Epsilon};
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::canvas::Canvas;
use evertally_plot::frame::Frame;
use evertally_plot::lines;
use evertally_plot::sheet::{SheetTexts, sheet};
use evertally_plot::style::{MARGIN, ROOM, SMALL, Stroke, TextAnchor, TextStyle, ink};
use evertally_plot::text::width;

/// δ ranges from 10⁻¹ to ten to minus this.
const MAX_DELTA_EXPONENT: i32 = 24;
const HEIGHT: f64 = 420.0;
/// Colours are saturated from a factor of four (log₂).
const SATURATED_LOG2_RATIO: f64 = 2.0;

struct Best {
    mechanism: MechanismName,
    max_std: f64,
}

struct Cell {
    horizon: u64,
    exponent: i32,
    laplace: Best,
    gaussian: Best,
}

impl Cell {
    /// log₂ of Laplace's error over Gaussian's.
    fn log_ratio(&self) -> f64 {
        (self.laplace.max_std / self.gaussian.max_std).log2()
    }
}

/// The map.
pub(super) fn draw(studio: &mut FigureContext, horizon: u64) -> Result<FigureFiles> {
    let horizons = horizons(horizon);
    studio.bar.inc_length(horizons.len() as u64);
    let epsilon = studio.settings.epsilon;
    let mut columns: Vec<Vec<Cell>> = Vec::new();
    for &t in &horizons {
        columns.push(column(t, epsilon)?);
        studio.bar.inc(1);
    }
    let e = epsilon.get();
    let words = SheetTexts {
        title: "Laplace or Gaussian noise?".into(),
        subtitle: format!(
            "Largest standard error of the best mechanism with Laplace noise over that with Gaussian noise, under (ε, \
             δ) with ε = {e}."
        ),
        footer: "By this program's planner: exact finite-horizon errors of all mechanisms that it searches at the \
                 horizon, except the dense numeric optima; one event changes one step by 1. Mechanisms with long \
                 searches end at their longest horizon, which is visible as a step. Dashes: δ = T⁻⁰·⁹², the order at \
                 which, according to the literature, the two laws are equal for long horizons."
            .into(),
    };
    let svg = sheet(&words, 26.0 + HEIGHT + 46.0, |canvas, top| map(canvas, top, &columns));
    let header =
        ["horizon", "delta", "laplace_mechanism", "laplace_max_std", "gaussian_mechanism", "gaussian_max_std", "ratio"];
    let rows = columns.iter().flatten().map(|cell| {
        [
            cell.horizon.to_string(),
            format!("1e-{}", cell.exponent),
            cell.laplace.mechanism.to_string(),
            cell.laplace.max_std.to_string(),
            cell.gaussian.mechanism.to_string(),
            cell.gaussian.max_std.to_string(),
            (cell.laplace.max_std / cell.gaussian.max_std).to_string(),
        ]
    });
    Ok(FigureFiles { svg, csv: csv(header, rows)? })
}

/// The cells of one horizon, from the largest δ down.
fn column(horizon: u64, epsilon: Epsilon) -> Result<Vec<Cell>> {
    // Each cell would have to solve a convex program, to gain one percent.
    let all: Vec<MechanismName> = families(horizon).filter(|family| !family.to_string().starts_with("dense")).collect();
    let winners = |law| -> Result<Vec<MechanismName>> {
        let mut names = Vec::new();
        for exponent in [1, MAX_DELTA_EXPONENT / 2, MAX_DELTA_EXPONENT] {
            let winner = best(&all, horizon, epsilon, exponent, law)?.mechanism;
            if !names.contains(&winner) {
                names.push(winner);
            }
        }
        Ok(names)
    };
    let (laplace, gaussian) = (winners(NoiseKind::Laplace)?, winners(NoiseKind::Gaussian)?);
    let cell = |exponent| {
        Ok(Cell {
            horizon,
            exponent,
            laplace: best(&laplace, horizon, epsilon, exponent, NoiseKind::Laplace)?,
            gaussian: best(&gaussian, horizon, epsilon, exponent, NoiseKind::Gaussian)?,
        })
    };
    (1..=MAX_DELTA_EXPONENT).map(cell).collect()
}

/// The planner's best mechanism among these names with this law.
fn best(names: &[MechanismName], horizon: u64, epsilon: Epsilon, exponent: i32, law: NoiseKind) -> Result<Best> {
    let budget = Budget::Approximate(epsilon, Delta::new(10f64.powi(-exponent))?);
    let (mut found, mut refusal): (Option<Best>, _) = (None, None);
    for &name in names {
        let request = PlanRequest::count(horizon, budget).with_mechanism(name).with_noise(law);
        match request.candidates() {
            Ok(candidates) => {
                let (mechanism, max_std) = (candidates[0].mechanism.name(), candidates[0].max_std_error);
                if found.as_ref().is_none_or(|best| max_std < best.max_std) {
                    found = Some(Best { mechanism, max_std });
                }
            }
            Err(error) => refusal = Some(error),
        }
    }
    found.ok_or_else(|| refusal.expect("some family supports every horizon, or refuses it").into())
}

fn map(canvas: &mut Canvas, top: f64, columns: &[Vec<Cell>]) {
    let frame = Frame { left: MARGIN + 52.0, top: top + 26.0, width: ROOM - 52.0 - 118.0, height: HEIGHT };
    let times: Vec<f64> = columns.iter().map(|column| column[0].horizon as f64).collect();
    let edges = edges(&times);
    let x = Axis {
        spacing: Spacing::PowersOfTwo,
        range: (edges[0], edges[edges.len() - 1]),
        caption: "horizon T (steps)".into(),
    };
    let half = 10f64.sqrt();
    let y = Axis {
        spacing: Spacing::Decades,
        range: (10f64.powi(-MAX_DELTA_EXPONENT) / half, 0.1 * half),
        caption: "δ of (ε, δ)-differential privacy".into(),
    };
    lines::axes(canvas, &frame, &x, &y, &y.ticks(13));
    for (column, ends) in columns.iter().zip(edges.windows(2)) {
        for cell in column {
            let delta = 10f64.powi(-cell.exponent);
            let (left, right) = (frame.x(&x, ends[0]), frame.x(&x, ends[1]));
            let (upper, lower) = (frame.y(&y, delta * half), frame.y(&y, delta / half));
            // A slight overlap avoids seams between cells.
            canvas.rect(left, upper, right - left + 0.2, lower - upper + 0.2, &colour(cell.log_ratio()));
        }
    }
    reference(canvas, &frame, &x, &y);
    for (level, stroke) in [
        (-1.0, Stroke { dash: Some("2 3"), ..Stroke::new(ink::TEXT, 1.0) }),
        (1.0, Stroke { dash: Some("2 3"), ..Stroke::new(ink::TEXT, 1.0) }),
        (0.0, Stroke::new(ink::TEXT, 2.0)),
    ] {
        for part in contour(columns, level) {
            let places: Vec<(f64, f64)> = part.iter().map(|&(t, d)| (frame.x(&x, t), frame.y(&y, d))).collect();
            canvas.polyline(&places, stroke);
        }
    }
    regions(canvas, &frame, &x, &y, columns);
    legend(canvas, &frame);
}

/// Borders between columns: geometric means, and the same distance beyond the first and last column.
fn edges(times: &[f64]) -> Vec<f64> {
    let ratio = |i: usize| if times.len() > 1 { (times[i + 1] / times[i]).sqrt() } else { 2f64.sqrt() };
    let last = times.len() - 1;
    let mut edges = vec![times[0] / ratio(0)];
    edges.extend((0..last).map(|i| times[i] * ratio(i)));
    edges.push(times[last] * ratio(last.saturating_sub(1)));
    edges
}

/// Blue where Laplace noise has the smaller error, orange where Gaussian noise has, white where they are equal.
fn colour(log_ratio: f64) -> String {
    let share = (log_ratio.abs() / SATURATED_LOG2_RATIO).min(1.0);
    let full: [f64; 3] = if log_ratio < 0.0 { [0.0, 114.0, 178.0] } else { [213.0, 94.0, 0.0] };
    let [r, g, b] = full.map(|channel| (255.0 + (channel - 255.0) * 0.85 * share).round() as u8);
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Where log₂ of the ratio crosses a level, between neighbouring δ of each column; columns without a crossing break the
/// line.
fn contour(columns: &[Vec<Cell>], level: f64) -> Vec<Vec<(f64, f64)>> {
    let mut parts = vec![Vec::new()];
    for column in columns {
        let crossing = column.windows(2).find_map(|pair| {
            let (a, b) = (pair[0].log_ratio() - level, pair[1].log_ratio() - level);
            let share = a / (a - b);
            (a > 0.0 && b <= 0.0).then(|| 10f64.powf(-(f64::from(pair[0].exponent) + share)))
        });
        match crossing {
            Some(delta) => parts.last_mut().expect("never empty").push((column[0].horizon as f64, delta)),
            None => parts.push(Vec::new()),
        }
    }
    parts
}

/// The asymptotic order from the literature.
fn reference(canvas: &mut Canvas, frame: &Frame, x: &Axis, y: &Axis) {
    let delta = |t: f64| t.powf(-0.92);
    let ends = [x.range.0.max(y.range.1.powf(-1.0 / 0.92)), x.range.1.min(y.range.0.powf(-1.0 / 0.92))];
    if ends[0] < ends[1] {
        let place = |t: f64| (frame.x(x, t), frame.y(y, delta(t)));
        let stroke = Stroke { dash: Some("7 4"), ..Stroke::new(ink::MUTED, 1.25) };
        canvas.line(place(ends[0]), place(ends[1]), stroke);
    }
}

/// Labels the middle of each region with the law that has the smaller error there.
fn regions(canvas: &mut Canvas, frame: &Frame, x: &Axis, y: &Axis, columns: &[Vec<Cell>]) {
    let place = |cell: &Cell| (frame.x(x, cell.horizon as f64), frame.y(y, 10f64.powi(-cell.exponent)));
    for (sign, name) in [(-1.0, "Laplace has the smaller error"), (1.0, "Gaussian has the smaller error")] {
        let inside: Vec<(f64, f64)> =
            columns.iter().flatten().filter(|cell| cell.log_ratio() * sign > 0.0).map(place).collect();
        let outside: Vec<(f64, f64)> =
            columns.iter().flatten().filter(|cell| cell.log_ratio() * sign <= 0.0).map(place).collect();
        let middle = |of: fn(&(f64, f64)) -> f64| inside.iter().map(of).sum::<f64>() / inside.len() as f64;
        let centre = (middle(|place| place.0), middle(|place| place.1));
        let reach = width(name, 14.0, true) / 2.0 + 6.0;
        // Nearest to the middle, where no part of the other region is under the label.
        let far = |at: &(f64, f64)| (at.0 - centre.0).abs() + (at.1 - centre.1).abs();
        let free = |at: &&(f64, f64)| {
            let clear = |other: &(f64, f64)| (other.0 - at.0).abs() > reach + 16.0 || (other.1 - at.1).abs() > 24.0;
            at.0 - reach >= frame.left && at.0 + reach <= frame.right() && outside.iter().all(clear)
        };
        let Some(&(at, y)) = inside.iter().filter(free).min_by(|a, b| far(a).total_cmp(&far(b))) else { continue };
        // Keeps the text readable over lines.
        canvas.area(&[(at - reach, y - 11.0, y + 10.0), (at + reach, y - 11.0, y + 10.0)], "#ffffff", 0.8);
        canvas.text(at, y + 4.0, name, TextStyle::new(14.0, ink::TEXT).bold().anchor(TextAnchor::Middle));
    }
}

/// The legend: colours with their ratios, and lines.
fn legend(canvas: &mut Canvas, frame: &Frame) {
    let left = frame.right() + 18.0;
    canvas.text(left, frame.top + 8.0, "Laplace error", TextStyle::new(SMALL, ink::TEXT));
    canvas.text(left, frame.top + 22.0, "÷ Gaussian error", TextStyle::new(SMALL, ink::TEXT));
    let top = frame.top + 36.0;
    for (row, log_ratio) in [2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, -1.5, -2.0f64].into_iter().enumerate() {
        let y = top + 20.0 * row as f64;
        canvas.rect(left, y, 22.0, 20.0, &colour(log_ratio));
        if let Some(label) =
            ["4 and more", "", "2", "", "1", "", "½", "", "¼ and less"].get(row).filter(|l| !l.is_empty())
        {
            canvas.text(left + 30.0, y + 14.0, label, TextStyle::new(SMALL, ink::MUTED));
        }
    }
    let lines = [
        ("equal", Stroke::new(ink::TEXT, 2.0)),
        ("½ and 2", Stroke { dash: Some("2 3"), ..Stroke::new(ink::TEXT, 1.0) }),
        ("T⁻⁰·⁹²", Stroke { dash: Some("7 4"), ..Stroke::new(ink::MUTED, 1.25) }),
    ];
    for (row, (label, stroke)) in lines.into_iter().enumerate() {
        let y = top + 204.0 + 20.0 * row as f64;
        canvas.line((left, y), (left + 22.0, y), stroke);
        canvas.text(left + 30.0, y + 4.0, label, TextStyle::new(SMALL, ink::MUTED));
    }
}
