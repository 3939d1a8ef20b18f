//! How long a release takes: streams that really run, with a test key.

use evertally::mechanism::Mechanism;
use evertally::noise::{GuardedKey, TestSeed};
use evertally::plan::{NoiseKind, Plan, PlanRequest};
use evertally::privacy::{Budget, Epsilon, Rho};
use evertally::stream::RunningSum;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Steps of a mechanism whose later steps cost more that are run, however long they take.
const WHOLE: u64 = 1 << 14;
/// How long a round of a measurement is: shorter than the slices in which a busy machine shares out its cores.
const ROUND: Duration = Duration::from_millis(2);
/// Releases between two looks at the clock.
const BATCH: u64 = 64;

/// A measured time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) ns_per_step: f64,
    /// How many releases were run, in all rounds.
    pub(crate) steps: u64,
    /// Whether later steps cost more and were not reached: the time of a whole stream is longer.
    pub(crate) at_least: bool,
}

/// Runs streams of a mechanism for about `limit`: discrete Gaussian noise at ρ = 0.5, or Laplace noise at ε = 1 where
/// the mechanism is for that alone. Making a stream is not timed, only its releases. Of short rounds the fastest
/// counts: whatever else the machine does only adds time. A round of a mechanism whose later steps cost more is a whole
/// stream.
pub(crate) fn time_per_step(mechanism: &dyn Mechanism, limit: Duration) -> evertally::Result<Timing> {
    let plan = plan(mechanism)?;
    let heavy = mechanism.name().is_heavy();
    let last = if heavy { mechanism.horizon().min(WHOLE) } else { mechanism.horizon() };
    let (least_steps, least_time) = if heavy { (last, Duration::ZERO) } else { (BATCH, ROUND.min(limit)) };
    let mut best = Timing { ns_per_step: f64::INFINITY, steps: 0, at_least: last < mechanism.horizon() };
    let (mut spent, mut rounds) = (Duration::ZERO, 0);
    // On a busy machine a single round may take all the time there is.
    while rounds < if heavy { 2 } else { 5 } || spent < limit {
        rounds += 1;
        let round = round(&plan, last, least_steps, least_time)?;
        best.ns_per_step = best.ns_per_step.min(round.0.as_nanos() as f64 / round.1 as f64);
        best.steps += round.1;
        spent += round.0;
    }
    Ok(best)
}

/// Streams of `last` steps one after the other, until enough steps were run for long enough: time and steps.
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
