//! `evertally serve`: a service that counts and publishes streams for years.

use anyhow::Result;
use clap::{Args, ValueEnum};
use evertally_server::program::{self, Level, ServeMode};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Flags of `evertally serve`.
#[derive(Args, Debug)]
#[command(
    after_help = concat!(
        "Examples:\n",
        "  evertally serve --demo\n",
        "  evertally serve --config /etc/evertally/serve.toml\n\n",
        "The guide: docs/guide/run/service.md"
    )
)]
pub(super) struct ServeArgs {
    /// The configuration file: folder, key, listeners, streams.
    #[arg(long, value_name = "FILE", required_unless_present_any = ["demo"], conflicts_with = "demo")]
    config: Option<PathBuf>,
    /// Run a demo that replays the flights of 2013 at high speed; nothing is kept.
    #[arg(long)]
    demo: bool,
    /// Address on which the demo listens.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8800", requires = "demo")]
    listen: SocketAddr,
    /// Check the folder of the configuration and exit: recomputes all closed steps and compares them with the published
    /// ones.
    #[arg(long, conflicts_with = "demo")]
    verify: bool,
    /// Check the configuration and exit: plans its streams, compares them with the folder, and changes nothing. With
    /// --follow or --replica, checks what those need.
    #[arg(long, conflicts_with_all = ["demo", "verify"])]
    check: bool,
    /// Ask the running service of the configuration whether it is ready, and exit: with 0 if it is.
    #[arg(long, conflicts_with_all = ["demo", "verify", "check"])]
    health: bool,
    /// Use an existing key for a new folder. Only if nothing was ever published with that key.
    #[arg(long, conflicts_with_all = ["demo", "verify", "check", "health"])]
    adopt_key: bool,
    /// Continue with a new witness, or without one, after the folder's witness was lost permanently. Only if this
    /// folder is certainly the newest copy.
    #[arg(long, conflicts_with_all = ["demo", "verify", "check", "health"])]
    forget_witness: bool,
    /// Follow the machine that is the primary, and take over when it gives no sign of life; needs [standby] in the
    /// configuration.
    #[arg(long, conflicts_with_all = ["demo", "verify", "health", "adopt_key", "forget_witness"])]
    follow: bool,
    /// Serve readers alone, with copies of the public streams of another service; `--config` names the configuration of
    /// the replica.
    #[arg(long, conflicts_with_all = ["demo", "verify", "health", "adopt_key", "forget_witness", "follow"])]
    replica: bool,
    /// Log level. Logs never contain data, keys or tokens.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: LogLevel,
    /// Format of the log: text for people, or one JSON object per line.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

impl ServeArgs {
    fn mode(&self) -> ServeMode {
        match (self.follow, self.replica) {
            (true, _) => ServeMode::Follower,
            (_, true) => ServeMode::Replica,
            _ => ServeMode::Service,
        }
    }

    /// Runs `evertally serve`.
    pub(super) fn run(self) -> Result<()> {
        let level = match self.log {
            LogLevel::Error => Level::ERROR,
            LogLevel::Warn => Level::WARN,
            LogLevel::Info => Level::INFO,
            LogLevel::Debug => Level::DEBUG,
        };
        program::log(level, matches!(self.log_format, LogFormat::Json));
        let say = |line: &str| match self.log_format {
            LogFormat::Text => eprintln!("{line}"),
            LogFormat::Json => program::note(line),
        };
        let mode = self.mode();
        match self.config {
            None => program::demonstrate(self.listen, say)?,
            Some(config) if self.health => println!("{}", program::health(&config)?),
            Some(config) if self.check => program::check(&config, mode, say)?,
            Some(config) if self.verify => program::verify(&config, say)?,
            Some(config) if self.replica => program::replicate(&config, say)?,
            Some(config) => {
                let once = program::StartPermissions {
                    adopts_key: self.adopt_key,
                    forgets_witness: self.forget_witness,
                    follows: self.follow,
                };
                program::serve(&config, once, say)?;
            }
        }
        Ok(())
    }
}
