//! What a pair of neighbours spends of the budget, from released rows alone: see `evertally_testkit::replay::spends`.
//! `EVERTALLY_WIDE_CASES=5000` tries more.

use evertally_testkit::replay::{InProcess, nth_wide_case, spends};
use std::time::Instant;

const CASES: u64 = 400;

#[test]
fn no_pair_spends_more_than_the_budget() {
    let cases = std::env::var("EVERTALLY_WIDE_CASES").map_or(CASES, |text| text.parse().expect("a number"));
    let (mut declared, mut judged, mut refused, mut tight, mut largest) = (0, 0, 0, 0, 0.0f64);
    for number in 0..cases {
        let began = Instant::now();
        let case = match nth_wide_case(number) {
            Ok(case) => case,
            Err(why) => {
                println!("case {number}: {why}");
                continue;
            }
        };
        declared += 1;
        match spends(&InProcess, &case) {
            Ok(spent) => {
                judged += u64::from(spent.share > 0.0);
                tight += u64::from(spent.share > 0.9);
                refused += u64::from(spent.refused);
                largest = largest.max(spent.share);
            }
            Err(fault) => panic!("case {number}: {fault}\n{case:#?}"),
        }
        if began.elapsed().as_secs() > 1 {
            println!("case {number}: {:?}", began.elapsed());
        }
    }
    println!("{declared} of {cases} declared, {judged} judged, {refused} refused, {tight} tight, most {largest}");
    assert!(declared > cases / 2 && judged > declared / 2 && tight > declared / 20);
    assert!(largest > 0.999, "no pair spends the whole budget: {largest}");
}
