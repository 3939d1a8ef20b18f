//! A Rust training loop whose noise is logged next to its key file.
//!
//! ```text
//! evertally key new my.key
//! cargo run --example training_noise -- my.key "run 17" 0.1
//! cargo run --example training_noise -- my.key "run 17" 0.2
//! ```
//!
//! trains a model of ten weights. The first run can be repeated, also after it was killed: every gradient gets the
//! noise that it had. The second run has another learning rate, so its second gradient differs, and it is refused: with
//! the same noise, the two models would reveal the exact difference. It needs another name.

use evertally::noise::StreamName;
use evertally::privacy::{Budget, Rho};
use evertally_ledger::noise_log::LoggedKey;
use evertally_training::{Series, Tuning, VectorNoise, VectorRequest};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

const STEPS: u64 = 20;
const WEIGHTS: u64 = 10;

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
    let [key, name, rate] = &arguments[..] else {
        return Err("usage: training_noise KEY NAME LEARNING_RATE".into());
    };
    let (name, rate): (StreamName, f32) = (name.parse()?, rate.parse()?);
    let request = VectorRequest::new(STEPS, Budget::Zcdp(Rho::new(0.5)?), 1.0).with_series(Series::Increments);

    let key = LoggedKey::open(Path::new(key))?.guarded();
    let mut noise = VectorNoise::<f32>::new(request.plan()?, &key, name, 0..WEIGHTS, Tuning::default())?;
    let mut weights = vec![0.0_f32; WEIGHTS as usize];
    for _ in 0..STEPS {
        // The sum of clipped gradients of a batch: here that of one example, with the target 1 for each weight.
        let mut gradient: Vec<f32> = weights.iter().map(|weight| weight - 1.0).collect();
        let norm = gradient.iter().map(|number| number * number).sum::<f32>().sqrt().max(1.0);
        gradient.iter_mut().for_each(|number| *number /= norm);
        noise.add_next(&mut gradient)?;
        weights.iter_mut().zip(&gradient).for_each(|(weight, number)| *weight -= rate * number);
    }
    println!("{weights:?}");
    Ok(())
}
