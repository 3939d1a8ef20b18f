//! `evertally token`: tokens that allow writing to a service, reading from it and operating it.

use anyhow::Result;
use clap::{Args, Subcommand};
use evertally_server::audit::{AuditEntry, AuditLog};
use evertally_server::config::Config;
use evertally_server::folder::make_folder;
use evertally_server::tokens::{Role, Tokens, expiry_from};
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
        /// Role of the token: write:STREAM, read:STREAM, read:*, operate:STREAM, monitor or operate.
        #[arg(long, value_name = "ROLE")]
        role: Role,
        /// Description of the holder, for people.
        #[arg(long, value_name = "TEXT", default_value = "")]
        label: String,
        /// When the token ends by itself: a span such as `90d`, a date, or a time. By default it does not.
        #[arg(long, value_name = "WHEN", value_parser = expiry)]
        expires: Option<jiff::Timestamp>,
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
        /// Revoke it even if no token that operates the service is left.
        #[arg(long)]
        last_operator: bool,
    },
}

impl TokenArgs {
    /// Runs `evertally token`.
    pub(super) fn run(self) -> Result<()> {
        match self.what {
            TokenCommand::Make { config, role, label, expires } => {
                let config = Config::read(&config)?;
                make_folder(&config.folder)?;
                if let Some(name) = role.stream()
                    && !config.streams.iter().any(|stream| stream.name == name)
                {
                    eprintln!("note: the configuration declares no stream `{name}`; it can be opened over the API");
                }
                let (id, token) = Tokens::from_folder(&config.folder)?.make_until(&role, &label, expires)?;
                audit(&config, "make-token", &format!("{role} as {id}"));
                let until = expires.map_or(String::new(), |end| format!(" until {}", shown(end)));
                eprintln!("token {id} allows {role}{until}; it is shown only once:");
                println!("{}", *token);
            }
            TokenCommand::List { config } => {
                let tokens = Tokens::from_folder(&Config::read(&config)?.folder)?;
                let (all, uses) = (tokens.all()?, tokens.last_uses());
                let mut table = comfy_table::Table::new();
                table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
                table.set_header(["id", "role", "made", "expires", "last used", "label"]);
                for token in &all {
                    let expires = token.expires.map_or("never".to_owned(), shown);
                    let used = uses.get(&token.id).map_or("never".to_owned(), |used| shown(*used));
                    table.add_row([&token.id, &token.role, &shown(token.made), &expires, &used, &token.label]);
                }
                println!("{table}");
            }
            TokenCommand::Revoke { config, id, last_operator } => {
                let config = Config::read(&config)?;
                let tokens = Tokens::from_folder(&config.folder)?;
                if last_operator {
                    tokens.revoke_even_last(&id)?;
                } else {
                    tokens.revoke(&id)?;
                }
                audit(&config, "revoke-token", &id);
                eprintln!("token {id} is revoked");
            }
        }
        Ok(())
    }
}

fn expiry(text: &str) -> Result<jiff::Timestamp, String> {
    expiry_from(text, jiff::Timestamp::now())
}

fn shown(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// Records a change in the audit log of the service.
fn audit(config: &Config, action: &str, subject: &str) {
    if let Err(error) = AuditLog::from_folder(&config.folder).add(&AuditEntry::done("command line", action, subject)) {
        eprintln!("note: {error}");
    }
}
