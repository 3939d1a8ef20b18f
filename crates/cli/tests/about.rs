//! The program about itself: version, completions, manual pages, and what runs without a subcommand.

mod common;

use common::Bench;

#[test]
fn the_version_with_its_build() {
    let bench = Bench::new();
    for arguments in [["--version"], ["-V"]] {
        let run = bench.run(&arguments);
        assert_eq!((run.code, run.stdout.as_str()), (0, "evertally 0.1.0\n"), "{}", run.stderr);
    }
    let run = bench.run(&["--version", "--verbose"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let names: Vec<_> = run.stdout.lines().map(|line| line.split_once(": ").map_or(line, |(name, _)| name)).collect();
    assert_eq!(names, ["evertally 0.1.0", "commit", "target", "compiler", "profile", "instructions"]);
    assert!(run.stdout.contains("compiler: rustc 1."), "{}", run.stdout);
}

#[test]
fn flags_of_the_version_do_not_mix_with_commands() {
    let bench = Bench::new();
    for arguments in [&["--verbose"][..], &["--version", "plan"], &["--verbose", "plan", "--horizon", "9"], &[]] {
        let run = bench.run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(run.stderr.contains("Usage: evertally"), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn completions_know_every_command() {
    let bench = Bench::new();
    for (shell, sign) in [("bash", "complete -F"), ("zsh", "#compdef evertally"), ("fish", "complete -c evertally")] {
        let run = bench.run(&["completions", shell]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stdout.contains(sign), "{shell}");
        for word in ["release", "max-events-per-step", "interval", "feed"] {
            assert!(run.stdout.contains(word), "{shell} does not complete {word}");
        }
    }
}

#[test]
fn every_visible_command_has_a_manual_page() {
    let bench = Bench::new();
    let help = bench.run(&["--help"]).stdout;
    let (_, commands) = help.split_once("Commands:\n").expect("commands");
    let run = bench.run(&["man", "man/man1"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let mut pages = 0;
    for line in commands.lines().take_while(|line| !line.is_empty()) {
        let Some(name) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) else { continue };
        let name = name.split(' ').next().unwrap();
        if name != "help" {
            let page = bench.read(&format!("man/man1/evertally-{name}.1"));
            assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
            pages += 1;
        }
    }
    assert!(pages >= 12, "{help}");
    let release = bench.read("man/man1/evertally-release.1");
    assert!(release.contains("max\\-events"), "{release}");
    // A file stands where the folder would be.
    bench.write("taken", "");
    let run = bench.run(&["man", "taken"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(run.stderr.starts_with("error: taken: cannot be created"), "{}", run.stderr);
}
