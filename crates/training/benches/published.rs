//! Time of a step for vectors of 10^4 coordinates, by horizon: the measurement of figure 5(a) of Andersson, Pagh 2023,
//! arXiv 2306.09666 (figure 4(a) of the first version).
//!
//! `cargo bench --bench published -- [EXPONENT]` runs whole streams of 2^4, 2^6, … steps up to 2^EXPONENT (14 where
//! left out) of the three mechanisms of the figure, with `f32` on one thread, and prints the mean of the fastest of
//! three streams in microseconds per step. The square root makes blocks of steps at once, like the matrix product of
//! the figure.

use evertally::noise::{GuardedKey, TestSeed};
use evertally::privacy::{Budget, Rho};
use evertally_training::{Tuning, VectorNoise, VectorRequest};
use std::hint::black_box;
use std::time::Instant;

const COORDINATES: usize = 10_000;
const MECHANISMS: [&str; 3] = ["sqrt", "binary", "smooth(shape=balanced)"];

fn main() {
    let last = std::env::args().find_map(|arg| arg.parse::<u32>().ok()).unwrap_or(14);
    println!("{:>10} {}", "horizon", MECHANISMS.map(|name| format!("{name:>24}")).concat());
    for exponent in (4..=last).step_by(2) {
        let times = MECHANISMS.map(|name| format!("{:>21.1} µs", fastest(name, 1 << exponent)));
        println!("{:>10} {}", 1u64 << exponent, times.concat());
    }
}

/// Microseconds per step.
fn fastest(mechanism: &str, horizon: u64) -> f64 {
    let request = VectorRequest::new(horizon, Budget::Zcdp(Rho::new(0.5).expect("a valid rho")), 1.0);
    let plan = request.with_mechanism(mechanism.parse().expect("a known mechanism")).plan().expect("a valid plan");
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    let mut out = vec![0.0f32; COORDINATES];
    let mut stream = || {
        let tuning = Tuning { threads: 1, ..Tuning::default() };
        let name = "bench".parse().expect("a valid name");
        let mut noise =
            VectorNoise::<f32>::new(plan.clone(), &key, name, 0..COORDINATES as u64, tuning).expect("it streams");
        let start = Instant::now();
        for _ in 0..horizon {
            noise.next_into(&mut out).expect("within the horizon");
            black_box(&out);
        }
        start.elapsed().as_secs_f64() * 1e6 / horizon as f64
    };
    (0..3).map(|_| stream()).fold(f64::INFINITY, f64::min)
}
