//! Neighbouring data through the built program: see `evertally_testkit::replay`.

use evertally_testkit::replay::faults::{Faulty, Planted};
use evertally_testkit::replay::{InProcess, Pipeline, Program, check, nth_case};

/// Cases from here on are not those of the testkit's own tests.
const FIRST: u64 = 1_000_000;
const CASES: u64 = 60;

fn program() -> Program {
    Program { program: env!("CARGO_BIN_EXE_evertally").into() }
}

#[test]
fn neighbours_move_what_the_plan_says_and_nothing_else() {
    let (mut differing, mut continued) = (0, 0);
    for number in FIRST..FIRST + CASES {
        let case = nth_case(number);
        match check(&program(), &case) {
            Ok(found) => {
                differing += u64::from(found.differing > 0);
                continued += u64::from(found.differing > 0 && case.stream.continues && case.stream.runs.len() > 1);
            }
            Err(fault) => panic!("case {number}: {fault}\n{case:#?}"),
        }
    }
    assert!(differing > CASES / 3 && continued > CASES / 20, "{differing} of {CASES} cases differ, {continued} go on");
}

/// The program and the pipeline in process, which most cases are run through, give the same rows.
#[test]
fn the_program_publishes_what_the_pipeline_does() {
    for number in FIRST..FIRST + CASES / 2 {
        let case = nth_case(number);
        let (ours, theirs) = (InProcess, program());
        let (ours, theirs) = (ours.publish(&case.stream, &case.files), theirs.publish(&case.stream, &case.files));
        for (a, b) in ours.iter().zip(&theirs) {
            assert_eq!(a.refusal.is_some(), b.refusal.is_some(), "case {number}: {:?}, {:?}", a.refusal, b.refusal);
            assert_eq!(a.table, b.table, "case {number}");
        }
    }
}

/// A fault around the program is found as well.
#[test]
fn a_planted_fault_is_found() {
    for planted in [Planted::BoundPerFile, Planted::ForgottenCounts, Planted::RestLeaksName] {
        let faulty = Faulty { sound: program(), planted };
        assert!((FIRST..FIRST + CASES).any(|number| check(&faulty, &nth_case(number)).is_err()), "{planted:?}");
    }
}
