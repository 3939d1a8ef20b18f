//! `evertally release` end to end: its output, and that it is reproducible.

mod common;

use common::{Bench, EVENTS, RELEASE, table};
use serde_json::json;

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

/// `--through` publishes the first steps; the rest of the same data continues them with the same values.
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

/// With an enormous budget the noise vanishes and exact counts remain: groups, rest, bounding and sums are correct.
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

/// The three input formats, compressed or not, from a file or standard input, give the same release.
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

/// Bounds on a person's events, in total and per step, are enforced in order of time.
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

/// Input files are never replaced, and the exit status tells who has to act.
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

/// The JSON summaries of a run and of a plan.
#[test]
fn a_release_tells_programs_what_it_did() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    let groups = ["--group-by", "group", "--groups", "a,b,c", "--json", "-q"];
    let run = bench.release(&groups);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let done: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    for (key, value) in [
        ("stream", json!("main")),
        ("noise", json!("discrete Laplace")),
        ("unit", json!("one event")),
        ("steps", json!(3)),
        ("released_steps", json!(3)),
        ("groups", json!(3)),
        ("group_columns", json!(["group"])),
        ("rows", json!(9)),
        ("confidence", json!(0.95)),
        ("out", json!("counts.csv")),
    ] {
        assert_eq!(done[key], value, "{key} in {done}");
    }
    let beside: Vec<&str> = done["beside"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    assert!(
        beside.contains(&"counts.report.json") && beside.iter().all(|name| bench.path(name).exists()),
        "{beside:?}"
    );
    assert!(done["max_std_error"].is_f64() && done["mechanism"].is_string() && done["budget"]["epsilon"] == 1.0);
    assert_eq!(table(&bench.read("counts.csv")).len(), 1 + 9);

    let planned = bench.release(&["--plan-only", "--json"]);
    let planned: serde_json::Value = serde_json::from_str(&planned.stdout).unwrap();
    assert!(planned["rows"] == 3 && planned["estimated_bytes"].as_f64() > Some(60.0) && planned.get("out").is_none());
    let both = bench.run(&[&RELEASE[..12], &["--json", "--out", "-"]].concat());
    assert!(both.code == 2 && both.stderr.contains("--json and --out -"), "{}", both.stderr);
}

/// Of many groups, the requested ones are drawn, in the requested order.
#[test]
fn chosen_groups_are_drawn() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    let names: Vec<String> = (0..15).map(|index| format!("site{index}")).collect();
    let groups = ["--group-by", "group", "--groups", &names.join(","), "--rest", "others"];
    let run = bench.release(&[&groups[..], &["--plot-groups", "others,site14,site3"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let svg = bench.read("counts.svg");
    for (text, shown) in [(">others<", true), (">site14<", true), (">site3<", true), (">site0<", false)] {
        assert_eq!(svg.contains(text), shown, "{text}");
    }
    assert!(svg.contains("3 of 16 groups shown"), "{svg}");
    for (chosen, says) in [("site99", "not a declared group, such as `site0`"), ("site1,site1", "twice")] {
        let message = bench.refused(&[&groups[..], &["--stream", "x", "--plot-groups", chosen]].concat());
        assert!(message.contains(says), "{message}");
    }
    assert!(bench.refused(&["--stream", "x", "--plot-groups", "a"]).contains("--plot-groups needs --group-by"));
}

/// The size of a table is known before it is made.
#[test]
fn large_tables_are_announced() {
    let bench = Bench::new();
    let sites: Vec<String> = (0..2000).map(|site| format!("site {site:04}")).collect();
    bench.write("sites.csv", format!("group\n{}\n", sites.join("\n")));
    let year = ["--steps", "8760", "--every", "1h", "--rho", "1", "--group-by", "group", "--groups-file", "sites.csv"];
    let run = bench.run(&[&["release", "--start", "2024-01-01", "--plan-only"], &year[..]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let forecast = run.stdout.lines().find(|line| line.starts_with("# table: ")).unwrap();
    assert!(forecast.contains("8760 steps × 2000 groups = 17520000 rows, about 1."), "{forecast}");
    assert!(forecast.contains(" GB as CSV, in about "), "{forecast}");
}

/// Fractional counts and contradictory bounds get a note.
#[test]
fn what_people_ask_is_answered() {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    let fine = bench.release(&["--mechanism", "consistent(k=3)"]);
    assert!(fine.stderr.contains("note: values have fractions"), "{}", fine.stderr);
    assert!(bench.read("counts.report.md").contains("| released values | on a finer grid than the data"));
    let person = ["--person", "who", "--max-events", "2", "--max-events-per-step", "3", "--stream", "other"];
    let bounds = bench.release(&person);
    assert!(bounds.stderr.contains("--max-events-per-step 3 is more than --max-events 2"), "{}", bounds.stderr);
    assert!(!bounds.stderr.contains("fractions"), "{}", bounds.stderr);
    let tiny = bench.run(&[
        "release",
        "--start",
        "2024-01-01",
        "--steps",
        "3",
        "--every",
        "1d",
        "--rho",
        "1e-30",
        "--plan-only",
    ]);
    assert!(tiny.stdout.contains("# with a standard error of") && tiny.stdout.contains("a typo?"), "{}", tiny.stdout);
}

/// Dates in non-standard formats, and other separators.
#[test]
fn other_times_and_delimiters_are_read() {
    let truth = |bench: &Bench, flags: &[&str]| {
        let exact = ["--allow-weak-budget", "--epsilon", "100000", "--no-plot", "-q", "--out", "exact.csv"];
        let run = bench.run(&[&RELEASE[..10], &exact[..], flags].concat());
        assert_eq!(run.code, 0, "{flags:?}: {}", run.stderr);
        table(&bench.read("exact.csv"))[1..].iter().map(|row| row[2].clone()).collect::<Vec<_>>()
    };
    for (content, flags) in [
        ("time\n20240101\n20240103\n", &["--time-format", "%Y%m%d"][..]),
        ("time\n01/01/2024 08:15\n03/01/2024 23:59\n", &["--time-format", "%d/%m/%Y %H:%M"]),
        ("time\n1/1/24\n1/3/24\n", &["--time-format", "%m/%d/%y"]),
        ("time\n 2024-01-01 \n  2024-01-03T01:00:00Z\n", &[]),
        ("x\ttime\n1\t2024-01-01\n2\t2024-01-03\n", &["--delimiter", "tab"]),
        ("x\ttime\n1\t2024-01-01\n2\t2024-01-03\n", &["--delimiter", "\\t"]),
        ("x;time\n1;2024-01-01\n2;2024-01-03\n", &["--delimiter", ";"]),
        ("time\n01/01/2024 23:30 -0100\n02/01/2024\n", &["--time-format", "%d/%m/%Y"]),
    ] {
        let bench = Bench::new();
        bench.write("events.csv", content);
        if content.contains("-0100") {
            let message = bench.refused(flags);
            assert!(message.contains("line 2") && message.contains("pattern of --time-format"), "{message}");
            continue;
        }
        assert_eq!(truth(&bench, flags), ["1", "1", "2"], "{content:?}");
    }
}

/// If two runs both create the key, one waits for the other: every published table keeps its key and ledger.
#[test]
fn two_runs_that_make_one_key_share_it() {
    let bench = ready();
    bench.write("bad.csv", "time\n2024-01-01\nnever\n");
    let args = |input: &str, stream: &str| {
        let flags = format!(
            "release {input} --all --key new.key --create-key --start 2024-01-01 --steps 3 --every 1d --rho 1 \
             --no-plot --quiet --stream {stream} --out {stream}.csv"
        );
        flags.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    for trial in 0..8 {
        let runs = [args("events.csv", "good"), args("bad.csv", "bad"), args("events.csv", "other")];
        let spawn = |args: &Vec<String>| {
            let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_evertally"));
            let quiet = std::process::Stdio::null;
            command.current_dir(bench.folder()).args(args).stdout(quiet()).stderr(quiet()).spawn().unwrap()
        };
        let codes = runs.iter().map(spawn).collect::<Vec<_>>().into_iter().map(|mut run| run.wait().unwrap().code());
        assert_eq!(codes.collect::<Vec<_>>(), [Some(0), Some(2), Some(0)], "trial {trial}");
        let ledger: serde_json::Value = serde_json::from_str(&bench.read("new.key.ledger")).unwrap();
        assert_eq!(ledger["streams"].as_object().unwrap().len(), 2, "trial {trial}");
        assert_eq!(bench.run(&["key", "id", "new.key"]).stdout.trim(), ledger["key_id"].as_str().unwrap());
        assert!(bench.files().iter().all(|name| !name.starts_with('.')), "{:?}", bench.files());
        ["new.key", "new.key.ledger"].iter().for_each(|name| std::fs::remove_file(bench.path(name)).unwrap());
    }
}

/// A refusal states how much a source has left, a stream counts once, and its budget is read without a key.
#[test]
fn publications_of_all_keys_spend_the_budget_of_their_source() {
    let bench = ready();
    let new = ["budget", "new", "v.budget", "--name", "visits", "--unit", "event", "--epsilon", "1.5"];
    assert_eq!(bench.run(&new).code, 0);
    assert!(bench.run(&new).stderr.contains("never replaced"));
    assert_eq!(bench.run(&["key", "new", "other.key"]).code, 0);
    let spending = ["--no-plot", "--budget-file", "v.budget"];
    for _ in 0..2 {
        assert_eq!(bench.release(&spending).code, 0);
    }
    let other = [&spending[..], &["--key", "other.key", "--out", "other.csv"]].concat();
    let by = |more: &[&str]| -> Vec<String> {
        let base = ["release", "events.csv", "--start", "2024-01-01", "--end", "2024-01-04", "--every", "1d"];
        base.iter().chain(&other).chain(more).map(|&flag| flag.to_owned()).collect()
    };
    let run = |more: &[&str]| bench.run(&by(more).iter().map(String::as_str).collect::<Vec<_>>());
    let before = (bench.read("v.budget"), bench.files());
    let refused = run(&["--epsilon", "1"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("ε = 0.5 of ε = 1.5 is left"), "{}", refused.stderr);
    let refused = run(&["--epsilon", "0.5", "--person", "who", "--max-events", "2"]);
    assert!(refused.stderr.contains("is for one event, and the plan"), "{}", refused.stderr);
    let planned = run(&["--epsilon", "0.5", "--plan-only"]);
    assert!(planned.code == 0 && planned.stderr.contains("ε = 0 of ε = 1.5 would be left"), "{}", planned.stderr);
    assert_eq!((bench.read("v.budget"), bench.files()), before, "a refusal or a plan left files");
    assert_eq!(run(&["--epsilon", "0.5"]).code, 0);

    std::fs::remove_file(bench.path("my.key")).unwrap();
    let shown = bench.run(&["budget", "show", "v.budget", "--json", "--plot", "v.svg"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!((&shown["spent"]["epsilon"], &shown["left"]["epsilon"]), (&1.5.into(), &0.0.into()));
    assert_eq!(shown["streams"].as_array().unwrap().len(), 2);
    assert!(bench.read("v.svg").starts_with("<svg"));
    assert!(bench.run(&["budget", "show", "v.budget"]).stdout.contains("left      ε = 0"));
}

/// The spent budget agrees with the reports, by unit, and is read without the key; forks of a ledger are detected.
#[test]
fn ledgers_tell_what_is_spent_and_whether_they_have_forked() {
    let bench = ready();
    let gaussian = |stream: &'static str, key: &'static str, more: &[&'static str]| {
        let base =
            ["release", "events.csv", "--start", "2024-01-01", "--end", "2024-01-04", "--every", "1d", "--no-plot"];
        let name = ["--rho", "0.5", "--noise", "gaussian", "--stream", stream, "--key", key, "--out", "t.csv"];
        assert_eq!(bench.run(&[&base[..], &name, more].concat()).code, 0);
    };
    gaussian("one", "my.key", &[]);
    let report: serde_json::Value = serde_json::from_str(&bench.read("t.report.json")).unwrap();
    let key = bench.read("my.key");
    std::fs::remove_file(bench.path("my.key")).unwrap();
    let spent = |file: &str| -> serde_json::Value {
        serde_json::from_str(&bench.run(&["key", "spent", file, "--json"]).stdout).unwrap()
    };
    let spent_summary = spent("my.key.ledger");
    assert_eq!(spent_summary["total"]["epsilon"], report["guarantee"]["epsilon_at_delta"][1]["epsilon"]);
    assert_eq!((&spent_summary["streams"][0]["unit"], &spent_summary["recorded_runs"]), (&"event".into(), &1.into()));
    assert_eq!((&report["ledger"]["identity"], &report["ledger"]["run"]), (&spent_summary["ledger"], &1.into()));
    assert!(spent_summary["streams"][0]["first"].as_str().is_some_and(|at| at.ends_with('Z')));

    std::fs::write(bench.path("my.key"), &key).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(bench.path("my.key"), PermissionsExt::from_mode(0o600)).unwrap();
    }
    for name in ["my.key", "my.key.ledger"] {
        std::fs::copy(bench.path(name), bench.path(&name.replace("my", "copy"))).unwrap();
    }
    let compared = |a: &str, b: &str| {
        let run = bench.run(&["key", "compare", a, b]);
        (run.code, run.stdout + &run.stderr)
    };
    assert!(compared("my.key", "copy.key.ledger").1.contains("the same ledger, with 1 recorded runs"));
    gaussian("two", "my.key", &["--person", "who", "--max-events", "2"]);
    assert!(compared("my.key", "copy.key").1.contains("copy.key is an older copy of my.key: it has 1 of its 2 runs"));
    assert!(
        compared("t.csv", "copy.key").1.contains("copy.key is an older copy: t.csv is run 2, but the copy has only 1")
    );
    let spent_summary = spent("my.key");
    assert!(
        spent_summary["total"].is_null() && spent_summary["totals"].as_array().unwrap().len() == 2,
        "units were added up: {spent_summary}"
    );
    gaussian("three", "copy.key", &[]);
    let (code, text) = compared("my.key", "copy.key");
    assert!(
        code == 2 && text.contains("have 1 recorded runs in common") && text.contains("my.key has stream `two`"),
        "{text}"
    );
    let (code, text) = compared("my.key", "t.csv");
    assert!(code == 2 && text.contains("FORK: t.csv is run 2 of a copy of my.key"), "{text}");
}
