//! Cost of the mark of a gradient, compared with its noise, in nanoseconds for one coordinate and step.
//!
//! `cargo bench -p evertally-ledger --bench marks -- [ROUNDS]`. One thread, `f32`. A window of steps is run again and
//! again; of every step the shortest time counts, and the mean over the window is shown. `noise` writes the noise of a
//! step over a vector, `marked` computes mark and squares of a gradient, checks it and adds the noise, and `mark` is
//! the first part of that.

use evertally::noise::{FloatSlice, GuardedKey, SecretKey, TestSeed};
use evertally::privacy::{Budget, Rho};
use evertally_ledger::noise_log::StreamSecrets;
use evertally_training::{Tuning, VectorNoise, VectorPlan, VectorRequest, check_squares};
use std::hint::black_box;
use std::time::Instant;

/// Steps are timed from here on.
const START: u64 = 682;
/// Number of steps that are timed.
const WINDOW: usize = 16;
const MECHANISMS: [&str; 4] = ["input", "binary", "blt(buffers=4)", "smooth"];

fn main() {
    let rounds = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(20);
    println!("{:16} {:>10} {:>8} {:>8} {:>8} {:>8}", "mechanism", "length", "noise", "mark", "marked", "ratio");
    for len in [1_000_000, 10_000_000] {
        for mechanism in MECHANISMS {
            row(mechanism, len, rounds);
        }
    }
}

fn noise(plan: &VectorPlan, len: usize) -> VectorNoise<f32> {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    let tuning = Tuning { threads: 1, ..Tuning::default() };
    VectorNoise::new(plan.clone(), &key, "bench".parse().expect("a name"), 0..len as u64, tuning).expect("it streams")
}

fn row(mechanism: &str, len: usize, rounds: usize) {
    let request = VectorRequest::new(2048, Budget::Zcdp(Rho::new(0.5).expect("positive")), 1.0);
    let plan = request.with_mechanism(mechanism.parse().expect("a mechanism")).plan().expect("a plan");
    let (mut alone, mut added) = (noise(&plan, len), noise(&plan, len));
    let key = SecretKey::insecure_from_test_seed(TestSeed(1));
    let marker = StreamSecrets::new(&key, &"bench".parse().expect("a name"), &[1; 32], b"vector 32").marker;
    let (mut out, mut gradient) = (vec![0.5_f32; len], vec![0.5_f32; len]);
    let mut times = [[f64::INFINITY; WINDOW]; 3];
    for _ in 0..rounds {
        // Recurrences cost the same at every step, and continue.
        let _ = (alone.seek(START), added.seek(START));
        for place in 0..WINDOW {
            let begin = Instant::now();
            alone.next_into(&mut out).expect("within the horizon");
            black_box(&out);
            let middle = Instant::now();
            let found = marker.numbers(added.step() + 1, FloatSlice::Single(&gradient), 1);
            check_squares(&gradient, found.squares, 1.0, None).expect("finite numbers");
            let marked = Instant::now();
            added.add_next_to_checked(&mut gradient).expect("within the horizon");
            black_box((&gradient, found));
            let end = Instant::now();
            for (times, time) in times.iter_mut().zip([middle - begin, marked - middle, end - middle]) {
                times[place] = times[place].min(time.as_nanos() as f64);
            }
        }
    }
    let [noise, mark, marked] = times.map(|times| times.iter().sum::<f64>() / (WINDOW * len) as f64);
    println!("{mechanism:16} {len:>10} {noise:>8.3} {mark:>8.3} {marked:>8.3} {:>8.2}", marked / noise);
}
