//! The privacy unit of the commands: flags for persons, by group, gap and period, in all commands that accept them.

mod common;

use common::Bench;
use serde_json::Value;

const DAYS: u64 = 40;

/// A budget so large that no released count is off by one half.
const EXACT: [&str; 3] = ["--rho", "1000000", "--allow-weak-budget"];

fn date(day: u64) -> String {
    let start = jiff::civil::date(2024, 1, 20);
    start.checked_add(jiff::Span::new().days(day as i64 - 1)).unwrap().to_string()
}

/// A folder with a file for every day from 20 January: seven people with one to three events a day, in two groups.
fn days() -> Bench {
    let bench = Bench::new();
    for day in 1..=DAYS {
        let mut text = "time,who,group\n".to_owned();
        for n in 0..day % 9 {
            let (who, group) = ((n * 3 + day) % 7, ["a", "b"][((n + day / 4) % 2) as usize]);
            text.push_str(&format!("{}T{n:02}:00:00Z,p{who},{group}\n", date(day)));
        }
        bench.write(&format!("{day}.csv"), text);
    }
    bench
}

fn flags<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let base = ["--key", "my.key", "--start", "2024-01-20", "--steps", "40", "--every", "1d", "--no-plot"];
    let groups = ["--group-by", "group", "--groups", "a,b", "--person", "who"];
    [&["release"][..], &base, &groups, more].concat()
}

fn files(days: std::ops::RangeInclusive<u64>) -> Vec<String> {
    days.map(|day| format!("{day}.csv")).collect()
}

/// The released values by step and group.
fn values(text: &str) -> Vec<i64> {
    text.lines().skip(1).map(|line| line.split(',').nth(3).unwrap().parse().unwrap()).collect()
}

/// The kept values, counted independently: `fits` decides whether an event fits the events kept so far of its person.
fn by_hand(fits: impl Fn(&[(u64, usize)], (u64, usize)) -> bool) -> Vec<i64> {
    let mut kept: Vec<Vec<(u64, usize)>> = vec![Vec::new(); 7];
    let (mut sums, mut all) = ([0, 0], Vec::new());
    for day in 1..=DAYS {
        for n in 0..day % 9 {
            let (who, group) = (((n * 3 + day) % 7) as usize, ((n + day / 4) % 2) as usize);
            if fits(&kept[who], (day, group)) {
                kept[who].push((day, group));
                sums[group] += 1;
            }
        }
        all.extend(sums);
    }
    all
}

/// The month of a day, from 20 January on: 12 days, then February.
fn month(day: u64) -> u64 {
    u64::from(day > 12)
}

#[test]
fn bounds_are_kept_and_start_anew_with_the_calendar() {
    let bench = days();
    let all = files(1..=DAYS);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let exact = |stream: &str, more: &[&str]| {
        let run = bench.run(&flags(&[&all, &EXACT[..], &["--out", "t.csv", "--stream", stream], more].concat()));
        assert_eq!(run.code, 0, "{}", run.stderr);
        values(&bench.read("t.csv"))
    };
    let same = |kept: &[(u64, usize)], (day, _): (u64, usize)| -> Vec<(u64, usize)> {
        kept.iter().filter(|(other, _)| month(*other) == month(day)).copied().collect()
    };
    let two_a_month = by_hand(|kept, event| same(kept, event).len() < 2);
    assert_eq!(exact("months", &["--max-events", "2", "--per", "month"]), two_a_month);
    let report = bench.read("t.report.md");
    assert!(report.contains("what one who does in one calendar month (at most 2 events kept)"), "{report}");
    assert!(report.contains("| active in | ε | ρ | ε at δ = 1e-6 |"), "{report}");
    let row =
        |periods: &str| report.lines().find(|line| line.starts_with(&format!("| {periods} |"))).map(str::to_owned);
    // Two months are two units: ρ four times as large at most.
    let rho = |periods: &str| row(periods).unwrap().split('|').nth(3).unwrap().trim().parse::<f64>().unwrap();
    assert_eq!(rho("1 calendar month"), 1e6);
    assert!((1e6..=4e6).contains(&rho("2 calendar months")) && row("7 calendar months").is_none(), "{report}");
    assert!(report.contains("bounds restart | in each calendar month"), "{report}");
    let in_groups = by_hand(|kept, (day, group)| {
        let of_group = kept.iter().filter(|(_, other)| *other == group).count();
        of_group < 2
            && (of_group > 0 || kept.is_empty())
            && kept.iter().all(|(other, _)| *other == day || day - other >= 3)
    });
    let groups = ["--max-events-per-group", "2", "--max-groups", "1", "--min-gap", "3"];
    assert_eq!(exact("groups", &groups), in_groups);
    assert!(bench.read("t.report.md").contains("(at most 2 events kept, 2 a group, in 1 group, in steps 3 apart)"));
    let plan = bench.read("t.plan.toml");
    assert!(plan.contains("[unit.person]") && plan.contains("min_gap = 3"), "{plan}");
}

/// Daily runs across weeks, with files that reach into the next week: the table of one run over all data.
#[test]
fn periods_are_forgotten_in_continued_runs() {
    let bench = days();
    std::fs::copy(bench.path("my.key.ledger"), bench.path("first.ledger")).unwrap();
    let unit =
        ["--rho", "0.5", "--per", "week", "--max-events", "4", "--max-events-per-group", "3", "--max-groups", "1"];
    let unit = [&unit[..], &["--min-gap", "2"]].concat();
    let mut from = 1;
    for (through, read) in [(1, 1), (3, 5), (8, 8), (9, 10), (23, 30), (37, 37), (40, 40)] {
        let (new, end) = (files(from..=read), date(through + 1));
        let new: Vec<&str> = new.iter().map(String::as_str).collect();
        let more = [&new, &unit[..], &["--continue", "--out", "t.csv", "--through", &end]].concat();
        let run = bench.run(&flags(&more));
        assert_eq!(run.code, 0, "{}", run.stderr);
        from = read + 1;
    }
    let other = days();
    std::fs::copy(bench.path("my.key"), other.path("my.key")).unwrap();
    std::fs::copy(bench.path("first.ledger"), other.path("my.key.ledger")).unwrap();
    let all = files(1..=DAYS);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let run = other.run(&flags(&[&all, &unit[..], &["--out", "t.csv"]].concat()));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(bench.read("t.csv"), other.read("t.csv"));
    // The last run ended after the last day: no person of that week has a place that existed only before.
    let weekly = by_hand(|kept, (day, group)| {
        // 20 January is a Saturday: weeks begin at days 3, 10, 17, …
        let week = |day: u64| (day + 4) / 7;
        let same: Vec<_> = kept.iter().filter(|(other, _)| week(*other) == week(day)).collect();
        same.len() < 3 && same.iter().all(|(other, of)| *of == group && (*other == day || day - other >= 2))
    });
    let exact = other.run(&flags(&[&all, &unit[2..], &EXACT[..], &["--out", "u.csv", "--stream", "u"]].concat()));
    assert_eq!((exact.code, values(&other.read("u.csv"))), (0, weekly), "{}", exact.stderr);
}

/// Commands without a calendar take the same flags, with a period in steps.
#[test]
fn commands_without_a_calendar_take_the_unit() {
    let bench = Bench::new();
    let json = |args: &[&str]| -> Value {
        let run = bench.run(args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        serde_json::from_str(&run.stdout).unwrap()
    };
    let unit = ["--max-events", "6", "--max-events-per-step", "2", "--min-gap", "3", "--per", "8"];
    let figures = |more: &[&str]| {
        json(&[&["mechanisms", "--horizon", "64", "--mechanism", "binary", "--json"][..], more].concat())[0].clone()
    };
    let number = |value: &Value, key: &str| value[key].as_f64().unwrap();
    let (event, person) = (figures(&[]), figures(&unit));
    // Three steps 3 apart fit into 8, with two events each.
    assert_eq!(number(&person, "s1"), 6.0 * number(&event, "s1"));
    let ratio = number(&person, "s2") / number(&event, "s2");
    assert!(ratio > 12f64.sqrt() && ratio < 6.0, "{ratio}");
    let twice = figures(&[&unit[..], &["--neighbours", "replace-one"]].concat());
    assert!((number(&twice, "s2") / number(&person, "s2") - 2f64.sqrt()).abs() < 1e-12);
    let planned = |more: &[&str]| {
        let args = ["plan", "--horizon", "64", "--rho", "0.5", "--json"];
        json(&[&args[..], more].concat())["chosen"]["max_std"].as_f64().unwrap()
    };
    assert!(planned(&unit) > 2.0 * planned(&[]));
    let simulated = |out: &str, more: &[&str]| {
        let args = ["simulate", "--mechanism", "binary", "--horizon", "16", "--rho", "0.5", "--paths", "2"];
        json(&[&args[..], &["--test-seed", "3", "--json", "--out", out], more].concat())
    };
    let [of_event, of_person] = [simulated("a.npy", &[]), simulated("b.npy", &unit)];
    assert!(of_person["noise"] != of_event["noise"] || of_person != of_event, "{of_person}");
    assert_ne!(std::fs::read(bench.path("a.npy")).unwrap(), std::fs::read(bench.path("b.npy")).unwrap());
    let audit = ["audit", "--mechanism", "binary", "--horizon", "16", "--rho", "1", "--paths", "1500", "--json"];
    let audited = json(&[&audit[..], &unit].concat());
    let change = audited["change"].as_str().unwrap();
    assert_eq!(change.matches("2 events of 1 in step").count(), 3, "{change}");
    for command in [
        &["plan"][..],
        &["mechanisms"],
        &["simulate", "--mechanism", "binary", "--paths", "1", "--test-seed", "1", "--out", "x.npy"],
        &["audit", "--mechanism", "binary"],
    ] {
        let budget: &[&str] = if command[0] == "mechanisms" { &[] } else { &["--rho", "1"] };
        let run = |more: &[&str]| bench.run(&[command, &["--horizon", "8"], budget, more].concat());
        let refused = run(&["--max-events", "3", "--per", "month"]);
        assert_eq!(refused.code, 2, "{}", refused.stdout);
        assert!(refused.stderr.contains("--per 1mo: there is no calendar here") && refused.stderr.contains("--per 31"));
        let lacks = run(&["--min-gap", "2"]);
        assert!(lacks.code == 2 && lacks.stderr.contains("--min-gap needs --max-events"), "{}", lacks.stderr);
        assert!(run(&["--max-events", "0"]).stderr.contains("at least 1"));
    }
}

/// A protected window changes the noise and the guarantee, not the kept events.
#[test]
fn windows_are_protected_across_periods() {
    let bench = days();
    let all = files(1..=DAYS);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let release = |stream: &str, more: &[&str]| {
        let unit = ["--out", "t.csv", "--stream", stream, "--max-events", "2", "--per", "month"];
        let run = bench.run(&flags(&[&all, &EXACT[..], &unit, more].concat()));
        assert_eq!(run.code, 0, "{}", run.stderr);
        (values(&bench.read("t.csv")), bench.read("t.report.md"))
    };
    let window = ["--protect-window", "14d"];
    let ((months, _), (windows, report)) = (release("months", &[]), release("windows", &window));
    assert_eq!(months, windows);
    for text in [
        "what one who does in any window of 14 days (at most 2 events kept, in each calendar month)",
        "bounds restart | in each calendar month",
        "any window of 14 days is protected, also across the turn of a period: it touches up to 2 periods.",
        "This guarantee holds for any window of 14 days.",
    ] {
        assert!(report.contains(text), "{text}: {report}");
    }
    let rho = |windows: &str| -> f64 {
        let row = report.lines().find(|line| line.starts_with(&format!("| {windows} of 14 days |")));
        row.unwrap().split('|').nth(3).unwrap().trim().parse().unwrap()
    };
    assert!((rho("1 window") / 1e6 - 1.0).abs() < 1e-6 && (rho("3 windows") / 9e6 - 1.0).abs() < 1e-6, "{report}");
    let report: Value = serde_json::from_str(&bench.read("t.report.json")).unwrap();
    let facts = &report["unit"]["window"];
    assert_eq!((facts["steps"].as_u64(), facts["periods"].as_u64()), (Some(14), Some(2)), "{facts}");
    let factor = facts["noise_factor"].as_f64().unwrap();
    assert!(factor > 1.2 && factor <= 5f64.sqrt() * (1.0 + 1e-9), "{facts}");
    // One window has the stated guarantee, not the looser one that follows from ρ.
    let stated = report["guarantee"]["epsilon_at_delta"].as_array().unwrap();
    let stated = stated.iter().find(|row| row["delta"] == 1e-6).unwrap();
    assert_eq!(report["periods"]["active"][0]["epsilon"], stated["epsilon"], "{report}");
    let plan = ["plan", "--horizon", "60", "--epsilon", "1", "--max-events", "2", "--per", "10", "--json"];
    let most = |more: &[&str]| -> f64 {
        let plan = bench.run(&[&plan[..], more].concat());
        let answer: Value = serde_json::from_str(&plan.stdout).unwrap_or_else(|_| panic!("{}", plan.stderr));
        let input = answer["ranking"].as_array().unwrap().iter().find(|row| row["mechanism"] == "input");
        input.unwrap()["max_std"].as_f64().unwrap()
    };
    // Two events in each of two periods, and two that are kept instead.
    let ratio = most(&["--protect-window", "10"]) / most(&[]);
    assert!((ratio - 3.0).abs() < 0.05, "{ratio}");
    let refused = bench.run(&flags(&[&all, &EXACT[..], &["--out", "t.csv", "--protect-window", "14d"]].concat()));
    assert!(refused.code == 2 && refused.stderr.contains("--protect-window needs --per"), "{}", refused.stderr);
}

#[test]
fn periods_that_cut_steps_are_refused() {
    let bench = days();
    let weeks = ["--start", "2024-01-01", "--steps", "9", "--every", "1w", "--epsilon", "1", "--out", "t.csv"];
    let unit = ["--person", "who", "--max-events", "3", "--per", "month"];
    let run = bench.run(&[&["release", "1.csv", "--key", "my.key"][..], &weeks, &unit].concat());
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("--per 1mo would cut the step from 2024-01-29 to 2024-02-05"), "{}", run.stderr);
    assert!(!bench.files().contains("t.csv"));
    let sketch = ["sketch", "1.csv", "--key", "my.key", "--max-groups", "3"];
    assert_eq!(bench.run(&sketch).code, 2);
}

/// A budget for one unit accepts plans for that unit only.
#[test]
fn budgets_are_for_like_units() {
    let bench = days();
    let new =
        ["budget", "new", "months.budget", "--name", "visits", "--unit", "person", "--rho", "2", "--per", "month"];
    let made = bench.run(&new);
    assert!(made.code == 0 && made.stderr.contains("for one person in one calendar month"), "{}", made.stderr);
    let publish = |stream: &str, more: &[&str]| {
        let spends = ["--rho", "0.5", "--max-events", "3", "--budget-file", "months.budget", "--out", "t.csv"];
        bench.run(&flags(&[&["1.csv"], &spends[..], &["--stream", stream], more].concat()))
    };
    let all = publish("whole", &[]);
    assert_eq!(all.code, 2);
    assert!(
        all.stderr
            .contains("is for one person in one calendar month, and the plan of stream `whole` protects one person;"),
        "{}",
        all.stderr
    );
    for more in [&["--per", "week"][..], &["--per", "30"], &["--per", "month", "--time-zone", "Europe/Berlin"]] {
        assert_eq!(publish("other", more).code, 2, "{more:?}");
    }
    assert_eq!(publish("months", &["--per", "month"]).code, 0);
    let spent = bench.run(&["key", "spent", "my.key", "--json"]);
    let spent: Value = serde_json::from_str(&spent.stdout).unwrap();
    assert_eq!(spent["totals"][0]["period"], "one calendar month", "{spent}");
    let shown = bench.run(&["budget", "show", "months.budget", "--json"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["period"], "one calendar month");
    for (per, says) in [("2w", "plans that begin at different times"), ("fortnight", "is not a period")] {
        let refused = bench.run(&[&new[..2], &["other.budget"], &new[3..10], &[per]].concat());
        assert!(refused.code == 2 && refused.stderr.contains(says), "{}", refused.stderr);
    }
}

/// Noise that both groups share: less error of a group and of the difference, more of the total; fixed groups.
#[test]
fn groups_may_share_noise() {
    let bench = days();
    let all = files(1..=DAYS);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let daily = ["--per", "1d", "--max-events-per-group", "1", "--max-groups", "2", "--rho", "0.5"];
    let released = |out: &str, more: &[&str]| {
        let run = bench.run(&flags(&[&all, &daily[..], &["--out", out, "--stream", out], more].concat()));
        assert_eq!(run.code, 0, "{more:?}: {}", run.stderr);
        common::table(&bench.read(out)).last().unwrap()[4].parse::<f64>().unwrap()
    };
    let correlate = ["--correlate-groups", "groups"];
    let (apart, shared) = (released("apart.csv", &[]), released("shared.csv", &correlate));
    // Two thirds of the variance.
    assert!((shared / apart - (2f64 / 3.0).sqrt()).abs() < 1e-3, "{shared} for {apart}");
    assert_eq!(released("total.csv", &["--correlate-groups", "total"]), apart);
    let report = bench.read("shared.report.md");
    assert!(report.contains("| noise of groups | correlated (coefficient 0.5)"), "{report}");
    let facts: Value = serde_json::from_str(&bench.read("shared.report.json")).unwrap();
    let noise = &facts["noise"];
    assert!(noise["correlation"].is_object() && noise["correlation_note"].is_null(), "{noise}");
    let part = |key: &str| {
        let (numerator, denominator) = noise[key].as_str().unwrap().split_once('/').unwrap();
        numerator.parse::<f64>().unwrap() / denominator.parse::<f64>().unwrap()
    };
    let both = (part("parameter") + part("common_parameter")).sqrt() / noise["noise_divisor"].as_f64().unwrap();
    assert!((both / noise["std"].as_f64().unwrap() - 1.0).abs() < 1e-6, "{noise}");
    assert!(bench.read("shared.plan.toml").contains("[correlation]\ngroups = 2\n"));
    assert!(!bench.read("total.plan.toml").contains("correlation"));
    // A plan without files has the same error, and says if correlation gains nothing.
    let plan =
        |more: &[&str]| bench.run(&[&["plan", "--horizon", "40", "--group-count", "2"], &daily[2..], more].concat());
    let ranked: Value =
        serde_json::from_str(&plan(&[&correlate[..], &["--per", "1", "--json"]].concat()).stdout).unwrap();
    assert!((ranked["chosen"]["max_std"].as_f64().unwrap() / shared - 1.0).abs() < 1e-3, "{ranked}");
    assert_eq!(ranked["correlation"]["coefficient"], 0.5);
    let gains_nothing = "the noise of the groups is independent: correlated noise would not lower these errors";
    assert!(bench.read("total.report.md").contains(&format!("| noise of groups | {gains_nothing} |\n")));
    let facts: Value = serde_json::from_str(&bench.read("total.report.json")).unwrap();
    assert_eq!(facts["noise"]["correlation_note"], gains_nothing);
    let run = plan(&["--correlate-groups", "total"]);
    assert!(run.stdout.contains(&format!("note: {gains_nothing}\n")), "{}{}", run.stdout, run.stderr);
    let total = ["--correlate-groups", "total", "--plan-only", "--out", "t.csv", "--stream", "t"];
    let run = bench.run(&flags(&[&all, &daily[..], &total].concat()));
    assert!(run.stdout.contains(&format!("# --correlate-groups has no effect: {gains_nothing}\n")), "{}", run.stdout);
    assert_eq!(plan(&[]).code, 2);
    // A total of both groups, from the table.
    let error = |out: &str| {
        let run = bench.run(&["interval", out, "--from", "1", "--to", "40", "--json"]);
        let answer: Value = serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr));
        assert!(answer["rows"][2]["group"].is_null(), "{answer}");
        answer["rows"][2]["std_error"].as_f64().unwrap()
    };
    let (shared, apart) = (error("shared.csv"), error("apart.csv"));
    assert!((shared / apart - 1.0).abs() < 1e-3, "{shared} for {apart}");
    // People so far by group have one sum a group as well.
    released("people.csv", &[&correlate[..], &["--measure", "distinct"]].concat());
    let report = bench.read("people.report.md");
    assert!(report.contains("between groups correlated (coefficient"), "{report}");
    let refused = |more: &[&str]| {
        let run = bench.run(&[&["release"][..], &all, &["--key", "my.key", "--start", "2024-01-20"], more].concat());
        assert_ne!(run.code, 0);
        run.stderr
    };
    let base =
        ["--steps", "40", "--every", "1d", "--no-plot", "--group-by", "group", "--person", "who", "--out", "r.csv"];
    let discovered = ["--discover-groups", "--selection-delta", "1e-9"];
    let found = refused(&[&base[..], &daily, &correlate, &discovered].concat());
    assert!(found.contains("--correlate-groups and --discover-groups do not go together"), "{found}");
    let run =
        bench.run(&[&flags(&all)[..], &["--rho", "1", "--out", "r.csv", "--max-events", "1"], &correlate].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// Asserted bounds: the plan and the noise of enforced ones, every event counts, and everything that is printed or
/// written calls them an assumption.
#[test]
fn asserted_bounds_have_the_noise_of_enforced_ones_and_drop_nothing() {
    let bench = days();
    let all = files(1..=DAYS);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let base = ["release", "--key", "my.key", "--start", "2024-01-20", "--steps", "40", "--every", "1d", "--no-plot"];
    let groups = ["--group-by", "group", "--groups", "a,b", "--per", "month"];
    let run = |more: &[&str]| bench.run(&[&base[..], &all, &groups, more].concat());

    let enforced =
        ["--person", "who", "--max-events", "3", "--max-events-per-step", "1", "--max-events-per-group", "2"];
    let asserted = [
        "--assert-max-events",
        "3",
        "--assert-max-events-per-step",
        "1",
        "--assert-max-events-per-group",
        "2",
        "--asserted-by",
        "the app sends three a month",
    ];
    for budget in [&["--rho", "0.5"][..], &["--epsilon", "1"]] {
        let plan = |unit: &[&str]| {
            let planned = run(&[unit, budget, &["--plan-only"]].concat());
            assert_eq!(planned.code, 0, "{}", planned.stderr);
            let laws = |line: &&str| {
                ["# standard error", "# interval", "mechanism", "noise", "law", "scale"]
                    .iter()
                    .any(|key| line.starts_with(key))
            };
            planned.stdout.lines().filter(laws).map(str::to_owned).collect::<Vec<_>>()
        };
        let (of_column, of_assumption) = (plan(&enforced), plan(&asserted));
        assert!(of_column.len() > 2 && of_column == of_assumption, "{of_column:?} {of_assumption:?}");
    }

    let released = run(&[&asserted[..], &EXACT, &["--out", "t.csv"]].concat());
    assert_eq!(released.code, 0, "{}", released.stderr);
    assert_eq!(values(&bench.read("t.csv")), by_hand(|_, _| true), "nothing is dropped");
    let words = "what one person does in one calendar month (assumed: at most 3 events, 1 a step, 2 a group)";
    let assumption = "The bounds on a person are an assumption about the data. Nothing enforces them";
    let by = "Asserted by: the app sends three a month.";
    let markdown = bench.read("t.report.md");
    for says in [words, assumption, by, "| assumed, not enforced: no column names people |"] {
        assert!(markdown.contains(says), "{says}: {markdown}");
    }
    for says in ["kept events", "kept data", "Only the first"] {
        assert!(!markdown.contains(says), "{says}: {markdown}");
    }
    assert!(released.stderr.contains(assumption), "{}", released.stderr);
    let report: Value = serde_json::from_str(&bench.read("t.report.json")).unwrap();
    assert_eq!(
        (&report["unit"]["asserted"], &report["unit"]["asserted_by"]),
        (&true.into(), &by[13..by.len() - 1].into())
    );
    let ledger: Value = serde_json::from_str(&bench.run(&["key", "spent", "my.key", "--json"]).stdout).unwrap();
    assert_eq!(ledger["streams"][0]["asserted"], true);
    let spent = bench.run(&["key", "spent", "my.key"]).stdout;
    assert!(spent.contains("bounds assumed") && spent.contains("nothing enforces them"), "{spent}");
    // Another assumption is another plan.
    let other = run(&["--assert-max-events", "4", EXACT[0], EXACT[1], EXACT[2], "--out", "t.csv"]);
    assert!(other.code == 2, "{}", other.stderr);

    let planned = bench.run(&["plan", "--horizon", "40", "--rho", "0.5", "--assert-max-events", "3", "--per", "31"]);
    assert!(
        planned.stdout.contains("(assumed: at most 3 events)") && planned.stdout.contains(assumption),
        "{}",
        planned.stdout
    );
}

#[test]
fn asserted_bounds_are_refused_where_they_make_no_sense() {
    let bench = days();
    for (more, says) in [
        (&["--assert-max-events", "3", "--person", "who"][..], "--assert-max-events and --person do not go together"),
        (&["--assert-max-events", "3", "--max-events", "3"], "--max-events and --assert-max-events do not go together"),
        (&["--asserted-by", "me"], "--asserted-by needs --assert-max-events"),
        (&["--assert-max-events-per-step", "3"], "--assert-max-events-per-step needs --assert-max-events"),
        (&["--assert-max-events", "3", "--assert-max-groups", "1"], "--assert-max-groups needs --group-by"),
        (&["--assert-max-events", "3", "--measure", "distinct"], "asserted bounds identify nobody"),
        (&["--assert-max-events", "3", "--late", "next-step"], "asserted bounds do not go together: a late event"),
        (&["--assert-max-events", "3", "--asserted-by", " x"], "--asserted-by is not one line of text"),
    ] {
        let base = ["release", "1.csv", "--key", "my.key", "--start", "2024-01-20", "--steps", "40", "--every", "1d"];
        let refused = bench.run(&[&base[..], &["--all", "--rho", "1", "--out", "t.csv"], more].concat());
        assert!(refused.code == 2 && refused.stderr.contains(says), "{more:?}: {}", refused.stderr);
    }
    let rows =
        bench.run(&["release", "1.csv", "--key", "my.key", "--start", "2024-01-20", "--steps", "4", "--every", "9"]);
    assert!(
        rows.code == 2 && rows.stderr.contains("a step is a span of time, not a number of events"),
        "{}",
        rows.stderr
    );
}

/// What the first steps alone reveal, as the library computes it.
#[test]
fn a_plan_states_what_fewer_steps_spend() {
    let bench = Bench::new();
    let plan = ["plan", "--horizon", "1000", "--rho", "0.5", "--through", "7"];
    let text = bench.run(&plan).stdout;
    assert!(text.contains("spent through step 7: ρ = 0."), "{text}");
    let json: Value = serde_json::from_str(&bench.run(&[&plan[..], &["--json"]].concat()).stdout).unwrap();
    let rho = json["spent"]["rho"].as_f64().unwrap();
    assert!(rho > 0.05 && rho < 0.4 && json["spent"]["through"] == 7, "{json}");
    assert_eq!(bench.run(&[&plan[..5], &["--through", "1001"]].concat()).code, 2);
}

/// A counted period that the end of a stream cuts may lie in two streams, or in more if it is longer than a stream.
#[test]
fn periods_that_are_cut_count_in_each_stream() {
    for (per, rho) in [("3", 0.3), ("1", 0.3), ("2", 0.6), ("5", 0.9)] {
        let bench = Bench::new();
        for (run, through) in (1..).zip(["2024-01-04", "2024-01-07", "2024-01-10"]) {
            let day = 3 * run - 1;
            bench.write(&format!("{run}.csv"), format!("time,who\n2024-01-0{day},a\n"));
            let calendar = format!("--start 2024-01-01 --steps 3 --every 1d --through {through}");
            let unit = format!("--person who --max-events 2 --per {per} --rho 0.3 --noise gaussian");
            let out = format!("release {run}.csv --continue --extend --key my.key --out t.csv --no-plot");
            let words = [out, calendar, unit].join(" ");
            let ran = bench.run(&words.split(' ').collect::<Vec<_>>());
            assert_eq!(ran.code, 0, "{}", ran.stderr);
        }
        let report: Value = serde_json::from_str(&bench.read("t.report.json")).unwrap();
        let stated = report["guarantee"]["rho"].as_f64().unwrap();
        assert!((stated / rho - 1.0).abs() < 1e-9, "per {per}: {stated}");
    }
}
