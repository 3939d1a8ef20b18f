//! Error by horizon: largest variance under zCDP, its ratio to the proven lower bound, and mean variance under pure ε.

use super::style::look;
use super::survey::{families, horizons, is_plain_noise};
use super::{FigureContext, FigureFiles, cell, csv};
use anyhow::Result;
use evertally::mechanism::{MechanismName, ShapeChoice};
use evertally::number::power;
use evertally::plan::{NoiseKind, Objective, gaussian_lower_bound};
use evertally_plot::axis::{Axis, Spacing};
use evertally_plot::lines::{self, Panel, PanelLine};
use evertally_plot::sheet::SheetTexts;

const HEIGHT: f64 = 400.0;
const HORIZON: &str = "horizon T (steps)";
/// The published shape of `smooth`, drawn by its column norm, as in the paper, next to what a plan spends.
const PUBLISHED: MechanismName = MechanismName::Smooth(ShapeChoice::Balanced);
/// The longest horizon at which the library builds the square root.
const MAX_SQUARE_ROOT: u64 = 1 << 20;
pub(super) const EXACT_NOTE: &str = "“exact” is the same noise with the exact sensitivity, from the covariance of all \
     releases instead of the column norms of the factorization; it is drawn if that is at least 1 % less.";
const PLANNED_NOTE: &str = "Lines are what a plan spends, with the exact sensitivity where discrete noise \
     can follow it; “smooth(shape=balanced)” is the published curve. Beyond 2²⁰ steps “sqrt” is its formula alone.";
pub(super) const OMITTED_NOTE: &str =
    "“input” and “output” noise, whose error grows with T itself, are in the CSV only.";

/// One family at one horizon.
struct CurveRecord {
    horizon: u64,
    family: MechanismName,
    resolved: MechanismName,
    /// Largest or mean variance, times 2ρ or ε²; by column norms.
    value: f64,
    /// The same with the exact sensitivity.
    exact: Option<f64>,
    /// The same as a plan spends it: the exact one if discrete noise can follow it, else by column norms.
    planned: f64,
}

/// Largest variance by horizon, with the lower bound.
pub(super) fn max_variance(studio: &mut FigureContext, horizon: u64) -> Result<FigureFiles> {
    let horizons = horizons(horizon);
    let records = zcdp_records(studio, &horizons);
    let mut lines = family_lines(&records, |_, value| value);
    let bound: Vec<(f64, f64)> = horizons.iter().map(|&t| (t as f64, gaussian_lower_bound(t).powi(2))).collect();
    lines.push(PanelLine { label: "lower bound".into(), look: look("lower bound"), points: bound.clone() });
    let words = SheetTexts {
        title: "Largest variance by horizon".into(),
        subtitle: "Under ρ-zero-concentrated differential privacy; open parameters are the best ones for each horizon."
            .into(),
        footer: format!(
            "Exact finite-horizon figures for step sensitivity 1 and the continuous Gaussian law. {EXACT_NOTE} The \
             lower \
             bound is proven for every factorization. {PLANNED_NOTE} {OMITTED_NOTE}"
        ),
    };
    let svg = chart(&words, "2ρ · largest variance of a step", lines);
    let header = [
        "horizon",
        "mechanism",
        "resolved",
        "two_rho_max_variance",
        "two_rho_max_variance_exact",
        "two_rho_max_variance_planned",
    ];
    let of_bound = bound.iter().zip(&horizons).map(|(&(_, value), &t)| {
        let none = String::new;
        [t.to_string(), "lower-bound".into(), none(), value.to_string(), none(), none()]
    });
    Ok(FigureFiles { svg, csv: csv(header, records.iter().map(|record| record.row(1.0)).chain(of_bound))? })
}

/// The ratio of the largest variance to the lower bound.
pub(super) fn ratio_to_bound(studio: &mut FigureContext, horizon: u64) -> Result<FigureFiles> {
    let records = zcdp_records(studio, &horizons(horizon));
    let bound = |t: u64| gaussian_lower_bound(t).powi(2);
    let lines = family_lines(&records, |t, value| value / bound(t));
    let words = SheetTexts {
        title: "How far above the lower bound".into(),
        subtitle:
            "Largest variance under ρ-zCDP over γ², the lower bound for every factorization with Gaussian noise; 1 \
                   would be optimal."
                .into(),
        footer: format!(
            "γ = (1/T) Σ 1/(2 sin((2j − 1)π/(4T + 2))), j = 1 … T. Exact finite-horizon figures; open parameters are \
             the best ones for each horizon. {EXACT_NOTE} {PLANNED_NOTE} {OMITTED_NOTE}"
        ),
    };
    let svg = chart(&words, "2ρ · largest variance over γ²", lines);
    let header = ["horizon", "mechanism", "resolved", "ratio", "ratio_exact", "ratio_planned"];
    Ok(FigureFiles { svg, csv: csv(header, records.iter().map(|record| record.row(bound(record.horizon))))? })
}

/// Mean variance under pure ε.
pub(super) fn pure_error(studio: &mut FigureContext, horizon: u64) -> Result<FigureFiles> {
    let horizons = horizons(horizon);
    // The asymptotic optimum next to the best arity for each horizon.
    let published = MechanismName::Subtract(Some(19));
    let families = move |t| families(t).chain([published]);
    let records = records(studio, &horizons, families, NoiseKind::Laplace);
    let mut lines = family_lines(&records, |_, value| value);
    for line in lines.iter_mut().filter(|line| line.label == published.to_string()) {
        line.look = line.look.variant();
    }
    let words = SheetTexts {
        title: "Mean error under pure ε-differential privacy".into(),
        subtitle:
            "Laplace noise; open parameters are the best ones for each horizon, k = 19 is the asymptotic optimum of \
                   subtraction."
                .into(),
        footer: format!(
            "Exact finite-horizon figures, ε² times the mean over all steps of the variance, for step sensitivity 1 \
             and the continuous Laplace law. {OMITTED_NOTE}"
        ),
    };
    let svg = chart(&words, "ε² · mean variance of a step", lines);
    let header = ["horizon", "mechanism", "resolved", "epsilon_squared_mean_variance"];
    let rows = records
        .iter()
        .map(|r| [r.horizon.to_string(), r.family.to_string(), r.resolved.to_string(), r.value.to_string()]);
    Ok(FigureFiles { svg, csv: csv(header, rows)? })
}

fn zcdp_records(studio: &mut FigureContext, horizons: &[u64]) -> Vec<CurveRecord> {
    records(studio, horizons, |t| families(t).chain([PUBLISHED]), NoiseKind::Gaussian)
}

/// Largest variance under Gaussian noise, mean variance under Laplace noise, of all families at all horizons.
fn records<F: Iterator<Item = MechanismName>>(
    studio: &mut FigureContext,
    horizons: &[u64],
    families: impl Fn(u64) -> F,
    law: NoiseKind,
) -> Vec<CurveRecord> {
    studio.bar.inc_length(horizons.len() as u64);
    let mut records = Vec::new();
    for &horizon in horizons {
        for family in families(horizon) {
            let objective = if law == NoiseKind::Gaussian { Objective::Max } else { Objective::Mean };
            let Some(m) = studio.survey.mechanism(family, law, objective, horizon) else { continue };
            let norms = m.column_norms();
            let (value, exact) = match law {
                NoiseKind::Gaussian => {
                    let max = m.max_row_norm_squared();
                    (norms.l2_squared * max, studio.survey.exact(&*m).map(|exact| exact * max))
                }
                NoiseKind::Laplace => (2.0 * norms.l1 * norms.l1 * m.mean_row_norm_squared(), None),
            };
            // The curve of a published mechanism is that of the paper.
            let spends_exactly = family != PUBLISHED && m.gaussian_shift().is_some();
            let planned = exact.filter(|_| spends_exactly).map_or(value, |exact| exact.min(value));
            records.push(CurveRecord { horizon, family, resolved: m.name(), value, exact, planned });
        }
        if law == NoiseKind::Gaussian && horizon > MAX_SQUARE_ROOT {
            records.push(CurveRecord::of_square_root(horizon));
        }
        studio.bar.inc(1);
    }
    records
}

impl CurveRecord {
    /// `(Σ_{j<T} f_j²)²` for horizons beyond those of the library's `sqrt`, of which it is the figure: with `f_j² =
    /// (1 - 1/(4j) + O(j⁻²))/(π j)` the sum is `(ln 16T + γ)/π - 1/(4πT)` up to a multiple of `T⁻²`.
    fn of_square_root(horizon: u64) -> Self {
        const EULER: f64 = 0.577_215_664_901_532_9;
        let steps = horizon as f64;
        let norm = ((16.0 * steps).ln() + EULER - 0.25 / steps) / std::f64::consts::PI;
        let value = power(norm, 2);
        let family = MechanismName::Sqrt;
        Self { horizon, family, resolved: family, value, exact: Some(value), planned: value }
    }

    fn row(&self, over: f64) -> [String; 6] {
        let [value, planned] = [self.value, self.planned].map(|value| (value / over).to_string());
        let exact = cell(self.exact.map(|exact| exact / over));
        [self.horizon.to_string(), self.family.to_string(), self.resolved.to_string(), value, exact, planned]
    }

    /// Whether the exact value is visibly smaller than the line of the family.
    fn gains(&self) -> bool {
        self.family != PUBLISHED && self.exact.is_some_and(|exact| exact < 0.99 * self.planned)
    }
}

/// One line per family, and a second one if the exact sensitivity is visibly smaller.
fn family_lines(records: &[CurveRecord], of: impl Fn(u64, f64) -> f64) -> Vec<PanelLine> {
    let mut names: Vec<MechanismName> = Vec::new();
    for record in records.iter().filter(|record| !is_plain_noise(record.family)) {
        if !names.contains(&record.family) {
            names.push(record.family);
        }
    }
    let mut lines = Vec::new();
    for family in names {
        let own: Vec<&CurveRecord> = records.iter().filter(|record| record.family == family).collect();
        let (label, look) = (family.to_string(), look(&family.to_string()));
        if own.iter().any(|record| record.gains()) {
            let known = own.iter().filter_map(|r| Some((r.horizon as f64, of(r.horizon, r.exact?))));
            lines.push(PanelLine { label: format!("{label}, exact"), look: look.variant(), points: known.collect() });
        }
        let points = own.iter().map(|r| (r.horizon as f64, of(r.horizon, r.planned))).collect();
        lines.push(PanelLine { label, look, points });
    }
    lines
}

fn chart(words: &SheetTexts, caption: &str, lines: Vec<PanelLine>) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let x = Axis::over(Spacing::PowersOfTwo, all().map(|point| point.0), HORIZON);
    let y = Axis::over(Spacing::Decades, all().map(|point| point.1), caption).padded();
    lines::panels(words, &[Panel { x, y, lines, height: HEIGHT }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::figures::survey::as_planned;

    #[test]
    fn the_square_root_continues_by_its_formula() {
        for horizon in [1 << 8, 1000, 1 << 14] {
            let built = as_planned(MechanismName::Sqrt, NoiseKind::Gaussian, Objective::Max, horizon).unwrap();
            let want = built.column_norms().l2_squared * built.max_row_norm_squared();
            let ours = CurveRecord::of_square_root(horizon).value;
            assert!((ours / want - 1.0).abs() < 1.0 / power(horizon as f64, 2), "{horizon}: {ours}, {want}");
        }
    }
}
