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
    /// Draw a new key from the operating system and write it to a file only you can read.
    New {
        /// Where the key goes; an existing file is never replaced.
        file: PathBuf,
    },
    /// Write a key to a new file, sealed under a passphrase, for a service.
    Seal {
        /// The key file.
        file: PathBuf,
        /// A file with the passphrase: one line of 12 bytes at least.
        #[arg(long, value_name = "FILE")]
        passphrase: PathBuf,
        /// Where the sealed key goes; an existing file is never replaced.
        sealed: PathBuf,
    },
    /// Print the public id of a key, which reports and error messages name.
    Id {
        /// The key file.
        file: PathBuf,
    },
    /// Add up what the streams published with a key have spent, for each privacy unit by itself.
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
    /// Say whether two copies of a ledger are the same, one is older, or they have gone different ways (status 2).
    Compare {
        /// A ledger (or the key beside it), or a table or report.
        first: PathBuf,
        /// Another one.
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
                eprintln!("wrote key {} to {} and its ledger beside it", key.id(), file.display());
                eprintln!(
                    "Keep both together, secret, with a copy: whoever has the key can remove the noise of everything released with it,"
                );
                eprintln!("and without it a stream cannot be continued.");
            }
            KeyCommand::Seal { file, passphrase, sealed } => {
                let key = keyfile::read(&file)?;
                check_key_name(&sealed)?;
                evertally_server::sealed::write(&sealed, &key, &passphrase)?;
                eprintln!(
                    "wrote key {} to {}, sealed; see that it opens before you destroy {}",
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
