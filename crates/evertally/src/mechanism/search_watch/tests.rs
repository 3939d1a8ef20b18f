//! Long searches ask often, and end soon after they are cancelled.

use super::*;
use crate::mechanism::{
    Blt, BufferChoice, Criterion, Mechanism, MechanismName, Mix, NoiseKind, Objective, Participation, SquareRoot,
    Workload,
};
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

/// The result of a computation that asks at least this often. Cancelled at any question, it ends at once, and leaves
/// nothing to the next one.
fn interrupted<T: PartialEq + fmt::Debug>(
    what: &str,
    least: usize,
    compute: impl Fn(SearchWatch<'_>) -> Result<T>,
) -> T {
    let after = |most: usize| {
        let asked = AtomicUsize::new(0);
        let is_cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= most;
        let found = compute(SearchWatch::new(&is_cancelled));
        (found, asked.load(Ordering::Relaxed))
    };
    let (whole, all) = after(usize::MAX);
    let whole = whole.unwrap();
    assert!(all >= least, "{what}: {all} questions");
    for most in [0, 1, all / 2, all - 1].into_iter().filter(|most| *most < all) {
        let (found, asked) = after(most);
        assert!(found.is_err_and(|error| error.is_cancelled()), "{what}, cancelled after {most} of {all} questions");
        assert!(asked <= most + 2, "{what}: {asked} questions, cancelled after {most}");
    }
    assert_eq!(compute(SearchWatch::NONE).unwrap(), whole, "{what}");
    whole
}

/// Builds that are one long computation each.
#[test]
fn cancelled_builds_end_at_once() {
    let vectors = Criterion::from_vectors(Objective::Max, Participation::ONCE);
    let mix = Mix::new(&[(Workload::Sum, 1.0), (Workload::Window(7), 1.0)]).unwrap();
    let mix = Criterion::new(NoiseKind::Gaussian, Objective::Max).with_mix(Some(mix));
    for (name, horizon, criterion, least) in [
        ("normalized-sqrt", 1000, vectors, 20),
        ("banded-sqrt(bands=200)", 3000, vectors, 30),
        ("banded(run=3,gap=2)", 500, mix, 100),
    ] {
        interrupted(name, least, |watch| {
            let built = name.parse::<MechanismName>().unwrap().build(horizon, &criterion.with_watch(watch))?;
            Ok((built.name(), built.max_row_norm_squared().to_bits()))
        });
    }
}

/// Bounds for units, by steps and by blocks of steps, and the effect of rounding.
#[test]
fn cancelled_bounds_end_at_once() {
    let unit = |most, separation| Participation::new(most, separation).unwrap();
    let events = |runs: Participation| Spread { separation: runs.separation(), ..Spread::new(runs.most(), 1) };
    let buffers = "blt(buffers=2)".parse::<MechanismName>().unwrap();
    let buffers = buffers.build(1 << 17, &Criterion::new(NoiseKind::Gaussian, Objective::Max)).unwrap();
    let MechanismName::Blt(BufferChoice::Given(buffers)) = buffers.name() else { panic!("{}", buffers.name()) };
    let weighted = |horizon| Blt::for_runs(horizon, unit(3, 50), buffers).unwrap();
    let equal = |horizon| Blt::for_runs(horizon, Participation::ONCE, buffers).unwrap();
    // Questions for steps with vectors, and for events.
    let mechanisms: [(&str, Box<dyn Mechanism>, Participation, [usize; 2]); 5] = [
        ("square root by steps", Box::new(SquareRoot::normalized(2000).unwrap()), unit(200, 5), [10, 10]),
        ("weights by steps", Box::new(weighted(4000)), unit(100, 30), [10, 10]),
        ("weights by blocks", Box::new(weighted(1 << 17)), unit(1 << 9, 100), [100, 100]),
        ("one length by steps", Box::new(equal(4000)), unit(100, 30), [10, 1]),
        ("one length, one pass", Box::new(equal(1 << 16)), unit(1 << 13, 7), [10, 10]),
    ];
    for (what, mechanism, runs, least) in mechanisms {
        let squared = interrupted(what, least[0], |watch| mechanism.participation_squared_watched(runs, watch));
        assert_eq!(squared, mechanism.participation_squared(runs), "{what}");
        let numbers = [2, runs.most() / 2, runs.most()];
        let squares =
            interrupted(what, least[1], |watch| mechanism.spreads_squared_watched(events(runs), &numbers, watch));
        assert_eq!(squares, mechanism.spreads_squared(events(runs), &numbers), "{what}");
    }
    for build in [SquareRoot::new, SquareRoot::normalized] {
        let growth = interrupted("growth", 20, |watch| build(1000)?.row_growth_watched(watch));
        // A mechanism does not keep the result of a computation that was cancelled.
        let kept = build(1000).unwrap();
        for most in [0, 3, 15] {
            let asked = AtomicUsize::new(0);
            let is_cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= most;
            assert!(kept.row_growth_watched(SearchWatch::new(&is_cancelled)).is_err());
        }
        assert_eq!(kept.row_growth(), growth);
    }
}
