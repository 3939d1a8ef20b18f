//! Cost of noise with long memory (the square root), in nanoseconds for each coordinate and step, on one thread.
//!
//! `cargo bench --bench blocks -- [COORDINATES]` (4096 where left out). Innovations are copied from a table here, so that what
//! is shown is the engine; a real one adds `draws` times the cost of a normal variable. Times are processor time where the
//! system tells it (Linux), so that neighbours do not count;
//! those of the parts are the least of many.

use evertally::vector::blocks::{Blocks, Draw, Filter, Response};
use evertally_kernels::Path;
use evertally_kernels::transform::{Real, Transform, multiply_add};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

fn main() {
    let coordinates = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(4096u64);
    parts::<f32>("f32");
    parts::<f64>("f64");
    println!(
        "\n{:4} {:>7} {:>6} {:>8} {:>10} {:>8} {:>8} {:>8} {:>7}",
        "type", "horizon", "block", "at once", "words held", "ns", "blocks", "add row", "draws"
    );
    for horizon in [1 << 10, 1 << 12, 1 << 14] {
        for at_once in [1, horizon / 16, horizon / 4] {
            whole::<f32>("f32", horizon, coordinates, at_once);
        }
        whole::<f64>("f64", horizon, coordinates, horizon / 4);
    }
}

/// Nanoseconds that this thread has run, a few milliseconds more or less.
fn now() -> f64 {
    thread_local!(static START: Instant = Instant::now());
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let running = schedule.and_then(|text| text.split(' ').next()?.parse().ok());
    running.unwrap_or_else(|| START.with(Instant::elapsed).as_nanos() as f64)
}

/// Nanoseconds by the clock, the least of many short rounds.
fn time(mut work: impl FnMut()) -> f64 {
    let once = |()| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64
    };
    std::iter::repeat_n((), 25).map(once).fold(f64::INFINITY, f64::min)
}

/// The three parts of a block's work, each for one real number of a block.
fn parts<F: Real>(name: &str) {
    let path = Path::best();
    println!("{:4} {:>6} {:>10} {:>10} {:>10}   ({path:?})", name, "block", "forward", "product", "inverse");
    for block in [64, 128, 256, 512, 2048] {
        let transform = Transform::<F>::new(2 * block);
        let (stride, rounds) = (16 * F::LANES, (1 << 14) / block);
        let mut rows = vec![F::from_f64(0.25); block * stride];
        let mut series = vec![vec![F::from_f64(0.25); transform.numbers()]; 5];
        let factors = vec![[F::from_f64(0.1), F::from_f64(0.2)]; 2 * block];
        let per = (rounds * transform.numbers() / 2) as f64;
        let forward = time(|| {
            (0..rounds).for_each(|r| transform.forward_padded(path, &rows, stride, &mut series[r % 5]));
        });
        let (sums, spectra) = series.split_first_mut().expect("five");
        let spectra: Vec<&[F]> = spectra.iter().map(Vec::as_slice).collect();
        let product = time(|| {
            sums.fill(F::ZERO);
            (0..rounds).for_each(|_| multiply_add(path, sums, &spectra, &[factors.as_slice(); 4]));
        });
        let inverse = time(|| {
            for _ in 0..rounds {
                sums.fill(F::from_f64(0.5));
                transform.inverse_half(path, sums, &mut rows, stride);
            }
        });
        println!("{:4} {block:>6} {:>10.3} {:>10.3} {:>10.3}", "", forward / per, product / per / 4.0, inverse / per);
    }
}

/// All steps of a stream.
fn whole<F: Real>(name: &str, horizon: u64, coordinates: u64, at_once: u64) {
    let coefficient = |f: &mut f64, j: u64| {
        *f *= if j == 0 { 1.0 } else { (2 * j - 1) as f64 / (2 * j) as f64 };
        Some(*f)
    };
    let series = (0..horizon).scan(1.0, coefficient).collect();
    let response = Response::toeplitz(horizon, series).expect("a response");
    let filter = Arc::new(Filter::<F>::new(&response, Path::best()).expect("a filter"));
    let mut blocks = Blocks::new(filter.clone(), 0..coordinates, at_once, Path::best()).expect("a range");
    let table: Vec<F> = (0..4096).map(|i| F::from_f64(f64::from(i * 7919 % 4093) / 4093.0 - 0.5)).collect();
    let drawn = AtomicU64::new(0);
    let draw: &Draw<F> = &|node, first, out: &mut [F]| {
        drawn.fetch_add(out.len() as u64, Ordering::Relaxed);
        out.copy_from_slice(&table[((node * 7 + first * 13) % 3500) as usize..][..out.len()]);
    };
    let mut sums = vec![F::ZERO; coordinates as usize];
    let (mut computing, mut adding) = (0.0, 0.0);
    for start in (0..horizon).step_by(blocks.at_once() as usize) {
        let begin = now();
        blocks.prepare(start, draw, 1).expect("a step");
        let ready = now();
        let end = horizon.min(start + blocks.at_once());
        (start..end).for_each(|step| blocks.add_row(step, 0, &mut sums));
        black_box(&mut sums);
        (computing, adding) = (computing + ready - begin, adding + now() - ready);
    }
    let per = (horizon * coordinates) as f64;
    println!(
        "{name:4} {horizon:>7} {:>6} {:>8} {:>10} {:>8.2} {:>8.2} {:>8.2} {:>7.2}",
        filter.block(),
        blocks.at_once(),
        blocks.at_once() * coordinates,
        (computing + adding) / per,
        computing / per,
        adding / per,
        drawn.load(Ordering::Relaxed) as f64 / per
    );
}
