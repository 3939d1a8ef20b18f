//! Noise on every input.

use crate::Result;
use crate::mechanism::{
    Banded, Bands, ColumnNorms, Cost, Criterion, Cursor, LaplaceShift, MAX_HORIZON, Mechanism, MechanismName,
    Participation, Streaming, Workload, check_horizon, replay,
};
use crate::noise::Node;
use crate::privacy::Spread;
use std::sync::Arc;

/// Columns are listed up to this horizon.
const MAX_LISTED_HORIZON: u64 = 1 << 20;

/// `R = I`, `L = A`: every step total gets its own noise, the release sums them all. Best for the shortest horizons.
#[doc(alias = "local noise")]
#[doc(alias = "independent noise")]
#[derive(Clone, Debug)]
pub struct Input {
    horizon: u64,
}

impl Input {
    /// Input noise over `horizon` steps, 1 ..= 2^62.
    pub fn new(horizon: u64) -> Result<Self> {
        Ok(Self { horizon: check_horizon(horizon, MAX_HORIZON, "input")? })
    }
}

impl Mechanism for Input {
    fn name(&self) -> MechanismName {
        MechanismName::Input
    }
    fn horizon(&self) -> u64 {
        self.horizon
    }
    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        Some(Arc::new(Self { horizon: steps }))
    }

    fn column_norms(&self) -> ColumnNorms {
        ColumnNorms { l1: 1.0, l2_squared: 1.0 }
    }
    fn is_causal(&self) -> bool {
        true
    }

    /// Exact.
    fn spread_squared(&self, spread: Spread) -> u128 {
        spread.squares(1, self.horizon)
    }
    fn exact_l2_squared(&self) -> Option<f64> {
        Some(self.column_norms().l2_squared)
    }
    /// Exact.
    fn participation_squared(&self, participation: Participation) -> f64 {
        participation.of_levels(self.horizon, std::iter::once((1, self.horizon)))
    }
    fn bands(&self) -> Option<Bands> {
        (self.horizon <= MAX_LISTED_HORIZON).then(|| Bands { count: 1, squares: vec![1.0; self.horizon as usize] })
    }
    fn row_norm_squared(&self, step: u64) -> f64 {
        step as f64
    }
    fn max_row_norm_squared(&self) -> f64 {
        self.horizon as f64
    }
    fn mean_row_norm_squared(&self) -> f64 {
        (self.horizon as f64 + 1.0) / 2.0
    }
    fn row_product(&self, earlier: u64, _later: u64) -> f64 {
        earlier as f64
    }
    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        (0..step).for_each(|index| visit(Node { level: 0, index }, 1.0));
    }
    fn node_span(&self, node: Node) -> (u64, u64) {
        (node.index + 1, node.index + 1)
    }
    fn streaming(&self) -> Option<Streaming> {
        Some(Streaming::Inputs)
    }
    fn cost(&self) -> Cost {
        Cost::from_draws(1.0, 2)
    }

    /// Every node is a separate class.
    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        Ok(LaplaceShift::from_single_nodes(1))
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        Box::new(InputCursor { step: 0, sum: 0 })
    }
}

struct InputCursor {
    step: u64,
    sum: i128,
}

impl Cursor for InputCursor {
    fn step(&self) -> u64 {
        self.step
    }
    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.sum += draw(Node { level: 0, index: self.step });
        self.step += 1;
        self.sum
    }
    /// `O(step)` draws: input noise has no shorter description of a prefix.
    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        replay(self, step, |_| Self { step: 0, sum: 0 }, draw);
        self.sum
    }
}

/// Noise on each step, for every workload.
pub(in crate::mechanism) fn readings(_: &Criterion) -> Vec<MechanismName> {
    vec![MechanismName::Input]
}

pub(in crate::mechanism) fn build(horizon: u64, criterion: &Criterion) -> Result<Arc<dyn Mechanism>> {
    match criterion.workload() {
        Workload::Sum => Ok(Arc::new(Input::new(horizon)?)),
        workload => Ok(Arc::new(Banded::for_steps(horizon, workload)?)),
    }
}
