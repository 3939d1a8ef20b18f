//! Variance of the release of each step.

use super::curves::{EXACT_NOTE, OMITTED_NOTE};
use super::style::look;
use super::survey::{families, is_plain_noise};
use super::{FigureContext, FigureFiles, cell, csv};
use anyhow::Result;
use evertally::mechanism::MechanismName;
use evertally::plan::{NoiseKind, Objective};
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{self, PanelLine, SmallPanel};
use evertally_plot::sheet::SheetTexts;
use evertally_plot::style::LineStyle;
use evertally_plot::text::number;

/// One family.
struct FamilyRecord {
    family: MechanismName,
    resolved: MechanismName,
    /// ‖L_t‖² for the steps 1 … T.
    squares: Vec<f64>,
    /// Squared sensitivity from column norms.
    norm: f64,
    /// Squared sensitivity from the covariance of the releases.
    exact: Option<f64>,
}

impl FamilyRecord {
    fn points(&self, factor: f64) -> Vec<(f64, f64)> {
        self.squares.iter().zip(1u64..).map(|(square, step)| (step as f64, factor * square)).collect()
    }

    fn largest(&self) -> f64 {
        self.norm * self.squares.iter().copied().fold(0.0, f64::max)
    }

    fn mean(&self) -> f64 {
        self.norm * self.squares.iter().sum::<f64>() / self.squares.len() as f64
    }

    /// The exact sensitivity, if it differs visibly.
    fn gain(&self) -> Option<f64> {
        self.exact.filter(|exact| *exact < 0.99 * self.norm)
    }
}

/// Variance at every step of a horizon, under zCDP.
pub(super) fn draw(studio: &mut FigureContext, horizon: u64) -> Result<FigureFiles> {
    let records = records(studio, horizon);
    let shown: Vec<&FamilyRecord> = records.iter().filter(|record| !is_plain_noise(record.family)).collect();
    let best = shown.iter().min_by(|a, b| a.largest().total_cmp(&b.largest())).expect("trees support every horizon");
    let panels: Vec<SmallPanel> = shown.iter().map(|record| panel(record, best)).collect();
    let words = SheetTexts {
        title: format!("Variance over time, T = {}", number(horizon as f64)),
        subtitle: format!(
            "Under ρ-zero-concentrated differential privacy; open parameters are the best ones for the largest \
             variance. Pale: the same noise with exact accounting. Grey in every panel: {}, which has the smallest \
             maximum variance.",
            best.family
        ),
        footer: format!("Figures for step sensitivity 1 and the continuous Gaussian law. {EXACT_NOTE} {OMITTED_NOTE}"),
    };
    let largest = shown.iter().map(|record| record.largest()).fold(0.0, f64::max);
    let y = Axis::over(Spacing::Linear, [0.0, 1.04 * largest].into_iter(), "2ρ · variance of the release");
    let x = Axis::over(Spacing::Linear, [0.0, horizon as f64].into_iter(), "step t");
    Ok(FigureFiles { svg: lines::small_panels(&words, &x, &y, &panels), csv: table(&records)? })
}

fn records(studio: &mut FigureContext, horizon: u64) -> Vec<FamilyRecord> {
    let families: Vec<MechanismName> = families(horizon).collect();
    studio.bar.inc_length(families.len() as u64);
    let mut records = Vec::new();
    for family in families {
        studio.bar.inc(1);
        let Some(m) = studio.survey.mechanism(family, NoiseKind::Gaussian, Objective::Max, horizon) else { continue };
        let squares = (1..=horizon).map(|step| m.row_norm_squared(step)).collect();
        let (norm, exact) = (m.column_norms().l2_squared, studio.survey.exact(&*m));
        records.push(FamilyRecord { family, resolved: m.name(), squares, norm, exact });
    }
    records
}

/// The best mechanism in the background, exact accounting pale, the mechanism itself on top.
fn panel(record: &FamilyRecord, best: &FamilyRecord) -> SmallPanel {
    let name = record.family.to_string();
    let mut lines = Vec::new();
    let mut add = |look, points| lines.push(PanelLine { label: String::new(), look, points });
    if record.family != best.family {
        add(LineStyle { width: 3.0, ..look("lower bound") }, best.points(best.norm));
    }
    if let Some(exact) = record.gain() {
        add(LineStyle { dash: None, opacity: 0.45, ..look(&name) }, record.points(exact));
    }
    add(LineStyle { dash: None, width: 1.25, ..look(&name) }, record.points(record.norm));
    let exact = record.gain().map(|exact| format!(" (exact {})", number(record.largest() * exact / record.norm)));
    let note = format!("max {}{}, mean {}", number(record.largest()), exact.unwrap_or_default(), number(record.mean()));
    SmallPanel { name, note, lines }
}

fn table(records: &[FamilyRecord]) -> Result<Vec<u8>> {
    let row = |record: &FamilyRecord, step: usize, square: f64| {
        let exact = cell(record.exact.map(|exact| exact * square));
        let by_norm = (record.norm * square).to_string();
        [record.family.to_string(), record.resolved.to_string(), step.to_string(), by_norm, exact]
    };
    let rows = records.iter().flat_map(|record| {
        record.squares.iter().enumerate().map(move |(index, square)| row(record, index + 1, *square))
    });
    csv(["mechanism", "resolved", "step", "two_rho_variance", "two_rho_variance_exact"], rows)
}
