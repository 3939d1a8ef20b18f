//! `evertally plan`: ranks every mechanism under a budget by exact error.

use super::together::SeveralWorkloads;
use super::unbounded;
use crate::failure::usage;
use crate::kebab::kebab;
use crate::searched::{self, SearchDisplay};
use crate::stream::{BudgetFlags, UnitFlags, WorkloadFlags, interruptible};
use anyhow::Result;
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use evertally::mechanism::{MAX_HORIZON, Workload};
use evertally::number::Grid;
use evertally::plan::ranking::{Ranking, WindowRow};
use evertally::plan::{Candidate, GroupAim, NoiseKind, Objective, PlanRequest};
use evertally::privacy::{Delta, Epsilon, Values};
use evertally_declare::declaration::SlotRequest;
use evertally_declare::error::refuse_if;
use evertally_declare::problem::Wording;
use evertally_declare::settings::Assertion;
use evertally_declare::stream::unit_in_words;
use evertally_declare::words::{rounded_down, rounded_up};
use evertally_publish::bounds::fall_behind;
use evertally_publish::report::{CORRELATION_GAINS_NOTHING, CorrelationFacts, EpsilonAtDelta};
use serde::Serialize;
use std::fmt;
use std::io::Write;

/// Flags of `evertally plan`.
#[derive(Args, Debug)]
pub(super) struct PlanArgs {
    /// Number of steps.
    #[arg(long, value_name = "T", required_unless_present = "unbounded")]
    horizon: Option<u64>,
    /// Unbounded horizon: only mechanisms that are good at every step, with their errors at some steps.
    #[arg(long, conflicts_with = "horizon")]
    unbounded: bool,
    #[command(flatten)]
    budget: BudgetFlags,
    #[command(flatten)]
    workload: WorkloadFlags,
    #[command(flatten)]
    unit: UnitFlags,
    /// Minimise the maximum or the mean error over the steps.
    #[arg(long, value_parser = kebab::<Objective>, value_name = "max|mean", default_value = "max")]
    objective: Objective,
    /// Largest change of one step by one event, in units of the data.
    #[arg(long, value_name = "S", default_value = "1")]
    sensitivity: Grid,
    /// Number of declared groups whose noise is correlated, see --correlate-groups.
    #[arg(long, value_name = "N", requires = "correlate_groups")]
    group_count: Option<u64>,
    /// Correlate the noise of the groups if that lowers the error of each group, or of groups and their total. Helps if
    /// a person is in several groups of one step (--max-groups).
    #[arg(long, value_parser = kebab::<GroupAim>, value_name = "groups|both|total", requires = "group_count")]
    correlate_groups: Option<GroupAim>,
    /// Only this noise law.
    #[arg(long, value_parser = kebab::<NoiseKind>, value_name = "laplace|gaussian")]
    noise: Option<NoiseKind>,
    /// Only mechanisms whose noise can be drawn lazily, when it is read: those that compute any single step from the
    /// key, and BLTs.
    #[arg(long)]
    lazy: bool,
    /// Also consider `dense-pure`; its first search takes minutes at 512 steps, its longest horizon.
    #[arg(long)]
    search: bool,
    /// Also print the guarantee of the first T steps alone, for a stream that stops early.
    #[arg(long, value_name = "T")]
    through: Option<u64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A ranking and the unit that it is for, as JSON.
#[derive(Serialize)]
struct PlanAnswer<'a> {
    #[serde(flatten)]
    ranking: &'a Ranking,
    /// The privacy unit in words, if one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    protected: Option<String>,
    /// The assumption about the bounds in words, if they are asserted.
    #[serde(skip_serializing_if = "Option::is_none")]
    asserted: Option<String>,
    /// The guarantee of the first steps alone, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    spent: Option<FirstSteps>,
    /// How the noise of groups is correlated, if that was asked for; null if it would not lower the errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation: Option<Option<CorrelationFacts>>,
}

/// The δ of an (ε, δ) of the first steps.
const SPENT_DELTAS: [f64; 2] = [1e-6, 1e-9];

/// The guarantee of the first steps alone.
#[derive(Serialize)]
struct FirstSteps {
    through: u64,
    pure_epsilon: Option<f64>,
    rho: f64,
    epsilon_at_delta: [EpsilonAtDelta; 2],
}

impl fmt::Display for FirstSteps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spent through step {}: ", self.through)?;
        if let Some(epsilon) = self.pure_epsilon {
            write!(f, "ε = {}, ", rounded_up(epsilon, 4))?;
        }
        let [first, second] = &self.epsilon_at_delta;
        let at = |at: &EpsilonAtDelta| format!("ε = {} at δ = {:e}", rounded_up(at.epsilon, 4), at.delta);
        write!(f, "ρ = {}, {}, {}", rounded_up(self.rho, 6), at(first), at(second))
    }
}

impl PlanArgs {
    /// Prints the ranking.
    pub(super) fn run(self) -> Result<()> {
        let display = SearchDisplay::new(false)?;
        let request = self.request(&display)?;
        if request.mix().is_some() {
            return self.together(request, display);
        }
        let mut candidates = request.candidates()?;
        candidates.retain(|c| !self.lazy || c.mechanism.name().family().abilities.lazy);
        let Some(answer) = Ranking::new(&request, &candidates)? else {
            return Err(usage("--lazy: no mechanism for this horizon can be drawn lazily"));
        };
        let (spent, correlation) = (self.spent(&request, &candidates)?, self.correlation(&candidates));
        let published = self.workload.row().map(|row| self.published_in_words(&request, row)).transpose()?;
        end_of_search(display)?;
        let mut out = std::io::stdout().lock();
        if self.json {
            let (protected, asserted) = (self.protected(&request)?, self.asserted());
            let answer = PlanAnswer { ranking: &answer, protected, asserted, spent, correlation };
            serde_json::to_writer_pretty(&mut out, &answer).map_err(std::io::Error::from)?;
            writeln!(out)?;
        } else {
            if answer.is_unbounded() {
                unbounded::print(&mut out, &answer)?;
            } else {
                print_table(&mut out, &answer, self.workload.row())?;
            }
            if let Some(published) = published {
                writeln!(out, "{published}")?;
            }
            match correlation {
                Some(Some(facts)) => writeln!(out, "noise of groups: {}", facts.in_words())?,
                Some(None) => writeln!(out, "note: {CORRELATION_GAINS_NOTHING}")?,
                None => (),
            }
            self.write_protected(&mut out, &request)?;
            if let Some(spent) = spent {
                writeln!(out, "{spent}")?;
            }
        }
        Ok(())
    }

    /// Prints the plan for several workloads.
    fn together(&self, request: PlanRequest, display: SearchDisplay) -> Result<()> {
        if self.lazy {
            return Err(usage("--lazy is for one workload"));
        }
        if self.through.is_some() {
            return Err(usage("--through is for one workload"));
        }
        if self.correlate_groups.is_some() {
            return Err(usage("--correlate-groups is for one workload"));
        }
        let answer = SeveralWorkloads::new(request.clone())?;
        end_of_search(display)?;
        let mut out = std::io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, &answer).map_err(std::io::Error::from)?;
            writeln!(out)?;
            return Ok(());
        }
        answer.print(&mut out)?;
        if let Some(protected) = self.protected(&request)? {
            writeln!(out, "protected: {protected}")?;
        }
        if let Some(assumption) = self.asserted() {
            writeln!(out, "note: {assumption}")?;
        }
        Ok(())
    }

    /// The privacy unit in words, if one was given.
    fn protected(&self, request: &PlanRequest) -> Result<Option<String>> {
        if !self.unit.is_given() {
            return Ok(None);
        }
        let request = request.clone().with_unit(self.unit.unit()?);
        let meaning = self.unit.assertion().iter().flat_map(Assertion::meaning).collect();
        Ok(Some(unit_in_words(&request.with_meanings(meaning), "person", None)))
    }

    /// The assumption about the bounds in words, if they are asserted.
    fn asserted(&self) -> Option<String> {
        self.unit.assertion().map(|assertion| assertion.in_words())
    }

    /// How the noise of groups is correlated in the plan that the ranking chooses, if that was asked for.
    fn correlation(&self, candidates: &[Candidate]) -> Option<Option<CorrelationFacts>> {
        let common = candidates.first().and_then(|best| best.common);
        self.correlate_groups.map(|_| common.map(|(correlation, _)| correlation.into()))
    }

    /// The guarantee of the first steps under the plan that the ranking chooses.
    fn spent(&self, request: &PlanRequest, candidates: &[Candidate]) -> Result<Option<FirstSteps>> {
        let (Some(through), Some(best)) = (self.through, candidates.first()) else { return Ok(None) };
        let chosen = request.clone().with_mechanism(best.mechanism.name()).with_noise(best.kind).plan()?;
        let guarantee = chosen.spent(through)?;
        let epsilon_at_delta = SPENT_DELTAS.map(|delta| {
            let at = guarantee.epsilon_at(Delta::new(delta).expect("a constant"));
            EpsilonAtDelta { delta, epsilon: at }
        });
        Ok(Some(FirstSteps {
            through,
            pure_epsilon: guarantee.pure_epsilon.map(Epsilon::get),
            rho: guarantee.rho.get(),
            epsilon_at_delta,
        }))
    }

    fn write_protected(&self, out: &mut impl Write, request: &PlanRequest) -> Result<()> {
        if let Some(protected) = self.protected(request)? {
            writeln!(out, "protected: {protected}")?;
        }
        match self.asserted() {
            Some(assumption) => writeln!(out, "note: {assumption}")?,
            // Bounds that nothing enforces drop no events.
            None => {
                if let Some(says) = fall_behind(request, Some("STEPS")) {
                    writeln!(out, "note: {}", says.worded(Wording::Flags))?;
                }
            }
        }
        Ok(())
    }

    /// Explains the steps of the plan if only some are published. If each publication is two steps of the plan, also
    /// gives the error of a window of whole publications.
    fn published_in_words(&self, request: &PlanRequest, row: u64) -> Result<String> {
        let per_row = self.workload.over(&self.unit, self.horizon.unwrap_or(MAX_HORIZON))?.per_row;
        Ok(match (per_row, request.workload()) {
            (1, _) => format!("published: the end of every {row} steps; T and all above count publications"),
            (2, Workload::Window(halves)) if halves > 1 => {
                let rows = halves.div_ceil(2);
                let of_rows = request.clone().with_horizon(request.horizon() / 2).with_workload(Workload::Window(rows));
                let of_rows = of_rows.plan()?.max_std_error();
                format!(
                    "published: the end of every {row} steps; the window is not a whole number of publications, so \
                     each is planned as two steps; window({}) would have a standard error of {of_rows:.4}",
                    rows * row
                )
            }
            (2, _) => {
                format!("published every {row} steps; each is planned as two: the part inside the window, and the rest")
            }
            _ => format!("published: the end of every {row} steps; the mechanism runs through all steps"),
        })
    }

    /// One event is a value between 0 and the sensitivity; for a count the sensitivity is one grid step.
    fn request(&self, display: &SearchDisplay) -> Result<PlanRequest> {
        let SlotRequest { horizon, unit, read, .. } =
            self.workload.over(&self.unit, self.horizon.unwrap_or(MAX_HORIZON))?;
        let mut request = display.watching(PlanRequest::count(horizon, self.budget.budget()?));
        request = request.with_unit(unit).with_neighbours(self.unit.neighbours());
        request = read.of(request.with_objective(self.objective))?;
        request = request.with_optional_noise(self.noise);
        if let (Some(groups), Some(aim)) = (self.group_count, self.correlate_groups) {
            request = request.with_groups(groups, aim);
        }
        if self.sensitivity != Grid::ONE {
            request = request.with_grid(self.sensitivity);
            request = request.with_values(Values::Sum { lower: 0, upper: 1 });
        }
        if self.search {
            self.horizon.ok_or_else(|| usage("--search needs a horizon, but --unbounded has none"))?;
            let longest = searched::longest_search();
            if horizon > longest {
                return Err(usage(format!("--search supports at most {longest} steps, not {horizon}")));
            }
            request = searched::with_all_searched(request)?;
        }
        Ok(request)
    }
}

/// Ends the display of progress before the first line of output.
///
/// # Errors
/// After Ctrl-C.
fn end_of_search(display: SearchDisplay) -> Result<()> {
    drop(display);
    Ok(refuse_if(&*interruptible()?)?)
}

fn print_table(out: &mut impl Write, answer: &Ranking, row: Option<u64>) -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["mechanism", "noise", "max error", "mean error", "× bound", "work/step", "words", "lazy"]);
    for row in &answer.ranking {
        table.add_row([
            row.mechanism.brief().to_string(),
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
        "{}{}: {} with {} noise{}; standard error at most {}",
        if answer.horizon == MAX_HORIZON { "no end".to_owned() } else { format!("T = {}", answer.horizon) },
        if answer.workload.is_sum() { String::new() } else { format!(", {}", answer.workload) },
        chosen.mechanism,
        chosen.noise.law,
        // If single variables are larger than their contribution to a release, they are on a finer grid, and their
        // scale is not meaningful.
        if chosen.noise.scale <= chosen.max_std {
            format!(" of scale {:.6}", chosen.noise.scale)
        } else {
            String::new()
        },
        rounded_up(chosen.max_std, 4)
    )?;
    if let Some(bound) = answer.optimum_max_std.or(answer.lower_bound_max_std) {
        let bound = rounded_down(bound, 4);
        let pure = chosen.guarantee.delta == Some(0.0);
        let which = if pure { "unbiased mechanism" } else { "mechanism with Gaussian noise" };
        writeln!(out, "no {which} has a maximum standard error below {bound}")?;
    }
    if let Some(window) =
        answer.windows.iter().max_by(|a, b| gain(a).total_cmp(&gain(b))).filter(|row| gain(row) > 1.05)
    {
        let width = window.width * row.unwrap_or(1);
        writeln!(
            out,
            "note: the last {} steps, computed as the difference of two of these running sums, have a standard error \
             of {:.4}; a plan for them, --workload 'window({})', has {:.4}",
            width, window.std_from_sums, width, window.max_std
        )?;
    }
    if let Some(delta) = answer.crossover_delta {
        writeln!(out, "at this ε and horizon Laplace noise is better for δ below {delta:.2e}, Gaussian noise above")?;
    }
    Ok(())
}

/// The factor by which a window's own plan is better.
fn gain(window: &WindowRow) -> f64 {
    window.std_from_sums / window.max_std
}
