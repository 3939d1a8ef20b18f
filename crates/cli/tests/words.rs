//! What summaries, reports and pictures say, and whether the advice in messages works.

mod common;

use common::{Bench, Run};
use serde_json::Value;

/// A budget so large that no released count is off by one half.
const EXACT: [&str; 3] = ["--rho", "1e6", "--allow-weak-budget"];

/// A year of two daily counts under one key.
fn year<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let base = ["release", "--key", "my.key", "--start", "2024-01-01", "--every", "1d"];
    [&base[..], &EXACT, more].concat()
}

fn ok(run: Run) -> Run {
    assert_eq!(run.code, 0, "{}", run.stderr);
    run
}

fn refusal(run: Run) -> String {
    assert_eq!(run.code, 2, "{}{}", run.stdout, run.stderr);
    run.stderr
}

/// All texts of a picture.
fn texts(svg: &str) -> String {
    svg.split('>').filter_map(|part| part.split_once('<')).map(|(text, _)| text).collect::<Vec<_>>().join(" ")
}

/// Groups that join later are named with the day from which they count, also in the next stream.
#[test]
fn groups_that_joined_count_from_their_own_day() {
    let bench = Bench::new();
    for (day, hall) in [(1, "North"), (2, "North"), (3, "Park"), (4, "Park"), (5, "Park")] {
        bench.write(&format!("{day}.csv"), format!("time,hall\n2024-01-0{day}T10:00:00Z,{hall}\n"));
    }
    let run = |days: &[&str], groups: &str, through: &str, more: &[&str]| {
        let own = ["--continue", "--group-by", "hall", "--groups", groups, "--through", through, "--out", "o.csv"];
        let run = ok(bench.run(&year(&[&own[..], &["--steps", "4"], days, more].concat())));
        (run.stderr, bench.read("o.report.md"), texts(&bench.read("o.svg")))
    };
    let (_, report, picture) = run(&["1.csv", "2.csv"], "North", "2024-01-03", &[]);
    assert!(!report.contains("joined later") && !picture.contains("(from"), "{report}{picture}");
    let (_, report, picture) = run(&["3.csv"], "North,Park", "2024-01-04", &[]);
    assert!(report.contains("| joined later | Park: counted from 3 January 2024 |"), "{report}");
    assert!(picture.contains("Park (from 3 January 2024)") && !picture.contains("North (from"), "{picture}");
    // Once it is recorded, and after the end of the horizon.
    run(&["4.csv"], "North,Park", "2024-01-05", &[]);
    let (_, report, picture) = run(&["5.csv"], "North,Park", "2024-01-06", &["--extend"]);
    assert!(report.contains("Park: counted from 3 January 2024 |"), "{report}");
    assert!(picture.contains("Park (from 3 January 2024)"), "{picture}");
    let facts: Value = serde_json::from_str(&bench.read("o.report.json")).unwrap();
    let joined = serde_json::json!([{"since": "3 January 2024", "groups": [["Park"]]}]);
    assert_eq!(facts["groups"]["joined"], joined);
}

/// An event is in one of consecutive streams; a person is in all, and a person's period in those that it touches.
#[test]
fn budgets_of_consecutive_streams_add_up_for_those_who_are_in_several() {
    let promised = |unit: &[&str]| {
        let bench = Bench::new();
        for day in 1..=9 {
            bench.write(&format!("{day}.csv"), format!("time,who\n2024-01-0{day}T10:00:00Z,p\n"));
        }
        assert_eq!(
            ok(bench.run(&[
                "budget",
                "new",
                "b.json",
                "--name",
                "n",
                "--unit",
                if unit.is_empty() { "event" } else { "person" },
                "--rho",
                "5"
            ]))
            .code,
            0
        );
        let budget = if unit.contains(&"--per") { &[][..] } else { &["--budget-file", "b.json"] };
        let mut opened = Vec::new();
        for (days, through) in [([1, 2, 3], "2024-01-04"), ([4, 5, 6], "2024-01-07"), ([7, 8, 9], "2024-01-10")] {
            let files = days.map(|day| format!("{day}.csv"));
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            let own = ["--continue", "--extend", "--steps", "3", "--through", through, "--out", "t.csv", "--no-plot"];
            let run = ["release", "--key", "my.key", "--start", "2024-01-01", "--every", "1d", "--rho", "0.5"];
            opened.push(ok(bench.run(&[&run[..], &own, &files, unit, budget].concat())).stderr);
        }
        let report: Value = serde_json::from_str(&bench.read("t.report.json")).unwrap();
        let spent = ok(bench.run(&["key", "spent", "my.key", "--json"])).stdout;
        let spent: Value = serde_json::from_str(&spent).unwrap();
        let source: Value =
            serde_json::from_str(&ok(bench.run(&["budget", "show", "b.json", "--json"])).stdout).unwrap();
        let rho = report["guarantee"]["rho"].as_f64().unwrap();
        let of_key: f64 = spent["totals"].as_array().unwrap().iter().map(|total| total["rho"].as_f64().unwrap()).sum();
        assert_eq!(of_key, rho, "{unit:?}: {spent}");
        if !budget.is_empty() {
            assert_eq!(source["spent"]["rho"].as_f64(), Some(rho), "{unit:?}: {source}");
        }
        assert_eq!(report["follows"]["streams"], 3);
        let times = format!(
            "guarantee: {}ρ = 0.5",
            match rho / 0.5 {
                1.0 => String::new(),
                n => format!("{n} × "),
            }
        );
        assert!(opened[2].contains(&times), "{times}: {}", opened[2]);
        (rho, opened.swap_remove(1), bench.read("t.report.md"))
    };
    let (rho, opened, report) = promised(&[]);
    assert_eq!(rho, 0.5);
    assert!(
        opened.contains("opens stream `main #2`, under the same ρ = 0.5 (zCDP): one event is in one of"),
        "{opened}"
    );
    assert!(
        report.contains("errors are stated for all 3 streams together; the guarantee is that of a single"),
        "{report}"
    );
    let (rho, opened, report) = promised(&["--person", "who", "--max-events", "1"]);
    assert_eq!(rho, 1.5);
    assert!(opened.contains("opens stream `main #2`, which spends ρ = 0.5 (zCDP) in addition"), "{opened}");
    assert!(report.contains("guarantee and errors are stated for all 3 streams"), "{report}");
    // No stream ends within a day, and the first ends within a week.
    assert_eq!(promised(&["--person", "who", "--max-events", "1", "--per", "day"]).0, 0.5);
    assert_eq!(promised(&["--person", "who", "--max-events", "1", "--per", "week"]).0, 1.5);
}

/// A replaced event can be taken from one stream and added to another.
#[test]
fn a_replaced_event_counts_in_two_streams() {
    let bench = Bench::new();
    for (day, times) in [(1, ""), (2, "2 × "), (3, "2 × "), (4, "2 × ")] {
        bench.write(&format!("{day}.csv"), format!("time\n2024-01-0{day}T10:00:00Z\n"));
        let (file, through) = (format!("{day}.csv"), format!("2024-01-0{}", day + 1));
        let own = ["release", &file, "--continue", "--extend", "--key", "my.key", "--start", "2024-01-01", "--steps"];
        let more = ["1", "--every", "1d", "--rho", "0.5", "--neighbours", "replace-one", "--out", "t.csv", "--no-plot"];
        let run = ok(bench.run(&[&own[..], &more, &["--through", &through]].concat()));
        assert!(run.stderr.contains(&format!("guarantee: {times}ρ = 0.5")), "{day}: {}", run.stderr);
    }
}

/// Titles of workloads and measures are words; the table and its columns keep the declared names.
#[test]
fn lines_have_words_for_names() {
    let bench = Bench::new();
    let rows: String = (1..=9).map(|day| format!("2024-01-0{day},{day}\n")).collect();
    bench.write("e.csv", format!("time,price\n{rows}"));
    let run = |stream: &str, more: &[&str]| {
        let own = ["e.csv", "--steps", "9", "--stream", stream, "--out", "t.csv"];
        let args = year(&[&own, more].concat());
        // Quantiles of so few events need no such budget.
        let args: Vec<&str> = args.into_iter().map(|word| if word == EXACT[1] { "5" } else { word }).collect();
        let summary = ok(bench.run(&args)).stderr;
        (summary, bench.read("t.report.md"), texts(&bench.read("t.svg")), bench.read("t.csv"))
    };
    let several = ["--workload", "window(7d)", "--workload", "sum", "--workload", "increments"];
    let (summary, report, picture, table) = run("several", &several);
    for text in [&summary, &picture] {
        assert!(text.contains("last 7 days") && text.contains("total so far") && text.contains("per day"), "{text}");
        assert!(!text.contains("window(7d)") && !text.contains("increments"), "{text}");
    }
    assert!(report.contains("| workloads | last 7 days, total so far, per day |"), "{report}");
    assert!(report.contains("| column `workload` | window(7d), sum, increments |") && table.contains(",window(7d),"));
    let measures = ["--value", "price", "--bounds", "0,10", "--measure", "quantile(0.5)", "--measure", "std"];
    let (summary, report, picture, table) = run("measures", &measures);
    for text in [&summary, &report, &picture] {
        assert!(text.contains("median") && text.contains("standard deviation"), "{text}");
    }
    assert!(table.contains(",quantile(0.5),") && !picture.contains("quantile"), "{picture}");
    // Values of single days stand in their days, above zero.
    let (_, report, picture, _) = run("daily", &["--workload", "increments"]);
    assert!(report.contains("| released | count of events per day, 9 of 9 steps |"), "{report}");
    assert!(
        picture.contains("count of events per day") && picture.contains("in the middle of their step"),
        "{picture}"
    );
    assert!(!picture.contains("since"), "{picture}");
}

/// The word for a person is for readers alone: it may change, and the stream continues.
#[test]
fn persons_have_a_word_for_readers() {
    let bench = Bench::new();
    bench.write("e.csv", "time,pid\n2024-01-01,p1\n2024-01-02,p2\n");
    let own = ["e.csv", "--steps", "3", "--person", "pid", "--max-events", "2", "--out", "t.csv"];
    let run = |more: &[&str]| bench.run(&year(&[&own, more].concat()));
    assert!(ok(run(&[])).stderr.contains("for one pid (at most 2 events kept)"));
    let table = bench.read("t.csv");
    let summary = ok(run(&["--unit-name", "patient"])).stderr;
    let (report, picture) = (bench.read("t.report.md"), texts(&bench.read("t.svg")));
    for text in [&summary, &report, &picture] {
        assert!(text.contains("one patient (at most 2 events kept)") && !text.contains("one pid"), "{text}");
    }
    assert_eq!(bench.read("t.csv"), table);
    assert!(refusal(run(&["--unit-name", "a|b"])).contains("`a|b` is not a word for a person"));
    let alone = bench.run(&year(&["e.csv", "--steps", "3", "--out", "u.csv", "--unit-name", "patient"]));
    assert!(refusal(alone).contains("--unit-name needs --person"));
}

/// The figure after some words, up to the next mark.
fn figure(text: &str, after: &str) -> String {
    let place = text.find(after).unwrap_or_else(|| panic!("no {after:?} in {text}"));
    text[place + after.len()..].split([',', ';', '|', '\n', '%']).next().unwrap().trim().to_owned()
}

/// The plan, the summary and the report state the same figures, to the digit.
#[test]
fn plan_summary_and_report_agree() {
    for (number, more) in [
        &["--rho", "0.37"][..],
        &["--epsilon", "0.7", "--mechanism", "binary"],
        &["--epsilon", "1", "--delta", "1e-6", "--person", "who", "--max-events", "3"],
        &["--rho", "0.1", "--person", "who", "--max-events", "2", "--per", "week", "--workload", "window(3)"],
        &["--rho", "0.1", "--workload", "increments"],
    ]
    .into_iter()
    .enumerate()
    {
        let bench = Bench::new();
        bench.write("e.csv", "time,who\n2024-01-01,a\n2024-01-09,b\n");
        let base = ["release", "e.csv", "--start", "2024-01-01", "--steps", "30", "--every", "1d"];
        let plan = ok(bench.run(&[&base[..], more, &["--plan-only"]].concat())).stdout;
        let summary = ok(bench.run(&[&base[..], more, &["--key", "my.key", "--out", "t.csv", "--no-plot"]].concat()));
        let (summary, report) = (summary.stderr, bench.read("t.report.md"));
        let error = figure(&plan, "# standard error: at most ");
        assert_eq!(figure(&summary, "standard error at most "), error, "{number}: {summary}");
        assert_eq!(figure(&report, "| standard error | at most "), error, "{number}: {report}");
        let interval = figure(&plan, "# interval at the last step: ± ").replace(" at ", " ");
        assert_eq!(figure(&report, "| interval at the last step | ± ").replace(" at ", " "), interval, "{number}");
        let guarantee = plan.lines().find_map(|line| line.strip_prefix("# guarantee: ")).unwrap();
        assert!(summary.contains(&format!("guarantee: {guarantee}; ")), "{number}: {guarantee} {summary}");
        let (budget, unit) = guarantee.split_once(" for ").unwrap();
        assert!(report.contains(&format!("| privacy unit | {unit} |")), "{number}: {report}");
        assert!(report.contains(&format!("| budget | {budget} |")), "{number}: {report}");
    }
}

/// A date in the format of the events is refused as a start, and the named form works.
#[test]
fn declared_times_are_written_year_first() {
    let bench = Bench::new();
    let plan = |start: &str| {
        let own = ["--time-format", "%d/%m/%Y", "--steps", "4", "--every", "1d", "--rho", "0.5", "--plan-only"];
        bench.run(&[&["release", "--start", start], &own[..]].concat())
    };
    let message = refusal(plan("02/01/2024"));
    assert!(message.contains("write 2024-01-02 or 2024-02-01, whatever the format of the events"), "{message}");
    ok(plan("2024-01-02"));
}

/// One text may stand for a list, in the configuration of a release.
#[test]
fn one_text_stands_for_a_list() {
    let bench = Bench::new();
    let config = |groups: &str| {
        let text = format!(
            "start = \"2024-01-01\"\nsteps = 2\nevery = \"1d\"\nrho = 0.5\ngroup-by = \"hall\"\ngroups = {groups}\n"
        );
        bench.write("c.toml", text);
        bench.run(&["release", "--config", "c.toml", "--plan-only"])
    };
    let one = ok(config("\"North\"")).stdout;
    assert_eq!(ok(config("[\"North\"]")).stdout, one);
    let message = refusal(config("\"North,Park\""));
    assert!(message.contains("write several as a list, [\"North\", \"Park\"]"), "{message}");
    ok(config("[\"North\", \"Park\"]"));
}

/// With `--expect`, a run that closes no step because a file is missing fails, whether or not there are other files.
#[test]
fn a_missing_file_has_one_rule() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("daily")).unwrap();
    let day = |day: u64| {
        bench.write(&format!("daily/2024-01-0{day}.csv"), format!("time\n2024-01-0{day}T10:00:00Z\n"));
    };
    let run = |through: &str| {
        let own = ["--expect", "daily/%Y-%m-%d.csv", "--continue", "--steps", "9", "--through", through];
        bench.run(&year(&[&own[..], &["--out", "t.csv"]].concat()))
    };
    // Neither without any file, nor with that of a later step.
    assert!(refusal(run("2024-01-05")).contains("2024-01-01.csv of step 1, which ends at 2024-01-02, was not read"));
    day(2);
    let message = refusal(run("2024-01-05"));
    assert!(message.contains("so no step can be closed; run again once it is there"), "{message}");
    assert!(!bench.path("t.csv").exists());
    day(1);
    let first = ok(run("2024-01-05")).stderr;
    assert!(first.contains("2024-01-03.csv was not read; step 3 and all later steps wait for it"), "{first}");
    day(4);
    let message = refusal(run("2024-01-05"));
    assert!(message.contains("2024-01-03.csv of step 3"), "{message}");
    // As the message says: a file with only the column names.
    bench.write("daily/2024-01-03.csv", "time\n");
    let second = ok(run("2024-01-05")).stderr;
    assert!(!second.contains("note: "), "notes on the declaration are for the first run: {second}");
    assert_eq!(bench.read("t.csv").lines().count(), 5);
    // A run that has nothing to do succeeds.
    ok(run("2024-01-05"));
}

/// A stream of full runs takes a new group only after its state is saved, and each step of that advice works.
#[test]
fn a_group_joins_a_stream_of_full_runs_as_the_message_says() {
    let bench = Bench::new();
    bench.write("1.csv", "time,hall\n2024-01-01T10:00:00Z,North\n2024-01-02T10:00:00Z,North\n");
    bench.write("2.csv", "time,hall\n2024-01-03T10:00:00Z,Park\n");
    let run = |files: &[&str], groups: &str, through: &str, more: &[&str]| {
        let own = ["--steps", "9", "--group-by", "hall", "--groups", groups, "--through", through, "--out", "t.csv"];
        bench.run(&year(&[&own[..], files, more].concat()))
    };
    ok(run(&["1.csv"], "North", "2024-01-03", &[]));
    for how in [&[][..], &["--rebuild"]] {
        let message = refusal(run(&["1.csv", "2.csv"], "North,Park", "2024-01-04", how));
        assert!(
            message.contains("without the group `Park`, which can join it only in a run that reads new"),
            "{message}"
        );
        assert!(message.contains("--continue") && message.contains("--rebuild"), "{message}");
    }
    ok(run(&["1.csv"], "North", "2024-01-03", &["--rebuild"]));
    ok(run(&["2.csv"], "North,Park", "2024-01-04", &["--continue"]));
    assert!(bench.read("t.csv").lines().last().unwrap().starts_with("2024-01-03,Park,3,1"), "{}", bench.read("t.csv"));
}

/// Folders and patterns name files, on the command line and in a configuration file, and files are recognised by
/// content.
#[test]
fn folders_and_patterns_are_inputs() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("daily")).unwrap();
    for day in 1..=3 {
        bench.write(&format!("daily/2024-01-0{day}.csv"), format!("time\n2024-01-0{day}T10:00:00Z\n"));
    }
    bench.write("daily/.hidden.csv", "not,events\n");
    let run = |stream: &str, out: &str, more: &[&str]| {
        bench.run(&year(&[&["--steps", "9", "--stream", stream, "--out", out, "--no-plot"], more].concat()))
    };
    ok(run("files", "t.csv", &["daily/2024-01-01.csv", "daily/2024-01-02.csv", "daily/2024-01-03.csv"]));
    bench.write("c.toml", "input = \"daily/*.csv\"\n");
    for (stream, input) in
        [("folder", &["daily"][..]), ("pattern", &["daily/*.csv"]), ("file", &["--config", "c.toml"])]
    {
        ok(run("files", "u.csv", input));
        assert_eq!(bench.read("u.csv"), bench.read("t.csv"), "{stream}");
    }
    let message = refusal(run("none", "v.csv", &["daily/*.parquet"]));
    assert!(message.contains("no file matches daily/*.parquet"), "{message}");
    let grow = |through: &str| ok(run("grows", "g.csv", &["daily", "--continue", "--through", through])).stderr;
    grow("2024-01-04");
    bench.write("daily/2024-01-04.csv", "time\n2024-01-04T10:00:00Z\n");
    let message = grow("2024-01-05");
    assert!(message.contains("3 of 4 files had been read before"), "{message}");
    assert_eq!(bench.read("g.csv").lines().count(), 5);
}

/// Answers about persons are about the kept events.
#[test]
fn interval_says_that_it_counts_kept_events() {
    let bench = Bench::new();
    bench.write("e.csv", "time,who\n2024-01-01,a\n2024-01-02,b\n");
    let run = |out: &str, more: &[&str]| {
        ok(bench.run(&year(&[&["e.csv", "--steps", "3", "--stream", out, "--out", out], more].concat())));
        ok(bench.run(&["interval", out])).stdout
    };
    let persons = run("p.csv", &["--person", "who", "--max-events", "2"]);
    assert!(persons.contains("Note: values count the kept events alone: up to 2 of each person"), "{persons}");
    assert!(!run("e.csv.csv", &[]).contains("kept events"));
}
