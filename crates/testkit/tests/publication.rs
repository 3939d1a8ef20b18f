//! Publishing only some steps keeps the guarantee for everything that the bounds of *steps* allow:
//! `wᵀ C⁻¹ w ≤ 2ρ` over the covariance `C` of the published rows and the change `w` that a unit
//! makes to them, by brute force.

use evertally_declare::declaration::{Declaration, Settings};
use evertally_declare::steps::Period;
use nalgebra::{DMatrix, DVector};

const STEPS: u64 = 12;
const RHO: f64 = 0.5;

struct Case {
    publish: &'static str,
    workload: &'static str,
    max_events: Option<u64>,
    per_step: Option<u64>,
    gap: Option<u64>,
    per: Option<u64>,
}

impl Case {
    fn settings(&self) -> Settings {
        let declared = Declaration {
            start: Some("2024-01-01".into()),
            steps: Some(STEPS),
            every: Some("1d".parse().unwrap()),
            publish: Some(self.publish.parse().unwrap()),
            workload: Some(self.workload.parse().unwrap()),
            rho: Some(RHO),
            person: self.max_events.map(|_| "who".into()),
            max_events: self.max_events,
            max_events_per_step: self.per_step,
            min_gap: self.gap,
            per: self.per.map(Period::Steps),
            ..Declaration::default()
        };
        declared.resolve().unwrap()
    }

    /// All possible units, as the numbers of their events in every step.
    fn units(&self) -> Vec<Vec<f64>> {
        let Some(max_events) = self.max_events else {
            return (0..STEPS as usize)
                .map(|at| (0..STEPS as usize).map(|s| f64::from(u8::from(s == at))).collect())
                .collect();
        };
        let period = self.per.unwrap_or(STEPS);
        let mut all = Vec::new();
        for first in (0..STEPS).step_by(period as usize) {
            let mut open = vec![(vec![0.0; STEPS as usize], max_events, None::<u64>)];
            for step in first..(first + period).min(STEPS) {
                for place in 0..open.len() {
                    let (unit, left, last) = open[place].clone();
                    if last.is_some_and(|last| step - last < self.gap.unwrap_or(1)) {
                        continue;
                    }
                    for events in 1..=self.per_step.unwrap_or(left).min(left) {
                        let mut unit = unit.clone();
                        unit[step as usize] = events as f64;
                        open.push((unit, left - events, Some(step)));
                    }
                }
            }
            all.extend(open.into_iter().map(|(unit, ..)| unit));
        }
        all
    }
}

/// The weight of a step in a row that ends with step `last`; both count from 1.
fn reads(workload: &str, last: u64, step: u64, row: u64) -> f64 {
    if step > last {
        return 0.0;
    }
    let age = last - step;
    match workload {
        "sum" => 1.0,
        "increments" => f64::from(u8::from(age < row)),
        "decay(3)" => (-(age as f64) / 3.0).exp2(),
        window => {
            let width: u64 = window.trim_start_matches("window(").trim_end_matches(')').parse().unwrap();
            f64::from(u8::from(age < width))
        }
    }
}

#[test]
fn no_unit_moves_the_rows_further_than_the_budget_allows() {
    let (mut cases, mut tightest) = (0, 0.0f64);
    for publish in ["2", "3", "4", "6"] {
        for workload in ["sum", "increments", "window(4)", "window(5)", "window(6)", "window(2)", "decay(3)"] {
            for (max_events, per_step, gap, per) in [
                (None, None, None, None),
                (Some(2), Some(1), None, None),
                (Some(3), Some(1), None, None),
                (Some(3), Some(2), Some(2), None),
                (Some(3), Some(1), Some(3), None),
                (Some(2), Some(1), None, Some(5)),
                (Some(4), Some(2), Some(4), Some(6)),
            ] {
                let case = Case { publish, workload, max_events, per_step, gap, per };
                let settings = case.settings();
                let plan = settings.request.clone().plan().unwrap();
                let published = settings.published.unwrap();
                let (rows, width) = (published.rows().steps(), publish.parse::<u64>().unwrap());
                let slot = |row: usize| published.slot_of_row(row as u64 + 1);
                let covariance =
                    DMatrix::from_fn(rows as usize, rows as usize, |i, j| plan.covariance(slot(i), slot(j)));
                let factor = covariance.cholesky().expect("noise is in every row");
                let mut worst = 0.0f64;
                for unit in case.units() {
                    let moved = DVector::from_fn(rows as usize, |row, _| {
                        let last = published.last_step_of(row as u64 + 1);
                        (1..=STEPS).map(|step| reads(workload, last, step, width) * unit[step as usize - 1]).sum()
                    });
                    worst = worst.max(moved.dot(&factor.solve(&moved)));
                }
                let name = format!("{workload} every {publish} for {max_events:?} {per_step:?} {gap:?} {per:?}");
                assert!(worst <= 2.0 * RHO * (1.0 + 1e-6), "{name}: {worst}");
                (cases, tightest) = (cases + 1, tightest.max(worst));
            }
        }
    }
    assert_eq!(cases, 196);
    assert!(tightest > 0.99 * 2.0 * RHO, "some unit spends all of it: {tightest}");
}

/// The same for windows of calendar months, whose shorter months leave slots empty.
#[test]
fn no_unit_moves_windows_of_months_further() {
    let days = 70u64;
    let mut tightest = 0.0f64;
    for (max_events, per) in [(None, None), (Some(2), None), (Some(2), Some(7))] {
        let declared = Declaration {
            start: Some("2023-01-20".into()),
            steps: Some(days),
            every: Some("1d".parse().unwrap()),
            workload: Some("window(1mo)".parse().unwrap()),
            rho: Some(RHO),
            person: max_events.map(|_| "who".into()),
            max_events,
            max_events_per_step: max_events.map(|_| 1),
            per: per.map(Period::Steps),
            ..Declaration::default()
        };
        let settings = declared.resolve().unwrap();
        let plan = settings.request.clone().plan().unwrap();
        let published = settings.published.unwrap();
        let slot = |row: usize| published.slot_of_row(row as u64 + 1);
        let covariance = DMatrix::from_fn(days as usize, days as usize, |i, j| plan.covariance(slot(i), slot(j)));
        let factor = covariance.cholesky().expect("noise is in every row");
        let column = |day: usize| {
            DVector::from_fn(days as usize, |row, _| f64::from(u8::from(row >= day && slot(row) - slot(day) < 31)))
        };
        let columns: Vec<DVector<f64>> = (0..days as usize).map(column).collect();
        let solved: Vec<DVector<f64>> = columns.iter().map(|column| factor.solve(column)).collect();
        for (first, one) in columns.iter().enumerate() {
            let mut worst = one.dot(&solved[first]);
            for second in first + 1..if max_events.is_some() { days as usize } else { 0 } {
                if per.is_none_or(|per| first as u64 / per == second as u64 / per) {
                    let both = one + &columns[second];
                    worst = worst.max(both.dot(&(&solved[first] + &solved[second])));
                }
            }
            assert!(worst <= 2.0 * RHO * (1.0 + 1e-6), "day {first} for {max_events:?}, {per:?}: {worst}");
            tightest = tightest.max(worst);
        }
    }
    assert!(tightest > 0.95 * 2.0 * RHO, "{tightest}");
}
