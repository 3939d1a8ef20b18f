//! `evertally budget`: the budget of a data source, shared by the publications of all keys.

mod picture;
mod show;

use crate::failure::usage;
use anyhow::{Context, Result};
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use evertally::plan::Plan;
use evertally::privacy::{Budget, Delta, Epsilon, Rho};
use evertally_declare::steps::{Period, Zone};
use evertally_ledger::disk::RealDisk;
use evertally_ledger::ledger::Protects;
use evertally_ledger::source::{Approval, Claim, SourceBudget, Total};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Flags of `evertally budget`.
#[derive(Args, Debug)]
pub(super) struct BudgetArgs {
    #[command(subcommand)]
    command: BudgetCommand,
}

#[derive(Subcommand, Debug)]
enum BudgetCommand {
    /// Declare the total that may ever be spent on a data source, under all keys together.
    New(New),
    /// Show how much is spent, reserved and left, and by which streams; needs no key.
    Show {
        /// The budget's file.
        file: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Also draw a picture.
        #[arg(long, value_name = "FILE.svg")]
        plot: Option<PathBuf>,
    },
    /// Check whether a plan would fit, and how much it would leave; changes nothing.
    Check(Planned),
    /// Reserve the cost of a stream; the first key that publishes the stream uses the reservation.
    Reserve {
        #[command(flatten)]
        planned: Planned,
        #[command(flatten)]
        approval: ApprovalFlags,
    },
    /// Cancel the reservation of a stream that has not been published.
    Cancel {
        /// The budget's file.
        file: PathBuf,
        /// The stream.
        #[arg(long, value_name = "NAME")]
        stream: String,
    },
}

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("total").args(["epsilon", "rho"]).required(true)))]
struct New {
    /// The new budget file; an existing file is never replaced.
    file: PathBuf,
    /// Name of the data source.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// The privacy unit; plans for another unit are refused.
    #[arg(long)]
    unit: UnitFlag,
    /// Protect what a person does in one calendar period (day, week, month, quarter or year) instead of everything they
    /// do, as in plans with --per.
    #[arg(long, value_name = "PERIOD")]
    per: Option<Period>,
    /// Time zone of that calendar.
    #[arg(long, value_name = "ZONE", requires = "per", default_value = "UTC")]
    time_zone: Zone,
    /// In neighbouring data, the events of the unit are replaced by others instead of added or removed.
    #[arg(long)]
    replace_one: bool,
    /// ε of the total (with --delta: of (ε, δ)).
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
    /// δ of the total.
    #[arg(long, value_name = "D", requires = "epsilon")]
    delta: Option<f64>,
    /// Use basic composition: add up the ε and the δ of plans separately instead of composing in ρ.
    #[arg(long, requires = "delta")]
    basic: bool,
    /// ρ of the total.
    #[arg(long, value_name = "R")]
    rho: Option<f64>,
    #[command(flatten)]
    approval: ApprovalFlags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum UnitFlag {
    Person,
    Event,
}

#[derive(Args, Debug)]
struct ApprovalFlags {
    /// Who approved it; written into the file.
    #[arg(long, value_name = "NAME")]
    approver: Option<String>,
    /// Reason for the approval; written into the file.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

impl From<ApprovalFlags> for Approval {
    fn from(flags: ApprovalFlags) -> Self {
        Self { approver: flags.approver, note: flags.note }
    }
}

#[derive(Args, Debug)]
struct Planned {
    /// The budget's file.
    file: PathBuf,
    /// The plan, as `evertally release` writes it (.plan.toml).
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// The stream that will be published under it.
    #[arg(long, value_name = "NAME", default_value = "main")]
    stream: String,
}

impl Planned {
    fn claim(&self) -> Result<Claim> {
        let shown = self.plan.display();
        let text =
            std::fs::read_to_string(&self.plan).map_err(|e| usage(format!("cannot read the plan {shown}: {e}")))?;
        let plan: Plan = toml::from_str(&text).with_context(|| format!("{shown} is not a plan"))?;
        Ok(Claim::new(&self.stream, "", &plan))
    }
}

impl BudgetArgs {
    /// Runs the chosen subcommand.
    pub(super) fn run(self) -> Result<()> {
        match self.command {
            BudgetCommand::New(new) => new.run(),
            BudgetCommand::Show { file, json, plot } => show::run(&file, json, plot.as_deref()),
            BudgetCommand::Check(planned) => check(&planned),
            BudgetCommand::Reserve { planned, approval } => {
                let budget = SourceBudget::from_file(&planned.file)?;
                budget.reserve(&planned.claim()?, &approval.into())?;
                print_remaining(&budget, &planned.file)
            }
            BudgetCommand::Cancel { file, stream } => {
                let budget = SourceBudget::from_file(&file)?;
                budget.cancel(&stream)?;
                print_remaining(&budget, &file)
            }
        }
    }
}

impl New {
    fn run(self) -> Result<()> {
        let budget = match (self.epsilon, self.delta, self.rho) {
            (Some(epsilon), Some(delta), _) => Budget::Approximate(Epsilon::new(epsilon)?, Delta::new(delta)?),
            (Some(epsilon), None, _) => Budget::Pure(Epsilon::new(epsilon)?),
            (_, _, Some(rho)) => Budget::Zcdp(Rho::new(rho)?),
            _ => unreachable!("one of them is required"),
        };
        let protects = Protects {
            persons: matches!(self.unit, UnitFlag::Person),
            period: self.period()?,
            replaced: self.replace_one,
        };
        let total = Total { budget, is_basic: self.basic, protects: protects.clone() };
        let made = SourceBudget::create(Arc::new(RealDisk), &self.file, &self.name, total, self.approval.into())?;
        eprintln!(
            "wrote the budget of `{}` to {}: {budget} for one {}",
            self.name,
            made.path().display(),
            protects.brief()
        );
        eprintln!("Give it to every publication from this source: --budget-file {}", self.file.display());
        Ok(())
    }

    /// The period, named as in plans with the same period.
    fn period(&self) -> Result<Option<String>> {
        let Some(period) = self.per else { return Ok(None) };
        if matches!(self.unit, UnitFlag::Event) {
            return Err(usage("--per: an event has no period; give --unit person"));
        }
        if !period.is_of_the_calendar() {
            return Err(usage(format!(
                "--per {period}: plans that begin at different times do not share such a period; give day, week, \
                 month, quarter or year"
            )));
        }
        Ok(Some(period.name_in(self.time_zone.name())))
    }
}

fn check(planned: &Planned) -> Result<()> {
    let budget = SourceBudget::from_file(&planned.file)?;
    let left = budget.check(&planned.claim()?)?;
    println!("it fits: {left} of {} would be left; this reserves nothing", budget.state()?.cap);
    Ok(())
}

fn print_remaining(budget: &SourceBudget, file: &Path) -> Result<()> {
    let state = budget.state()?;
    println!("{}: {} of {} is left", file.display(), state.left, state.cap);
    Ok(())
}
