//! `evertally release` end to end: what comes out, and that it is always the same.

mod common;

use common::{Bench, EVENTS, RELEASE, table};

fn ready() -> Bench {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    bench
}

#[test]
fn a_release_has_a_table_a_picture_a_report_and_a_plan() {
    let bench = ready();
    let run = bench.release(&["--title", "Visits"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let rows = table(&bench.read("counts.csv"));
    assert_eq!(rows[0], ["time", "step", "value", "std_error", "lower", "upper"]);
    assert_eq!(rows.len(), 4);
    assert_eq!((rows[1][0].as_str(), rows[3][1].as_str()), ("2024-01-01", "3"));
    for row in &rows[1..] {
        let [value, error, lower, upper]: [f64; 4] = std::array::from_fn(|i| row[i + 2].parse().unwrap());
        assert!(lower <= value && value <= upper && error > 0.0 && value - lower == upper - value);
    }
    let markdown = bench.read("counts.report.md");
    assert!(
        markdown.contains("# Privacy report: Visits") && markdown.contains("1-differentially private"),
        "{markdown}"
    );
    let report: serde_json::Value = serde_json::from_str(&bench.read("counts.report.json")).unwrap();
    assert_eq!(report["guarantee"]["pure_epsilon"], 1.0);
    assert_eq!(report["budget"]["epsilon"], 1.0);
    assert_eq!(report["horizon"]["steps"], 3);
    let plan: evertally::plan::Plan = toml::from_str(&bench.read("counts.plan.toml")).unwrap();
    assert_eq!(plan.horizon(), 3);
    assert!(bench.read("counts.svg").contains("Visits"));
    assert!(std::fs::read(bench.path("counts.png")).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn the_same_data_give_the_same_bytes_and_other_data_are_refused() {
    let bench = ready();
    assert_eq!(bench.release(&[]).code, 0);
    let names =
        ["counts.csv", "counts.svg", "counts.png", "counts.report.md", "counts.report.json", "counts.plan.toml"];
    let bytes = || names.map(|name| std::fs::read(bench.path(name)).unwrap());
    let first = bytes();
    for threads in ["1", "2", "5"] {
        assert_eq!(bench.release(&["--threads", threads]).code, 0);
        assert!(first == bytes(), "a run of {threads} threads differs");
    }

    bench.write("events.csv", EVENTS.replace("01-03T08", "01-02T08"));
    let before = bytes();
    let message = bench.refused(&[]);
    assert!(message.contains("different data") && message.contains("--stream"), "{message}");
    assert!(before == bytes(), "a refused run changed a file");
    assert!(bench.refused(&["--epsilon", "2", "--out", "x.csv"]).contains("cannot be used multiple times"));
    let changed = [&RELEASE[..10], &["--epsilon", "2", "--out", "counts.csv"]].concat();
    let run = bench.run(&changed);
    assert!(run.code == 2 && run.stderr.contains("another plan"), "{}", run.stderr);
    assert_eq!(bench.release(&["--stream", "second"]).code, 0);
}

/// `--through` publishes a beginning; the rest of the same data continues it with the same values.
#[test]
fn a_release_can_be_continued() {
    let bench = ready();
    let partial = bench.release(&["--through", "2024-01-03"]);
    assert_eq!(partial.code, 0, "{}", partial.stderr);
    let beginning = bench.read("counts.csv");
    assert_eq!(beginning.lines().count(), 3);
    assert_eq!(bench.release(&[]).code, 0);
    assert!(bench.read("counts.csv").starts_with(&beginning));
    bench.refused(&["--through", "2024-01-01T12:00:00Z"]);
}

/// With an enormous budget the noise vanishes and exact counts remain: groups, rest, bounding and sums are right.
#[test]
fn without_noise_the_counts_are_exact() {
    let bench = ready();
    let exact = |out: &str, more: &[&str]| {
        let base = [
            "release",
            "events.csv",
            "--key",
            "my.key",
            "--start",
            "2024-01-01",
            "--end",
            "2024-01-04",
            "--every",
            "1d",
        ];
        let budget = ["--epsilon", "100000", "--allow-weak-budget", "--no-plot", "--stream", out, "--out", out];
        let run = bench.run(&[&base[..], &budget, more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        table(&bench.read(out))[1..].iter().map(|row| row[1..row.len() - 3].join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(exact("a.csv", &[]), ["1 2", "2 2", "3 4"]);
    let grouped = exact("b.csv", &["--group-by", "group", "--groups", "b,a", "--rest", "other"]);
    assert_eq!(grouped, ["b 1 1", "a 1 1", "other 1 0", "b 2 1", "a 2 1", "other 2 0", "b 3 1", "a 3 2", "other 3 1"]);
    assert_eq!(exact("c.csv", &["--person", "who", "--max-events", "1"]), ["1 2", "2 2", "3 3"]);
    let sum = exact("d.csv", &["--value", "amount", "--bounds=-1,5", "--grid", "0.25"]);
    assert_eq!(sum, ["1 0.50", "2 0.50", "3 5.75"]);
    bench.write("events.csv", "time,amount\n2024-01-01,1e30\n2024-01-02,-1e30\n2024-01-03,1e18\n");
    assert_eq!(exact("f.csv", &["--value", "amount", "--bounds=-1,5"]), ["1 5", "2 4", "3 9"]);
    bench.write("events.csv", EVENTS);
    bench.write("groups.csv", "who,group\nann,a\nbob,b\nann,b\n");
    let pairs = exact("e.csv", &["--group-by", "group,who", "--groups-file", "groups.csv", "--rest", "-"]);
    assert_eq!(pairs[8..], ["a ann 3 2", "b bob 3 1", "b ann 3 0", "- - 3 1"]);
}

/// The three input formats, compressed or not, from a file or standard input, give one and the same release.
#[test]
fn formats_and_pipes_agree() {
    let bench = ready();
    assert_eq!(bench.release(&["--no-plot"]).code, 0);
    let wanted = bench.read("counts.csv");
    let lines: Vec<String> =
        table(EVENTS)[1..].iter().map(|r| format!("{{\"who\":\"{}\",\"time\":\"{}\"}}\r\n", r[2], r[0])).collect();
    let windows = format!("\u{feff}{}", EVENTS.replace('\n', "\r\n"));
    let gzip = {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(EVENTS.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = zstd::encode_all(windows.as_bytes(), 1).unwrap();
    for content in [lines.concat().into_bytes(), windows.into_bytes(), gzip, zstd] {
        let from_pipe = [&["release", "-"], &RELEASE[2..12], &["--out", "-"]].concat();
        let run = bench.run_with(&from_pipe, &content);
        assert_eq!((run.code, run.stdout.as_str()), (0, wanted.as_str()), "{}", run.stderr);
    }
}

#[test]
fn outputs_agree_across_formats() {
    let bench = ready();
    let groups = ["--group-by", "group", "--groups", "a,b,c"];
    assert_eq!(bench.release(&groups).code, 0);
    let as_jsonl = [&RELEASE[..12], &groups, &["--out", "counts.jsonl"]].concat();
    assert_eq!(bench.run(&as_jsonl).code, 0);
    let rows = table(&bench.read("counts.csv"));
    for (line, row) in bench.read("counts.jsonl").lines().zip(&rows[1..]) {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((object["group"].as_str(), object["value"].to_string()), (Some(row[1].as_str()), row[3].clone()));
    }
    let as_parquet = [&RELEASE[..12], &groups, &["--out", "counts.parquet"]].concat();
    assert_eq!(bench.run(&as_parquet).code, 0);
    assert!(std::fs::read(bench.path("counts.parquet")).unwrap().ends_with(b"PAR1"));
}

#[test]
fn a_configuration_file_stands_for_flags() {
    let bench = ready();
    assert_eq!(bench.release(&["--group-by", "group", "--groups", "a,b,c", "--no-plot"]).code, 0);
    let wanted = bench.read("counts.csv");
    std::fs::create_dir(bench.path("conf")).unwrap();
    bench.write(
        "conf/release.toml",
        "input = \"../events.csv\"\nkey = \"../my.key\"\nout = \"../again.csv\"\nstart = \"2024-01-01\"\nsteps = 9\n\
         every = \"1d\"\nepsilon = 1\ngroup-by = [\"group\"]\ngroups = [\"a\", \"b\", \"c\"]\nno-plot = true\n",
    );
    let run = bench.run(&["release", "--config", "conf/release.toml", "--end", "2024-01-04"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(bench.read("again.csv"), wanted);
    for (wrong, says) in [
        ("epsilom = 1\n", "epsilom"),
        ("epsilon = -1\n", "epsilon"),
        ("every = \"1 fortnight\"\n", "fortnight"),
        ("group-by = 3\n", "group-by"),
    ] {
        bench.write("conf/release.toml", wrong);
        let run =
            bench.run(&[&["release", "--config", "conf/release.toml"], &RELEASE[1..10], &["--out", "x.csv"]].concat());
        assert!(run.code == 2 && run.stderr.contains(says), "{wrong}: {}", run.stderr);
    }
}

#[test]
fn true_counts_are_shown_only_on_demand_and_stamped() {
    let bench = ready();
    assert_eq!(bench.release(&[]).code, 0);
    assert!(!bench.files().iter().any(|name| name.contains("NOT-PRIVATE")));
    let clean = bench.read("counts.svg");
    assert_eq!(bench.release(&["--unsafe-show-truth"]).code, 0);
    assert!(bench.read("counts.NOT-PRIVATE.svg").contains("NOT PRIVATE"));
    assert_eq!(bench.read("counts.svg"), clean, "the private picture does not change");
    assert!(!clean.contains("NOT PRIVATE"));
}

#[test]
fn a_plan_can_be_seen_before_any_event_is_read() {
    let bench = Bench::new();
    let run = bench.run(&[
        "release",
        "--plan-only",
        "--start",
        "2024-01-01",
        "--steps",
        "365",
        "--every",
        "1d",
        "--rho",
        "0.1",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let plan: evertally::plan::Plan = toml::from_str(&run.stdout).unwrap();
    assert_eq!(plan.horizon(), 365);
    assert!(run.stdout.contains("standard error"));
}

/// Events out of order inside the buffer give the release of the sorted file.
#[test]
fn a_sort_buffer_puts_events_in_order() {
    let bench = ready();
    assert_eq!(bench.release(&["--no-plot"]).code, 0);
    let wanted = bench.read("counts.csv");
    let mut lines: Vec<&str> = EVENTS.lines().collect();
    lines[1..].reverse();
    bench.write("events.csv", lines.join("\n"));
    assert!(bench.refused(&[]).contains("--sort-buffer"));
    assert!(bench.refused(&["--sort-buffer", "1"]).contains("further out of order"));
    assert_eq!(bench.release(&["--no-plot", "--sort-buffer", "3"]).code, 0);
    assert_eq!(bench.read("counts.csv"), wanted);
}

#[test]
fn a_key_is_made_on_demand_and_kept_only_if_used() {
    let bench = ready();
    let with_key = |start: &'static str| {
        bench.run(&[
            "release",
            "events.csv",
            "--key",
            "new.key",
            "--create-key",
            "--start",
            start,
            "--steps",
            "3",
            "--every",
            "1d",
            "--rho",
            "1",
            "--out",
            "new.csv",
        ])
    };
    assert_eq!(with_key("2025-01-01").code, 2);
    assert!(!bench.files().contains("new.key"), "a refused run left its key");
    assert_eq!(with_key("2024-01-01").code, 0);
    let key = bench.read("new.key");
    assert_eq!(with_key("2024-01-01").code, 0);
    assert_eq!(bench.read("new.key"), key);
}

/// Bounds on a person's events, in all and in a step, are enforced in order of time.
#[test]
fn a_persons_events_are_bounded_in_a_step_and_in_all() {
    let bench = Bench::new();
    let rows = |day: u32, who: &str, times: usize| format!("2024-01-0{day},{who}\n").repeat(times);
    bench.write(
        "events.csv",
        ["time,who\n".into(), rows(1, "a", 3), rows(1, "b", 1), rows(2, "a", 3), rows(3, "a", 3)].concat(),
    );
    let exact = |stream: &str, more: &[&str]| {
        let base =
            ["release", "events.csv", "--key", "my.key", "--start", "2024-01-01", "--steps", "3", "--every", "1d"];
        let budget = [
            "--rho",
            "1000000",
            "--allow-weak-budget",
            "--no-plot",
            "--out",
            "x.csv",
            "--person",
            "who",
            "--stream",
            stream,
        ];
        let run = bench.run(&[&base[..], &budget, more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        table(&bench.read("x.csv"))[1..].iter().map(|row| row[2].parse::<i64>().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(exact("a", &["--max-events", "5"]), [4, 6, 6]);
    assert_eq!(exact("b", &["--max-events", "5", "--max-events-per-step", "2"]), [3, 5, 6]);
    assert_eq!(exact("c", &["--max-events", "9", "--max-events-per-step", "1"]), [2, 3, 4]);
    assert!(bench.read("x.report.md").contains("at most 9 events kept, 1 a step"));
}

/// Files that were read are never replaced, and a refusal says whose fault it is.
#[test]
fn what_was_read_is_never_overwritten() {
    let bench = ready();
    bench.write("groups.csv", "group\na\nb\nc\n");
    let groups = ["--group-by", "group", "--groups-file", "groups.csv"];
    for out in ["groups.csv", "events.csv"] {
        let run = bench.run(&[&RELEASE[..12], &groups, &["--out", out]].concat());
        assert_eq!(run.code, 2, "{out}: {}", run.stderr);
        assert!(run.stderr.contains("input"), "{}", run.stderr);
    }
    assert_eq!(bench.read("groups.csv"), "group\na\nb\nc\n");
    let run = bench.run(&[&RELEASE[..12], &["--out", "my.key"]].concat());
    assert_eq!(run.code, 2, "{}", run.stderr);
}
