//! The guarantee of the whole path: neighbouring data through whole runs, and planted faults that must be found.

use evertally_testkit::replay::faults::{Faulty, Planted};
use evertally_testkit::replay::{Fault, InProcess, any_case, check, nth_case};
use proptest::prelude::*;

/// Number of cases searched for a planted fault.
const CASES: u64 = 120;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn neighbours_move_what_the_plan_says_and_nothing_else(case in any_case()) {
        if let Err(fault) = check(&InProcess, &case) {
            prop_assert!(false, "{}", fault);
        }
    }
}

/// The cases below are sound without a fault, and exercise something: sums that differ, and persons whose events
/// are counted.
#[test]
fn cases_see_something() {
    let (mut differing, mut decoded, mut refused) = (0, 0, 0);
    for number in 0..CASES {
        let case = nth_case(number);
        match check(&InProcess, &case) {
            Ok(found) => {
                differing += u64::from(found.differing > 0);
                decoded += u64::from(found.decoded > 1);
                refused += u64::from(found.refused);
            }
            Err(fault) => panic!("case {number}: {fault}\n{case:#?}"),
        }
    }
    assert!(differing > CASES / 3, "only {differing} of {CASES} cases differ");
    assert!(decoded > CASES / 6, "only {decoded} of {CASES} cases count persons");
    assert!((1..CASES / 2).contains(&refused), "{refused} of {CASES} cases are refused");
}

/// Each fault is found, and classified correctly.
#[test]
fn every_planted_fault_is_found() {
    for planted in Planted::ALL {
        let faulty = Faulty { sound: InProcess, planted };
        let is_it = |fault: &Fault| match planted {
            Planted::BoundPerFile
            | Planted::BoundPerGroup
            | Planted::BoundPerStep
            | Planted::ForgottenCounts
            | Planted::GapIgnored
            | Planted::GroupUnbounded
            | Planted::GroupsUncounted
            | Planted::PeriodTooShort
            | Planted::NoClamping
            | Planted::ClampedAfterSumming
            | Planted::NoiseFollowsData => matches!(fault, Fault::Moves(_)),
            Planted::SharedBound | Planted::PeriodNeverEnds => matches!(fault, Fault::Others(_)),
            _ => matches!(fault, Fault::Visible(_)),
        };
        let found =
            (0..CASES).find_map(|number| Some((number, check(&faulty, &nth_case(number)).err().filter(is_it)?)));
        match found {
            Some((number, fault)) => println!("{planted:?}: case {number}: {fault}"),
            None => panic!("{planted:?} is not found in {CASES} cases"),
        }
    }
}
