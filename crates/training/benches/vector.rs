//! Cost of a vector's noise, in nanoseconds for one coordinate and step: what the normal variables take, and what is
//! added to it.
//!
//! `cargo bench --bench vector -- [SECONDS [LEN]]` runs every row for that long (2 where left out), for vectors of
//! 10^4, 10^6 and 10^7 coordinates or of LEN. One thread, `f32`. A window of steps is run again and again; of every
//! step the shortest time counts, and the mean over the window is shown. Normal variables are timed between the steps,
//! piece by piece as a step draws them, but with no vector around them.
//!
//! Square roots do the work of many steps at once: they are run once over whole horizons, for vectors of 10^4
//! coordinates, in processor time where the system tells it (Linux), so that neighbours do not count.

use evertally::noise::{GuardedKey, TestSeed};
use evertally::privacy::{Budget, Rho};
use evertally_kernels::{BlockName, Cipher, Normals};
use evertally_training::{InstructionSet, Memory, Real, Series, Tuning, VectorNoise, VectorPlan, VectorRequest};
use std::hint::black_box;
use std::time::{Duration, Instant};

const HORIZON: u64 = 1 << 20;
/// Steps are timed from here on: a place in the middle, where partial sums are held on many levels.
const START: u64 = 349_525;
/// Number of steps that are timed.
const WINDOW: usize = 16;

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse::<f64>().ok());
    let time = Duration::from_secs_f64(numbers.next().unwrap_or(2.0));
    let lengths = numbers.next().map_or_else(|| vec![10_000, 1_000_000, 10_000_000], |len| vec![len as usize]);
    println!("{:?}", InstructionSet::best());
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
    println!(
        "\n{:28} {:>10} {:>10} {:>8} {:>10} {:>8}",
        "mechanism", "memory", "horizon", "step", "longest", "vectors"
    );
    for horizon in [1 << 10, 1 << 12, 1 << 14] {
        for memory in [Memory::Keep, Memory::Recompute] {
            whole::<f32>("sqrt", memory, Series::RunningSums, horizon);
            whole::<f32>("normalized-sqrt", memory, Series::RunningSums, horizon);
        }
        whole::<f64>("sqrt", Memory::Keep, Series::Increments, horizon);
    }
}

const MECHANISMS: [&str; 6] = ["binary", "smooth", "path-sum", "blt(buffers=4)", "input", "honaker-online"];

fn plan(mechanism: &str, series: Series, horizon: u64) -> evertally::Result<VectorPlan> {
    let request = VectorRequest::new(horizon, Budget::Zcdp(Rho::new(0.5)?), 1.0);
    request.with_mechanism(mechanism.parse()?).with_series(series).plan()
}

fn noise<F: Real>(plan: &VectorPlan, memory: Memory, len: usize) -> VectorNoise<F> {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    let name = "bench".parse().expect("a valid name");
    let tuning = Tuning { threads: 1, memory, ..Tuning::default() };
    VectorNoise::new(plan.clone(), &key, name, 0..len as u64, tuning).expect("it streams")
}

fn row(mechanism: &str, memory: Memory, series: Series, len: usize, time: Duration) {
    // Input noise that is not kept is drawn from the first step on.
    let plan = plan(mechanism, series, if mechanism == "input" { 64 } else { HORIZON }).expect("a valid plan");
    let mut noise = noise::<f32>(&plan, memory, len);
    let normals = Normals::new(Cipher::Aes128Ctr, &[7; 32], InstructionSet::best());
    let mut out = vec![0.0f32; len];
    let (mut drawn, mut steps) = (f64::INFINITY, vec![f64::INFINITY; WINDOW]);
    let (begin, mut rounds) = (Instant::now(), 0);
    while rounds < 3 || begin.elapsed() < time {
        // Recurrences cost the same at every step, and go on.
        if noise.seek(START.min(plan.horizon() / 3)).is_err() && noise.horizon() - noise.step() < WINDOW as u64 {
            break;
        }
        for step in &mut steps {
            drawn = drawn.min(per_coordinate(len, || draw(&normals, noise.step(), len)));
            *step = step.min(per_coordinate(len, || noise.next_into(&mut out).expect("within the horizon")));
            black_box(&out);
        }
        rounds += 1;
    }
    println!(
        "{:28} {:>10} {:>10} {:>8.2} {:>8.2} {:>8}",
        format!("{mechanism} {}", series_name(series)),
        format!("{memory:?}"),
        len,
        drawn,
        steps.iter().sum::<f64>() / WINDOW as f64,
        noise.memory_bytes() / (4 * len)
    );
}

/// All steps of a horizon, in the mean, and the longest of them: the one that a release waits for.
fn whole<F: Real>(mechanism: &str, memory: Memory, series: Series, horizon: u64) {
    let len = 10_000;
    let plan = plan(mechanism, series, horizon).expect("a valid plan");
    let mut noise = noise::<F>(&plan, memory, len);
    let mut out = vec![F::default(); len];
    let mut now = processor_time();
    let mut step = || {
        noise.next_into(&mut out).expect("within the horizon");
        let before = std::mem::replace(&mut now, processor_time());
        (now - before) / len as f64
    };
    let steps: Vec<f64> = (0..horizon).map(|_| step()).collect();
    println!(
        "{:28} {:>10} {:>10} {:>8.2} {:>7.0} ms {:>8}",
        format!("{mechanism} {} f{}", series_name(series), F::BITS),
        format!("{memory:?}"),
        horizon,
        steps.iter().sum::<f64>() / horizon as f64,
        steps.iter().fold(0.0, |most: f64, step| most.max(*step)) * len as f64 / 1e6,
        noise.memory_bytes() / (size_of::<F>() * len)
    );
}

/// Nanoseconds that this thread has run, a few milliseconds more or less.
fn processor_time() -> f64 {
    thread_local!(static START: Instant = Instant::now());
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let running = schedule.and_then(|text| text.split(' ').next()?.parse().ok());
    running.unwrap_or_else(|| START.with(Instant::elapsed).as_nanos() as f64)
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
