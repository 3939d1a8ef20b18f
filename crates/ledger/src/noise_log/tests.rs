//! Noise that is issued again, and noise that is refused, in one process and in several.

mod files;
mod histories;
mod processes;

use super::*;
use crate::ledger::{Absent, OpenKey, new_key};
use evertally::noise::{GuardedKey, TestSeed};
use evertally::plan::{Plan, PlanRequest};
use evertally::privacy::{Budget, Rho};
use evertally::stream::{GroupedSums, Groups, LazyPlan, LazySampling, LazyVector, RunningSum};
use evertally_training::{RowNoise, Series, Tuning, VectorNoise, VectorPlan, VectorRequest};
use std::ops::Range;
use tempfile::TempDir;

const COORDINATES: Range<u64> = 0..300;

fn budget() -> Budget {
    Budget::Zcdp(Rho::new(0.5).unwrap())
}

fn plan() -> Plan {
    static PLAN: LazyLock<Plan> = LazyLock::new(|| PlanRequest::count(1000, budget()).plan().unwrap());
    PLAN.clone()
}

fn training_plan() -> VectorPlan {
    let request = VectorRequest::new(100, budget(), 1.0).with_series(Series::Increments);
    request.with_mechanism("binary".parse().unwrap()).plan().unwrap()
}

fn name(text: &str) -> StreamName {
    text.parse().unwrap()
}

/// A folder with a new key file.
fn new_folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.key");
    new_key(&path).unwrap();
    (folder, path)
}

fn open(key: &Path) -> GuardedKey {
    LoggedKey::open(key).unwrap().guarded()
}

fn sum(key: &GuardedKey, text: &str) -> RunningSum {
    RunningSum::new(plan(), key, name(text)).unwrap()
}

fn vector(key: &GuardedKey, coordinates: Range<u64>) -> VectorNoise<f32> {
    VectorNoise::new(training_plan(), key, name("run"), coordinates, Tuning::default()).unwrap()
}

/// Adds these totals, one in each step, and returns the releases.
fn tick_all(sum: &mut RunningSum, totals: &[i64]) -> evertally::Result<Vec<f64>> {
    let tick = |total: &i64| {
        sum.add_sum(*total)?;
        sum.tick().map(|release| release.value())
    };
    totals.iter().map(tick).collect()
}

/// Adds the noise of the next step to a gradient that the seed determines.
fn add(noise: &mut VectorNoise<f32>, seed: u64) -> evertally::Result<Vec<f32>> {
    let mut gradient: Vec<f32> = (0..noise.len() as u64).map(|i| ((i + 1) * (seed + 1) % 97) as f32).collect();
    noise.add_next(&mut gradient).map(|()| gradient)
}

/// The text of a refusal to issue noise.
fn refused<T>(result: evertally::Result<T>) -> String {
    let error = result.map(|_| ()).unwrap_err();
    assert!(error.is_noise_issued(), "{error}");
    error.to_string()
}

#[test]
fn a_sum_is_released_again_for_the_same_data_only() {
    let (_folder, path) = new_folder();
    let key = open(&path);
    let released = tick_all(&mut sum(&key, "visits"), &[3, 4, 5]).unwrap();
    assert_eq!(tick_all(&mut sum(&key, "visits"), &[3, 4, 5]).unwrap(), released);
    let mut other = sum(&key, "visits");
    tick_all(&mut other, &[3, 4]).unwrap();
    let state = other.save();
    other.add_sum(6).unwrap();
    let error = refused(other.tick());
    for part in ["stream `visits`", "step 3 was issued for other data", "exact difference", "last state (step 3)"] {
        assert!(error.contains(part), "{error}");
    }
    // The refused step is not closed, and its own data are still accepted, also after a restart.
    assert_eq!((other.step(), other.exact_sums()), (2, (7, 6)));
    drop((key, other));
    let key = open(&path);
    let restored = || RunningSum::restore(plan(), &key, name("visits"), &state).unwrap();
    assert_eq!(tick_all(&mut restored(), &[5]).unwrap(), released[2..]);
    refused(tick_all(&mut restored(), &[6]));
    // Other plans and names have other noise.
    let shorter = PlanRequest::count(999, budget()).plan().unwrap();
    tick_all(&mut RunningSum::new(shorter, &key, name("visits")).unwrap(), &[9]).unwrap();
    tick_all(&mut sum(&key, "sales"), &[9]).unwrap();
}

#[test]
fn steps_that_are_closed_together_have_their_sum_too() {
    let (_folder, path) = new_folder();
    let key = open(&path);
    let mut whole = sum(&key, "visits");
    whole.add_sum(3).unwrap();
    let release = whole.tick_through(10).unwrap();
    assert!(refused(tick_all(&mut sum(&key, "visits"), &[4])).contains("step 1 "));
    assert!(refused(tick_all(&mut sum(&key, "visits"), &[3, 1])).contains("step 2 "));
    let mut again = sum(&key, "visits");
    tick_all(&mut again, &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(again.release(), Some(release));
    again.add_sum(1).unwrap();
    again.tick_through(15).unwrap();
    assert!(refused(whole.tick_through(100)).contains("step 11 "));
    assert_eq!(whole.step(), 10);
}

#[test]
fn a_gradient_gets_its_noise_again_and_another_does_not() {
    let (_folder, path) = new_folder();
    let key = open(&path);
    let mut first = vector(&key, COORDINATES);
    let state = first.save();
    let given: Vec<_> = (1..=3).map(|seed| add(&mut first, seed).unwrap()).collect();
    let mut again = vector(&key, COORDINATES);
    assert_eq!(add(&mut again, 1).unwrap(), given[0]);
    let mut other = vec![0.5; 300];
    assert!(refused(again.add_next(&mut other)).contains("step 2 was issued for other data"));
    assert!(other.iter().all(|number| *number == 0.5), "nothing is added");
    assert_eq!(again.step(), 1);
    assert_eq!(add(&mut again, 2).unwrap(), given[1]);
    // After a restart, from a state that is too old, and drawn ahead.
    drop((key, first, again));
    let key = open(&path);
    let restore = || {
        let tuning = Tuning::default();
        VectorNoise::<f32>::restore(training_plan(), &key, name("run"), COORDINATES, tuning, &state).unwrap()
    };
    let mut restored = restore();
    restored.draw_ahead();
    assert_eq!(add(&mut restored, 1).unwrap(), given[0]);
    let mut restored = restore();
    restored.draw_ahead();
    refused(add(&mut restored, 7));
    // Single and double precision have different noise.
    let mut double =
        VectorNoise::<f64>::new(training_plan(), &key, name("run"), COORDINATES, Tuning::default()).unwrap();
    double.add_next(&mut vec![0.5; 300]).unwrap();
}

#[test]
fn noise_by_itself_is_issued_once() {
    let (_folder, path) = new_folder();
    let key = open(&path);
    let mut noise = vector(&key, COORDINATES);
    noise.next_into(&mut vec![0.0; 300]).unwrap();
    noise.seek(0).unwrap();
    let error = refused(noise.next_into(&mut vec![0.0; 300]));
    assert!(error.contains("nothing shows that it was for the same data"), "{error}");
    refused(add(&mut noise, 1));
    noise.seek(1).unwrap();
    add(&mut noise, 1).unwrap();
    noise.seek(1).unwrap();
    refused(noise.next_into(&mut vec![0.0; 300]));
}

#[test]
fn workers_share_a_vector_by_coordinates() {
    let (_folder, path) = new_folder();
    let key = open(&path);
    let parts = || [0..100, 100..200, 200..300].map(|part| vector(&key, part));
    let draw = |seed: u64, part: &mut VectorNoise<f32>| add(part, seed).unwrap();
    let drawn = || parts().iter_mut().enumerate().map(|(rank, part)| draw(rank as u64, part)).collect::<Vec<_>>();
    assert_eq!(drawn(), drawn());
    for overlapping in [0..300, 50..150, 0..99, 299..400] {
        let error = refused(add(&mut vector(&key, overlapping), 1));
        assert!(error.contains("step 1 was issued for the coordinates") && error.contains("overlap"), "{error}");
    }
    add(&mut vector(&key, 300..400), 5).unwrap();
}

#[test]
fn what_issues_nothing_leaves_no_trace() {
    let (_folder, path) = new_folder();
    let key = open(&path);
    let (mut visits, mut noise) = (sum(&key, "visits"), vector(&key, COORDINATES));
    visits.add_sum(5).unwrap();
    assert!(visits.tick_through(1001).is_err() && visits.tick_through(0).is_err());
    noise.draw_ahead();
    assert!(noise.add_next(&mut vec![0.0; 299]).is_err() && noise.add_next(&mut vec![f32::NAN; 300]).is_err());
    noise.seek(100).unwrap();
    assert!(noise.next_into(&mut vec![0.0; 300]).is_err());
    assert!(!noise_log_path(&path).exists());
    tick_all(&mut sum(&key, "visits"), &[1]).unwrap();
    assert!(noise_log_path(&path).exists());
}

/// A name belongs to what first issued noise under it, whichever way a Rust program opens its key.
#[test]
fn names_of_other_issuers_are_refused() {
    let (_folder, path) = new_folder();
    let locked =
        || OpenKey::from_file(Arc::new(crate::disk::RealDisk), &path, Absent::Refuse, &Default::default(), &mut |_| ());
    {
        let mut open = locked().unwrap();
        let mut digest = open.ledger.stream(&open.key, &name("released"), &plan(), 1).unwrap();
        digest.close_step(&[1]).unwrap();
        open.ledger.record(&mut digest).unwrap();
        open.ledger.register(&name("counted"), Issuer::Counter, None).unwrap();
        RunningSum::new(plan(), &open.guarded(), name("guarded")).unwrap();
    }
    let key = open(&path);
    for (text, by) in
        [("released", "has been released"), ("counted", "a Counter in Python"), ("guarded", "a Rust program")]
    {
        let error = refused(sum(&key, text).tick());
        assert!(error.contains(by), "{error}");
    }
    assert!(!noise_log_path(&path).exists(), "a refusal creates no log");
    sum(&key, "logged").tick().unwrap();
    let error = refused(RunningSum::new(plan(), &locked().unwrap().guarded(), name("logged")));
    assert!(error.contains("a Rust program that logs its steps"), "{error}");
    let mut open = locked().unwrap();
    let mut digest = open.ledger.stream(&open.key, &name("logged"), &plan(), 1);
    assert!(digest.as_mut().is_err(), "a release of the same name");
    let error = open.ledger.register(&name("logged"), Issuer::Training, None).unwrap_err().to_string();
    assert!(error.contains("logs its steps"), "{error}");
}

/// Reads are made once: of two objects in the same state, the first that reads continues.
#[test]
fn a_lazy_vector_is_read_on_from_its_last_state() {
    for sampling in [LazySampling::Float, LazySampling::Integer, LazySampling::Keyed] {
        let (_folder, path) = new_folder();
        let key = open(&path);
        let lazy = || LazyPlan::best(PlanRequest::count(8, budget()), 10, sampling).unwrap();
        let new = || {
            let mut vector = LazyVector::new(lazy(), &key, name("lazy")).unwrap();
            vector.tick().unwrap();
            vector
        };
        let restore = |state: &[u8]| LazyVector::restore(lazy(), &key, name("lazy"), state).unwrap();
        let mut vector = new();
        let old = vector.save();
        let value = vector.read(7).unwrap();
        vector.read_many(&[]).unwrap();
        let state = vector.save();
        for mut late in [new(), restore(&old)] {
            assert!(refused(late.read(7)).contains("step 1 was issued already"), "{sampling}");
            refused(late.read_many(&[1, 2]));
            assert_eq!(late.reads(), 0);
        }
        let (mut again, mut late) = (restore(&state), restore(&state));
        assert_eq!(again.read_many(&[3, 7]).unwrap()[1], value);
        assert!(refused(late.read(7)).contains("step 2 was issued already"));
        again.read(1).unwrap();
    }
}

/// Objects that do not claim their steps get no noise from a logged key.
#[test]
fn objects_without_steps_are_refused() {
    let (_folder, path) = new_folder();
    let key = open(&path);
    let errors = [
        refused(GroupedSums::new(plan(), &key, name("groups"), Groups::new(["a"]).unwrap())),
        refused(RowNoise::<f32>::new(training_plan(), &key, name("rows"), (4, 2), &[0.1], Tuning::default())),
    ];
    assert!(errors.iter().all(|error| error.contains("OpenKey::from_file")), "{errors:?}");
}

/// Everybody can compute the noise of test seeds: nothing is recorded or refused.
#[test]
fn keys_of_test_seeds_have_no_log() {
    let key = GuardedKey::insecure_from_test_seed(TestSeed(1));
    let mut released = [1, 2].map(|total| tick_all(&mut sum(&key, "visits"), &[total]).unwrap()[0]);
    released[1] -= released[0];
    assert_eq!(released[1], 1.0);
    vector(&key, COORDINATES).next_into(&mut vec![0.0; 300]).unwrap();
    vector(&key, 0..10).next_into(&mut [0.0; 10]).unwrap();
    assert!(NoiseLog::from_key(key.secret()).is_empty());
}

/// Many threads with objects of one name: each step is released for one value only.
#[test]
fn threads() {
    let (_folder, path) = new_folder();
    let key = open(&path);
    let run = |seed: i64| {
        let mut visits = sum(&key, "visits");
        (1..50).take_while(|step| tick_all(&mut visits, &[if *step > 25 { seed } else { 1 }]).is_ok()).count()
    };
    let counts = std::thread::scope(|scope| {
        let running = [2, 3, 4, 5].map(|seed| scope.spawn(move || run(seed)));
        running.map(|thread| thread.join().unwrap())
    });
    assert_eq!(counts.iter().filter(|count| **count == 49).count(), 1, "{counts:?}");
    assert_eq!(counts.iter().filter(|count| **count == 25).count(), 3, "{counts:?}");
}
