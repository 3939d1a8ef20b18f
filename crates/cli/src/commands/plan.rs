//! `evertally plan`: every mechanism under a budget, ranked by exact error.

use super::{BudgetFlags, kebab};
use crate::failure::usage;
use anyhow::Result;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use evertally::decimal::Grid;
use evertally::mechanism::MechanismName;
use evertally::plan::{Candidate, NoiseKind, Objective, PlanRequest, Values, gaussian_lower_bound};
use serde::Serialize;
use std::io::Write;

/// Flags of `evertally plan`.
#[derive(Args, Debug)]
pub(super) struct PlanArgs {
    /// Number of steps.
    #[arg(long, value_name = "T")]
    horizon: u64,
    #[command(flatten)]
    budget: BudgetFlags,
    /// Minimise the maximal or the mean error over the steps.
    #[arg(long, value_parser = kebab::<Objective>, value_name = "max|mean", default_value = "max")]
    objective: Objective,
    /// By how much one unit's change can move one step, in units of the data.
    #[arg(long, value_name = "S", default_value = "1")]
    sensitivity: Grid,
    /// Only this noise law.
    #[arg(long, value_parser = kebab::<NoiseKind>, value_name = "laplace|gaussian")]
    noise: Option<NoiseKind>,
    /// Only mechanisms that reach any single step without drawing all before it.
    #[arg(long)]
    lazy: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    horizon: u64,
    objective: Objective,
    chosen: Row,
    ranking: Vec<Row>,
    /// Proven for Gaussian noise and every factorization; null under pure ε, where only its order is known.
    lower_bound_max_std: Option<f64>,
}

#[derive(Clone, Serialize)]
struct Row {
    mechanism: String,
    noise: NoiseRow,
    max_std: f64,
    mean_std: f64,
    guarantee: GuaranteeRow,
    time_per_step: f64,
    memory_words: u64,
    exact: bool,
    lazy: bool,
    /// `max_std` over the lower bound.
    above_lower_bound: Option<f64>,
}

#[derive(Clone, Serialize)]
struct NoiseRow {
    law: NoiseKind,
    /// Scale of the Laplace law or standard deviation parameter of the Gaussian, in units of the data.
    scale: f64,
}

#[derive(Clone, Serialize)]
struct GuaranteeRow {
    epsilon: Option<f64>,
    delta: Option<f64>,
    rho: f64,
}

impl PlanArgs {
    /// Prints the ranking.
    pub(super) fn run(self) -> Result<()> {
        let request = self.request()?;
        let bound = self.lower_bound(&request);
        let candidates = request.candidates()?;
        let rows = candidates.iter().filter(|c| !self.lazy || c.mechanism.random_access());
        let rows: Vec<Row> = rows.map(|c| row(&request, c, bound)).collect();
        let Some(chosen) = rows.first().cloned() else {
            return Err(usage("--lazy: no mechanism of this horizon reaches single steps"));
        };
        let answer = Answer {
            horizon: self.horizon,
            objective: self.objective,
            chosen,
            ranking: rows,
            lower_bound_max_std: bound,
        };
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &answer).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            print_table(&mut out, &answer)?;
        }
        Ok(())
    }

    /// One event is a value between 0 and the sensitivity, which is one step of the grid for a count.
    fn request(&self) -> Result<PlanRequest> {
        let mut request = PlanRequest::count(self.horizon, self.budget.budget()?);
        request.objective = self.objective;
        request.noise = self.noise;
        if self.sensitivity != Grid::ONE {
            request.grid = self.sensitivity;
            request.values = Values::Sum { lower: 0, upper: 1 };
        }
        Ok(request)
    }

    fn lower_bound(&self, request: &PlanRequest) -> Option<f64> {
        let rho = request.budget.rho()?;
        let gamma = gaussian_lower_bound(self.horizon);
        Some(gamma * self.sensitivity.to_f64(1) / (2.0 * rho.get()).sqrt())
    }
}

fn row(request: &PlanRequest, candidate: &Candidate, bound: Option<f64>) -> Row {
    let m = &candidate.mechanism;
    let scale = candidate.law.scale() / candidate.noise_divisor as f64 * request.grid.to_f64(1);
    let guarantee = candidate.guarantee;
    let stated = guarantee.stated.filter(|_| guarantee.pure_epsilon.is_none());
    Row {
        mechanism: m.name(),
        noise: NoiseRow { law: candidate.kind, scale },
        max_std: candidate.max_std,
        mean_std: candidate.mean_std,
        guarantee: GuaranteeRow {
            epsilon: guarantee.pure_epsilon.or(stated.map(|(epsilon, _)| epsilon)).map(|e| e.get()),
            delta: stated.map(|(_, delta)| delta.get()).or(guarantee.pure_epsilon.map(|_| 0.0)),
            rho: guarantee.rho.get(),
        },
        time_per_step: if m.name().parse::<MechanismName>().expect("a mechanism names itself").is_heavy() {
            m.horizon() as f64 / 2.0
        } else {
            m.draws_per_step()
        },
        memory_words: m.memory_words(),
        exact: true,
        lazy: m.random_access(),
        above_lower_bound: bound.filter(|_| candidate.kind == NoiseKind::Gaussian).map(|b| candidate.max_std / b),
    }
}

fn print_table(out: &mut impl Write, answer: &Answer) -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["mechanism", "noise", "max error", "mean error", "× bound", "work/step", "words", "lazy"]);
    for row in &answer.ranking {
        table.add_row([
            row.mechanism.clone(),
            row.noise.law.to_string(),
            format!("{:.4}", row.max_std),
            format!("{:.4}", row.mean_std),
            row.above_lower_bound.map_or(String::new(), |ratio| format!("{ratio:.3}")),
            format!("{:.1}", row.time_per_step),
            row.memory_words.to_string(),
            if row.lazy { "yes" } else { "" }.into(),
        ]);
    }
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    writeln!(out, "{table}")?;
    let chosen = &answer.chosen;
    writeln!(
        out,
        "T = {}: {} with {} noise of scale {:.6}; standard error at most {:.4}",
        answer.horizon, chosen.mechanism, chosen.noise.law, chosen.noise.scale, chosen.max_std
    )?;
    if let Some(bound) = answer.lower_bound_max_std {
        writeln!(out, "no Gaussian mechanism has a maximal standard error below {bound:.4}")?;
    }
    Ok(())
}
