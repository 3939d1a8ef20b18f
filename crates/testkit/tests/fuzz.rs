//! Every fuzz target over its seeds and some thousand inputs made from them. For hours of fuzzing use `fuzz/`,
//! or:
//!
//! ```text
//! EVERTALLY_FUZZ=csv:3600 cargo test --release -p evertally-testkit --test fuzz -- --ignored --nocapture
//! ```

use evertally_testkit::fuzz::{TARGETS, Target, mutated};
use std::time::{Duration, Instant};

/// Inputs for each target; targets that read files or plan are slower.
fn count(target: &Target) -> u64 {
    match target.name {
        "plans" | "searched" => 500,
        "parquet" | "csv" | "json_lines" => 2500,
        _ => 5000,
    }
}

#[test]
fn no_target_fails() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(seeds.iter().all(|seed| !seed.is_empty()), "{} lacks a seed", target.name);
        seeds.iter().for_each(|seed| (target.run)(seed));
        for number in 0..count(&target) {
            let input = mutated(&seeds, number);
            let done = std::panic::catch_unwind(|| (target.run)(&input));
            assert!(done.is_ok(), "{}: input {number} fails", target.name);
        }
    }
}

/// Every target is also a libFuzzer target.
#[test]
fn every_target_stands_in_the_folder() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let mut files: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    let mut names: Vec<String> = TARGETS.iter().map(|target| format!("{}.rs", target.name)).collect();
    names.sort();
    assert_eq!(files, names);
}

/// Writes the seeds where libFuzzer looks for them.
#[test]
#[ignore = "writes fuzz/corpus"]
fn seeds_for_libfuzzer() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in TARGETS {
        let folder = corpus.join(target.name);
        std::fs::create_dir_all(&folder).unwrap();
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed).unwrap();
        }
    }
}

/// Runs as long as requested, from a number on that is the time of day.
#[test]
#[ignore = "takes as long as EVERTALLY_FUZZ requests"]
fn for_hours() {
    let asked = std::env::var("EVERTALLY_FUZZ").expect("EVERTALLY_FUZZ=TARGET:SECONDS, or all:SECONDS for each");
    let (wanted, seconds) = asked.split_once(':').expect("TARGET:SECONDS");
    let seconds = Duration::from_secs(seconds.parse().expect("seconds"));
    for target in TARGETS.iter().filter(|target| wanted == "all" || target.name == wanted) {
        let since_1970 = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs();
        let (seeds, begun) = ((target.seeds)(), Instant::now());
        let (mut number, mut failed) = (since_1970 << 24, 0);
        let first = number;
        while begun.elapsed() < seconds && failed < 10 {
            let input = mutated(&seeds, number);
            let started = Instant::now();
            if std::panic::catch_unwind(|| (target.run)(&input)).is_err() {
                println!("{}: input {number} fails: {}", target.name, input.escape_ascii());
                failed += 1;
            }
            if started.elapsed() > Duration::from_secs(5) {
                println!("{}: input {number} takes {:?}: {}", target.name, started.elapsed(), input.escape_ascii());
            }
            number += 1;
        }
        println!("{}: {} inputs in {:?}, {failed} fail", target.name, number - first, begun.elapsed());
    }
}
