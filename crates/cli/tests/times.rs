//! Times as real files write them: read as they are meant, or refused with a remedy that works.

mod common;

use common::{Bench, Run};

/// Hourly steps of one day in New York, with next to no noise.
const HOURLY: &[&str] = &[
    "--time-zone",
    "America/New_York",
    "--start",
    "2015-05-17",
    "--steps",
    "24",
    "--every",
    "1h",
    "--workload",
    "increments",
];

fn release(bench: &Bench, file: &str, flags: &[&str]) -> Run {
    let fixed = ["--key", "my.key", "--rho", "1e6", "--allow-weak-budget", "--no-plot", "--quiet", "--out", "out.csv"];
    bench.run(&[&["release", file], &fixed[..], flags].concat())
}

/// The steps with events, and their number, of a release under a new name.
fn counts(bench: &Bench, file: &str, name: &str, flags: &[&str]) -> Vec<(String, u64)> {
    let run = release(bench, file, &[flags, &["--stream", name]].concat());
    assert_eq!(run.code, 0, "{name} {flags:?}: {}", run.stderr);
    let table = bench.read("out.csv");
    let rows = table.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        (cells[0].to_owned(), cells[2].parse::<f64>().unwrap().round() as u64)
    });
    rows.filter(|(_, count)| *count > 0).collect()
}

fn refused(bench: &Bench, file: &str, flags: &[&str]) -> String {
    let before = bench.files();
    let run = release(bench, file, flags);
    assert_eq!(run.code, 2, "{flags:?}: {}", run.stderr);
    assert_eq!(bench.files(), before, "{flags:?} left files");
    run.stderr
}

#[test]
fn the_zone_in_a_cell_is_used() {
    let bench = Bench::new();
    for (number, (time, format, hour)) in [
        ("2015-05-17 10:00:00 America/New_York", "%Y-%m-%d %H:%M:%S %Q", 10),
        ("2015-05-17 16:00:00 Europe/Berlin", "%Y-%m-%d %H:%M:%S %Q", 10),
        ("2015-05-17T16:00:00Z", "%Y-%m-%dT%H:%M:%SZ", 12),
        ("2015-05-17 16:00:00 UTC", "%Y-%m-%d %H:%M:%S UTC", 12),
        ("2015-05-17 16:00:00 GMT", "%Y-%m-%d %H:%M:%S GMT", 12),
        ("2015-05-17 16:00:00+00:00", "%Y-%m-%d %H:%M:%S+00:00", 12),
        ("2015-05-17 16:00:00Z", "%Y-%m-%d %H:%M:%S%z", 12),
        ("2015-05-17 10:00 EDT", "%Y-%m-%d %H:%M %Z", 10),
        ("2015-05-17 16:00:00 UTC", "auto", 12),
        ("2015-05-17 16:00:00 +0000", "auto", 12),
        ("2015-05-17T16:00:00Z", "auto", 12),
        ("1431878400000000", "epoch-micros", 12),
        ("1431878400000000000", "epoch-nanos", 12),
        ("2015-05-17 12:00:00", "auto", 12),
        ("2015/05/17 12:00:00,123", "auto", 12),
        ("2015-05-17 1:00 PM", "auto", 13),
    ]
    .into_iter()
    .enumerate()
    {
        let expected = vec![(format!("2015-05-17T{hour}:00:00-04:00"), 1)];
        let flags = [HOURLY, &["--time-format", format]].concat();
        bench.write("events.csv", format!("time\n\"{time}\"\n"));
        assert_eq!(counts(&bench, "events.csv", &format!("c{number}"), &flags), expected, "{format}: {time}");
        bench.write("events.jsonl", format!("{{\"time\":\"{time}\"}}\n"));
        assert_eq!(counts(&bench, "events.jsonl", &format!("j{number}"), &flags), expected, "{format}: {time}");
    }
}

#[test]
fn abbreviations_of_zones_are_refused_until_the_zone_is_declared() {
    let bench = Bench::new();
    bench.write("events.csv", "time\n2015-05-17 10:00 EDT\n");
    let hourly = &HOURLY[2..];
    let literal = refused(&bench, "events.csv", &[hourly, &["--time-format", "%Y-%m-%d %H:%M EDT"]].concat());
    assert!(literal.contains("write %Z in its place") && literal.contains("America/New_York"), "{literal}");
    let flags = [hourly, &["--time-format", "%Y-%m-%d %H:%M %Z"]].concat();
    let undeclared = refused(&bench, "events.csv", &flags);
    assert!(undeclared.contains("--time-zone America/New_York"), "{undeclared}");
    let declared = [&flags[..], &["--time-zone", "America/New_York"]].concat();
    assert_eq!(counts(&bench, "events.csv", "declared", &declared), [("2015-05-17T10:00:00-04:00".to_owned(), 1)]);
    let fixed = [&flags[..], &["--time-zone", "-04:00"]].concat();
    assert_eq!(counts(&bench, "events.csv", "fixed", &fixed), [("2015-05-17T10:00:00-04:00".to_owned(), 1)]);
}

#[test]
fn dates_with_hourly_steps_are_refused_and_every_remedy_works() {
    let bench = Bench::new();
    bench.write("events.csv", "Date,Time,n\n2015-05-17,9:05,1\n2015-05-17,21:30:00,2\n");
    let date = [HOURLY, &["--time", "Date"]].concat();
    let message = refused(&bench, "events.csv", &date);
    for part in ["line 2", "column `Date`", "2015-05-17", "--date COLUMN --time-of-day COLUMN", "--date-only midnight"]
    {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
    let at = |hour: &str| format!("2015-05-17T{hour}:00:00-04:00");
    let both = [HOURLY, &["--date", "Date", "--time-of-day", "Time"]].concat();
    assert_eq!(counts(&bench, "events.csv", "both", &both), [(at("09"), 1), (at("21"), 1)]);
    let midnight = [&date[..], &["--date-only", "midnight"]].concat();
    assert_eq!(counts(&bench, "events.csv", "midnight", &midnight), [(at("00"), 2)]);
    assert!(bench.read("out.report.md").contains("| dates without a time of day | counted at midnight |"));
    let days = ["--time", "Date", "--start", "2015-05-17", "--steps", "1", "--every", "1d"];
    assert_eq!(counts(&bench, "events.csv", "days", &days), [("2015-05-17".to_owned(), 2)]);
    // Months are not within a day, but within a month.
    bench.write("months.csv", "time\n2015-05\n2015-06\n");
    let of_days = ["--start", "2015-05-01", "--steps", "90", "--every", "1d"];
    let message = refused(&bench, "months.csv", &of_days);
    assert!(message.contains("is a month, which is not within one step of 1 day"), "{message}");
    let of_months = ["--start", "2015-05-01", "--steps", "2", "--every", "1mo", "--workload", "increments"];
    let expected = [("2015-05-01".to_owned(), 1), ("2015-06-01".to_owned(), 1)];
    assert_eq!(counts(&bench, "months.csv", "months", &of_months), expected);
}

#[test]
fn date_and_time_of_day_in_two_columns() {
    let bench = Bench::new();
    let at = |hour: &str| vec![(format!("2015-05-17T{hour}:00:00-04:00"), 1)];
    let both = [HOURLY, &["--date", "d", "--time-of-day", "t"]].concat();
    for (number, (date, clock, format, hour)) in [
        ("2015-05-17", "9:05", "auto", "09"),
        ("2015/05/17", "9:05 PM", "auto", "21"),
        ("2015-05-17T00:00:00.000", "13:45", "auto", "13"),
        ("2015-05-17", "16:00:00Z", "auto", "12"),
        ("2015-05-17", "16:00 UTC", "date", "12"),
        ("2015-05-17", "16:00Z", "rfc3339", "12"),
        ("05/17/2015", "9:05", "%m/%d/%Y", "09"),
        ("17.05.15", "21:05:00,5", "%d.%m.%y", "21"),
        ("20150517", "130", "%Y%m%d %H%M", "01"),
        ("17/05/2015", "09:05 PM", "%d/%m/%Y %I:%M %p", "21"),
        ("5/17/2015 00:00:00", "9:05 PM", "%m/%d/%Y %H:%M:%S", "21"),
    ]
    .into_iter()
    .enumerate()
    {
        let flags = [&both[..], &["--time-format", format]].concat();
        bench.write("events.csv", format!("d,t\n{date},\"{clock}\"\n"));
        assert_eq!(counts(&bench, "events.csv", &format!("c{number}"), &flags), at(hour), "{date} {clock}");
        bench.write("events.jsonl", format!("{{\"d\":\"{date}\",\"t\":\"{clock}\"}}\n"));
        assert_eq!(counts(&bench, "events.jsonl", &format!("j{number}"), &flags), at(hour), "{date} {clock}");
    }
    for (row, more, says) in [
        ("2015-05-17,905", &[][..], &["column `t`", "`905` is not a time of day", "--time-format"][..]),
        ("2015-05-17,25:00", &[], &["column `t`", "there is no hour 25"]),
        ("2015-05-17,", &[], &["column `t`", "no time", "--missing skip"]),
        (",9:05", &[], &["column `d`", "no time", "--missing skip"]),
        ("05/17/2015,9:05", &[], &["column `d`", "%d/%m/%Y"]),
        ("2015-05-17 10:00,9:05", &[], &["column `d`", "not a date alone"]),
        ("2015-05-17,9:05", &["--time", "d"], &["either --date or --time, not both"]),
        ("2015-05-17,9:05", &["--time-format", "epoch-seconds"], &["do not go together"]),
    ] {
        bench.write("events.csv", format!("d,t\n{row}\n"));
        let message = refused(&bench, "events.csv", &[&both[..], more].concat());
        says.iter().for_each(|part| assert!(message.contains(part), "{row}: {message:?} lacks {part:?}"));
    }
    let alone = refused(&bench, "events.csv", &[HOURLY, &["--date", "d"]].concat());
    assert!(alone.contains("--date needs --time-of-day"), "{alone}");
    bench.write("events.toml", "date = \"d\"\ntime-of-day = \"t\"\n");
    bench.write("events.csv", "d,t\n2015-05-17,9:05\n");
    let flags = [HOURLY, &["--config", "events.toml"]].concat();
    assert_eq!(counts(&bench, "events.csv", "toml", &flags), at("09"));
}

#[test]
fn rows_without_a_time_are_skipped_if_declared() {
    let bench = Bench::new();
    bench.write("events.csv", "onset,who\n2020-01-02,a\n,b\nNA,c\n2020-01-03,d\n");
    let days = ["--time", "onset", "--start", "2020-01-01", "--steps", "31", "--every", "1d", "--missing-text", "NA"];
    let days = [&days[..], &["--workload", "increments"]].concat();
    let message = refused(&bench, "events.csv", &days);
    for part in ["line 3", "column `onset`", "--missing skip"] {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
    let expected = [("2020-01-02".to_owned(), 1), ("2020-01-03".to_owned(), 1)];
    let skip = [&days[..], &["--missing", "skip"]].concat();
    assert_eq!(counts(&bench, "events.csv", "skip", &skip), expected);
    let report = bench.read("out.report.md");
    assert!(report.contains("| skipped | events with a missing time, person, value or item |"), "{report}");
    assert!(bench.read("out.report.json").contains("\"missing\": \"skip\""));
    // The same in a run that continues.
    std::fs::remove_file(bench.path("out.csv")).unwrap();
    let continued = [&skip[..], &["--continue", "--through", "2020-01-20"]].concat();
    assert_eq!(counts(&bench, "events.csv", "continued", &continued), expected);
}

#[test]
fn times_in_another_unit_are_named_before_anything_is_published() {
    let bench = Bench::new();
    bench.write("events.csv", "time\n1372636800000\n1372640400000\n");
    let days = ["--start", "2013-07-01", "--steps", "2", "--every", "1d", "--outside", "skip"];
    let seconds = [&days[..], &["--time-format", "epoch-seconds"]].concat();
    let message = refused(&bench, "events.csv", &seconds);
    for part in ["line 2", "1372636800000", "the year 45467", "2013-07-01", "--time-format epoch-millis"] {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
    let millis = [&days[..], &["--time-format", "epoch-millis"]].concat();
    assert_eq!(counts(&bench, "events.csv", "millis", &millis).len(), 2);
    // A file of another year: refused as a whole, unless the operator insists.
    bench.write("events.csv", "time\n2012-07-01\n2012-07-03\n");
    let message = refused(&bench, "events.csv", &days);
    for part in ["no event is inside the horizon", "from 2012-07-01 to 2012-07-03", "--outside skip-any"] {
        assert!(message.contains(part), "{message:?} lacks {part:?}");
    }
    let any = [&days[..6], &["--outside", "skip-any"]].concat();
    assert_eq!(counts(&bench, "events.csv", "any", &any), []);
    // Some events of another century among others.
    bench.write("events.csv", "time\n1913-07-01\n2013-07-01\n");
    let message = refused(&bench, "events.csv", &days);
    assert!(message.contains("line 2") && message.contains("read as 1913-07-01, far outside"), "{message}");
    assert_eq!(counts(&bench, "events.csv", "century", &any).len(), 2);
    // Both policies belong to one stream: the published values are the same.
    bench.write("events.csv", "time\n2013-07-01\n");
    let skip = release(&bench, "events.csv", &[&days[..], &["--stream", "one"]].concat());
    let same = release(&bench, "events.csv", &[&any[..], &["--stream", "one"]].concat());
    assert_eq!((skip.code, same.code), (0, 0), "{}{}", skip.stderr, same.stderr);
}

#[test]
fn declared_times_name_their_own_form() {
    let bench = Bench::new();
    let plan = |flags: &[&str]| {
        let fixed = ["release", "--steps", "4", "--every", "1d", "--rho", "0.5", "--plan-only"];
        bench.run_as_is(&[&fixed[..], flags].concat(), b"")
    };
    for (start, says) in [
        ("02/01/2024", "write 2024-01-02 or 2024-02-01, whatever the format of the events"),
        ("13/01/2024", "write 2024-01-13, whatever"),
        ("20240102", "write 2024-01-02, whatever"),
        ("1704153600", "write 2024-05-01 or 2024-05-01T12:30:00Z"),
        ("1/2/24", "write four"),
        ("soon", "is not a time in a supported form"),
    ] {
        let run = plan(&["--start", start, "--time-format", "%d/%m/%Y"]);
        assert_eq!(run.code, 2, "{start}");
        assert!(run.stderr.contains(says) && !run.stderr.contains("--time-format"), "{start}: {}", run.stderr);
    }
    assert_eq!(plan(&["--start", "2024-01-02", "--time-format", "%d/%m/%Y"]).code, 0);
}

#[test]
fn years_of_two_digits_need_no_guess() {
    let bench = Bench::new();
    bench.write("events.csv", "time\n17/05/15\n");
    let days = ["--start", "1915-05-17", "--steps", "1", "--every", "1d"];
    let undeclared = refused(&bench, "events.csv", &days);
    assert!(undeclared.contains("year of two digits") && undeclared.contains("--century-from"), "{undeclared}");
    let short = [&days[..], &["--time-format", "%d/%m/%y"]].concat();
    assert!(refused(&bench, "events.csv", &short).contains("outside the horizon"));
    let declared = [&short[..], &["--century-from", "1900"]].concat();
    assert_eq!(counts(&bench, "events.csv", "century", &declared), [("1915-05-17".to_owned(), 1)]);
    let message = refused(&bench, "events.csv", &[&days[..], &["--century-from", "1900"]].concat());
    assert!(message.contains("--century-from needs a --time-format with a year of two digits (%y)"), "{message}");
}
