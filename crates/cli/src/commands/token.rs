//! `evertally token`: tokens that allow writing to a service, reading from it and operating it.

use anyhow::Result;
use clap::{Args, Subcommand};
use evertally_server::config::Config;
use evertally_server::folder::make_folder;
use evertally_server::tokens::{Role, Tokens};
use std::path::PathBuf;

/// Flags of `evertally token`.
#[derive(Args, Debug)]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    what: TokenCommand,
}

#[derive(Subcommand, Debug)]
enum TokenCommand {
    /// Create a token. It is printed once, on standard output, and never stored.
    Make {
        /// The configuration of the service.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Role of the token: write:STREAM, read:STREAM, read:* or operate.
        #[arg(long, value_name = "ROLE")]
        role: Role,
        /// Description of the holder, for people.
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
    },
    /// List all tokens, without their secrets.
    List {
        /// The configuration of the service.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Revoke a token immediately, even while the service runs.
    Revoke {
        /// The configuration of the service.
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// The id of the token.
        id: String,
    },
}

impl TokenArgs {
    /// Runs `evertally token`.
    pub(super) fn run(self) -> Result<()> {
        match self.what {
            TokenCommand::Make { config, role, label } => {
                let config = Config::read(&config)?;
                make_folder(&config.folder)?;
                if let Role::Write(name) | Role::Read(name) = &role
                    && !config.streams.iter().any(|stream| stream.name == *name)
                {
                    eprintln!("note: the configuration declares no stream `{name}`; it can be opened over the API");
                }
                let (id, token) = Tokens::from_folder(&config.folder)?.make(&role, &label)?;
                eprintln!("token {id} allows {role}; it is shown only once:");
                println!("{}", *token);
            }
            TokenCommand::List { config } => {
                let all = Tokens::from_folder(&Config::read(&config)?.folder)?.all()?;
                let mut table = comfy_table::Table::new();
                table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
                table.set_header(["id", "role", "made", "label"]);
                for token in &all {
                    let made = token.made.strftime("%Y-%m-%d %H:%M UTC").to_string();
                    table.add_row([&token.id, &token.role, &made, &token.label]);
                }
                println!("{table}");
            }
            TokenCommand::Revoke { config, id } => {
                Tokens::from_folder(&Config::read(&config)?.folder)?.revoke(&id)?;
                eprintln!("token {id} is revoked");
            }
        }
        Ok(())
    }
}
