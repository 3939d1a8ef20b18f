//! Nanoseconds a coordinate and step of noise with long memory.

use evertally::vector::blocks::{Blocks, Draw, Filter, Response};
use evertally_kernels::Path;
use evertally_kernels::transform::Real;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

fn series(horizon: u64) -> Vec<f64> {
    let mut f = 1.0;
    (0..horizon)
        .map(|j| {
            if j > 0 {
                f *= (2 * j - 1) as f64 / (2 * j) as f64;
            }
            f
        })
        .collect()
}

fn run<F: Real>(name: &str, horizon: u64, d: u64, at_once: u64) {
    let start = Instant::now();
    let response = Response::toeplitz(horizon, series(horizon)).unwrap();
    let filter = Arc::new(Filter::<F>::new(&response, Path::best()).unwrap());
    let setup = start.elapsed().as_secs_f64();
    let mut blocks = Blocks::new(filter.clone(), 0..d, at_once, Path::best()).unwrap();
    let table: Vec<F> = (0..4096u64).map(|i| F::from_f64((i * 7919 % 4093) as f64 / 4093.0 - 0.5)).collect();
    let draw: &Draw<F> = &|node, first, out: &mut [F]| {
        let at = ((node * 7 + first * 13) % 3500) as usize;
        let n = out.len();
        out.copy_from_slice(&table[at..at + n]);
    };
    let mut sums = vec![F::ZERO; d as usize];
    let start = Instant::now();
    let (mut prep, mut add) = (0.0, 0.0);
    for step in 0..horizon {
        let s = Instant::now();
        blocks.prepare(step, draw, 1).unwrap();
        let m = Instant::now();
        prep += (m - s).as_secs_f64();
        blocks.add_row(step, &mut sums);
        add += m.elapsed().as_secs_f64();
    }
    let total = start.elapsed().as_secs_f64();
    black_box(&sums);
    let per = 1e9 / (horizon * d) as f64;
    println!(
        "{name} T={horizon} d={d} B={} at once {}: {:.2} ns ({:.2} blocks, {:.2} add), setup {setup:.2} s",
        filter.block(),
        blocks.at_once(),
        total * per,
        prep * per,
        add * per
    );
}

fn main() {
    let args: Vec<u64> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let d = args.first().copied().unwrap_or(4096);
    for horizon in [1024, 4096, 16384] {
        for share in [64, 16, 4, 1] {
            run::<f32>("f32", horizon, d, horizon / share);
        }
        run::<f64>("f64", horizon, d, horizon / 4);
    }
}
