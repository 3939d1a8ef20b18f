//! What an audit compares with: the budget and not the plan's own noise, all sums of an event, and chosen steps of a
//! long horizon.

use super::*;
use crate::{PrivacyLimit, audited_steps};
use evertally::plan::NoiseKind::{Gaussian, Laplace};

const PATHS: u64 = 2500;

/// Audits the library's streams of one plan against a promise, which may be that of another.
fn held(promise: &Promise, plan: &Plan, subject: &Plan) -> AuditReport {
    let pairs = pairs(plan, promise);
    let mut subject = PlanBox::with_seed(subject.clone(), promise, TestSeed(1)).unwrap();
    audit(&mut subject, promise, &pairs, AuditSettings { paths: PATHS, ..AuditSettings::default() }, &mut || ())
        .unwrap()
}

fn budget(kind: NoiseKind, amount: f64) -> Budget {
    request("binary", 8, kind, amount).budget()
}

/// A plan whose noise has exactly its stated law, which is too narrow: the law of the noise is right, and the budget is
/// violated.
#[test]
fn a_plan_with_too_little_noise_is_held_against_its_budget() {
    for (mechanism, kind, asked, spent) in
        [("binary", Gaussian, 0.5, 2.0), ("smooth", Gaussian, 0.5, 2.0), ("input", Laplace, 0.5, 1.5)]
    {
        let plan = plan(mechanism, 8, kind, spent);
        let mut promise = Promise::from_plan(&plan).unwrap();
        promise.guarantee = PrivacyLimit::new(budget(kind, asked), kind);
        let report = held(&promise, &plan, &plan);
        let failed = failed(&report);
        assert!(failed.contains(&"mu") && failed.contains(&"budget") && report.privacy_refuted, "{report:#?}");
        let other = |test: &&&str| !["mu", "budget", "epsilon"].contains(*test);
        assert_eq!(failed.iter().filter(other).count(), 0, "its law is as stated: {failed:?}");
    }
}

/// Path sums under Laplace noise: the worst event spends the whole budget by the least shift of the noise, and with
/// noise for half of that shift it spends twice as much.
#[test]
fn shifts_of_path_sums_are_held_against_the_budget() {
    for name in ["path-sum(levels=unit)", "path-sum(levels=unit,root=false)"] {
        for horizon in [1, 6, 16] {
            let plan = plan(name, horizon, Laplace, 0.5);
            let mut promise = Promise::from_plan(&plan).unwrap();
            let difference = pairs(&plan, &promise)[0].difference();
            let spent = promise.spent(&difference).unwrap();
            assert!((0.999..=1.0 + 1e-9).contains(&spent), "{name} at {horizon}: {spent}");
            promise.guarantee = PrivacyLimit::new(budget(Laplace, 0.25), Laplace);
            let spent = promise.spent(&difference).unwrap();
            assert!((1.998..=2.0 + 1e-9).contains(&spent), "{name} at {horizon}: {spent}");
        }
    }
}

/// An event of a sketch affects a cell of every row: together they reveal more than one cell.
#[test]
fn all_sums_of_an_event_are_looked_at() {
    let request = |rho| request("binary", 6, Gaussian, rho).with_sums_per_event(3);
    let plan = request(0.5).plan().unwrap();
    let promise = Promise::from_plan(&plan).unwrap();
    assert_eq!((promise.sums(), promise.releases()), (3, 18));
    let pair = pairs(&plan, &promise).remove(0);
    let together = promise.separation(&promise.of_all_sums(&pair.difference()));
    assert!((0.99..=1.0 + 1e-9).contains(&together), "√(2ρ) = 1, and not {together}");
    let report = held(&promise, &plan, &plan);
    assert!(!report.refuted, "{report:#?}");
    let report = held(&promise, &plan, &request(2.0).plan().unwrap());
    assert!(failed(&report).contains(&"mu"), "{report:#?}");
}

#[test]
fn long_horizons_are_audited_at_chosen_steps() {
    for (mechanism, kind, amount) in [("subtract(k=5)", Gaussian, 0.5), ("binary", Laplace, 1.0)] {
        let plan = plan(mechanism, 100_000, kind, amount);
        assert!(Promise::from_plan(&plan).unwrap_err().to_string().contains("choose some"));
        let steps = audited_steps(&plan);
        assert!(steps.len() < 80 && steps.is_sorted(), "{steps:?}");
        for step in [1, 2, 3, 4, 5, 1023, 1024, 1025, 65_535, 65_536, 65_537, 99_999, 100_000] {
            assert!(steps.contains(&step), "{step} is not in {steps:?}");
        }
        let promise = Promise::at(&plan, &steps).unwrap();
        let report = held(&promise, &plan, &plan);
        assert!(!report.refuted, "{report:#?}");
        // Four times the ρ or the ε; with three steps it shows in the law of the noise.
        let other = super::plan(mechanism, 100_000, kind, 4.0 * amount);
        assert!(failed(&held(&promise, &plan, &other)).contains(&"mu"), "{mechanism}");
        let promise = Promise::at(&plan, &[1, 65_536, 100_000]).unwrap();
        assert!(failed(&held(&promise, &plan, &other)).contains(&"statistics"), "{mechanism}");
    }
    let plan = plan("binary", 100_000, Gaussian, 0.5);
    for (steps, says) in [(&[][..], "rising"), (&[0, 1], "rising"), (&[3, 3], "rising"), (&[100_001], "beyond")] {
        assert!(Promise::at(&plan, steps).unwrap_err().to_string().contains(says), "{steps:?}");
    }
    // A change after all audited steps affects no release.
    let promise = Promise::at(&plan, &[5, 9]).unwrap();
    assert!(worst_change(&plan, &promise, Some(10)).unwrap_err().to_string().contains("from 1 to 9"));
    assert_eq!(worst_change(&plan, &promise, Some(7)).unwrap().to_string(), "an event in step 7 or not");
}

/// All but a few steps are omitted from the sums, but not from the data.
#[test]
fn chosen_steps_see_the_same_releases() {
    let plan = plan("binary", 40, Gaussian, 0.5);
    let all = library(&plan, 3).releases(&AuditStream::empty(40), 0).unwrap();
    let promise = Promise::at(&plan, &[3, 17, 40]).unwrap();
    let mut chosen = PlanBox::with_seed(plan, &promise, TestSeed(3)).unwrap();
    assert_eq!(chosen.releases(&AuditStream::empty(3), 0).unwrap(), [all[2], all[16], all[39]]);
}
