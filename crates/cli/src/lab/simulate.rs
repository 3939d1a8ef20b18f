//! `evertally lab simulate`: draws the noise of a mechanism many times.

use super::npy::{MatrixWriter, Order};
use crate::failure::usage;
use crate::kebab::kebab;
use crate::stream::{BudgetFlags, UnitFlags, WorkloadFlags};
use anyhow::{Context, Result};
use clap::Args;
use evertally::mechanism::{MAX_HORIZON, MechanismName};
use evertally::noise::{GuardedKey, TestSeed};
use evertally::number::Grid;
use evertally::plan::{NoiseKind, Plan, PlanRequest};
use evertally::privacy::Values;
use evertally::stream::{LazyPlan, LazySampling, LazyVector, RunningSum};
use evertally_declare::declaration::SlotRequest;
use evertally_tables::output::RunOutputs;
use indicatif::ProgressBar;
use serde_json::json;
use std::path::PathBuf;

/// Largest matrix: half a terabyte.
const MAX_ENTRIES: u128 = 1 << 36;

/// Flags of `evertally lab simulate`.
#[derive(Args, Debug)]
pub(crate) struct SimulateArgs {
    /// The mechanism [default: the choice of `plan`]
    #[arg(long, value_name = "NAME")]
    mechanism: Option<MechanismName>,
    /// Number of steps.
    #[arg(long, value_name = "T")]
    horizon: u64,
    /// Unbounded horizon; draw the steps up to `--horizon`.
    #[arg(long)]
    unbounded: bool,
    #[command(flatten)]
    budget: BudgetFlags,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    unit: UnitFlags,
    /// The noise law [default: the better law; with --mechanism, laplace for ε alone, otherwise gaussian]
    #[arg(long, value_parser = kebab::<NoiseKind>, value_name = "laplace|gaussian")]
    noise: Option<NoiseKind>,
    /// Number of independent releases: rows of the matrix.
    #[arg(long, value_name = "N")]
    paths: u64,
    /// Only these steps, in rising order, separated by commas [default: all]. With --lazy, a step may be repeated.
    #[arg(long, value_name = "T1,T2,…", value_delimiter = ',')]
    at: Vec<u64>,
    /// Draw lazily, as a vector of N running sums that is read only at the steps of --at; memory and time depend
    /// neither on the horizon nor on the gaps.
    #[arg(long, requires = "at")]
    lazy: bool,
    /// How lazy noise is drawn: by bridges in floating point, by bridges in integers, or from keyed variables.
    #[arg(long, requires = "lazy", value_name = "float|integer|keyed", default_value = "float")]
    sampling: LazySampling,
    /// Seed of the test keys. Noise from a seed is for tests and gives no privacy.
    #[arg(long, value_name = "S")]
    test_seed: u64,
    /// The grid of values and noise: 1 for counts, a fine grid for real-valued sums.
    #[arg(long, value_name = "G", default_value = "0.000001")]
    grid: Grid,
    /// Output file for the matrix, as a NumPy file of doubles with one row per path and one column per step.
    #[arg(long, value_name = "FILE.npy")]
    out: PathBuf,
    /// Describe the plan and the matrix as JSON on standard output.
    #[arg(long)]
    json: bool,
}

impl SimulateArgs {
    /// Writes the matrix of releases of an all-zero stream.
    pub(super) fn run(mut self) -> Result<()> {
        let asked = self.workload.over(&self.unit, self.horizon)?;
        self.horizon = asked.horizon;
        if asked.per_row > 1 && self.at.is_empty() {
            self.at = (1..=asked.horizon / asked.per_row).map(|row| row * asked.per_row).collect();
        }
        let plan = self.plan(&asked)?;
        let (steps, readings) = (self.columns()?, plan.readings());
        if self.lazy && readings.len() > 1 {
            return Err(usage("--lazy is for one workload"));
        }
        let entries = u128::from(self.paths) * u128::from(steps) * readings.len() as u128;
        if self.paths == 0 || entries > MAX_ENTRIES {
            return Err(usage(format!(
                "--paths must be at least 1, and the matrix at most {MAX_ENTRIES} numbers, not {} × {steps}",
                self.paths
            )));
        }
        let columns = steps * readings.len() as u64; // fits: there are fewer entries
        let mut publication = RunOutputs::new(&[], true);
        let mut file = publication.add(&self.out)?;
        let shape = [self.paths, columns];
        // Lazy reads pass through time once, for all paths: column by column.
        let order = if self.lazy { Order::Columns } else { Order::Rows };
        let mut writer = MatrixWriter::new(&mut file, shape, order).context("cannot write the matrix")?;
        let write = |value: f64| writer.push(value).context("cannot write the matrix");
        if self.lazy {
            self.lazily(&plan, write)?;
        } else {
            self.step_by_step(&readings, steps, write)?;
        }
        writer.finish();
        file.finish()?;
        publication.commit()?;
        self.describe(&plan, columns)
    }

    fn key(&self) -> GuardedKey {
        GuardedKey::insecure_from_test_seed(TestSeed(self.test_seed))
    }

    /// Row by row; within a row, one workload after the other, all read from the same noise.
    fn step_by_step(&self, readings: &[Plan], steps: u64, mut write: impl FnMut(f64) -> Result<()>) -> Result<()> {
        let key = self.key();
        let bar = ProgressBar::new(self.paths); // shown on a terminal only
        for path in 0..self.paths {
            for plan in readings {
                let mut stream = RunningSum::new(plan.clone(), &key, format!("path {path}").parse()?)?;
                for column in 0..steps as usize {
                    let step = self.at.get(column).copied().unwrap_or(column as u64 + 1);
                    write(stream.tick_through(step)?.value())?;
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// Column by column: the paths are the running sums of one vector.
    fn lazily(&self, plan: &Plan, mut write: impl FnMut(f64) -> Result<()>) -> Result<()> {
        let plan = LazyPlan::new(plan.clone(), self.paths, self.sampling)?;
        let mut vector = LazyVector::new(plan, &self.key(), "paths".parse()?)?;
        let bar = ProgressBar::new(self.at.len() as u64);
        for step in &self.at {
            if vector.step() < *step {
                vector.tick_through(*step)?;
            }
            for path in 0..self.paths {
                write(vector.read(path)?.value())?;
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// One event changes one step by at most 1 on any grid: its value lies between 0 and 1.
    fn plan(&self, asked: &SlotRequest) -> Result<Plan> {
        let horizon = if self.unbounded { MAX_HORIZON } else { asked.horizon };
        let mut request = PlanRequest::count(horizon, self.budget.budget()?);
        let fallback = if self.budget.is_pure() { NoiseKind::Laplace } else { NoiseKind::Gaussian };
        // Without a named law or mechanism: the better of both laws, as in a plan.
        let noise = self.noise.or(self.mechanism.map(|_| fallback));
        request = request.with_optional_noise(noise).with_optional_mechanism(self.mechanism);
        request = request.with_unit(asked.unit).with_neighbours(self.unit.neighbours());
        request = asked.read.of(request.with_grid(self.grid))?;
        let unit = 10u64.pow(u32::from(self.grid.scale()));
        if !unit.is_multiple_of(self.grid.coefficient()) || unit > 1 << 62 {
            return Err(usage(format!("--grid {} does not divide 1", self.grid)));
        }
        request = request.with_values(Values::Sum { lower: 0, upper: (unit / self.grid.coefficient()) as i64 });
        if self.lazy && self.mechanism.is_none() {
            let candidates = request.candidates()?;
            let lazy = candidates.into_iter().find(|c| c.mechanism.name().family().abilities.lazy);
            let lazy = lazy.ok_or_else(|| usage("--lazy: no mechanism for this horizon can be drawn lazily"))?;
            request = request.with_mechanism(lazy.mechanism.name()).with_noise(lazy.kind);
        }
        let display = crate::searched::SearchDisplay::new(false)?;
        Ok(crate::searched::with_searched(display.watching(request))?.plan()?)
    }

    /// Number of columns; `--at` must be in order.
    fn columns(&self) -> Result<u64> {
        let rising = self.at.windows(2).all(|pair| pair[0] < pair[1] || (self.lazy && pair[0] == pair[1]));
        match (self.at.first(), self.at.last()) {
            (Some(_), _) if !rising => Err(usage("--at needs steps in rising order")),
            (Some(&first), Some(&last)) if first == 0 || last > self.horizon => {
                let step = if first == 0 { 0 } else { last };
                Err(usage(format!("--at: there is no step {step}; they are numbered 1 to {}", self.horizon)))
            }
            (None, _) => Ok(self.horizon),
            _ => Ok(self.at.len() as u64),
        }
    }

    fn describe(&self, plan: &Plan, columns: u64) -> Result<()> {
        let name = plan.mechanism().name();
        // The law that is actually drawn; for a stream it is the plan's noise.
        let last = self.at.last().copied().unwrap_or(self.horizon);
        let lazy = if self.lazy { Some(LazyPlan::new(plan.clone(), self.paths, self.sampling)?) } else { None };
        let law = lazy.as_ref().map_or_else(|| plan.noise_kind().to_string(), |lazy| lazy.law_name().to_owned());
        let error_at = |step: u64| lazy.as_ref().map_or_else(|| plan.std_error(step), |lazy| lazy.std_error(step));
        let std_error = error_at(last);
        let drawn = (0..columns as usize).map(|column| self.at.get(column).copied().unwrap_or(column as u64 + 1));
        let max_std_error = drawn.map(error_at).fold(0.0, f64::max);
        if self.json {
            let description = json!({
                "mechanism": name,
                "workloads": plan.readings().iter().map(|read| read.request().workload()).collect::<Vec<_>>(),
                "noise": plan.noise_kind(),
                "noise_variance": plan.node_variance(),
                "law": law,
                "std_error": std_error,
                "std_error_of_step": last,
                "max_std_error": max_std_error,
                "sampling": self.lazy.then_some(self.sampling),
                "paths": self.paths,
                "steps": columns,
                "out": self.out,
            });
            println!("{description}");
        } else {
            let lazily = if self.lazy { format!(", drawn lazily ({})", self.sampling) } else { String::new() };
            eprintln!(
                "wrote {} × {columns} releases of {} with {law} noise{lazily} to {}; standard error at step {last}: \
                 {std_error:.4}",
                self.paths,
                name.brief(),
                self.out.display()
            );
        }
        Ok(())
    }
}
