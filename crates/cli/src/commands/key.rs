//! `evertally key`: make and inspect secret keys.

mod compare;
mod spent;

use anyhow::Result;
use clap::{Args, Subcommand};
use evertally::privacy::Delta;
use evertally_ledger::protected::check_key_name;
use evertally_ledger::{keyfile, ledger};
use std::path::PathBuf;

/// Flags of `evertally key`.
#[derive(Args, Debug)]
pub(super) struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Subcommand, Debug)]
enum KeyCommand {
    /// Generate a new key from the operating system's randomness and write it to a file that only you can read.
    New {
        /// The new key file; an existing file is never replaced.
        file: PathBuf,
    },
    /// Encrypt a key with a passphrase into a new file, for a service.
    Seal {
        /// The key file.
        file: PathBuf,
        /// File with the passphrase: one line of at least 12 bytes.
        #[arg(long, value_name = "FILE")]
        passphrase: PathBuf,
        /// The sealed key file; an existing file is never replaced.
        sealed: PathBuf,
    },
    /// Print the public id of a key, as used in reports and error messages.
    Id {
        /// The key file.
        file: PathBuf,
    },
    /// Add up the budget spent by the streams published with a key, separately for each privacy unit.
    Spent {
        /// The key file or its ledger; the key itself is not read.
        file: PathBuf,
        /// The δ at which the total is stated as (ε, δ).
        #[arg(long, value_name = "D", default_value = "1e-6")]
        delta: f64,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check whether two copies of a ledger are the same, one is older, or they have forked (status 2).
    Compare {
        /// A ledger (or the key next to it), or a table or report.
        first: PathBuf,
        /// Another of these.
        second: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

impl KeyArgs {
    /// Runs the chosen subcommand.
    pub(super) fn run(self) -> Result<()> {
        match self.command {
            KeyCommand::New { file } => {
                let key = ledger::new_key(&file)?;
                eprintln!("wrote key {} to {}, and its ledger next to it", key.id(), file.display());
                eprintln!(
                    "Keep both together, secret and backed up: anyone with the key can remove the noise of everything \
                     released with it,"
                );
                eprintln!("and without it a stream cannot be continued.");
            }
            KeyCommand::Seal { file, passphrase, sealed } => {
                let key = keyfile::read(&file)?;
                check_key_name(&sealed)?;
                evertally_server::sealed::write(&sealed, &key, &passphrase)?;
                eprintln!(
                    "wrote key {} to {}, sealed; check that it opens before you destroy {}",
                    key.id(),
                    sealed.display(),
                    file.display()
                );
            }
            KeyCommand::Id { file } => println!("{}", keyfile::read(&file)?.id()),
            KeyCommand::Spent { file, delta, json } => spent::run(&file, Delta::new(delta)?, json)?,
            KeyCommand::Compare { first, second, json } => compare::run(&first, &second, json)?,
        }
        Ok(())
    }
}
