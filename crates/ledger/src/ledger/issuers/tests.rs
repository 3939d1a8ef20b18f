use super::*;
use crate::ledger::{Absent, MemoryStore, OpenKey, PublicLedger, ledger_path, new_key};
use evertally::noise::TestSeed;
use evertally::plan::{Plan, PlanRequest};
use evertally::privacy::{Budget, Epsilon};
use evertally::stream::{GroupedSums, Groups, RunningSum};
use std::sync::atomic::AtomicBool;

fn plan() -> Plan {
    PlanRequest::count(8, Budget::Pure(Epsilon::new(1.0).unwrap())).plan().unwrap()
}

fn name(text: &str) -> StreamName {
    text.parse().unwrap()
}

fn open(key: &Path) -> Result<OpenKey> {
    OpenKey::of_file(Arc::new(RealDisk), key, Absent::Refuse, &AtomicBool::new(false), &mut |_| ())
}

/// Releases one step of a name.
fn release(key: &SecretKey, ledger: &mut Ledger, text: &str) -> Result<()> {
    let mut digest = ledger.stream(key, &name(text), &plan(), 1)?;
    digest.close_step(&[1])?;
    ledger.record(&mut digest)
}

/// For every pair of issuers: the second is refused, or is the same as the first.
#[test]
fn a_name_belongs_to_whoever_issues_its_noise_first() {
    let key = SecretKey::insecure_from_test_seed(TestSeed(1));
    for first in Issuer::ALL {
        let mut ledger = Ledger::create(MemoryStore::default(), &key).unwrap();
        release(&key, &mut ledger, "released").unwrap();
        let error = ledger.register(&name("released"), first, None).unwrap_err().to_string();
        assert!(error.contains("has been released"), "{error}");
        ledger.register(&name("a"), first, None).unwrap();
        ledger.register(&name("a"), first, None).unwrap();
        for second in Issuer::ALL.into_iter().filter(|second| *second != first) {
            let error = ledger.register(&name("a"), second, None).unwrap_err().to_string();
            assert!(error.contains(first.in_words()), "{error}");
        }
        assert_eq!(ledger.issuer_of(&name("a")), Some(first));
        let error = release(&key, &mut ledger, "a").unwrap_err().to_string();
        assert!(error.contains(first.in_words()) && error.contains("exact difference"), "{error}");
        release(&key, &mut ledger, "b").unwrap();
    }
}

/// A release that was begun before another issuer took the name is not recorded.
#[test]
fn a_release_that_was_begun_too_early_is_not_recorded() {
    let key = SecretKey::insecure_from_test_seed(TestSeed(1));
    let mut ledger = Ledger::create(MemoryStore::default(), &key).unwrap();
    let mut digest = ledger.stream(&key, &name("a"), &plan(), 1).unwrap();
    ledger.register(&name("a"), Issuer::Counter, None).unwrap();
    digest.close_step(&[1]).unwrap();
    assert!(ledger.record(&mut digest).is_err());
}

#[test]
fn another_log_of_steps_is_refused() {
    let key = SecretKey::insecure_from_test_seed(TestSeed(1));
    let store = MemoryStore::default();
    let mut ledger = Ledger::create(store.clone(), &key).unwrap();
    assert_eq!(ledger.step_log(), None);
    ledger.register(&name("a"), Issuer::Counter, None).unwrap();
    ledger.register(&name("a"), Issuer::Counter, Some("log 1")).unwrap();
    assert_eq!(ledger.step_log(), Some("log 1"));
    ledger.register(&name("c"), Issuer::Counter, Some("log 1")).unwrap();
    assert!(ledger.begin_step_log("log 2").is_err());
    assert!(
        ledger.register(&name("b"), Issuer::Counter, Some("log 2")).unwrap_err().to_string().contains("another log")
    );
    drop(ledger);
    let ledger = Ledger::open(store, &key).unwrap();
    assert_eq!((ledger.step_log(), ledger.issuer_of(&name("b"))), (Some("log 1"), None));
}

/// The ledger of a key file is the record of a Rust program, even after the program has restarted.
#[test]
fn a_program_issues_noise_once_and_restores_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    new_key(&path).unwrap();
    let state = {
        let key = open(&path).unwrap().guarded();
        let mut visits = RunningSum::new(plan(), &key, name("visits")).unwrap();
        assert!(RunningSum::new(plan(), &key, name("visits")).unwrap_err().is_noise_issued());
        // Other noise of the same name.
        GroupedSums::new(plan(), &key, name("visits"), Groups::new(["a"]).unwrap()).unwrap();
        visits.tick().unwrap();
        visits.save()
    };
    let key = open(&path).unwrap().guarded();
    let error = RunningSum::new(plan(), &key, name("visits")).unwrap_err();
    assert!(error.is_noise_issued() && error.to_string().contains("restore the last state"), "{error}");
    assert_eq!(RunningSum::restore(plan(), &key, name("visits"), &state).unwrap().step(), 1);
    drop(key);
    let OpenKey { key, mut ledger, .. } = open(&path).unwrap();
    assert!(release(&key, &mut ledger, "visits").unwrap_err().to_string().contains("a Rust program"));
    release(&key, &mut ledger, "released").unwrap();
    drop(ledger);
    let key = open(&path).unwrap().guarded();
    let error = RunningSum::new(plan(), &key, name("released")).unwrap_err();
    assert!(error.is_noise_issued() && error.to_string().contains("has been released"), "{error}");
    let error = RunningSum::restore(plan(), &key, name("unknown"), &state).unwrap_err();
    assert!(error.to_string().contains("has no record of"), "{error}");
}

/// A program that has ended does not hide its noise, and a running one keeps others out.
#[test]
fn what_a_program_has_claimed_is_on_disk_before_it_is_issued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    new_key(&path).unwrap();
    let key = open(&path).unwrap().guarded();
    RunningSum::new(plan(), &key, name("visits")).unwrap();
    // As after a crash, with a copy of the current files.
    let copy = folder.path().join("copy");
    for (from, to) in [(path.clone(), copy.clone()), (ledger_path(&path), ledger_path(&copy))] {
        std::fs::copy(from, to).unwrap();
    }
    let copied = open(&copy).unwrap().guarded();
    assert!(RunningSum::new(plan(), &copied, name("visits")).unwrap_err().is_noise_issued());
    let public = PublicLedger::read(&copy).unwrap();
    assert_eq!(public.issued().collect::<Vec<_>>(), [("visits", Issuer::RustProgram)]);
}

/// The same noise, claimed under two copies of a ledger, may have met different data: the copies are a fork.
#[test]
fn copies_under_which_the_same_noise_was_claimed_differ() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["k", "copy"].map(|name| folder.path().join(name));
    new_key(&paths[0]).unwrap();
    RunningSum::new(plan(), &open(&paths[0]).unwrap().guarded(), name("before")).unwrap();
    std::fs::copy(&paths[0], &paths[1]).unwrap();
    std::fs::copy(ledger_path(&paths[0]), ledger_path(&paths[1])).unwrap();
    let compared = || {
        let [one, other] = paths.each_ref().map(|path| PublicLedger::read(path).unwrap());
        one.compare_copies(&other).unwrap()
    };
    assert_eq!(compared(), Some(std::cmp::Ordering::Equal));
    let claim = |path: &Path| drop(RunningSum::new(plan(), &open(path).unwrap().guarded(), name("visits")).unwrap());
    claim(&paths[0]);
    assert_eq!(compared(), Some(std::cmp::Ordering::Greater));
    claim(&paths[1]);
    assert_eq!(compared(), None);
}

#[test]
fn a_release_draws_no_noise_of_other_streams() {
    let key = SecretKey::insecure_from_test_seed(TestSeed(1));
    let ledger = Ledger::in_memory(&key);
    let digest = ledger.stream(&key, &name("a"), &plan(), 1).unwrap();
    let key = digest.guarded(&key).unwrap();
    RunningSum::new(plan(), &key, name("a")).unwrap();
    assert!(RunningSum::new(plan(), &key, name("b")).unwrap_err().is_noise_issued());
}

#[test]
fn a_key_of_a_service_is_for_that_service_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k");
    let key = new_key(&path).unwrap();
    let (ledger, home) = (ledger_path(&path), folder.path().join("data"));
    let give = |is_new, identity: &str| assign_to_service(&key, &ledger, is_new, identity, &home);
    give(false, "one").unwrap();
    give(false, "one").unwrap();
    for refused in [give(false, "two"), open(&path).map(|_| ())] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("belongs to the service in") && error.contains("data"), "{error}");
    }
    assert!(PublicLedger::read(&path).unwrap().service().unwrap().ends_with("data"));

    // A used key cannot become the key of a service.
    let path = folder.path().join("used");
    let key = new_key(&path).unwrap();
    let mut open = open(&path).unwrap();
    open.ledger.register(&name("a"), Issuer::Counter, None).unwrap();
    let error = assign_to_service(&key, &ledger_path(&path), false, "one", &home).unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    drop(open);
    let error = assign_to_service(&key, &ledger_path(&path), false, "one", &home).unwrap_err().to_string();
    assert!(error.contains("never used"), "{error}");

    // A key without a ledger may have published anything, unless it was just drawn.
    let key = SecretKey::generate().unwrap();
    let ledger = ledger_path(&folder.path().join("bare"));
    assert!(assign_to_service(&key, &ledger, false, "one", &home).unwrap_err().to_string().contains("restore it"));
    assign_to_service(&key, &ledger, true, "one", &home).unwrap();
    assign_to_service(&key, &ledger, false, "one", &home).unwrap();
}

/// Parts of one stream's noise that overlap.
#[test]
fn parts_meet_where_they_overlap() {
    let noise = |from, to| IssuedNoise { plan: "p".into(), purpose: "cells".into(), from, to, claim: String::new() };
    let meet = |one: (u64, u64), other: (u64, u64)| noise(one.0, one.1).meets(&noise(other.0, other.1));
    assert!(meet((0, 5), (4, 9)) && meet((4, 9), (0, 5)) && meet((0, 9), (3, 4)) && meet((3, 4), (0, 9)));
    assert!(!meet((0, 5), (5, 9)) && !meet((5, 9), (0, 5)));
    assert!(!noise(0, 5).meets(&IssuedNoise { purpose: "groups".into(), ..noise(0, 5) }));
    assert!(!noise(0, 5).meets(&IssuedNoise { plan: "q".into(), ..noise(0, 5) }));
    let key = SecretKey::insecure_from_test_seed(TestSeed(1));
    let mut ledger = Ledger::create(MemoryStore::default(), &key).unwrap();
    ledger.begin_step_log("log").unwrap();
    assert_eq!(ledger.step_log(), Some("log"));
}
