//! The fastest-growing groups of each step: a separate table, computed from released values alone.

use anyhow::Result;
use evertally::noise::Node;
use evertally::plan::Plan;
use std::collections::{BTreeMap, HashMap};

/// The largest increments of groups in each step.
pub(super) struct Leaders {
    most: usize,
    /// The step and the value of the last row of each group.
    last: HashMap<Vec<String>, (u64, f64)>,
    /// The time of every step, and its leaders so far.
    steps: BTreeMap<u64, (String, Vec<Leader>)>,
}

struct Leader {
    increment: f64,
    group: Vec<String>,
}

impl Leaders {
    /// Keeps at most `most` leaders per step.
    pub(super) fn new(most: usize) -> Self {
        Self { most, last: HashMap::new(), steps: BTreeMap::new() }
    }

    /// Adds a row of the table. Rows of a group come in order of steps.
    pub(super) fn row(&mut self, time: &str, group: &[&str], step: u64, value: f64) {
        let group: Vec<String> = group.iter().map(|text| (*text).to_owned()).collect();
        let before = match self.last.insert(group.clone(), (step, value)) {
            Some((last, before)) if last + 1 == step => before,
            None if step == 1 => 0.0,
            _ => return, // the previous value is not in the table
        };
        let (_, leaders) = self.steps.entry(step).or_insert_with(|| (time.to_owned(), Vec::new()));
        let increment = value - before;
        let place = leaders.partition_point(|leader| {
            leader.increment > increment || (leader.increment == increment && leader.group < group)
        });
        if place < self.most {
            leaders.insert(place, Leader { increment, group });
            leaders.truncate(self.most);
        }
    }

    /// The table as CSV; `columns` are the group columns. In the plan, rows are counted after the first `rows_before`
    /// rows of the table; `slot_of` maps such a row to a step of the plan.
    pub(super) fn csv(
        &self,
        columns: &[String],
        plan: &Plan,
        rows_before: u64,
        slot_of: &dyn Fn(u64) -> u64,
    ) -> Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let names = ["time", "step", "rank"].into_iter().chain(columns.iter().map(String::as_str));
        writer.write_record(names.chain(["increment", "std_error"]))?;
        for (step, (time, leaders)) in &self.steps {
            let error = step.checked_sub(rows_before).filter(|own| *own > 0);
            let error = error.map(|own| std_error(plan, slot_of(own), slot_of(own - 1)));
            let error = error.map_or(String::new(), |error| evertally_publish::rows::seven_digits(error).to_string());
            for (rank, leader) in (1..).zip(leaders) {
                let rank: u64 = rank;
                let (step, rank) = (step.to_string(), rank.to_string());
                let increment = rounded(leader.increment, plan).to_string();
                let texts = [time.as_str(), &step, &rank].into_iter().chain(leader.group.iter().map(String::as_str));
                writer.write_record(texts.chain([increment.as_str(), error.as_str()]))?;
            }
        }
        writer.flush()?;
        Ok(writer.into_inner().map_err(|e| e.into_error())?)
    }
}

/// The difference of two decimal numbers, without the rounding error of doubles.
fn rounded(increment: f64, plan: &Plan) -> f64 {
    let digits = if plan.fraction_bits() > 0 { 1e-4 } else { 1.0 } * plan.request().grid().to_f64(1);
    let multiple = (increment / digits).round();
    format!("{:.12e}", multiple * digits).parse().expect("a number that was just formatted")
}

/// The standard error of the difference between the releases of a step and an earlier one: `√Var(z) ‖L_t − L_s‖`.
fn std_error(plan: &Plan, step: u64, before: u64) -> f64 {
    let mut weights: HashMap<Node, f64> = HashMap::new();
    plan.mechanism().visit_row(step, &mut |node, weight| *weights.entry(node).or_default() += weight);
    if before > 0 {
        plan.mechanism().visit_row(before, &mut |node, weight| *weights.entry(node).or_default() -= weight);
    }
    let mut squares: Vec<f64> = weights.into_values().map(|weight| weight * weight).collect();
    squares.sort_by(f64::total_cmp); // the sum must not depend on the order of the hash table
    (plan.node_variance() * squares.iter().sum::<f64>()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use evertally::plan::PlanRequest;
    use evertally::privacy::{Budget, Epsilon};

    #[test]
    fn leaders_are_the_largest_of_each_step() {
        let plan = PlanRequest::count(3, Budget::Pure(Epsilon::new(1.0).unwrap()));
        let plan = plan.with_mechanism("binary".parse().unwrap()).plan().unwrap();
        let mut leaders = Leaders::new(2);
        for (group, values) in [("a", [5.0, 6.0, 20.0]), ("b", [7.0, 7.0, 7.0]), ("c", [5.0, 15.0, 16.0])] {
            (1..).zip(values).for_each(|(step, value)| leaders.row(&format!("day {step}"), &[group], step, value));
        }
        // A group that first appears after step 1 has no increment in its first row.
        leaders.row("day 3", &["d"], 3, 1000.0);
        let text = String::from_utf8(leaders.csv(&["group".into()], &plan, 0, &|row| row).unwrap()).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(rows[0], ["time", "step", "rank", "group", "increment", "std_error"]);
        let found: Vec<_> = rows[1..].iter().map(|row| row[1..5].join(" ")).collect();
        assert_eq!(found, ["1 1 b 7", "1 2 a 5", "2 1 c 10", "2 2 a 1", "3 1 a 14", "3 2 c 1"]);
        // Binary tree: step 2 replaces one node with another, step 3 adds one.
        let node = plan.node_variance().sqrt();
        let error = |row: &[&str]| row[5].parse::<f64>().unwrap();
        assert!((error(&rows[1]) - node).abs() < 1e-5 && (error(&rows[3]) - node * 2f64.sqrt()).abs() < 1e-5);
        assert!((error(&rows[5]) - node).abs() < 1e-5);
    }
}
