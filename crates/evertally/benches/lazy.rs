//! Cost of a lazy read, in time and memory: flat in the number of running sums, the horizon and the gap between reads.
//!
//! `cargo bench --bench lazy -- [READS [ROW]]` makes READS reads (10^7 where left out) for every row, or for one, from
//! 0. Times are for one read of a vector through its public interface, hash tables and ChaCha20 included: the median
//!    over chunks of 1000 reads.

use evertally::noise::{GuardedKey, KeyedNoise, Purpose, RandomBits, TestSeed};
use evertally::plan::PlanRequest;
use evertally::privacy::{Budget, Epsilon, Rho};
use evertally::stream::{LazyPlan, LazySampling, LazyVector};
use std::hint::black_box;
use std::time::Instant;

struct Case {
    mechanism: &'static str,
    sampling: LazySampling,
    horizon: u64,
    coordinates: u64,
    /// How many different running sums are read, in turn.
    touched: u64,
    /// Steps between two rounds through all of them; 0 = as many as fit evenly.
    gap: u64,
}

fn main() {
    let mut numbers = std::env::args().filter_map(|arg| arg.parse().ok());
    let (reads, only) = (numbers.next().unwrap_or(10_000_000u64), numbers.next());
    println!("of which one ChaCha20 block: {:.1} ns", block());
    println!(
        "{:26} {:8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>12}",
        "mechanism", "sampling", "horizon", "k", "touched", "gap", "ns/read", "bytes/touched"
    );
    for case in cases().iter().enumerate().filter(|(row, _)| only.is_none_or(|only| only == *row as u64)) {
        case.1.run(reads);
    }
}

/// Nanoseconds for the bits of a read: what no read can do without.
fn block() -> f64 {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    let noise = KeyedNoise::unrecorded(&key, &"bench".parse().expect("a valid name"), &[0; 32], Purpose::Reads(0));
    let mut times: Vec<f64> = (0..1000)
        .map(|step| {
            let start = Instant::now();
            (0..1000).for_each(|sum| _ = black_box(noise.bits_of_read(sum, step).next_u64()));
            start.elapsed().as_nanos() as f64 / 1000.0
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn cases() -> Vec<Case> {
    let base = |mechanism, sampling| Case {
        mechanism,
        sampling,
        horizon: 1 << 20,
        coordinates: 1_000_000_000,
        touched: 1000,
        gap: 0,
    };
    let tree = || base("path-sum", LazySampling::Float);
    let mut cases: Vec<Case> = vec![];
    cases.extend([10, 20, 30, 40, 50, 62].map(|bits| Case { horizon: 1 << bits, ..tree() }));
    cases.extend([1000, 1_000_000, 1 << 40].map(|coordinates| Case { coordinates, ..tree() }));
    cases.extend([1, 16, 1 << 20, 1 << 40].map(|gap| Case { horizon: 1 << 62, gap, ..tree() }));
    cases.extend([10, 100_000, 1_000_000, 10_000_000].map(|touched| Case { touched, ..tree() }));
    for (mechanism, sampling) in [
        ("binary", LazySampling::Float),
        ("smooth", LazySampling::Float),
        ("blt(buffers=4)", LazySampling::Float),
        ("normalized-blt(buffers=4)", LazySampling::Float),
        ("blt", LazySampling::Float),
        ("normalized-blt", LazySampling::Float),
        ("path-sum", LazySampling::Integer),
        ("path-sum", LazySampling::Keyed),
    ] {
        cases.push(base(mechanism, sampling));
    }
    for sampling in [LazySampling::Float, LazySampling::Integer, LazySampling::Keyed] {
        cases.push(base("subtract(k=13)", sampling));
    }
    cases
}

impl Case {
    fn plan(&self) -> evertally::Result<LazyPlan> {
        let pure = self.mechanism.starts_with("subtract");
        let budget = if pure { Budget::Pure(Epsilon::new(1.0)?) } else { Budget::Zcdp(Rho::new(0.5)?) };
        let mechanism = Some(self.mechanism.parse()?);
        let plan = PlanRequest::count(self.horizon, budget).with_optional_mechanism(mechanism).plan()?;
        LazyPlan::new(plan, self.coordinates, self.sampling)
    }

    fn run(&self, reads: u64) {
        let name = || "bench".parse().expect("a valid name");
        let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
        let vector = self.plan().and_then(|plan| LazyVector::new(plan, &key, name()));
        let mut vector = match vector {
            Ok(vector) => vector,
            Err(error) => return println!("{:26} {:8} {error}", self.mechanism, self.sampling.to_string()),
        };
        // Slow ways get fewer reads.
        let reads = if self.sampling == LazySampling::Float { reads } else { reads / 10 };
        let rounds = (reads / self.touched).clamp(1, self.horizon);
        let gap = if self.gap > 0 { self.gap } else { self.horizon / rounds };
        let rounds = rounds.min(self.horizon / gap);
        // An odd multiplier, so that coordinates are neither neighbours nor alike.
        let coordinate = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.coordinates;
        // Nanoseconds a read, for chunks shorter than the slices in which a busy machine shares out its cores.
        let mut times = vec![];
        for _ in 0..rounds {
            vector.tick_through(vector.step() + gap).expect("within the horizon");
            let mut next = 0;
            while next < self.touched {
                let chunk = next..self.touched.min(next + 1000);
                let (start, count) = (Instant::now(), chunk.end - next);
                next = chunk.end;
                for i in chunk {
                    black_box(vector.read(coordinate(i)).expect("a coordinate of the vector"));
                }
                times.push(start.elapsed().as_nanos() as f64 / count as f64);
            }
        }
        times.sort_by(f64::total_cmp);
        println!(
            "{:26} {:8} {:>8} {:>8} {:>9} {:>9} {:>9.1} {:>12.0}",
            self.mechanism,
            self.sampling.to_string(),
            format!("2^{}", self.horizon.ilog2()),
            format!("{:.0e}", self.coordinates as f64),
            vector.touched(),
            gap,
            times[times.len() / 2],
            vector.memory_bytes() as f64 / vector.touched().max(1) as f64,
        );
    }
}
