//! The error of windows if they were read from running sums.

use crate::Result;
use crate::mechanism::{Criterion, Mechanism, MechanismName, NoiseKind, Workload};
use crate::plan::{Candidate, PlanRequest};
use serde::Serialize;

/// Common widths, in steps.
const WIDTHS: [u64; 2] = [7, 28];
/// Number of steps that are averaged.
const STEPS: u64 = 64;
/// The same if rows are long, because reading them takes time.
const MAX_STEPS_FOR_ALL_ROWS: u64 = 1 << 12;

/// A window over the last steps, computed in two ways.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WindowRow {
    /// Number of steps.
    pub width: u64,
    /// Standard error of the difference of two running sums of the chosen mechanism: the root mean square over steps.
    pub std_from_sums: f64,
    /// Largest standard error of a plan for this window, with the same budget.
    pub max_std: f64,
}

/// Rows for windows of at most half the horizon, if running sums are requested.
///
/// # Errors
/// If the search for one of them is cancelled.
pub(super) fn of(request: &PlanRequest, chosen: &Candidate) -> Result<Vec<WindowRow>> {
    let (horizon, mechanism) = (request.horizon(), &*chosen.mechanism);
    if !request.workload().is_sum() || (mechanism.name().is_heavy() && horizon > MAX_STEPS_FOR_ALL_ROWS) {
        return Ok(Vec::new());
    }
    let node = chosen.node_variance(request);
    let mut rows = Vec::new();
    for width in WIDTHS.into_iter().filter(|width| 2 * width <= horizon) {
        let std_from_sums = (node * from_sums(mechanism, width)).sqrt();
        rows.extend(own(request, width)?.map(|max_std| WindowRow { width, std_from_sums, max_std }));
    }
    Ok(rows)
}

/// The mean of `‖L_t - L_(t-w)‖²` over some steps.
fn from_sums(mechanism: &dyn Mechanism, width: u64) -> f64 {
    let horizon = mechanism.horizon();
    let count = STEPS.min(horizon - width);
    let of_step = |number: u64| {
        // Spread evenly; fits: below the horizon
        let step = width + 1 + (u128::from(horizon - width - 1) * u128::from(number) / u128::from(count.max(1))) as u64;
        let before = step - width;
        mechanism.row_norm_squared(step) + mechanism.row_norm_squared(before)
            - 2.0 * mechanism.row_product(before, step)
    };
    (0..count).map(of_step).sum::<f64>().max(0.0) / count as f64
}

/// The smallest error of mechanisms made for windows, with those parameters open that depend on the unit; `None` if
/// none fits the request.
///
/// # Errors
/// If the search is cancelled.
fn own(request: &PlanRequest, width: u64) -> Result<Option<f64>> {
    let workload = Workload::Window(width);
    let search = request.search().clone().with_observer(request.search().observer().after_search());
    let request = request.clone().with_workload(workload).with_search(search);
    let mut least: Option<f64> = None;
    for law in [NoiseKind::Gaussian, NoiseKind::Laplace] {
        for name in MechanismName::readings(&Criterion::new(law, request.objective()).with_workload(workload)) {
            let found = match request.clone().with_noise(law).with_mechanism(name).candidates() {
                Err(error) if error.is_cancelled() => return Err(error),
                found => found.ok().and_then(|found| Some(found.first()?.max_std_error)),
            };
            least = [least, found].into_iter().flatten().min_by(f64::total_cmp);
        }
    }
    Ok(least)
}
