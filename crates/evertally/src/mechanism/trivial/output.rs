//! Noise on every output.

use crate::Result;
use crate::mechanism::{
    ColumnNorms, Cost, Criterion, Cursor, LaplaceShift, Lazy, MAX_HORIZON, Mechanism, MechanismName, Participation,
    Walk, check_horizon,
};
use crate::noise::Node;
use crate::privacy::Spread;
use std::sync::Arc;

/// `L = I`, `R = A`: fresh noise on every release, calibrated to a change that shifts all `T` of them.
#[doc(alias = "output perturbation")]
#[derive(Clone, Debug)]
pub struct Output {
    horizon: u64,
}

impl Output {
    /// Output noise over `horizon` steps, 1 ..= 2^62.
    pub fn new(horizon: u64) -> Result<Self> {
        Ok(Self { horizon: check_horizon(horizon, MAX_HORIZON, "output")? })
    }
}

/// The paths of output noise: one node per step.
#[derive(Debug)]
struct OwnNode;

impl Walk for OwnNode {
    fn visit(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        visit(Node { level: 0, index: step - 1 }, 1.0);
    }

    fn depth(&self, _step: u64) -> u32 {
        1
    }

    fn shared(&self, _earlier: u64, _later: u64) -> u32 {
        0
    }
}

impl Mechanism for Output {
    fn name(&self) -> MechanismName {
        MechanismName::Output
    }
    fn horizon(&self) -> u64 {
        self.horizon
    }

    fn has_random_access(&self) -> bool {
        true
    }
    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        Some(Arc::new(Self { horizon: steps }))
    }

    fn column_norms(&self) -> ColumnNorms {
        // Above 2^53 a double, and the decimal number it is read as, may each be half a unit below the horizon.
        let rounded = self.horizon as f64;
        let l1 = if self.horizon > 1 << 53 { rounded.next_up() } else { rounded };
        ColumnNorms { l1, l2_squared: l1 }
    }
    fn is_causal(&self) -> bool {
        true
    }

    /// Exact: all coefficients are 1, so events come as early as possible, and the node of step `t` counts
    /// `min(total, per_step · ⌈t/separation⌉)` of them.
    fn spread_squared(&self, spread: Spread) -> u128 {
        let [steps, total, per_step, separation] =
            [self.horizon, spread.total, spread.per_step, spread.separation].map(u128::from);
        // Whole stretches of `separation` steps, in each of which the count grows by `per_step`, then one stretch that
        // the horizon cuts, or that counts all events.
        let growing = (total / per_step).min(steps / separation);
        let squares = growing * (growing + 1) * (2 * growing + 1) / 6; // fits: growing < 2^42, or refused below
        let rest = steps - growing * separation;
        let last = total.min(per_step * (growing + 1));
        let sum = |per_step: u128, last: u128| {
            let grown = per_step.checked_pow(2)?.checked_mul(squares)?.checked_mul(separation)?;
            grown.checked_add(last.checked_pow(2)?.checked_mul(rest)?)
        };
        if growing > 1 << 40 { u128::MAX } else { sum(per_step, last).unwrap_or(u128::MAX) }
    }
    fn exact_l2_squared(&self) -> Option<f64> {
        Some(self.column_norms().l2_squared)
    }
    /// Exact: all coefficients are 1.
    fn participation_squared(&self, participation: Participation) -> f64 {
        participation.of_running_sums(self.horizon)
    }
    fn row_norm_squared(&self, _step: u64) -> f64 {
        1.0
    }
    fn max_row_norm_squared(&self) -> f64 {
        1.0
    }
    fn mean_row_norm_squared(&self) -> f64 {
        1.0
    }
    fn row_product(&self, earlier: u64, later: u64) -> f64 {
        f64::from(u8::from(earlier == later))
    }
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        visit(Node { level: 0, index: step - 1 }, 1.0);
    }
    fn node_span(&self, node: Node) -> (u64, u64) {
        (1, node.index + 1)
    }
    fn lazy(&self) -> Option<Lazy> {
        Some(Lazy::Paths(Box::new(OwnNode)))
    }

    fn cost(&self) -> Cost {
        Cost::from_draws(1.0, 1)
    }

    /// Every node is a separate class.
    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        Ok(LaplaceShift::from_single_nodes(self.column_norms().l1 as u64))
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(OutputCursor { step: 0 })
    }
}

struct OutputCursor {
    step: u64,
}

impl Cursor for OutputCursor {
    fn step(&self) -> u64 {
        self.step
    }
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.step += 1;
        draw(Node { level: 0, index: self.step - 1 })
    }
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.step = step;
        if step == 0 { 0 } else { draw(Node { level: 0, index: step - 1 }) }
    }
}

pub(in crate::mechanism) fn build(horizon: u64, _: &Criterion) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(Output::new(horizon)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms_cursor_and_bounds_agree() {
        crate::mechanism::tests::check(|horizon| Ok(Arc::new(Output::new(horizon)?)));
    }
}
