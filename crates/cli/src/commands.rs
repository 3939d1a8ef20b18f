//! The commands of a publisher and of an operator; `lab` has those for research.

mod about;
mod bounds;
mod budget;
mod check;
mod deployment_record;
mod feed;
mod interval;
mod key;
mod plan;
mod release;
mod restore;
mod serve;
mod sketch;
mod together;
mod token;
mod unbounded;

use crate::lab::Lab;
use crate::stream::{ReleaseFlags, SketchFlags};
use anyhow::Result;
use clap::{Parser, Subcommand};
use std::io::Write;

/// Differentially private continual release: running counts and sums of a sensitive event stream, published step by
/// step under one guarantee for the whole history.
#[derive(Parser, Debug)]
#[command(name = "evertally", max_term_width = 110, mut_subcommands(hide_short_form))]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub struct CommandLine {
    /// Print the version.
    #[arg(short = 'V', long)]
    version: bool,
    /// With `--version`: also commit, target, compiler and instruction set.
    #[arg(short, long, requires = "version")]
    verbose: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The commands in the order of use: prepare, publish, serve, research.
#[derive(Subcommand, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of it in a run")]
enum Command {
    /// Rank every mechanism under a budget by its exact error, next to the proven lower bound.
    Plan(plan::PlanArgs),
    /// Create and inspect secret keys.
    Key(key::KeyArgs),
    /// Declare the total budget of a data source, and show how much is spent, reserved and left.
    Budget(budget::BudgetArgs),
    /// Choose privately how many events to keep per person, under a small budget.
    Bounds(Box<bounds::BoundsArgs>),
    /// Look at event files before they are published: columns, times, order, refused rows.
    ///
    /// NOT PRIVATE: its output is for you only.
    Check(Box<check::CheckArgs>),
    /// Publish running counts or sums of event files: a table, a picture and a privacy report.
    Release(Box<ReleaseFlags>),
    /// Count very many items, then publish the counts of a few of them or the heaviest.
    Sketch(Box<SketchFlags>),
    /// Query a time range of a released history: totals, ratios, shares, with intervals.
    Interval(interval::IntervalArgs),
    /// Export a report as an entry of the public registry of differential privacy deployments.
    DeploymentRecord(Box<deployment_record::DeploymentRecordArgs>),
    /// Run a service: events in over HTTP, releases out on schedule, with a page to watch.
    Serve(serve::ServeArgs),
    /// Write the database of a service as it was at a time, from its standby folder.
    Restore(restore::RestoreArgs),
    /// Manage the tokens for writing to a service, reading from it and operating it.
    Token(token::TokenArgs),
    /// Follow files, brokers, databases or object stores, and send each new row to a service once.
    Feed(feed::FeedArgs),
    /// Print a script that completes the words of this program in a shell.
    Completions(about::CompletionsArgs),
    /// Write manual pages into a folder.
    #[command(hide = true)]
    Man(about::ManArgs),
    /// Compare mechanisms, draw their noise and audit their promises, for research.
    #[command(subcommand)]
    Lab(Lab),
    /// The short forms without `lab`.
    #[command(flatten)]
    Short(Lab),
}

/// Hides the commands of `lab` from the help of the program itself.
fn hide_short_form(command: clap::Command) -> clap::Command {
    let is_hidden = command.is_hide_set() || Lab::has_subcommand(command.get_name());
    command.hide(is_hidden)
}

impl CommandLine {
    /// Runs the chosen subcommand, or prints the version.
    pub fn run(self) -> Result<()> {
        let Some(command) = self.command else {
            return Ok(writeln!(std::io::stdout().lock(), "{}", about::version(self.verbose))?);
        };
        match command {
            Command::Plan(args) => args.run(),
            Command::Key(args) => args.run(),
            Command::Budget(args) => args.run(),
            Command::Bounds(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Release(args) => release::run(*args),
            Command::Sketch(args) => sketch::run(*args),
            Command::Interval(args) => args.run(),
            Command::DeploymentRecord(args) => args.run(),
            Command::Serve(args) => args.run(),
            Command::Restore(args) => args.run(),
            Command::Token(args) => args.run(),
            Command::Feed(args) => args.run(),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
            Command::Lab(lab) | Command::Short(lab) => lab.run(),
        }
    }
}
