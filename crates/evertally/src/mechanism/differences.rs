//! Windows read from running sums: the release of a step minus that of one window width before.
//!
//! With `A = L R` and `w` steps, row `t` of the release is `L_t - L_(t-w)`: a post-processing of the running sums, with
//! the same guarantee. (Not publishing the running sums gains nothing: the windows reveal them, one after the other.)
//! Its variance follows from [`row_product`](Mechanism::row_product).

use super::accounting::row_norms::{RowNorms, row_norms_of_table};
use super::{
    ColumnNorms, Cost, Cursor, DensePair, GaussianShift, LaplaceShift, Mechanism, MechanismName, RowLaw, SearchWatch,
    Workload,
};
use crate::noise::Node;
use crate::privacy::Spread;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest horizon: the variance of every step is computed.
const MAX_HORIZON: u64 = 1 << 16;

/// A mechanism for running sums, read at two steps.
#[derive(Debug)]
pub(super) struct Differences {
    sums: Arc<dyn Mechanism>,
    workload: Workload,
    width: u64,
    row_norms: RowNorms,
}

impl Differences {
    /// # Errors
    /// If the workload is not a window, the horizon is too long, or the noise of the sums depends on the data.
    pub(super) fn new(sums: Arc<dyn Mechanism>, workload: Workload) -> Result<Self> {
        let refuse = |why: &str| {
            let (name, known) = (sums.name().brief(), "use `input` or `banded`");
            Err(Error::invalid(format!("`{name}` cannot publish `{workload}`: {why}; {known}")))
        };
        let width = match workload {
            Workload::Window(width) => width,
            Workload::Increments => 1,
            Workload::Decay(_) | Workload::Sum => {
                return refuse("the workload is not a difference of two running sums");
            }
        };
        if sums.horizon() > MAX_HORIZON {
            return refuse(&format!("differences of running sums support at most {MAX_HORIZON} steps"));
        }
        if sums.cursor().memory().is_some() {
            return refuse("it rounds its running sums together with the data");
        }
        let squared = |step: u64| {
            let own = sums.row_norm_squared(step);
            if step <= width {
                return own;
            }
            let before = step - width;
            // Not below 0, except for rounding.
            (own + sums.row_norm_squared(before) - 2.0 * sums.row_product(before, step)).max(0.0)
        };
        let row_norms = RowNorms::new((1..=sums.horizon()).map(squared).collect());
        Ok(Self { sums, workload, width, row_norms })
    }

    /// The entries of a row.
    fn row(&self, step: u64) -> BTreeMap<Node, f64> {
        let mut row = BTreeMap::new();
        self.sums.visit_row(step, &mut |node, weight| *row.entry(node).or_default() += weight);
        if step > self.width {
            self.sums.visit_row(step - self.width, &mut |node, weight| *row.entry(node).or_default() -= weight);
        }
        row.retain(|_, weight| *weight != 0.0);
        row
    }
}

impl Mechanism for Differences {
    fn name(&self) -> MechanismName {
        self.sums.name()
    }

    fn horizon(&self) -> u64 {
        self.sums.horizon()
    }

    fn has_random_access(&self) -> bool {
        self.sums.has_random_access()
    }

    fn workload(&self) -> Workload {
        self.workload
    }

    fn through(&self, steps: u64) -> Option<Arc<dyn Mechanism>> {
        let (sums, row_norms) = (self.sums.through(steps)?, self.row_norms.through(steps));
        Some(Arc::new(Self { sums, row_norms, ..*self }))
    }

    fn column_norms(&self) -> ColumnNorms {
        self.sums.column_norms()
    }

    fn noise_bits(&self) -> u32 {
        self.sums.noise_bits()
    }

    fn has_negative_entries(&self) -> bool {
        self.sums.has_negative_entries()
    }

    fn spread_squared(&self, spread: Spread) -> u128 {
        self.sums.spread_squared(spread)
    }

    fn spreads_squared_watched(&self, spread: Spread, events: &[u64], watch: SearchWatch<'_>) -> Result<Vec<u128>> {
        self.sums.spreads_squared_watched(spread, events, watch)
    }

    fn least_shift(&self, differences: &[f64]) -> Option<f64> {
        self.sums.least_shift(differences)
    }

    /// Windows from the first step on reveal all running sums.
    fn exact_l2_squared(&self) -> Option<f64> {
        self.sums.exact_l2_squared()
    }

    fn is_causal(&self) -> bool {
        self.sums.is_causal()
    }

    row_norms_of_table!();

    fn visit_row(&self, step: u64, visit: &mut dyn FnMut(Node, f64)) {
        self.row(step).into_iter().for_each(|(node, weight)| visit(node, weight));
    }

    fn node_span(&self, node: Node) -> (u64, u64) {
        self.sums.node_span(node)
    }

    fn node_weight(&self, node: Node) -> f64 {
        self.sums.node_weight(node)
    }

    fn fraction_bits(&self) -> u32 {
        self.sums.fraction_bits()
    }

    /// If there are few different weights, these; otherwise tails as heavy as those of equal terms with no smaller a
    /// fourth moment.
    fn row_law(&self, step: u64) -> RowLaw {
        if self.fraction_bits() > 0 {
            return RowLaw::Like { norm_squared: self.row_norm_squared(step), terms: 1 };
        }
        let row = self.row(step);
        let mut counted: BTreeMap<u64, u64> = BTreeMap::new();
        row.values().for_each(|weight| *counted.entry(weight.abs().to_bits()).or_default() += 1);
        if counted.len() <= 4 {
            return RowLaw::Sum(counted.into_iter().map(|(bits, count)| (f64::from_bits(bits), count)).collect());
        }
        let (squares, fourth) = row.values().fold((0.0, 0.0), |(squares, fourth), weight| {
            let square = weight * weight;
            (squares + square, fourth + square * square)
        });
        RowLaw::Like { norm_squared: squares, terms: (squares * squares / fourth).max(1.0) as u64 }
    }

    fn cursor(&self) -> Box<dyn Cursor> {
        let (now, before) = (self.sums.cursor(), self.sums.cursor());
        Box::new(TwoSteps { now, before, width: self.width, last: 0 })
    }

    fn cost(&self) -> Cost {
        let of_sums = self.sums.cost();
        Cost {
            draws_per_step: 2.0 * of_sums.draws_per_step,
            work_per_step: 2.0 * of_sums.work_per_step,
            memory_words: 2 * of_sums.memory_words + self.width,
        }
    }

    fn laplace(&self) -> std::result::Result<LaplaceShift, &'static str> {
        self.sums.laplace()
    }

    fn gaussian_shift(&self) -> Option<GaussianShift> {
        self.sums.gaussian_shift()
    }

    fn dense(&self) -> DensePair {
        let mut pair = self.sums.dense();
        let steps = self.horizon() as usize;
        for step in (self.width as usize..steps).rev() {
            let before = pair.l.row(step - self.width as usize).to_vec();
            for (column, entry) in before.into_iter().enumerate() {
                let now = pair.l.row(step)[column];
                pair.l.set(step, column, now - entry);
            }
        }
        pair
    }
}

/// The noise of running sums now, minus that of one window width before: each node is drawn twice, with the same value.
struct TwoSteps {
    now: Box<dyn Cursor>,
    before: Box<dyn Cursor>,
    width: u64,
    last: i128,
}

impl Cursor for TwoSteps {
    fn step(&self) -> u64 {
        self.now.step()
    }

    fn advance(&mut self, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.last = self.now.advance(draw);
        if self.now.step() > self.width {
            self.last -= self.before.advance(draw);
        }
        self.last
    }

    fn seek(&mut self, step: u64, draw: &mut dyn FnMut(Node) -> i128) -> i128 {
        self.last = self.now.seek(step, draw) - self.before.seek(step.saturating_sub(self.width), draw);
        self.last
    }
}
