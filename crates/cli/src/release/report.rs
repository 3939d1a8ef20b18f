//! The privacy report: what was promised, to whom, and what a reader may conclude.

use super::setup::Setup;
use crate::commands::brief;
use anyhow::Result;
use evertally::budget::{Budget, Delta, Epsilon};
use evertally::noise::SecretKey;
use evertally::plan::{Neighbours, Values};
use serde::Serialize;
use std::fmt::Write;

/// δ for which the report states ε.
const DELTAS: [f64; 4] = [1e-3, 1e-6, 1e-9, 1e-12];

/// The facts of a release that may be published with it: all of them follow from the plan, none from the data.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    version: u32,
    title: String,
    stream: String,
    quantity: String,
    horizon: HorizonFacts,
    groups: Option<GroupFacts>,
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

#[derive(Debug, Serialize)]
struct GroupFacts {
    columns: Vec<String>,
    declared: usize,
    rest: Option<String>,
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

#[derive(Debug, Serialize)]
struct ErrorFacts {
    max_std_error: f64,
    mean_std_error: f64,
    confidence: f64,
    last_step_half_width: f64,
}

impl Report {
    pub(super) fn new(setup: &Setup, key: &SecretKey) -> Self {
        let (plan, calendar) = (&setup.plan, &setup.calendar);
        let request = plan.request();
        let (lower, upper) = request.values.bounds();
        let bound = |multiple: i64| match request.values {
            Values::Count => "1".to_owned(),
            Values::Sum { .. } => request.grid.format(multiple.into()),
        };
        let spread = request.unit.spread().expect("the plan has checked it");
        let norms = plan.mechanism().column_norms();
        let exact = plan.mechanism().exact_l2_squared().filter(|_| plan.exact_accounting());
        Self {
            version: 1,
            title: setup.title.clone(),
            stream: setup.stream.to_string(),
            quantity: setup.quantity(),
            horizon: HorizonFacts {
                start: calendar.format(calendar.start()),
                end: calendar.format(calendar.end()),
                every: calendar.every().to_string(),
                time_zone: calendar.zone().to_string(),
                steps: calendar.steps(),
                released_steps: setup.last_step,
            },
            groups: setup.groups.as_ref().map(|table| GroupFacts {
                columns: table.columns().to_vec(),
                declared: table.tuples().len() - usize::from(table.rest_name().is_some()),
                rest: table.rest_name().map(str::to_owned),
            }),
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
            error: ErrorFacts {
                max_std_error: plan.max_std_error(),
                mean_std_error: plan.mean_std_error(),
                confidence: setup.confidence,
                last_step_half_width: last_half_width(setup),
            },
            key_id: key.id().to_string(),
            plan_digest: blake3::Hash::from_bytes(plan.digest()).to_hex().to_string(),
        }
    }

    /// Budget, unit and mechanism in one line.
    pub(super) fn headline(&self) -> String {
        format!("{} for {} · {} · {}", self.budget, self.unit.unit, brief(&self.mechanism), self.noise.law)
    }

    /// The guarantee in one sentence.
    pub(super) fn promise(&self) -> String {
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
    pub(super) fn markdown(&self) -> String {
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
        writeln!(
            out,
            "| standard error | at most {}, {} in root mean square |",
            short(self.error.max_std_error),
            short(self.error.mean_std_error)
        )?;
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
        writeln!(
            out,
            "## What you may conclude\n\n\
             - Each single interval contains the true running value of the kept data with {confidence} % confidence; over \
             many steps some will miss. Errors of nearby steps are correlated.\n\
             - Whatever is computed from the released table alone is covered by the same guarantee.\n\
             - The numbers in this report follow from the plan and say nothing about the data.\n\n\
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

fn guarantee(setup: &Setup) -> GuaranteeFacts {
    let guarantee = setup.plan.guarantee();
    let at =
        |delta: f64| EpsilonAtDelta { delta, epsilon: guarantee.epsilon_at(Delta::new(delta).expect("a constant")) };
    GuaranteeFacts {
        pure_epsilon: guarantee.pure_epsilon.map(Epsilon::get),
        rho: guarantee.rho.get(),
        epsilon_at_delta: DELTAS.map(at).into(),
    }
}

fn last_half_width(setup: &Setup) -> f64 {
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
pub(super) fn print_plan(setup: &Setup) -> Result<()> {
    let mut out = std::io::stdout().lock();
    use std::io::Write;
    write!(out, "{}", toml::to_string_pretty(&setup.plan)?)?;
    let plan = &setup.plan;
    writeln!(
        out,
        "\n# standard error: at most {}, {} in root mean square",
        short(plan.max_std_error()),
        short(plan.mean_std_error())
    )?;
    writeln!(out, "# interval at the last step: ± {} at {} %", last_half_width(setup), setup.confidence * 100.0)?;
    Ok(())
}

/// Says on standard error what was done.
pub(super) fn print_summary(setup: &Setup, streams: usize) {
    let plan = &setup.plan;
    let groups = setup.groups.as_ref().map_or(String::new(), |table| format!(" × {} groups", table.tuples().len()));
    eprintln!(
        "released {} of {} steps{groups} with {} and {} noise",
        setup.last_step,
        setup.calendar.steps(),
        brief(&plan.mechanism().name()),
        plan.noise_kind()
    );
    eprintln!(
        "guarantee: {} for {}; standard error at most {}",
        plan.request().budget,
        setup.unit(),
        short(plan.max_std_error())
    );
    if setup.out.as_os_str() != "-" {
        let mut endings = vec!["report.md", "report.json", "plan.toml"];
        if setup.plot {
            endings.extend(["svg", "png"]);
        }
        eprintln!("wrote {} and beside it .{}", setup.out.display(), endings.join(", ."));
        if setup.plot && setup.show_truth {
            eprintln!(
                "WARNING: {} and .png show exact counts and are not private",
                setup.beside("NOT-PRIVATE.svg").display()
            );
        }
    }
    if streams > 1 {
        eprintln!("{streams} streams have been published with this key; over the same data their budgets add up");
    }
    let end = setup.calendar.end_of(setup.last_step);
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
