//! `evertally restore`: the database of a service as it was at a time.

use anyhow::Result;
use clap::Args;
use evertally_server::program;
use std::path::PathBuf;

/// Flags of `evertally restore`.
#[derive(Args, Debug)]
#[command(after_help = concat!(
    "Example:\n",
    "  evertally restore --from /mnt/standby/evertally --at 2026-01-31T12:00:00Z --to store.redb\n\n",
    "The guide: docs/guide/run/standby.md"
))]
pub(super) struct RestoreArgs {
    /// The standby folder that the service ships to.
    #[arg(long, value_name = "FOLDER")]
    from: PathBuf,
    /// Time with a time zone: later changes are omitted. By default none are.
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// The file to write, which must not exist: `store.redb` in the folder of a stopped service.
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
}

impl RestoreArgs {
    /// Runs `evertally restore`.
    pub(super) fn run(self) -> Result<()> {
        program::restore(&self.from, self.at.as_deref(), &self.to, |line| eprintln!("{line}"))?;
        Ok(())
    }
}
