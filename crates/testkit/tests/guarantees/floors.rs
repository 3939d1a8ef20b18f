//! Floors of discovered groups if the bounds on a person start again in every calendar period, including the first,
//! which may have begun before the stream.

use super::numbers::above;
use super::plans::for_each;
use evertally::noise::{GuardedKey, TestSeed};
use evertally::stream::DiscoveredSums;
use evertally_declare::declaration::Declaration;
use evertally_declare::stream::Stream;
use evertally_publish::report::SelectionFacts;
use proptest::prelude::*;

/// A date as days since 1 January 1970, and back: the Gregorian calendar, implemented separately.
pub(crate) fn days_of((year, month, day): (i64, i64, i64)) -> i64 {
    let is_leap = |year: i64| (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let years: i64 = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 }).sum();
    let lengths = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    years + lengths[..month as usize - 1].iter().sum::<i64>() + day - 1
}

/// The calendar period of a day, by a number that is the same for all of its days.
pub(crate) fn period_of(day: i64, per: &str) -> i64 {
    // 1 January 1970 was a Thursday.
    if per == "week" {
        return (day + 3).div_euclid(7);
    }
    let year = (1970 + day / 366..).find(|year| day < days_of((year + 1, 1, 1))).expect("a year");
    let month = 12 * (year - 1970) + (1..=12).rfind(|month| day >= days_of((year, *month, 1))).expect("a month") - 1;
    match per {
        "month" => month,
        "quarter" => month / 3,
        "year" => month / 12,
        _ => day,
    }
}

#[derive(Clone, Debug)]
struct Asked {
    start: (i64, i64, i64),
    steps: u64,
    per: &'static str,
    every: u64,
    floor: u64,
    events: u64,
    per_step: Option<u64>,
    gap: Option<u64>,
    window: Option<u64>,
    budget: &'static str,
}

fn asked() -> impl Strategy<Value = Asked> {
    use proptest::option::weighted;
    let start = (2020..2026i64, 1..13i64, 1..29i64);
    let per = proptest::sample::select(vec!["week", "month", "quarter", "year", "day"]);
    let bounds = (2..5u64, 1..9u64, weighted(0.4, 1..4u64), weighted(0.2, 2..4u64));
    let budget = proptest::sample::select(vec!["\"rho\":10", "\"rho\":0.3", "\"epsilon\":1,\"delta\":1e-6"]);
    (start, 2..400u64, per, 1..40u64, bounds, weighted(0.3, 2..60u64), budget).prop_map(
        |(start, steps, per, every, (floor, events, per_step, gap), window, budget)| {
            let window = window.filter(|window| *window < steps);
            Asked { start, steps, per, every: every.min(steps), floor, events, per_step, gap, window, budget }
        },
    )
}

impl Asked {
    fn stream(&self) -> Stream {
        let Self { start: (year, month, day), steps, per, every, floor, events, budget, .. } = self;
        let more = |name: &str, value: Option<u64>| value.map_or(String::new(), |n| format!(",\"{name}\":{n}"));
        // A search for the best mechanism would take longer than everything else.
        let window = self.window.map_or(",\"mechanism\":\"sqrt\"".to_owned(), |window| {
            format!(",\"mechanism\":\"input\",\"workload\":\"window({window})\"")
        });
        let declared = format!(
            "{{\"start\":\"{year}-{month:02}-{day:02}\",\"every\":\"1d\",\"steps\":{steps},\"person\":\"person\",\
             \"max-events\":{events},\"per\":\"{per}\",\"group-by\":[\"route\"],\"discover-groups\":true,\
             \"selection-delta\":1e-6,\"select-every\":{every},\"floor\":{floor},{budget}{}{}{window}}}",
            more("max-events-per-step", self.per_step),
            more("min-gap", self.gap),
        );
        let settings =
            Declaration::from_json(&declared).unwrap().resolve().unwrap_or_else(|e| panic!("{e}: {declared}"));
        evertally_ledger::planner::plan(settings, &mut |_| ()).unwrap().0
    }

    /// The number of the period of every step.
    fn periods(&self) -> Vec<i64> {
        (0..self.steps).map(|step| period_of(days_of(self.start) + step as i64, self.per)).collect()
    }

    /// The largest number of one person's events in one group that the release of a step can read: as many as fit into
    /// each calendar period, day by day.
    fn most_events(&self, step: u64, periods: &[i64]) -> u64 {
        let first = step.saturating_sub(self.window.unwrap_or(u64::MAX)) + 1;
        let period = |step: u64| periods[step as usize - 1];
        let (mut all, mut own, mut last, mut of) = (0, 0, None::<u64>, i64::MIN);
        for day in first..=step {
            if period(day) != of {
                (of, own, last) = (period(day), 0, None);
            }
            if last.is_some_and(|last| day - last < self.gap.unwrap_or(1)) {
                continue;
            }
            let kept = self.per_step.unwrap_or(u64::MAX).min(self.events - own);
            if kept > 0 {
                (all, own, last) = (all + kept, own + kept, Some(day));
            }
        }
        all
    }
}

/// Fewer persons than the floor, each contributing the maximum to one group in every period that the stream touches,
/// show it with at most the probability in the report, which is at most the declared one.
#[test]
fn floors_hold_wherever_the_stream_begins_in_a_period() {
    let (mut checked, mut near) = (0, 0);
    for_each(7, 150, &asked(), |asked| {
        let stream = asked.stream();
        let facts = SelectionFacts::new(&stream).unwrap();
        let periods = asked.periods();
        let shown_of = |persons: u64| -> f64 {
            let times = (1..=asked.steps).filter(|step| step.is_multiple_of(asked.every) || *step == asked.steps);
            let at = |step: u64| {
                let sum = (persons * asked.most_events(step, &periods)) as f64;
                above((facts.threshold - sum) / stream.plan.std_error(step))
            };
            times.map(at).sum()
        };
        let few = shown_of(asked.floor - 1);
        let printed = facts.failure_below_floor.unwrap();
        assert!(few <= printed * (1.0 + 1e-6), "{asked:?}: {few} where the report says {printed}");
        assert!(printed <= 1e-6 && few <= 1e-6, "{asked:?}: {few} is {} times the claim", few / 1e-6);
        let one = shown_of(1).min(1.0);
        assert!(one <= facts.failure_over_periods.unwrap() * (1.0 + 1e-6), "{asked:?}: {one}");
        let words = facts.in_words().join("; ");
        assert!(words.contains(&format!("fewer than {} people is shown with probability ", asked.floor)), "{words}");
        (checked, near) = (checked + 1, near + usize::from(few > 1e-9));
    });
    assert!(checked == 150 && near > 40, "{checked} {near}");
}

/// The same with drawn noise: a start on a Wednesday has two weeks in seven days.
#[test]
fn one_person_is_not_shown_by_a_floor_of_two() {
    for (start, first) in [((2024, 1, 1), 7), ((2024, 1, 3), 5)] {
        let asked = Asked {
            start,
            steps: 7,
            per: "week",
            every: 7,
            floor: 2,
            events: 5,
            per_step: None,
            gap: None,
            window: None,
            budget: "\"rho\":10",
        };
        let stream = asked.stream();
        let mut shown = 0;
        for seed in 0..400 {
            let key = GuardedKey::insecure_from_test_seed(TestSeed(seed));
            let mut groups = DiscoveredSums::new(stream.plan.clone(), &key, "main".parse().unwrap()).unwrap();
            for step in 1..=7 {
                if step == 1 || step == first + 1 {
                    groups.add_sum(b"secret", 5).unwrap();
                }
                groups.tick().unwrap();
            }
            shown += groups.shown();
        }
        assert_eq!(shown, 0, "of 400 runs from {start:?}, each with a probability of 10⁻⁶ at most");
    }
}

#[test]
fn the_calendar_is_the_common_one() {
    assert_eq!((days_of((1970, 1, 1)), days_of((2000, 3, 1)), days_of((2024, 2, 29))), (0, 11_017, 19_782));
    // 29 February 2024 was a Thursday, and 4 March the Monday after it.
    assert_ne!(period_of(days_of((2024, 3, 3)), "week"), period_of(days_of((2024, 3, 4)), "week"));
    assert_eq!(period_of(days_of((2024, 2, 29)), "week"), period_of(days_of((2024, 3, 3)), "week"));
    for (per, first, last) in [("month", (2024, 2, 1), (2024, 2, 29)), ("year", (2023, 1, 1), (2023, 12, 31))] {
        let [before, first, last, behind] =
            [days_of(first) - 1, days_of(first), days_of(last), days_of(last) + 1].map(|day| period_of(day, per));
        assert!(before < first && first == last && last < behind, "{per}");
    }
}
