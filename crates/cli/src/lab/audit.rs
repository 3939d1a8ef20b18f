//! `evertally lab audit`: an empirical check of a mechanism or plan, as a black box.

use crate::failure::usage;
use crate::kebab::kebab;
use crate::stream::{BudgetFlags, UnitFlags};
use anyhow::{Context, Result, anyhow};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use evertally::mechanism::MechanismName;
use evertally::noise::TestSeed;
use evertally::plan::{NoiseKind, Plan, PlanRequest};
use evertally::privacy::Neighbours;
use evertally_audit::{
    AuditReport, AuditSettings, Change, Check, Finding, PlanBox, Promise, audit, audited_steps, event_steps,
    worst_change,
};
use evertally_declare::words::{rounded_down, rounded_up};
use indicatif::ProgressBar;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;

/// Flags of `evertally lab audit`.
#[derive(Args, Debug)]
pub(crate) struct AuditArgs {
    /// The mechanism.
    #[arg(long, value_name = "NAME", required_unless_present = "plan")]
    mechanism: Option<MechanismName>,
    /// Number of steps.
    #[arg(long, value_name = "T", required_unless_present = "plan")]
    horizon: Option<u64>,
    #[command(flatten)]
    budget: BudgetFlags,
    #[command(flatten)]
    unit: UnitFlags,
    /// The noise law [default: laplace for ε alone, otherwise gaussian]
    #[arg(long, value_parser = kebab::<NoiseKind>, value_name = "laplace|gaussian")]
    noise: Option<NoiseKind>,
    /// Audit a saved plan instead, as `evertally release` writes it next to its table.
    #[arg(long, value_name = "FILE.plan.toml", conflicts_with_all = [
        "mechanism", "horizon", "noise", "neighbours", "epsilon", "delta", "rho", "max-events", "max-events-per-step",
        "max-events-per-group", "max-groups", "min-gap", "per", "assert-max-events",
        "assert-max-events-per-step", "assert-max-events-per-group", "assert-max-groups", "assert-min-gap",
        "asserted-by",
    ])]
    plan: Option<PathBuf>,
    /// Number of releases to draw of each of four streams.
    #[arg(long, value_name = "N", default_value_t = AuditSettings::default().paths)]
    paths: u64,
    /// Steps whose releases are tested, separated by commas [default: all; for a long horizon the first, the last,
    /// powers of two with their neighbours, and some steps in between]
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    at: Option<Vec<u64>>,
    /// The step of the event in which neighbouring streams differ [default: the worst step]
    #[arg(long, value_name = "STEP")]
    event: Option<u64>,
    /// Confidence: one minus the probability that any check refutes a mechanism that keeps its promise.
    #[arg(long, value_name = "P", default_value_t = AuditSettings::default().confidence)]
    confidence: f64,
    /// Seed of the test keys.
    #[arg(long, value_name = "S", default_value_t = 1)]
    test_seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The JSON output.
#[derive(Serialize)]
struct AuditOutput {
    mechanism: MechanismName,
    noise: NoiseKind,
    horizon: u64,
    /// The tested steps.
    at: Vec<u64>,
    /// The number of running sums to which an event is added.
    sums_per_event: u64,
    neighbours: Neighbours,
    change: String,
    test_seed: u64,
    promise: Promised,
    /// Lower confidence bounds, the larger of both surroundings.
    bounds: AuditBounds,
    #[serde(flatten)]
    report: AuditReport,
}

#[derive(Serialize)]
struct Promised {
    epsilon: Option<f64>,
    delta: Option<f64>,
    rho: f64,
}

#[derive(Serialize)]
struct AuditBounds {
    epsilon: Option<f64>,
    mu: Option<f64>,
}

impl AuditArgs {
    /// Audits, prints, and fails if the promise is refuted.
    pub(super) fn run(self) -> Result<()> {
        let plan = self.plan()?;
        let steps = match &self.at {
            None => audited_steps(&plan),
            Some(steps) => {
                let mut steps = steps.clone();
                steps.sort_unstable();
                steps.dedup();
                steps
            }
        };
        let promise = Promise::at(&plan, &steps).map_err(|problem| match self.at {
            Some(_) => usage(format!("--at: {problem}")),
            None => problem.into(),
        })?;
        if let Some(step) = self.event
            && let possible = event_steps(&plan)?
            && !possible.contains(&step)
        {
            let last = possible.end();
            return Err(usage(format!(
                "--event {step}: the changed events must start at a step from 1 to {last} to end within the horizon"
            )));
        }
        let change = worst_change(&plan, &promise, self.event)?;
        let pairs = change.pairs(&plan, &promise);
        let settings = AuditSettings { paths: self.paths, confidence: self.confidence };
        let mut subject = PlanBox::with_seed(plan.clone(), &promise, TestSeed(self.test_seed))?;
        let bar = ProgressBar::new(2 * pairs.len() as u64 * self.paths); // shown on a terminal only
        let report = audit(&mut subject, &promise, &pairs, settings, &mut || bar.inc(1))?;
        bar.finish_and_clear();
        let refuted = report.refuted;
        self.print(&plan, steps, &change, report)?;
        if refuted { Err(anyhow!("the promise is refuted")) } else { Ok(()) }
    }

    fn plan(&self) -> Result<Plan> {
        if let Some(path) = &self.plan {
            let text = std::fs::read_to_string(path).map_err(|e| usage(format!("--plan {}: {e}", path.display())))?;
            return toml::from_str(&text).map_err(|e| usage(format!("--plan {}: {e}", path.display())));
        }
        let horizon = self.horizon.context("clap requires a horizon")?;
        let mut request = PlanRequest::count(horizon, self.budget.budget()?);
        let laplace = self.budget.is_pure();
        let fallback = if laplace { NoiseKind::Laplace } else { NoiseKind::Gaussian };
        request = request.with_noise(self.noise.unwrap_or(fallback));
        request = request.with_optional_mechanism(self.mechanism);
        request = request.with_unit(self.unit.unit()?).with_neighbours(self.unit.neighbours());
        let display = crate::searched::SearchDisplay::new(false)?;
        Ok(crate::searched::with_searched(display.watching(request))?.plan()?)
    }

    fn print(&self, plan: &Plan, at: Vec<u64>, change: &Change, report: AuditReport) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let guarantee = plan.guarantee();
        let promise = guarantee.epsilon_delta();
        let answer = AuditOutput {
            mechanism: plan.mechanism().name(),
            noise: plan.noise_kind(),
            horizon: plan.horizon(),
            at,
            sums_per_event: plan.request().sums_per_event(),
            neighbours: plan.request().neighbours(),
            change: change.to_string(),
            test_seed: self.test_seed,
            promise: Promised {
                epsilon: promise.map(|(epsilon, _)| epsilon.get()),
                delta: promise.and_then(|(_, delta)| delta).map(|delta| delta.get()),
                rho: guarantee.rho.get(),
            },
            bounds: AuditBounds { epsilon: report.bound("epsilon"), mu: report.bound("mu") },
            report,
        };
        if self.json {
            serde_json::to_writer_pretty(&mut out, &answer).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            print_table(&mut out, plan, &answer)?;
        }
        Ok(())
    }
}

fn print_table(out: &mut impl Write, plan: &Plan, answer: &AuditOutput) -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["check", "of", "found", "refutes if", "verdict"]);
    for check in &answer.report.checks {
        let (found, limit) = describe(check);
        let verdict = if check.refuted { "REFUTED" } else { "not refuted" };
        let tested = !matches!(check.finding, Finding::NotTested { .. });
        table.add_row([check.test, &check.about, &found, &limit, if tested { verdict } else { "not tested" }]);
    }
    table.column_iter_mut().skip(2).take(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    writeln!(out, "{table}")?;
    writeln!(
        out,
        "{} with {} noise over {} steps, {}: {} releases, test seed {}.",
        answer.mechanism.brief(),
        answer.noise,
        answer.horizon,
        plan.request().budget(),
        answer.report.paths,
        answer.test_seed
    )?;
    if (answer.at.len() as u64) < answer.horizon {
        writeln!(out, "Tested {} steps: {}.", answer.at.len(), in_short(&answer.at))?;
    }
    if answer.sums_per_event > 1 {
        writeln!(out, "Tested the {} running sums to which an event is added, jointly.", answer.sums_per_event)?;
    }
    writeln!(out, "Neighbours: {}.", answer.change)?;
    writeln!(
        out,
        "{}. A mechanism that keeps its promise is refuted with probability at most {:.1e}, {:.1e} for each check.",
        if answer.report.refuted { "REFUTED" } else { "Not refuted, which does not prove the promise" },
        1.0 - answer.report.confidence,
        answer.report.level
    )?;
    Ok(())
}

/// A list of steps, shortened to the first and the last ones.
fn in_short(steps: &[u64]) -> String {
    let list = |steps: &[u64]| steps.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    match steps {
        [first @ .., before, last] if steps.len() > 12 => format!("{}, …, {before}, {last}", list(&first[..9])),
        all => list(all),
    }
}

/// The finding of a check, and the limit that would refute the promise.
fn describe(check: &Check) -> (String, String) {
    match &check.finding {
        Finding::LowerBound { quantity, bound, promise } => {
            let symbol = if *quantity == "epsilon" { "ε" } else { "μ" };
            (format!("{symbol} ≥ {}", rounded_down(*bound, 4)), format!("> {}", rounded_up(*promise, 4)))
        }
        Finding::PValue { p, level } => (format!("p = {p:.2e}"), format!("< {level:.1e}")),
        Finding::Exact { holds } => (if *holds { "yes" } else { "no" }.into(), "no".into()),
        Finding::NotTested { reason } => (reason.clone(), String::new()),
    }
}
