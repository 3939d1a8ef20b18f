//! Long searches ask often, and end soon after they are cancelled.

use super::*;
use crate::mechanism::{Criterion, Mechanism, MechanismName, NoiseKind, Objective, Participation, Workload};
use crate::privacy::Spread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The result of a build that is cancelled after this many questions, and how often it asked.
fn watched(name: &str, horizon: u64, criterion: &Criterion, most: usize) -> (Result<Arc<dyn Mechanism>>, usize) {
    let asked = AtomicUsize::new(0);
    let is_cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= most;
    let name: MechanismName = name.parse().unwrap();
    let built = name.build(horizon, &criterion.with_watch(SearchWatch::new(&is_cancelled)));
    (built, asked.load(Ordering::Relaxed))
}

/// Searches ask often. Once cancelled, a descent ends after a few rejected points, and a comparison of mechanisms asks
/// about those that are left, without an evaluation.
#[test]
fn cancelled_searches_end_soon() {
    let unit = Participation::new(8, 8).unwrap();
    let vectors = Criterion::from_vectors(Objective::Max, unit);
    let events = Criterion::new(NoiseKind::Gaussian, Objective::Max).exact();
    let events = events.with_spread(Spread { separation: 8, ..Spread::new(8, 1) });
    let single = Criterion::new(NoiseKind::Gaussian, Objective::Max);
    let laplace = Criterion::new(NoiseKind::Laplace, Objective::Max);
    let windows = single.with_workload(Workload::Window(7));
    for (name, horizon, criterion, descends) in [
        ("epoch-bands(bands=8)", 64, vectors, true),
        ("dense(run=3,gap=7)", 30, vectors, true),
        ("normalized-blt", 64, events, true),
        ("blt(buffers=3)", 64, vectors, true),
        ("smooth", 64, vectors, false),
        ("consistent", 64, events, false),
        ("banded-inverse(bands=8)", 64, vectors, false),
        ("normalized-blt(run=8,gap=8)", 64, events, true),
        ("normalized-blt(buffers=2,run=8,gap=8)", 64, events, true),
        ("blt", 64, single, true),
        ("dense", 40, single, false),
        ("banded(run=2,gap=8)", 64, windows, true),
        ("hats", 200, laplace, false),
        ("rolling-hats", 200, laplace.with_workload(Workload::Window(20)), false),
    ] {
        let (whole, asked) = watched(name, horizon, &criterion, usize::MAX);
        let plain = name.parse::<MechanismName>().unwrap().build(horizon, &criterion).unwrap();
        assert_eq!(whole.unwrap().name(), plain.name(), "a watch has no influence");
        assert!(asked > 20, "{name}: {asked} questions");
        for most in [0, asked / 2] {
            let (cancelled, until) = watched(name, horizon, &criterion, most);
            assert!(cancelled.unwrap_err().is_cancelled(), "{name} after {most}");
            let limit = if descends { most + 100.max(asked / 10) } else { asked };
            assert!(until <= limit, "{name}: {until} questions, cancelled after {most} of {asked}");
        }
    }
}
