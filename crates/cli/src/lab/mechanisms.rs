//! `evertally lab mechanisms`: exact sensitivity and error of every mechanism at a horizon.

use crate::failure::usage;
use crate::kebab::kebab;
use crate::searched;
use crate::stream::{UnitFlags, WorkloadFlags};
use anyhow::Result;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use evertally::mechanism::{Criterion, MAX_HORIZON, Mechanism, MechanismName, NoiseKind, Objective, Workload};
use evertally::plan::{LOOKED_AT, competitors, largest_ratio, workload_lower_bound};
use evertally::privacy::{Neighbours, Sensitivity, Values};
use evertally_declare::declaration::SlotRequest;
use serde::Serialize;
use std::io::Write;

/// Flags of `evertally lab mechanisms`.
#[derive(Args, Debug)]
pub(crate) struct MechanismsArgs {
    /// Number of steps.
    #[arg(long, value_name = "T", required_unless_present = "unbounded")]
    horizon: Option<u64>,
    /// Unbounded horizon: list mechanisms that are good at every step, with their variances at some steps.
    #[arg(long, conflicts_with = "horizon")]
    unbounded: bool,
    /// Only this mechanism, such as `binary`, `subtract(k=13)` or `smooth(h=14,zeros=6)`; may be repeated.
    #[arg(long = "mechanism", value_name = "NAME")]
    mechanisms: Vec<MechanismName>,
    /// The noise law for which parameters omitted from a name are chosen [default: laplace for `consistent`, `hats` and
    /// `dense-pure`, gaussian for the others]
    #[arg(long, value_parser = kebab::<NoiseKind>, value_name = "laplace|gaussian")]
    law: Option<NoiseKind>,
    /// Choose open parameters by the mean error instead of the maximum error (always for `dense-pure`, unless its name
    /// contains `objective=max`).
    #[arg(long)]
    by_mean: bool,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    unit: UnitFlags,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The figures of one mechanism, for a unit of events that count 1 each: `zcdp_*` are 2ρ·variance, `pure_*` are
/// ε²·variance.
#[derive(Debug, Serialize)]
struct Figures {
    mechanism: MechanismName,
    /// The same name with all parameters.
    resolved: MechanismName,
    /// Infinite, and null in JSON, if Laplace noise is refused; so are `pure_*`.
    s1: f64,
    s2: f64,
    zcdp_max: f64,
    zcdp_mean: f64,
    pure_max: f64,
    pure_mean: f64,
    /// Exact Gaussian accounting of the release's covariance.
    s2_exact: Option<f64>,
    zcdp_max_exact: Option<f64>,
    zcdp_mean_exact: Option<f64>,
    /// Amortized noise draws per step, or multiplications if there are far more of them.
    time_per_step: f64,
    memory_words: u64,
    /// Whether counts are released in exact integer arithmetic.
    exact: bool,
    /// Whether the noise of a step can be drawn when it is read, without all earlier noise.
    lazy: bool,
    /// Lower bound on the standard error of the worst step of any factorization for this unit, under ρ = 1/2.
    lower_bound_max_std: Option<f64>,
    /// For an unbounded horizon: `zcdp` and `pure` of some steps, instead of maximum and mean. Otherwise omitted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    at: Vec<StepFigures>,
    /// For an unbounded horizon: the largest ratio of the variance to that of the best mechanism that ends at the step,
    /// proven for single events.
    #[serde(skip_serializing_if = "Option::is_none")]
    largest_ratio: Option<f64>,
}

/// The figures of one step.
#[derive(Debug, Serialize)]
struct StepFigures {
    step: u64,
    zcdp: f64,
    /// Infinite, and null in JSON, if Laplace noise is refused.
    pure: f64,
}

impl MechanismsArgs {
    /// Prints the figures.
    pub(super) fn run(mut self) -> Result<()> {
        let neighbours = self.unit.neighbours();
        let SlotRequest { horizon, unit, read, .. } = self.workload.over(&self.unit, self.horizon())?;
        let workload = read.one().ok_or_else(|| {
            usage("--workload: mechanisms are compared for one workload at a time; `evertally plan` takes several")
        })?;
        self.horizon = self.horizon.map(|_| horizon);
        let unit = Sensitivity::new(unit, neighbours, Values::Count, horizon)?;
        let grows = self.unbounded && workload.is_sum();
        let mut rows =
            if self.mechanisms.is_empty() { self.everything(&unit, workload)? } else { self.named(&unit, workload)? };
        let bound =
            (neighbours == Neighbours::AddRemove).then(|| workload_lower_bound(workload, self.horizon(), unit.spread));
        rows.iter_mut().for_each(|row| row.lower_bound_max_std = bound.filter(|_| !grows));
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &rows).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            writeln!(out, "{}", if grows { endless_table(&rows) } else { table(&rows) })?;
            writeln!(
                out,
                "{}, {}. s1, s2: how far that moves the protected sums (L1, L2).",
                self.horizon.map_or_else(|| "No end".to_owned(), |horizon| format!("T = {horizon} steps")),
                if self.unit.is_given() {
                    "the worst change of one privacy unit"
                } else {
                    "a change of one input by 1"
                }
            )?;
            let says = match grows {
                true => "zCDP, pure: variance of the release of a step, times 2ρ and times ε²",
                false => "zCDP, pure: largest and mean variance of a release, times 2ρ and times ε²",
            };
            writeln!(out, "{says}. words: memory of a stream.")?;
        }
        Ok(())
    }

    fn horizon(&self) -> u64 {
        self.horizon.unwrap_or(MAX_HORIZON)
    }

    fn objective(&self) -> Objective {
        if self.by_mean { Objective::Mean } else { Objective::Max }
    }

    fn criterion(
        &self,
        law: NoiseKind,
        objective: Objective,
        unit: &Sensitivity,
        workload: Workload,
    ) -> Criterion<'static> {
        Criterion::new(law, objective).with_spread(unit.spread).with_workload(workload)
    }

    fn named(&self, unit: &Sensitivity, workload: Workload) -> Result<Vec<Figures>> {
        let figures = |name: &MechanismName| {
            let law = self.law.unwrap_or(name.usual_law());
            if let Some(search) = name.family().long_search
                && *name == name.brief()
                && self.horizon() <= search.longest
            {
                // The published results of such searches are means.
                let objective = (search.objective)(*name).unwrap_or(Objective::Mean);
                return Ok(Figures::new(*name, &*searched::found(*name, self.horizon(), objective)?, unit));
            }
            let mechanism = name.build(self.horizon(), &self.criterion(law, self.objective(), unit, workload))?;
            Ok(Figures::new(*name, &*mechanism, unit))
        };
        self.mechanisms.iter().map(figures).collect()
    }

    /// Every family, with open parameters chosen for either law.
    fn everything(&self, unit: &Sensitivity, workload: Workload) -> Result<Vec<Figures>> {
        let (horizon, objective) = (self.horizon(), self.objective());
        let mut rows: Vec<Figures> = Vec::new();
        let laws =
            [NoiseKind::Gaussian, NoiseKind::Laplace].map(|law| (law, self.criterion(law, objective, unit, workload)));
        // For running sums: all families, regardless of their usual noise law.
        let mut families: Vec<_> = match workload.over(horizon).is_sum() && !self.unbounded {
            true => MechanismName::FAMILIES.into_iter().filter(|family| family.is_searched_at(horizon)).collect(),
            false => Vec::new(),
        };
        for (law, criterion) in &laws {
            let more = competitors(horizon, *law, criterion).into_iter().filter(|family| !families.contains(family));
            families.extend(more.collect::<Vec<_>>());
        }
        for family in families {
            for (law, criterion) in &laws {
                let Ok(mechanism) = family.build(horizon, criterion) else { continue };
                let resolved = mechanism.name();
                if rows.iter().any(|row| row.resolved == resolved) {
                    continue;
                }
                let is_open = family.family().listed_open && *law == family.usual_law();
                let name = if is_open { family } else { resolved };
                rows.push(Figures::new(name, &*mechanism, unit));
            }
        }
        if rows.is_empty() {
            return Err(usage(format!(
                "--horizon {horizon}: no mechanism supports it; it must be at least 1 and at most 2^62"
            )));
        }
        Ok(rows)
    }
}

impl Figures {
    fn new(mechanism: MechanismName, m: &dyn Mechanism, unit: &Sensitivity) -> Self {
        let (max, mean) = (m.max_row_norm_squared(), m.mean_row_norm_squared());
        let events = unit.l1 as f64;
        // By the triangle inequality, if a unit has several events or replaces one.
        let exact = m.exact_l2_squared().map(|squared| squared * events * events);
        let (s1, l2_squared) = (events * m.column_norms().l1, l2_squared(m, unit));
        let figures = Self {
            mechanism,
            resolved: m.name(),
            s1,
            s2: l2_squared.sqrt(),
            zcdp_max: l2_squared * max,
            zcdp_mean: l2_squared * mean,
            pure_max: 2.0 * s1 * s1 * max,
            pure_mean: 2.0 * s1 * s1 * mean,
            s2_exact: exact.map(f64::sqrt),
            zcdp_max_exact: exact.map(|s| s * max),
            zcdp_mean_exact: exact.map(|s| s * mean),
            time_per_step: m.cost().work_per_step,
            memory_words: m.cost().memory_words,
            exact: true,
            lazy: m.name().family().abilities.lazy,
            lower_bound_max_std: None,
            at: vec![],
            largest_ratio: None,
        };
        let grows = matches!(m.name().family().competes, evertally::mechanism::Competes::WithoutEnd(_))
            && m.horizon() == MAX_HORIZON;
        if grows { figures.endless(m, unit) } else { figures }
    }

    /// For an unbounded horizon: figures of single steps instead of all steps.
    fn endless(self, m: &dyn Mechanism, unit: &Sensitivity) -> Self {
        let at = |step: u64| {
            let row = m.row_norm_squared(step);
            let pure = if m.laplace().is_ok() { 2.0 * self.s1 * self.s1 * row } else { f64::INFINITY };
            StepFigures { step, zcdp: self.s2 * self.s2 * row, pure }
        };
        let [zcdp_max, zcdp_mean, pure_max, pure_mean] = [f64::INFINITY; 4];
        let largest_ratio = (unit.l1 == 1 && m.laplace().is_err()).then(|| largest_ratio(m, LOOKED_AT[0]));
        Self { at: LOOKED_AT.map(at).into(), largest_ratio, zcdp_max, zcdp_mean, pure_max, pure_mean, ..self }
    }
}

/// The squared L2 norm of the worst change of a unit.
fn l2_squared(m: &dyn Mechanism, unit: &Sensitivity) -> f64 {
    if unit.spread.total == 1 {
        return unit.event_squared as f64 * m.column_norms().l2_squared;
    }
    // For a mechanism that releases in finer units, the sum is in these units.
    unit.squared(m) * libm::exp2(-2.0 * f64::from(m.noise_bits()))
}

/// The table for an unbounded horizon.
fn endless_table(rows: &[Figures]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let steps = LOOKED_AT.map(|step| format!("zCDP at {step}")).into_iter();
    let before = ["mechanism", "s1", "s2"].map(str::to_owned).into_iter();
    let after = ["× best there", "draws/step", "words"].map(str::to_owned);
    table.set_header(before.chain(steps).chain(after));
    for row in rows {
        let pure =
            row.at.iter().map(|at| if at.pure.is_finite() { format!("pure {:.1}", at.pure) } else { String::new() });
        let mut cells = vec![row.mechanism.brief().to_string()];
        cells.extend([row.s1, row.s2].map(|x| if x.is_finite() { format!("{x:.2}") } else { "–".into() }));
        cells.extend(row.at.iter().zip(pure).map(|(at, pure)| format!("{:.2} {pure}", at.zcdp).trim().to_owned()));
        cells.push(row.largest_ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")));
        cells.extend([format!("{:.2}", row.time_per_step), row.memory_words.to_string()]);
        table.add_row(cells);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

fn table(rows: &[Figures]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "mechanism",
        "s1",
        "s2",
        "zCDP max",
        "zCDP mean",
        "pure max",
        "pure mean",
        "draws/step",
        "words",
    ]);
    for row in rows {
        let (name, resolved) = (row.mechanism.brief(), row.resolved.brief());
        let shape = if name == resolved { String::new() } else { format!(" = {resolved}") };
        let figure = |x: f64| match x {
            _ if x < 1e5 => format!("{x:.2}"),
            f64::INFINITY => "–".into(),
            _ => format!("{x:.3e}"),
        };
        let mut cells = vec![format!("{name}{shape}")];
        cells.extend([row.s1, row.s2, row.zcdp_max, row.zcdp_mean, row.pure_max, row.pure_mean].map(figure));
        cells.extend([format!("{:.2}", row.time_per_step), row.memory_words.to_string()]);
        table.add_row(cells);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
