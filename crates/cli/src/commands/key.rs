//! `evertally key`: make and inspect secret keys.

use crate::{keyfile, ledger};
use anyhow::Result;
use clap::{Args, Subcommand};
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
    /// Print the public id of a key, which reports and error messages name.
    Id {
        /// The key file.
        file: PathBuf,
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
            KeyCommand::Id { file } => println!("{}", keyfile::read(&file)?.id()),
        }
        Ok(())
    }
}
