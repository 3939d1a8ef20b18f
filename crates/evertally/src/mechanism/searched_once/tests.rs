use super::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// A cancelled search leaves nothing, also if its watch takes the answer back.
#[test]
fn only_complete_searches_are_kept() {
    let once = SearchedOnce::new();
    let searched = |answers: &[bool]| {
        let asked = AtomicUsize::new(0);
        let is_cancelled = || answers[asked.fetch_add(1, Ordering::Relaxed)];
        let search = |watch: SearchWatch<'_>| Ok((0..3).filter(|_| !watch.is_cancelled()).count());
        // Nothing asks again once the search is cancelled.
        once.get(SearchWatch::new(&is_cancelled), search)
            .copied()
            .map_err(|error| (error.is_cancelled(), asked.load(Ordering::Relaxed)))
    };
    assert_eq!(searched(&[true]), Err((true, 1)));
    assert_eq!(searched(&[false, false, true]), Err((true, 3)));
    assert_eq!(searched(&[false, true, false]), Err((true, 2)));
    assert_eq!(searched(&[false; 3]), Ok(3));
    assert_eq!(searched(&[]), Ok(3), "found before");
}

/// Errors of a search are returned, and not kept either.
#[test]
fn a_failed_search_is_repeated() {
    let (once, runs) = (SearchedOnce::new(), Cell::new(0));
    let searched = |found: Result<u32>| {
        let search = |_: SearchWatch<'_>| {
            runs.set(runs.get() + 1);
            found
        };
        once.get(SearchWatch::NONE, search).copied()
    };
    assert!(searched(Err(crate::Error::invalid("no"))).unwrap_err().is_invalid());
    assert_eq!((searched(Ok(7)), searched(Ok(8)), runs.get()), (Ok(7), Ok(7), 2));
}

/// A thread that waits for another one's search can be cancelled, and otherwise gets its result.
#[test]
fn waiting_threads_are_cancelled_too() {
    let (once, cancelled) = (SearchedOnce::new(), AtomicBool::new(false));
    let (begun, is_searching) = channel();
    let (end, may_end) = channel();
    std::thread::scope(|scope| {
        let once = &once;
        scope.spawn(move || {
            let search = |_: SearchWatch<'_>| {
                begun.send(()).unwrap();
                may_end.recv().unwrap();
                Ok(1)
            };
            assert_eq!(once.get(SearchWatch::NONE, search), Ok(&1));
        });
        is_searching.recv().unwrap();
        cancelled.store(true, Ordering::Relaxed);
        let is_cancelled = || cancelled.load(Ordering::Relaxed);
        let other = once.get(SearchWatch::new(&is_cancelled), |_| Ok(2));
        assert!(other.unwrap_err().is_cancelled());
        let waiting = scope.spawn(|| once.get(SearchWatch::NONE, |_| Ok(2)).copied());
        end.send(()).unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(1));
    });
}
