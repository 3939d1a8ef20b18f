use evertally::noise::{SecretKey, TestSeed};
use evertally::plan::PlanRequest;
use evertally::privacy::selection::{Selection, SelectionTimes};
use evertally::privacy::{Budget, Delta, Rho, Unit};
use evertally::stream::DiscoveredSums;
use std::time::Instant;
#[test]
fn look() {
    for (mechanism, horizon) in [("", 365u64), ("path-sum", 365), ("smooth", 365), ("binary", 365), ("", 52), ("blt", 52), ("path-sum", 8760)] {
        let selection = Selection::new(Delta::new(1e-9).unwrap(), SelectionTimes::twelve(horizon).unwrap());
        let request = PlanRequest::count(horizon, Budget::Zcdp(Rho::new(0.5).unwrap())).with_unit(Unit::person(10)).with_selection(selection);
        let request = if mechanism.is_empty() { request } else { request.with_mechanism(mechanism.parse().unwrap()) };
        let start = Instant::now();
        let plan = request.plan().unwrap();
        let planned = start.elapsed();
        let key = SecretKey::insecure_from_test_seed(TestSeed(1));
        let t = *plan.threshold().unwrap();
        let mut keys = DiscoveredSums::new(plan.clone(), &key, "a".parse().unwrap()).unwrap();
        let start = Instant::now();
        for n in 0..1_000_000u64 {
            keys.add(format!("/page/{n:08}").as_bytes(), 1).unwrap();
        }
        for n in 0..1_000_000u64 { if n % 3 == 0 { keys.add(format!("/page/{n:08}").as_bytes(), 1).unwrap(); } }
        let added = start.elapsed();
        let mut worst = std::time::Duration::ZERO;
        for step in 1..=horizon {
            for n in 0..1_000u64 { keys.add(format!("/page/{:08}", (n * 997 + step) % 1_000_000).as_bytes(), 1).unwrap(); }
            let start = Instant::now();
            keys.tick().unwrap();
            worst = worst.max(start.elapsed());
            if mechanism == "blt" && step >= 10 { break; }
        }
        eprintln!("{} T={horizon} plan {planned:?} add {added:?} worst tick {worst:?} bytes/key {} shown {} tau {} max_std {} half {} 95 {} name {}", mechanism, keys.memory_bytes() / 1_000_000, keys.shown(), t.value(), plan.max_std_error(), t.shown_half(), t.shown_almost(), plan.mechanism().name());
    }
}
