//! `evertally plan`: every mechanism under a budget, ranked by exact error.

use super::mechanisms::{brief, work_per_step};
use super::{BudgetFlags, kebab};
use crate::failure::usage;
use crate::searched;
use anyhow::Result;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use evertally::budget::conversions::mu_for;
use evertally::budget::{Budget, Delta};
use evertally::decimal::Grid;
use evertally::mechanism::DenseOptimum;
use evertally::plan::{Candidate, NoiseKind, Objective, PlanRequest, Values, gaussian_lower_bound};
use serde::Serialize;
use std::io::Write;

/// The longest horizon for which the bound by the optimal factorization is computed: less than a tenth of a second.
const LONGEST_CERTIFIED: u64 = 2048;

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
    /// Only mechanisms whose noise can be drawn where it is read: those that reach any single step from the key, and BLTs.
    #[arg(long)]
    lazy: bool,
    /// Consider `dense-pure`, too: minutes of search at 512 steps, its longest horizon, the first time.
    #[arg(long)]
    search: bool,
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
    /// Proven for Gaussian noise and every factorization by the nuclear norm; null under pure ε, where only its order is known.
    lower_bound_max_std: Option<f64>,
    /// The same by the certificate of the optimal factorization, to a few parts in 10⁵; null for horizons above 2048.
    optimum_max_std: Option<f64>,
    /// Under (ε, δ): below this δ the best Laplace noise is better than the best Gaussian, above it worse; null where one is better
    /// at every δ.
    crossover_delta: Option<f64>,
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
        let mut candidates = request.candidates()?;
        candidates.retain(|c| !self.lazy || c.mechanism.is_lazy());
        let rows: Vec<Row> = candidates.iter().map(|c| row(&request, c, bound)).collect();
        let Some(chosen) = rows.first().cloned() else {
            return Err(usage("--lazy: no mechanism of this horizon can be drawn where it is read"));
        };
        let answer = Answer {
            horizon: self.horizon,
            objective: self.objective,
            chosen,
            ranking: rows,
            lower_bound_max_std: bound,
            optimum_max_std: self.optimum(&request),
            crossover_delta: request.crossover(&candidates).map(Delta::get),
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
        if self.search {
            if self.horizon > searched::LONGEST {
                return Err(usage(format!("--search reaches {} steps, not {}", searched::LONGEST, self.horizon)));
            }
            request = searched::prepare(request, self.objective == Objective::Mean)?;
        }
        Ok(request)
    }

    fn lower_bound(&self, request: &PlanRequest) -> Option<f64> {
        Some(gaussian_lower_bound(self.horizon) * self.least_node_std(request)?)
    }

    fn optimum(&self, request: &PlanRequest) -> Option<f64> {
        let bound =
            (self.horizon <= LONGEST_CERTIFIED).then(|| DenseOptimum::lower_bound(self.horizon, false))?.ok()?;
        Some(bound.sqrt() * self.least_node_std(request)?)
    }

    /// The least standard deviation of Gaussian noise on one node, for a sensitivity of 1, under any accounting.
    fn least_node_std(&self, request: &PlanRequest) -> Option<f64> {
        let of_event = self.sensitivity.to_f64(1);
        match request.budget {
            Budget::Pure(_) => None,
            Budget::Zcdp(rho) => Some(of_event / (2.0 * rho.get()).sqrt()),
            Budget::Approximate(epsilon, delta) => Some(of_event / mu_for(epsilon, delta)),
        }
    }
}

fn row(request: &PlanRequest, candidate: &Candidate, bound: Option<f64>) -> Row {
    let m = &candidate.mechanism;
    let scale = candidate.law.scale() / candidate.noise_divisor as f64 * request.grid.to_f64(1);
    let (guarantee, promise) = (candidate.guarantee, candidate.guarantee.epsilon_delta());
    Row {
        mechanism: m.name(),
        noise: NoiseRow { law: candidate.kind, scale },
        max_std: candidate.max_std,
        mean_std: candidate.mean_std,
        guarantee: GuaranteeRow {
            epsilon: promise.map(|(epsilon, _)| epsilon.get()),
            delta: promise.map(|(_, delta)| delta.map_or(0.0, Delta::get)),
            rho: guarantee.rho.get(),
        },
        time_per_step: work_per_step(&**m),
        memory_words: m.memory_words(),
        exact: true,
        lazy: m.is_lazy(),
        above_lower_bound: bound.filter(|_| candidate.kind == NoiseKind::Gaussian).map(|b| candidate.max_std / b),
    }
}

fn print_table(out: &mut impl Write, answer: &Answer) -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["mechanism", "noise", "max error", "mean error", "× bound", "work/step", "words", "lazy"]);
    for row in &answer.ranking {
        table.add_row([
            brief(&row.mechanism),
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
    if let Some(bound) = answer.optimum_max_std.or(answer.lower_bound_max_std) {
        writeln!(out, "no mechanism with Gaussian noise has a maximal standard error below {bound:.4}")?;
    }
    if let Some(delta) = answer.crossover_delta {
        writeln!(out, "at this ε and horizon Laplace noise is better for δ below {delta:.2e}, Gaussian noise above")?;
    }
    Ok(())
}
