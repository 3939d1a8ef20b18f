//! A Rust program that embeds the library and publishes a running sum under a key file.
//!
//! ```text
//! evertally key new my.key
//! cargo run --example running_sum -- my.key visits visits.state 120 80 95
//! ```
//!
//! prints the released running sum after each value. Later runs add further values to the same stream: the state file
//! holds the stream, and the key's ledger records that it has begun. If the state file is deleted, the program is
//! refused, because different values under the same noise would reveal the exact difference.
//!
//! **An older state file is not refused**: the ledger records the streams of Rust programs, but not their steps. Never
//! restore a copy of the state file from before a release. A program that cannot rule this out must store the number of
//! published steps in another place and compare it.

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
    let open =
        OpenKey::from_file(Arc::new(RealDisk), Path::new(key), Absent::Refuse, &AtomicBool::new(false), waiting)?;
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
    // Save the state first, and durably: a step that was printed must never be released again with other data. The
    // state holds exact sums, so only the user may read it.
    replace(&RealDisk, Path::new(state), &Access::Private, &mut &sums.save()[..])?;
    for release in released {
        println!("{}\t{}", release.step(), release.value());
    }
    Ok(())
}
