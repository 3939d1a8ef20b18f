//! Runs neighbouring data through the built program: see `evertally_testkit::replay`.

use evertally_testkit::replay::faults::{Faulty, Planted};
use evertally_testkit::replay::{InProcess, Pipeline, Program, check, nth_case, nth_wide_case, spends};

/// Cases starting here differ from those of the testkit's own tests.
const FIRST: u64 = 1_000_000;
const CASES: u64 = 60;
const WIDE_CASES: u64 = 30;
/// Wide cases in which groups join or are discovered.
const OF_GROUPS: [u64; 8] = [1_000_091, 1_000_175, 1_000_209, 1_000_210, 1_000_228, 1_000_093, 1_000_116, 1_000_158];

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
    assert!(
        differing > CASES / 3 && continued > CASES / 20,
        "{differing} of {CASES} cases differ, {continued} continue"
    );
}

/// The same for wide declarations, from released rows alone: workloads, measures, publications, groups that join or are
/// discovered, unbounded streams.
#[test]
fn no_pair_spends_more_than_the_budget() {
    let (mut judged, mut joined, mut found) = (0, 0, 0);
    for number in (FIRST..FIRST + WIDE_CASES).chain(OF_GROUPS) {
        let Ok(case) = nth_wide_case(number) else { continue };
        match spends(&program(), &case) {
            Ok(spent) if spent.share > 0.0 => {
                judged += 1;
                joined += u64::from(case.stream.runs.iter().any(|run| run.groups.is_some()));
                found += u64::from(case.stream.declaration.discover_groups == Some(true));
            }
            Ok(_) => {}
            Err(fault) => {
                let declared = toml::to_string(&case.stream.declaration).expect("TOML");
                panic!("case {number}: {fault}\n{declared}\n{case:#?}")
            }
        }
    }
    assert!(judged > WIDE_CASES / 3 && joined > 2 && found > 0, "{judged} judged, {joined} joined, {found} found");
}

/// The program and the in-process pipeline, which runs most cases, give the same rows.
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

/// A fault outside the program is also found.
#[test]
fn a_planted_fault_is_found() {
    for planted in [Planted::BoundPerFile, Planted::ForgottenCounts, Planted::RestLeaksName] {
        let faulty = Faulty { sound: program(), planted };
        assert!((FIRST..FIRST + CASES).any(|number| check(&faulty, &nth_case(number)).is_err()), "{planted:?}");
    }
}
