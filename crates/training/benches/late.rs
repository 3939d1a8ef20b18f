//! Time of a training step's noise on a table of which a batch uses few rows: drawn late, beside drawn for all rows.
//!
//! `cargo bench -p evertally --bench late -- [ROWS [WIDTH [USED]]]`: 2^18 rows of 64, of which each of 200 steps uses
//! 2048, nine of ten among a tenth of the rows. One thread, `f32`. Shown are the milliseconds of a step (dense: the
//! shortest of some steps), their ratio, what is kept, and the milliseconds in which all rows catch up in the end.

use evertally::noise::{GuardedKey, TestSeed};
use evertally::privacy::{Budget, Rho};
use evertally_training::{RowNoise, Series, Tuning, VectorNoise, VectorPlan, VectorRequest};
use std::time::Instant;

const STEPS: u64 = 200;
const MECHANISMS: [&str; 5] =
    ["input", "normalized-blt(buffers=3)", "blt(buffers=4)", "epoch-bands(bands=8)", "smooth"];

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse::<u64>().ok());
    let mut number = |otherwise| numbers.next().unwrap_or(otherwise);
    let (rows, width, used) = (number(1 << 18), number(64), number(2048));
    println!("{rows} rows of {width}, {used} used in a step, {STEPS} steps");
    println!(
        "{:28} {:>9} {:>9} {:>7} {:>9} {:>9} {:>9}",
        "mechanism", "dense ms", "late ms", "ratio", "dense MB", "late MB", "end ms"
    );
    for mechanism in MECHANISMS {
        row(mechanism, (rows, width), used);
    }
}

fn plan(mechanism: &str) -> evertally::Result<VectorPlan> {
    let request = VectorRequest::new(STEPS, Budget::Zcdp(Rho::new(0.5)?), 1.0).with_series(Series::Increments);
    request.with_mechanism(mechanism.parse()?).plan()
}

fn row(mechanism: &str, shape: (u64, u64), used: u64) {
    let plan = plan(mechanism).expect("a valid plan");
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    let name = || "bench".parse().expect("a valid name");
    let tuning = Tuning { threads: 1, ..Tuning::default() };
    let size = (shape.0 * shape.1) as usize;
    let mut table = vec![0.0f32; size];
    let (dense, dense_bytes) = {
        let mut noise =
            VectorNoise::<f32>::new(plan.clone(), &key, name(), 0..size as u64, tuning).expect("it streams");
        let mut step = || {
            let begin = Instant::now();
            noise.add_next(&mut table).expect("a step");
            begin.elapsed().as_secs_f64()
        };
        let shortest = (0..12).map(|_| step()).fold(f64::INFINITY, f64::min);
        (shortest, noise.memory_bytes())
    };
    let mut noise = RowNoise::<f32>::new(plan, &key, name(), shape, &[0.1], tuning).expect("it can be drawn late");
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((u128::from(state) * u128::from(below)) >> 64) as u64
    };
    let mut batch = || {
        let mut rows: Vec<u64> =
            (0..used).map(|_| if next(10) > 0 { next(shape.0 / 10) } else { next(shape.0) }).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    };
    let batches: Vec<Vec<u64>> = (0..STEPS).map(|_| batch()).collect();
    let gradient = vec![0.25; (used * shape.1) as usize];
    let begin = Instant::now();
    for batch in &batches {
        noise.catch_up(&mut table, batch).expect("rows that are there");
        noise.descend(&mut table, batch, &gradient[..batch.len() * shape.1 as usize]).expect("a step");
    }
    let late = begin.elapsed().as_secs_f64() / STEPS as f64;
    let late_bytes = noise.memory_bytes();
    let begin = Instant::now();
    noise.catch_up_all(&mut table).expect("all rows");
    let end = begin.elapsed().as_secs_f64();
    println!(
        "{mechanism:28} {:9.2} {:9.2} {:7.1} {:9.1} {:9.1} {:9.1}",
        1e3 * dense,
        1e3 * late,
        dense / late,
        dense_bytes as f64 / 1e6,
        late_bytes as f64 / 1e6,
        1e3 * end
    );
}
