//! Reports: the printed figures and text about a stream, recomputed from its declaration.

use super::floors::{days_of, period_of};
use super::neighbours::{Kept, changes, over_periods};
use super::numbers::{delta_of_gaussian, exact, near, shown, sum, whole};
use super::plans::{for_each, squared_distance};
use evertally::plan::NoiseKind;
use evertally_declare::declaration::Declaration;
use evertally_declare::stream::Stream;
use evertally_ledger::ledger::{CarriedSum, Follows};
use evertally_publish::report::{ReleaseKind, Report};
use num_rational::BigRational;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct Asked {
    start: (i64, i64, i64),
    steps: usize,
    per: Option<&'static str>,
    events: u64,
    per_step: Option<u64>,
    gap: Option<u64>,
    replaced: bool,
    mechanism: &'static str,
    budget: (&'static str, Option<&'static str>),
    /// The number of earlier streams, from whose last values this one continues.
    before: u32,
}

fn asked() -> impl Strategy<Value = Asked> {
    use proptest::option::weighted;
    use proptest::sample::select;
    let start = (2020..2026i64, 1..13i64, select(vec![1, 2, 15, 25, 27, 28]));
    let per = weighted(0.7, select(vec!["week", "month", "day"]));
    let bounds = (1..4u64, weighted(0.5, 1..3u64), weighted(0.3, 2..4u64));
    let budget = select(vec![
        ("\"rho\":0.1", None),
        ("\"rho\":0.5", None),
        ("\"epsilon\":0.7", Some("0.7")),
        ("\"epsilon\":1.3", Some("1.3")),
        ("\"epsilon\":1,\"delta\":1e-6", None),
    ]);
    let mechanism = select(vec!["input", "output", "binary", "sqrt", "honaker-online"]);
    (start, 2..8usize, per, bounds, proptest::bool::weighted(0.2), mechanism, budget, 0..3u32).prop_map(
        |(start, steps, per, (events, per_step, gap), replaced, mechanism, budget, before)| {
            let steps = if replaced { steps.min(4) } else { steps };
            Asked { start, steps, per, events, per_step, gap, replaced, mechanism, budget, before }
        },
    )
}

impl Asked {
    fn stream(&self) -> Option<Stream> {
        let Self { start: (year, month, day), steps, events, mechanism, budget: (budget, _), .. } = self;
        let more = |name: &str, value: Option<u64>| value.map_or(String::new(), |n| format!(",\"{name}\":{n}"));
        let per = self.per.map_or(String::new(), |per| format!(",\"per\":\"{per}\""));
        let replaced = if self.replaced { ",\"neighbours\":\"replace-one\"" } else { "" };
        let declared = format!(
            "{{\"start\":\"{year}-{month:02}-{day:02}\",\"every\":\"1d\",\"steps\":{steps},\"person\":\"person\",\
             \"max-events\":{events},\"mechanism\":\"{mechanism}\",{budget}{}{}{per}{replaced}}}",
            more("max-events-per-step", self.per_step),
            more("min-gap", self.gap),
        );
        let settings =
            Declaration::from_json(&declared).unwrap().resolve().unwrap_or_else(|e| panic!("{e}: {declared}"));
        let mut stream = evertally_ledger::planner::plan(settings, &mut |_| ()).ok()?.0;
        if self.before > 0 {
            let carried = CarriedSum { group: vec![], exact: "0".to_owned(), streams: self.before };
            let steps = u64::from(self.before) * self.steps as u64;
            stream.follows =
                Some(Follows { stream: "main".to_owned(), since: "then".to_owned(), steps, carried: vec![carried] });
        }
        Some(stream)
    }

    fn kept(&self) -> Kept {
        let gap = self.gap.unwrap_or(1);
        Kept { events: self.events, per_step: self.per_step, per_group: None, groups: None, gap, values: (1, 1) }
    }

    /// The steps of each period that the stream touches.
    fn periods(&self) -> Vec<Vec<usize>> {
        let number = |step: usize| self.per.map_or(0, |per| period_of(days_of(self.start) + step as i64, per));
        let mut periods: Vec<Vec<usize>> = vec![];
        for step in 0..self.steps {
            match periods.last_mut() {
                Some(own) if number(own[0]) == number(step) => own.push(step),
                _ => periods.push(vec![step]),
            }
        }
        periods
    }

    /// The number of streams that one unit can be in: the whole history of a person is in all of them; a person's
    /// events of one period are in those that the period touches. By brute force, over all days of all streams.
    fn streams_of_a_unit(&self) -> u32 {
        let (Some(per), steps) = (self.per, self.steps as i64) else { return self.before + 1 };
        let mut of_periods: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        for step in -i64::from(self.before) * steps..steps {
            let period = period_of(days_of(self.start) + step, per);
            of_periods.entry(period).or_default().insert(step.div_euclid(steps));
        }
        let touched = of_periods.values().map(BTreeSet::len).max().unwrap() as u32;
        // A period that is longer than a stream counts for all of them, whether or not it begins with the first.
        let longest = match per {
            "week" => 7,
            "month" => 31,
            _ => 1,
        };
        match touched {
            1 => 1,
            _ if longest <= steps => 2.min(self.before + 1),
            _ => self.before + 1,
        }
    }
}

fn figure(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("{of} is not a number"))
}

/// The numbers of a row of a Markdown table.
fn cells(line: &str) -> Vec<f64> {
    line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
}

/// Every figure of the guarantee is at least the true one, for one unit, for several periods and for several
/// streams; and the text is never below the figures.
#[test]
fn reports_promise_no_more_than_the_noise_keeps() {
    let (mut checked, mut rows, mut several) = (0, 0, 0);
    for_each(8, 220, &asked(), |asked| {
        let Some(stream) = asked.stream() else { return };
        let report = Report::with_key_id(&stream, "key".to_owned(), ReleaseKind::Sum);
        let json = serde_json::to_value(&report).unwrap();
        let text = report.markdown();
        let streams = asked.streams_of_a_unit();
        let of_periods: Vec<Vec<Vec<i64>>> =
            asked.periods().iter().map(|steps| changes(&asked.kept(), asked.replaced, steps, 1, asked.steps)).collect();
        let guarantee = &json["guarantee"];
        if let Some(epsilon) = asked.budget.1 {
            // A unit of one stream has the declared ε; with several streams, as many times that as it can be in.
            let truth = super::numbers::decimal(epsilon) * whole(streams.into());
            assert!(shown(figure(&guarantee["pure_epsilon"])) >= truth, "{asked:?}: {guarantee}");
            assert!(figure(&guarantee["pure_epsilon"]) <= near(&truth) * (1.0 + 1e-12), "{asked:?}: {guarantee}");
        }
        if stream.plan.noise_kind() == NoiseKind::Gaussian {
            let one = of_periods.iter().map(|changes| squared_distance(&stream.plan, changes)).fold(0.0, f64::max);
            let squared = one * f64::from(streams);
            holds(&asked, squared, figure(&guarantee["rho"]), &guarantee["epsilon_at_delta"]);
            let (epsilon, delta) = report.strength().unwrap();
            if streams == 1 {
                assert!(delta_of_gaussian(squared.sqrt(), epsilon) <= delta * (1.0 + 1e-6), "{asked:?}");
            }
        }
        words_are_up(&asked, &json, &text);
        if let Some(active) = json["periods"]["active"].as_array() {
            assert_eq!(active[0]["periods"], 1);
            for row in active {
                let periods = row["periods"].as_u64().unwrap() as usize;
                rows += 1;
                if let Some(pure) = row["pure_epsilon"].as_f64() {
                    let truth = exact(figure(&guarantee["pure_epsilon"])) * whole(periods as u64);
                    assert!(exact(pure) >= truth, "{asked:?}: {row}");
                }
                let count: usize = of_periods.iter().map(Vec::len).product();
                if stream.plan.noise_kind() == NoiseKind::Gaussian && count < 20_000 {
                    let squared = squared_distance(&stream.plan, &over_periods(&of_periods, periods));
                    assert!(squared / 2.0 <= figure(&row["rho"]) * (1.0 + 1e-9), "{asked:?}: {row} for {squared}");
                    let (epsilon, delta) = (figure(&row["epsilon"]), figure(&row["delta"]));
                    assert!(delta_of_gaussian(squared.sqrt(), epsilon) <= delta * (1.0 + 1e-6), "{asked:?}: {row}");
                    several += usize::from(periods > 1);
                }
            }
        }
        errors_add_up(&asked, &stream, &json);
        checked += 1;
    });
    assert!(checked > 120 && rows > 100 && several > 20, "{checked} {rows} {several}");
}

/// ρ and every pair (ε, δ) hold for changes of this squared distance.
fn holds(asked: &Asked, squared: f64, rho: f64, pairs: &Value) {
    assert!(squared / 2.0 <= rho * (1.0 + 1e-9), "{asked:?}: ρ = {rho} for {squared}");
    for pair in pairs.as_array().unwrap() {
        let (epsilon, delta) = (figure(&pair["epsilon"]), figure(&pair["delta"]));
        assert!(delta_of_gaussian(squared.sqrt(), epsilon) <= delta * (1.0 + 1e-6), "{asked:?}: {pair}");
    }
}

/// The text report never states less than the figures.
fn words_are_up(asked: &Asked, json: &Value, text: &str) {
    let guarantee = &json["guarantee"];
    let after = |words: &str| -> Option<f64> {
        let rest = &text[text.find(words)? + words.len()..];
        rest[..rest.find([';', ',', '\n'])?].trim().parse().ok()
    };
    let is_up = |printed: Option<f64>, truth: &Value| {
        let printed = printed.unwrap_or_else(|| panic!("{asked:?}: {truth} is not in the report:\n{text}"));
        assert!(printed >= figure(truth) && printed <= figure(truth) * 1.0011, "{asked:?}: {printed} for {truth}");
    };
    is_up(after("differential privacy with ρ = "), &guarantee["rho"]);
    if !guarantee["pure_epsilon"].is_null() {
        is_up(after("ε-differential privacy with ε = "), &guarantee["pure_epsilon"]);
    }
    let table: Vec<Vec<f64>> = text
        .lines()
        .skip_while(|line| *line != "| δ | ε |")
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect();
    for (row, pair) in table.iter().zip(guarantee["epsilon_at_delta"].as_array().unwrap()) {
        assert_eq!(row[0], figure(&pair["delta"]));
        is_up(Some(row[1]), &pair["epsilon"]);
    }
    let active: Vec<Vec<f64>> = text
        .lines()
        .skip_while(|line| !line.starts_with("| active in"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(cells)
        .collect();
    let periods = json["periods"]["active"].as_array().map_or(&[][..], Vec::as_slice);
    assert_eq!(active.len(), periods.len());
    for (row, facts) in active.iter().zip(periods) {
        let mut row = row.iter().copied();
        for name in ["pure_epsilon", "rho", "epsilon"] {
            if !facts[name].is_null() {
                is_up(row.next(), &facts[name]);
            }
        }
    }
    is_up(after("standard error | at most "), &json["error"]["max_std_error"]);
    assert!(text.contains(&format!("± {} at", figure(&json["error"]["last_step_half_width"]))), "{text}");
    assert!(text.contains("ρ is at most k² times") || text.contains("ε is at most k times"), "{text}");
}

/// Errors of values that continue earlier streams include the errors of the ends of these streams.
fn errors_add_up(asked: &Asked, stream: &Stream, json: &Value) {
    let (before, plan) = (f64::from(asked.before), &stream.plan);
    let end = plan.variance(asked.steps as u64);
    let variances: Vec<f64> = (1..=asked.steps as u64).map(|step| plan.variance(step)).collect();
    let largest = (variances.iter().copied().fold(0.0, f64::max) + before * end).sqrt();
    let mean = (variances.iter().sum::<f64>() / asked.steps as f64 + before * end).sqrt();
    let error = &json["error"];
    assert!((figure(&error["max_std_error"]) / largest - 1.0).abs() < 1e-9, "{asked:?}: {error} {largest}");
    assert!((figure(&error["mean_std_error"]) / mean - 1.0).abs() < 1e-9, "{asked:?}: {error} {mean}");
    // The value at the last step is off by at most this in 19 of 20 cases: by the normal law, which wide noise
    // follows.
    let (width, deviation) = (figure(&error["last_step_half_width"]), ((1.0 + before) * end).sqrt());
    if plan.noise_kind() == NoiseKind::Gaussian && deviation > 3.0 {
        let missed = 2.0 * super::numbers::above((width + 0.5) / deviation);
        assert!(missed <= 0.05 * (1.0 + 1e-6), "{asked:?}: {missed} beyond ± {width}");
    }
}

/// Streams with one budget each: the total is their exact sum.
#[test]
fn several_streams_spend_the_exact_sum() {
    let terms = |text: &str, count: u32| sum((0..count).map(|_| super::numbers::decimal(text)));
    for (budget, term, name) in
        [("\"rho\":0.1", "0.1", "rho"), ("\"rho\":0.37", "0.37", "rho"), ("\"epsilon\":0.3", "0.3", "pure_epsilon")]
    {
        for before in 0..12 {
            let asked = Asked {
                start: (2024, 1, 1),
                steps: 4,
                per: None,
                events: 2,
                per_step: None,
                gap: None,
                replaced: false,
                mechanism: "binary",
                budget: (budget, None),
                before,
            };
            let report = Report::with_key_id(&asked.stream().unwrap(), String::new(), ReleaseKind::Sum);
            let printed = figure(&serde_json::to_value(&report).unwrap()["guarantee"][name]);
            let truth: BigRational = terms(term, before + 1);
            assert_eq!(printed, near(&truth), "{budget}, {before} streams before");
            assert!(shown(printed) >= truth);
        }
    }
}
