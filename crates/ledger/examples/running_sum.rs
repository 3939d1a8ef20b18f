//! A Rust program that embeds the library and publishes a running sum under a key file.
//!
//! ```text
//! evertally key new my.key
//! cargo run --example running_sum -- my.key visits visits.state 120 80 95
//! ```
//!
//! prints the released running sum after each of the values. Further values of the same stream follow in later runs: the
//! state file has the stream, and the ledger of the key knows that it was begun. With the state deleted the program is
//! refused, because other values under the same noise would show the exact difference.
//!
//! **An older state is not refused**: the ledger knows the streams of Rust programs, and not their steps. Never put back a
//! copy of the state from before a release; a program that cannot rule that out keeps the number of published steps where
//! the state is not, and compares it.

use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Rho};
use evertally::stream::RunningSum;
use evertally_ledger::disk::{Access, RealDisk, replace};
use evertally_ledger::ledger::{Absent, OpenKey};
use std::error::Error;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [key, name, state, values @ ..] = &arguments[..] else {
        return Err("usage: running_sum KEY NAME STATE VALUE...".into());
    };
    let values: Vec<i64> = values.iter().map(|value| value.parse()).collect::<Result<_, _>>()?;
    let plan = PlanRequest::count(365, Budget::Zcdp(Rho::new(0.5)?)).plan()?;

    let waiting = &mut |ledger: &Path| eprintln!("another program holds {}; waiting for it", ledger.display());
    let open = OpenKey::of_file(Arc::new(RealDisk), Path::new(key), Absent::Refuse, &AtomicBool::new(false), waiting)?;
    let key = open.guarded();
    let mut sums = match std::fs::read(state) {
        Ok(saved) => RunningSum::restore(plan, &key, name.parse()?, &saved)?,
        Err(error) if error.kind() == ErrorKind::NotFound => RunningSum::new(plan, &key, name.parse()?)?,
        Err(error) => return Err(error.into()),
    };
    let mut released = Vec::new();
    for value in values {
        sums.add_sum(value)?;
        released.push(sums.tick()?);
    }
    // The state first, and durably: a step that was printed must never be released again with other data. It holds exact
    // sums, so that only the user may read it.
    replace(&RealDisk, Path::new(state), &Access::Private, &mut &sums.save()[..])?;
    for release in released {
        println!("{}\t{}", release.step(), release.value());
    }
    Ok(())
}
