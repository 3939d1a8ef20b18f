//! `evertally serve`: streams that are counted and published for years.

use anyhow::Result;
use clap::{Args, ValueEnum};
use evertally_server::program::{self, Level};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Flags of `evertally serve`.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  evertally serve --demo\n  evertally serve --config /etc/evertally/serve.toml\n\nThe guide: docs/guide/serve.md"
)]
pub(super) struct ServeArgs {
    /// The configuration: folder, key, listeners, streams.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["demo"], conflicts_with = "demo")]
    config: Option<PathBuf>,
    /// Play the flights of 2013 at high speed, to look at: nothing is kept.
    #[arg(long)]
    demo: bool,
    /// Where the demonstration listens.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8800", requires = "demo")]
    listen: SocketAddr,
    /// Check the folder of the configuration, and end: all closed steps are computed again and held against what was
    /// published.
    #[arg(long, conflicts_with = "demo")]
    verify: bool,
    /// How much is said of what happens: never data, keys or tokens.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: LogLevel,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

impl ServeArgs {
    /// Runs `evertally serve`.
    pub(super) fn run(self) -> Result<()> {
        program::log(match self.log {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
        });
        let say = |line: &str| eprintln!("{line}");
        match self.config {
            None => program::demonstrate(self.listen, say)?,
            Some(config) if self.verify => program::verify(&config, say)?,
            Some(config) => program::serve(&config, say)?,
        }
        Ok(())
    }
}
