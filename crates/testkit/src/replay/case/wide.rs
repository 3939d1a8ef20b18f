//! Wide cases declare more than running sums of declared groups: workloads, measures, publication widths, scales,
//! groups that join or are discovered, endless streams.

use super::{Bounds, Reset, Terms, terms};
use crate::replay::rows::Row;
use evertally_declare::declaration::{Declaration, Groups};
use evertally_declare::steps::{StepCalendar, TimeFormat};
use proptest::prelude::*;

/// The additions of a wide case.
#[derive(Clone, Debug, Default)]
pub(super) struct Wide {
    /// Whether this is a wide case.
    pub(super) is_wide: bool,
    workloads: &'static [&'static str],
    publish: Option<&'static str>,
    measures: &'static [&'static str],
    scales: bool,
    max_total: bool,
    pub(super) is_endless: bool,
    pub(super) discovers: bool,
    /// A group joins in the second run.
    pub(super) joins: bool,
    /// The planner chooses the mechanism.
    chooses: bool,
}

/// The people in every group and step of a stream that discovers its groups.
const CROWD: usize = 25;

/// Groups with many people.
const CROWDED: [[&str; 2]; 2] = [["a", "x"], ["b", "x"]];

impl Wide {
    /// Adds the declared parts.
    pub(super) fn declare(&self, declaration: Declaration, columns: usize) -> Declaration {
        if !self.is_wide {
            return declaration;
        }
        let mut declared = declaration;
        if !self.workloads.is_empty() {
            let workloads = self.workloads.iter().map(|text| text.parse().expect("a workload"));
            declared.workload = Some(evertally_declare::reading::Workloads(workloads.collect()));
        }
        declared.publish = self.publish.map(|width| width.parse().expect("a width"));
        if !self.measures.is_empty() {
            declared.measure = Some(self.measures.iter().map(|text| text.parse().expect("a measure")).collect());
        }
        if self.is_endless {
            (declared.steps, declared.unbounded) = (None, Some(true));
        }
        if self.chooses || self.is_endless {
            declared.mechanism = None;
        }
        if self.max_total && declared.value.is_some() {
            declared.max_total = Some("7".parse().expect("a number"));
        }
        if columns > 0 && self.discovers {
            (declared.groups, declared.rest) = (None, None);
            declared.discover_groups = Some(true);
            // Enough for the large groups to be found.
            (declared.rho, declared.epsilon, declared.delta) = (Some(2.0), None, None);
            declared.selection_delta = Some(1e-13);
            declared.select_every = Some(1);
        } else if columns > 0 && self.scales && declared.value.is_some() {
            let count = match &declared.groups {
                Some(Groups::Tuples(tuples)) => tuples.len(),
                _ => 0,
            };
            let scales = ["1", "2.5", "0.5"].iter().take(count).map(|scale| scale.parse().expect("a scale"));
            declared.scales = Some(scales.collect());
            declared.rest_scale = declared.rest.as_ref().map(|_| "2".parse().expect("a scale"));
        }
        declared
    }

    /// Whether a run may continue another: the parts of an unfinished publication are kept for one figure only.
    pub(super) fn may_continue(&self) -> bool {
        self.publish.is_none() || (self.measures.is_empty() && self.workloads.len() < 2)
    }

    /// Rows of people who have one event each, in groups that are discovered because of them.
    pub(super) fn crowd(&self, terms: &Terms, calendar: &StepCalendar, first: usize) -> Vec<Row> {
        if !self.discovers || terms.columns == 0 {
            return Vec::new();
        }
        let raw = |step: u64, at: u8| super::Raw { step, at, group: 0, person: 0, value: 20, lacks: 0, late: false };
        let mut rows = Vec::new();
        for step in 1..=terms.steps {
            for (group, tuple) in CROWDED.iter().enumerate() {
                for number in 0..CROWD * (group + 1) {
                    let row = terms.row(calendar, first + rows.len(), &raw(step, number as u8));
                    let labels = tuple.iter().map(|text| Some((*text).to_owned())).collect();
                    rows.push(Row { labels, person: Some(format!("{step}-{group}-{number}")), ..row });
                }
            }
        }
        rows
    }
}

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
