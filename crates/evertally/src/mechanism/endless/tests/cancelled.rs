//! Cancelled searches for epochs.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A search that is cancelled after some questions asks no more than a few others, and leaves nothing to later ones.
#[test]
fn cancelled_searches_end_soon_and_leave_nothing() {
    for (inside, all) in [
        (Inside::Normalized, &[0, 1, 50, 400][..]),
        (Inside::Plain, &[0, 30]),
        (Inside::Trees, &[0, 5, 15]),
        (Inside::Hats, &[0, 2]),
    ] {
        let once = SearchedOnce::new();
        for most in all {
            let asked = AtomicUsize::new(0);
            let is_cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= *most;
            let found = once.get(SearchWatch::new(&is_cancelled), |watch| epochs::all(inside, watch));
            assert!(found.unwrap_err().is_cancelled(), "{inside} after {most}");
            let asked = asked.into_inner();
            assert_eq!(asked, most + 1, "{inside}: the answer is kept");
        }
        if !matches!(inside, Inside::Normalized | Inside::Plain) {
            let found = once.get(SearchWatch::NONE, |watch| epochs::all(inside, watch)).unwrap();
            let whole = Endless::new(MAX_HORIZON, inside).unwrap();
            assert_eq!(epoch::digest(found), whole.digest);
        }
    }
}

/// The same for growing buffers, and for the choice among all endless mechanisms, with tables that later calls use.
#[test]
fn tables_are_those_of_complete_searches() {
    let spread = Spread::new(11, 1);
    let runs = Participation::new(11, 1).unwrap();
    let cancelled_after = |most: usize| {
        let asked = AtomicUsize::new(0);
        let is_cancelled = || asked.fetch_add(1, Ordering::Relaxed) >= most;
        let watch = SearchWatch::new(&is_cancelled);
        (best_for(MAX_HORIZON, spread, runs, watch), Endless::growing_searched(MAX_HORIZON, runs, watch))
    };
    for most in [0, 3, 60, 700] {
        let (best, growing) = cancelled_after(most);
        // Other tests may have filled the tables; then nothing asks.
        for found in [best, growing] {
            assert!(found.is_ok() || found.unwrap_err().is_cancelled());
        }
    }
    let fresh = epochs::growing(runs, SearchWatch::NONE).unwrap();
    let known = Endless::growing(MAX_HORIZON, runs).unwrap();
    assert_eq!(known.digest, epoch::digest(&fresh));
    let best = best_for(MAX_HORIZON, spread, runs, SearchWatch::NONE).unwrap();
    assert_eq!(best.digest, known.digest);
}
