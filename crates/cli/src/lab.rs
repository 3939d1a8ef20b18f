//! The research commands: `evertally lab NAME`, or `evertally NAME` for short.
//!
//! [`figures`] draws the pictures of `figure`; `compare` shares its survey of mechanisms and its timing.

mod audit;
mod compare;
mod figure;
mod figures;
mod mechanisms;
mod npy;
mod simulate;

use anyhow::Result;
use clap::Subcommand;

/// The research commands, in the order of use.
#[derive(Subcommand, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of it in a run")]
pub(crate) enum Lab {
    /// List mechanisms with their exact sensitivity and error at a horizon.
    Mechanisms(mechanisms::MechanismsArgs),
    /// Compare mechanisms: exact error, distance to the lower bound, measured time, memory.
    Compare(compare::CompareArgs),
    /// Draw a figure that compares mechanisms, as SVG and PNG, with its data as CSV.
    Figure(figure::FigureArgs),
    /// Draw the noise of a mechanism many times, for research and for checking covariances.
    Simulate(Box<simulate::SimulateArgs>),
    /// Try to refute the promise of a mechanism or plan: draw many releases and test them.
    Audit(Box<audit::AuditArgs>),
}

impl Lab {
    /// Runs the chosen command.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Mechanisms(args) => args.run(),
            Self::Compare(args) => args.run(),
            Self::Figure(args) => args.run(),
            Self::Simulate(args) => args.run(),
            Self::Audit(args) => args.run(),
        }
    }
}
