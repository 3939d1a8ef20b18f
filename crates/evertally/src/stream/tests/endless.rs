//! Streams without an end.

use crate::noise::{GuardedKey, TestSeed};
use crate::plan::PlanRequest;
use crate::privacy::{Budget, Epsilon, Rho};
use crate::stream::RunningSum;

/// A stream that is saved and restored at intervals, next to one that never stops: the same releases and states.
fn goes_on(request: PlanRequest, steps: u64, gap: u64) {
    let plan = request.plan().unwrap();
    let key = GuardedKey::insecure_from_test_seed(TestSeed(5));
    let name = || "endless".parse().unwrap();
    let mut whole = RunningSum::new(plan.clone(), &key, name()).unwrap();
    let mut parts = RunningSum::new(plan.clone(), &key, name()).unwrap();
    for step in 1..=steps {
        let total = (step * step) as i64 % 11;
        whole.add_sum(total).unwrap();
        parts.add_sum(total).unwrap();
        assert_eq!(whole.tick().unwrap(), parts.tick().unwrap(), "{step}");
        if step % gap == 0 {
            let state = parts.save();
            assert_eq!(state, whole.save(), "{step}");
            assert!(state.len() < 1500, "{}", state.len());
            parts = RunningSum::restore(plan.clone(), &key, name(), &state).unwrap();
        }
    }
}

fn gaussian() -> PlanRequest {
    PlanRequest::unbounded(Budget::Zcdp(Rho::new(0.5).unwrap()))
}

fn pure(mechanism: &str) -> PlanRequest {
    let request = PlanRequest::unbounded(Budget::Pure(Epsilon::new(1.0).unwrap()));
    request.with_mechanism(mechanism.parse().unwrap())
}

#[test]
fn saved_streams_go_on_byte_for_byte() {
    goes_on(gaussian(), 10_000, 97);
    goes_on(pure("endless(inside=trees)"), 10_000, 97);
    // Every restore draws the noise of the present epoch again.
    goes_on(pure("endless(inside=hats)"), 10_000, 1777);
}

#[test]
#[ignore = "ten million steps, some minutes; run by hand"]
fn saved_streams_go_on_for_ten_million_steps() {
    goes_on(gaussian(), 10_000_000, 100_000);
    goes_on(pure("endless(inside=trees)"), 10_000_000, 100_000);
    goes_on(pure("endless(inside=hats)"), 10_000_000, 100_000);
}
