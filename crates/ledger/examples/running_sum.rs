//! A Rust program that embeds the library and publishes a running sum under a key file.
//!
//! ```text
//! evertally key new my.key
//! cargo run --example running_sum -- my.key visits visits.state 120 80 95
//! ```
//!
//! prints the released running sum after each value. Later runs add further values to the same stream: the state file
//! holds the stream. The log next to the key (`my.key.uses`) records for which sum each step was released. If the state
//! file is deleted, or an older copy of it is restored, the same values give the same releases; other values are
//! refused, because under the same noise they would reveal the exact difference.

use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Rho};
use evertally::stream::RunningSum;
use evertally_ledger::disk::{Access, RealDisk, replace};
use evertally_ledger::noise_log::LoggedKey;
use std::error::Error;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

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

    let key = LoggedKey::open(Path::new(key))?.guarded();
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
    // Saved before anyone sees the releases: a run that is interrupted here continues where this one stopped. The state
    // holds exact sums, so only the user may read it.
    replace(&RealDisk, Path::new(state), &Access::Private, &mut &sums.save()[..])?;
    for release in released {
        println!("{}\t{}", release.step(), release.value());
    }
    Ok(())
}
