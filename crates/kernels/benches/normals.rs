//! Cost of turning words into normal variables, per instruction set: words and normals stay in the nearest cache, and
//! producing the words is not counted.
//!
//! `cargo bench -p evertally-kernels --bench normals -- [ROUNDS]`: nanoseconds per normal, the median of ROUNDS rounds
//! (10^4 by default) of 1024 normals, each round repeated for 8192.

use evertally_kernels::{InstructionSet, normals_f32, normals_f64};
use std::hint::black_box;
use std::time::Instant;

const WORDS: usize = 1024;
const REPEATS: usize = 8;

fn main() {
    let rounds = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(10_000);
    // An additive sequence: all octaves in their proportions.
    let words: Vec<u64> = (1..=WORDS as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let singles: Vec<u32> = words.iter().map(|word| (word >> 32) as u32).collect();
    let (mut out_32, mut out_64) = (vec![0.0; WORDS], vec![0.0; WORDS]);
    println!("{:10} {:>8} {:>8}", "instructions", "f32", "f64");
    for instructions in InstructionSet::available() {
        let f32 = median(rounds, || normals_f32(instructions, black_box(&singles), black_box(&mut out_32), &mut |_| 0));
        let f64 = median(rounds, || normals_f64(instructions, black_box(&words), black_box(&mut out_64), &mut |_| 0));
        println!("{:10} {f32:8.3} {f64:8.3}", instructions.name());
    }
}

/// Nanoseconds per normal.
fn median(rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            (0..REPEATS).for_each(|_| work());
            start.elapsed().as_nanos() as f64 / (REPEATS * WORDS) as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
