//! `evertally key`: make and inspect secret keys.

use crate::stream::say_waiting;
use anyhow::Result;
use clap::{Args, Subcommand};
use comfy_table::{Table, presets};
use evertally::privacy::Delta;
use evertally::privacy::composition::{Expense, Odometer};
use evertally_publish::disk::RealDisk;
use evertally_publish::ledger::{Absent, OpenKey};
use evertally_publish::{keyfile, ledger};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    /// Add up what the streams published with a key have spent, for people whose data are in all of them.
    Spent {
        /// The key file.
        file: PathBuf,
        /// The δ at which the total is stated as (ε, δ).
        #[arg(long, value_name = "D", default_value = "1e-6")]
        delta: f64,
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
            KeyCommand::Id { file } => println!("{}", keyfile::read(&file)?.id()),
            KeyCommand::Spent { file, delta, json } => spent(&file, Delta::new(delta)?, json)?,
        }
        Ok(())
    }
}

/// Prints the streams of a key and their composition.
fn spent(file: &Path, delta: Delta, json: bool) -> Result<()> {
    let never = AtomicBool::new(false);
    let open = OpenKey::of_file(Arc::new(RealDisk), file, Absent::Refuse, &never, &mut say_waiting)?;
    let streams = open.ledger.spent()?;
    let mut odometer = Odometer::default();
    streams.iter().for_each(|(_, budget, _)| odometer.record(Expense::from(*budget)));
    let total = (!streams.is_empty()).then(|| odometer.epsilon_at(delta));
    let mut out = std::io::stdout().lock();
    if json {
        let rows: Vec<_> = streams
            .iter()
            .map(|(name, budget, steps)| json!({"stream": name, "budget": budget, "published_steps": steps}))
            .collect();
        let total = json!({
            "pure_epsilon": odometer.pure_epsilon(),
            "rho": odometer.rho(),
            "epsilon": total,
            "delta": delta.get(),
        });
        serde_json::to_writer_pretty(&mut out, &json!({"streams": rows, "total": total}))
            .map_err(std::io::Error::from)?;
        writeln!(out)?;
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["stream", "budget of its plan", "published steps"]);
    for (name, budget, steps) in &streams {
        table.add_row([name.clone(), budget.to_string(), steps.to_string()]);
    }
    writeln!(out, "{table}")?;
    let Some(total) = total else {
        writeln!(out, "Nothing has been published with this key.")?;
        return Ok(());
    };
    writeln!(out, "Together, for people whose data are in all of these streams:")?;
    if let Some(epsilon) = odometer.pure_epsilon() {
        writeln!(out, "- ε-differential privacy with ε = {epsilon}")?;
    }
    if let Some(rho) = odometer.rho() {
        writeln!(out, "- zero-concentrated differential privacy with ρ = {rho}")?;
    }
    writeln!(out, "- (ε, δ)-differential privacy with ε = {total:.6} at δ = {}", delta.get())?;
    writeln!(out, "A plan's budget counts in full as soon as its first step is published.")?;
    Ok(())
}
