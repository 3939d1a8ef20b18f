//! `evertally lab compare`: compares mechanisms by exact error, measured time and memory.

use crate::failure::usage;
use crate::lab::figures::survey::{as_planned, families};
use crate::lab::figures::timing::time_per_step;
use anyhow::Result;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use evertally::mechanism::{Mechanism, MechanismName};
use evertally::number::power;
use evertally::plan::{NoiseKind, Objective, gaussian_lower_bound};
use evertally_tables::output::{OutputError, RunOutputs};
use indicatif::ProgressBar;
use serde::Serialize;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Flags of `evertally lab compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Numbers of steps, separated by commas.
    #[arg(long, value_name = "T1,T2,…", value_delimiter = ',', required = true)]
    horizon: Vec<u64>,
    /// Only this mechanism, such as `binary`, `subtract(k=13)` or `smooth(h=14,zeros=6)`; may be repeated.
    #[arg(long = "mechanism", value_name = "NAME")]
    mechanisms: Vec<MechanismName>,
    /// How long each mechanism runs for its measured time, in milliseconds; 0 measures nothing.
    #[arg(long, value_name = "MS", default_value_t = 50)]
    timing: u64,
    /// Print JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Write the table as CSV to this file (`-`: standard output) instead of printing it.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// All mechanisms at one horizon.
#[derive(Debug, Serialize)]
struct HorizonComparison {
    horizon: u64,
    /// γ²: no factorization with Gaussian noise has a smaller 2ρ · mean variance, and hence no smaller maximum.
    lower_bound: f64,
    mechanisms: Vec<ComparisonRow>,
}

/// One mechanism, for step sensitivity 1: `zcdp_*` are 2ρ·variance, `pure_*` are ε²·variance.
#[derive(Debug, Serialize)]
struct ComparisonRow {
    horizon: u64,
    /// With every parameter.
    mechanism: MechanismName,
    /// The laws for which this is the best mechanism of the family, or the requested ones.
    best_for: String,
    /// Limit of `zcdp_max` / log₂²T, if the literature states it.
    zcdp_leading_constant: Option<f64>,
    /// Limit of `pure_mean` / log₂³T, if the literature states it.
    pure_leading_constant: Option<f64>,
    zcdp_max: f64,
    zcdp_mean: f64,
    /// The same with the exact sensitivity, from the covariance of the releases.
    zcdp_max_exact: Option<f64>,
    /// Null if the planner offers the mechanism for Gaussian noise only.
    pure_max: Option<f64>,
    pure_mean: Option<f64>,
    /// `zcdp_max` over the lower bound.
    above_lower_bound: f64,
    /// Measured.
    ns_per_step: Option<f64>,
    /// The number of timed releases.
    steps_timed: Option<u64>,
    /// Whether later steps cost more but were not reached.
    time_is_at_least: Option<bool>,
    memory_words: u64,
    /// Whether all steps have the same variance.
    same_error_at_all_steps: bool,
    lazy: bool,
}

impl CompareArgs {
    /// Prints or writes the comparison.
    pub(super) fn run(self) -> Result<()> {
        // Fails before anything is measured if the file cannot be written.
        let mut publication = RunOutputs::new(&[], true);
        let file = self.csv.as_ref().map(|path| publication.add(path)).transpose()?;
        let comparisons = self.horizon.iter().map(|&horizon| self.compare(horizon)).collect::<Result<Vec<_>>>()?;
        if let Some(mut file) = file {
            let mut writer = csv::Writer::from_writer(&mut file);
            for row in comparisons.iter().flat_map(|comparison| &comparison.mechanisms) {
                writer.serialize(row)?;
            }
            writer.flush().map_err(|error| OutputError::new(self.csv.as_deref().expect("it has a file"), error))?;
            drop(writer);
            file.finish()?;
            return Ok(publication.commit()?);
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &comparisons).map_err(std::io::Error::from)?;
            writeln!(out)?;
            return Ok(());
        }
        for comparison in &comparisons {
            print(&mut out, comparison)?;
        }
        writeln!(
            out,
            "2ρ, ε²: variance times 2ρ under zCDP, times ε² under pure ε. limit: of 2ρ max/log₂²T, from the literature."
        )?;
        writeln!(
            out,
            "exact: with the exact sensitivity, from the covariance of all releases. same: all steps have the same \
             error. ≥: later steps cost more."
        )?;
        Ok(())
    }

    fn compare(&self, horizon: u64) -> Result<HorizonComparison> {
        let found = self.found(horizon)?;
        let lower_bound = power(gaussian_lower_bound(horizon), 2);
        let bar = ProgressBar::new(found.len() as u64); // shown on a terminal only
        let mut rows = Vec::new();
        for found in &found {
            rows.push(self.row(found, lower_bound)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(HorizonComparison { horizon, lower_bound, mechanisms: rows })
    }

    /// The mechanisms to compare: the named ones or all families, with open parameters chosen for either law.
    fn found(&self, horizon: u64) -> Result<Vec<ComparedMechanism>> {
        let named = !self.mechanisms.is_empty();
        let names = if named { self.mechanisms.clone() } else { families(horizon).collect() };
        let mut found: Vec<ComparedMechanism> = Vec::new();
        for name in names {
            let before = found.len();
            let mut refusal = None;
            for law in [NoiseKind::Gaussian, NoiseKind::Laplace] {
                match as_planned(name, law, Objective::Max, horizon) {
                    Ok(mechanism) => {
                        match found[before..].iter_mut().find(|f| f.mechanism.name() == mechanism.name()) {
                            Some(same) => same.laws.push(law),
                            None => found.push(ComparedMechanism { name, mechanism, laws: vec![law] }),
                        }
                    }
                    Err(error) => {
                        refusal.get_or_insert(error);
                    }
                }
            }
            if let Some(error) = refusal.filter(|_| named && found.len() == before) {
                return Err(usage(format!("--mechanism {name} at --horizon {horizon}: {error}")));
            }
        }
        if found.is_empty() {
            return Err(usage(format!(
                "--horizon {horizon}: no mechanism supports it; it must be at least 1 and at most 2^62"
            )));
        }
        Ok(found)
    }

    fn row(&self, found: &ComparedMechanism, lower_bound: f64) -> Result<ComparisonRow> {
        let (m, laws) = (&*found.mechanism, &found.laws);
        let name = m.name();
        // An open name may have its own limit under the law to which the limit applies.
        let of_open = found.name.limits().zcdp.filter(|_| laws.contains(&NoiseKind::Gaussian));
        let norms = m.column_norms();
        let (max, mean) = (m.max_row_norm_squared(), m.mean_row_norm_squared());
        let pure = |row: f64| 2.0 * norms.l1 * norms.l1 * row;
        let serves = |law| laws.contains(&law) || as_planned(name, law, Objective::Max, m.horizon()).is_ok();
        let laplace = serves(NoiseKind::Laplace);
        let limit = Duration::from_millis(self.timing);
        let timing = (self.timing > 0).then(|| time_per_step(m, limit)).transpose()?;
        Ok(ComparisonRow {
            horizon: m.horizon(),
            mechanism: name,
            best_for: laws.iter().map(|law| kind(*law)).collect::<Vec<_>>().join(" "),
            zcdp_leading_constant: of_open.or(name.limits().zcdp),
            pure_leading_constant: name.limits().pure,
            zcdp_max: norms.l2_squared * max,
            zcdp_mean: norms.l2_squared * mean,
            zcdp_max_exact: m.exact_l2_squared().map(|exact| exact * max),
            pure_max: laplace.then(|| pure(max)),
            pure_mean: laplace.then(|| pure(mean)),
            above_lower_bound: norms.l2_squared * max / lower_bound,
            ns_per_step: timing.map(|timing| timing.ns_per_step),
            steps_timed: timing.map(|timing| timing.steps),
            time_is_at_least: timing.map(|timing| timing.at_least),
            memory_words: m.cost().memory_words,
            same_error_at_all_steps: max <= mean * (1.0 + 1e-12),
            lazy: m.name().family().abilities.lazy,
        })
    }
}

/// A mechanism to compare.
struct ComparedMechanism {
    /// The requested name, perhaps with open parameters.
    name: MechanismName,
    mechanism: Arc<dyn Mechanism>,
    /// The laws for which its parameters are best.
    laws: Vec<NoiseKind>,
}

fn kind(law: NoiseKind) -> &'static str {
    match law {
        NoiseKind::Laplace => "laplace",
        NoiseKind::Gaussian => "gaussian",
    }
}

fn print(out: &mut impl Write, comparison: &HorizonComparison) -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([
        "mechanism",
        "2ρ limit",
        "ε² limit",
        "2ρ max",
        "2ρ mean",
        "exact",
        "× bound",
        "ε² max",
        "ε² mean",
        "ns/step",
        "words",
        "same",
        "lazy",
    ]);
    let figure = |x: f64| if x < 1e5 { format!("{x:.2}") } else { format!("{x:.2e}") };
    let optional = |x: Option<f64>| x.map_or(String::new(), figure);
    let limit = |constant: Option<f64>| constant.map_or(String::new(), |c| format!("{c:.4}"));
    let yes = |flag: bool| if flag { "yes" } else { "" }.to_string();
    for row in &comparison.mechanisms {
        let least = if row.time_is_at_least == Some(true) { "≥ " } else { "" };
        table.add_row([
            row.mechanism.brief().to_string(),
            limit(row.zcdp_leading_constant),
            limit(row.pure_leading_constant),
            figure(row.zcdp_max),
            figure(row.zcdp_mean),
            optional(row.zcdp_max_exact),
            figure(row.above_lower_bound),
            optional(row.pure_max),
            optional(row.pure_mean),
            row.ns_per_step.map_or(String::new(), |ns| format!("{least}{ns:.0}")),
            row.memory_words.to_string(),
            yes(row.same_error_at_all_steps),
            yes(row.lazy),
        ]);
    }
    table.column_iter_mut().skip(1).take(10).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    writeln!(out, "T = {}", comparison.horizon)?;
    writeln!(out, "{table}")?;
    let rows = &comparison.mechanisms;
    let best = rows.iter().min_by(|a, b| a.zcdp_max.total_cmp(&b.zcdp_max)).expect("a comparison has a mechanism");
    writeln!(
        out,
        "no factorization has 2ρ · max below {:.3}; {} is {:.1} % above it (its standard error {:.1} %)\n",
        comparison.lower_bound,
        best.mechanism.brief(),
        100.0 * (best.above_lower_bound - 1.0),
        100.0 * (best.above_lower_bound.sqrt() - 1.0)
    )?;
    Ok(())
}
