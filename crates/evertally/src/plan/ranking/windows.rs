//! The error of windows if they were read from running sums.

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
pub(super) fn of(request: &PlanRequest, chosen: &Candidate) -> Vec<WindowRow> {
    let (horizon, mechanism) = (request.horizon(), &*chosen.mechanism);
    if !request.workload().is_sum() || (mechanism.name().is_heavy() && horizon > MAX_STEPS_FOR_ALL_ROWS) {
        return Vec::new();
    }
    let node = chosen.node_variance(request);
    let of_width = |width: u64| {
        let max_std = own(request, width)?;
        Some(WindowRow { width, std_from_sums: (node * from_sums(mechanism, width)).sqrt(), max_std })
    };
    WIDTHS.into_iter().filter(|width| 2 * width <= horizon).filter_map(of_width).collect()
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

/// The smallest error of mechanisms made for windows, with those parameters open that depend on the unit.
fn own(request: &PlanRequest, width: u64) -> Option<f64> {
    let workload = Workload::Window(width);
    let search = request.search().clone().with_observer(request.search().observer().after_search());
    let request = request.clone().with_workload(workload).with_search(search);
    let errors = [NoiseKind::Gaussian, NoiseKind::Laplace].into_iter().flat_map(|law| {
        let names = MechanismName::readings(&Criterion::new(law, request.objective()).with_workload(workload));
        let request = request.clone().with_noise(law);
        names.filter_map(move |name| {
            let found = request.clone().with_mechanism(name).candidates().ok()?;
            Some(found.first()?.max_std_error)
        })
    });
    errors.min_by(f64::total_cmp)
}
