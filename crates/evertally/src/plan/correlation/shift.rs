//! How far one unit's change moves all groups together, in the norm of correlated noise.
//!
//! Let `u_g ≥ 0` be the unit's changes in group `g` by step, `U = Σ_g u_g` and `G = RᵀR`, `q(u) = uᵀ G u`. The figure
//! is the largest `F = Σ_g q(u_g) - γ q(U)`, `0 < γ < 1/d`: a positive semidefinite form.
//!
//! **One step.** If all events of a unit lie in one step, as if the unit is a person in one step, then `u_g = n_g e_t`
//! and `F = (Σ n_g² - γ (Σ n_g)²) G_tt`. The bracket is convex in `n`, so it is largest in a corner of the set of all
//! `n_g ≤ m`, `Σ n_g ≤ M`, at most `k` of them not 0: there `j` groups are full and all others empty, or they are empty
//! but for one, and `Σ n_g = M`.
//!
//! **Several steps.** For any `y`, `q(U - y) ≥ 0` gives `-q(U) ≤ q(y) - 2 Uᵀ G y`. The `M_g ≤ m` events of group `g`
//! have `q(u_g) ≤ m Σ_t u_gt G_tt`, by Cauchy and Schwarz. Hence
//!
//! ```text
//! F ≤ γ q(y) + Σ_t U_t w_t,    w_t = m G_tt - 2γ (G y)_t,
//! ```
//!
//! and the sum is at most that of the largest weights, `U_t ≤ c` and `Σ U_t ≤ M`. Every `y` proves a bound; good ones
//! are found by the method of Frank and Wolfe, whose gap this is. Exact for one event a group, up to the relaxation of
//! `U` to real numbers. `G` is that of the dense twin, so the horizon is short. If the unit is a person's activity in a
//! period, all of it lies in one window of consecutive steps, and the largest bound of all windows holds. Only for 0/1
//! matrices and others of whole numbers: the twin of others is not the rounded matrix that is protected.
//!
//! **Rounded sums.** A mechanism that rounds the sums it protects adds an error `e_g` to the shift of each of the
//! unit's `k` groups. The root of a semidefinite form is a seminorm, so that `√F` grows by at most `√(Σ ‖e_g‖²) ≤ √k
//! ‖e‖`.
//!
//! Changes of both signs may cancel in `U`, and then correlated noise reveals as much as its own part alone: nothing is
//! gained, and [`Shift::new`] returns `None`.

use super::Correlation;
use crate::mechanism::{Matrix, Mechanism, units};
use crate::privacy::{Sensitivity, Signs, Spread, Unit};

/// Largest product of steps, steps of a window and nodes for which inner products of columns are computed.
const MAX_WORK: u64 = 1 << 24;
/// Head room for roundings in floating point: sums of fewer than 2^24 terms.
const ROUNDING: f64 = 1e-8;
/// The rounding of protected sums moves one group by at most this part of the largest column: see
/// `mechanism/accounting/truncation.rs`, with a margin of two.
const ROUNDED_SUMS: f64 = 1.0 / 16384.0;
/// Steps of the search for `y`.
const ITERATIONS: u32 = 150;

/// The changes of a unit under a mechanism.
pub(in crate::plan) struct Shift {
    spread: Spread,
    /// Most groups of a unit.
    groups: u64,
    /// `√event_squared`.
    event: f64,
    /// Whether protected sums are rounded.
    rounded: bool,
    /// The largest squared column norm, in squared units of `2^-noise_bits`.
    column: f64,
    /// A bound of `Σ_g q(u_g)` for events of size 1, likewise.
    independent: f64,
    /// `G` by windows, likewise, if a unit has events in several steps.
    windows: Option<Vec<StepWindow>>,
}

/// Inner products of the columns of consecutive steps.
struct StepWindow {
    width: usize,
    products: Vec<f64>,
}

/// Whether all events of a unit are in one step.
fn is_one_step(unit: Unit, horizon: u64) -> bool {
    let Some(bounds) = unit.bounds() else { return true };
    let window = bounds.period.unwrap_or(u64::MAX).min(horizon);
    window <= bounds.min_gap.unwrap_or(1) || bounds.max_events == 1
}

impl Shift {
    /// `None` if nothing can be gained, or nothing is proven.
    pub(in crate::plan) fn new(
        unit: Unit,
        sensitivity: Sensitivity,
        mechanism: &dyn Mechanism,
        groups: u64,
    ) -> Option<Self> {
        let spread = sensitivity.spread;
        // Any window of steps touches several periods, and nothing is proven here for the events that are kept instead.
        let has_window = unit.bounds().is_some_and(|bounds| bounds.window.is_some());
        if spread.signs != Signs::One || sensitivity.sums != 1 || has_window {
            return None;
        }
        let of_unit = unit.bounds().and_then(|bounds| bounds.max_groups);
        let grid = libm::exp2(f64::from(mechanism.noise_bits()));
        let windows = match is_one_step(unit, mechanism.horizon()) {
            true => None,
            false => Some(windows(unit, mechanism, grid * grid)?),
        };
        let groups = of_unit.unwrap_or(groups).min(groups);
        let column = mechanism.spread_squared(Spread::ONE);
        let column = if column == u128::MAX { f64::INFINITY } else { column as f64 };
        let independent = match &windows {
            None => in_one_step(spread, groups, 0.0) * column,
            Some(_) => match units::squared(mechanism, spread) {
                u128::MAX => f64::INFINITY,
                squared => squared as f64,
            },
        };
        Some(Self {
            spread,
            groups,
            event: (sensitivity.event_squared as f64).sqrt(),
            rounded: mechanism.noise_bits() > 0 || mechanism.fraction_bits() > 0,
            column,
            independent,
            windows,
        })
    }

    /// Whether all events of a unit are in one step.
    pub(in crate::plan) fn is_one_step(&self) -> bool {
        self.windows.is_none()
    }

    /// A bound of `Σ_g ‖R u_g‖²`, in squared units of `2^-noise_bits`.
    pub(in crate::plan) fn independent(&self) -> f64 {
        self.event * self.event * self.independent
    }

    /// `F` over its bound under independent noise.
    pub(in crate::plan) fn relative(&self, correlation: Correlation) -> f64 {
        match self.is_one_step() {
            true => self.form(correlation.gamma()) / self.form(0.0),
            false => self.squared(correlation) / self.independent(),
        }
    }

    /// A bound of `F`, in squared units of `2^-noise_bits`.
    pub(in crate::plan) fn squared(&self, correlation: Correlation) -> f64 {
        let squared = match &self.windows {
            None => self.form(correlation.gamma()) * self.column,
            Some(windows) => {
                let of = |window: &StepWindow| window.bound(self.spread, correlation.gamma());
                windows.iter().map(of).fold(0.0, f64::max)
            }
        };
        let slack = if self.rounded { (self.groups as f64 * self.column).sqrt() * ROUNDED_SUMS } else { 0.0 };
        let root = self.event * (squared.sqrt() + slack);
        (root * root).min(self.independent()) * (1.0 + ROUNDING)
    }

    /// The same as [`form`](Self::form) for the `γ` of correlated noise.
    pub(in crate::plan) fn form_of(&self, correlation: Correlation) -> f64 {
        self.form(correlation.gamma())
    }

    /// The largest `Σ n_g² - γ (Σ n_g)²` of a unit whose events are in one step.
    pub(in crate::plan) fn form(&self, gamma: f64) -> f64 {
        in_one_step(self.spread, self.groups, gamma)
    }
}

/// The largest `Σ n_g² - γ (Σ n_g)²` over `n_g ≤ per_group`, `Σ n_g ≤ total`, at most `groups` of them not 0.
pub(super) fn in_one_step(spread: Spread, groups: u64, gamma: f64) -> f64 {
    let (total, full) = (spread.total, spread.per_group.min(spread.total));
    let most = (total / full).min(groups);
    let square = full as f64 * full as f64;
    let of_full = |count: u64| count as f64 * (1.0 - gamma * count as f64) * square;
    // A parabola in the number of full groups.
    let top = (0.5 / gamma).min(most as f64) as u64;
    let with_rest = if most < groups {
        let rest = (total - most * full) as f64;
        most as f64 * square + rest * rest - gamma * (total as f64) * (total as f64)
    } else {
        0.0
    };
    [top, (top + 1).min(most)].map(of_full).into_iter().fold(with_rest, f64::max) * (1.0 + ROUNDING)
}

/// The windows in which a unit's events can lie, with products times `scale`.
fn windows(unit: Unit, mechanism: &dyn Mechanism, scale: f64) -> Option<Vec<StepWindow>> {
    let horizon = mechanism.horizon();
    let width = unit.bounds()?.period.unwrap_or(horizon).min(horizon);
    let whole = mechanism.noise_bits() == 0 && mechanism.fraction_bits() == 0;
    // The nodes are at least as many as steps; trees have twice as many.
    if !whole || horizon > 512 || horizon * horizon * width > MAX_WORK {
        return None;
    }
    let columns = mechanism.dense().r.transpose();
    let of = |first: u64| StepWindow::new(&columns, first as usize, width as usize, scale);
    Some((0..=horizon - width).map(of).collect())
}

impl StepWindow {
    fn new(columns: &Matrix, first: usize, width: usize, scale: f64) -> Self {
        let product = |s: usize, t: usize| {
            let (s, t) = (columns.row(first + s), columns.row(first + t));
            s.iter().zip(t).map(|(s, t)| s * t).sum::<f64>() * scale
        };
        let mut products = vec![0.0; width * width];
        for s in 0..width {
            for t in 0..=s {
                let of_pair = product(s, t);
                (products[s * width + t], products[t * width + s]) = (of_pair, of_pair);
            }
        }
        Self { width, products }
    }

    fn column(&self, t: usize) -> &[f64] {
        &self.products[t * self.width..(t + 1) * self.width]
    }

    /// The bound of `F` for events of size 1.
    fn bound(&self, spread: Spread, gamma: f64) -> f64 {
        let per_group = spread.per_group.min(spread.total) as f64;
        let mut y = vec![0.0; self.width];
        // G y, and yᵀ G y.
        let (mut image, mut square) = (vec![0.0; self.width], 0.0);
        let mut least = f64::INFINITY;
        for _ in 0..ITERATIONS {
            let weight = |t: usize| per_group * self.column(t)[t] - 2.0 * gamma * image[t];
            let weights: Vec<f64> = (0..self.width).map(weight).collect();
            let corner = largest(&weights, spread);
            let value: f64 = corner.iter().map(|(t, events)| weights[*t] * events).sum();
            least = least.min(gamma * square + value);
            // Φ(U) = Σ U_t m G_tt - γ q(U) along the way to the corner: a parabola.
            let mut of_corner = vec![0.0; self.width];
            for (t, events) in &corner {
                of_corner.iter_mut().zip(self.column(*t)).for_each(|(sum, product)| *sum += events * product);
            }
            let corner_square: f64 = corner.iter().map(|(t, events)| of_corner[*t] * events).sum();
            let mixed: f64 = corner.iter().map(|(t, events)| image[*t] * events).sum();
            let gain = value - weights.iter().zip(&y).map(|(w, y)| w * y).sum::<f64>();
            let curvature = 2.0 * gamma * (corner_square - 2.0 * mixed + square);
            let part = if curvature > 0.0 { (gain / curvature).clamp(0.0, 1.0) } else { 1.0 };
            if gain <= 1e-9 * value || part == 0.0 {
                break;
            }
            y.iter_mut().for_each(|y| *y *= 1.0 - part);
            corner.iter().for_each(|(t, events)| y[*t] += part * events);
            image.iter_mut().zip(&of_corner).for_each(|(sum, corner)| *sum += part * (corner - *sum));
            square = image.iter().zip(&y).map(|(image, y)| image * y).sum();
        }
        least
    }
}

/// The events of a unit in the steps of the largest positive weights.
fn largest(weights: &[f64], spread: Spread) -> Vec<(usize, f64)> {
    let mut order: Vec<usize> = (0..weights.len()).filter(|t| weights[*t] > 0.0).collect();
    order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
    let mut left = spread.total;
    let mut take = |t: usize| {
        let events = left.min(spread.per_step);
        left -= events;
        (events > 0).then_some((t, events as f64))
    };
    order.into_iter().map_while(&mut take).collect()
}
