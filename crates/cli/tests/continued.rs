//! Streams that continue from run to run: their output, and the failures that they survive.

mod common;

use common::{Bench, Run};
use std::time::Duration;

const DAYS: u64 = 50;
/// The mechanism is given: choosing it takes ten times as long as the rest of a run, which is what kills should hit.
const EVERY_DAY: [&str; 20] = [
    "--key",
    "my.key",
    "--start",
    "2024-01-01",
    "--steps",
    "50",
    "--every",
    "1d",
    "--rho",
    "0.5",
    "--person",
    "who",
    "--max-events",
    "5",
    "--max-events-per-step",
    "2",
    "--group-by",
    "group",
    "--mechanism",
    "sqrt",
];

/// The date of a day, from 1.
fn date(day: u64) -> String {
    let start = jiff::civil::date(2024, 1, 1);
    start.checked_add(jiff::Span::new().days(day as i64 - 1)).unwrap().to_string()
}

fn name(day: u64) -> String {
    format!("{}.csv", date(day))
}

/// The events of a day: some of forty people, most of them with more events than are kept.
fn events(day: u64) -> String {
    let mut text = "time,who,group\n".to_owned();
    for n in 0..day % 7 * 5 {
        let (who, group) = ((n * 13 + day * 5) % 40, ["a", "b"][(n % 2) as usize]);
        text.push_str(&format!("{}T{:02}:00:00Z,p{who},{group}\n", date(day), n / 2));
    }
    text
}

/// A folder with a file for every day.
fn days() -> Bench {
    let bench = Bench::new();
    for day in 1..=DAYS {
        bench.write(&name(day), events(day));
    }
    bench
}

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["release"], more, &EVERY_DAY, &["--groups", "a,b"]].concat()
}

/// Runs `--continue` through a day.
fn continue_through(bench: &Bench, day: u64, more: &[&str]) -> Run {
    let through = date(day + 1);
    bench.run(&arguments(&[&["--continue", "--out", "t.csv", "--through", &through], more].concat()))
}

fn continued_through(bench: &Bench, day: u64, more: &[&str]) -> String {
    let run = continue_through(bench, day, more);
    assert_eq!(run.code, 0, "day {day}: {}", run.stderr);
    run.stderr
}

fn refused(bench: &Bench, day: u64, more: &[&str]) -> String {
    let state = |bench: &Bench| (bench.read("my.key.ledger"), std::fs::read(bench.path("t.csv")).ok());
    let before = state(bench);
    let run = continue_through(bench, day, more);
    assert_eq!(run.code, 2, "{more:?}: {}", run.stderr);
    assert!(before == state(bench), "{more:?} changed something");
    run.stderr
}

/// One run over all data, in a separate folder under the same key, which has published nothing there.
fn at_once(bench: &Bench, out: &str, more: &[&str]) -> Vec<u8> {
    let other = Bench::new();
    std::fs::copy(bench.path("my.key"), other.path("my.key")).unwrap();
    std::fs::copy(bench.path("first.ledger"), other.path("my.key.ledger")).unwrap();
    let files: Vec<String> = (1..=DAYS).map(|day| bench.path(&name(day)).display().to_string()).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let run = other.run(&arguments(&[&files[..], &["--all", "--out", out], more].concat()));
    assert_eq!(run.code, 0, "{}", run.stderr);
    std::fs::read(other.path(out)).unwrap()
}

fn keep_first_ledger(bench: &Bench) {
    std::fs::copy(bench.path("my.key.ledger"), bench.path("first.ledger")).unwrap();
}

/// Daily runs, with files delivered twice, days without a run, deleted raw data, and runs killed at any point: the
/// table equals that of one run over all data.
#[test]
fn daily_runs_that_are_killed_give_what_one_run_gives() {
    let bench = days();
    keep_first_ledger(&bench);
    let mut state = 7u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut from = 1;
    let mut kills = 0;
    for day in 1..=DAYS {
        if day < DAYS && draw(4) == 0 {
            continue; // no run today
        }
        let mut files: Vec<String> = (from..=day).map(name).collect();
        files.extend((day < DAYS && draw(3) == 0).then(|| name(day + 1)));
        if from > 1 && bench.path(&name(from - 1)).exists() {
            files.insert(0, name(from - 1)); // delivered again
        }
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let through = date(day + 1);
        let arguments =
            arguments(&[&files[..], &["--continue", "--out", "t.csv", "--quiet", "--through", &through]].concat());
        while draw(5) < 2 {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_evertally"));
            command.current_dir(bench.folder()).args(&arguments).stderr(std::process::Stdio::null());
            let mut child = command.stdin(std::process::Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_micros(draw(40_000)));
            kills += u64::from(child.kill().is_ok());
            child.wait().unwrap();
        }
        continued_through(&bench, day, &files);
        // Raw data of closed steps are never needed again.
        (1..from).for_each(|day| drop(std::fs::remove_file(bench.path(&name(day)))));
        from = day + 1;
    }
    assert!(kills > 5);
    for day in 1..=DAYS {
        bench.write(&name(day), events(day));
    }
    assert_eq!(std::fs::read(bench.path("t.csv")).unwrap(), at_once(&bench, "t.csv", &[]));
    // The state can also be rebuilt from the raw data, in any order.
    std::fs::remove_dir_all(bench.path("my.key.state")).unwrap();
    let table = std::fs::read(bench.path("t.csv")).unwrap();
    std::fs::remove_file(bench.path("t.csv")).unwrap();
    let files: Vec<String> = (1..=DAYS).rev().map(name).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let lost = bench.run(&arguments(&["--continue", "--all", "--out", "u.csv", "2024-01-01.csv"]));
    assert!(lost.code == 2 && lost.stderr.contains("--rebuild"), "{}", lost.stderr);
    continued_through(&bench, DAYS, &[&files[..], &["--rebuild"]].concat());
    assert_eq!(std::fs::read(bench.path("t.csv")).unwrap(), table);
}

#[test]
fn other_formats_grow_too() {
    let bench = days();
    keep_first_ledger(&bench);
    for (day, files) in [(3, 1..=3), (10, 4..=12), (DAYS, 13..=DAYS)] {
        let files: Vec<String> = files.map(name).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let through = date(day + 1);
        for (stream, out) in [("j", "t.jsonl"), ("p", "t.parquet")] {
            let own = ["--continue", "--stream", stream, "--out", out, "--through", &through];
            let run = bench.run(&arguments(&[&files[..], &own].concat()));
            assert_eq!(run.code, 0, "{}", run.stderr);
        }
    }
    let jsonl = at_once(&bench, "t.jsonl", &["--stream", "j"]);
    assert!(std::fs::read(bench.path("t.jsonl")).unwrap() == jsonl);
    let parts = std::fs::read_dir(bench.path("t.parquet")).unwrap().count();
    assert_eq!(parts, 3, "a file a run");
    assert!(bench.path("t.png").exists() && bench.path("t.report.md").exists());
}

#[test]
fn a_file_is_read_once_and_never_in_part() {
    let bench = days();
    continued_through(&bench, 2, &["2024-01-01.csv", "2024-01-02.csv"]);
    let table = bench.read("t.csv");
    // The same content under another name, then the same command again.
    bench.write("copy.csv", events(2));
    let message = continued_through(&bench, 2, &["copy.csv", "2024-01-01.csv"]);
    assert!(message.contains("2 of 2 files had been read before"), "{message}");
    assert_eq!(bench.read("t.csv"), table);
    bench.write("copy.csv", events(3));
    let message = continued_through(&bench, 3, &["2024-01-03.csv", "copy.csv"]);
    assert!(message.contains("1 of 2 files had been read before"), "{message}");
    bench.write("2024-01-02.csv", events(2) + "2024-01-02T23:00:00Z,new,a\n");
    assert!(refused(&bench, 3, &["2024-01-02.csv"]).contains("has grown since"));
    bench.write("2024-01-02.csv", events(3) + "2024-01-03T23:00:00Z,new,a\n");
    assert!(refused(&bench, 3, &["2024-01-02.csv"]).contains("would count twice"));
    let piped = bench.run_with(&arguments(&["-", "--continue", "--out", "t.csv", "--all"]), b"time,who,group\n");
    assert!(piped.code == 2 && piped.stderr.contains("regular files"), "{}", piped.stderr);
}

#[test]
fn a_table_is_appended_to_only_where_it_is_that_of_the_stream() {
    let bench = days();
    continued_through(&bench, 2, &["2024-01-01.csv", "2024-01-02.csv"]);
    let table = bench.read("t.csv");
    bench.write("t.csv", table.replace("2024-01-02", "2024-01-03"));
    assert!(refused(&bench, 3, &["2024-01-03.csv"]).contains("differs from the table"));
    std::fs::remove_file(bench.path("t.csv")).unwrap();
    assert!(refused(&bench, 3, &["2024-01-03.csv"]).contains("restore it"));
    // The rows of one run alone, then appended to the table again, which may have moved.
    let through = date(4);
    let alone = ["2024-01-03.csv", "--continue", "--out", "alone.csv", "--through", &through];
    assert_eq!(bench.run(&arguments(&alone)).code, 0);
    assert_eq!(bench.read("alone.csv").lines().count(), 3);
    std::fs::rename(bench.path("alone.csv"), bench.path("t.csv")).unwrap();
    continued_through(&bench, 4, &["2024-01-04.csv"]);
    assert_eq!(bench.read("t.csv").lines().count(), 5);
    let plain = bench.run(&arguments(&["2024-01-05.csv", "--out", "t.csv", "--all"]));
    assert!(plain.code == 2 && plain.stderr.contains("--continue") && plain.stderr.contains("--rebuild"));
    // An earlier end shortens nothing, and a run with nothing to do changes nothing.
    let ledger = bench.read("my.key.ledger");
    continued_through(&bench, 1, &[]);
    continued_through(&bench, 4, &["2024-01-04.csv"]);
    assert_eq!(bench.read("my.key.ledger"), ledger);
    assert_eq!(bench.read("t.csv").lines().count(), 5);
}

#[test]
fn a_step_waits_for_its_file() {
    let bench = days();
    std::fs::create_dir(bench.path("daily")).unwrap();
    for day in [1, 2, 4] {
        std::fs::rename(bench.path(&name(day)), bench.path(&format!("daily/{}", name(day)))).unwrap();
    }
    let expect = ["--expect", "daily/%Y-%m-%d.csv"];
    let message = continued_through(&bench, 4, &expect);
    assert!(message.contains("2024-01-03.csv was not read; step 3 and all later steps wait"), "{message}");
    assert_eq!(bench.read("t.csv").lines().count(), 1 + 2 * 2);
    let message = refused(&bench, 4, &expect);
    assert!(message.contains("daily/2024-01-03.csv of step 3"), "{message}");
    std::fs::rename(bench.path("2024-01-03.csv"), bench.path("daily/2024-01-03.csv")).unwrap();
    continued_through(&bench, 4, &expect);
    assert_eq!(bench.read("t.csv").lines().count(), 1 + 4 * 2);
    // In a configuration file the pattern is relative to the file, like all paths.
    bench.write("c.toml", "expect = \"daily/%Y-%m-%d.csv\"\nout = \"t.csv\"\nkey = \"my.key\"\n");
    std::fs::rename(bench.path("2024-01-05.csv"), bench.path("daily/2024-01-05.csv")).unwrap();
    let config = bench.path("c.toml").display().to_string();
    let (through, elsewhere) = (date(6), tempfile::tempdir().unwrap());
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_evertally"))
        .current_dir(elsewhere.path())
        .args(["release", "--continue", "--config", &config, "--through", &through, "--groups", "a,b"])
        .args(&EVERY_DAY[2..])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(bench.read("t.csv").lines().count(), 1 + 5 * 2);
}

/// Every remedy named in an error works for a stream that has begun.
#[test]
fn remedies_work_in_a_stream_that_has_begun() {
    let bench = days();
    continued_through(&bench, 2, &["2024-01-01.csv", "2024-01-02.csv"]);
    bench.write(
        "bad.csv",
        "time,who,group,note\n2024-01-01T00:00:00Z,p1,a,\"x, y\"\n2024-01-03T01:00:00Z,p1,c,\n\
         2024-01-03T02:00:00Z,,a,\n2031-01-01T00:00:00Z,p2,a,\n",
    );
    bench.write(
        "more-late.jsonl",
        "{\"group\": \"b\", \"who\": \"p2\", \"time\": \"2024-01-02\", \"tags\": [1, 2], \"note\": \"z\"}\n",
    );
    let late = refused(&bench, 3, &["bad.csv"]);
    assert!(late.contains("line 2") && late.contains("--late next-step"), "{late}");
    let unknown = refused(&bench, 3, &["bad.csv", "--late", "next-step"]);
    assert!(unknown.contains("line 3") && unknown.contains("--unknown-group skip"), "{unknown}");
    let person = refused(&bench, 3, &["bad.csv", "--late", "next-step", "--unknown-group", "skip"]);
    assert!(person.contains("line 4") && person.contains("--missing skip"), "{person}");
    let policies = [
        "bad.csv",
        "more-late.jsonl",
        "--late",
        "side-file",
        "--late-file",
        "late.csv",
        "--unknown-group",
        "skip",
        "--missing",
        "skip",
    ];
    let horizon = refused(&bench, 3, &policies);
    assert!(horizon.contains("line 5") && horizon.contains("--outside skip"), "{horizon}");
    continued_through(&bench, 3, &[&policies[..], &["--outside", "skip"]].concat());
    let late: Vec<String> = bench.files().into_iter().filter(|name| name.starts_with("late.")).collect();
    assert_eq!(late, ["late.000002.csv"]);
    let whole = "time,who,group,note,tags\n2024-01-01T00:00:00Z,p1,a,\"x, y\",\n2024-01-02,p2,b,z,\"[1, 2]\"\n";
    assert_eq!(bench.read("late.000002.csv"), whole, "with columns that are not used");
    // Back to the old policies, and a group joins: rows of three groups from then on.
    bench.write("more.csv", "time,who,group\n2024-01-04T01:00:00Z,p1,c\n");
    let joined = bench.run(
        &[
            &["release", "more.csv", "--continue", "--through", "2024-01-05", "--out", "t.csv"],
            &EVERY_DAY[..],
            &["--groups", "a,b,c"],
        ]
        .concat(),
    );
    assert_eq!(joined.code, 0, "{}", joined.stderr);
    let table = bench.read("t.csv");
    assert_eq!(table.lines().filter(|line| line.contains(",c,")).count(), 1);
    assert_eq!(table.lines().count(), 1 + 3 * 2 + 3);
    assert!(refused(&bench, 5, &["2024-01-05.csv"]).contains("joined this stream"));
}

/// Omitting a flag never finishes a stream.
#[test]
fn a_run_says_how_far_it_goes() {
    let bench = days();
    let plain = arguments(&["2024-01-01.csv", "--out", "t.csv"]);
    let run = bench.run_as_is(&plain, b"");
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("all 50 steps have ended")
            && run.stderr.contains("--all")
            && run.stderr.contains("--through")
    );
    assert!(!bench.path("t.csv").exists());
    // Future steps are not closed.
    let start =
        jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().checked_sub(jiff::Span::new().days(3)).unwrap();
    bench.write("now.csv", format!("time\n{start}\n"));
    let start = start.to_string();
    let live = [
        "release", "now.csv", "--key", "my.key", "--stream", "live", "--start", &start, "--steps", "10", "--every",
        "1d", "--rho", "1", "--out", "live.csv",
    ];
    let run = bench.run_as_is(&live, b"");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("publishes steps 1 to 3 of 10"), "{}", run.stderr);
    assert_eq!(bench.read("live.csv").lines().count(), 4);
}

/// After the end of the horizon, the next stream of the same declaration continues in the same table.
#[test]
fn a_stream_is_extended_behind_its_horizon() {
    let bench = Bench::new();
    for day in 1..=7 {
        bench.write(&name(day), format!("time,who,group\n{}T01:00:00Z,p{day},a\n", date(day)));
    }
    let run = |through: u64, more: &[&str]| {
        let through = date(through + 1);
        let flags =
            ["release", "--continue", "--key", "my.key", "--start", "2024-01-01", "--steps", "3", "--every", "1d"];
        let more = [&["--rho", "20", "--allow-weak-budget", "--out", "t.csv", "--through", &through], more].concat();
        bench.run(&[&flags, &more[..]].concat())
    };
    let ok = |through: u64, more: &[&str]| {
        let run = run(through, more);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stderr
    };
    ok(2, &["2024-01-01.csv", "2024-01-02.csv", "--extend"]);
    ok(3, &["2024-01-03.csv", "--extend"]);
    // The horizon has ended, and no extension was requested.
    assert_eq!(run(4, &["2024-01-04.csv"]).code, 2);
    let message = ok(4, &["2024-01-03.csv", "2024-01-04.csv", "--extend"]);
    assert!(message.contains("opens stream `main #2`, under the same ρ = 20"), "{message}");
    ok(6, &["2024-01-05.csv", "2024-01-06.csv"]);
    ok(7, &["2024-01-07.csv", "--extend"]);
    let table: Vec<Vec<String>> = common::table(&bench.read("t.csv")).split_off(1);
    let column = |place: usize| table.iter().map(|row| row[place].clone()).collect::<Vec<_>>();
    assert_eq!(column(0), (1..=7).map(date).collect::<Vec<_>>());
    assert_eq!(column(1), (1..=7).map(|step| step.to_string()).collect::<Vec<_>>());
    // With little noise (a standard deviation of less than 1): the counts continue, and so do their errors.
    let values: Vec<f64> = column(2).iter().map(|value| value.parse().unwrap()).collect();
    assert!(values.iter().zip(1..).all(|(value, count)| (value - f64::from(count)).abs() < 3.0), "{values:?}");
    let errors: Vec<f64> = column(3).iter().map(|error| error.parse().unwrap()).collect();
    let together = (errors[2].powi(2) + errors[0].powi(2)).sqrt();
    assert!((errors[3] / together - 1.0).abs() < 1e-5 && errors[6] > errors[3], "{errors:?}");
    // The accompanying statements hold for all three streams together: an event is in one of them.
    let report: serde_json::Value = serde_json::from_str(&bench.read("t.report.json")).unwrap();
    assert_eq!((report["guarantee"]["rho"].as_f64(), report["follows"]["streams"].as_u64()), (Some(20.0), Some(3)));
    assert!((report["error"]["max_std_error"].as_f64().unwrap() / errors[6] - 1.0).abs() < 0.5);
    let words = bench.read("t.report.md");
    assert!(words.contains("| budget | ρ = 20") && words.contains("6 steps since 1 January 2024"), "{words}");
    // The last stream again from its files: the rows of earlier streams stay.
    let whole = bench.read("t.csv");
    std::fs::remove_dir_all(bench.path("my.key.state")).unwrap();
    ok(7, &["2024-01-07.csv", "--rebuild"]);
    assert_eq!(bench.read("t.csv"), whole);
    let spent = bench.run(&["key", "spent", "my.key", "--json"]);
    let spent: serde_json::Value = serde_json::from_str(&spent.stdout).unwrap();
    assert_eq!(spent["streams"].as_array().unwrap().len(), 3);
}

/// Rows on standard output have a header once, and again if nobody received them.
#[cfg(target_os = "linux")] // /dev/full
#[test]
fn rows_on_standard_output_are_not_lost() {
    let bench = days();
    let run = |day: u64, redirection: &str| {
        let flags = [&EVERY_DAY[..], &["--groups", "a,b", "--continue", "--quiet", "--out", "-"]].concat().join(" ");
        let (program, through, file) = (env!("CARGO_BIN_EXE_evertally"), date(day + 1), name(day));
        let script = format!("{program} release {file} {flags} --through {through} {redirection}");
        let run =
            std::process::Command::new("bash").current_dir(bench.folder()).args(["-c", &script]).output().unwrap();
        (run.status.code().unwrap(), String::from_utf8(run.stdout).unwrap())
    };
    assert_eq!(run(1, ">&-").0, 2, "it is closed");
    let (code, first) = run(1, "");
    assert!(code == 0 && first.starts_with("time,group,step") && first.lines().count() == 3, "{first}");
    assert_eq!(run(2, ">/dev/full").0, 1, "recorded, and not written");
    let (code, both) = run(3, "");
    assert!(code == 0 && both.lines().count() == 4 && both.starts_with("2024-01-02,a,2"), "{both}");
}

/// Existing files are never replaced, and an old copy of the ledger is rejected if the table is longer.
#[test]
fn nothing_is_overwritten_and_old_copies_are_noticed() {
    let bench = days();
    let through = date(2);
    let own = ["2024-01-01.csv", "--continue", "--out", "2024-01-01.csv", "--through", &through];
    let run = bench.run(&arguments(&own));
    assert!(run.code == 2 && run.stderr.contains("which the run uses"), "{}", run.stderr);
    assert_eq!(bench.read("2024-01-01.csv"), events(1));
    bench.write("t.csv", "something else\n");
    assert!(refused(&bench, 1, &["2024-01-01.csv"]).contains("did not write it"));
    std::fs::remove_file(bench.path("t.csv")).unwrap();
    continued_through(&bench, 1, &["2024-01-01.csv"]);
    let ledger = std::fs::read(bench.path("my.key.ledger")).unwrap();
    let state = std::fs::read_dir(bench.path("my.key.state")).unwrap().next().unwrap().unwrap().path();
    let kept = std::fs::read(&state).unwrap();
    bench.write("late.csv", "time,who,group\n2024-01-01T05:00:00Z,p9,a\n").write("l.000002.csv", "precious");
    let late = ["2024-01-02.csv", "late.csv", "--late", "side-file", "--late-file", "l.csv"];
    assert!(refused(&bench, 2, &late).contains("but it already exists"));
    std::fs::remove_file(bench.path("l.000002.csv")).unwrap();
    continued_through(&bench, 2, &late);
    assert_eq!(bench.read("l.000002.csv").lines().count(), 2);
    continued_through(&bench, 3, &["2024-01-03.csv"]);
    // A backup of ledger and state is restored, but the table is newer.
    std::fs::write(bench.path("my.key.ledger"), ledger).unwrap();
    std::fs::write(state, kept).unwrap();
    bench.write("other.csv", "time,who,group\n2024-01-02T05:00:00Z,p9,a\n");
    for how in [&["other.csv"][..], &["2024-01-01.csv", "other.csv", "--rebuild"]] {
        let message = refused(&bench, 2, how);
        assert!(message.contains("the ledger may be an old copy"), "{message}");
    }
    // A Parquet table has the files of all its steps.
    let parquet = |day: u64| {
        let (through, file) = (date(day + 1), name(day));
        bench.run(&arguments(&["--continue", "--stream", "p", "--out", "p.parquet", "--through", &through, &file]))
    };
    assert_eq!((parquet(1).code, parquet(2).code), (0, 0));
    let part = std::fs::read_dir(bench.path("p.parquet")).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(part).unwrap();
    let message = parquet(3);
    assert!(message.code == 2 && message.stderr.contains("restore the missing files"), "{}", message.stderr);
}

/// Events of few people, several of each at one time, so that the bounds choose among them.
fn crowded(day: u64) -> Vec<String> {
    let row = |n: u64| {
        let (who, group) = (n * day % 7, ["a", "b"][(n / 3 % 2) as usize]);
        format!("{}T{:02}:00:00Z,p{who},{group}\n", date(day), n / 12)
    };
    (0..30).map(row).collect()
}

/// The order of rows within a step does not matter: files that are sorted differently give the same table, continue a
/// stream, and count as the same data. With a sort buffer, the newest rows may come first.
#[test]
fn rows_of_a_step_may_be_in_any_order() {
    let bench = Bench::new();
    let header = || "time,who,group\n".to_owned();
    for day in 1..=DAYS {
        bench.write(&name(day), header() + &crowded(day).concat());
    }
    keep_first_ledger(&bench);
    let expected = at_once(&bench, "t.csv", &[]);
    for day in 1..=DAYS {
        let mut rows = crowded(day);
        rows.reverse();
        rows.rotate_left(day as usize % 30);
        bench.write(&name(day), header() + &rows.concat());
    }
    assert!(at_once(&bench, "t.csv", &[]) == expected, "another order gave another table");
    let mut next = 1;
    for day in [1, 9, 10, DAYS] {
        let files: Vec<String> = (next..=day).map(name).collect();
        continued_through(&bench, day, &files.iter().map(String::as_str).collect::<Vec<_>>());
        next = day + 1;
    }
    assert!(std::fs::read(bench.path("t.csv")).unwrap() == expected, "another order continued differently");
    // Newest first, in one file, twice under the same ledger: the same data.
    std::fs::copy(bench.path("first.ledger"), bench.path("my.key.ledger")).unwrap();
    let newest_first: Vec<String> = (1..=DAYS).rev().flat_map(|day| crowded(day).into_iter().rev()).collect();
    bench.write("all.csv", header() + &newest_first.concat());
    for buffer in ["1500", "all"] {
        let run = bench.run(&arguments(&["all.csv", "--all", "--sort-buffer", buffer, "--out", "again.csv"]));
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(std::fs::read(bench.path("again.csv")).unwrap() == expected, "newest first gave another table");
    }
}
