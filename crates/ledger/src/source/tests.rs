//! What the budget of a source admits, counts and survives.

use super::*;
use crate::ledger::{Absent, MemoryStore, OpenKey};
use crate::ledger::{Ledger, new_key};
use crate::protects::Protects;
use evertally::noise::SecretKey;
use evertally::plan::{Plan, PlanRequest};
use evertally::privacy::{Budget, Epsilon, Neighbours, Rho, Unit};

const PERSONS: Protects = Protects { persons: true, period: None, replaced: false };

fn epsilon(epsilon: f64) -> Budget {
    Budget::Pure(Epsilon::new(epsilon).unwrap())
}

fn plan(horizon: u64, budget: Budget) -> Plan {
    PlanRequest::count(horizon, budget).with_unit(Unit::person(2)).plan().unwrap()
}

fn total(budget: Budget) -> Total {
    Total { budget, is_basic: false, protects: PERSONS }
}

fn budget(path: &Path, of: Budget) -> SourceBudget {
    SourceBudget::create(Arc::new(RealDisk), path, "visits", total(of), Approval::default()).unwrap()
}

/// Publishes one step of a stream.
fn publish(ledger: &mut Ledger, key: &SecretKey, name: &str, plan: &Plan, sum: i64) -> Result<()> {
    let mut digest = ledger.stream(key, &name.parse()?, plan, 1)?;
    digest.close_step(&[sum])?;
    ledger.record(&mut digest)
}

fn error_text<T>(result: Result<T>) -> String {
    result.err().expect("it was not refused").to_string()
}

#[test]
fn streams_of_all_keys_spend_one_total_and_each_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("visits.budget");
    let source = budget(&path, epsilon(1.0));
    let open = || SourceBudget::from_file(&path).unwrap();
    let (one, other) = (plan(10, epsilon(0.7)), plan(10, epsilon(0.3)));
    let keys = [SecretKey::generate().unwrap(), SecretKey::generate().unwrap()];
    let mut ledgers = keys.each_ref().map(|key| Ledger::create(MemoryStore::default(), key).unwrap());
    ledgers.iter_mut().for_each(|ledger| ledger.spend_from(Some((open(), Approval::default()))));
    publish(&mut ledgers[0], &keys[0], "a", &one, 1).unwrap();
    publish(&mut ledgers[0], &keys[0], "a", &one, 1).unwrap(); // the same again
    let message = error_text(publish(&mut ledgers[1], &keys[1], "a", &one, 1));
    assert!(message.contains("stream `a` (ε = 0.7)") && message.contains("ε = 0.3 of ε = 1 is left"), "{message}");
    assert_eq!(ledgers[1].stream_count(), 0, "a refused stream was recorded");
    publish(&mut ledgers[1], &keys[1], "b", &other, 1).unwrap();
    let state = source.state().unwrap();
    assert_eq!((state.costs.len(), state.spent.epsilon, state.left.main()), (2, Some(1.0), 0.0));
    assert_eq!(state.reserved.main(), 0.0);
    // No budget is left, but streams that have begun continue.
    let mut digest = ledgers[0].stream(&keys[0], &"a".parse().unwrap(), &one, 2).unwrap();
    [[1], [2]].iter().try_for_each(|sums| digest.close_step(sums)).unwrap();
    ledgers[0].record(&mut digest).unwrap();
    assert_eq!(source.state().unwrap().costs.len(), 2);
}

#[test]
fn other_units_and_currencies_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let source = budget(&folder.path().join("p"), epsilon(10.0));
    let refused = |plan: PlanRequest| error_text(source.check(&Claim::new("s", "", &plan.plan().unwrap())));
    let request = PlanRequest::count(4, epsilon(1.0));
    assert!(refused(request.clone()).contains("is for one person, and the plan of stream `s` protects one event"));
    let persons = request.with_unit(Unit::person(3));
    source.check(&Claim::new("s", "", &persons.clone().plan().unwrap())).unwrap();
    assert!(refused(persons.with_neighbours(Neighbours::ReplaceOne)).contains("one person, replaced"));
    let gaussian = PlanRequest::count(4, Budget::Zcdp(Rho::new(0.1).unwrap())).with_unit(Unit::person(3));
    let gaussian = gaussian.with_noise(evertally::mechanism::NoiseKind::Gaussian);
    assert!(refused(gaussian.clone()).contains("only admits plans with a pure epsilon"));
    assert!(source.state().unwrap().costs.is_empty());
    // Through ρ every plan has a cost.
    let source = budget(&folder.path().join("r"), Budget::Zcdp(Rho::new(0.5).unwrap()));
    source.check(&Claim::new("s", "", &gaussian.plan().unwrap())).unwrap();
}

#[test]
fn a_reservation_is_taken_up_by_the_first_key_and_approvals_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("visits.budget");
    let source = budget(&path, epsilon(1.0));
    let planned = plan(10, epsilon(1.0));
    let approval = Approval { approver: Some("Ann".into()), note: Some("board, May".into()) };
    source.reserve(&Claim::new("a", "", &planned), &approval).unwrap();
    assert!(error_text(source.check(&Claim::new("b", "", &planned))).contains("ε = 0 of ε = 1 is left"));
    source.cancel("a").unwrap();
    assert!(source.cancel("a").is_err());
    source.reserve(&Claim::new("a", "", &planned), &approval).unwrap();
    assert_eq!(source.state().unwrap().reserved.epsilon, Some(1.0));
    let key = SecretKey::generate().unwrap();
    let mut ledger = Ledger::create(MemoryStore::default(), &key).unwrap();
    ledger.spend_from(Some((SourceBudget::from_file(&path).unwrap(), Approval::default())));
    publish(&mut ledger, &key, "a", &planned, 1).unwrap();
    let state = source.state().unwrap();
    assert_eq!((state.spent.epsilon, state.reserved.main(), state.costs.len()), (Some(1.0), 0.0, 1));
    assert_eq!(
        (state.costs[0].key_id.clone(), state.costs[0].approver.as_deref()),
        (key.id().to_string(), Some("Ann"))
    );
    assert!(source.cancel("a").is_err(), "a spent cost was released");
}

/// Concurrent claims: the counted costs are the granted ones, and never more than the total.
#[test]
fn several_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("visits.budget");
    budget(&path, epsilon(1.0));
    let planned = plan(10, epsilon(0.1));
    let granted = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (path, planned, granted) = (&path, &planned, &granted);
            scope.spawn(move || {
                for stream in 0..4 {
                    let claim = Claim::new(&format!("{thread} {stream}"), "k", planned);
                    let source = SourceBudget::from_file(path).unwrap();
                    if source.reserve(&claim, &Approval::default()).is_ok() {
                        granted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        source.settle(&claim).unwrap();
                    }
                }
            });
        }
    });
    let state = SourceBudget::from_file(&path).unwrap().state().unwrap();
    assert_eq!((granted.into_inner(), state.costs.len(), state.spent.epsilon), (10, 10, Some(1.0)));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a lock or temporary file stayed");
}

/// A run that is interrupted after the reservation has counted too much, and the same run again counts no more.
#[test]
fn what_is_reserved_and_not_recorded_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("visits.budget");
    let source = budget(&path, epsilon(1.0));
    let key_path = folder.path().join("k.key");
    let key = new_key(&key_path).unwrap();
    let planned = plan(10, epsilon(0.6));
    source.reserve(&Claim::new("a", &key.id().to_string(), &planned), &Approval::default()).unwrap();
    let never = AtomicBool::new(false);
    let mut open = OpenKey::from_file(Arc::new(RealDisk), &key_path, Absent::Refuse, &never, &mut |_| ()).unwrap();
    open.ledger.spend_from(Some((SourceBudget::from_file(&path).unwrap(), Approval::default())));
    publish(&mut open.ledger, &key, "a", &planned, 1).unwrap();
    let state = source.state().unwrap();
    assert_eq!((state.spent.epsilon, state.left.epsilon), (Some(0.6), Some(0.4)));
}

#[test]
fn damaged_and_missing_budgets_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("visits.budget");
    assert!(error_text(SourceBudget::from_file(&path)).contains("evertally budget new"));
    let source = budget(&path, epsilon(1.0));
    let again = SourceBudget::create(Arc::new(RealDisk), &path, "v", total(epsilon(2.0)), Approval::default());
    assert!(error_text(again).contains("never replaced"));
    source.reserve(&Claim::new("a", "k", &plan(4, epsilon(0.6))), &Approval::default()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("1.0", "0.5")).unwrap();
    assert!(error_text(source.state()).contains("changed by hand"));
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert!(error_text(source.state()).contains("is damaged"));
}
