//! The cost of an unbounded horizon: variance relative to the best mechanism whose horizon ends at the step.
//!
//! Under ρ-zCDP, our mechanisms, with growing memory and with epochs, are compared with
//! * the hybrid mechanism (Chan, Shi, Song 2011, doi 10.1145/2043621.2043626): half of the budget for the totals of
//!   octaves, half for a binary tree inside each octave; plotted is the largest variance so far;
//! * the logarithmic perturbation of the square root (Jacobsen, Fawaz 2025, arXiv 2506.15018): `R` has the coefficients
//!   of `(1-x)^(-1/2) (-ln(1-x)/x)^(-α)` with α = 0.65, whose squares have a finite sum;
//! * a mechanism for one horizon of 2^40 steps.
//!
//! Under pure ε, they are compared with the same mechanism with trees inside, which needs little memory, and
//! with trees for one horizon of 2^40 steps; the best mechanism that ends at a step is the best of all families of the
//! planner.

mod pure;

use super::style::look;
use super::{FigureContext, FigureFiles, csv};
use anyhow::Result;
use evertally::mechanism::{Dense, MAX_HORIZON, MechanismName};
use evertally::plan::{NoiseKind, Objective};
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{self, Panel, PanelLine};
use evertally_plot::sheet::SheetTexts;
use pure::Pure;
use std::f64::consts::PI;

const HEIGHT: f64 = 400.0;
/// The longest horizon with a certified optimum.
const CERTIFIED: u64 = 2048;
/// The number of computed coefficients of the perturbation; after these, their asymptotic form is used.
const TERMS: usize = 1 << 13;
/// The exponent of the perturbation.
const ALPHA: f64 = 0.65;

/// Ratios by step, up to a last step.
pub(super) fn draw(studio: &mut FigureContext, last: u64) -> Result<FigureFiles> {
    let steps = steps(last);
    let best: Vec<f64> = steps.iter().map(|step| best(*step)).collect::<Result<_>>()?;
    let mut columns = vec![];
    for (label, name, horizon) in OURS {
        let name: MechanismName = name.parse()?;
        let found = studio.survey.mechanism(name, NoiseKind::Gaussian, Objective::Max, horizon);
        let found = found.ok_or_else(|| anyhow::anyhow!("{name} is not built"))?;
        let squared = found.column_norms().l2_squared;
        columns.push((label, steps.iter().map(|step| squared * found.row_norm_squared(*step)).collect::<Vec<_>>()));
    }
    let perturbed = LogarithmicPerturbation::new();
    columns.push(("logarithmic perturbation", steps.iter().map(|step| perturbed.variance(*step)).collect()));
    columns.push(("hybrid", steps.iter().map(|step| hybrid(*step)).collect()));
    let pure = Pure::new(studio, &steps)?;
    let lines = columns.iter().map(|(label, values)| {
        let ratios = steps.iter().zip(values).zip(&best).map(|((step, value), best)| (*step as f64, value / best));
        let name = match *label {
            "one horizon of 2^40 steps" => "normalized-blt",
            "endless, growing memory" => "endless",
            other => other,
        };
        PanelLine { label: (*label).into(), look: look(name), points: ratios.collect() }
    });
    let lines: Vec<PanelLine> = lines.collect();
    let words = SheetTexts {
        title: "The cost of an unbounded horizon".into(),
        subtitle:
            "Variance of a step over that of the best mechanism whose horizon ends at that step, under ρ-zCDP and \
                   under pure ε; 1 would be optimal."
                .into(),
        footer: format!(
            "Exact figures for step sensitivity 1 and the continuous laws. The best variance for a horizon is the \
             certified optimum up to {CERTIFIED} steps; for longer horizons it is slightly underestimated. Hybrid of \
             Chan, Shi and Song: largest variance so far. Logarithmic perturbation of Jacobsen and Fawaz with α = \
             {ALPHA}: {TERMS} coefficients, then their asymptotic form. Under pure ε the best is that of all families \
             of the planner; hats are among them up to 2^22 steps."
        ),
    };
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let x = || Axis::over(Spacing::PowersOfTwo, all().map(|point| point.0), "step t");
    let y = Axis::over(Spacing::Decades, all().map(|point| point.1), "variance over the best, ρ-zCDP").padded();
    let rows = steps.iter().zip(&best).enumerate().map(|(i, (step, best))| {
        let cell = |column: usize| columns[column].1[i].to_string();
        let pure =
            [pure.best[i], pure.columns[0].1[i], pure.columns[1].1[i], pure.columns[2].1[i]].map(|x| x.to_string());
        let [pure_best, hats, trees, one] = pure;
        let (step, best) = (step.to_string(), best.to_string());
        [step, best, cell(0), cell(1), cell(2), cell(3), cell(4), pure_best, hats, trees, one]
    });
    let header = [
        "step",
        "best_of_horizon",
        "endless_growing",
        "endless_normalized",
        "one_horizon",
        "logarithmic_perturbation",
        "hybrid",
        "pure_best_of_horizon",
        "endless_hats",
        "endless_trees",
        "pure_one_horizon",
    ];
    let csv = csv(header, rows)?;
    let label = "variance over the best, pure ε";
    let pure_lines = pure.lines(&steps);
    let over = pure_lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let pure_y = Axis::over(Spacing::Decades, over, label).padded();
    let first = Panel { x: x(), y, lines: lines.clone(), height: HEIGHT };
    let second = Panel { x: x(), y: pure_y, lines: pure_lines, height: HEIGHT };
    Ok(FigureFiles { svg: lines::panels(&words, &[first, second]), csv })
}

/// Our lines under ρ-zCDP, with their mechanisms and horizons. The last is the best that supports 2^40 steps.
const OURS: [(&str, &str, u64); 3] = [
    ("endless, growing memory", "endless(inside=growing)", MAX_HORIZON),
    ("endless, in epochs", "endless(inside=normalized)", MAX_HORIZON),
    ("one horizon of 2^40 steps", "normalized-blt", 1 << 40),
];

/// Eight steps per octave, and the first step after each power of 16.
fn steps(last: u64) -> Vec<u64> {
    let eighths = (0..=8 * last.ilog2()).map(|eighth| (f64::from(eighth) / 8.0).exp2() as u64);
    let mut steps: Vec<u64> = eighths.chain((1..15).map(|k| (1 << (4 * k)) + 1)).chain([last]).collect();
    steps.retain(|step| *step <= last);
    steps.sort_unstable();
    steps.dedup();
    steps
}

/// 2ρ times the smallest maximum variance of any mechanism over this number of steps.
fn best(horizon: u64) -> Result<f64> {
    if horizon <= CERTIFIED {
        return Ok(Dense::lower_bound(horizon, Objective::Max)?);
    }
    let last = Dense::lower_bound(CERTIFIED, Objective::Max)?.sqrt() - 0.01;
    Ok((last + (horizon as f64 / CERTIFIED as f64).ln() / PI).powi(2))
}

/// In octave `k`, which begins at `2^k`: `k` totals, and a tree of `k` levels of which any number may be read.
fn hybrid(step: u64) -> f64 {
    let octave = f64::from(step.ilog2());
    2.0 * (octave + 1.0) + 2.0 * octave * octave
}

/// `R` and `L` of the perturbation, by the sums of their squared coefficients.
struct LogarithmicPerturbation {
    /// Cumulative sums for `L`, starting at one coefficient.
    rows: Vec<f64>,
    /// The squared norm of a complete column of `R`.
    column: f64,
    /// The asymptotic form of `L` has `ln` of the number of steps plus this instead of `ln` itself.
    offset: f64,
}

impl LogarithmicPerturbation {
    fn new() -> Self {
        let (right, left) = (coefficients(-ALPHA), coefficients(ALPHA));
        let squares = |coefficients: &[f64]| -> Vec<f64> {
            let sum = |sum: &mut f64, x: &f64| {
                *sum += x * x;
                Some(*sum)
            };
            coefficients.iter().scan(0.0, sum).collect()
        };
        // r_j = (π j)^(-1/2) (ln j + c)^(-α), with c such that the last one fits.
        let last = (TERMS - 1) as f64;
        let offset = |coefficient: f64, power: f64| (coefficient * (PI * last).sqrt()).powf(1.0 / power) - last.ln();
        let tail = (last.ln() + offset(right[TERMS - 1], -ALPHA)).powf(1.0 - 2.0 * ALPHA) / (PI * (2.0 * ALPHA - 1.0));
        Self { column: squares(&right)[TERMS - 1] + tail, rows: squares(&left), offset: offset(left[TERMS - 1], ALPHA) }
    }

    fn variance(&self, step: u64) -> f64 {
        let known = self.rows[(step as usize).min(TERMS) - 1];
        let power = |step: f64| (step.ln() + self.offset).powf(1.0 + 2.0 * ALPHA) / (PI * (1.0 + 2.0 * ALPHA));
        let beyond = if step > TERMS as u64 { power(step as f64) - power(TERMS as f64) } else { 0.0 };
        self.column * (known + beyond)
    }
}

/// The coefficients of `(1-x)^(-1/2) g^power` with `g = -ln(1-x)/x`, by `f' = f ((1/2)/(1-x) + power g'/g)`.
fn coefficients(power: f64) -> Vec<f64> {
    let g = |j: usize| 1.0 / (j as f64 + 1.0);
    // h = g'/g, from g' = h g.
    let mut h = vec![0.0; TERMS];
    for n in 0..TERMS {
        let known: f64 = (1..=n).map(|j| g(j) * h[n - j]).sum();
        h[n] = (n as f64 + 1.0) * g(n + 1) - known;
    }
    let mut f = vec![1.0; TERMS];
    for n in 1..TERMS {
        let sum: f64 = (0..n).map(|j| f[j] * (0.5 + power * h[n - 1 - j])).sum();
        f[n] = sum / n as f64;
    }
    f
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally::mechanism::{Criterion, Mechanism};

    /// Both factors together are the prefix sums.
    #[test]
    fn the_perturbation_factorizes_the_prefix_sums() {
        let (right, left) = (coefficients(-ALPHA), coefficients(ALPHA));
        for n in [0, 1, 5, 300] {
            let product: f64 = (0..=n).map(|j| left[j] * right[n - j]).sum();
            assert!((product - 1.0).abs() < 1e-9, "{n}: {product}");
        }
    }

    /// The table of `docs/mechanisms.md`.
    #[test]
    fn the_documented_table_is_this_figure() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mechanisms.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, table) = page.split_once("| step | `inside=growing` | `normalized` |").unwrap();
        let criterion = Criterion::new(NoiseKind::Gaussian, Objective::Max);
        let ours = OURS.map(|(_, name, horizon)| name.parse::<MechanismName>().unwrap().build(horizon, &criterion));
        let perturbed = LogarithmicPerturbation::new();
        let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
        assert!(rows.len() > 10);
        for row in rows {
            let cells: Vec<&str> = row.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect();
            let power = cells[0].strip_prefix("2^").map(|power| 1u64 << power.parse::<u32>().unwrap());
            let step = power.unwrap_or_else(|| cells[0].parse().unwrap());
            let of =
                |found: &std::sync::Arc<dyn Mechanism>| found.column_norms().l2_squared * found.row_norm_squared(step);
            let own = ours.iter().map(|found| of(found.as_ref().unwrap()));
            let all = own.chain([perturbed.variance(step), hybrid(step)]);
            let best = best(step).unwrap();
            let found: Vec<String> = all.map(|squared| format!("{:.2}", squared / best)).collect();
            assert_eq!(cells[1..], found, "step {step}");
        }
    }

    /// The published mechanisms have their known figures, and ours stay below 2.5.
    #[test]
    fn ratios_are_those_that_are_known() {
        let perturbed = LogarithmicPerturbation::new();
        let ratio = |step: u64| perturbed.variance(step) / best(step).unwrap();
        assert!(
            (ratio(1000) - 4.9).abs() < 0.6 && (ratio(100_000) - 5.4).abs() < 0.6,
            "{} {}",
            ratio(1000),
            ratio(100_000)
        );
        assert!(hybrid(1 << 20) / best(1 << 20).unwrap() > 20.0);
    }
}
