//! `evertally lab`: the research commands, their short forms without `lab`, and the help texts that list them.

mod common;

use common::{Bench, Run};
use std::path::Path;

const RESEARCH: [&str; 5] = ["mechanisms", "compare", "figure", "simulate", "audit"];

/// A cheap call of each research command.
const CALLS: [&str; 5] = [
    "mechanisms --horizon 10 --json",
    "compare --horizon 10 --mechanism binary --timing 0 --json",
    "figure variance-over-time --horizon 8 --out figures",
    "simulate --mechanism binary --horizon 4 --rho 1 --paths 3 --test-seed 1 --out noise.npy --json",
    "audit --mechanism binary --horizon 4 --rho 1 --paths 1500 --json",
];

/// Runs a command line in a new folder. Returns the folder too, for the files that the command wrote.
fn run(line: &str) -> (Bench, Run) {
    let bench = Bench::new();
    let run = bench.run(&line.split(' ').collect::<Vec<_>>());
    (bench, run)
}

/// The paths and the contents of all files in a folder and its subfolders, except the key, whose ledger is random.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            all.extend(contents(&path).into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
        } else if !name.starts_with("my.key") {
            all.push((name, std::fs::read(&path).unwrap()));
        }
    }
    all.sort();
    all
}

/// The commands that a help text lists, in order.
fn listed(help: &str) -> Vec<&str> {
    let (_, commands) = help.split_once("Commands:\n").expect(help);
    let entries = commands.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    entries.filter(|entry| !entry.starts_with(' ')).filter_map(|entry| entry.split(' ').next()).collect()
}

#[test]
fn both_forms_give_the_same_bytes() {
    for call in CALLS {
        let (short_folder, short) = run(call);
        let (folder, long) = run(&format!("lab {call}"));
        assert_eq!((short.code, long.code), (0, 0), "{call}: {}{}", short.stderr, long.stderr);
        assert_eq!((&short.stdout, &short.stderr), (&long.stdout, &long.stderr), "{call}");
        let written = contents(folder.folder());
        assert_eq!(contents(short_folder.folder()), written, "{call}");
        assert!(!long.stdout.is_empty() || written.len() == 3, "{call}: no output");
    }
}

#[test]
fn the_help_of_the_program_lists_lab_and_hides_the_short_forms() {
    for flag in ["--help", "-h"] {
        let (_, help) = run(flag);
        assert_eq!(help.code, 0);
        let commands = listed(&help.stdout);
        assert_eq!(
            commands,
            [
                "plan",
                "key",
                "budget",
                "bounds",
                "check",
                "release",
                "sketch",
                "interval",
                "deployment-record",
                "serve",
                "restore",
                "token",
                "feed",
                "completions",
                "lab",
                "help"
            ]
        );
    }
}

#[test]
fn the_help_of_lab_lists_the_research_commands() {
    let (_, help) = run("lab --help");
    assert_eq!(help.code, 0);
    assert_eq!(listed(&help.stdout), [&RESEARCH[..], &["help"]].concat());
    // Both forms have the same help, apart from the name.
    for name in RESEARCH {
        let (short, long) = (run(&format!("{name} --help")).1, run(&format!("lab {name} --help")).1);
        assert_eq!(short.code, 0, "{name}");
        assert_eq!(short.stdout.replace(&format!("evertally {name}"), &format!("evertally lab {name}")), long.stdout);
    }
}

#[test]
fn errors_name_the_form_that_was_typed() {
    for name in RESEARCH {
        for form in [name.to_owned(), format!("lab {name}")] {
            let (_, refused) = run(&format!("{form} --no-such-flag"));
            assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{form}");
            assert!(refused.stderr.starts_with("error: unexpected argument '--no-such-flag'"), "{}", refused.stderr);
            assert!(refused.stderr.contains(&format!("Usage: evertally {form} ")), "{}", refused.stderr);
        }
    }
    let (_, unknown) = run("lab release");
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    assert_eq!(run("lab").1.code, 2);
}
