//! `evertally plan` of several workloads: read from one release, or with the budget divided.

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use evertally::mechanism::{MechanismName, Workload};
use evertally::plan::{Plan, PlanRequest, Readings};
use serde::Serialize;
use std::io::Write;

/// What several workloads would be like.
#[derive(Serialize)]
pub(super) struct Together {
    /// Number of steps; null without an end.
    horizon: Option<u64>,
    /// Whether all are read from one release.
    one_release: bool,
    workloads: Vec<Row>,
    /// The mean by weight of variances, each over that of the whole budget.
    variance_over_alone: Option<f64>,
    /// The same with the budget divided.
    variance_over_alone_divided: Option<f64>,
}

/// One workload.
#[derive(Serialize)]
struct Row {
    workload: Workload,
    weight: f64,
    mechanism: MechanismName,
    /// Its share of the budget; null where all have the whole of it together.
    share: Option<f64>,
    /// Largest standard error of a step, or the root of the mean variance; without an end, of running sums at step 2^20.
    std_error: f64,
    /// The same if it had the whole budget for itself.
    std_error_alone: Option<f64>,
}

impl Together {
    /// The better way for a request.
    pub(super) fn of(request: PlanRequest) -> Result<Self> {
        let weights: Vec<f64> =
            request.mix().iter().flat_map(|mix| mix.readings().to_vec()).map(|(_, weight)| weight).collect();
        let (is_unbounded, horizon) = (request.is_unbounded(), request.horizon());
        let readings = Readings::plan(request)?;
        let all: f64 = weights.iter().sum();
        let row = |(place, plan): (usize, &Plan)| Row {
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

    /// For people.
    pub(super) fn print(&self, out: &mut impl Write) -> Result<()> {
        let mut table = Table::new();
        table.load_style(presets::UTF8_HORIZONTAL_ONLY);
        table.set_header(["workload", "mechanism", "standard error", "alone", "× variance", "share"]);
        for row in &self.workloads {
            let times = row.std_error_alone.map(|alone| (row.std_error / alone).powi(2));
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
            "all are read from one release, which has the whole budget"
        } else {
            "each has a release of its own, and its share of the budget"
        };
        writeln!(out, "{horizon}: {way}")?;
        if let (Some(own), Some(divided)) = (self.variance_over_alone, self.variance_over_alone_divided) {
            let other = if self.one_release {
                format!("; with the budget divided it would be {divided:.2} times")
            } else {
                "; no release serves all of them better".into()
            };
            writeln!(
                out,
                "on average by weight the variance is {own:.2} times what each would have with the whole budget alone{other}"
            )?;
        }
        if self.horizon.is_none() && self.workloads.iter().any(|row| row.workload.is_sum()) {
            writeln!(out, "the error of the running sum, which grows without end, is that at step 2^20")?;
        }
        Ok(())
    }
}
