//! Groups whose values have their own bounds.

mod common;

use common::{Bench, RELEASE, table};

const EVENTS: &str = "time,kind,amount\n\
    2024-01-01T08:00:00Z,small,0.256\n\
    2024-01-01T09:00:00Z,large,450\n\
    2024-01-01T10:00:00Z,large,7\n\
    2024-01-02T08:00:00Z,small,9\n\
    2024-01-02T08:30:00Z,large,-1e30\n\
    2024-01-03T08:00:00Z,other,3\n\
    2024-01-03T09:00:00Z,large,3\n";

/// Values of `small` are at most 1, of `large` at most 300, of all others at most 2, each in hundredths of its maximum.
const SCALED: [&str; 12] = [
    "--group-by",
    "kind",
    "--groups",
    "small,large",
    "--rest",
    "rest",
    "--value",
    "amount",
    "--bounds=-1,1",
    "--grid=0.01",
    "--rest-scale=2",
    "--scales=1,300",
];

fn ready() -> Bench {
    let bench = Bench::new();
    bench.write("events.csv", EVENTS);
    bench
}

/// Columns by name, of every row of a table.
fn cells<'t>(rows: &'t [Vec<String>], names: &[&str]) -> Vec<Vec<&'t str>> {
    let place = |name: &&str| rows[0].iter().position(|header| header == name).unwrap();
    let places: Vec<usize> = names.iter().map(place).collect();
    rows[1..].iter().map(|row| places.iter().map(|&place| row[place].as_str()).collect()).collect()
}

/// With almost no noise: clamping, rounding and digits are specific to each group.
#[test]
fn every_group_has_its_own_bounds_and_grid() {
    let bench = ready();
    let weak = ["--allow-weak-budget", "--no-plot", "--mechanism", "input", "--epsilon", "1000000"];
    let mut exact = RELEASE.to_vec();
    exact.retain(|flag| !["--epsilon", "1"].contains(flag));
    let run = bench.run(&[&exact[..], &SCALED, &weak].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows = table(&bench.read("counts.csv"));
    let values: Vec<String> = cells(&rows, &["kind", "value"]).iter().map(|row| row.join(" ")).collect();
    let wanted = ["small 0.26", "large 306", "rest 0.00"];
    assert_eq!(values[..3], wanted);
    assert_eq!(values[3..6], ["small 1.26", "large 6", "rest 0.00"]);
    assert_eq!(values[6..], ["small 1.26", "large 9", "rest 2.00"]);
}

/// Standard errors and intervals of a group are its scale times those of scale 1, and the report states this.
#[test]
fn noise_is_in_proportion_to_the_bounds() {
    let bench = ready();
    assert_eq!(bench.release(&SCALED).code, 0);
    let rows = table(&bench.read("counts.csv"));
    let number = |text: &str| text.parse::<f64>().unwrap();
    for step in cells(&rows, &["value", "std_error", "lower", "upper"]).chunks(3) {
        let [small, large, rest] = step else { unreachable!("three groups") };
        let width = |row: &[&str]| number(row[3]) - number(row[2]);
        for (row, scale) in [(large, 300.0), (rest, 2.0)] {
            assert!((number(row[1]) / number(small[1]) / scale - 1.0).abs() < 1e-6);
            assert!((width(row) / width(small) / scale - 1.0).abs() < 1e-9);
            let steps = number(row[0]) / (0.01 * scale);
            assert!((steps - steps.round()).abs() < 1e-6, "{steps}");
        }
    }
    let report: serde_json::Value = serde_json::from_str(&bench.read("counts.report.json")).unwrap();
    assert_eq!(report["groups"]["scales"], serde_json::json!({ "least": 1.0, "greatest": 300.0 }));
    let largest = cells(&rows, &["std_error"]).iter().map(|row| number(row[0])).fold(0.0, f64::max);
    assert!((report["error"]["max_std_error"].as_f64().unwrap() / largest - 1.0).abs() < 1e-6);
    assert!(bench.read("counts.report.md").contains("times the scale of its group"));
}

/// Scales from a column of the groups file give the same bytes as scales from flags.
#[test]
fn scales_can_stand_beside_the_groups() {
    let (flags, file) = (ready(), Bench::new());
    std::fs::copy(flags.path("my.key"), file.path("my.key")).unwrap();
    std::fs::copy(flags.path("my.key.ledger"), file.path("my.key.ledger")).unwrap();
    file.write("events.csv", EVENTS).write("groups.csv", "widest,kind\n1.0,small\n3e2,large\n");
    assert_eq!(flags.release(&SCALED).code, 0);
    let of_file = ["--groups-file", "groups.csv", "--scale-column", "widest"];
    let run = file.release(&[&SCALED[..2], &SCALED[4..11], &of_file].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(file.read("counts.csv"), flags.read("counts.csv"));
}

/// Another scale is another stream; groups that all have scale 1 are groups without scales.
#[test]
fn scales_belong_to_what_a_stream_is() {
    let bench = ready();
    assert_eq!(bench.release(&SCALED).code, 0);
    let other = bench.refused(&[&SCALED[..11], &["--scales=1,299"]].concat());
    assert!(other.contains("with their scales"), "{other}");
    let bench = ready();
    let plain = &SCALED[..10];
    assert_eq!(bench.release(plain).code, 0);
    let table = bench.read("counts.csv");
    assert_eq!(bench.release(&[plain, &["--scales=1,1.0", "--rest-scale=1"]].concat()).code, 0);
    assert_eq!(bench.read("counts.csv"), table);
}

/// A group joins with its scale, and keeps it.
#[test]
fn groups_join_with_their_scales() {
    let bench = ready();
    let day = |number: u32, more: &[&str]| {
        let through = format!("--through=2024-01-0{}", number + 1);
        let file = format!("day{number}.csv");
        let rows: Vec<&str> = EVENTS.lines().filter(|row| row.contains(&format!("-0{number}T"))).collect();
        bench.write(&file, format!("time,kind,amount\n{}\n", rows.join("\n")));
        let flags = [&["release", file.as_str()], &RELEASE[2..], &SCALED[..2], &SCALED[6..10]].concat();
        bench.run_as_is(&[&flags[..], &["--continue", &through, "--unknown-group=skip"], more].concat(), b"")
    };
    assert_eq!(day(1, &["--groups=small", "--scales=1"]).code, 0);
    let joined = day(2, &["--groups=small,large", "--scales=1,300"]);
    assert_eq!(joined.code, 0, "{}", joined.stderr);
    let changed = day(3, &["--groups=small,large", "--scales=1,301"]);
    assert_eq!(changed.code, 2);
    assert!(changed.stderr.contains("other scales"), "{}", changed.stderr);
    let third = day(3, &["--groups=small,large,other", "--scales=1,300,1"]);
    assert_eq!(third.code, 0, "{}", third.stderr);
    let rows = table(&bench.read("counts.csv"));
    let errors = cells(&rows, &["kind", "step", "std_error"]);
    let of = |kind: &str, step: &str| {
        let row = errors.iter().find(|row| row[..2] == [kind, step]).unwrap();
        row[2].parse::<f64>().unwrap()
    };
    assert!((of("large", "3") / of("small", "3") - 300.0).abs() < 1e-3);
    assert!((of("other", "3") / of("small", "3") - 1.0).abs() < 1e-6);
}

#[test]
fn senseless_scales_are_refused() {
    let bench = ready();
    let refuses = |flags: &[&str], words: &str| {
        let message = bench.refused(flags);
        assert!(message.contains(words), "{message}");
    };
    refuses(&[&SCALED[..11], &["--scales=1"]].concat(), "--scales has 1 numbers, but there are 2 groups");
    refuses(&[&SCALED[..11], &["--scales=1,0"]].concat(), "is not a scale");
    refuses(&[&SCALED[..11], &["--scales=1,1e-17"]].concat(), "more than 18 digits");
    refuses(&[&SCALED[..6], &["--scales=1,2"]].concat(), "--scales needs --value");
    refuses(&[&SCALED[..4], &SCALED[6..]].concat(), "--rest-scale needs --rest");
    refuses(&[&SCALED[..11], &["--scale-column=x"]].concat(), "--scale-column needs --groups-file");
}

/// Values of a person are kept until their sizes add up to the cap, the last one in part, across all groups.
#[test]
fn a_persons_total_is_capped() {
    let bench = Bench::new();
    let mut rows = "time,kind,who,amount\n".to_owned();
    for (day, kind, who, amount) in [
        (1, "small", "ann", "0.5"),
        (1, "large", "ann", "-150"),
        (1, "large", "bob", "300"),
        (2, "small", "ann", "0.7"),
    ] {
        rows.push_str(&format!("2024-01-0{day},{kind},{who},{amount}\n"));
    }
    rows.push_str("2024-01-03,large,ann,300\n2024-01-03,large,bob,30\n");
    bench.write("events.csv", rows);
    let weak = ["--allow-weak-budget", "--no-plot", "--mechanism", "input", "--epsilon", "1000000", "--person", "who"];
    let mut exact = RELEASE.to_vec();
    exact.retain(|flag| !["--epsilon", "1"].contains(flag));
    let run = bench.run(&[&exact[..], &SCALED, &weak, &["--max-total", "1.25"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let table = table(&bench.read("counts.csv"));
    let values: Vec<String> = cells(&table, &["kind", "value"]).iter().map(|row| row.join(" ")).collect();
    // In units of scale: ann has 0.5, 0.5 and the remaining 0.25 of 0.7; bob 1 and a tenth.
    assert_eq!(
        values,
        [
            "small 0.50",
            "large 150",
            "rest 0.00",
            "small 0.75",
            "large 150",
            "rest 0.00",
            "small 0.75",
            "large 180",
            "rest 0.00"
        ]
    );
    assert!(bench.read("counts.report.md").contains("1.25 in total"));
    let refuses = |flags: &[&str], words: &str| {
        let message = bench.refused(&[flags, &["--person", "who", "--stream", "other"]].concat());
        assert!(message.contains(words), "{message}");
    };
    refuses(&["--max-total", "3", "--max-events", "2"], "--max-total needs --value");
    refuses(&[&SCALED[..], &["--max-total", "1.255"]].concat(), "is not a multiple of the grid");
    // Less noise than for as many events of full size.
    let error = |more: &[&str]| {
        let flags = [&SCALED[..], &["--plan-only", "--json", "--person", "who", "--max-events", "5"], more].concat();
        let plan: serde_json::Value = serde_json::from_str(&bench.release(&flags).stdout).unwrap();
        plan["max_std_error"].as_f64().unwrap()
    };
    assert!((error(&[]) / error(&["--max-total", "1.25"]) - 4.0).abs() < 0.1);
}
