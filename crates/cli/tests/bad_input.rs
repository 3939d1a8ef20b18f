//! Bad input: each run is refused with one clear message and leaves no files.

mod common;

use common::{Bench, EVENTS, RELEASE, table};

#[test]
fn unreadable_events_are_named_by_file_line_and_column() {
    let bench = Bench::new();
    let sum = ["--value", "amount", "--bounds", "0,10"];
    let person = ["--person", "who", "--max-events", "2"];
    let groups = ["--group-by", "group", "--groups", "a,b"];
    let none: [&str; 0] = [];
    let row = |cells: &str| format!("time,group,who,amount\n2024-01-01,a,ann,1\n{cells}\n");
    for (content, flags, says) in [
        (String::new(), &none[..], &["events.csv", "empty"][..]),
        ("when,group\n2024-01-01,a\n".into(), &none, &["time", "`when`, `group`"]),
        (row("2024-01-02,a,ann,abc"), &sum, &["events.csv", "line 3", "amount", "abc"]),
        (row("2024-01-02,a,ann,NaN"), &sum, &["line 3", "amount", "NaN"]),
        (row("2024-01-02,a,ann,inf"), &sum, &["line 3", "inf"]),
        (row("2024-01-02,a,ann,"), &sum, &["line 3", "amount", "--missing skip"]),
        (row("2024-01-02,a,,1"), &person, &["line 3", "who", "--missing skip"]),
        (row("2024-01-02,z,ann,1"), &groups, &["line 3", "group", "`z`", "--rest"]),
        (row("2024-01-02,,ann,1"), &groups, &["line 3", "no group"]),
        (row("yesterday,a,ann,1"), &none, &["line 3", "time", "yesterday"]),
        (row("1704153600,a,ann,1"), &none, &["line 3", "--time-format epoch-seconds"]),
        (row("20240102,a,ann,1"), &none, &["line 3", "--time-format %Y%m%d"]),
        (row("02/01/2024,a,ann,1"), &none, &["line 3", "day or the month", "--time-format %d/%m/%Y"]),
        ("time;group\n2024-01-01;a\n".into(), &none, &["semicolon-separated", "--delimiter ';'"]),
        ("time\tgroup\n2024-01-01\ta\n".into(), &none, &["tab-separated", "--delimiter tab"]),
        (row("2024-13-01,a,ann,1"), &none, &["line 3", "month"]),
        (row("2025-01-01,a,ann,1"), &none, &["line 3", "outside the horizon", "--outside skip"]),
        (row("2023-12-31T23:59:59Z,a,ann,1"), &none, &["line 3", "outside the horizon"]),
        (row("2024-01-03,a,ann,1\n2024-01-02,a,ann,1"), &none, &["line 4", "--sort-buffer"]),
        (row("2024-01-02,a,ann"), &none, &["line 3", "3", "4"]),
        (
            row("2024-01-02,a,ann,99999999999999999999"),
            &[&sum[..], &["--out-of-bounds", "refuse"]].concat(),
            &["line 3", "too large"],
        ),
        (
            row("2024-01-02,a,ann,11"),
            &[&sum[..], &["--out-of-bounds", "refuse"]].concat(),
            &["line 3", "outside the bounds"],
        ),
    ] {
        bench.write("events.csv", &content);
        let message = bench.refused(flags);
        says.iter().for_each(|part| assert!(message.contains(part), "{content:?}: {message:?} lacks {part:?}"));
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    }
}

#[test]
fn senseless_flags_are_refused() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    for (flags, says) in [
        (&["--value", "amount"][..], "--bounds"),
        (&["--value", "amount", "--bounds", "0,0"], "sensitivity is 0"),
        (&["--value", "amount", "--bounds", "3,1"], "above the upper"),
        (&["--value", "amount", "--bounds", "0,1.5"], "not a multiple of the grid"),
        (&["--value", "amount", "--bounds", "0,1", "--grid", "0"], "grid"),
        (&["--value", "amount", "--bounds", "nan,1"], "not a number"),
        (&["--bounds", "0,1"], "--value"),
        (&["--person", "who"], "--max-events"),
        (&["--person", "who", "--max-events", "0"], "at least 1"),
        (&["--through", "2025-01-01"], "after the end of the horizon"),
        (&["--group-by", "group", "--groups", "a, b"], "blank"),
        (&["--delimiter", "\""], "delimiter"),
        (&["--threads", "0"], "--threads 0 is not a number of threads"),
        (&["--threads", "1025"], "from 1 to 1024"),
        (&["--max-events", "3"], "--person"),
        (&["--group-by", "group"], "--groups"),
        (&["--groups", "a"], "--group-by"),
        (&["--group-by", "group", "--groups", "a,a"], "twice"),
        (&["--group-by", "step", "--groups", "a"], "column"),
        (&["--mechanism", "magic"], "unknown mechanism"),
        (&["--mechanism", "smooth(h=3,zeros=1)"], "serves at most 2 steps"),
        (&["--noise", "gaussian"], "pure"),
        (&["--confidence", "1"], "confidence"),
        (&["--confidence", "95"], "did you mean --confidence 0.95?"),
        (&["--confidence", "99.9"], "did you mean --confidence 0.999?"),
        (&["--time-format", "dd/mm"], "%d/%m/%Y"),
        (&["--time-format", "%H:%M"], "needs a year, a month and a day"),
        (&["--delimiter", ";;"], "one character"),
        (&["--stream", ""], "name"),
        (&["--time-zone", "Mars/Olympus"], "Mars"),
        (&["--steps", "3"], "not both"),
        (&["--delta", "1"], "delta"),
        (&["--rho", "1"], "not both"),
    ] {
        let message = bench.refused(flags);
        assert!(message.contains(says), "{flags:?}: {message:?} lacks {says:?}");
    }
    let replaced = |at: usize, value: &str| {
        let mut args = RELEASE.to_vec();
        args[at] = value;
        let run = bench.run(&args);
        assert_eq!(run.code, 2, "{value}: {}", run.stderr);
        run.stderr
    };
    assert!(replaced(1, "none.csv").contains("no such file"));
    assert!(replaced(3, "none.key").contains("key new"));
    assert!(replaced(5, "soon").contains("--start"));
    assert!(replaced(7, "2024-01-01").contains("after"));
    assert!(
        replaced(7, "2024-01-03T12:00:00Z").contains("boundary") || replaced(7, "2024-01-03T12:00:00Z").contains("end")
    );
    assert!(replaced(9, "0d").contains("0d"));
    for epsilon in ["0", "-1", "NaN", "inf", "50"] {
        assert!(replaced(11, epsilon).contains("epsilon"), "{epsilon}");
    }
    assert!(bench.files().iter().all(|name| ["events.csv", "my.key", "my.key.ledger"].contains(&name.as_str())));
}

#[test]
fn outputs_that_cannot_be_written_leave_nothing() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    std::fs::create_dir(bench.path("folder.csv")).unwrap();
    let before = bench.files();
    let to = |out: &str| bench.run(&[&RELEASE[..12], &["--out", out]].concat());
    for (out, says) in [
        ("nowhere/counts.csv", "nowhere"),
        ("folder.csv", "directory"),
        ("events.csv", "input"),
        ("counts.xyz", ".csv"),
    ] {
        let run = to(out);
        assert!(run.code == 1 || run.code == 2, "{out}: {}", run.code);
        assert!(run.stderr.contains(says), "{out}: {}", run.stderr);
        assert_eq!(bench.files(), before, "{out} left files");
    }
    assert_eq!(bench.read("events.csv"), EVENTS);
    // /dev/full accepts no byte; the table is written there last.
    #[cfg(target_os = "linux")]
    {
        let run = bench.run(&[&RELEASE[..12], &["--out", "/dev/full", "--output-format", "csv", "--no-plot"]].concat());
        assert_eq!(run.code, 1, "{}", run.stderr);
        assert!(run.stderr.contains("/dev/full"), "{}", run.stderr);
    }
}

#[test]
fn a_release_of_nothing_is_all_noise() {
    let bench = Bench::new();
    bench.write("events.csv", "time,group,who,amount\n");
    assert_eq!(bench.release(&[]).code, 0);
    assert_eq!(table(&bench.read("counts.csv")).len(), 4);
}

#[test]
fn one_step_and_ten_thousand_groups() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    let one = [&RELEASE[..6], &["--steps", "1", "--every", "1mo", "--epsilon", "1", "--out", "one.csv"]].concat();
    let run = bench.run(&one);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(table(&bench.read("one.csv")).len(), 2);

    let names: String = (0..10_000).map(|i| format!("Gruppe №{i} – „ü“\n")).collect();
    bench.write("groups.csv", format!("group\n{names}"));
    let run =
        bench.release(&["--group-by", "group", "--groups-file", "groups.csv", "--rest", "übrige", "--stream", "many"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(bench.read("counts.csv").lines().count(), 1 + 3 * 10_001);
    assert!(bench.read("counts.svg").contains("10,001 groups"));
}

#[test]
fn duplicate_rows_are_events_of_their_own() {
    let bench = Bench::new();
    bench.write("events.csv", "time\n2024-01-01\n2024-01-01\n2024-01-01\n");
    let base =
        [&RELEASE[..10], &["--epsilon", "100000", "--allow-weak-budget", "--out", "counts.csv", "--no-plot"]].concat();
    assert_eq!(bench.run(&base).code, 0);
    assert_eq!(table(&bench.read("counts.csv"))[1][2], "3");
}

/// Ctrl-C in the middle of a run: status 130, and no output, ledger or temporary file.
#[cfg(unix)]
#[test]
fn interrupted_runs_leave_nothing() {
    use std::io::Write;
    let bench = Bench::new();
    let before = bench.files();
    let mut args = RELEASE.to_vec();
    args[1] = "-";
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_evertally"))
        .current_dir(bench.folder())
        .args(&args)
        .arg("--all")
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"time\n").unwrap();
    let row = b"2024-01-01T00:00:00Z\n".repeat(1000);
    (0..20).for_each(|_| stdin.write_all(&row).unwrap());
    std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    // The program checks the flag every few thousand rows; it ends, and the pipe breaks, before a million rows.
    let unread = (0..1000).any(|_| stdin.write_all(&row).is_err());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(unread, "it read on");
    assert_eq!(bench.files(), before);
}

/// Ctrl-C while mechanisms are compared: status 130, nothing on standard output, and no file.
#[cfg(unix)]
#[test]
fn interrupted_searches_leave_nothing() {
    let bench = Bench::new();
    let before = bench.files();
    let unit = ["--max-events", "100", "--max-events-per-step", "1", "--rho", "1"];
    let of_person = ["--plan-only", "--person", "who"];
    // The budget is ρ of the unit.
    let mut release = [&RELEASE[..10], &RELEASE[12..], &of_person, &unit].concat();
    let end = release.iter().position(|argument| *argument == "2024-01-04").unwrap();
    release[end] = "2068-01-01"; // 16,071 days
    for command in [[&["plan", "--horizon", "16384"][..], &unit].concat(), release] {
        let child = std::process::Command::new(env!("CARGO_BIN_EXE_evertally"))
            .current_dir(bench.folder())
            .args(&command)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{command:?}: {errors}");
        assert!(output.stdout.is_empty() && errors.contains("interrupted"), "{command:?}: {errors}");
        assert_eq!(bench.files(), before, "{command:?}");
    }
}

/// A pipe without a writer: opening it blocks, but must still end at the first signal.
#[cfg(unix)]
#[test]
fn a_run_that_waits_for_a_pipe_can_be_interrupted() {
    let bench = Bench::new();
    assert!(std::process::Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap().success());
    let before = bench.files();
    for signal in ["-INT", "-TERM"] {
        let mut args = RELEASE.to_vec();
        args[1] = "pipe";
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_evertally"))
            .current_dir(bench.folder())
            .args(&args)
            .arg("--all")
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // The handler is installed before the pipe is opened; an earlier signal would end the program anyway.
        std::thread::sleep(std::time::Duration::from_millis(300));
        std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let ended = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(25));
            child.try_wait().unwrap().is_some()
        });
        if !ended {
            child.kill().unwrap();
        }
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal}");
        assert_eq!(bench.files(), before, "{signal}");
    }
}

/// A pipe without a reader blocks a recorded release: a second signal ends it, and a rerun produces it again.
#[cfg(unix)]
#[test]
fn a_second_signal_ends_a_run_that_cannot_go_on() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    assert!(std::process::Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap().success());
    let args = [&RELEASE[..12], &["--out", "pipe", "--output-format", "csv"]].concat();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_evertally"))
        .current_dir(bench.folder())
        .args(&args)
        .arg("--all")
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let ended = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(25));
        std::process::Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        child.try_wait().unwrap().is_some()
    });
    if !ended {
        child.kill().unwrap();
    }
    assert!(ended, "it still waits");
    let again = bench.run(&[&RELEASE[..12], &["--out", "counts.csv"]].concat());
    assert_eq!(again.code, 0, "{}", again.stderr);
}

/// Devices and standard output get only the table, without files next to it.
#[cfg(unix)]
#[test]
fn nothing_is_written_beside_a_device() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    std::os::unix::fs::symlink("/dev/null", bench.path("none.csv")).unwrap();
    let before = bench.files();
    for out in ["/dev/null", "none.csv", "/dev/stdout"] {
        let run = bench.run(&[&RELEASE[..12], &["--out", out, "--output-format", "csv"]].concat());
        assert_eq!(run.code, 0, "{out}: {}", run.stderr);
        assert!(!run.stderr.contains("next to it"), "{}", run.stderr);
        assert_eq!(bench.files(), before, "{out}");
        assert_eq!(run.stdout.is_empty(), out != "/dev/stdout");
    }
    assert!(!std::path::Path::new("/dev/null.report.md").exists());
}

/// Output to a closed standard output would be lost after it was recorded.
#[cfg(unix)]
#[test]
fn a_release_is_not_lost_in_a_closed_standard_output() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    let ledger = bench.read("my.key.ledger");
    let flags = RELEASE[2..12].join(" ");
    let shell = |redirection: &str| {
        let program = env!("CARGO_BIN_EXE_evertally");
        let script = format!("{program} release events.csv {flags} --all --out - {redirection}");
        let run =
            std::process::Command::new("bash").current_dir(bench.folder()).args(["-c", &script]).output().unwrap();
        (run.status.code().unwrap(), String::from_utf8(run.stderr).unwrap())
    };
    for closed in [">&-", "1<>/dev/null"] {
        let (code, reply) = shell(closed);
        assert_eq!(code, 2, "{closed}: {reply}");
        assert!(reply.contains("standard output: it is closed"), "{reply}");
        assert_eq!(bench.read("my.key.ledger"), ledger, "nothing was recorded");
    }
    if cfg!(target_os = "linux") {
        let (code, reply) = shell("> /dev/full");
        assert_eq!(code, 1, "{reply}");
        let is_explained = reply.contains("recorded, but not written") && reply.contains("the output will be the same");
        assert!(is_explained, "{reply}");
    }
    // A closed pipe is not a success either: the release is recorded, but nobody has it.
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_evertally"))
        .current_dir(bench.folder())
        .args([&RELEASE[..12], &["--out", "-", "--all"]].concat())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let run = child.wait_with_output().unwrap();
    let reply = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.code() == Some(1) && reply.contains("recorded, but not written"), "{reply}");
    assert_eq!(shell("> /dev/null").0, 0, "asked for");
}

#[cfg(unix)]
#[test]
fn a_file_is_not_counted_twice() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    std::fs::hard_link(bench.path("events.csv"), bench.path("again.csv")).unwrap();
    for twice in ["events.csv", "./events.csv", "again.csv"] {
        let message = bench.refused(&[twice]);
        assert!(message.contains("count twice; name it once"), "{message}");
    }
}

/// Damaged compressed files are reported as damaged, for every kind of damage.
#[test]
fn damaged_compressed_files_are_named() {
    use std::io::Write;
    let bench = Bench::new();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let rows = (0..5000).map(|row| format!("2024-01-0{}T00:{:02}:{:02}Z\n", 1 + row / 2000, row / 60 % 60, row % 60));
    encoder.write_all(format!("time\n{}", rows.collect::<String>()).as_bytes()).unwrap();
    let whole = encoder.finish().unwrap();
    let at = |index: usize, byte: u8| {
        let mut data = whole.clone();
        data[index] = byte;
        data
    };
    let cut = whole[..whole.len() / 2].to_vec();
    for (data, says) in [
        (at(2, 7), "its compressed data are damaged"),
        (at(10, 0xff), "its compressed data are damaged"),
        (at(whole.len() - 8, !whole[whole.len() - 8]), "its compressed data are damaged"),
        (cut, "cut short"),
    ] {
        bench.write("events.csv", data);
        let message = bench.refused(&["--sort-buffer", "5000"]);
        assert!(message.contains("events.csv") && message.contains(says), "{message}");
    }
}
