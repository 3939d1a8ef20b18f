//! The released values of some steps, by group, and their noise.

use super::rows::HistoryVisitor;
use super::steps::step_of;
use evertally::plan::{Combination, Plan};
use evertally_declare::error::{Result, usage};
use evertally_declare::event::{Columns, Event};
use evertally_declare::words::quoted;
use std::collections::{BTreeSet, HashMap};

/// Tolerance between the standard errors of the table and the plan: the table has seven digits.
const TOLERANCE: f64 = 1e-5;

/// Released values at the requested steps.
pub(super) struct StepValues {
    groups: Vec<Vec<String>>,
    /// The factor of the errors of each group.
    scales: Vec<f64>,
    /// Keyed by the index of the group, and the step.
    values: HashMap<(usize, u64), f64>,
    /// The number of steps of one stream.
    horizon: u64,
}

impl StepValues {
    /// Collected in one pass over all rows.
    pub(super) fn read(
        rows: &HistoryVisitor<'_>,
        plan: &Plan,
        columns: &[String],
        steps: BTreeSet<u64>,
    ) -> Result<Self> {
        let names = ["step", "value", "std_error"].into_iter().map(str::to_owned).chain(columns.iter().cloned());
        let all = Columns { time: "time".into(), labels: names.collect(), ..Columns::default() };
        let mut found =
            Self { groups: Vec::new(), scales: Vec::new(), values: HashMap::new(), horizon: plan.horizon() };
        let mut places: HashMap<Vec<String>, usize> = HashMap::new();
        rows(&all, &mut |event| {
            let step = step_of(event)?;
            if !steps.contains(&step) {
                return Ok(());
            }
            let mut texts = event.labels().skip(1).map(|label| label.to_string());
            let value = number(event, &texts.next().unwrap_or_default())?;
            let error = number(event, &texts.next().unwrap_or_default())?;
            let group: Vec<String> = texts.collect();
            let known = found.std_error(plan, step);
            // A huge budget leaves no noise.
            let scale = if error == 0.0 && known == 0.0 { 1.0 } else { error / known };
            let scale = if (scale - 1.0).abs() < TOLERANCE { 1.0 } else { scale };
            let place = *places.entry(group.clone()).or_insert_with(|| {
                found.groups.push(group);
                found.scales.push(scale);
                found.groups.len() - 1
            });
            if (scale / found.scales[place] - 1.0).abs() > TOLERANCE || !scale.is_finite() {
                let (told, known) = (error, found.scales[place] * found.std_error(plan, step));
                return Err(usage(format!(
                    "step {step} has a standard error of {told} in the table, but {known} in the plan: the table does \
                     not belong to this plan"
                )));
            }
            found.values.insert((place, step), value);
            Ok(())
        })?;
        if columns.is_empty() && found.scales.first().is_some_and(|scale| *scale != 1.0) {
            return Err(usage("the table's standard errors differ from those of the plan; pass its own plan"));
        }
        Ok(found)
    }

    /// The standard error for a group of scale 1: streams that follow each other have independent noise.
    fn std_error(&self, plan: &Plan, step: u64) -> f64 {
        let (before, own) = ((step - 1) / self.horizon, (step - 1) % self.horizon + 1);
        (plan.variance(own) + before as f64 * if before > 0 { plan.variance(self.horizon) } else { 0.0 }).sqrt()
    }

    pub(super) fn group(&self, place: usize) -> &[String] {
        &self.groups[place]
    }

    /// The indices of groups by name; all groups if none are named.
    pub(super) fn chosen(&self, names: &[String]) -> Result<Vec<usize>> {
        if names.is_empty() {
            return Ok((0..self.groups.len()).collect());
        }
        let mut places = Vec::new();
        for name in names {
            let Some(place) = self.groups.iter().position(|group| group.join("/") == *name) else {
                let first = self.groups.first().map_or(String::new(), |group| format!(", such as {}", group.join("/")));
                let problem = format!("the table has no group {}", quoted(name));
                return Err(usage(format!("{problem}; its groups are the texts of their columns joined by /{first}")));
            };
            if places.contains(&place) {
                return Err(usage(format!("the group {} is named twice", quoted(name))));
            }
            places.push(place);
        }
        Ok(places)
    }

    /// The total of some groups in a stretch, and its noise.
    pub(super) fn total(&self, places: &[usize], [after, through]: [u64; 2]) -> Result<(f64, Combination)> {
        let (mut value, mut combination) = (0.0, Combination::default());
        for &place in places {
            for (step, sign) in [(through, 1.0), (after, -1.0)] {
                value += sign * self.value(place, step)?;
                combination = self.with(combination, place, step, sign * self.scales[place]);
            }
        }
        Ok((value, combination))
    }

    fn value(&self, place: usize, step: u64) -> Result<f64> {
        if step == 0 {
            return Ok(0.0);
        }
        self.values.get(&(place, step)).copied().ok_or_else(|| {
            let group = self.groups[place].join("/");
            let of = if group.is_empty() { String::new() } else { format!(" of the group {}", quoted(&group)) };
            usage(format!("the table has no row{of} at step {step}; query a stretch that begins later"))
        })
    }

    /// Adds the noise of a value: that of all preceding streams, and that of a step in its stream.
    fn with(&self, combination: Combination, place: usize, step: u64, weight: f64) -> Combination {
        if step == 0 {
            return combination;
        }
        let (before, own) = ((step - 1) / self.horizon, (step - 1) % self.horizon + 1);
        let of = |all: Combination, stream: u64, step: u64| all.with_of_stream(stream, place as u64, step, weight);
        of((0..before).fold(combination, |all, stream| of(all, stream, self.horizon)), before, own)
    }
}

fn number(event: &Event<'_>, text: &str) -> Result<f64> {
    let time = event.time().to_string();
    text.parse().map_err(|_| usage(format!("the row of {time}: {} is not a number", quoted(text))))
}
