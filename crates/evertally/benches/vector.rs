//! Cost of a vector's noise, in nanoseconds for one coordinate and step: what the normal variables take, and what is added to it.
//!
//! `cargo bench --bench vector -- [SECONDS [LEN]]` runs every row for that long (2 where left out), for vectors of 10^4, 10^6 and
//! 10^7 coordinates or of LEN. One thread, `f32`. Times are medians over steps; a row's normal variables are timed in the same
//! round, piece by piece as a step draws them, but with no vector around them.

use evertally::budget::{Budget, Rho};
use evertally::noise::{SecretKey, TestSeed};
use evertally::vector::{Memory, Path, Series, Tuning, VectorNoise, VectorPlan, VectorRequest};
use evertally_kernels::{BlockName, Cipher, Normals};
use std::hint::black_box;
use std::time::{Duration, Instant};

const HORIZON: u64 = 1 << 20;
/// Steps are timed from here on: a place in the middle, where partial sums are held on many levels.
const START: u64 = 349_525;

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse::<f64>().ok());
    let time = Duration::from_secs_f64(numbers.next().unwrap_or(2.0));
    let lengths = numbers.next().map_or_else(|| vec![10_000, 1_000_000, 10_000_000], |len| vec![len as usize]);
    println!("{:?}", Path::best());
    println!("{:28} {:>10} {:>10} {:>8} {:>8} {:>8}", "mechanism", "memory", "length", "normals", "step", "vectors");
    for len in lengths {
        for mechanism in MECHANISMS {
            for memory in [Memory::Keep, Memory::Recompute] {
                for series in [Series::RunningSums, Series::Increments] {
                    row(mechanism, memory, series, len, time);
                }
            }
        }
    }
}

const MECHANISMS: [&str; 6] = ["binary", "smooth", "path-sum", "blt(buffers=4)", "input", "honaker-online"];

fn plan(mechanism: &str, series: Series) -> evertally::Result<VectorPlan> {
    // Input noise that is not kept is drawn from the first step on.
    let horizon = if mechanism == "input" { 64 } else { HORIZON };
    let request = VectorRequest::new(horizon, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    VectorRequest { mechanism: Some(mechanism.parse()?), series, ..request }.plan()
}

fn row(mechanism: &str, memory: Memory, series: Series, len: usize, time: Duration) {
    let plan = plan(mechanism, series).expect("a valid plan");
    let key = SecretKey::insecure_from_test_seed(TestSeed(1));
    let name = "bench".parse().expect("a valid name");
    let tuning = Tuning { threads: 1, memory, ..Tuning::default() };
    let new = || VectorNoise::<f32>::new(&plan, &key, &name, 0..len as u64, tuning).expect("it streams");
    let mut noise = new();
    let start = START.min(plan.horizon() / 3);
    if noise.seek(start).is_err() {
        // Recurrences cost the same at every step, but the first steps touch new memory.
        noise = new();
    }
    let normals = Normals::new(Cipher::Aes128Ctr, &[7; 32], tuning.path);
    let mut out = vec![0.0f32; len];
    for _ in 0..4 {
        noise.next_into(&mut out).expect("within the horizon");
    }
    let (mut drawn, mut steps) = (vec![], vec![]);
    let begin = Instant::now();
    while begin.elapsed() < time && noise.step() < noise.horizon() {
        drawn.push(per_coordinate(len, || draw(&normals, noise.step(), len)));
        steps.push(per_coordinate(len, || noise.next_into(&mut out).expect("within the horizon")));
        black_box(&out);
    }
    println!(
        "{:28} {:>10} {:>10} {:>8.2} {:>8.2} {:>8}",
        format!("{mechanism} {}", series_name(series)),
        format!("{memory:?}"),
        len,
        median(drawn),
        mean(&steps),
        noise.memory_bytes() / (4 * len)
    );
}

fn series_name(series: Series) -> &'static str {
    match series {
        Series::RunningSums => "sums",
        Series::Increments => "increments",
    }
}

fn draw(normals: &Normals, step: u64, len: usize) {
    let mut piece = [0.0f32; 1024];
    for first in (0..len).step_by(piece.len()) {
        let piece = &mut piece[..(len - first).min(1024)];
        normals.fill_f32(BlockName { level: 0, index: step }, first as u64, piece);
        black_box(piece);
    }
}

fn per_coordinate(len: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / len as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Steps differ in what they draw: the mean, without the tenth that was interrupted most.
fn mean(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times.truncate((times.len() * 9).div_ceil(10));
    times.iter().sum::<f64>() / times.len() as f64
}
