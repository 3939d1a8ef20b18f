//! The shapes of real files: read as they are once that is declared, and otherwise refused with a remedy that works.

mod common;

use common::Bench;

/// Daily steps of three days with next to no noise.
const FIXED: &[&str] = &[
    "--steps",
    "3",
    "--every",
    "1d",
    "--workload",
    "increments",
    "--key",
    "my.key",
    "--rho",
    "1e6",
    "--allow-weak-budget",
    "--no-plot",
    "--quiet",
    "--out",
    "out.csv",
];

/// The counts of the three days.
fn counts(bench: &Bench, file: &str, flags: &[&str]) -> Vec<u64> {
    let name = format!("s{}", flags.join("").replace(|c: char| !c.is_ascii_alphanumeric(), ""));
    let run = bench.run(&[&["release", file, "--stream", &format!("{file}{name}")], FIXED, flags].concat());
    assert_eq!(run.code, 0, "{file} {flags:?}: {}", run.stderr);
    let table = bench.read("out.csv");
    let value = |line: &str| line.split(',').nth(2).unwrap().parse::<f64>().unwrap().round() as u64;
    table.lines().skip(1).map(value).collect()
}

fn refused(bench: &Bench, file: &str, flags: &[&str]) -> String {
    let before = bench.files();
    let run = bench.run(&[&["release", file], FIXED, flags].concat());
    assert_eq!(run.code, 2, "{file} {flags:?}: {}", run.stderr);
    assert_eq!(bench.files(), before, "{flags:?} left files");
    run.stderr
}

#[test]
fn each_refusal_names_the_flag_that_reads_the_file() {
    let start = ["--start", "2024-01-01"];
    for (name, content, remedy, flags, expected) in [
        (
            "comments.csv",
            &b"# exported 2024\n# by tool X\ntime;v\n2024-01-01;1\n# half\n2024-01-02;1\n"[..],
            "--comment '#'",
            &["--comment", "#", "--delimiter", ";"][..],
            [1, 1, 0],
        ),
        ("title.csv", b"Visits of 2024\n\ntime,v\n2024-01-01,1\n", "--skip-lines N", &["--skip-lines", "2"], [1, 0, 0]),
        (
            "headless.csv",
            b"2024-01-01,north\n2024-01-02,south\n",
            "--columns NAME",
            &["--columns", "time,hall"],
            [1, 1, 0],
        ),
        (
            "raw-quotes.tsv",
            b"time\tq\n2024-01-01\t5\" pipe\n2024-01-02\t\"open\n2024-01-03\t''\n",
            "--quote none",
            &["--quote", "none", "--delimiter", "tab"],
            [1, 1, 1],
        ),
        (
            "latin1.csv",
            b"time,city\n2024-01-01,Z\xfcrich\n",
            "--encoding windows-1252",
            &["--encoding", "latin1"],
            [1, 0, 0],
        ),
        (
            "utf16.csv",
            b"t\0i\0m\0e\0\n\x002\x000\x002\x004\0-\x000\x001\0-\x000\x003\0\n\0",
            "--encoding utf-16le",
            &["--encoding", "utf-16le"],
            [0, 0, 1],
        ),
    ] {
        let bench = Bench::new();
        bench.write(name, content);
        let delimiter = if name.ends_with("tsv") { &["--delimiter", "tab"][..] } else { &[] };
        let message = refused(&bench, name, &[&start, delimiter].concat());
        assert!(message.contains(remedy) && message.starts_with(&format!("error: {name}")), "{message}");
        assert_eq!(counts(&bench, name, &[&start, flags].concat()), expected, "{name}");
    }
}

#[test]
fn the_first_line_of_excel_is_never_data() {
    let bench = Bench::new();
    bench.write("excel-sep.csv", "sep=;\r\ntime;v\r\n2024-01-01;1\r\n");
    let start = ["--start", "2024-01-01"];
    assert_eq!(counts(&bench, "excel-sep.csv", &start), [1, 0, 0]);
    assert_eq!(counts(&bench, "excel-sep.csv", &[&start[..], &["--delimiter", ";"]].concat()), [1, 0, 0]);
    let message = refused(&bench, "excel-sep.csv", &[&start[..], &["--delimiter", ","]].concat());
    assert!(message.contains("line 1: the line `sep=;` contradicts --delimiter"), "{message}");
}

#[test]
fn access_logs_are_read_once_they_are_declared() {
    let bench = Bench::new();
    let line = |day: u32, host: &str| {
        format!("{host} - - [{day}/May/2015:23:05:03 -0300] \"GET /a HTTP/1.1\" 200 5 \"-\" \"Mozilla\"\n")
    };
    bench.write("access.log", line(17, "192.0.2.9") + &line(18, "192.0.2.9"));
    let start = ["--start", "2015-05-17"];
    let message = refused(&bench, "access.log", &start);
    assert!(message.contains("access log") && message.contains("--input-format combined-log"), "{message}");
    let declared = [&start[..], &["--input-format", "combined-log"]].concat();
    // 23:05 at -03:00 is the next day in UTC.
    assert_eq!(counts(&bench, "access.log", &declared), [0, 1, 1]);
    let zone = [&declared[..], &["--time-zone", "America/Sao_Paulo"]].concat();
    assert_eq!(counts(&bench, "access.log", &zone), [1, 1, 0]);
    let person = [&zone[..], &["--person", "host", "--max-events", "1"]].concat();
    assert_eq!(counts(&bench, "access.log", &person), [1, 0, 0]);
    bench.write("access.log", line(17, "192.0.2.9") + "[Sun Dec 04 04:47:44 2005] [notice] init\n");
    let message = refused(&bench, "access.log", &declared);
    assert!(message.contains("access.log, line 2: `[Sun Dec 04"), "{message}");
    bench.write("apache-error.log", "[Sun Dec 04 04:47:44 2005] [notice] workerEnv.init() ok\n");
    let message = refused(&bench, "apache-error.log", &start);
    assert!(message.contains("no column `time`") && !message.contains("JSON"), "{message}");
    // A quiet day.
    bench.write("quiet.log", "").write("quiet.jsonl", "\n");
    assert_eq!(counts(&bench, "quiet.log", &declared), [0, 0, 0]);
    assert_eq!(counts(&bench, "quiet.jsonl", &[&start[..], &["--input-format", "jsonl"]].concat()), [0, 0, 0]);
    assert!(refused(&bench, "quiet.jsonl", &start).contains("the file is empty"));
}

#[test]
fn the_configuration_file_has_the_same_names() {
    let bench = Bench::new();
    bench.write(
        "c.toml",
        "input = 'e.csv'\nstart = 2024-01-01\nskip-lines = 1\ncomment = '#'\ncolumns = ['time', 'v']\nquote = \"'\"\n\
         encoding = 'latin1'\ndelimiter = ';'\ninput-format = 'csv'\n"
            .replace("2024-01-01", "'2024-01-01'"),
    );
    bench.write("e.csv", b"x\n2024-01-02;'\xfc;'\n#\n2024-01-03;\"\n");
    let run = bench.run(&[&["release", "--config", "c.toml"], FIXED].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    for (flags, says) in [
        (["--quote", "x"], "`x` is not a quote"),
        (["--comment", ""], "cannot begin a comment line"),
        (["--comment", "'#'"], "cannot begin a comment line"),
        (["--columns", ""], "names no column"),
        (["--encoding", "latin-one"], "`latin-one` is not the label of an encoding"),
        (["--input-format", "xls"], "combined-log"),
        (["--delimiter", "'"], "that can separate cells"),
    ] {
        let run = bench.run(&[&["release", "--config", "c.toml"], FIXED, &flags].concat());
        assert!(run.code == 2 && run.stderr.contains(says), "{flags:?}: {}", run.stderr);
    }
}
