//! `evertally plan` for several workloads: all read from one release, or with a divided budget.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use evertally::mechanism::{MechanismName, Workload};
use evertally::number::power;
use evertally::plan::{Plan, PlanRequest, Readings};
use serde::Serialize;
use std::io::Write;

/// The plan for several workloads.
#[derive(Serialize)]
pub(super) struct SeveralWorkloads {
    /// Number of steps; null if unbounded.
    horizon: Option<u64>,
    /// Whether all are read from one release.
    one_release: bool,
    workloads: Vec<WorkloadRow>,
    /// The weighted mean of variances, each relative to a separate release with the full budget.
    variance_over_alone: Option<f64>,
    /// The same with a divided budget.
    variance_over_alone_divided: Option<f64>,
}

/// One workload.
#[derive(Serialize)]
struct WorkloadRow {
    workload: Workload,
    weight: f64,
    mechanism: MechanismName,
    /// Its share of the budget; null if all share one release with the full budget.
    share: Option<f64>,
    /// Largest standard error of a step, or the root of the mean variance; for unbounded running sums, at step 2^20.
    std_error: f64,
    /// The same for a separate release with the full budget.
    std_error_alone: Option<f64>,
}

impl SeveralWorkloads {
    /// The better of both plans for a request.
    pub(super) fn new(request: PlanRequest) -> Result<Self> {
        let weights: Vec<f64> =
            request.mix().iter().flat_map(|mix| mix.readings().to_vec()).map(|(_, weight)| weight).collect();
        let (is_unbounded, horizon) = (request.is_unbounded(), request.horizon());
        let readings = Readings::plan(request)?;
        let all: f64 = weights.iter().sum();
        let row = |(place, plan): (usize, &Plan)| WorkloadRow {
            workload: plan.request().workload(),
            weight: weights[place],
            mechanism: plan.mechanism().name(),
            share: readings.shares().map(|shares| shares[place]),
            std_error: readings.std_error(place),
            std_error_alone: readings.alone().map(|alone| alone[place]),
        };
        Ok(Self {
            horizon: (!is_unbounded).then_some(horizon),
            one_release: readings.is_one_release(),
            workloads: readings.plans().iter().enumerate().map(row).collect(),
            variance_over_alone: readings.divided().map(|_| readings.figure() / all),
            variance_over_alone_divided: readings.divided().map(|divided| divided / all),
        })
    }

    /// Prints the plan as a table.
    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.set_header(["workload", "mechanism", "standard error", "alone", "× variance", "share"]);
        for row in &self.workloads {
            let times = row.std_error_alone.map(|alone| power(row.std_error / alone, 2));
            table.add_row([
                row.workload.to_string(),
                row.mechanism.brief().to_string(),
                format!("{:.4}", row.std_error),
                row.std_error_alone.map_or(String::new(), |alone| format!("{alone:.4}")),
                times.map_or(String::new(), |times| format!("{times:.2}")),
                row.share.map_or("all".into(), |share| format!("{:.0} %", 100.0 * share)),
            ]);
        }
        table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        writeln!(out, "{table}")?;
        let horizon = self.horizon.map_or("no end".into(), |horizon| format!("T = {horizon}"));
        let way = if self.one_release {
            "all are read from one release with the full budget"
        } else {
            "each has a separate release with its share of the budget"
        };
        writeln!(out, "{horizon}: {way}")?;
        if let (Some(own), Some(divided)) = (self.variance_over_alone, self.variance_over_alone_divided) {
            let other = if self.one_release {
                format!("; with a divided budget it would be {divided:.2} ×")
            } else {
                "; no single release is better for all of them".into()
            };
            writeln!(out, "weighted mean variance: {own:.2} × that of a separate release with the full budget{other}")?;
        }
        if self.horizon.is_none() && self.workloads.iter().any(|row| row.workload.is_sum()) {
            writeln!(out, "the error of the running sum grows without limit; it is given at step 2^20")?;
        }
        Ok(())
    }
}
