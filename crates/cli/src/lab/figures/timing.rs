//! Measures the time of a release on real streams, with a test key.

use evertally::mechanism::Mechanism;
use evertally::noise::{GuardedKey, TestSeed};
use evertally::plan::{NoiseKind, Plan, PlanRequest};
use evertally::privacy::{Budget, Epsilon, Rho};
use evertally::stream::RunningSum;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The minimum number of steps to run of a mechanism whose later steps cost more, regardless of time.
const WHOLE: u64 = 1 << 14;
/// The duration of a measurement round: shorter than the time slices of a busy machine.
const ROUND: Duration = Duration::from_millis(2);
/// Releases between two reads of the clock.
const BATCH: u64 = 64;

/// A measured time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) ns_per_step: f64,
    /// The number of releases in all rounds.
    pub(crate) steps: u64,
    /// Whether later steps cost more but were not reached: the average over a whole stream is higher.
    pub(crate) at_least: bool,
}

/// Runs streams of a mechanism for about `limit`: discrete Gaussian noise at ρ = 0.5, or Laplace noise at ε = 1 if the
/// mechanism supports only that. Only releases are timed, not the creation of a stream. The fastest of the short rounds
/// counts, because other work on the machine only adds time. For a mechanism whose later steps cost more, a round is a
/// whole stream.
pub(crate) fn time_per_step(mechanism: &dyn Mechanism, limit: Duration) -> evertally::Result<Timing> {
    let plan = plan(mechanism)?;
    let heavy = mechanism.name().is_heavy();
    let last = if heavy { mechanism.horizon().min(WHOLE) } else { mechanism.horizon() };
    let (least_steps, least_time) = if heavy { (last, Duration::ZERO) } else { (BATCH, ROUND.min(limit)) };
    let mut best = Timing { ns_per_step: f64::INFINITY, steps: 0, at_least: last < mechanism.horizon() };
    let (mut spent, mut rounds) = (Duration::ZERO, 0);
    // On a busy machine a single round may use up the whole limit.
    while rounds < if heavy { 2 } else { 5 } || spent < limit {
        rounds += 1;
        let round = round(&plan, last, least_steps, least_time)?;
        best.ns_per_step = best.ns_per_step.min(round.0.as_nanos() as f64 / round.1 as f64);
        best.steps += round.1;
        spent += round.0;
    }
    Ok(best)
}

/// Runs streams of `last` steps one after the other, until there are enough steps and enough time. Returns time and
/// steps.
fn round(plan: &Plan, last: u64, least_steps: u64, least_time: Duration) -> evertally::Result<(Duration, u64)> {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    let (mut spent, mut steps, mut number) = (Duration::ZERO, 0, 0u64);
    let enough = |steps, spent| steps >= least_steps && spent >= least_time;
    while !enough(steps, spent) {
        let mut stream = RunningSum::new(plan.clone(), &key, format!("timed {number}").parse()?)?;
        number += 1;
        while stream.step() < last && !enough(steps, spent) {
            let batch = BATCH.min(last - stream.step());
            let start = Instant::now();
            for _ in 0..batch {
                black_box(stream.tick()?);
            }
            spent += start.elapsed();
            steps += batch;
        }
    }
    Ok((spent, steps))
}

fn plan(mechanism: &dyn Mechanism) -> evertally::Result<Plan> {
    let named = mechanism.name();
    let with = |noise, budget| {
        let request = PlanRequest::count(mechanism.horizon(), budget);
        request.with_mechanism(named).with_noise(noise).plan()
    };
    with(NoiseKind::Gaussian, Budget::Zcdp(Rho::new(0.5)?))
        .or_else(|_| with(NoiseKind::Laplace, Budget::Pure(Epsilon::new(1.0)?)))
}
