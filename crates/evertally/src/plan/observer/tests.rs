//! Searches report every mechanism and end when they are cancelled.

use super::*;
use crate::mechanism::{Mix, Workload};
use crate::plan::{PlanRequest, Readings, Search, ranking::Ranking};
use crate::privacy::{Budget, Delta, Epsilon, Rho, Unit};
use std::sync::atomic::AtomicUsize;

/// The result of a search that is cancelled at a report, and the reports.
fn observed(request: &PlanRequest, cancelled_at: usize) -> (Result<()>, Vec<(usize, usize)>) {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&reports);
    let observer = SearchObserver::new(move |progress| {
        let SearchProgress::Mechanisms { done, total: Some(total) } = progress else { panic!("{progress:?}") };
        noted.lock().unwrap().push((done, total));
        if done == cancelled_at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let plain = request.clone().plan().unwrap();
    let request = request.clone().with_search(Search::default().with_observer(observer));
    let planned = request.plan().map(|plan| assert_eq!(plan.digest(), plain.digest()));
    let mut reports = reports.lock().unwrap().clone();
    reports.dedup(); // while the parameters of one mechanism are searched
    (planned, reports)
}

/// Both kinds of noise count together, and an observer changes nothing in the plan.
#[test]
fn every_mechanism_is_reported() {
    let budget = Budget::Approximate(Epsilon::new(1.0).unwrap(), Delta::new(1e-6).unwrap());
    let request = PlanRequest::count(30, budget).with_unit(Unit::person(3).per_step(1).apart(7));
    let (planned, reports) = observed(&request, usize::MAX);
    planned.unwrap();
    let total = reports[0].1;
    assert!(total > 10, "{total}");
    assert_eq!(reports, (0..total).map(|done| (done, total)).collect::<Vec<_>>());
    let named = request.with_mechanism("binary".parse().unwrap());
    assert_eq!(observed(&named, usize::MAX).1, [(0, 2), (1, 2)]);
}

/// A cancelled search compares no further mechanism, and reports neither a plan nor the refusal of a mechanism.
#[test]
fn a_cancelled_search_ends_at_once() {
    let request = PlanRequest::count(30, Budget::Pure(Epsilon::new(1.0).unwrap()));
    for at in [0, 1, 4] {
        let (planned, reports) = observed(&request, at);
        assert!(planned.unwrap_err().is_cancelled());
        assert_eq!(reports.len(), at + 1);
    }
}

/// The windows next to a ranking are computed after the search: their mechanisms are not counted from 0 again.
#[test]
fn a_ranking_after_a_search_reports_that_it_is_complete() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&reports);
    let observer = SearchObserver::new(move |progress| {
        noted.lock().unwrap().push(progress);
        ControlFlow::Continue(())
    });
    let request = PlanRequest::count(30, Budget::Zcdp(Rho::new(0.5).unwrap()));
    let request = request.with_search(Search::default().with_observer(observer));
    let candidates = request.candidates().unwrap();
    let compared = reports.lock().unwrap().len();
    assert!(!Ranking::new(&request, &candidates).unwrap().unwrap().windows.is_empty());
    let after = reports.lock().unwrap().split_off(compared);
    assert!(!after.is_empty() && after.iter().all(|progress| *progress == SearchProgress::Share(1.0)), "{after:?}");
}

/// The digest of a plan whose search is cancelled after this many reports, and the number of reports.
fn reported(request: &PlanRequest, most: usize) -> (Result<[u8; 32]>, usize) {
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    let observer = SearchObserver::new(move |_| {
        let mut count = counted.lock().unwrap();
        *count += 1;
        if *count > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let planned = request.clone().with_search(Search::default().with_observer(observer)).plan();
    (planned.map(|plan| plan.digest()), *count.lock().unwrap())
}

/// A search for the parameters of one mechanism ends, too, and reports no more once it is cancelled; so do the long
/// computations of mechanisms without parameters. Later plans are as if nothing had happened.
#[test]
fn a_search_for_one_mechanism_is_cancelled() {
    let request = |horizon| PlanRequest::count(horizon, Budget::Zcdp(Rho::new(0.5).unwrap()));
    let named = |horizon, name: &str| request(horizon).with_mechanism(name.parse().unwrap());
    let person = Unit::person(6).per_step(1).apart(16);
    let mix = Mix::new(&[(Workload::Sum, 1.0), (Workload::Window(7), 1.0)]).unwrap();
    for (request, least) in [
        (named(96, "normalized-blt").with_unit(person), 100),
        (named(2000, "sqrt"), 30),
        (named(2000, "normalized-sqrt").with_unit(person), 100),
        (named(20_000, "normalized-blt(buffers=2,run=3,gap=7)").with_unit(Unit::person(400).per_step(1)), 100),
        (request(500).with_mix(mix).with_unit(person), 100),
    ] {
        let (planned, all) = reported(&request, usize::MAX);
        let digest = planned.unwrap();
        assert!(all >= least, "{all} reports for {request:?}");
        for most in [0, 1, all / 10, all / 2, all - 1] {
            let (planned, reports) = reported(&request, most);
            assert!(planned.unwrap_err().is_cancelled() && reports == most + 1, "{reports} after {most}");
        }
        assert_eq!(request.plan().unwrap().digest(), digest);
    }
}

/// Windows whose search is cancelled are not omitted as if they did not fit.
#[test]
fn a_cancelled_ranking_is_no_ranking() {
    let request = PlanRequest::count(30, Budget::Zcdp(Rho::new(0.5).unwrap()));
    let candidates = request.candidates().unwrap();
    let search = Search::default().with_observer(SearchObserver::new(|_| ControlFlow::Break(())));
    assert!(Ranking::new(&request.with_search(search), &candidates).unwrap_err().is_cancelled());
}

/// Several workloads have a search each, and one together; all of them are counted as one.
#[test]
fn searches_in_a_row_never_start_again() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&reports);
    let observer = SearchObserver::new(move |progress| {
        let SearchProgress::Mechanisms { done, total: Some(total) } = progress else { panic!("{progress:?}") };
        noted.lock().unwrap().push((done, total));
        ControlFlow::Continue(())
    });
    let mix = Mix::new(&[(Workload::Sum, 1.0), (Workload::Window(7), 1.0)]).unwrap();
    let request = PlanRequest::count(30, Budget::Zcdp(Rho::new(0.5).unwrap())).with_mix(mix);
    Readings::plan(request.with_search(Search::default().with_observer(observer))).unwrap();
    let reports = reports.lock().unwrap();
    assert!(reports.is_sorted() && reports.iter().all(|(done, total)| done < total), "{reports:?}");
    let totals = reports.chunk_by(|(_, total), (_, next)| total == next).count();
    assert!(totals > 3 && reports[0].0 == 0, "{reports:?}");
}

/// Endless plans and their rankings are cancelled, too, at any report, and later ones are as if nothing had happened.
#[test]
fn endless_plans_are_cancelled() {
    let request = PlanRequest::unbounded(Budget::Zcdp(Rho::new(0.5).unwrap()));
    let of = |most: usize| {
        let reports = AtomicUsize::new(0);
        let observer = SearchObserver::new(move |_| match reports.fetch_add(1, Ordering::Relaxed) < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        let request = request.clone().with_search(Search::default().with_observer(observer));
        let (plan, candidates) = request.clone().plan_with_candidates()?;
        let ranking = Ranking::new(&request, &candidates)?.unwrap();
        Ok((plan.digest(), serde_json::to_string(&ranking).unwrap()))
    };
    let found: Vec<Result<_>> = [0, 1, 2, 30, 300, 2000].map(of).into();
    let whole = of(usize::MAX).unwrap();
    assert!(found[0].as_ref().unwrap_err().is_cancelled());
    for found in found {
        // Tables that other tests have filled ask nothing.
        match found {
            Ok(found) => assert_eq!(found, whole),
            Err(error) => assert!(error.is_cancelled(), "{error}"),
        }
    }
}
