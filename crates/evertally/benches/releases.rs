//! Cost of one release of every mechanism over 2^20 steps, of finding a plan, and of reaching a far step.
//!
//! `tick`: a step of a whole stream, from the open sum to the release. `cursor`: its noise alone, with the same draws.

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use evertally::noise::{GuardedKey, KeyedNoise, Node, Purpose, TestSeed};
use evertally::plan::{NoiseKind, Objective, Plan, PlanRequest};
use evertally::privacy::{Budget, Delta, Epsilon, Rho};
use evertally::stream::RunningSum;

/// Every family; the open ones take the shape that is best for the horizon.
const MECHANISMS: [&str; 9] = [
    "input",
    "output",
    "binary",
    "honaker-online",
    "kary(k=3)",
    "subtract(k=4)",
    "subtract(k=5)",
    "subtract(k=19)",
    "smooth",
];

/// These have no pure budget.
const GAUSSIAN_ONLY: [&str; 3] = ["blt", "normalized-blt", "optimal"];

fn mechanisms(kind: NoiseKind) -> impl Iterator<Item = &'static str> {
    let more = if kind == NoiseKind::Gaussian { &GAUSSIAN_ONLY[..] } else { &[] };
    MECHANISMS.iter().chain(more).copied()
}

fn key() -> GuardedKey {
    GuardedKey::insecure_from_test_seed(TestSeed(1))
}

fn budget(kind: NoiseKind) -> Budget {
    match kind {
        NoiseKind::Laplace => Budget::Pure(Epsilon::new(1.0).expect("a valid epsilon")),
        NoiseKind::Gaussian => Budget::Zcdp(Rho::new(0.1).expect("a valid rho")),
    }
}

fn plan(mechanism: &str, horizon: u64, kind: NoiseKind) -> Plan {
    let mechanism = Some(mechanism.parse().expect("a known mechanism"));
    let request = PlanRequest::count(horizon, budget(kind)).with_optional_mechanism(mechanism).with_noise(kind);
    request.plan().expect("a valid plan")
}

fn noise(plan: &Plan) -> KeyedNoise {
    KeyedNoise::unrecorded(&key(), &"bench".parse().expect("a valid name"), &plan.digest(), Purpose::Total)
}

/// A group whose times are for one release.
fn group<'c>(c: &'c mut Criterion, what: &str, kind: NoiseKind) -> BenchmarkGroup<'c, WallTime> {
    let law = if kind == NoiseKind::Laplace { "laplace" } else { "gaussian" };
    let mut group = c.benchmark_group(format!("{what}/{law}"));
    group.throughput(Throughput::Elements(1));
    group
}

fn ticks(c: &mut Criterion) {
    for kind in [NoiseKind::Gaussian, NoiseKind::Laplace] {
        let mut group = group(c, "tick", kind);
        for mechanism in mechanisms(kind) {
            let plan = plan(mechanism, 1 << 20, kind);
            let new = || RunningSum::new(plan.clone(), &key(), "bench".parse().expect("a valid name"));
            let mut stream = new().expect("every plan has a stream");
            group.bench_function(mechanism, |b| {
                b.iter(|| {
                    if stream.step() == 1 << 20 {
                        stream = new().expect("every plan has a stream");
                    }
                    stream.add(1).expect("counts fit");
                    stream.tick().expect("within the horizon")
                });
            });
        }
    }
}

/// Windows and decays without an end.
fn windows(c: &mut Criterion) {
    let mut group = group(c, "window", NoiseKind::Gaussian);
    for workload in ["window(7)", "window(30)", "window(168)", "window(8760)", "decay(30)"] {
        let request = PlanRequest::count(1 << 62, budget(NoiseKind::Gaussian));
        let plan = request.with_workload(workload.parse().expect("a workload")).plan().expect("a valid plan");
        let mut stream = RunningSum::new(plan, &key(), "bench".parse().expect("a valid name")).expect("a stream");
        group.bench_function(workload, |b| {
            b.iter(|| {
                stream.add(1).expect("counts fit");
                stream.tick().expect("there is no end")
            });
        });
    }
}

fn cursors(c: &mut Criterion) {
    for kind in [NoiseKind::Gaussian, NoiseKind::Laplace] {
        let mut group = group(c, "cursor", kind);
        for mechanism in mechanisms(kind) {
            let plan = plan(mechanism, 1 << 20, kind);
            let (noise, law) = (noise(&plan), plan.law());
            let mut cursor = plan.mechanism().cursor();
            group.bench_function(mechanism, |b| {
                b.iter(|| {
                    if cursor.step() == 1 << 20 {
                        cursor = plan.mechanism().cursor();
                    }
                    cursor.advance(&mut |node| law.sample(&mut noise.bits(node)))
                });
            });
        }
    }
}

/// A whole release of a year of hours, for the mechanisms whose cost grows with the horizon.
fn years_of_hours(c: &mut Criterion) {
    const STEPS: u64 = 8760;
    let mut group = c.benchmark_group("year of hours");
    group.throughput(Throughput::Elements(STEPS)).sample_size(10);
    for (mechanism, kind) in [
        ("sqrt", NoiseKind::Gaussian),
        ("normalized-sqrt", NoiseKind::Gaussian),
        ("consistent", NoiseKind::Laplace),
        ("smooth", NoiseKind::Gaussian),
    ] {
        let plan = plan(mechanism, STEPS, kind);
        group.bench_function(mechanism, |b| {
            b.iter(|| {
                let name = "bench".parse().expect("a valid name");
                let mut stream = RunningSum::new(plan.clone(), &key(), name).expect("every plan has a stream");
                (0..STEPS).for_each(|_| {
                    black_box(stream.tick().expect("within the horizon"));
                });
            });
        });
    }
}

/// Any step of 2^40 from any other, for the mechanisms that need not read every node before it.
fn seeks(c: &mut Criterion) {
    let mut group = group(c, "seek", NoiseKind::Gaussian);
    for mechanism in MECHANISMS {
        let plan = plan(mechanism, 1 << 40, NoiseKind::Gaussian);
        if !plan.mechanism().name().family().abilities.random_access {
            continue;
        }
        let (noise, law) = (noise(&plan), plan.law());
        let mut cursor = plan.mechanism().cursor();
        let mut step = 1u64;
        group.bench_function(mechanism, |b| {
            b.iter(|| {
                step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                cursor.seek(1 + (step >> 24), &mut |node: Node| law.sample(&mut noise.bits(node)))
            });
        });
    }
}

/// The whole search, and a stream from a finished plan.
fn plans(c: &mut Criterion) {
    let mut group = c.benchmark_group("plan");
    let approximate = Budget::Approximate(Epsilon::new(1.0).expect("valid"), Delta::new(1e-6).expect("valid"));
    let budgets =
        [("pure", budget(NoiseKind::Laplace)), ("zcdp", budget(NoiseKind::Gaussian)), ("approximate", approximate)];
    for (name, budget) in budgets {
        for (objective, which) in [(Objective::Max, "max"), (Objective::Mean, "mean")] {
            group.bench_function(format!("{name}/{which}"), |b| {
                b.iter(|| {
                    let request = PlanRequest::count(black_box(1_000_000), budget).with_objective(objective);
                    request.plan().expect("a valid plan")
                });
            });
        }
    }
    group.finish();
    let plan = plan("subtract(k=5)", 1 << 20, NoiseKind::Laplace);
    c.bench_function("new stream", |b| {
        b.iter(|| RunningSum::new(plan.clone(), &key(), "bench".parse().expect("a valid name")));
    });
}

fn config() -> Criterion {
    Criterion::default().warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(700))
}

criterion_group! { name = benches; config = config(); targets = ticks, windows, cursors, seeks, years_of_hours, plans }
criterion_main!(benches);
