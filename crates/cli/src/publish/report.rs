//! The privacy report: what was promised, to whom, and what a reader may conclude.

use super::setup::StreamSetup;
use crate::commands::brief;
use anyhow::Result;
use evertally::budget::{Budget, Delta, Epsilon};
use evertally::noise::SecretKey;
use evertally::plan::{Neighbours, Plan, Values};
use serde::Serialize;
use std::fmt::Write;

/// δ for which the report states ε.
const DELTAS: [f64; 4] = [1e-3, 1e-6, 1e-9, 1e-12];

/// The facts of a release that may be published with it: all of them follow from the plan, none from the data.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: u32,
    title: String,
    stream: String,
    quantity: String,
    horizon: HorizonFacts,
    groups: Option<GroupFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sketch: Option<SketchFacts>,
    unit: UnitFacts,
    budget: Budget,
    mechanism: String,
    noise: NoiseFacts,
    guarantee: GuaranteeFacts,
    error: ErrorFacts,
    key_id: String,
    plan_digest: String,
}

#[derive(Debug, Serialize)]
struct HorizonFacts {
    start: String,
    end: String,
    every: String,
    time_zone: String,
    steps: u64,
    released_steps: u64,
}

/// What is released: declared groups, a sketch, or, with neither, one running sum.
#[derive(Debug, Default)]
pub(crate) struct Extent {
    pub(crate) groups: Option<GroupFacts>,
    pub(crate) sketch: Option<SketchFacts>,
}

/// The declared groups.
#[derive(Debug, Serialize)]
pub(crate) struct GroupFacts {
    pub(crate) columns: Vec<String>,
    pub(crate) declared: usize,
    pub(crate) rest: Option<String>,
}

/// The table of a sketch, and what is asked of it.
#[derive(Debug, Serialize)]
pub(crate) struct SketchFacts {
    pub(crate) kind: String,
    pub(crate) rows: u32,
    pub(crate) width: u64,
    pub(crate) key_columns: Vec<String>,
    pub(crate) hashing: &'static str,
    /// Largest standard error of one cell.
    pub(crate) max_cell_std_error: f64,
    pub(crate) answers: String,
    /// Standard error that items in the same cells add to an answer, estimated from the released cells; null for large tables.
    pub(crate) collision_std_error: Option<f64>,
    /// Errors of answers, in the place of those of cells.
    #[serde(skip)]
    pub(crate) error: ErrorFacts,
}

#[derive(Debug, Serialize)]
struct UnitFacts {
    unit: String,
    neighbours: Neighbours,
    /// Largest number of events of one unit that are kept.
    max_events: u64,
    /// Largest number of them in one step.
    max_events_per_step: u64,
    /// Bounds of one event's value; 1 and 1 for counts.
    lower: String,
    upper: String,
    grid: String,
}

#[derive(Debug, Serialize)]
struct NoiseFacts {
    law: String,
    /// Exact parameter in units of the noise grid: the scale of the Laplace law, the variance of the Gaussian.
    parameter: String,
    /// The noise grid is the data's grid over this number.
    noise_divisor: u64,
    /// Standard deviation of one noise variable, in units of the data.
    std: f64,
    /// Whether the covariance of the releases was counted, and not column norms.
    exact_accounting: bool,
    /// Largest column norms of the factorization: how far one unit of change moves the protected sums. Under exact accounting
    /// `s2` is how far it moves the noise, and `s1` does not matter.
    s1: Option<f64>,
    s2: f64,
}

#[derive(Debug, Serialize)]
struct GuaranteeFacts {
    pure_epsilon: Option<f64>,
    rho: f64,
    epsilon_at_delta: Vec<EpsilonAtDelta>,
}

#[derive(Debug, Serialize)]
struct EpsilonAtDelta {
    delta: f64,
    epsilon: f64,
}

/// What the noise does to the released values.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ErrorFacts {
    pub(crate) max_std_error: f64,
    pub(crate) mean_std_error: f64,
    pub(crate) confidence: f64,
    pub(crate) last_step_half_width: f64,
}

impl Report {
    pub(crate) fn new(setup: &StreamSetup, key: &SecretKey, extent: Extent) -> Self {
        let (plan, calendar) = (&setup.plan, &setup.calendar);
        let request = plan.request();
        let (lower, upper) = setup.values.bounds();
        let bound = |multiple: i64| match setup.values {
            Values::Count => "1".to_owned(),
            Values::Sum { .. } => request.grid.format(multiple.into()),
        };
        let spread = request.unit.spread().expect("the plan has checked it");
        let norms = plan.mechanism().column_norms();
        let exact = plan.mechanism().exact_l2_squared().filter(|_| plan.exact_accounting());
        Self {
            version: 1,
            title: setup.title.clone(),
            stream: setup.name.to_string(),
            quantity: setup.quantity(),
            horizon: HorizonFacts {
                start: calendar.format(calendar.start()),
                end: calendar.format(calendar.end()),
                every: calendar.every().to_string(),
                time_zone: calendar.zone().to_string(),
                steps: calendar.steps(),
                released_steps: setup.last_step,
            },
            error: extent.sketch.as_ref().map_or_else(|| ErrorFacts::of_releases(setup), |sketch| sketch.error.clone()),
            groups: extent.groups,
            sketch: extent.sketch,
            unit: UnitFacts {
                unit: setup.unit(),
                neighbours: request.neighbours,
                max_events: spread.total,
                max_events_per_step: spread.per_step,
                lower: bound(lower),
                upper: bound(upper),
                grid: request.grid.to_string(),
            },
            budget: request.budget,
            mechanism: plan.mechanism().name(),
            noise: NoiseFacts {
                law: plan.noise_kind().to_string(),
                parameter: plan.law().parameter().to_string(),
                noise_divisor: plan.noise_divisor(),
                std: plan.node_variance().sqrt(),
                exact_accounting: plan.exact_accounting(),
                s1: Some(norms.l1).filter(|_| !plan.exact_accounting()),
                s2: exact.unwrap_or(norms.l2_squared).sqrt(),
            },
            guarantee: guarantee(setup),
            key_id: key.id().to_string(),
            plan_digest: blake3::Hash::from_bytes(plan.digest()).to_hex().to_string(),
        }
    }

    /// Budget, unit and mechanism in one line.
    pub(crate) fn headline(&self) -> String {
        format!("{} for {} · {} · {}", self.budget, self.unit.unit, brief(&self.mechanism), self.noise.law)
    }

    /// The guarantee in one sentence.
    pub(crate) fn promise(&self) -> String {
        let at = &self.guarantee.epsilon_at_delta[1];
        let approximate =
            |epsilon: f64, delta: f64| format!("({}, {delta:e})-differentially private", at_most(epsilon));
        let strength = match (self.budget, self.guarantee.pure_epsilon) {
            (Budget::Approximate(stated, delta), pure) if pure.is_none_or(|pure| pure > stated.get()) => {
                approximate(stated.get(), delta.get())
            }
            (_, Some(epsilon)) => format!("{}-differentially private", at_most(epsilon)),
            _ => approximate(at.epsilon, at.delta),
        };
        format!("The whole history shown is {strength} with respect to {}.", self.unit.unit)
    }

    /// The report for people.
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        self.write_markdown(&mut out).expect("a String accepts every write");
        out
    }

    fn write_markdown(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "# Privacy report: {}\n", plain(&self.title))?;
        writeln!(out, "{}\n", self.promise())?;
        self.write_facts(out)?;
        self.write_guarantee(out)?;
        self.write_conclusions(out)
    }

    fn write_facts(&self, out: &mut String) -> std::fmt::Result {
        let h = &self.horizon;
        writeln!(out, "| | |\n|---|---|")?;
        writeln!(out, "| released | {}, {} of {} steps |", self.quantity, h.released_steps, h.steps)?;
        writeln!(out, "| horizon | {} to {}, every {} ({}) |", h.start, h.end, h.every, h.time_zone)?;
        if let Some(groups) = &self.groups {
            let rest =
                groups.rest.as_ref().map_or("undeclared groups refused".into(), |r| format!("all others as `{r}`"));
            writeln!(out, "| groups | {} declared by {}, {rest} |", groups.declared, groups.columns.join(", "))?;
        }
        if let Some(sketch) = &self.sketch {
            writeln!(
                out,
                "| items | by {}, each possible one with a count of its own |",
                plain(&sketch.key_columns.join(", "))
            )?;
            writeln!(
                out,
                "| sketch | {} of {} rows of {} cells, hashed by {} |",
                sketch.kind, sketch.rows, sketch.width, sketch.hashing
            )?;
            writeln!(out, "| answered | {} |", sketch.answers)?;
        }
        writeln!(out, "| privacy unit | {} |", self.unit.unit)?;
        let neighbours = match self.unit.neighbours {
            Neighbours::AddRemove => "the unit's events added or removed",
            Neighbours::ReplaceOne => "the unit's events replaced by as many others, in any step and group",
        };
        writeln!(out, "| neighbouring data | {neighbours} |")?;
        if self.quantity.starts_with("running sum") {
            writeln!(
                out,
                "| one event | between {} and {}, on a grid of {} |",
                self.unit.lower, self.unit.upper, self.unit.grid
            )?;
        }
        writeln!(out, "| budget | {} |", self.budget)?;
        let (l2, by) = (short(self.noise.s2), "by at most");
        let moved = match self.noise.s1 {
            Some(s1) => format!("moves the protected sums {by} {} (L1) or {l2} (L2)", short(s1)),
            None => format!("is hidden by noise that moves {by} {l2} (L2, by the covariance of the releases)"),
        };
        writeln!(out, "| mechanism | {}: one unit of change {moved} |", brief(&self.mechanism))?;
        let n = &self.noise;
        writeln!(out, "| noise | {} of standard deviation {} on every protected sum |", n.law, short(n.std))?;
        match &self.sketch {
            None => writeln!(
                out,
                "| standard error | at most {}, {} in root mean square |",
                short(self.error.max_std_error),
                short(self.error.mean_std_error)
            ),
            Some(sketch) => writeln!(
                out,
                "| standard error by noise | of an answer at most {}, of a cell at most {} |",
                short(self.error.max_std_error),
                short(sketch.max_cell_std_error)
            ),
        }?;
        if let Some(error) = self.sketch.as_ref().and_then(|sketch| sketch.collision_std_error) {
            writeln!(
                out,
                "| standard error by collisions | about {}, computed from the released cells |",
                short(error)
            )?;
        }
        let e = &self.error;
        writeln!(
            out,
            "| interval at the last step | ± {} at {} % confidence |",
            e.last_step_half_width,
            e.confidence * 100.0
        )?;
        writeln!(out, "| stream | {}, key {}, plan {} |\n", plain(&self.stream), self.key_id, &self.plan_digest[..16])
    }

    fn write_guarantee(&self, out: &mut String) -> std::fmt::Result {
        let g = &self.guarantee;
        writeln!(out, "## Guarantee\n\nFor the whole history of releases together, whoever sees all of them:\n")?;
        if let Some(epsilon) = g.pure_epsilon {
            writeln!(out, "- ε-differential privacy with ε = {};", at_most(epsilon))?;
        }
        writeln!(out, "- ρ-zero-concentrated differential privacy with ρ = {};", at_most(g.rho))?;
        let stated = match self.budget {
            Budget::Approximate(epsilon, _) => epsilon.get(),
            _ => f64::INFINITY,
        };
        if g.pure_epsilon.is_none_or(|pure| pure > stated) {
            writeln!(out, "- (ε, δ)-differential privacy with any of\n\n| δ | ε |\n|---|---|")?;
            for row in &g.epsilon_at_delta {
                writeln!(out, "| {:e} | {} |", row.delta, at_most(row.epsilon))?;
            }
        }
        writeln!(
            out,
            "\nIn words: whether {} is in the data or not changes the probability of anything one can see in these releases by \
             a factor of at most e^ε (apart from a probability δ).\n",
            self.unit.unit
        )
    }

    fn write_conclusions(&self, out: &mut String) -> std::fmt::Result {
        let confidence = self.error.confidence * 100.0;
        let unit = &self.unit.unit;
        let weaker = match self.guarantee.pure_epsilon {
            Some(_) => "ε is k times as large",
            None => "ρ is k² times as large",
        };
        let single = unit.split(" (").next().unwrap_or(unit);
        let (interval, but) = match &self.sketch {
            None => (
                format!(
                    "Each single interval contains the true running value of the kept data with {confidence} % confidence; \
                     over many steps some will miss. Errors of nearby steps are correlated."
                ),
                "",
            ),
            Some(sketch) => (
                format!(
                    "Each single interval covers the noise with {confidence} % confidence; over many answers some will miss, \
                     and the largest of many estimates are too large on average. Other items in the same cells add to the \
                     error: in a row about the root of the sum of the squares of all counts, over {} cells.\n\
                     - Items that do not occur are answered like all others; no answer tells for sure that one occurs.",
                    sketch.width
                ),
                "; only the error by collisions is computed, like the answers, from released cells",
            ),
        };
        writeln!(
            out,
            "## What you may conclude\n\n\
             - {interval}\n\
             - Whatever is computed from the released table alone is covered by the same guarantee.\n\
             - The numbers in this report follow from the plan and say nothing about the data{but}.\n\n\
             ## What you may not conclude\n\n\
             - That a released value is exact, or that it cannot be negative or decrease: it carries noise.\n\
             - Anything about {single} in particular: that is what the noise protects.\n\
             - That facts about more than {single} are hidden: for k of them together {weaker}.\n\
             - That other releases from the same data are covered: their budgets add to this one.\n"
        )?;
        if unit.contains("kept") {
            writeln!(
                out,
                "Only the first {} events of each unit are used, so values describe the kept data; how many were left \
                 out is not published, because that would depend on the data.\n",
                self.unit.max_events
            )?;
        }
        writeln!(out, "Made with evertally {}.", env!("CARGO_PKG_VERSION"))
    }
}

impl ErrorFacts {
    /// The errors of releases as they come from the mechanism.
    pub(crate) fn of_releases(setup: &StreamSetup) -> Self {
        let plan = &setup.plan;
        Self {
            max_std_error: plan.max_std_error(),
            mean_std_error: plan.mean_std_error(),
            confidence: setup.confidence,
            last_step_half_width: last_half_width(setup),
        }
    }
}

fn guarantee(setup: &StreamSetup) -> GuaranteeFacts {
    let guarantee = setup.plan.guarantee();
    let at =
        |delta: f64| EpsilonAtDelta { delta, epsilon: guarantee.epsilon_at(Delta::new(delta).expect("a constant")) };
    GuaranteeFacts {
        pure_epsilon: guarantee.pure_epsilon.map(Epsilon::get),
        rho: guarantee.rho.get(),
        epsilon_at_delta: DELTAS.map(at).into(),
    }
}

fn last_half_width(setup: &StreamSetup) -> f64 {
    let mut intervals = setup.plan.intervals(setup.confidence).expect("checked by the setup");
    setup.plan.request().grid.to_f64(intervals.half_width(setup.last_step) as i128)
}

/// Four significant digits, without an exponent where that reads well.
fn short(x: f64) -> String {
    if x == 0.0 || !(1e-3..1e7).contains(&x.abs()) {
        return if x == 0.0 { "0".into() } else { format!("{x:.3e}") };
    }
    let digits = (3 - x.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{x:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A name that cannot break a Markdown table or inject markup.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "|`<>*_[]\\#&".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Four digits or a little more, never below the number: a promise must not look stronger than it is. Numbers that are
/// short already stay as they are.
fn at_most(x: f64) -> String {
    let exact = x.to_string();
    if exact.len() <= 5 {
        return exact;
    }
    let scale = 10f64.powi(3 - x.abs().log10().floor() as i32);
    short((x * scale).ceil() / scale)
}

/// Prints the plan and its error; nothing is read or written.
pub(crate) fn print_plan(plan: &Plan, error: &ErrorFacts) -> Result<()> {
    let mut out = std::io::stdout().lock();
    use std::io::Write;
    write!(out, "{}", toml::to_string_pretty(plan)?)?;
    writeln!(
        out,
        "\n# standard error: at most {}, {} in root mean square",
        short(error.max_std_error),
        short(error.mean_std_error)
    )?;
    writeln!(out, "# interval at the last step: ± {} at {} %", error.last_step_half_width, error.confidence * 100.0)?;
    Ok(())
}

/// Says on standard error what was done: after a first line of `done`, what was promised, written, and to be noted.
pub(crate) fn print_summary(setup: &StreamSetup, done: &str, max_std_error: f64, last_step: u64, streams: usize) {
    let plan = &setup.plan;
    eprintln!("{done} with {} and {} noise", brief(&plan.mechanism().name()), plan.noise_kind());
    eprintln!(
        "guarantee: {} for {}; standard error at most {}",
        plan.request().budget,
        setup.unit(),
        short(max_std_error)
    );
    if setup.out.as_os_str() != "-" {
        eprintln!("wrote {} and beside it .{}", setup.out.display(), setup.endings().join(", ."));
    }
    if streams > 1 {
        eprintln!("{streams} streams have been published with this key; over the same data their budgets add up");
    }
    let end = setup.calendar.end_of(last_step);
    if end.timestamp().is_some_and(|end| end > jiff::Timestamp::now()) {
        eprintln!(
            "note: steps up to {} are published and final, though that is still to come; --through TIME holds them back",
            setup.calendar.format(end)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_are_rounded_up() {
        for (x, text) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (3.92006, "3.921"),
            (5.2211, "5.222"),
            (1e-7, "1e-7"),
            (0.0123451, "0.01235"),
            (12345.678, "12350"),
        ] {
            assert_eq!(at_most(x), text.replace("1e-7", "1.000e-7"), "{x}");
            assert!(at_most(x).parse::<f64>().unwrap() >= x * (1.0 - 1e-15));
        }
        assert_eq!(short(2381.176), "2381");
    }
}
