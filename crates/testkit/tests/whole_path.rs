//! The share of the budget that a pair of neighbours spends, from released rows alone: see
//! `evertally_testkit::replay::spends`. `EVERTALLY_WIDE_CASES=5000` tries more cases, and `EVERTALLY_WIDE_FIRST`
//! others.

use evertally_testkit::replay::faults::{Faulty, Planted};
use evertally_testkit::replay::{Fault, InProcess, nth_wide_case, spends};

const CASES: u64 = 300;

#[test]
fn no_pair_spends_more_than_the_budget() {
    let cases = std::env::var("EVERTALLY_WIDE_CASES").map_or(CASES, |text| text.parse().expect("a number"));
    let first = std::env::var("EVERTALLY_WIDE_FIRST").map_or(0, |text| text.parse().expect("a number"));
    let (mut declared, mut judged, mut discovered, mut tight, mut largest) = (0, 0, 0, 0, 0.0f64);
    for number in first..first + cases {
        let Ok(case) = nth_wide_case(number) else {
            continue; // Its declaration contradicts itself.
        };
        declared += 1;
        match spends(&InProcess, &case) {
            Ok(spent) => {
                discovered += u64::from(case.stream.declaration.discover_groups == Some(true) && spent.share > 0.0);
                judged += u64::from(spent.share > 0.0);
                tight += u64::from(spent.share > 0.9);
                largest = largest.max(spent.share);
            }
            Err(fault) => {
                let declared = toml::to_string(&case.stream.declaration).expect("TOML");
                panic!(
                    "case {number}: {fault}\n{declared}{:#?}\n{:?}\n{:?}",
                    case.stream.runs, case.files, case.neighbours
                )
            }
        }
    }
    println!("{declared} of {cases} declared, {judged} judged, {discovered} discovered, {tight} tight, most {largest}");
    assert!(declared > cases / 2 && judged > declared / 2 && tight > declared / 20 && discovered > declared / 60);
    assert!(largest > 0.999, "no pair spends the whole budget: {largest}");
}

/// Faults in the bounding of a unit are visible in released rows alone.
#[test]
fn planted_faults_are_found() {
    let cases: Vec<_> = (0..CASES).filter_map(|number| nth_wide_case(number).ok()).collect();
    for planted in [Planted::BoundPerStep, Planted::PeriodTooShort, Planted::NoClamping, Planted::NoiseFollowsData] {
        let faulty = Faulty { sound: InProcess, planted };
        let finds = |case| matches!(spends(&faulty, case), Err(Fault::Moves(_)));
        let found = cases.iter().position(finds);
        println!("{planted:?}: {found:?}");
        assert!(found.is_some(), "{planted:?} is not found");
    }
}
