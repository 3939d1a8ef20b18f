//! The subcommands.

mod audit;
mod bounds;
mod budget;
mod compare;
mod feed;
mod figure;
mod interval;
mod key;
mod mechanisms;
mod plan;
mod serve;
mod simulate;
mod together;
mod token;
mod unbounded;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Differentially private continual release: running counts and sums of a sensitive event stream, published step by
/// step under one guarantee for the whole history.
#[derive(Parser, Debug)]
#[command(name = "evertally", version, max_term_width = 110)]
pub struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Release private running counts or sums from event files: a table, a picture and a privacy report.
    Release(Box<crate::stream::ReleaseFlags>),
    /// Count very many items privately, then answer queries for a few of them or find the heaviest.
    Sketch(Box<crate::stream::SketchFlags>),
    /// Choose how many events to keep per person, privately: from an early period of events, under a small budget.
    Bounds(Box<bounds::BoundsArgs>),
    /// Run a long-lived service: events in over HTTP, private releases out on schedule, with a page to watch.
    Serve(serve::ServeArgs),
    /// Send the new rows of a file, a folder or standard input to a service, each row once.
    Feed(feed::FeedArgs),
    /// Manage the tokens that allow writing to a service, reading from it and operating it.
    Token(token::TokenArgs),
    /// Query a time range of a released history: differences, totals, ratios and shares with their intervals.
    Interval(interval::IntervalArgs),
    /// Make and inspect secret keys.
    Key(key::KeyArgs),
    /// Declare the total budget of a data source across all keys, and show how much is spent, reserved and left.
    Budget(budget::BudgetArgs),
    /// Rank every mechanism under a budget by its exact error, next to the proven lower bound.
    Plan(plan::PlanArgs),
    /// List mechanisms with their exact sensitivity and error at a horizon.
    Mechanisms(mechanisms::MechanismsArgs),
    /// Compare mechanisms at given horizons: exact error, distance to the lower bound, measured time, memory.
    Compare(compare::CompareArgs),
    /// Draw a figure that compares mechanisms, as SVG and PNG, with its data as CSV.
    Figure(figure::FigureArgs),
    /// Draw the noise of a mechanism many times, for research and for checking covariances.
    Simulate(Box<simulate::SimulateArgs>),
    /// Try to refute the privacy promise of a mechanism or plan: draw many releases and test them as a black box.
    Audit(Box<audit::AuditArgs>),
}

impl Program {
    /// Runs the chosen subcommand.
    pub fn run(self) -> Result<()> {
        match self.command {
            Command::Release(args) => crate::release::run(*args),
            Command::Sketch(args) => crate::sketch::run(*args),
            Command::Bounds(args) => args.run(),
            Command::Serve(args) => args.run(),
            Command::Feed(args) => args.run(),
            Command::Token(args) => args.run(),
            Command::Interval(args) => args.run(),
            Command::Key(args) => args.run(),
            Command::Budget(args) => args.run(),
            Command::Plan(args) => args.run(),
            Command::Mechanisms(args) => args.run(),
            Command::Compare(args) => args.run(),
            Command::Figure(args) => args.run(),
            Command::Simulate(args) => args.run(),
            Command::Audit(args) => args.run(),
        }
    }
}

/// Parses a kebab-case word through the type's own deserialisation.
pub(crate) fn kebab<T: for<'de> serde::Deserialize<'de>>(text: &str) -> Result<T, String> {
    let word = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text);
    T::deserialize(word).map_err(|e| e.to_string())
}
