//! The terms of wide cases.

use super::terms::{Bounds, Reset, Terms, terms};
use super::wide::Wide;
use evertally_declare::steps::TimeFormat;
use proptest::prelude::*;

/// The terms of wide cases: those of other cases, with tight bounds of the unit and more declarations.
pub(super) fn wide_terms() -> impl Strategy<Value = Terms> {
    let workloads: Vec<&'static [&'static str]> = vec![
        &[],
        &[],
        &["window(3)"],
        &["window(1)"],
        &["decay(2)"],
        &["increments"],
        &["window(2d)"],
        &["window(1mo)"],
        &["sum", "window(3)"],
        &["window(2)", "decay(3)*2"],
    ];
    let measures: Vec<&'static [&'static str]> = vec![
        &[],
        &[],
        &[],
        &[],
        &[],
        &[],
        &[],
        &[],
        &["count"],
        &["count", "sum"],
        &["count", "sum", "mean*2"],
        &["distinct", "count"],
        &["distinct(2)", "count"],
        &["distinct(3)", "distinct"],
        &["histogram(1,3)", "count"],
        &["count", "sum", "variance", "quantile(0.5)"],
    ];
    let publish = vec![None, None, None, Some("2"), Some("3"), Some("1w"), Some("1d")];
    let read = (prop::sample::select(workloads), prop::sample::select(measures), prop::sample::select(publish));
    let rarely = |probability: f64| prop::bool::weighted(probability);
    let more = (rarely(0.4), rarely(0.15), rarely(0.15), rarely(0.3), rarely(0.3), rarely(0.5));
    let tight = (rarely(0.5), 1..4u64, prop::option::weighted(0.4, 1..3u64));
    (terms(), read, more, tight).prop_map(|(terms, read, more, (is_tight, total, period))| {
        let (workloads, measures, publish) = read;
        let (scales, max_total, is_endless, discovers, joins, chooses) = more;
        // Measures and workloads are two ways to publish several figures; measures need declared groups with one scale.
        let workloads = if measures.is_empty() { workloads } else { &[] };
        let (plain, of_values) = (measures.is_empty(), ["sum", "mean", "histogram"]);
        let values = match plain {
            true => terms.values,
            false if measures.iter().any(|measure| of_values.iter().any(|name| measure.starts_with(name))) => {
                terms.values.or(Some((["0", "5"], "0.5")))
            }
            false => None,
        };
        let of_people = measures.iter().any(|measure| measure.starts_with("distinct"));
        // Publications end with the horizon.
        let (calendar, steps) = match (workloads, publish) {
            (["window(1mo)"], _) => (("1d", "2023-12-31", "UTC"), 40),
            (["window(2d)"], None) => (("6h", "2024-11-03T00:00:00-04:00", "America/New_York"), 11),
            (_, Some("1w")) => (("1d", "2024-04-01", "UTC"), 14),
            (_, Some("1d")) => (("1h", "2024-10-27", "Europe/Berlin"), 49),
            (_, Some(width)) => {
                let width: u64 = width.parse().expect("a number of steps");
                (terms.calendar, terms.steps.max(width).next_multiple_of(width))
            }
            _ => (terms.calendar, terms.steps),
        };
        let publish = publish.filter(|_| !matches!(workloads, ["window(1mo)" | "window(2d)"]));
        let is_endless = is_endless && !matches!(workloads, ["window(1mo)"]);
        let discovers = discovers
            && plain
            && !is_endless
            && terms.budget > 0
            && !workloads.iter().any(|own| own.starts_with("decay"));
        let period = period.map(|steps| Reset::Steps(steps + 1));
        let bounds = Bounds { total, per_step: None, per_group: None, groups: None, gap: None, period };
        let person = if is_tight { Some(bounds) } else { terms.person };
        let person = match person {
            None if of_people => Some(bounds),
            Some(bounds) if is_endless => Some(Bounds { period: bounds.period.or(Some(Reset::Steps(3))), ..bounds }),
            other => other,
        };
        let wide = Wide {
            is_wide: true,
            workloads,
            publish,
            measures,
            scales: scales && plain,
            max_total: max_total && plain,
            is_endless,
            discovers: discovers && person.is_some(),
            joins: joins && !discovers,
            chooses,
        };
        Terms {
            calendar,
            steps,
            values,
            person,
            codes: false,
            skip_missing: true,
            skip_outside: terms.skip_outside && !is_endless,
            rest: terms.rest && !wide.discovers,
            columns: terms.columns.max(usize::from(wide.discovers)),
            unsorted: true,
            times: TimeFormat::Auto,
            wide,
            ..terms
        }
    })
}
