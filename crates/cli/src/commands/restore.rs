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
    /// The standby folder that the service ships to, or its URL in an object store.
    #[arg(long, value_name = "FOLDER", required_unless_present = "config")]
    from: Option<PathBuf>,
    /// The configuration of the service: names the standby folder, and the witness to compare with.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
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
        let (from, config) = (self.from.as_deref(), self.config.as_deref());
        program::restore(from, config, self.at.as_deref(), &self.to, |line| eprintln!("{line}"))?;
        Ok(())
    }
}
