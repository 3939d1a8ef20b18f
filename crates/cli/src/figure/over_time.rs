//! Variance of the release of each step.

use super::curves::{EXACT, LEFT_OUT};
use super::scale::{Axis, Spacing};
use super::sheet::{self, Line, Panel, Words};
use super::style::look;
use super::survey::{families, is_plain_noise};
use super::{Drawn, Studio, cell, csv};
use anyhow::Result;
use evertally::plan::{NoiseKind, Objective};

/// Variance at every step of a horizon, under zCDP.
pub(super) fn draw(studio: &mut Studio, horizon: u64) -> Result<Drawn> {
    let families: Vec<_> = families(horizon).collect();
    studio.bar.inc_length(families.len() as u64);
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for family in families {
        studio.bar.inc(1);
        let Some(m) = studio.survey.mechanism(family, NoiseKind::Gaussian, Objective::Max, horizon) else { continue };
        let norm = m.column_norms().l2_squared;
        let exact = studio.survey.exact(&*m);
        let squares: Vec<f64> = (1..=horizon).map(|step| m.row_norm_squared(step)).collect();
        let (name, resolved) = (family.to_string(), m.name());
        for (step, row) in (1..=horizon).zip(&squares) {
            let figures = [(norm * row).to_string(), cell(exact.map(|exact| exact * row))];
            let [by_norm, by_covariance] = figures;
            rows.push([name.clone(), resolved.clone(), step.to_string(), by_norm, by_covariance]);
        }
        if is_plain_noise(family) {
            continue;
        }
        let points = |factor: f64| (1..=horizon).map(|t| t as f64).zip(squares.iter().map(|s| factor * s)).collect();
        if let Some(exact) = exact.filter(|exact| *exact < 0.99 * norm) {
            lines.push(Line { label: format!("{name}, exact"), look: look(&name).variant(), points: points(exact) });
        }
        lines.push(Line { label: name.clone(), look: look(&name), points: points(norm) });
    }
    let words = Words {
        title: format!("Variance over time, T = {horizon}"),
        subtitle: "Under ρ-zero-concentrated differential privacy; open parameters are the best ones for the largest variance.".into(),
        footer: format!("Exact figures for step sensitivity 1 and the continuous Gaussian law. {EXACT} {LEFT_OUT}"),
    };
    let values = lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let y = Axis::over(Spacing::Decades, values, "2ρ · variance of the release").padded();
    let x = Axis::over(Spacing::Linear, [1.0, horizon as f64].into_iter(), "step t");
    let svg = sheet::panels(&words, &[Panel { x, y, lines, height: 400.0 }]);
    let header = ["mechanism", "resolved", "step", "two_rho_variance", "two_rho_variance_exact"];
    Ok(Drawn { svg, csv: csv(header, rows)? })
}
